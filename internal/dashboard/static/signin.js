// Before there is a session: signing up, the code, the first key, logging in.

import { call } from './api.js';
import { h } from './dom.js';
import { field, form } from './form.js';
import { announce, code, problem, secretBox, snippet } from './ui.js';

// What was typed on the way from sign-up to the first session. It is never stored: after a reload one logs in.
let typed = null;

const post = (path, body) => call('POST', path, { body, open: true });

const address = { name: 'email', label: 'E-mail', type: 'email', required: true, maxlength: 254, autocomplete: 'username' };

function page(title, lead, ...nodes) {
  return { title, nodes: [h('div', { class: 'signin card' }, h('h1', { tabindex: '-1' }, title), lead && h('p', { class: 'lead' }, lead), nodes)] };
}

// login is the page that opens a session; next is where to go then.
export function login(_, { next, note }, { signedIn }) {
  const f = form([
    address,
    { name: 'password', label: 'Password', type: 'password', required: true, maxlength: 128, autocomplete: 'current-password' },
  ], 'Log in', async (v) => {
    try {
      await post('/auth/login', v);
    } catch (e) {
      if (e.message === 'code is required') askForCode(f);
      throw e;
    }
    await signedIn(next);
  });
  const notes = { ended: 'Your session has ended. Log in to continue where you left off.', reset: 'Your new password is set. Log in with it.', verified: 'Your e-mail address is verified. Log in to continue.', link: 'This sign-in link is no longer valid. A link works once, within ten minutes.' };
  return page('Log in', 'Collections and payouts for your business.', notes[note] && h('p', { class: 'note', role: 'status' }, notes[note]), f,
    h('p', null, 'New here? ', h('a', { href: '#/signup' }, 'Sign up')),
    h('p', null, 'Invited? ', h('a', { href: '#/accept' }, 'Accept an invitation')),
    h('p', null, h('a', { href: '#/forgot' }, 'Forgot your password?')));
}

// askForCode adds a field for the second factor to the login's form, once.
function askForCode(f) {
  if (f.elements.code) return;
  f.querySelector('.actions').before(field({
    name: 'code', label: 'Code', required: true, maxlength: 64, autocomplete: 'one-time-code', spellcheck: 'false', hint: 'Six digits from your authenticator, or a recovery code.',
  }));
  f.elements.code.focus();
}

// accept makes an invited person a member by the mailed code, and opens a session.
export function accept(_, __, { signedIn }) {
  const f = form([
    { name: 'code', label: 'Code', required: true, maxlength: 43, autocomplete: 'one-time-code', spellcheck: 'false', hint: 'From the e-mail. Valid for seven days.' },
    { name: 'name', label: 'Your name', required: true, maxlength: 200, autocomplete: 'name' },
    { name: 'password', label: 'Password', type: 'password', required: true, minlength: 8, maxlength: 128, autocomplete: 'new-password', hint: 'At least 8 characters.' },
  ], 'Join', async (v) => {
    await post('/auth/accept-invitation', v);
    await signedIn('/');
  });
  return page('Accept an invitation', 'The code is in the e-mail that invites you.', f, h('p', null, h('a', { href: '#/login' }, 'Back to log in')));
}

const newPassword = {
  name: 'newPassword', label: 'New password', type: 'password', required: true, minlength: 8, maxlength: 128, autocomplete: 'new-password', hint: 'At least 8 characters.',
};

// forgot has a code mailed, for the page that comes next.
export function forgot() {
  const f = form([address], 'Send a code', async (v) => {
    await post('/auth/forgot-password', v);
    location.hash = '#/reset';
  });
  return page('Reset your password', 'We will send a code to your account’s e-mail address.', f, h('p', null, h('a', { href: '#/login' }, 'Back to log in')));
}

// enter goes on into the session that is open by now or, where there is none, to the login, which says what was done.
async function enter(signedIn, note) {
  try {
    await signedIn('/');
  } catch (e) {
    if (e.status !== 401) throw e;
    location.hash = '#/login?note=' + note;
  }
}

