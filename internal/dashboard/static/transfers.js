// Transfers: settlements to other banks.

import { get, segment } from './api.js';
import { approval } from './approval.js';
import { h } from './dom.js';
import { naira } from './format.js';
import { setQuery, to } from './route.js';
import { asked, filters, list, orders, read, sortedBy, sorting } from './table.js';
import { amount, announce, badge, code, copyButton, dim, empty, exported, facts, follow, pageHead, refreshButton, region, time } from './ui.js';

// state is the status, or that it waits for people.
const state = (t) => (t.awaiting === 'approval' ? 'awaiting_approval' : t.status);

const meaning = {
  awaiting_approval: 'The account has been debited. The bank gets the payout once enough members have approved it.',
  pending: 'Queued. It is submitted once confirmed funds cover it, unless payouts are stopped.',
  processing: 'Submitted to the bank. We ask the bank until the outcome is known.',
  success: 'Paid.',
  failed: 'Not paid. The money is back in the account.',
  refunded: 'The money is back in the account.',
};

// said is what a transfer's state means. Of one that was not made, the bank may keep its charges.
const said = (t) => meaning[state(t)] + (['failed', 'refunded'].includes(t.status) && t.providerFee ? ' The bank kept its charges, which are not back where the account bears them.' : '');

// contradicted is that the bank's record says otherwise of a transfer that has ended.
const contradicted = (t) => t.differs && ['success', 'failed', 'refunded'].includes(t.status);

// transferColumns are those of a table of transfers.
export const transferColumns = [
  { name: 'Reference', head: true, value: (t) => h('a', { class: 'reference', href: to`/transfers/${t.merchantTxRef}` }, t.merchantTxRef) },
  { name: 'From account', loose: true, value: (t) => t.accountRef },
  { name: 'To', value: (t) => (t.accountNumber || t.bankCode ? [h('span', { class: 'figures' }, t.accountNumber), ' ', t.bankCode && dim('bank ' + t.bankCode)] : dim('not known')) },
  { name: 'Amount', number: true, sort: 'amount', value: (t) => [amount(t.paidAmount ?? t.amount), t.paidAmount && h('div', null, dim('of ', naira(t.amount)))] },
  { name: 'Status', value: (t) => badge(state(t)) },
  { name: 'Created', sort: 'created', value: (t) => time(t.createdAt) },
];

// transfers lists them.
export function transfers(_, query, session) {
  const change = (q) => {
    query = q;
    setQuery(q);
    return found.reload();
  };
  const found = list({
    caption: 'Transfers', noun: 'transfer', columns: transferColumns, sorted: sorting(() => query, () => form, change),
    fetchPage: (range) => read('/auth/transfers', 'transfers', { ...asked(query), ...sortedBy(query), ...range }),
    none: () => (query.status || query.awaiting || query.search || query.amount || query.accountRef ? empty('No transfers match.')
      : empty('No transfers yet.', 'Payouts are made here by members with the role finance, or through the API: ', h('a', { href: '#/api' }, 'see the commands'), '.')),
  });
  const form = filters([
    { name: 'search', label: 'Search', type: 'search', placeholder: 'Reference, account or number' },
    { name: 'amount', label: 'Amount', placeholder: '12,000' },
    { name: 'status', label: 'Status', options: [['', 'All'], ['pending', 'Pending'], ['processing', 'Processing'], ['success', 'Success'], ['failed', 'Failed'], ['refunded', 'Refunded']] },
    { name: 'awaiting', label: 'Approval', options: [['', 'All'], ['approval', 'Awaits approval']] },
    orders([['amount-desc', 'Largest first'], ['amount-asc', 'Smallest first']]),
  ], query, change);
  return { title: 'Transfers', nodes: [pageHead('Transfers', { actions: [session.may('finance') && h('a', { class: 'button main', href: '#/payout' }, 'Pay out'), refreshButton(found.reload)] }), form, found.box] };
}

// transfer shows one.
export function transfer({ ref }, _, session) {
  const path = '/auth/transfers/' + segment(ref);
  let last; // its state when it was read last
  const found = region(async () => {
    const t = await get(path);
    if (last && last !== state(t)) announce(said(t));
    last = state(t);
    return { t, a: await get(path + '/approval') };
  }, ({ t, a }) => {
    const name = code(t.merchantTxRef);
    return [h('section', { class: 'card', 'aria-label': 'Transfer details' },
      h('p', { class: 'big' }, amount(t.paidAmount ?? t.amount), ' ', badge(state(t))), h('p', { class: 'dim' }, said(t), contradicted(t) && ' But the bank’s record says otherwise, and the service’s operators look into it.'),
      facts([
        ['Reference', h('span', { class: 'copyable' }, name, copyButton(t.merchantTxRef, 'Reference', name))],
        ['From account', h('a', { href: to`/accounts/${t.accountId}` }, t.accountRef)],
        ['Ordered', t.paidAmount && amount(t.amount)], ['Failure reason', t.failureReason],
        ['To account number', t.accountNumber ? h('span', { class: 'figures' }, t.accountNumber) : 'Not known'], ['Account holder', t.accountName], ['Bank', t.bankName ? [t.bankName, ' ', dim(t.bankCode)] : t.bankCode ? h('span', { class: 'figures' }, t.bankCode) : 'Not known'],
        ['Refund of', t.refundOf && h('a', { href: to`/payments/${t.refundOf}` }, t.refundOf)], ['Narration', t.narration], ['Bank fee', t.providerFee && amount(t.providerFee)],
        ['VAT', t.vat && amount(t.vat)], ['Stamp duty', t.stampDuty && amount(t.stampDuty)],
        ['Submissions', String(t.attemptCount)], ['Created', time(t.createdAt)], ['Last updated', time(t.updatedAt)],
      ]), t.status === 'success' && !t.differs && h('div', { class: 'actions' }, h('a', { class: 'button', href: path + '/receipt.pdf', onclick: exported }, 'Receipt (PDF)'))), approval(t, a, path, session, () => found.reload())];
  }, { rows: 3 });
  follow(found, () => last, ['pending', 'processing'], ['awaiting_approval']);
  return {
    title: 'Transfer',
    nodes: [pageHead('Transfer', { up: { href: '#/transfers', name: 'Transfers' }, actions: refreshButton(found.reload) }), found.box],
  };
}
