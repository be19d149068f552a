// Accounts, and one account with its statement.

import { get, queryText, segment } from './api.js';
import { asked } from './dialog.js';
import { h } from './dom.js';
import { field } from './form.js';
import { fixed, kobo, naira, words } from './format.js';
import { holdButton, releaseButton } from './holds.js';
import { once, sum, sumField } from './proof.js';
import { setQuery, to } from './route.js';
import { filters, list, orders, read, sortedBy, sorting, table } from './table.js';
import { testPayment } from './testpayment.js';
import { amount, announce, badge, button, card, code, copyButton, dim, empty, exported, facts, pageHead, refreshButton, region, retitle, time } from './ui.js';

// accountColumns are those of a table of accounts that a query has chosen.
export const accountColumns = (query) => [
  { name: 'Reference', head: true, loose: true, value: (a) => h('a', { href: to`/accounts/${a.ID}` + (query.status === 'needs_review' ? '?status=needs_review' : '') }, a.AccountRef) },
  { name: 'Holder', loose: true, sort: 'name', value: (a) => a.BankAccountName },
  { name: 'Number', value: (a) => [h('span', { class: 'figures' }, a.BankAccountNumber), ' ', dim(a.BankName)] },
  { name: 'Type', value: (a) => (a.Type === 'onetime' ? 'One-time' : 'Dedicated') },
  { name: 'Balance', number: true, sort: 'balance', value: (a) => amount(a.Balance) },
  { name: 'Status', value: (a) => badge(a.Status) },
  { name: 'Opened', sort: 'created', value: (a) => time(a.CreatedAt) },
];

// accounts lists the tenant's accounts.
export function accounts(_, query, session) {
  const change = (q) => {
    query = q;
    setQuery(q);
    return found.reload();
  };
  const found = list({
    caption: 'Accounts', noun: 'account',
    columns: accountColumns(query), sorted: sorting(() => query, () => form, change),
    fetchPage: (range) => read('/auth/accounts', 'accounts', { ...query, sort: '', ...sortedBy(query), ...range }),
    none: () => (query.search || query.status
      ? empty('No accounts match.', 'Search for part of the reference, the holder’s name or the number.')
      : empty('No accounts yet.', session.may('finance') ? 'Open one with the button above, or through the API: ' : 'The owner and members with the role finance open them here, and programs through the API: ', h('a', { href: '#/api' }, 'see the commands'), '.')),
  });
  const form = filters([
    { name: 'search', label: 'Search', type: 'search', placeholder: 'Reference, name or number' },
    { name: 'status', label: 'Status', options: [['', 'All'], ['active', 'Active'], ['expired', 'Expired'], ['needs_review', 'Needs review']] },
    orders([['name-asc', 'Holder, A to Z'], ['name-desc', 'Holder, Z to A'], ['balance-desc', 'Highest balance'], ['balance-asc', 'Lowest balance']]),
  ], query, change);
  return { title: 'Accounts', nodes: [pageHead('Accounts', { actions: [session.may('finance') && openButton(), refreshButton(found.reload)] }), form, found.box, allStatements()] };
}

