// One's own account: password, second factor, sessions.

import { post, segment } from './api.js';
import { showOnce } from './dialog.js';
import { h } from './dom.js';
import { form } from './form.js';
import { rights, roles } from './members.js';
import { list, read } from './table.js';
import { announce, badge, button, card, empty, facts, pageHead, refreshButton, secretBox, snippet, time } from './ui.js';

// myAccount is the page of it.
export function myAccount(_, __, session) {
  const m = session.member;
  const open = sessions(session);
  return {
    title: 'My account',
    nodes: [
      pageHead('My account', { actions: refreshButton(open.reload) }),
      card('You', facts([['Name', m.name], ['E-mail', m.email], ['Role', [roles[m.role], ': ', rights[m.role]]], ['Organisation', session.tenant.name]])),
      card('Two-factor authentication', secondFactor(session)),
      card('Password', password()),
      card('Sessions', h('p', null, session.may('owner') ? 'All open sessions of your organisation. End those that you do not recognise, and have the person set a new password.'
        : 'Where you are logged in. End sessions that you do not recognise, and set a new password.'), open.box),
    ],
  };
}

// secondFactor shows whether there is one, sets it up, and turns it off.
function secondFactor(session) {
  const place = h('div', { class: 'stack' });
  const settle = async () => {
    await session.changed();
    place.replaceChildren(...(session.member.totp ? turnOff(session, settle) : setUp(place, settle)));
  };
  place.append(...(session.member.totp ? turnOff(session, settle) : setUp(place, settle)));
  return place;
}

const codeField = { name: 'code', label: 'Code', required: true, maxlength: 64, autocomplete: 'one-time-code', spellcheck: 'false' };

function setUp(place, settle) {
  return [
    h('p', null, badge('off'), ' A login asks for your password alone.'),
    h('p', { class: 'dim' }, 'With a second factor it also asks for a code from an authenticator app on your phone, such as Aegis, Google Authenticator or 1Password.'),
    form([{ name: 'password', label: 'Your password', type: 'password', required: true, maxlength: 128, autocomplete: 'current-password' }], 'Set up', async (v) => {
      const given = await post('/auth/totp', v);
      place.replaceChildren(...confirm(given, settle));
      place.querySelector('h3').focus();
    }),
  ];
}

// confirm shows what the authenticator is given, and takes its first code.
function confirm({ secret, url, qrCode }, settle) {
  return [
    h('h3', { tabindex: '-1' }, '1. Scan this with your authenticator'),
    h('img', { class: 'qr', src: qrCode, alt: 'QR code for an authenticator' }),
    h('p', null, 'On this device: ', h('a', { href: url }, 'open your authenticator'), '. Or type the key:'),
    secretBox(secret, 'Key of the authenticator'),
    h('h3', null, '2. Enter the code that it shows'),
    form([{ ...codeField, inputmode: 'numeric', pattern: ' *[0-9]{6} *', title: 'Six digits', class: 'code' }], 'Turn on', async ({ code }) => {
      const { recoveryCodes } = await post('/auth/totp/confirm', { code });
      await showOnce({
        title: 'Your recovery codes', what: 'Recovery codes', done: 'I have stored them', box: snippet(recoveryCodes.join('\n'), 'Recovery codes'),
        text: 'Each logs you in once without your authenticator. Store them, but not on your phone: they are shown only here.',
      });
      await settle();
      announce('Two-factor authentication is on. The next login asks for a code.');
      document.querySelector('h1').focus();
    }, { extra: button('Cancel', settle) }),
  ];
}

function turnOff(session, settle) {
  const kept = session.member.totpRequired && ['owner', 'finance'].includes(session.member.role);
  return [
    h('p', null, badge('on'), ' A login asks for a code of your authenticator, or for a recovery code.'),
    kept ? h('p', { class: 'dim' }, 'Your organisation requires it for your role.')
      : form([{ ...codeField, hint: 'From your authenticator, or a recovery code. Each works once.' }], 'Turn off', async (v) => {
        await post('/auth/totp/off', v);
        await settle();
        announce('Two-factor authentication is off.');
        document.querySelector('h1').focus();
      }, { kind: 'danger' }),
  ];
}

function password() {
  const f = form([
    { name: 'oldPassword', label: 'Current password', type: 'password', required: true, maxlength: 128, autocomplete: 'current-password' },
    { name: 'newPassword', label: 'New password', type: 'password', required: true, minlength: 8, maxlength: 128, autocomplete: 'new-password', hint: 'At least 8 characters. This ends all your other sessions.' },
  ], 'Change password', async (v) => {
    await post('/auth/password', v);
    f.reset();
    announce('Password changed. All your other sessions have ended.');
  });
  return f;
}

// sessions lists those that are open, newest first: the owner's list has everybody's.
function sessions(session) {
  const found = list({
    caption: 'Sessions', noun: 'session',
    columns: [
      ...(session.may('owner') ? [{ name: 'Member', head: true, loose: true, value: (s) => s.email }] : []),
      { name: 'Opened', value: (s) => time(s.createdAt) },
      { name: 'From', value: (s) => h('span', { class: 'figures' }, s.address ?? '—') },
      { name: 'Ends', value: (s) => time(s.expiresAt) },
      { name: 'End', value: (s) => (s.current ? 'This session' : button('End', async () => {
        await post(`/auth/sessions/${segment(s.id)}/end`);
        await found.reload();
        announce('The session has ended.');
        document.querySelector('h1').focus();
      }, { kind: 'small danger', describe: `End the session of ${s.email} from ${s.address ?? 'an unknown address'}` })) },
    ],
    fetchPage: (range) => read('/auth/sessions', 'sessions', range),
    none: () => empty('No open sessions.'),
  });
  return found;
}
