// Paying out: from which account, to whom and how much; who holds the destination; and once more in words, before the money moves.

import { get, post, segment } from './api.js';
import { asked } from './dialog.js';
import { h } from './dom.js';
import { field, form } from './form.js';
import { naira } from './format.js';
import { once, proofFields, sum, sumField } from './proof.js';
import { setQuery, to } from './route.js';
import { filters, list, read } from './table.js';
import { amount, announce, card, empty, facts, pageHead, refreshButton, region } from './ui.js';

// payout asks for the account first, unless the address names it.
export function payout(_, query, session) {
  if (!session.may('finance')) {
    return { title: 'Pay out', nodes: [pageHead('Pay out', { up: { href: '#/transfers', name: 'Transfers' } }), empty('Only the owner and members with the role finance can pay out.')] };
  }
  return query.account ? order(query, session) : choose(query);
}

function choose(query) {
  const found = list({
    caption: 'Accounts', noun: 'account',
    columns: [
      { name: 'From', head: true, loose: true, value: (a) => h('a', { href: from(a, query) }, a.AccountRef) },
      { name: 'Holder', loose: true, value: (a) => a.BankAccountName },
      { name: 'Balance', number: true, value: (a) => amount(a.Balance) },
    ],
    fetchPage: (range) => read('/auth/accounts', 'accounts', { search: query.search, ...range }),
    none: () => empty(query.search ? 'No accounts match.' : 'No accounts yet.'),
  });
  const search = filters([{ name: 'search', label: 'Search', type: 'search', placeholder: 'Reference, name or number' }], query, (q) => {
    query = { ...query, ...q };
    setQuery(query);
    found.reload();
  });
  return {
    title: 'Pay out',
    nodes: [pageHead('Pay out', { up: { href: '#/transfers', name: 'Transfers' }, lead: 'From which account?', actions: refreshButton(found.reload) }), search, found.box],
  };
}

const from = (a, query) => `#/payout?${new URLSearchParams({ account: a.ID, ...(query.beneficiary && { beneficiary: query.beneficiary }) })}`;

// saved are the beneficiaries, the newest thousand of them.
async function saved() {
  const all = [];
  for (let after = ''; all.length < 1000;) {
    const { beneficiaries, pagination } = await get('/auth/beneficiaries', { limit: 100, after });
    all.push(...beneficiaries);
    if (!pagination.hasMore) break;
    after = pagination.nextCursor;
  }
  return all;
}

function order(query, session) {
  const path = '/auth/accounts/' + segment(query.account);
  const funds = region(async () => {
    const [a, b] = await Promise.all([get(path), get(path + '/balance')]);
    return { a, b };
  }, ({ a, b }) => card('From', facts([
    ['Account', h('a', { href: to`/accounts/${a.ID}` }, a.AccountRef)], ['Holder', a.BankAccountName],
    ['Available', amount(b.available)], ['Provisional', amount(b.provisional)], ['Held or under review', amount(b.held)], ['Balance', amount(b.balance)],
  ]), h('p', { class: 'hint' }, 'What is available must also cover any fee that you bear for the payout.')), { rows: 2 });
  const whole = region(async () => {
    const [a, { banks }, beneficiaries] = await Promise.all([get(path), get('/auth/transfers/banks'), saved()]);
    return { a: { ID: a.ID, AccountRef: a.AccountRef }, banks, beneficiaries };
  }, (known) => card('To', destination(known, query, path, session)));
  return {
    title: 'Pay out',
    nodes: [pageHead('Pay out', { up: { href: '#/payout', name: 'Choose another account' }, actions: refreshButton(funds.reload) }), funds.box, whole.box],
  };
}

function destination({ a, banks, beneficiaries }, query, path, session) {
  const named = (b) => `${b.label || b.accountName} · ${b.accountNumber} · ${b.bankName || 'bank ' + b.bankCode}`;
  const whom = field({
    name: 'beneficiary', label: 'Beneficiary', value: beneficiaries.some((b) => b.id === query.beneficiary) ? query.beneficiary : '',
    options: [['', 'Another bank account'], ...beneficiaries.map((b) => [b.id, named(b)])],
  });
  const bank = field({ name: 'bankCode', label: 'Bank', required: true, options: [['', 'Choose a bank'], ...banks.map((b) => [b.Code, b.Name])] });
  const number = field({ name: 'accountNumber', label: 'Account number', required: true, inputmode: 'numeric', pattern: ' *[0-9]{10} *', title: 'Ten digits', autocomplete: 'off' });
  const chosen = whom.querySelector('select');
  const settle = () => {
    for (const f of [bank, number]) {
      f.hidden = chosen.value !== '';
      f.querySelector('input, select').disabled = chosen.value !== ''; // so that it is not asked for
    }
  };
  chosen.addEventListener('change', settle);
  settle();
  return form([whom, bank, number, sumField, { name: 'narration', label: 'Narration', maxlength: 140, autocomplete: 'off', hint: 'What the receiver reads.' }], 'Review…', async (v) => {
    const b = beneficiaries.find((x) => x.id === v.beneficiary) ?? { bankCode: v.bankCode, accountNumber: v.accountNumber, bankName: banks.find((x) => x.Code === v.bankCode)?.Name };
    const { AccountName: name } = await post('/auth/transfers/lookup', { bankCode: b.bankCode, accountNumber: b.accountNumber });
    const what = { amount: sum(v.amount), ...(b.id ? { beneficiary: b.id } : { bankCode: b.bankCode, accountNumber: b.accountNumber, accountName: name }), narration: v.narration };
    let accepted;
    const yes = await asked({
      title: `Pay ${naira(what.amount)} to ${name}?`,
      text: `${naira(what.amount)} leaves ${a.AccountRef} and goes to ${name}, account ${b.accountNumber} at ${b.bankName || 'bank ' + b.bankCode}`
        + `${what.narration && `, with the narration “${what.narration}”`}. Any fee that you bear for the payout is debited too. Once the bank has paid it, it cannot be taken back.`,
      fields: proofFields(session), label: `Pay ${naira(what.amount)}`,
      act: async (proof) => { accepted = await once(path + '/settle', what, proof); },
    });
    if (!yes) return;
    location.hash = to`/transfers/${accepted.answer.merchantTxRef}`;
    announce(accepted.again ? 'This payout was already accepted; it was not made again.' : accepted.answer.awaiting ? 'The payout waits for approval.' : 'The payout was accepted.');
  });
}
