// The tenant's audit log: who did what, when, from where, and what changed.

import { queryText } from './api.js';
import { h } from './dom.js';
import { setQuery } from './route.js';
import { filters, list, read } from './table.js';
import { code, empty, exported, pageHead, refreshButton, time } from './ui.js';

// What the log calls the acts, and what they are. One that is not here is shown by its name.
const acts = {
  'session.begin': 'Signed in', 'session.refused': 'Password or code refused', 'session.end': 'Session ended', 'password.change': 'Password changed', 'password.reset': 'Password reset',
  'totp.set-up': 'Second factor being set up', 'totp.on': 'Second factor on', 'totp.off': 'Second factor off', 'totp.required': 'Second factor required', 'tenant.reset-totp': 'Second factor reset',
  'members.invite': 'Member invited', 'members.join': 'Member joined', 'members.role': 'Role changed', 'members.remove': 'Member removed', 'members.hand-over': 'Account handed over',
  'keys.create': 'Key created', 'keys.rotate': 'Key rotated', 'keys.revoke': 'Key revoked', 'tenant.revoke-key': 'Key revoked by an operator',
  'webhook.url': 'Webhook URL changed', 'webhook.secret': 'Signing secret changed', 'webhook.events': 'Events chosen', 'webhook.log': 'Log of events changed',
  'webhook.endpoint.add': 'Webhook endpoint added', 'webhook.endpoint.change': 'Webhook endpoint changed', 'webhook.endpoint.remove': 'Webhook endpoint removed', 'webhook.endpoint.rotate-secret': 'Webhook endpoint’s secret changed',
  'tenant.policy': 'Payout policy changed', 'transfer.settle': 'Payout made', 'transfer.refund': 'Refund made', 'hold.place': 'Money held', 'hold.release': 'Hold released', 'transfer.approve': 'Payout approved', 'transfer.reject': 'Payout rejected',
  'beneficiary.save': 'Beneficiary saved', 'beneficiary.rename': 'Beneficiary renamed', 'beneficiary.exempt': 'Beneficiary’s exemption changed', 'beneficiary.remove': 'Beneficiary removed', 'deliveries.replay': 'Delivery sent again',
  'account.open': 'Account opened', 'account.change': 'Account’s events, expected amount, policy or split changed', 'account.expire': 'Account ended whose policy decides about late payments', 'kyc.submit': 'NIN submitted', 'kyc.approve': 'KYC approved', 'kyc.reject': 'KYC rejected', 'customers.approve': 'KYC approved by an operator', 'customers.reject': 'KYC rejected by an operator',
  'customers.activate': 'Customer activated', 'customers.suspend': 'Customer suspended', 'tenant.kyc': 'Business verified',
  'tenant.activate': 'Organisation activated', 'tenant.suspend': 'Organisation suspended', 'tenant.end-sessions': 'Sessions ended by an operator', 'tenant.begin-close': 'Organisation suspended, to be closed', 'tenant.close': 'Organisation closed',
  'tenant.login-link': 'Login link made by an operator', 'tenant.rotate-secret': 'Signing secret changed by an operator', 'tenant.operator': 'Right to decide KYC changed',
  'freeze.tenant': 'Payouts stopped', 'freeze.account': 'Payouts of an account stopped', 'freeze.lift': 'Stopped payouts go on',
  'customers.tier': 'KYC tier set by an operator', 'accounts.close': 'Account closed by an operator', 'deliveries.resend': 'Event sent once more', 'deliveries.replay_since': 'Dead letters sent again',
};

// audit lists it, newest first.
export function audit(_, query) {
  const asked = () => ({ ...query, actor: actor(query.actor) });
  const found = list({
    caption: 'Audit log', noun: 'line',
    columns: [
      { name: 'When', head: true, value: (l) => time(l.at) },
      { name: 'Who', loose: true, value: (l) => who(l.actor) },
      { name: 'What', value: (l) => acts[l.action] ?? code(l.action) },
      { name: 'From', value: (l) => h('span', { class: 'figures' }, l.address ?? '—') },
      { name: 'Change', wide: true, value: (l) => change(l) },
    ],
    fetchPage: (range) => read('/auth/audit', 'entries', { ...asked(), ...range }),
    none: () => (Object.values(query).some(Boolean) ? empty('No lines match.', 'Choose other dates, or clear the filters.') : empty('Nothing has been done yet.')),
  });
  const csv = h('a', { class: 'button', onclick: exported }, 'CSV');
  const link = () => { csv.href = '/auth/audit.csv' + queryText(asked()); };
  const form = filters([
    { name: 'actor', label: 'Who', type: 'search', placeholder: 'E-mail, key’s ID, or operator' },
    { name: 'action', label: 'What', options: [['', 'All'], ...Object.entries(acts)] },
    { name: 'from', label: 'From', type: 'date' }, { name: 'to', label: 'To', type: 'date' },
  ], query, (q) => {
    query = q;
    setQuery(q);
    link();
    found.reload();
  });
  link();
  return {
    title: 'Audit log',
    nodes: [
      pageHead('Audit log', { lead: 'Sessions, members, keys and settings: what was done, by whom and from where.', actions: [refreshButton(found.reload), h('span', { class: 'dim' }, 'Export:'), csv] }),
      form, found.box,
    ],
  };
}

// actor is how the log names whom a person looks for.
function actor(text = '') {
  if (text.includes('@')) return 'session:' + text.toLowerCase();
  return /^[0-9a-f-]{36}$/i.test(text) ? 'key:' + text.toLowerCase() : text.toLowerCase();
}

function who(name) {
  const [kind, rest] = [name.split(':')[0], name.slice(name.indexOf(':') + 1)];
  if (kind === 'session') return rest;
  if (kind === 'key') return ['API key ', h('span', { class: 'reference' }, rest)];
  return { operator: 'An operator', service: 'The service', unknown: 'Unknown' }[name] ?? name;
}

// change names what is different, field by field.
function change({ before, after, target }) {
  const [was, is] = [before ?? {}, after ?? {}];
  if (typeof was !== 'object' || typeof is !== 'object') return [shown(was), ' → ', shown(is)];
  const names = [...new Set([...Object.keys(was), ...Object.keys(is)])];
  if (names.length === 0) return h('span', { class: 'reference' }, target);
  return h('dl', { class: 'change' }, names.map((n) => h('div', null, h('dt', null, n), h('dd', null,
    n in was && n in is && shown(was[n]) !== shown(is[n]) ? [shown(was[n]), ' → ', shown(is[n])] : shown(n in is ? is[n] : was[n]), !after && h('span', { class: 'dim' }, ' (before)')))));
}

const shown = (value) => (Array.isArray(value) ? value.join(', ') || 'none' : [null, ''].includes(value) ? 'none' : typeof value === 'object' ? JSON.stringify(value) : String(value));