// openButton opens an account, and leads to it.
function openButton() {
  return button('Open an account…', async () => {
    let opened;
    let before; // the account that the reference names already
    const done = await asked({
      title: 'Open an account', label: 'Open', text: 'A bank account number for one customer, who is created with it. Anyone can pay to it at once.',
      fields: [
        { name: 'externalRef', label: 'Reference', required: true, maxlength: 255, autocomplete: 'off', hint: 'Your own name for the customer, such as customer-1. Each has one dedicated account.' },
        { name: 'name', label: 'Holder’s name', required: true, maxlength: 200, autocomplete: 'off' },
        { name: 'bvn', label: 'BVN', inputmode: 'numeric', pattern: '[0-9]{11}', maxlength: 11, autocomplete: 'off', hint: 'Eleven digits. Optional.' },
        { name: 'mode', label: 'Type', options: [['dedicated', 'Dedicated: it stays open'], ['onetime', 'One-time: it ends with the expected amount']] },
        { ...sumField, name: 'expectedAmount', label: 'Expected amount', required: false, placeholder: '7,500.50', hint: 'Of a one-time account.' },
      ],
      act: async ({ bvn, expectedAmount, ...v }) => {
        const named = await get('/auth/accounts/' + segment(v.externalRef)).catch((e) => {
          if (e.status !== 404) throw e;
        });
        const { answer, again } = await once('/auth/accounts', { ...v, ...(bvn && { bvn }), ...(expectedAmount && { expectedAmount: sum(expectedAmount) }) });
        opened = answer;
        before = again ? null : named; // a repeated request has opened the account itself
      },
    });
    if (!done) return;
    announce(opened.ID === before?.ID ? `Nothing was opened: ${opened.AccountRef} has this account already, for ${opened.BankAccountName}.` : `${opened.BankAccountNumber} is open.`);
    location.hash = to`/accounts/${opened.ID}`;
  }, { kind: 'main' });
}

// allStatements exports the statements of all accounts, of the dates that are chosen.
function allStatements() {
  const dates = { from: '', to: '' };
  const links = [['csv', 'CSV'], ['pdf', 'PDF'], ['xml', 'camt.053']].map(([ending, name]) => [ending, h('a', { class: 'button', onclick: exported }, name)]);
  const link = () => links.forEach(([ending, a]) => { a.href = '/auth/statement.' + ending + queryText(dates); });
  const day = (name, label) => field({ name, label, type: 'date', onchange: (e) => {
    dates[name] = e.target.value;
    link();
  } });
  link();
  return card('Statements of all accounts', h('p', { class: 'dim' }, 'One file with all accounts that have transactions in the period, oldest first.'),
    h('div', { class: 'filters' }, day('from', 'From'), day('to', 'To'), h('div', { class: 'actions' }, links.map(([, a]) => a))));
}

// account shows one account: what it is, its money and its statement.
export function account({ id }, query, session) {
  const path = '/auth/accounts/' + segment(id);
  const about = region(async () => {
    const held = { limit: 100 };
    const [a, b, { history }, holds, recalls] = await Promise.all([
      get(path), get(path + '/balance'), get(path + '/history'), get(path + '/holds', { ...held, status: 'open' }), get(path + '/recalls', held),
    ]);
    return { a, b, history: history ?? [], holds, recalls };
  }, ({ a, b, history, holds, recalls }) => {
    retitle(top, a.AccountRef);
    const may = session.may('finance');
    return [head(a, b, may && holdButton(path, a, about.reload)), standing(holds, recalls, may && about.reload), past(history)];
  }, { rows: 3 });
  const lines = statement(path, query);
  const top = pageHead('Account', { up: { href: '#/accounts', name: 'Accounts' }, actions: [session.may('finance') && h('a', { class: 'button', href: `#/payout?account=${segment(id)}` }, 'Pay out'), refreshButton(about.reload, lines.reload)] });
  return { title: 'Account', nodes: [top, about.box, testPayment(id, session, () => Promise.all([about.reload(), lines.reload()])), lines.card] };
}

function head(a, b, hold) {
  const number = h('span', { class: 'figures' }, a.BankAccountNumber);
  return h('section', { class: 'card split', 'aria-label': 'Account details' },
    h('div', null, h('p', { class: 'big' }, amount(b.balance)),
      h('p', { class: 'dim' }, 'Balance, including provisional amounts'), hold && h('div', { class: 'actions' }, hold)),
    facts([
      ['Available', b.available && amount(b.available)], ['Held or under review', b.held && amount(b.held)],
      ['Status', badge(a.Status)],
      ['Number', h('span', { class: 'copyable' }, number, copyButton(a.BankAccountNumber, 'Account number', number))],
      ['Bank', a.BankName], ['Holder', a.BankAccountName], ['Type', a.Type === 'onetime' ? 'One-time' : 'Dedicated'],
      ['Expected amount', a.ExpectedAmount && naira(fixed(a.ExpectedAmount))], ['Expires', a.ExpiresAt && time(a.ExpiresAt)],
      ['Own webhook URL', a.CallbackURL && code(a.CallbackURL)], ['Customer', h('a', { href: to`/customers/${a.CustomerID}` }, 'Name and KYC')],
      ['Opened', time(a.CreatedAt)],
    ]));
}

