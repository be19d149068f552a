// API keys: what each may do, from where, until when, and when it was used last.

import { post, segment } from './api.js';
import { asked, confirmed, showOnce } from './dialog.js';
import { h } from './dom.js';
import { form } from './form.js';
import { proofFields } from './proof.js';
import { list, read } from './table.js';
import { announce, badge, button, card, code, dim, empty, pageHead, refreshButton, time } from './ui.js';

// scopes are all there are (a test compares them with the service's), and what they allow.
export const scopes = {
  'accounts:read': 'Read accounts, balances and limits', 'accounts:write': 'Open, change and expire accounts',
  'accounts:transfer': 'Move money between your own accounts',
  'beneficiaries:read': 'Read beneficiaries', 'beneficiaries:write': 'Save, rename and remove beneficiaries',
  'customers:read': 'Read customers', 'customers:write': 'Rename customers, submit NINs',
  'holds:read': 'Read holds', 'holds:write': 'Hold money, and release it', 'payments:read': 'Read payments and statements', 'payouts:create': 'Pay out and refund: money leaves',
  'payouts:read': 'Read payouts, look up account holders',
  'webhooks:read': 'Read endpoints, the event log and dead letters', 'webhooks:write': 'Set webhook URLs, read secrets, send events again',
};
const movesMoney = ['accounts:transfer', 'holds:write', 'payouts:create']; // only the owner makes such keys

const moves = (names) => names.some((s) => movesMoney.includes(s)); // then the owner shows who is there

const kept = 'It is shown only once and cannot be read again. Store it like a password.';

// keys lists them, newest first.
export function keys(_, __, session) {
  const found = list({
    caption: 'API keys', noun: 'key',
    columns: [
      { name: 'Name', head: true, loose: true, value: (k) => [k.name, h('div', { class: 'dim' }, code(k.suffix), k.main && k.name !== 'Main key' && ' · main key')] },
      { name: 'Status', value: (k) => [badge(k.status), k.expiresAt && k.status !== 'revoked' && h('div', { class: 'dim' }, k.status === 'expired' ? 'Since ' : 'Until ', time(k.expiresAt))] },
      { name: 'May do', wide: true, value: (k) => (Object.keys(scopes).every((s) => k.scopes.includes(s)) ? 'Everything' : h('span', { class: 'reference' }, k.scopes.join(', '))) },
      { name: 'From', value: (k) => (k.networks.length ? k.networks.map((n) => h('div', { class: 'figures' }, n)) : 'Anywhere') },
      { name: 'Last used', value: (k) => [time(k.lastUsedAt, 'Never'), k.lastUsedFrom && h('div', { class: 'dim figures' }, k.lastUsedFrom)] },
      { name: 'Change', value: (k) => changes(k, session, () => found.reload()) },
    ],
    fetchPage: (range) => read('/auth/keys', 'keys', range),
    none: () => empty('No keys.'),
  });
  return {
    title: 'Keys',
    nodes: [
      pageHead('Keys', {
        lead: 'Give each program a key of its own, with no more scopes than it needs.',
        actions: [refreshButton(found.reload), h('a', { class: 'button main', href: '#/keys/new' }, 'Create a key')],
      }), found.box,
    ],
  };
}

// changes are the buttons of a key's row.
function changes(k, session, reload) {
  if (k.status === 'revoked' || k.status === 'expired') return '—';
  const path = '/auth/keys/' + segment(k.id);
  const named = `${k.name}, ${k.suffix}`;
  const after = async (text) => {
    await reload();
    announce(text);
    document.querySelector('h1').focus();
  };
  const mayRotate = k.status === 'active' && (session.may('owner') || !moves(k.scopes));
  return h('div', { class: 'actions' },
    mayRotate && button('Rotate…', async () => {
      let key;
      const done = await asked({
        title: `Rotate the key “${k.name}”?`, label: 'Rotate key', text: 'A new key takes its place, with the same scopes, networks and expiry.',
        fields: [{ name: 'overlap', label: 'The current key', options: [['0', 'Stops working at once'], ['3600', 'Works for another hour'], ['86400', 'Works for another day'], ['604800', 'Works for another week']] }, ...(moves(k.scopes) ? proofFields(session) : [])],
        act: async ({ overlap, ...proof }) => { key = (await post(path + '/rotate', { overlap: Number(overlap), ...proof })).apiKey; },
      });
      if (!done) return;
      await showOnce({ title: 'Your new API key', text: kept, secret: key, what: 'API key' });
      await session.changed();
      await after('The new key is active.');
    }, { kind: 'small', describe: `Rotate… ${named}` }),
    button('Revoke…', async () => {
      const yes = await confirmed({
        title: `Revoke the key “${k.name}”?`, label: 'Revoke key', act: () => post(path + '/revoke'),
        text: `Every program that uses the key that ends in ${k.suffix} is refused from now on. ${k.main ? 'It is the main key: the owner can create another one in the settings.' : 'This cannot be undone.'}`,
      });
      if (!yes) return;
      await session.changed();
      await after(`The key “${k.name}” was revoked.`);
    }, { kind: 'small danger', describe: `Revoke… ${named}` }));
}

// newKey is the page that makes one.
export function newKey(_, __, session) {
  const offered = Object.keys(scopes).filter((s) => session.may('owner') || !movesMoney.includes(s));
  const boxes = h('fieldset', null, h('legend', null, 'Scopes'), offered.map((name) => h('label', { class: 'check' },
    h('input', { type: 'checkbox', name: 'scope', value: name }), h('span', null, code(name), ' ', dim(scopes[name])))),
  !session.may('owner') && h('p', { class: 'hint' }, 'Only the owner can create a key that moves money.'));
  const f = form([
    { name: 'name', label: 'Name', required: true, maxlength: 100, autocomplete: 'off', hint: 'What it is for: the program that uses it.' },
    boxes,
    { name: 'networks', label: 'Networks', rows: 3, spellcheck: 'false', placeholder: '203.0.113.0/24', hint: 'Where it may be used from: IP addresses or ranges, one per line. Empty: anywhere.' },
    { name: 'until', label: 'Last day', type: 'date', min: new Date().toLocaleDateString('sv', { timeZone: 'Africa/Lagos' }), hint: 'It works until the end of this day in Lagos. Empty: until it is revoked.' },
  ], 'Create key', async ({ name, networks, until }) => {
    const chosen = [...boxes.querySelectorAll(':checked')].map((box) => box.value);
    let apiKey;
    const make = async (proof) => {
      ({ apiKey } = await post('/auth/keys', {
        name, scopes: chosen, networks: networks.split(/[\s,]+/).filter(Boolean), ...(until && { expiresAt: `${until}T23:59:59+01:00` }), ...proof,
      }));
    };
    const fields = moves(chosen) ? proofFields(session) : [];
    if (!fields.length) await make();
    else if (!await asked({ title: 'Create a key that moves money?', label: 'Create it', text: 'Whoever has the key needs no password.', fields, act: make })) return;
    await showOnce({ title: 'Your new API key', text: kept, secret: apiKey, what: 'API key' });
    location.hash = '#/keys';
  });
  return {
    title: 'New key',
    nodes: [pageHead('New key', { up: { href: '#/keys', name: 'Keys' } }), card('What it may do', f)],
  };
}
