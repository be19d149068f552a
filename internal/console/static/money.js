// Money on its way: the bank's events, what may be taken back, payouts, and what stops them.

import { acts, listPage, reads, redraw, showPage } from './desk.js';
import { h } from './dom.js';
import { to } from './route.js';
import { table } from './table.js';
import { amount, badge, card, code, dim, facts, region, time } from './ui.js';

export const sum = (text) => (text === null || text === undefined || text === '' ? dim('—') : amount(text));
const choice = (name, label, ...values) => ({ name, label, options: [['', 'All'], ...values.map((v) => [v, v.replaceAll('_', ' ')])] });
const naira = { inputmode: 'decimal', pattern: '[0-9]+([.][0-9]{1,2})?' };

const eventColumns = [
  { name: 'Event', head: true, value: (e) => h('a', { href: to`/events/${e.ID}` }, e.SenderName || e.EventType || 'Event') },
  { name: 'Received', value: (e) => time(e.ReceivedAt) },
  { name: 'Amount', number: true, value: (e) => sum(e.Amount) },
  { name: 'Status', value: (e) => badge(e.Status) },
  { name: 'Category', value: (e) => (e.Category ? badge(e.Category) : dim('—')) },
  { name: 'Paid to', loose: true, value: (e) => e.AliasNumber || e.Alias || '—' },
  { name: 'Why', wide: true, value: (e) => (e.ReturnedBy ? `It goes back by ${e.ReturnedBy}` : e.ErrorMessage || e.LastError || '—') },
];

export function misdirected(_, query) {
  return listPage({
    title: 'Misdirected', lead: 'Payments that match no account. Assign it, or pay it back to its sender.', query,
    command: 'events list', fixed: { category: 'misdirected' }, caption: 'Misdirected payments', noun: 'payment', nouns: 'payments', none: 'No payment is misdirected.', columns: eventColumns,
  });
}

export function events(_, query) {
  return listPage({
    title: 'Bank events', lead: 'What the bank has sent, and what became of it.', query, command: 'events list', caption: 'Bank events', noun: 'event', nouns: 'events', none: 'No such event.', columns: eventColumns,
    fields: [
      choice('category', 'Category', 'payment', 'misdirected', 'sig_invalid', 'non_payment_event', 'processing_error'), choice('status', 'Status', 'received', 'processed', 'ignored', 'failed'),
      { name: 'day', label: 'Day (Lagos)', type: 'date' }, { name: 'amount', label: 'Amount', type: 'text', placeholder: '5000.00' }, { name: 'number', label: 'Account number' }, { name: 'transaction', label: 'Transaction' },
      { name: 'payer', label: 'Payer’s name', type: 'search' }, { name: 'session', label: 'Session ID' },
    ],
  });
}

export function event({ id }, _, session) {
  return showPage({
    title: 'Bank event', up: { href: '#/events', name: 'Bank events' }, command: 'events show', query: { event: id },
    render: (e, reload) => {
      const act = (command, label, more) => acts(session, { command, label, values: { event: id }, done: reload, ...more });
      return card('Event', facts([
        ['Status', badge(e.Status)], ['Category', e.Category && badge(e.Category)], ['Why', e.ErrorMessage || e.LastError], ['Amount', sum(e.Amount)], ['Fee', sum(e.Fee)], ['Sender', e.SenderName],
        ['Narration', e.Narration], ['Paid to', e.AliasNumber || e.Alias], ['At', time(e.OccurredAt)], ['Received', time(e.ReceivedAt)], ['Transaction', e.ProviderTxnRef && code(e.ProviderTxnRef)],
        ['Signature', e.SignatureValid ? 'valid' : badge('invalid')], ['Goes back by', e.ReturnedBy && code(e.ReturnedBy)], ['Payer by the bank', e.Payer && `${e.Payer.Name}, ${e.Payer.AccountNumber}, ${e.Payer.BankName}`],
        ['Tenant', e.TenantID && h('a', { href: to`/tenants/${e.TenantID}` }, code(e.TenantID))], ['Account', e.AccountID && code(e.AccountID)], ['Event', code(id)],
      ]), h('div', { class: 'actions' },
        e.Category === 'misdirected' && !e.ReturnedBy && act('events assign', 'Assign', { kind: 'main', danger: false, text: 'It is posted to an account: the fee and the webhook are as for any payment.', fields: [
          { name: 'account', label: 'Account', required: true, hint: 'Its ID or, with a tenant, its reference' }, { name: 'tenant', label: 'Tenant', hint: 'ID or e-mail; only with a reference' },
        ] }),
        e.Category === 'misdirected' && !e.ReturnedBy && act('events refund', 'Refund', { kind: 'danger', text: 'It is paid back to its sender, as the bank’s record names it.', fields: [
          { name: 'account', label: 'Another account', inputmode: 'numeric', pattern: '[0-9]{10}', hint: 'Of the sender, if the one that paid takes nothing' }, { name: 'bank', label: 'Its bank', inputmode: 'numeric', pattern: '[0-9]{3,6}', hint: 'Code; only with an account' },
        ] }),
        e.Category === 'processing_error' && act('events repost', 'Repost', { text: 'It could not be posted: it is posted from the bank’s own record.' }),
        e.Category === 'payment' && act('recalls open', 'Hold as recalled', { text: 'The bank may have taken it back: it is held, and the bank is asked.' }),
        h('a', { class: 'button small', href: to`/reviews/${id}` }, 'The bank’s record')));
    },
  });
}