// reset sets a new password by the mailed code, and opens a session.
export function reset(_, __, { signedIn }) {
  const f = form([
    { name: 'code', label: 'Code', required: true, maxlength: 43, autocomplete: 'one-time-code', spellcheck: 'false', hint: 'From the e-mail. Valid for 30 minutes.' },
    newPassword,
  ], 'Set password', async (v) => {
    await post('/auth/reset-password', v);
    await enter(signedIn, 'reset'); // with a second factor there is no session yet
  });
  return page('New password', 'If that e-mail address has an account, we have sent it a code. A new password ends all other sessions.', f,
    h('p', null, 'No e-mail? ', h('a', { href: '#/forgot' }, 'Send another code')));
}

// signup registers a tenant; the code that is mailed comes next.
export function signup() {
  const f = form([
    { name: 'name', label: 'Business name', required: true, maxlength: 200, autocomplete: 'organization' },
    address,
    { name: 'password', label: 'Password', type: 'password', required: true, minlength: 8, maxlength: 128, autocomplete: 'new-password', hint: 'At least 8 characters.' },
  ], 'Sign up', async (v) => {
    const { tenantId } = await post('/register', v);
    typed = v;
    location.hash = '#/code?tenant=' + tenantId;
  });
  return page('Sign up', 'Three steps: your business, a code by e-mail, and your API key.', f,
    h('p', null, 'Already signed up? ', h('a', { href: '#/login' }, 'Log in')));
}

// enterCode takes the mailed code, and shows the key that it is answered with.
export function enterCode(_, { tenant }, { signedIn }) {
  if (!tenant) return signup();
  const again = typed && h('button', { type: 'button', class: 'button plain' }, 'Send a new code');
  again?.addEventListener('click', async () => {
    again.parentElement.querySelector('.problem')?.remove();
    try {
      ({ tenantId: tenant } = await post('/register', typed)); // a registration of its own, with its own code
      history.replaceState(null, '', '#/code?tenant=' + tenant);
      id.textContent = tenant;
      announce('A new code is on its way.');
    } catch (e) {
      again.after(problem(e));
    }
  });
  const f = form([{
    name: 'otp', label: 'Code', required: true, pattern: '[0-9]{6}', maxlength: 6, inputmode: 'numeric', autocomplete: 'one-time-code',
    title: 'Six digits', hint: 'Six digits, valid for ten minutes.', class: 'code',
  }], 'Verify', async ({ otp }) => {
    const { apiKey } = await post('/auth/verify-email', { tenantId: tenant, otp });
    showKey(f.closest('main'), apiKey, signedIn);
  }, { extra: again });
  const id = code(tenant);
  return page('Check your e-mail', typed ? `We sent a code to ${typed.email}.` : 'We sent you a code.', f,
    h('p', { class: 'dim' }, 'The e-mail names your tenant ID, too: ', id, '. If it names another one, it is not for this sign-up.'),
    h('p', null, 'Wrong address? ', h('a', { href: '#/signup' }, 'Sign up again')));
}

// showKey replaces the page by the key, which is shown only here, and goes on into a session.
function showKey(main, key, signedIn) {
  const { nodes } = page('Your API key', 'It is shown only once and cannot be read again. Store it like a password: it can move money.',
    secretBox(key, 'API key'),
    h('p', null, 'In a terminal:'),
    snippet(`API=${location.origin}\nKEY=${key}`, 'Variables for the terminal'),
    form([], 'I have stored it: continue', async () => {
      if (typed) await post('/auth/login', { email: typed.email, password: typed.password });
      typed = null;
      await enter(signedIn, 'verified');
    }));
  main.replaceChildren(...nodes);
  document.title = 'Your API key · Ajo';
  main.querySelector('h1').focus();
}

// byLink opens a session with the token of a one-time link.
export const byLink = (token) => post('/auth/login-link', { token });
