// What is still to be done, what could not be delivered, and a search.

import { acts, listPage, reads, redraw, showPage } from './desk.js';
import { h } from './dom.js';
import { form } from './form.js';
import { grouped } from './format.js';
import { choice, sum } from './money.js';
import { to } from './route.js';
import { table } from './table.js';
import { badge, card, code, dim, empty, facts, pageHead, region, time } from './ui.js';

// standing is a delivery's status; an event that goes to no URL is in its tenant's log, and was delivered to nobody.
const standing = (d) => badge(d.callbackUrl ? d.status : 'logged');

export function deliveries(_, query) {
  return listPage({
    title: 'Webhooks', lead: 'Events on their way to tenants. A dead letter has used up its attempts.', query: { status: 'dead_letter', ...query }, command: 'deliveries list', caption: 'Webhooks', noun: 'delivery', nouns: 'deliveries', none: 'None.',
    fields: [choice('status', 'Status', 'pending', 'delivered', 'dead_letter'), { name: 'event', label: 'Event', placeholder: 'payment.received' }, { name: 'tenant', label: 'Tenant (ID or e-mail)' }],
    columns: [
      { name: 'Event', head: true, value: (d) => h('a', { href: to`/deliveries/${d.id}` }, d.eventType) }, { name: 'Created', value: (d) => time(d.createdAt) }, { name: 'Status', value: standing },
      { name: 'Attempts', number: true, value: (d) => String(d.attemptCount) }, { name: 'To', loose: true, value: (d) => d.callbackUrl || '—' }, { name: 'Last error', wide: true, value: (d) => d.lastError || '—' },
    ],
  });
}

export function delivery({ id }, _, session) {
  return showPage({
    title: 'Webhook', up: { href: '#/deliveries', name: 'Webhooks' }, command: 'deliveries show', query: { delivery: id },
    render: (d, reload) => [
      card('Delivery', facts([['Event', d.eventType], ['Status', standing(d)], ['To', d.callbackUrl], ['Account', d.accountRef], ['Attempts', String(d.attemptCount)], ['Last error', d.lastError], ['Created', time(d.createdAt)], ['Delivered', time(d.callbackUrl && d.deliveredAt)], ['Next', time(d.nextAttemptAt)], ['ID', code(id)]]),
        d.status === 'dead_letter' && h('div', { class: 'actions' }, acts(session, { command: 'deliveries replay', label: 'Send again', kind: 'main', danger: false, values: { delivery: id }, text: 'It gets a fresh set of attempts.', done: reload }))),
      card('Attempts', d.Attempts?.length ? h('div', { class: 'table' }, table('Attempts', [
        { name: 'Attempt', head: true, value: (a) => String(a.attempt) }, { name: 'At', value: (a) => time(a.startedAt) }, { name: 'Took', number: true, value: (a) => `${a.durationMs} ms` }, { name: 'Answer', value: (a) => (a.statusCode ? String(a.statusCode) : dim('none')) }, { name: 'Error', loose: true, value: (a) => a.error || '—' }, { name: 'Body', loose: true, value: (a) => a.responseBody.slice(0, 300) || '—' },
      ], d.Attempts)) : dim('None yet.')),
    ],
  });
}

const most = 10000; // items of a kind that are counted

// counted is a count, with a plus sign where the counting ended before the rows did.
const counted = (n, read) => (read > most ? grouped(Math.min(n, most)) + '+' : grouped(n));

export function work(_, query, session) {
  const summary = () => region(() => reads('work list', { summary: 'true' }), (all) => h('div', { class: 'table' }, table('Work by kind', [
    { name: 'Kind', head: true, value: (s) => s.Kind }, { name: 'Due', number: true, value: (s) => counted(s.Due, s.Due + s.Leased) }, { name: 'Oldest due', value: (s) => time(s.OldestDue) }, { name: 'Leased', number: true, value: (s) => counted(s.Leased, s.Due + s.Leased) },
    { name: 'Later', number: true, value: (s) => counted(s.Later, s.Later) },
  ], all)));
  return listPage({
    title: 'Work', lead: 'What is still to be done, when, and why it failed.', query, command: 'work list', caption: 'Work', noun: 'item', nouns: 'items', none: 'There is no such work.', above: { title: 'By age', of: summary },
    fields: [choice('kind', 'Kind', 'ingest', 'confirm', 'settle', 'deliver', 'expire'), ...[['due', 'Due'], ['failing', 'Failing'], ['leased', 'Leased']].map(([name, label]) => ({ name, label, options: [['', 'All'], ['true', 'Only']] })), { name: 'tenant', label: 'Tenant (ID or e-mail)' }],
    columns: [
      { name: 'Item', head: true, loose: true, value: (w) => `${w.Kind} ${w.ID}` }, { name: 'Due', value: (w) => time(w.DueAt) }, { name: 'Tenant', value: (w) => w.TenantName || '—' }, { name: 'Failures', number: true, value: (w) => String(w.Attempts) }, { name: 'Last error', wide: true, value: (w) => w.LastError || '—' },
      { name: 'Retry', value: (w) => acts(session, { command: 'work retry', label: 'Retry', danger: false, values: { id: w.ID, kind: w.Kind }, text: 'It is due now, and its failures are forgotten.', done: redraw }) ?? dim('—') },
    ],
  });
}