export function recalls(_, query, session) {
  const decide = (v) => ((v.Status === 'open' || v.Status === 'watched') ? h('div', { class: 'actions' },
    acts(session, { command: 'recalls reverse', label: 'Reverse', values: { event: v.EventID }, kind: 'danger', text: 'The bank has taken it back.', done: redraw }),
    acts(session, { command: 'recalls keep', label: 'Keep', values: { event: v.EventID }, danger: false, text: 'The bank has not taken it back.', done: redraw })) : dim('—'));
  return listPage({
    title: 'Recalls', lead: 'Payments that the bank may have taken back. What is held of them covers no payout.', query, command: 'recalls list', caption: 'Recalls', noun: 'recall', nouns: 'recalls', none: 'No recall.',
    fields: [choice('status', 'Status', 'open', 'reversed', 'watched', 'kept')],
    columns: [
      { name: 'Payment', head: true, value: (v) => h('a', { href: to`/reviews/${v.EventID}` }, v.SenderName || 'Unknown sender') }, { name: 'Opened', value: (v) => time(v.OpenedAt) },
      { name: 'Status', value: (v) => badge(v.Status) }, { name: 'Amount', number: true, value: (v) => sum(v.Amount) }, { name: 'Held', number: true, value: (v) => sum(v.Held) },
      { name: 'Tenant', value: (v) => v.TenantName }, { name: 'Account', loose: true, value: (v) => v.AccountRef }, { name: 'Last answer', wide: true, value: (v) => v.LastError || '—' }, { name: 'Decide', value: decide },
    ],
  });
}

export function transfers(_, query, session) {
  return listPage({
    title: 'Payouts', lead: 'Those that wait are pending; those whose outcome is not known, processing.', query, command: 'transfers list', caption: 'Payouts', noun: 'payout', nouns: 'payouts', none: 'No such payout.',
    actions: [acts(session, { command: 'transfers adopt', label: 'Adopt payouts', text: 'Payouts that only the bank has are booked.', fields: [
      { name: 'references', label: 'References', required: true, hint: 'merchantTxRef of each, with blanks between' }, { name: 'account', label: 'Account', hint: 'ID of the account that paid, where the reference names none' },
    ] })],
    fields: [
      choice('status', 'Status', 'pending', 'processing', 'success', 'failed', 'refunded'),
      { name: 'differing', label: 'Against the bank', options: [['', 'All'], ['true', 'contradicting']] }, { name: 'tenant', label: 'Tenant (ID or e-mail)' },
    ],
    columns: [
      { name: 'Payout', head: true, loose: true, value: (t) => h('a', { href: to`/transfers/${t.MerchantTxRef}` }, t.MerchantTxRef) }, { name: 'Created', value: (t) => time(t.CreatedAt) },
      { name: 'Status', value: (t) => badge(t.Status) }, { name: 'Amount', number: true, value: (t) => [sum(t.PaidAmount ?? t.Amount), t.PaidAmount && h('div', null, dim('of ', sum(t.Amount)))] }, { name: 'Tenant', value: (t) => t.TenantName },
      { name: 'To', loose: true, value: (t) => `${t.AccountName || '?'}, ${t.AccountNumber || '?'}` }, { name: 'Next step', value: (t) => time(t.NextAttemptAt) }, { name: 'Last error', wide: true, value: (t) => t.LastError || '—' },
    ],
  });
}

