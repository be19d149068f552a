// Payments that the bank's records did not settle: the bank's record beside ours, and the decision.

import { h } from './dom.js';
import { acts, listPage, showPage } from './desk.js';
import { to } from './route.js';
import { table } from './table.js';
import { amount, badge, card, code, dim, facts, time } from './ui.js';

export function reviews(_, query) {
  return listPage({
    title: 'Reviews', lead: 'Payments that the bank’s records did not settle. They are in no balance until somebody decides.', query,
    command: 'review list', caption: 'Payments under review', noun: 'payment', nouns: 'payments', none: 'No payment needs a review.',
    columns: [
      { name: 'Payment', head: true, value: (v) => h('a', { href: to`/reviews/${v.EventID}` }, v.SenderName || 'Unknown sender') },
      { name: 'Posted', value: (v) => time(v.PostedAt) },
      { name: 'Amount', number: true, value: (v) => amount(v.GrossAmount) },
      { name: 'Tenant', value: (v) => v.TenantName },
      { name: 'Account', loose: true, value: (v) => v.AccountRef },
      { name: 'Why', wide: true, value: (v) => v.Why },
    ],
  });
}

const money = (text) => (text === null || text === undefined ? '—' : amount(text));
const at = (text) => (text?.startsWith('0001') ? dim('—') : time(text));

// beside is our record and the bank's, a line for each part. What differs is marked in words.
function beside({ Event: e, Bank: b }) {
  const rows = [
    ['Transaction', e.ProviderTxnRef, b?.ID, code], ['Amount', e.Amount, b?.Amount, money], ['Fee', e.Fee, b?.Fee, money],
    ['Account number', e.AliasNumber, b?.AccountNumber], ['Reference', e.Alias, b?.AccountRef], ['Sender', e.SenderName, b?.SenderName],
    ['Narration', e.Narration, b?.Narration], ['Time', e.OccurredAt, b?.Time, at],
  ];
  // only times are read as such: to Date.parse 50.01 and 1950.01 are one day
  const same = (x, y, show) => !b || !x || !y || (show === at ? Date.parse(x) === Date.parse(y) : String(x) === String(y));
  return h('div', { class: 'table' }, table('Our record and the bank’s', [
    { name: 'What', head: true, value: ([what]) => what },
    { name: 'Ours', loose: true, value: ([, ours, , show = String]) => (ours ? show(ours) : dim('—')) },
    { name: 'The bank’s', loose: true, value: ([, , theirs, show = String]) => (theirs ? show(theirs) : dim('—')) },
    { name: 'Same', value: ([, ours, theirs, show]) => (same(ours, theirs, show) ? dim(b && ours && theirs ? 'yes' : '—') : badge('differs')) },
  ], rows));
}

export function review({ id }, _, session) {
  return showPage({
    title: 'Payment under review', up: { href: '#/reviews', name: 'Reviews' }, command: 'review show', query: { event: id },
    render: (c, reload) => {
      const act = (command, label, more) => acts(session, { command, label, values: { event: id }, done: reload, ...more });
      const open = c.Review !== null;
      return [
        card('State', facts([
          ['Status', badge(open ? 'needs_review' : c.Event.Status)], ['Why', c.Review?.Why], ['Tenant', c.Review?.TenantName], ['Account', c.Review?.AccountRef],
          ['In the balance, if confirmed', c.Review && [amount(c.Review.Brings), c.Review.Split && dim(', less what the account’s split passes on')]], ['The bank says', c.Bank && badge(c.Bank.Status)], ['Event', code(id)],
        ]), c.NoBank && h('p', { class: 'note' }, `The bank’s record could not be read: ${c.NoBank}.`), h('div', { class: 'actions' }, open
          ? [act('review confirm', 'Confirm', { kind: 'main', danger: false, text: 'It counts as received. Ask the bank first: the money must be there.' }),
            act('review reverse', 'Reverse', { kind: 'danger', text: 'It is given up, for good.' }),
            act('review correct', 'Correct the sum', { text: 'The bank has another sum than the event. Ask it first: the money must be there.', fields: sums })]
          : [act('review restore', 'Restore', { text: 'It was reversed, and the bank’s record now says that it succeeded.' }),
            act('review correct', 'Correct the sum', { text: 'It was reversed, and the bank’s record has another sum.', fields: sums }),
            act('review sender', 'Read the sender', { danger: false, text: 'The payer is stored from the bank’s record, so that the payment can be refunded.' }),
            act('recalls open', 'Hold as recalled', { text: 'The bank may have taken it back: it is held, and the bank is asked.' })])),
        card('The bank’s record beside ours', beside(c)),
      ];
    },
  });
}

const sums = [
  { name: 'amount', label: 'Amount, before the fee', required: true, inputmode: 'decimal', pattern: '[0-9]+([.][0-9]{1,2})?', hint: 'In naira, as 5000.00' },
  { name: 'fee', label: 'The bank’s fee', required: true, inputmode: 'decimal', pattern: '[0-9]+([.][0-9]{1,2})?', hint: 'In naira, as 25.00' },
];
