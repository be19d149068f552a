// Before there is a session: logging in, and the first time, choosing a password.

import { call } from './api.js';
import { h } from './dom.js';
import { form } from './form.js';
import { secretBox } from './ui.js';

const post = (path, body) => call('POST', '/console/api' + path, { body, open: true });

const name = { name: 'name', label: 'Name', required: true, maxlength: 40, autocomplete: 'username', spellcheck: 'false', autocapitalize: 'none' };

function page(title, lead, ...nodes) {
  return { title, nodes: [h('div', { class: 'signin card' }, h('h1', { tabindex: '-1' }, title), lead && h('p', { class: 'lead' }, lead), nodes)] };
}

// login is the page that opens a session; next is where to go then.
export function login(_, { next, note }, { signedIn }) {
  const f = form([
    name,
    { name: 'password', label: 'Password', type: 'password', required: true, maxlength: 128, autocomplete: 'current-password' },
    { name: 'code', label: 'Code', required: true, maxlength: 6, inputmode: 'numeric', autocomplete: 'one-time-code', spellcheck: 'false', hint: 'Six digits from your authenticator.' },
  ], 'Log in', async (v) => {
    await post('/login', v);
    await signedIn(next);
  });
  return page('Log in', 'For operators of this service.', note === 'ended' && h('p', { class: 'note', role: 'status' }, 'Your session has ended. Log in to continue where you left off.'), f,
    h('p', null, 'First time here? ', h('a', { href: '#/setup' }, 'Use a set-up code')));
}

// setUp is the page on which a new operator chooses a password and gets the second factor.
export function setUp() {
  const place = h('div', { class: 'stack' });
  place.append(form([
    name,
    { name: 'code', label: 'Set-up code', required: true, maxlength: 43, autocomplete: 'off', spellcheck: 'false', hint: 'From the operator who created your account. Valid for a day, until your first login.' },
    { name: 'password', label: 'New password', type: 'password', required: true, minlength: 12, maxlength: 128, autocomplete: 'new-password', hint: 'At least 12 characters.' },
  ], 'Set up', async (v) => {
    const { secret, qrCode } = await post('/setup', v);
    const title = h('h2', { tabindex: '-1' }, 'Add it to your authenticator');
    place.replaceChildren(title,
      h('p', null, 'Scan this with your authenticator, or type the secret below it. It is not shown again.'),
      h('img', { class: 'qr', src: qrCode, alt: 'QR code of the secret below' }),
      secretBox(secret, 'Secret'),
      h('p', { class: 'actions' }, h('a', { class: 'button main', href: '#/login' }, 'Log in')));
    title.focus();
  }));
  return page('Set up your account', 'The second factor comes next: have an authenticator at hand.', place, h('p', null, h('a', { href: '#/login' }, 'Back to log in')));
}