export function transfer({ ref }, _, session) {
  return showPage({
    title: 'Payout', up: { href: '#/transfers', name: 'Payouts' }, command: 'transfers show', query: { reference: ref },
    render: (t, reload) => {
      const act = (command, label, more) => acts(session, { command, label, values: { reference: ref }, done: reload, ...more });
      return [card('Payout', facts([
        ['Status', badge(t.Status)], ['Amount', sum(t.Amount)], ['Sum that left', t.PaidAmount && sum(t.PaidAmount)], ['The bank’s record', t.Difference && [t.DiffersSince ? badge('differs') : 'Resolved', ' ', t.Difference]], ['Next step', t.NextStep], ['Last error', t.LastError], ['Tenant', t.TenantName && h('a', { href: to`/tenants/${t.TenantID}` }, t.TenantName)],
        ['From', t.AccountRef], ['To', `${t.AccountName || 'holder not known'}, ${t.AccountNumber || 'number not known'}, bank ${t.BankCode || 'not known'}`], ['Narration', t.Narration], ['Submissions', String(t.AttemptCount)],
        ['Questions since', String(t.AskCount)], ['Answered “not known”', String(t.UnknownCount)], ['Submitted', time(t.SubmittedAt)], ['Created', time(t.CreatedAt)], ['Acknowledged', time(t.AcknowledgedAt)], ['Ended by', t.EndedBy], ['Failure reason', t.FailureReason], ['Due', time(t.NextAttemptAt)], ['Reference', code(t.MerchantTxRef)],
      ]), h('div', { class: 'actions' },
        act('transfers poll', 'Ask now', { danger: false, text: 'Its next step is due now.' }),
        act('transfers cancel', 'Cancel payout', { kind: 'danger', text: 'It was never submitted: its money returns to the balance.' }),
        act('transfers resolve', 'Resolve as paid', { values: { reference: ref, paid: 'true' }, text: 'The bank has told a person that it has paid it.', fields: [{ name: 'amount', label: 'Sum that left', ...naira, hint: 'Only if it differs from what was ordered' }] }),
        act('transfers resolve', 'Resolve as not paid', { values: { reference: ref, 'not-paid': 'true' }, kind: 'danger', text: 'The bank has told a person that it has not paid it, or that the money is back.' }),
        act('transfers charges', 'Book charges', { text: 'What the bank charged, if its record does not name it.', fields: [
          { name: 'fee', label: 'Fee', required: true, ...naira }, { name: 'vat', label: 'VAT', ...naira }, { name: 'stamp-duty', label: 'Stamp duty', ...naira },
        ] }))),
      card('Entries', t.Entries?.length ? h('div', { class: 'table' }, table('Entries', [
        { name: 'Entry', head: true, value: (e) => [e.Direction, e.Kind && ` (${e.Kind.replaceAll('_', ' ')})`, e.ReversalOf && ', a reversal'] }, { name: 'Amount', number: true, value: (e) => sum(e.Amount) }, { name: 'Status', value: (e) => badge(e.Status) }, { name: 'At', value: (e) => time(e.CreatedAt) },
      ], t.Entries)) : dim('None.'))];
    },
  });
}

// until is how long a freeze stands.
const until = { name: 'until', label: 'For how long', options: [['', 'Until it is lifted'], ['1h', 'An hour'], ['4h', 'Four hours'], ['24h', 'A day'], ['48h', 'Two days']] };

// suspension reports whether it is no freeze, but a tenant that is suspended.
const suspension = (f) => f.Scope === 'suspension';

// ended reports whether a freeze was lifted, or its time has come.
const ended = (f) => f.LiftedAt || (f.Until && new Date(f.Until) <= new Date());

export function freezes(_, query, session) {
  const page = listPage({
    title: 'Freezes', lead: 'What operators have stopped. Payouts that are not at the bank yet wait; money that comes in is posted.', query: { status: 'standing', ...query }, command: 'freeze list', caption: 'Freezes', noun: 'freeze', nouns: 'freezes', none: 'No such freeze.',
    actions: [
      acts(session, { command: 'freeze payouts', label: 'Stop ALL payouts', kind: 'danger', text: 'No payout of any tenant goes to the bank any more, from the moment this is done.', fields: [until], done: redraw }),
      acts(session, { command: 'freeze tenant', label: 'Stop a tenant', kind: 'danger', text: 'Its payouts wait.', fields: [{ name: 'tenant', label: 'Tenant', required: true, hint: 'ID or e-mail' }, until], done: redraw }),
      acts(session, { command: 'freeze account', label: 'Stop an account', kind: 'danger', text: 'Its payouts wait.', fields: [
        { name: 'account', label: 'Account', required: true, hint: 'ID' }, { name: 'all', label: 'New settle requests', options: [['', 'Wait'], ['true', 'Are refused']] }, until,
      ], done: redraw }),
    ],
    fields: [choice('status', 'Status', 'standing', 'ended')],
    columns: [
      { name: 'Stops', head: true, loose: true, value: (f) => (f.Scope === 'payouts' ? 'ALL payouts' : `${f.Scope} ${f.Subject}`) + (f.Requests ? ', requests too' : '') }, { name: 'Since', value: (f) => time(f.CreatedAt) },
      { name: 'Until', value: (f) => time(f.Until, suspension(f) ? 'it is activated' : 'it is lifted') }, { name: 'Lifted', value: (f) => time(f.LiftedAt) }, { name: 'By', loose: true, value: (f) => f.Actor }, { name: 'Reason', wide: true, value: (f) => f.Reason },
      { name: 'Lift', value: (f) => (suspension(f) ? h('a', { href: to`/tenants/${f.Subject}` }, 'See the tenant') : ended(f) ? dim('—') : acts(session, { command: 'freeze lift', label: 'Lift', values: { freeze: f.ID }, text: 'Its payouts go on at once, unless something else stops them too.', done: redraw })) ?? dim('—') },
    ],
  });
  return page;
}

