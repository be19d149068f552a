// Forms: labelled fields, a button, and refusals that stand where they belong.

import { h } from './dom.js';
import { busy } from './ui.js';

let made = 0; // fields, for ids: a dialog may have a field of the same name as the page below

// field is {name, label, type, hint, value, options, required, …}: a labelled control with its hint.
export function field({ name, label, hint, options, ...props }) {
  const id = `in-${name}-${++made}`;
  const described = hint ? id + '-hint' : null;
  const shared = { id, name, 'aria-describedby': described, ...props };
  const control = props.rows ? h('textarea', shared) : options
    ? h('select', shared, options.map(([v, text]) => h('option', { value: v, selected: v === props.value }, text)))
    : h('input', { type: 'text', ...shared });
  return h('div', { class: 'field' }, h('label', { for: id }, label), control, hint && h('p', { class: 'hint', id: described }, hint));
}

// form makes one of fields, or of ready nodes; submit(values) does what it is for. The browser checks what it can first. kind is the button's.
export function form(fields, label, submit, { kind = 'main', extra } = {}) {
  const send = h('button', { type: 'submit', class: 'button ' + kind }, label);
  const f = h('form', { class: 'form' }, fields.map((x) => (x instanceof Node ? x : field(x))), h('div', { class: 'actions' }, send, extra));
  f.addEventListener('submit', (e) => {
    e.preventDefault();
    const values = Object.fromEntries([...new FormData(f)].map(([k, v]) => [k, /password$/i.test(k) ? v : v.trim()]));
    busy(send, () => submit(values));
  });
  return f;
}
