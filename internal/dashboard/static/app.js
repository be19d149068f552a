// The frame around all pages: which one the address names, who is signed in, and where the focus goes.

import { account, accounts } from './accounts.js';
import { call, get, whenSignedOut } from './api.js';
import { customer, customers } from './customers.js';
import { deliveries, delivery } from './deliveries.js';
import { developers } from './developers.js';
import { h, icon } from './dom.js';
import { misdirected } from './misdirected.js';
import { overview } from './overview.js';
import { arrive, match, read } from './route.js';
import { settings } from './settings.js';
import { accept, byLink, enterCode, forgot, login, reset, signup } from './signin.js';
import { transfer, transfers } from './transfers.js';
import { announce, button, notFound, problem } from './ui.js';

// A page is a function of the path's parameters, the query and the session: {title, nodes}.
const open = { '/login': login, '/signup': signup, '/code': enterCode, '/forgot': forgot, '/reset': reset, '/accept': accept };
const pages = {
  '/': overview, '/accounts': accounts, '/accounts/:id': account, '/transfers': transfers, '/transfers/:ref': transfer,
  '/customers': customers, '/customers/:id': customer, '/deliveries': deliveries, '/deliveries/:id': delivery,
  '/misdirected': misdirected, '/api': developers, '/settings': settings,
};
const menu = [
  ['/', 'Overview', 'overview'], ['/accounts', 'Accounts', 'accounts'], ['/transfers', 'Transfers', 'transfers'],
  ['/customers', 'Customers', 'customers'], ['/deliveries', 'Deliveries', 'deliveries'], ['/misdirected', 'Misdirected', 'misdirected'],
  ['/api', 'API', 'developers'], ['/settings', 'Settings', 'settings'],
];

const app = document.getElementById('app');
let tenant = null; // whose session it is; null: nobody's
let drawn = 0;

const session = {
  get tenant() { return tenant; },
  // signedIn reads the tenant anew and goes to a path.
  async signedIn(next) {
    tenant = await get('/auth/me');
    const target = '#' + (next?.startsWith('/') ? next : '/');
    if (location.hash === target) draw();
    else location.hash = target;
  },
  // changed takes over what the tenant now is.
  async changed() {
    tenant = await get('/auth/me');
  },
};

whenSignedOut(() => {
  const had = tenant; // a first-time visitor had no session that could end
  tenant = null;
  const { path } = read();
  for (const d of document.querySelectorAll('dialog')) d.close('');
  if (!open[path]) toLogin(had ? 'ended' : '');
});

function toLogin(note) {
  const here = location.hash.slice(1);
  const query = new URLSearchParams();
  if (note) query.set('note', note);
  if (here.startsWith('/') && here !== '/' && !open[read().path]) query.set('next', here);
  location.hash = '#/login' + (query.size ? '?' + query : '');
}

async function logout() {
  await call('POST', '/auth/logout');
  tenant = null;
  location.hash = '#/login';
  announce('You have been logged out.');
}

// start looks for a session, and for the token of a one-time link, which leaves the address at once.
async function start() {
  const link = /^#link=(.+)$/.exec(location.hash);
  if (link) {
    history.replaceState(null, '', location.pathname + '#/');
    try {
      await byLink(decodeURIComponent(link[1]));
    } catch (e) {
      location.hash = '#/login?note=link';
      if (e.status !== 400) announce(e.message);
      return;
    }
  }
  try {
    tenant = await get('/auth/me');
  } catch (e) {
    if (e.status !== 401) return frame([problem(e), h('p', { class: 'actions' }, button('Try again', start), button('Log out', logout))], 'No session');
    if (!open[read().path]) return toLogin();
  }
  draw();
}

function draw() {
  const { path, query } = read();
  const turn = ++drawn;
  if (!tenant && !open[path]) return toLogin();
  let page = open[path] && !tenant ? open[path]({}, query, session) : null;
  if (open[path] && tenant) return void (location.hash = '#/');
  for (const [pattern, make] of Object.entries(pages)) {
    const params = page ? null : match(pattern, path);
    if (params) page = make(params, query, session);
  }
  page ??= notFound();
  if (turn === drawn) frame(page.nodes, page.title, path);
}

// frame draws a page into the shell and hands it the focus, so that its title is read out and Tab goes on from there.
function frame(nodes, title, path) {
  document.title = title + ' · Ajo';
  const main = h('main', { id: 'main', tabindex: '-1' }, nodes);
  app.replaceChildren(...(tenant ? [side(path), main] : [h('header', { class: 'top' }, brand(), theme()), main]));
  app.className = tenant ? 'signed-in' : 'signed-out';
  arrive();
  (main.querySelector('h1') ?? main).focus({ preventScroll: true });
}

const brand = () => h('a', { class: 'brand', href: '#/' }, h('span', { class: 'mark', 'aria-hidden': 'true' }, 'a'), 'Ajo');

function side(path) {
  const nav = h('nav', { id: 'nav', 'aria-label': 'Pages' },
    h('ul', null, menu.map(([p, name, symbol]) => {
      const here = p === '/' ? path === '/' : path === p || path.startsWith(p + '/');
      return h('li', null, h('a', { href: '#' + p, 'aria-current': here && 'page' }, icon(symbol), name));
    })),
    h('div', { class: 'who' }, h('p', null, h('strong', null, tenant.name), h('span', { class: 'dim' }, tenant.email)), theme(),
      h('button', { type: 'button', class: 'button', onclick: () => logout().catch((e) => announce(e.message)) }, 'Log out')));
  const toggle = h('button', { type: 'button', class: 'button menu', 'aria-expanded': 'false', 'aria-controls': 'nav' }, icon('menu'), 'Menu');
  toggle.addEventListener('click', () => {
    const now = toggle.getAttribute('aria-expanded') !== 'true';
    toggle.setAttribute('aria-expanded', String(now));
    nav.classList.toggle('open', now);
  });
  return h('header', { class: 'side' }, h('div', { class: 'stay' }, h('div', { class: 'masthead' }, brand(), toggle), nav));
}

// theme lets one choose; without a choice the system's theme counts.
function theme() {
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
addEventListener('pageshow', (e) => e.persisted && start()); // kept by the browser, perhaps from before a logout
addEventListener('hashchange', () => (location.hash.startsWith('#link=') ? start() : draw()));
start();