// standing is what is held of the balance, and why: until somebody releases it, or the bank has said what is true.
// Of a payment that both a recall and a hold keep, only the larger of the two sums is shown: so the column adds up.
function standing({ holds, pagination }, { recalls, pagination: more }, reload) {
  const lines = [
    ...recalls.map((r) => ({
      at: r.openedAt, amount: holds.some((x) => x.entryId === r.entryId && kobo(x.amount) > kobo(r.amount)) ? null : r.amount, until: 'The bank’s record decides',
      why: [h('strong', null, 'The bank may have taken back a payment'), r.senderName && [' · ', r.senderName], ' · ', time(r.postedAt), h('div', { class: 'reference' }, r.providerTxnRef)],
    })),
    ...holds.map((x) => ({
      at: x.createdAt, amount: recalls.some((r) => r.entryId === x.entryId && kobo(r.amount) >= kobo(x.amount)) ? null : x.amount, why: x.reason, release: reload && releaseButton(x, reload),
      until: x.until ? time(x.until) : x.source === 'limit' ? 'A higher tier of the customer allows it' : x.source === 'recall' ? 'The bank’s record decides' : x.source === 'refund' ? 'It is refunded or released' : 'It is released',
    })),
  ];
  const columns = [
    { name: 'Since', head: true, value: (l) => time(l.at) },
    { name: 'Why', wide: true, value: (l) => l.why },
    { name: 'Until', value: (l) => l.until },
    { name: 'Held', number: true, value: (l) => (l.amount ? amount(l.amount) : dim('in the sum of the payment')) },
    ...(reload ? [{ name: 'Release', value: (l) => l.release ?? dim('—') }] : []),
  ];
  return lines.length > 0 && h('section', { class: 'card', 'aria-labelledby': 'h-held' }, h('h2', { id: 'h-held' }, 'Held'),
    h('p', { class: 'dim' }, 'Part of the balance that cannot be settled for now.'),
    h('div', { class: 'table' }, table('What is held', columns, lines)),
    (pagination.hasMore || more.hasMore) && h('p', { class: 'hint' }, 'Only the newest 100 are shown. ', code('GET /v1/accounts/:accountRef/holds'), ' lists all.'));
}

const notes = '“Balance after” is the balance right after the line was posted, including amounts that were provisional then. Lines that have since been '
  + 'reversed or put under review no longer count towards the balance. A reversed line and its reversal are in one total each.';

function past(history) {
  const columns = [
    { name: 'When', head: true, value: (e) => time(e.CreatedAt) },
    { name: 'Status', value: (e) => badge(e.ToStatus) },
    { name: 'Reason', value: (e) => words(e.Reason) },
  ];
  return history.length > 0 && h('details', { class: 'card' }, h('summary', null, 'Account history'),
    h('div', { class: 'table' }, table('Status changes', columns, history)));
}

