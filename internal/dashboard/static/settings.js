// What a tenant sets: its key, its webhook URL and events, and its business.

import { call, get, post } from './api.js';
import { answer, body, eventNames, outcome } from './deliveries.js';
import { confirmed, showOnce } from './dialog.js';
import { h } from './dom.js';
import { form } from './form.js';
import { words } from './format.js';
import { announce, badge, busy, button, card, code, dim, facts, pageHead, region, secretBox, time } from './ui.js';

// settings is the page of all of them.
export function settings(_, __, session) {
  const t = session.tenant;
  return {
    title: 'Settings',
    nodes: [
      pageHead('Settings'),
      card('API key', apiKey(session)),
      card('Webhook', webhookURL(session), secret()),
      card('Events', region(() => get('/auth/webhook-events'), events, { rows: 3 }).box),
      card('Test event', testEvent()),
      card('Business KYC', businessKYC(session)),
      card('Password', password()),
      card('Organisation', facts([['Name', t.name], ['E-mail', t.email], ['Status', badge(t.status)], ['Id', code(t.id)], ['Since', time(t.createdAt)]])),
    ],
  };
}

function apiKey(session) {
  const suffix = code(session.tenant.apiKeySuffix);
  const rotate = button('Rotate key…', async () => {
    let key;
    const done = await confirmed({
      title: 'Make a new API key?', label: 'Rotate key',
      text: 'The present key is dead at once: every program that uses it is refused until it has the new one.',
      act: async () => { key = (await post('/auth/rotate-key')).apiKey; },
    });
    if (!done) return;
    await showOnce({ title: 'Your new API key', text: 'It is shown only now and cannot be read again.', secret: key, what: 'API key' });
    await session.changed();
    suffix.textContent = session.tenant.apiKeySuffix;
    announce('The new key is in force.');
  }, { kind: 'danger' });
  return [h('p', null, 'The key in force ends in ', suffix, '. Only its hash is kept, so it cannot be shown again.'), h('div', { class: 'actions' }, rotate)];
}

function webhookURL(session) {
  return form([{
    name: 'url', label: 'Webhook URL', type: 'url', required: true, maxlength: 2048, value: session.tenant.webhookUrl, placeholder: 'https://shop.example/ajo/hook',
    hint: 'Where events are posted. An account can have a URL of its own, which then counts for it.',
  }], 'Save', async ({ url }) => {
    let warning = '';
    await call('POST', '/auth/webhook-url', { body: { url }, warned: (text) => { warning = ` But ${text}.`; } });
    await session.changed();
    announce(`The webhook URL is saved. It counts for what happens from now on.${warning}`);
  });
}

function secret() {
  const place = h('div', { class: 'stack rule' });
  const shown = () => place.replaceChildren(
    h('p', null, 'Events are signed with a secret. ', dim('It is made with the first webhook URL, or when you look here for the first time.')),
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

function events({ events: chosen, available }) {
  const always = 'payment.received';
  const f = h('form', { class: 'form' }, h('fieldset', null, h('legend', null, 'Events you receive'),
    available.map((name) => h('label', { class: 'check' },
      h('input', { type: 'checkbox', name, checked: chosen.includes(name), disabled: name === always }),
      h('span', null, code(name), ' ', h('br'), dim(eventNames[name] ?? ''))))),
  h('div', { class: 'actions' }, h('button', { type: 'submit', class: 'button main' }, 'Save events')));
  f.addEventListener('submit', (e) => {
    e.preventDefault();
    busy(e.submitter, async () => {
      await post('/auth/webhook-events', { events: available.filter((name) => f.elements.namedItem(name).checked) });
      announce('Your choice of events is saved.');
    });
  });
  return f;
}

function testEvent() {
  const result = h('div', { 'aria-live': 'polite' });
  return [
    h('p', null, 'Sends one signed event ', code('test'), ' at once. It is no payment, and is not kept.'),
    form([{ name: 'url', label: 'To', type: 'url', maxlength: 2048, hint: 'Empty: to the webhook URL above.' }], 'Send a test event', async ({ url }) => {
      result.replaceChildren(dim('Sending…'));
      try {
        const r = await post('/auth/webhook-test', url ? { url } : {});
        result.replaceChildren(h('div', { class: 'result' },
          h('p', null, outcome(r), ` from ${r.url} after ${r.durationMs} ms`), answer(r),
          h('p', null, 'Signature: ', r.signatureHeader ? h('code', { class: 'secret' }, r.signatureHeader) : dim('none, as there is no signing secret yet')),
          h('details', null, h('summary', null, 'What was sent'), body('Test event', r.body, 'Body of the test event'))));
      } catch (e) {
        result.replaceChildren();
        throw e;
      }
    }), result,
  ];
}

function password() {
  const f = form([
    { name: 'oldPassword', label: 'Present password', type: 'password', required: true, maxlength: 128, autocomplete: 'current-password' },
    { name: 'newPassword', label: 'New password', type: 'password', required: true, minlength: 8, maxlength: 128, autocomplete: 'new-password', hint: 'At least 8 characters. All other sessions end.' },
  ], 'Change password', async (v) => {
    await post('/auth/password', v);
    f.reset();
    announce('The new password is in force. All other sessions have ended.');
  });
  return f;
}

function businessKYC(session) {
  const t = session.tenant;
  const state = h('p', { class: 'name' }, badge(t.kycStatus), t.businessType && [' ', words(t.businessType)]);
  if (t.kycStatus === 'verified') return [state, h('p', { class: 'dim' }, 'Nothing is left to do.')];
  const place = h('div', { class: 'stack' }, state, h('p', null, 'Needed before accounts can be opened in production.'), form([
    { name: 'businessType', label: 'Kind of business', options: ['sole_proprietor', 'registered_business', 'ngo', 'other'].map((v) => [v, v === 'ngo' ? 'NGO' : words(v)]) },
    { name: 'cacNumber', label: 'CAC number', maxlength: 64, hint: 'If it is registered.' },
  ], 'Submit', async ({ businessType, cacNumber }) => {
    await post('/auth/business-kyc', cacNumber ? { businessType, cacNumber } : { businessType });
    await session.changed();
    place.replaceChildren(...businessKYC(session));
    announce('Your business is verified.');
  }));
  return [place];
}
