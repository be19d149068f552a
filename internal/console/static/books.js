// What was done, what the books say, and whether the bank agrees.

import { acts, listOf, listPage, reads, showPage } from './desk.js';
import { h } from './dom.js';
import { grouped } from './format.js';
import { sum } from './money.js';
import { setQuery, to } from './route.js';
import { filters, table } from './table.js';
import { badge, card, code, dim, facts, pageHead, refreshButton, region, time } from './ui.js';

export function auditLog(_, query) {
  return listPage({
    title: 'Audit log', lead: 'What people did by hand, newest first.', query, command: 'audit list', caption: 'Audit log', noun: 'entry', nouns: 'entries', none: 'No such entry.',
    fields: [{ name: 'action', label: 'Action', type: 'search', placeholder: 'review.confirm' }, { name: 'target', label: 'Target', type: 'search', placeholder: 'tenant:…' }],
    columns: [
      { name: 'Action', head: true, value: (a) => a.Action },
      { name: 'At', value: (a) => time(a.At) },
      { name: 'By', loose: true, value: (a) => a.Actor },
      { name: 'Target', loose: true, value: (a) => code(a.Target) },
      { name: 'Reason', wide: true, value: (a) => a.Reason || '—' },
    ],
  });
}

export function trialBalance(_, query) {
  let at = query?.at ?? '';
  const r = region(() => reads('ledger trial-balance', { at }), (b) => [
    h('p', { class: 'dim' }, `${b.ended ? 'At the end of' : 'So far on'} ${b.day} (Lagos): debits and credits `, badge(/^-?0+([.]0+)?$/.test(b.total) ? 'agree' : 'differs'), '.'),
    h('div', { class: 'table' }, table('Trial balance', [
      { name: 'Account', head: true, value: (a) => (systemAccounts.includes(a.account) ? h('a', { href: to`/system/${a.account}` }, a.account) : a.account) },
      { name: 'Debit', number: true, value: (a) => sum(a.debit) }, { name: 'Credit', number: true, value: (a) => sum(a.credit) },
    ], [...b.accounts, { account: 'Total', debit: b.debits, credit: b.credits }])),
  ]);
  return {
    title: 'Trial balance', nodes: [
      pageHead('Trial balance', { lead: 'The wallet at the bank (provider_float), all tenants’ accounts together, and each system account.', actions: [refreshButton(r.reload)] }),
      filters([{ name: 'at', label: 'At the end of', type: 'date' }], { at }, (q) => {
        setQuery(q);
        at = q.at;
        r.reload();
      }), r.box,
    ],
  };
}

const systemAccounts = ['provider_float', 'bank_fees', 'taxes', 'platform_revenue', 'suspense'];

export function systemAccount({ account }, query) {
  return listPage({
    title: account, lead: 'A system account, from its own side: a credit is money that came to it. Newest first.', query, command: 'ledger statement', fixed: { account }, caption: 'Entries', noun: 'entry', nouns: 'entries', none: 'No entry.',
    fields: [{ name: 'from', label: 'From', type: 'date' }, { name: 'to', label: 'To', type: 'date' }],
    columns: [
      { name: 'Posted', head: true, value: (l) => time(l.CreatedAt) }, { name: 'Entry', loose: true, value: (l) => [`${l.Direction}${l.Kind && ` (${l.Kind.replaceAll('_', ' ')})`}`, h('br'), dim(`other side: ${l.Other.replaceAll('_', ' ')}`)] },
      { name: 'Amount', number: true, value: (l) => sum(l.Amount) }, { name: 'Status', value: (l) => badge(l.Status) },
      { name: 'Reference', loose: true, value: (l) => (l.TransferRef ? h('a', { href: to`/transfers/${l.TransferRef}` }, l.TransferRef) : l.ProviderTxnRef || '—') }, { name: 'Narration', wide: true, value: (l) => l.Narration || '—' },
    ],
  });
}

// whyOpen says why reconciliations still ask about a payment or payout.
function whyOpen({ Exception: x, Effect }) {
  if (x) return `${x.kind}: ${x.detail ?? ''}`;
  return /[1-9]/.test(Effect) ? 'No exception, but wallet and books differ' : 'The bank has it under way';
}

