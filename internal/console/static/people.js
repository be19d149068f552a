// Tenants and their customers.

import { acts, listOf, listPage, reads, redraw, showPage } from './desk.js';
import { h } from './dom.js';
import { choice, naira, sum } from './money.js';
import { to } from './route.js';
import { table } from './table.js';
import { badge, card, code, dim, facts, region, time } from './ui.js';

export function tenants(_, query) {
  return listPage({
    title: 'Tenants', query, command: 'tenant list', caption: 'Tenants', noun: 'tenant', nouns: 'tenants', none: 'No such tenant.', fields: [choice('status', 'Status', 'active', 'suspended', 'closed')],
    columns: [
      { name: 'Tenant', head: true, value: (t) => h('a', { href: to`/tenants/${t.ID}` }, t.Name) }, { name: 'E-mail', loose: true, value: (t) => t.Email }, { name: 'Status', value: (t) => badge(t.Status) },
      { name: 'KYC', value: (t) => badge(t.KYCStatus) }, { name: 'Since', value: (t) => time(t.CreatedAt) },
    ],
  });
}

const most = (name, label) => ({ name, label, pattern: 'none|[0-9]+([.][0-9]{1,2})?', hint: 'In naira, or none; empty: as it is' });
const from = { name: 'from', label: 'From', type: 'date', hint: 'A day in Lagos; empty: now' };
const limit = (text, none = 'none') => (text === null || text === undefined ? dim(none) : sum(text));

