// The parts that pages are made of.

import { download, mode } from './api.js';
import { h, icon, straight } from './dom.js';
import { moment, naira, status } from './format.js';
import { grown } from './route.js';

// announce shows what happened: seen at the foot of the page for a while, and read out by screen readers.
export function announce(text) {
  const place = document.getElementById('status');
  const note = h('p', { class: 'toast' }, text);
  place.replaceChildren(note);
  setTimeout(() => note.remove(), 7000);
}

// badge shows a status by its name; the colour only repeats it.
export function badge(value) {
  const [name, tone] = status(value);
  return h('span', { class: `badge ${tone}` }, name);
}

// amount shows money in figures that stand under one another.
export function amount(text, tone) {
  return h('span', { class: 'money' + (tone ? ' ' + tone : '') + (String(text).startsWith('-') ? ' below' : '') }, naira(text));
}

// time shows a moment, with the API's own text for whoever points at it. In a table it stands on one line: the seconds, and the year where it is this one, are left out there.
export function time(text, none = '—') {
  if (!text) return h('span', { class: 'dim' }, none);
  const [, day, year, clock, seconds] = /^(.+?)( [0-9]{4}), (.+)(:[0-9]{2})$/.exec(moment(text)) ?? [null, moment(text)];
  if (!year) return h('time', { datetime: text, title: text }, day);
  const more = (part) => h('span', { class: 'more' }, part);
  return h('time', { datetime: text, title: text }, day, moment(new Date()).includes(year) ? more(year) : year, ', ', clock, more(seconds));
}

export const code = (text) => h('code', null, text);
export const dim = (...text) => h('span', { class: 'dim' }, text);

// pageHead is a page's first line: where it hangs, its title, and what can be done on it.
export function pageHead(title, { up, lead, actions } = {}) {
  return h('header', { class: 'page-head' },
    h('div', null,
      up && h('p', { class: 'up' }, h('a', { href: up.href }, '← ' + up.name)),
      h('h1', { tabindex: '-1' }, title),
      lead && h('p', { class: 'lead' }, lead)),
    actions && h('div', { class: 'actions' }, actions));
}

// retitle gives a page its data's own name, once that is known.
export function retitle(head, title) {
  head.querySelector('h1').textContent = straight(title);
  document.title = straight(title) + ' · Ajo';
}

// card is a titled part of a page.
export function card(title, ...children) {
  const id = 'h-' + title.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-');
  return h('section', { class: 'card', 'aria-labelledby': id }, h('h2', { id }, title), children);
}

// facts is a list of names and values; what has no value is left out.
export function facts(pairs) {
  return h('dl', { class: 'facts' }, pairs.filter(([, v]) => v !== null && v !== undefined && v !== '').map(
    ([name, value]) => h('div', null, h('dt', null, name), h('dd', null, value))));
}

// button is one that does something; while that lasts it cannot be pressed again, and a refusal is shown beside it.
export function button(label, act, { kind = '', iconName, describe } = {}) {
  const b = h('button', { type: 'button', class: 'button ' + kind, 'aria-label': describe }, iconName && icon(iconName), label);
  b.addEventListener('click', () => busy(b, act));
  return b;
}

// busy runs an act of a button or form. Its refusal is put after it.
export async function busy(control, act) {
  if (control.getAttribute('aria-disabled') === 'true') return;
  const place = control.closest('form, dialog') ?? control.parentElement;
  place.querySelector(':scope > .problem')?.remove();
  control.setAttribute('aria-disabled', 'true');
  try {
    await act();
  } catch (e) {
    place.append(problem(e));
  } finally {
    control.removeAttribute('aria-disabled');
  }
}

// problem shows a refusal where it happened, and reads it out.
export function problem(e) {
  if (e.status === undefined) console.error(e);
  const text = e.status === undefined ? 'Something went wrong. Reload the page.' : e.message;
  return h('p', { class: 'problem', role: 'alert' }, sentence(text), e.status >= 500 && e.id && [' Request ID ', code(e.id)]);
}

