// Questions and secrets that stand before everything else. The browser's own <dialog> keeps the focus in and gives it back.

import { h } from './dom.js';
import { form } from './form.js';
import { busy, secretBox } from './ui.js';

// open shows a dialog and resolves with the value that it was closed with.
function open(title, children, { mayEscape = true } = {}) {
  const heading = h('h2', { id: 'dialog-title' }, title);
  const d = h('dialog', { 'aria-labelledby': 'dialog-title' }, heading, children);
  if (!mayEscape) { // a browser asks for a cancel to be prevented only once, and closes at the second Escape
    d.setAttribute('closedby', 'none');
    d.addEventListener('cancel', (e) => e.preventDefault());
    d.addEventListener('keydown', (e) => { if (e.key === 'Escape') e.preventDefault(); });
  }
  document.body.append(d);
  return new Promise((resolve) => {
    d.addEventListener('close', () => {
      d.remove();
      resolve(d.returnValue);
    });
    d.showModal();
  });
}

const cancel = () => h('button', { type: 'button', class: 'button', onclick: (e) => e.target.closest('dialog').close('') }, 'Cancel');

// asked asks for fields before something is done with them, as confirmed does.
export async function asked({ title, text, fields, label, danger = false, act }) {
  const f = form(fields, label, async (values) => {
    await act(values);
    f.closest('dialog').close('done');
  }, { kind: danger ? 'danger' : 'main', extra: cancel() });
  return (await open(title, [h('p', null, text), f])) === 'done';
}

// confirmed asks before something is done, does it while the dialog stands, and reports whether it was done. A refusal is shown in it.
export async function confirmed({ title, text, label, danger = true, act }) {
  const no = cancel();
  no.autofocus = true; // Enter alone does nothing
  const yes = h('button', { type: 'button', class: 'button ' + (danger ? 'danger' : 'main') }, label);
  yes.addEventListener('click', () => busy(yes, async () => {
    await act();
    yes.closest('dialog').close('done');
  }));
  return (await open(title, [h('p', null, text), h('div', { class: 'actions' }, yes, no)])) === 'done';
}

// showOnce shows a secret that cannot be read again; it must be put away before the dialog ends. box is where it stands.
export function showOnce({ title, text, secret, what, box = secretBox(secret, what), done: label = 'I have stored it' }) {
  const done = h('button', { type: 'button', class: 'button main', onclick: (e) => e.target.closest('dialog').close('') }, label);
  return open(title, [h('p', null, text), box, h('div', { class: 'actions' }, done)], { mayEscape: false });
}