export function tenant({ id }, _, session) {
  const part = (title, command, render) => {
    const r = region(() => reads(command, { tenant: id }), render, { rows: 2 });
    return { box: card(title, r.box), reload: r.reload };
  };
  const limits = part('Limits', 'tenant limits show', (s) => [facts([['Payouts today', s.Counted ? sum(s.Standing.payouts.today) : dim('not counted')], ['Left today', limit(s.Standing.payouts.left, 'no limit')]]),
    s.Sets?.length ? h('div', { class: 'table' }, table('Limits', [
      { name: 'Of', head: true, value: (x) => (x.Tier ? `Tier ${x.Tier.tier}` : 'Payouts') }, { name: 'From', value: (x) => time(x.StartsAt) },
      { name: 'One', number: true, value: (x) => limit(x.Tier ? x.Tier.maxDeposit : x.maxTransfer) }, { name: 'Account and day', number: true, value: (x) => limit(x.Tier ? x.Tier.maxDay : x.maxAccountDay) },
      { name: 'Day, or balance', number: true, value: (x) => limit(x.Tier ? x.Tier.maxBalance : x.maxTenantDay) }, { name: 'By', loose: true, value: (x) => x.Actor },
    ], s.Sets)) : dim('None is set.')]);
  const policy = part('Approval of payouts', 'tenant policy show', ({ Policy: p }) => facts([['Approvals', String(p.approvals)], ['Of a payout above', limit(p.threshold)], ['Of a day above', limit(p.dayThreshold)], ['Hook', p.hook], ['New beneficiaries wait', `${p.beneficiaryWaitHours} hours`], ['Members who may approve', String(p.approvers)], ['Warning', p.warning]]));
  const keys = listOf('tenant keys', { query: { tenant: id }, caption: 'API keys', noun: 'key', nouns: 'keys', columns: [
    { name: 'Key', head: true, value: (k) => k.name || 'Main key' }, { name: 'Ends with', value: (k) => code(k.suffix) }, { name: 'Status', value: (k) => badge(k.status) }, { name: 'Last used', value: (k) => time(k.lastUsedAt) },
    { name: 'Revoke', value: (k) => (k.main || k.revokedAt ? dim('—') : acts(session, { command: 'tenant revoke-key', label: 'Revoke', kind: 'danger', values: { tenant: id, key: k.id }, text: `The key ${k.name} no longer works.`, done: () => keys.reload() })) ?? dim('—') },
  ] });
  const people = listOf('tenant members', { query: { tenant: id }, caption: 'Members', noun: 'member', nouns: 'members', columns: [
    { name: 'Member', head: true, loose: true, value: (m) => m.email }, { name: 'Name', value: (m) => m.name || '—' }, { name: 'Role', value: (m) => m.role }, { name: 'Status', value: (m) => badge(m.status) }, { name: 'Second factor', value: (m) => badge(m.totp ? 'on' : 'off') },
    { name: 'Reset', value: (m) => (m.totp ? acts(session, { command: 'tenant reset-totp', label: 'Reset second factor', values: { tenant: id, member: m.email }, text: 'First make sure who is asking. The member’s sessions end.', done: () => people.reload() }) : dim('—')) ?? dim('—') },
  ] });
  const page = showPage({
    title: 'Tenant', up: { href: '#/tenants', name: 'Tenants' }, command: 'tenant show', query: { tenant: id }, others: [limits, policy, keys, people],
    render: (t, reload) => {
      const act = (command, label, more) => acts(session, { command, label, values: { tenant: id }, done: reload, ...more });
      return card(t.Name, facts([
        ['Status', badge(t.Status)], ['E-mail', t.Email], ['KYC', badge(t.KYCStatus)], ['Kind', t.BusinessType], ['Operator endpoints', t.Operator ? 'may use them' : 'no'], ['Bears the bank’s payout fee', t.PayoutFeeBy],
        ['Webhook', t.WebhookURL], ['Signed', t.WebhookSecret ? 'yes' : 'no'], ['Since', time(t.CreatedAt)], ['ID', code(t.ID)],
        ['See', h('span', null, h('a', { href: '#/transfers?tenant=' + t.ID }, 'payouts'), ', ', h('a', { href: '#/deliveries?tenant=' + t.ID }, 'webhooks'), ', ', h('a', { href: '#/prices?tenant=' + t.ID }, 'prices'), ', ', h('a', { href: '#/audit?target=tenant:' + t.ID }, 'audit'))],
      ]), h('div', { class: 'actions' },
        t.Status === 'active' ? act('tenant suspend', 'Suspend', { kind: 'danger', text: 'Its keys and sessions are refused, and its payouts wait.' }) : act('tenant activate', 'Activate', { danger: false, text: t.Status === 'closed' ? 'It is opened again, without its keys and accounts.' : 'Its keys work again, and its payouts go on.' }),
        act('freeze tenant', 'Stop payouts', { kind: 'danger', text: 'Its payouts wait; keys and sessions keep working.' }),
        act('tenant end-sessions', 'End sessions', { text: 'Everyone who is logged in must log in again.', fields: [{ name: 'member', label: 'Only of', type: 'email', hint: 'E-mail of one member; empty: of all' }] }),
        act('tenant rotate-secret', 'New signing secret', { text: 'The old one also signs for a day.' }),
        act('tenant limits set', 'Limit payouts', { done: limits.reload, fields: [most('max-transfer', 'One payout'), most('max-account-day', 'An account and day'), most('max-tenant-day', 'A day'), from] }),
        act('tenant limits tier', 'Limit a tier', { done: limits.reload, fields: [{ name: 'tier', label: 'Tier', options: [['1', '1'], ['2', '2'], ['3', '3']] }, most('max-deposit', 'One payment'), most('max-day', 'An account and day'), most('max-balance', 'A balance'), from] }),
        act('tenant policy set', 'Approval of payouts', { done: policy.reload, fields: [{ name: 'approvals', label: 'Members who must approve', inputmode: 'numeric', pattern: '[0-9]+', hint: '0: no payout needs approval' }, most('above', 'Of a payout above'), most('day-above', 'Of a day above'), { name: 'wait-hours', label: 'New beneficiaries wait, in hours', inputmode: 'numeric', pattern: '[0-9]+', hint: '0: such a payout goes to any account; empty: as it is' }] }),
        act('tenant payout-fee', 'Payout fee', { fields: [{ name: 'by', label: 'Who bears it', options: [['platform', 'The platform'], ['tenant', 'The tenant']] }] }),
        act('tenant operator', t.Operator ? 'Withdraw operator endpoints' : 'Allow operator endpoints', { values: { tenant: id, ...(t.Operator && { off: 'true' }) }, text: 'Whether its sessions may approve and reject KYC in production.' }),
        act('tenant close', 'Close', { kind: 'danger', text: 'It must have no money left. Its accounts are closed.' })));
    },
  });
  page.nodes.push(limits.box, policy.box, card('API keys', keys.box), card('Members', people.box));
  return page;
}

// own is a part of a price; one that ends a tenant's own price has none, as the list's holds from then on.
const own = (part) => (p) => (p.AsListed ? dim('—') : part(p));