function statement(path, query) {
  const totals = h('div');
  let turn = 0;
  const found = list({
    caption: 'Statement lines', noun: 'line',
    columns: [
      { name: 'When', head: true, value: ({ entry: e }) => time(e.CreatedAt) },
      { name: 'Description', wide: true, value: ({ entry: e }) => what(e) },
      { name: 'Status', value: ({ entry: e }) => badge(e.Status) },
      { name: 'Fee', number: true, value: ({ entry: e }) => (e.Fee === '0.00' ? dim('—') : amount(e.Fee)) },
      { name: 'In', number: true, value: ({ entry: e }) => (e.Direction === 'credit' ? amount(e.Amount, e.Status) : dim('—')) },
      { name: 'Out', number: true, value: ({ entry: e }) => (e.Direction === 'debit' ? amount(e.Amount, e.Status) : dim('—')) },
      { name: 'Balance after', number: true, value: (l) => amount(l.runningBalance) },
    ],
    fetchPage: async (range) => {
      const mine = ++turn;
      const s = await get(path + '/statement', { ...query, ...range, order: query.order || 'desc' });
      if (mine === turn) totals.replaceChildren(facts([ // an answer that comes late shows no older sums
        ['Money in, all time', amount(s.totalCredits)], ['Money out, all time', amount(s.totalDebits)], ['Balance', amount(s.closingBalance)],
      ]));
      return { rows: s.lines, pagination: s.pagination };
    },
    none: () => (Object.values(filter()).some(Boolean) ? empty('No lines match.', 'Choose other dates, or clear the filters.')
      : empty('No payments yet.', 'Payments to the account number above appear here within moments.')),
  });
  const filter = () => ({ ...query, order: '' }); // a file is oldest first, as its balances are read downwards
  const csv = h('a', { class: 'button', onclick: exported }, 'CSV');
  const pdf = h('a', { class: 'button', onclick: exported }, 'PDF');
  const xml = h('a', { class: 'button', onclick: exported, title: 'ISO 20022 camt.053, for accounting software, with all lines of the period.' }, 'camt.053');
  const links = () => {
    csv.href = path + '/statement.csv' + queryText(filter());
    pdf.href = path + '/statement.pdf' + queryText(filter());
    xml.href = path + '/statement.xml' + queryText({ from: query.from, to: query.to });
  };
  const form = filters([
    { name: 'from', label: 'From', type: 'date' }, { name: 'to', label: 'To', type: 'date' },
    { name: 'direction', label: 'Direction', options: [['', 'In and out'], ['credit', 'In'], ['debit', 'Out']] },
    { name: 'status', label: 'Status', options: [['', 'All'], ['provisional', 'Provisional'], ['confirmed', 'Confirmed'], ['reversed', 'Reversed'], ['needs_review', 'Needs review']] },
    { name: 'order', label: 'Order', options: [['', 'Newest first'], ['asc', 'Oldest first']] },
  ], query, (q) => {
    query = q;
    setQuery(q);
    links();
    found.reload();
  });
  links();
  const title = h('div', { class: 'card-head' }, h('h2', { id: 'h-statement' }, 'Statement'),
    h('div', { class: 'actions' }, h('span', { class: 'dim' }, 'Export with these filters:'), csv, pdf, xml));
  return { card: h('section', { class: 'card', 'aria-labelledby': 'h-statement' }, title, totals, form, found.box, h('p', { class: 'hint' }, notes)), reload: found.reload };
}

const kinds = { fee: 'Fee', platform_fee: 'Platform fee', book_transfer: 'Transfer', split: 'Split', move: 'Correction', suspense: 'Correction' };

function what(e) {
  const name = e.ReversalOf ? 'Reversal' : kinds[e.Kind] || (e.RefundOf ? 'Refund' : e.TransferRef ? 'Payout' : 'Payment');
  const ref = e.TransferRef ? h('a', { href: to`/transfers/${e.TransferRef}` }, e.TransferRef) : e.ProviderTxnRef && dim(e.ProviderTxnRef);
  const from = [e.SenderAccount, e.SenderBank].filter(Boolean).join(', ');
  const payer = [e.SenderName, from && `(${from})`].filter(Boolean).join(' ');
  const shown = name === 'Payment' && e.Direction === 'credit' && !e.Kind ? h('a', { href: to`/payments/${e.ID}` }, name) : name;
  return [h('strong', null, shown), payer && [' · ', payer], e.Narration && [' · ', e.Narration], ref && h('div', { class: 'reference' }, ref)];
}