export function accountOf({ number }, _, session) {
  return showPage({
    title: 'Account ' + number, up: { href: '#/search', name: 'Search' }, command: 'accounts find', query: { number },
    render: (found, reload) => found.map((a) => card(`${a.AccountRef} of ${a.TenantName}`, facts([
      ['Status', badge(a.Status)], ['Balance', sum(a.Balance)], ['Number', a.BankAccountNumber], ['Name', a.BankAccountName], ['Tenant', h('a', { href: to`/tenants/${a.TenantID}` }, a.TenantName)], ['Last error', a.LastError], ['ID', code(a.ID)],
      ['See', h('a', { href: '#/events?number=' + a.BankAccountNumber }, 'bank events')],
    ]), h('div', { class: 'actions' },
      acts(session, { command: 'freeze account', label: 'Stop payouts', kind: 'danger', values: { account: a.ID }, text: 'Its payouts wait.', done: reload }),
      acts(session, { command: 'accounts close', label: 'Close', kind: 'danger', values: { account: a.ID }, text: 'For one that the bank does not close, or that was never opened.', done: reload }),
      acts(session, { command: 'accounts release', label: 'Release a hold', values: {}, fields: [{ name: 'hold', label: 'Hold', required: true, hint: 'ID' }], done: reload })))),
  });
}

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

// places are where a text may be found, by its form: [what, command, query, the address of what is found]. look counts what is there; null says that the list's page looked
// at so many rows only, none of which fits, and that there are others.
function places(text) {
  const found = [];
  const one = (what, command, query, href) => found.push({ what, href, look: async () => ((await reads(command, query)) ? 1 : 0) });
  const many = (what, query, href) => found.push({ what, href, look: async () => {
    const { items, pagination } = await reads('events list', { ...query, limit: 100 });
    return items.length || (pagination.hasMore ? null : 0);
  } });
  if (/^[0-9]{10}$/.test(text)) one('Account', 'accounts find', { number: text }, to`/accounts/${text}`);
  if (/^[0-9]{10}$/.test(text)) many('Payments to the number', { number: text }, '#/events?number=' + text);
  if (/^[0-9][0-9,]*([.][0-9]{1,2})?$/.test(text)) many('Payments of the sum', { amount: text.replaceAll(',', '') }, '#/events?amount=' + text.replaceAll(',', ''));
  if (uuid.test(text)) {
    for (const [what, command, name, path] of [['Bank event', 'events show', 'event', 'events'], ['Tenant', 'tenant show', 'tenant', 'tenants'], ['Customer', 'customers show', 'customer', 'customers'], ['Webhook', 'deliveries show', 'delivery', 'deliveries'], ['Reconciliation', 'reconcile show', 'run', 'reconciliations']]) {
      one(what, command, { [name]: text }, `#/${path}/${text}`);
    }
  }
  if (/^[0-9]{20,}$/.test(text)) many('Payments of the session ID', { session: text }, '#/events?session=' + text);
  else if (/[^0-9.,]/.test(text) && !text.includes('@') && !uuid.test(text)) many('Payments by a payer of the name, among the newest', { payer: text }, '#/events?payer=' + encodeURIComponent(text));
  if (text.includes('@')) one('Tenant', 'tenant show', { tenant: text }, to`/tenants/${text}`);
  if (!text.includes(' ') && !text.includes('@')) {
    one('Payout', 'transfers show', { reference: text }, to`/transfers/${text}`);
    many('Bank events of the transaction', { transaction: text }, '#/events?transaction=' + encodeURIComponent(text));
  }
  return found;
}

// named finds tenants by a part of their name, among the newest 500, and says so where there are more.
async function named(text) {
  const found = [];
  let after = '';
  for (let i = 0; i < 5 && after !== null; i++) {
    const { items, pagination } = await reads('tenant list', { limit: 100, after });
    found.push(...items.filter((t) => t.Name.toLowerCase().includes(text.toLowerCase())));
    after = pagination.hasMore ? pagination.nextCursor : null;
  }
  const hits = found.map((t) => ({ what: `Tenant ${t.Name}`, href: to`/tenants/${t.ID}`, count: 1 }));
  return after === null ? hits : [...hits, { what: 'Other tenants by the name', href: '#/tenants', count: null }];
}

// search asks each command that could know the text. One that refuses it does not have it; a fault is shown.
async function search(text) {
  const hits = await Promise.all(places(text).map(async (p) => {
    try {
      return { ...p, count: await p.look() };
    } catch (e) {
      if ([400, 404, 422].includes(e.status)) return { ...p, count: 0 };
      throw e;
    }
  }));
  return [...hits.filter((p) => p.count !== 0), ...await named(text)];
}

export function searchPage(_, { q = '' }) {
  const f = form([{ name: 'q', label: 'Number, reference, ID, session ID, e-mail, name of a payer or a tenant, or sum', type: 'search', required: true, maxlength: 100, value: q, autocomplete: 'off', spellcheck: 'false' }], 'Search', async (v) => {
    location.hash = '#/search?' + new URLSearchParams({ q: v.q });
  });
  const found = q && region(() => search(q), (hits) => (hits.length === 0 ? empty('Nothing was found.', 'Try the whole number, reference or sum.') : h('div', { class: 'table' }, table('Found', [
    { name: 'What', head: true, value: (p) => h('a', { href: p.href }, p.what) }, { name: 'How many', number: true, value: (p) => (p.count === null ? 'not known: older ones were not looked at' : p.count === 100 ? '100 or more' : String(p.count)) },
  ], hits))));
  return { title: 'Search', nodes: [pageHead('Search'), card('What for', f), found && found.box] };
}

