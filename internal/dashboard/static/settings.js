// What a tenant sets: its key, its webhook URL and events, and its business. Who may not change something only reads it.

import { call, get, mode, post } from './api.js';
import { policy } from './approval.js';
import { answer, body, eventNames, outcome } from './deliveries.js';
import { asked, confirmed, showOnce } from './dialog.js';
import { h } from './dom.js';
import { form } from './form.js';
import { words } from './format.js';
import { proofField } from './proof.js';
import { announce, badge, busy, button, card, code, dim, facts, pageHead, region, secretBox, time } from './ui.js';

// settings is the page of all of them, as they are now: a program or another member may have changed some since the dashboard was loaded.
export function settings(_, __, session) {
  const known = region(() => get('/auth/me'), (t) => [
    card('API key', apiKey(t, session, () => known.reload())),
    card('Webhook', webhookURL(t, session), h('p', null, 'More URLs, each with its own events and secret: ', h('a', { href: '#/endpoints' }, 'Webhook endpoints'), '.'), session.may('developer') && secret()),
    card('Events', region(() => get('/auth/webhook-events'), (e) => events(e, session), { rows: 3 }).box),
    session.may('developer') && card('Test event', testEvent()),
    card('Payout approval', policy(session)),
    card('Business KYC', businessKYC(t, session)),
    card('Organisation', facts([['Name', t.name], ['E-mail', t.email], ['Status', badge(t.status)], ['ID', code(t.id)], ['Created', time(t.createdAt)]])),
  ], { rows: 8 });
  return { title: 'Settings', nodes: [pageHead('Settings'), known.box] };
}

// apiKey shows the main key's end, and makes another one: the first, too, where it was revoked.
function apiKey(t, session, reload) {
  const label = t.apiKeySuffix ? 'Rotate key' : 'Create a main key';
  const rotate = button(label + '…', async () => {
    let key;
    const done = await (session.member.totp ? asked : confirmed)({ // without a second factor nothing is asked for, as specified
      title: t.apiKeySuffix ? 'Rotate the API key?' : 'Create a main key?', label, fields: [proofField(session)], danger: true,
      text: t.apiKeySuffix ? 'The current key stops working immediately. Every program that uses it is refused until it has the new key.' : 'It has every scope and no network restriction.',
      act: async (proof) => { key = (await post('/auth/rotate-key', proof)).apiKey; },
    });
    if (!done) return;
    await showOnce({ title: 'Your new API key', text: 'It is shown only once and cannot be read again.', secret: key, what: 'API key' });
    await session.changed();
    await reload();
    announce('The new key is active.');
  }, { kind: t.apiKeySuffix ? 'danger' : 'main' });
  if (mode.test) return h('p', null, 'Test mode has test keys, which begin with ', code('ajo_test_'), '. Make them under ', h('a', { href: '#/keys' }, 'Keys'), '.');
  const main = t.apiKeySuffix ? ['The main key ends in ', code(t.apiKeySuffix), '. Only its hash is stored, so it cannot be shown again.'] : 'There is no main key.';
  return [h('p', null, main), session.may('developer') && h('p', null, 'Keys with fewer rights, for each of your programs: ', h('a', { href: '#/keys' }, 'Keys'), '.'),
  session.may('owner') && h('div', { class: 'actions' }, rotate)];
}

function webhookURL(t, session) {
  if (!session.may('developer')) return h('p', null, t.webhookUrl ? ['Events are sent to ', code(t.webhookUrl), '.'] : 'None is set.');
  return form([{
    name: 'url', label: 'Webhook URL', type: 'url', required: true, maxlength: 2048, value: t.webhookUrl, placeholder: 'https://shop.example/ajo/hook',
    hint: 'Events are sent here, except for accounts with a URL of their own.',
  }], 'Save', async ({ url }) => {
    let warning = '';
    await call('POST', '/auth/webhook-url', { body: { url }, warned: (text) => { warning = ` But ${text}.`; } });
    await session.changed();
    announce(`Webhook URL saved. It applies to events from now on.${warning}`);
  });
}

