// What stands around every page, of the dashboard and of the operators' console: the menu, the choice of a theme, and where the focus goes.

import { queryText } from './api.js';
import { h, icon } from './dom.js';
import { arrive, read } from './route.js';

// shell draws a page and hands it the focus, so that its title is read out and Tab goes on from there. menu is of [path, name, icon, role, an address whose pages belong to it too]; who() is what
// stands below it. Without a session there is neither. banner stands above the page.
export function shell({ nodes, title, path, signedIn, menu, who, banner, name = 'Ajo' }) {
  document.title = title + ' · ' + name;
  const main = h('main', { id: 'main', tabindex: '-1' }, banner, nodes);
  const app = document.getElementById('app');
  app.replaceChildren(...(signedIn ? [side(path, name, menu, who()), main] : [h('header', { class: 'top' }, brand(name), theme()), main]));
  app.className = signedIn ? 'signed-in' : 'signed-out';
  arrive();
  (main.querySelector('h1') ?? main).focus({ preventScroll: true });
}

const brand = (name) => h('a', { class: 'brand', href: '#/' }, h('span', { class: 'mark', 'aria-hidden': 'true' }, 'a'), name);

function side(path, name, menu, who) {
  const nav = h('nav', { id: 'nav', 'aria-label': 'Pages' },
    h('ul', null, menu.map(([p, label, symbol, , beside]) => {
      const here = p === '/' ? path === '/' : [p, beside].some((of) => of && (path === of || path?.startsWith(of + '/')));
      return h('li', null, h('a', { href: '#' + p, 'aria-current': here && 'page' }, icon(symbol), label));
    })),
    h('div', { class: 'who' }, who));
  const toggle = h('button', { type: 'button', class: 'button menu', 'aria-expanded': 'false', 'aria-controls': 'nav' }, icon('menu'), 'Menu');
  toggle.addEventListener('click', () => {
    const now = toggle.getAttribute('aria-expanded') !== 'true';
    toggle.setAttribute('aria-expanded', String(now));
    nav.classList.toggle('open', now);
  });
  return h('header', { class: 'side' }, h('div', { class: 'stay' }, h('div', { class: 'masthead' }, brand(name), toggle), seek(), nav));
}

// seek is the box that searches everything; / leads to it from anywhere on the page.
function seek() {
  const { path, query } = read();
  const box = h('input', { type: 'search', id: 'seek', name: 'q', minlength: '2', maxlength: '100', required: true, placeholder: 'Search   /', autocomplete: 'off', spellcheck: 'false', 'aria-keyshortcuts': '/', value: path === '/search' ? query.q ?? '' : '' });
  return h('form', { class: 'seek', role: 'search', 'aria-label': 'Everything', onsubmit: (e) => {
    e.preventDefault();
    location.hash = '#/search' + queryText({ q: box.value.trim() });
  } }, h('label', { class: 'hidden', for: 'seek' }, 'Search everything'), box);
}

addEventListener('keydown', (e) => {
  const box = document.getElementById('seek');
  if (e.key !== '/' || e.ctrlKey || e.metaKey || e.altKey || !box || e.target.closest('input, select, textarea') || document.querySelector('dialog')) return;
  e.preventDefault();
  box.select();
  box.focus();
});

// theme lets one choose; without a choice the system's theme counts.
export function theme() {
  const root = document.documentElement;
  const select = h('select', { id: 'theme', onchange: () => {
    if (select.value) root.dataset.theme = select.value;
    else delete root.dataset.theme;
    try {
      if (select.value) localStorage.setItem('ajo-theme', select.value);
      else localStorage.removeItem('ajo-theme');
    } catch {
      // not kept, then
    }
  } }, [['', 'System'], ['light', 'Light'], ['dark', 'Dark']].map(([v, name]) => h('option', { value: v }, name)));
  select.value = root.dataset.theme ?? '';
  return h('div', { class: 'theme' }, h('label', { for: 'theme' }, 'Theme'), select);
}

document.querySelector('.skip').addEventListener('click', (e) => {
  e.preventDefault();
  document.getElementById('main').focus();
});
