// Transfers: settlements to other banks.

import { get, segment } from './api.js';
import { h } from './dom.js';
import { setQuery, to } from './route.js';
import { filters, list, read } from './table.js';
import { amount, badge, code, copyButton, dim, empty, facts, pageHead, refreshButton, region, time } from './ui.js';

const meaning = {
  pending: 'Queued. It is submitted once confirmed funds cover it.',
  processing: 'Submitted to the bank. We ask the bank until the outcome is known.',
  success: 'Paid, and confirmed by the bank.',
  failed: 'Not paid. The money is back in the account.',
  refunded: 'Paid, then returned by the bank. The money is back in the account.',
};

const columns = [
  { name: 'Reference', head: true, value: (t) => h('a', { class: 'reference', href: to`/transfers/${t.merchantTxRef}` }, t.merchantTxRef) },
  { name: 'From account', loose: true, value: (t) => t.accountRef },
  { name: 'To', value: (t) => [h('span', { class: 'figures' }, t.accountNumber), ' ', dim('bank ' + t.bankCode)] },
  { name: 'Amount', number: true, value: (t) => amount(t.amount) },
  { name: 'Status', value: (t) => badge(t.status) },
  { name: 'Created', value: (t) => time(t.createdAt) },
];

// transfers lists them, newest first.
export function transfers(_, query) {
  const found = list({
    caption: 'Transfers', noun: 'transfer', columns,
    fetchPage: (range) => read('/auth/transfers', 'transfers', { ...query, ...range }),
    none: () => (query.status || query.search || query.accountRef ? empty('No transfers match.')
      : empty('No transfers yet.', 'Payouts are made through the API: ', h('a', { href: '#/api' }, 'see the commands'), '.')),
  });
  const form = filters([
    { name: 'search', label: 'Search', type: 'search', placeholder: 'Reference, account or number' },
    { name: 'status', label: 'Status', options: [['', 'All'], ['pending', 'Pending'], ['processing', 'Processing'], ['success', 'Success'], ['failed', 'Failed'], ['refunded', 'Refunded']] },
  ], query, (q) => {
    query = q;
    setQuery(q);
    found.reload();
  });
  return { title: 'Transfers', nodes: [pageHead('Transfers', { actions: refreshButton(found.reload) }), form, found.box] };
}

// transfer shows one.
export function transfer({ ref }) {
  const found = region(() => get('/auth/transfers/' + segment(ref)), (t) => {
    const name = code(t.merchantTxRef);
    return h('section', { class: 'card', 'aria-label': 'Transfer details' },
      h('p', { class: 'big' }, amount(t.amount), ' ', badge(t.status)), h('p', { class: 'dim' }, meaning[t.status]),
      facts([
        ['Reference', h('span', { class: 'copyable' }, name, copyButton(t.merchantTxRef, 'Reference', name))],
        ['From account', h('a', { href: to`/accounts/${t.accountRef}` }, t.accountRef)],
        ['Failure reason', t.failureReason],
        ['To account number', h('span', { class: 'figures' }, t.accountNumber)], ['Account holder', t.accountName], ['Bank', t.bankName ? [t.bankName, ' ', dim(t.bankCode)] : h('span', { class: 'figures' }, t.bankCode)],
        ['Refund of', t.refundOf], ['Narration', t.narration], ['Bank fee', t.providerFee && amount(t.providerFee)],
        ['VAT', t.vat && amount(t.vat)], ['Stamp duty', t.stampDuty && amount(t.stampDuty)],
        ['Submissions', String(t.attemptCount)], ['Created', time(t.createdAt)], ['Last updated', time(t.updatedAt)],
      ]));
  }, { rows: 3 });
  return {
    title: 'Transfer',
    nodes: [pageHead('Transfer', { up: { href: '#/transfers', name: 'Transfers' }, actions: refreshButton(found.reload) }), found.box],
  };
}