export function reconciliations(_, query, session) {
  const open = listOf('reconcile open', { caption: 'Open items', noun: 'item', nouns: 'items', none: 'No open items.', columns: [
    { name: 'Reference', head: true, loose: true, value: (i) => `${i.Kind} ${i.Ref}` }, { name: 'Exception', wide: true, value: whyOpen }, { name: 'Effect', number: true, value: (i) => sum(i.Effect) },
    { name: 'Found', value: (i) => time(i.FoundAt) }, { name: 'Next', value: (i) => time(i.NextAt) },
    { name: 'Dismiss', value: (i) => (i.DismissedAt ? 'dismissed' : i.Exception && acts(session, { command: 'reconcile dismiss', label: 'Dismiss', values: { transaction: i.Ref }, text: 'It is not reported again.', done: () => open.reload() })) ?? dim('—') },
  ] });
  const page = listPage({
    title: 'Reconciliation', lead: 'Our books against the bank’s list.', query, command: 'reconcile list', caption: 'Reports', noun: 'report', nouns: 'reports', none: 'There was none yet.', above: { title: 'Open items', of: () => open },
    columns: [
      { name: 'Report', head: true, value: (r) => h('a', { href: to`/reconciliations/${r.ID}` }, r.Kind) }, { name: 'From', value: (r) => time(r.From) }, { name: 'To', value: (r) => time(r.To) }, { name: 'Status', value: (r) => badge(r.Status) },
      { name: 'Posted', number: true, value: (r) => String(r.Stored ?? '—') }, { name: 'Exceptions', number: true, value: (r) => String(r.Exceptions ?? '—') }, { name: 'Error', wide: true, value: (r) => r.LastError || '—' },
    ],
  });
  return page;
}

// signed shows a sum of the float, where there is one.
const signed = (v) => (v === null || v === undefined ? null : sum(v));
const spaced = (name) => name.replaceAll(/([A-Z])/g, ' $1').replace(/^./, (c) => c.toUpperCase());

// left says how many exceptions a report counts beside those that it lists.
function left({ counts, exceptions }) {
  const more = Object.values(counts).reduce((sum, n) => sum + n, 0) - exceptions.length;
  return more > 0 && h('p', { class: 'dim' }, `and ${grouped(more)} more`);
}

export function reconciliation({ id }) {
  return showPage({
    title: 'Reconciliation report', up: { href: '#/reconciliations', name: 'Reconciliation' }, command: 'reconcile show', query: { run: id },
    render: (r) => [
      card('Report', facts([['Kind', r.kind], ['From', time(r.from)], ['To', time(r.to)], ['Started', time(r.startedAt)], ['Finished', time(r.finishedAt)], ['Too young to tell', String(r.young)], ['ID', code(id)]])),
      card('The float', r.float.why && h('p', { class: 'note' }, `Not compared: ${r.float.why}.`),
        facts([['As of', r.float.at && time(r.float.at)], ...Object.entries(r.float).filter(([k]) => !['comparable', 'why', 'at', 'eventId', 'explained'].includes(k)).map(([k, v]) => [spaced(k), signed(v)])]),
        r.float.explained?.length > 0 && h('div', { class: 'table' }, table('What explains the difference', [
          { name: 'Because', head: true, loose: true, value: (e) => e.what }, { name: 'Reference', loose: true, value: (e) => e.ref || '—' }, { name: 'In the wallet', number: true, value: (e) => sum(e.amount) },
        ], r.float.explained))),
      card('Exceptions', r.exceptions?.length ? [h('div', { class: 'table' }, table('Exceptions', [
        { name: 'Kind', head: true, value: (e) => e.kind }, { name: 'Reference', loose: true, value: (e) => (e.merchantTxRef ? h('a', { href: to`/transfers/${e.merchantTxRef}` }, e.merchantTxRef) : e.providerTxnRef ?? '—') },
        { name: 'Bank', number: true, value: (e) => sum(e.bankAmount) }, { name: 'Books', number: true, value: (e) => sum(e.booksAmount) }, { name: 'At', value: (e) => time(e.at) }, { name: 'Detail', wide: true, value: (e) => e.detail || '—' }, { name: 'Event', value: (e) => (e.eventId ? h('a', { href: to`/events/${e.eventId}` }, 'Event') : '—') },
      ], r.exceptions)), left(r)] : dim('None.')),
    ],
  });
}