const prices = [
  { name: 'On', head: true, value: (p) => p.On }, { name: 'Of', loose: true, value: (p) => (/^[0-]+$/.test(p.TenantID) ? 'all tenants' : code(p.TenantID)) }, { name: 'From', value: (p) => time(p.ValidFrom) }, { name: 'Percent', number: true, value: (p) => (p.AsListed ? 'as listed' : p.Percent) },
  { name: 'Flat', number: true, value: own((p) => sum(p.Flat)) }, { name: 'At least', number: true, value: own((p) => sum(p.Minimum)) }, { name: 'At most', number: true, value: own((p) => limit(p.Cap)) }, { name: 'By', loose: true, value: (p) => p.Actor }, { name: 'Reason', wide: true, value: (p) => p.Reason },
];

export function pricesPage(_, query, session) {
  return listPage({
    title: 'Prices', lead: 'What the platform charges all tenants, or one.', query, command: 'prices list', whole: true, caption: 'Prices', noun: 'price', nouns: 'prices', none: 'No price is set.', columns: prices, fields: [{ name: 'tenant', label: 'Tenant (ID or e-mail)' }],
    actions: [acts(session, { command: 'prices set', label: 'Set a price', fields: [
      { name: 'on', label: 'On', options: [['payment', 'Payments'], ['payout', 'Payouts'], ['vat', 'VAT on our fees']] }, { name: 'tenant', label: 'Tenant', hint: 'ID or e-mail; empty: all without a price of their own' },
      { name: 'percent', label: 'Percent', inputmode: 'decimal', pattern: '[0-9]+([.][0-9]{1,4})?' }, { name: 'flat', label: 'Flat, in naira', ...naira }, { name: 'minimum', label: 'At least', ...naira }, { name: 'cap', label: 'At most', ...naira }, from,
      { name: 'as-listed', label: 'Or, of a tenant', options: [['', 'The price above'], ['true', 'As listed: its own price ends']] },
    ], done: redraw })],
  });
}

export function kyc(_, query) {
  return listPage({
    title: 'KYC', lead: 'Customers whose identity waits for a review.', query, command: 'customers review', caption: 'KYC to review', noun: 'customer', nouns: 'customers', none: 'No customer waits.',
    columns: [
      { name: 'Customer', head: true, value: (c) => h('a', { href: to`/customers/${c.ID}` }, c.Name) }, { name: 'Tenant', value: (c) => c.TenantName }, { name: 'Since', value: (c) => time(c.UpdatedAt) },
      { name: 'NIN', value: (c) => (c.NINLast4 ? `…${c.NINLast4}` : '—') }, { name: 'Same NIN approved', number: true, value: (c) => String(c.SameNIN) },
    ],
  });
}

export function customer({ id }, _, session) {
  return showPage({
    title: 'Customer', up: { href: '#/kyc', name: 'KYC' }, command: 'customers show', query: { customer: id },
    render: (c, reload) => {
      const act = (command, label, more) => acts(session, { command, label, values: { customer: id }, done: reload, ...more });
      const seen = { values: { customer: id, 'as-of': c.UpdatedAt } }; // what is decided is what stands here
      return card(c.Name, facts([
        ['KYC', badge(c.KYCStatus)], ['Tier', String(c.KYCTier)], ['Status', badge(c.Status)], ['Tenant', h('a', { href: to`/tenants/${c.TenantID}` }, c.TenantName)], ['Reference', c.ExternalRef], ['BVN', c.BVNLast4 && `…${c.BVNLast4}`],
        ['NIN', c.NINLast4 && `…${c.NINLast4}`], ['Others approved with this NIN', String(c.SameNIN)], ['Since', time(c.CreatedAt)], ['Changed', time(c.UpdatedAt)], ['ID', code(id)],
      ]), h('div', { class: 'actions' },
        c.KYCStatus === 'pending_review' && [act('customers approve', 'Approve', { ...seen, kind: 'main', danger: false, text: 'The identity was checked and matches.' }), act('customers reject', 'Reject', { ...seen, kind: 'danger', text: 'The identity does not match.' })],
        act('customers tier', 'Set the tier', { fields: [{ name: 'tier', label: 'Tier', options: [['1', '1'], ['2', '2'], ['3', '3']] }] }),
        c.Status === 'active' ? act('customers suspend', 'Suspend', { kind: 'danger', text: 'No new account and no KYC.' }) : act('customers activate', 'Activate', { danger: false })));
    },
  });
}
