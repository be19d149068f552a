// Payments: what was received on all accounts, and what happened to each.

import { get, queryText, segment } from './api.js';
import { archived, ofOne } from './deliveries.js';
import { h } from './dom.js';
import { grouped, naira, plural, words } from './format.js';
import { gone, refundButton } from './refund.js';
import { setQuery, to } from './route.js';
import { asked, filters, list, orders, sortedBy, sorting, table } from './table.js';
import { amount, badge, card, code, copyButton, dim, empty, exported, facts, pageHead, refreshButton, region, retitle, sentence, time } from './ui.js';

// payer is who paid, as far as it is known: the name, the account and the bank.
const payer = (p) => [p.senderName || dim('Not named'), h('div', { class: 'reference' }, [p.senderAccount, p.senderBank].filter(Boolean).join(' · '))];

// paymentColumns are those of a table of payments.
export const paymentColumns = [
  { name: 'When', head: true, sort: 'created', value: (p) => h('a', { href: to`/payments/${p.id}` }, time(p.createdAt)) },
  { name: 'Payer', loose: true, value: payer },
  { name: 'Account', loose: true, value: (p) => [p.accountRef, h('div', null, dim(p.customerName))] },
  { name: 'Status', value: (p) => badge(p.status) },
  { name: 'Gross', number: true, sort: 'amount', value: (p) => amount(p.grossAmount, p.status) },
  { name: 'Fee', number: true, value: (p) => (p.fee === '0.00' ? dim('—') : amount(p.fee)) },
  { name: 'Net', number: true, value: (p) => amount(p.amount, p.status) },
];

// payments lists them, with their totals.
export function payments(_, query) {
  const change = (q) => {
    query = q;
    setQuery(q);
    link();
    return found.reload();
  };
  const found = list({
    caption: 'Payments', noun: 'payment', columns: paymentColumns, sorted: sorting(() => query, () => form, change), above: (data) => (data.of ? h('div', { class: 'stack' }, ofOne(data), sumsOf(data.sums)) : sumsOf(data.sums)),
    fetchPage: async ({ total, ...range }) => {
      const of = query.accountRef;
      const { payments: rows, pagination, sums } = await get('/auth/payments', { ...asked(query), ...sortedBy(query), ...range, sums: total });
      return { rows, pagination: { ...pagination, total: sums }, sums, of };
    },
    none: (data) => [Object.entries(query).some(([name, v]) => v && name !== 'sort') ? empty('No payments match.', 'Choose other dates, or clear the filters.')
      : empty('No payments yet.', 'Payments to your ', h('a', { href: '#/accounts' }, 'accounts'), ' appear here within moments.'), ofOne(data)],
  });
  const csv = h('a', { class: 'button', onclick: exported }, 'CSV');
  const link = () => { csv.href = '/auth/payments.csv' + queryText(asked(query)); };
  const form = filters([
    { name: 'search', label: 'Search', type: 'search', placeholder: 'Payer, session ID or bank’s reference' },
    { name: 'amount', label: 'Amount', placeholder: '12,000' },
    { name: 'from', label: 'From', type: 'date' }, { name: 'to', label: 'To', type: 'date' },
    { name: 'status', label: 'Status', options: [['', 'All'], ['provisional', 'Provisional'], ['confirmed', 'Confirmed'], ['reversed', 'Reversed'], ['needs_review', 'Needs review']] },
    { name: 'accountRef', label: 'Account', placeholder: 'Full reference' },
    orders([['amount-desc', 'Largest first'], ['amount-asc', 'Smallest first']]),
  ], query, change);
  link();
  const actions = [h('span', { class: 'dim' }, 'Export with these filters:'), csv, refreshButton(found.reload)];
  return { title: 'Payments', nodes: [pageHead('Payments', { actions }), form, found.box] };
}

// sumsOf is what all payments that the filters choose come to.
function sumsOf(s) {
  if (!s?.count) return null;
  if (!s.exact) return h('p', { class: 'dim' }, `More than ${grouped(s.count)} payments: choose dates to see their totals.`);
  const outside = s.byStatus.filter((x) => ['reversed', 'needs_review'].includes(x.status))
    .map((x) => `${plural(x.count, 'payment')} of ${naira(x.grossAmount)} ${x.status === 'reversed' ? 'reversed' : 'under review'}`);
  return h('section', { class: 'card sums', 'aria-label': 'Sums' },
    facts([['Gross', amount(s.grossAmount)], ['Fees', amount(s.fee)], ['Net', amount(s.amount)]]),
    outside.length > 0 && h('p', { class: 'dim' }, `Among these, not in the balance: ${outside.join(', ')}.`));
}

const steps = {
  paid: 'Paid', received: 'Received', posted: 'Posted to the account', published: 'Webhook', attempted: 'Webhook attempt', confirmed: 'Confirmed',
  recalled: 'The bank may have taken it back', recall_closed: 'Recall closed', reversed: 'Reversed', refunded: 'Refund',
};
const meanings = {
  provisional: 'In the balance. It covers payouts once the bank’s records confirm it.', confirmed: 'In the balance, and confirmed.',
  reversed: 'Taken out of the balance: the bank’s records do not confirm it, or it was taken back. If it turns out to be valid, or of another amount, it appears as a separate payment with the same bank reference.', needs_review: 'Not in the balance until a person has compared it with the bank’s records.',
};
const recalled = 'In the balance, but on hold: the bank may have taken it back. We are checking.';