function secret() {
  const place = h('div', { class: 'stack rule' });
  const shown = () => place.replaceChildren(
    h('p', null, 'Events are signed with a secret. ', dim('It is created with the first webhook URL, or the first time it is shown here.')),
    h('div', { class: 'actions' }, button('Show signing secret', async () => {
      const { webhookSecret } = await post('/auth/webhook-secret');
      const hide = button('Hide', async () => {
        shown();
        place.querySelector('button').focus();
      });
      place.replaceChildren(h('p', null, 'Signing secret:'), secretBox(webhookSecret, 'Signing secret'), h('div', { class: 'actions' }, hide));
      hide.focus();
    })));
  shown();
  return place;
}

function events({ events: chosen, available, logAll }, session) {
  if (!session.may('developer')) return h('p', null, 'You receive ', chosen.map((name, i) => [i > 0 && ', ', code(name)]), '.');
  const always = 'payment.received';
  const f = h('form', { class: 'form' }, h('fieldset', null, h('legend', null, 'Events you receive'),
    available.map((name) => h('label', { class: 'check' },
      h('input', { type: 'checkbox', name, checked: chosen.includes(name), disabled: name === always }),
      h('span', null, code(name), ' ', h('br'), dim(eventNames[name] ?? '', name === always && ' Always sent.'))))),
  h('fieldset', null, h('legend', null, 'Log of events'), h('label', { class: 'check' }, h('input', { type: 'checkbox', name: 'logAll', checked: logAll }),
    h('span', null, 'Keep every event, including those that go to no URL', h('br'), dim('Your programs read them in order by ', code('GET /v1/events'), '. From now on.')))),
  h('div', { class: 'actions' }, h('button', { type: 'submit', class: 'button main' }, 'Save events')));
  f.addEventListener('submit', (e) => {
    e.preventDefault();
    busy(e.submitter, async () => {
      await post('/auth/webhook-events', { events: available.filter((name) => f.elements.namedItem(name).checked), logAll: f.elements.namedItem('logAll').checked });
      announce('Events saved.');
    });
  });
  return f;
}

function testEvent() {
  const result = h('div', { 'aria-live': 'polite' });
  return [
    h('p', null, 'Sends one signed ', code('test'), ' event immediately. It is not a payment and is not stored.'),
    form([{ name: 'url', label: 'To', type: 'url', maxlength: 2048, hint: 'Leave empty to use the webhook URL above.' }], 'Send a test event', async ({ url }) => {
      result.replaceChildren(dim('Sending…'));
      try {
        const r = await post('/auth/webhook-test', url ? { url } : {});
        result.replaceChildren(h('div', { class: 'result' },
          h('p', null, outcome(r), ` from ${r.url} in ${r.durationMs} ms`), answer(r),
          h('p', null, 'Signature: ', r.signatureHeader ? h('code', { class: 'secret' }, r.signatureHeader) : dim('none, as there is no signing secret yet')),
          h('details', null, h('summary', null, 'What was sent'), body('Test event', r.body, 'Body of the test event'))));
      } catch (e) {
        result.replaceChildren();
        throw e;
      }
    }), result,
  ];
}

function businessKYC(t, session) {
  if (mode.test) return h('p', null, 'In test mode every business counts as verified. Switch to live mode to see whether yours is: in production it must be, before you can open accounts.');
  const state = h('p', { class: 'name' }, badge(t.kycStatus), t.businessType && [' ', words(t.businessType)]);
  if (t.kycStatus === 'verified') return [state, h('p', { class: 'dim' }, 'There is nothing left to do.')];
  if (!session.may('owner')) return [state, h('p', { class: 'dim' }, 'The owner submits it.')];
  const place = h('div', { class: 'stack' }, state, h('p', null, 'Required before you can open accounts in production.'), form([
    { name: 'businessType', label: 'Business type', options: ['sole_proprietor', 'registered_business', 'ngo', 'other'].map((v) => [v, v === 'ngo' ? 'NGO' : words(v)]) },
    { name: 'cacNumber', label: 'CAC number', maxlength: 64, hint: 'If your business is registered.' },
  ], 'Submit', async ({ businessType, cacNumber }) => {
    await post('/auth/business-kyc', cacNumber ? { businessType, cacNumber } : { businessType });
    await session.changed();
    place.replaceChildren(...businessKYC(session.tenant, session));
    announce('Your business is verified.');
  }));
  return [place];
}