// exported fetches a file, so that a refusal is shown here. With a key held, the browser does what it does with links.
export function exported(e) {
  if (!mode.test && (e.ctrlKey || e.metaKey || e.shiftKey)) return; // a link would ask for live data
  e.preventDefault();
  const link = e.currentTarget;
  busy(link, async () => announce(`${await download(link.getAttribute('href'))} downloaded.`));
}

// sentence makes one of an error's text, which is written for developers.
export function sentence(text) {
  const first = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(first) ? first : first + '.';
}

// copyButton puts a text on the clipboard; where the browser refuses that, it selects it to be copied by hand.
export function copyButton(text, what, from) {
  const b = button('Copy', async () => {
    try {
      await navigator.clipboard.writeText(text);
      b.classList.add('done'); // seen in a dialog too, which hides all else
      setTimeout(() => b.classList.remove('done'), 2000);
      announce(`${what} copied.`);
    } catch {
      if (from) getSelection().selectAllChildren(from);
      announce('Your browser does not allow copying. Press Ctrl+C to copy the selected text.');
    }
  }, { kind: 'small', iconName: 'copy', describe: `Copy ${what.charAt(0).toLowerCase() + what.slice(1)}` });
  return b;
}

// secretBox shows a text to be copied.
export function secretBox(text, what) {
  const value = h('code', { class: 'secret' }, text);
  return h('div', { class: 'copyable' }, value, copyButton(text, what, value));
}

// snippet is a command to be copied.
export function snippet(text, what) {
  const pre = h('pre', { tabindex: '0', role: 'group', 'aria-label': what }, text);
  return h('div', { class: 'snippet' }, pre, copyButton(text, what, pre));
}

// region loads something and shows it (reload reports whether that worked): a sketch meanwhile, the refusal with a way to try again, or what render makes of it. What
// is loaded again and has not changed stays as it stands, with the focus in it.
export function region(load, render, { rows = 4 } = {}) {
  const box = h('div', { class: 'region' });
  let turn = 0;
  let shown;
  async function reload() {
    const mine = ++turn;
    box.setAttribute('aria-busy', 'true');
    if (!box.hasChildNodes()) box.append(sketch(rows));
    try {
      const data = await load();
      const text = JSON.stringify(data);
      if (mine !== turn || text === shown) return true;
      box.replaceChildren(...[render(data)].flat().filter(Boolean));
      shown = text;
      grown();
    } catch (e) {
      if (mine !== turn) return true;
      box.replaceChildren(failed(e, reload));
      shown = undefined;
      return false;
    } finally {
      if (mine === turn) box.removeAttribute('aria-busy');
    }
    return true;
  }
  reload();
  return { box, reload };
}

function sketch(rows) {
  return h('div', { class: 'sketch' }, h('p', { class: 'hidden' }, 'Loading…'), Array.from({ length: rows }, () => h('div', { class: 'bar' })));
}

function failed(e, again) {
  return h('div', { class: 'state bad' }, problem(e), h('p', null, button('Try again', again)));
}

// empty says that there is nothing, and what to do about it.
export function empty(title, ...more) {
  return h('div', { class: 'state' }, h('p', { class: 'title' }, title), more.length > 0 && h('p', null, more));
}

// refreshButton reads a page's data again.
export function refreshButton(...reloads) {
  return button('Refresh', async () => {
    const good = await Promise.all(reloads.map((r) => r()));
    if (good.every(Boolean)) announce('Refreshed.'); // else the refusal stands where it happened
  }, { iconName: 'refresh' });
}

// back is the note of an address that leads nowhere.
export function notFound() {
  return { title: 'Not found', nodes: [pageHead('Not found'), empty('There is no such page.', h('a', { href: '#/' }, 'Go to the overview'))] };
}

// follow reads a region again while what it shows is moving, often at first, then every quarter of a minute, until it has ended or its page is
// left. In a state that waits for somebody it is not read.
export function follow(found, state, moving, waiting = []) {
  let wait = 1000;
  const again = async () => {
    if (!found.box.isConnected) return;
    const moves = moving.includes(state());
    if (moves && !document.hidden) await found.reload();
    wait = moves ? Math.min(wait * 1.5, 15000) : 1000;
    if (moves || state() === undefined || waiting.includes(state())) setTimeout(again, wait);
  };
  setTimeout(again, wait);
}