// meaning is what a payment's status says of its money, unless something holds it, or it went elsewhere.
function meaning(p, open) {
  if (!['confirmed', 'provisional'].includes(p.status)) return meanings[p.status];
  const passed = Number(p.passedOn) > 0 && `${naira(p.passedOn)} of it was passed on to other accounts by the split, and is ${open ? 'held there, as far as it is left' : 'not in this balance'}.`;
  if (open) return passed ? `On hold: the bank may have taken it back. We are checking. ${passed}` : recalled;
  const back = gone(p);
  const held = p.held && `${naira(p.held.amount)} of it is held, and covers no payout${p.held.source === 'refund' ? ': it goes back to its sender, unless it is released' : ''}. ${sentence(p.held.reason)}`;
  const sent = back && `${naira(back)} of ${naira(p.amount)} went back to its sender, or is on its way there.`;
  if (passed || sent) return [words(p.status) + '.', passed, sent, held].filter(Boolean).join(' ');
  return held ? `In the balance, and ${p.status}. ${held}` : meanings[p.status];
}

// alike leads from a reversed payment to all with its reference, one of which may count in its place.
const alike = (p) => p.status === 'reversed' && p.providerTxnRef && [' ', h('a', { href: '#/payments' + queryText({ search: p.providerTxnRef }) }, 'Payments with this reference'), '.'];

const outcomes = { webhook: 'By the bank’s notice', reconciliation: 'Found in the bank’s list', replacement: 'In place of one with the same bank’s reference, which was reversed', reversed: 'It was taken back', kept: 'It was not taken back', watched: 'Its money is available again: the bank’s record has twice said that it was not taken back. We check for two more weeks; until then it cannot be refunded' };

// copyable is an id that is shown and copied whole.
function copyable(text, what) {
  const shown = code(text);
  return text && h('span', { class: 'copyable' }, shown, copyButton(text, what, shown));
}

// payment shows one, with what happened to it.
export function payment({ id }, _, session) {
  const found = region(() => get('/auth/payments/' + segment(id)), (p) => {
    const open = p.timeline.some((s) => s.step === 'recalled' && s.outcome === 'open');
    const unclear = p.timeline.some((s) => s.step === 'recalled' && s.outcome); // open, or watched: its money is not held
    retitle(top, p.senderName || 'Payment');
    return [
      h('section', { class: 'card', 'aria-label': 'Payment details' },
        h('p', { class: 'big' }, amount(p.grossAmount), ' ', badge(p.status)), h('p', { class: 'dim' }, meaning(p, open), alike(p)),
        facts([
          ['Fee', amount(p.fee)], ['Net', amount(p.amount)], ['Payer', p.senderName], ['Payer’s account', p.senderAccount && h('span', { class: 'figures' }, p.senderAccount)],
          ['Payer’s bank', p.senderBank && [p.senderBank, ' ', dim(p.senderBankCode)]], ['Narration', p.narration],
          ['Account', h('a', { href: to`/accounts/${p.accountId}` }, p.accountRef)], ['Account number', p.accountNumber && h('span', { class: 'figures' }, p.accountNumber)],
          ['Customer', h('a', { href: to`/customers/${p.customerId}` }, p.customerName)], ['Posted', time(p.createdAt)], ['Confirmed', p.confirmedAt && time(p.confirmedAt)],
          ['Payment ID', copyable(p.id, 'Payment ID')], ['Transaction group', copyable(p.transactionGroupId, 'Transaction group')],
        ]), h('div', { class: 'actions' }, p.status === 'confirmed' && !unclear && h('a', { class: 'button', href: `/auth/payments/${segment(p.id)}/receipt.pdf`, onclick: exported }, 'Receipt (PDF)'), refundButton(p, session))),
      card('To quote to the bank', facts([
        ['Bank’s reference', copyable(p.providerTxnRef, 'Bank’s reference')], ['Session ID', copyable(p.sessionId, 'Session ID')], ['Bank’s notice', copyable(p.requestId, 'Bank’s notice')],
      ])),
      card('Timeline', new Date(p.createdAt) < new Date(p.archivedBefore) && h('p', { class: 'dim' }, archived(p.archivedBefore)), h('div', { class: 'table exact' }, table('What happened', [
        { name: 'When', head: true, value: (s) => time(s.at) },
        { name: 'What', value: (s) => steps[s.step] ?? words(s.step) },
        { name: 'Outcome', wide: true, value: outcome },
        { name: 'Reference', loose: true, value: reference },
      ], p.timeline))),
    ];
  }, { rows: 3 });
  const top = pageHead('Payment', { up: { href: '#/payments', name: 'Payments' }, actions: refreshButton(found.reload) });
  return { title: 'Payment', nodes: [top, found.box] };
}

function outcome(s) {
  if (s.step === 'published') {
    const [type, status = 'logged'] = s.outcome.split(' ');
    return [type, ' ', badge(status)];
  }
  if (s.step === 'refunded') return [amount(s.amount), ' ', badge(s.outcome)];
  if (s.step === 'attempted') return h('span', { class: 'badge ' + (/^HTTP 2/.test(s.outcome) ? 'good' : 'bad') }, s.outcome);
  return outcomes[s.outcome] ?? (s.outcome || dim('—'));
}

function reference(s) {
  if (!s.reference) return dim('—');
  if (['published', 'attempted'].includes(s.step)) return h('a', { class: 'reference', href: to`/deliveries/${s.reference}` }, s.reference);
  if (s.step === 'refunded') return h('a', { class: 'reference', href: to`/transfers/${s.reference}` }, s.reference);
  return h('span', { class: 'reference' }, s.reference);
}