// holds are the open ones of all tenants, summed up and one by one.
export function holds(_, query, session) {
  const sums = ({ tenant, source, older }) => region(() => reads('accounts holds', { summary: 'true', tenant, source, older }), (all) => h('div', { class: 'table' }, table('Sums of holds', [
    { name: 'Tenant', head: true, loose: true, value: (s) => s.TenantName }, { name: 'Source', value: (s) => s.Source || '—' }, { name: 'Holds', number: true, value: (s) => String(s.Count) }, { name: 'Sum', number: true, value: (s) => sum(s.Amount) },
    { name: 'Oldest', value: (s) => time(s.Oldest) },
  ], [...all.items, { TenantName: 'All', Count: all.count, Amount: all.total }])));
  return listPage({
    title: 'Holds', lead: 'Money that may not leave: a tenant’s own holds, and those of limits, policies, refunds and of shares of recalled payments. What is held of a recalled payment itself is no hold: see Recalls.', query, command: 'accounts holds', caption: 'Holds', noun: 'hold', nouns: 'holds', none: 'No such hold.', above: { title: 'All holds', of: sums },
    fields: [choice('source', 'Source', 'tenant', 'limit', 'policy', 'refund', 'recall'), { name: 'older', label: 'Held for', options: [['', 'Any time'], ['24h', 'A day or more'], ['168h', 'A week or more'], ['720h', 'Thirty days or more']] }, { name: 'tenant', label: 'Tenant (ID or e-mail)' }],
    columns: [
      { name: 'Account', head: true, loose: true, value: (v) => v.accountRef }, { name: 'Since', value: (v) => time(v.createdAt) }, { name: 'Amount', number: true, value: (v) => sum(v.amount) }, { name: 'Source', value: (v) => v.source },
      { name: 'Tenant', value: (v) => v.TenantName }, { name: 'Until', value: (v) => time(v.until, 'it is released') }, { name: 'Payment', value: (v) => (v.entryId ? code(v.entryId) : dim('—')) }, { name: 'Reason', wide: true, value: (v) => v.reason || '—' },
      { name: 'Release', value: (v) => (v.source !== 'recall' ? acts(session, { command: 'accounts release', label: 'Release', values: { hold: v.id }, text: 'The hold ends. Payouts can use the money unless the bank has not confirmed it yet or may have taken it back, or a limit holds it.', done: redraw }) : null) ?? dim('—') },
    ],
  });
}

export function dormant(_, query) {
  return listPage({
    title: 'Dormant accounts', lead: 'Open accounts without transactions for that long.', query, command: 'accounts dormant', caption: 'Dormant accounts', noun: 'account', nouns: 'accounts', none: 'No account is dormant.',
    fields: [{ name: 'months', label: 'Without a movement for', options: [['', 'A year'], ['3', 'Three months'], ['6', 'Six months'], ['24', 'Two years']] }],
    columns: [
      { name: 'Account', head: true, loose: true, value: (a) => (a.Number ? h('a', { href: to`/accounts/${a.Number}` }, a.AccountRef) : a.AccountRef) }, { name: 'Tenant', value: (a) => a.TenantName }, { name: 'Status', value: (a) => badge(a.Status) },
      { name: 'Balance', number: true, value: (a) => sum(a.Balance) }, { name: 'Opened', value: (a) => time(a.CreatedAt) }, { name: 'Last movement', value: (a) => time(a.LastAt, 'none') },
    ],
  });
}

export { choice, naira };
