// The frame around all pages: which one the address names, who is signed in.

import { call, get, whenSignedOut } from './api.js';
import { auditLog, reconciliation, reconciliations, systemAccount, trialBalance } from './books.js';
import { h } from './dom.js';
import { shell, theme } from './frame.js';
import { dormant, event, events, freezes, holds, misdirected, recalls, transfer, transfers } from './money.js';
import { customer, kyc, pricesPage, tenant, tenants } from './people.js';
import { review, reviews } from './reviews.js';
import { match, read } from './route.js';
import { accountOf, deliveries, delivery, searchPage, work } from './running.js';
import { login, setUp } from './signin.js';
import { overview } from './status.js';
import { announce, button, notFound, problem } from './ui.js';

// A page is a function of the path's parameters, the query and the session: {title, nodes}.
const open = { '/login': login, '/setup': setUp };
const pages = {
  '/': overview, '/search': searchPage, '/reviews': reviews, '/reviews/:id': review, '/misdirected': misdirected, '/events': events, '/events/:id': event, '/recalls': recalls,
  '/transfers': transfers, '/transfers/:ref': transfer, '/freezes': freezes, '/kyc': kyc, '/customers/:id': customer, '/tenants': tenants, '/tenants/:id': tenant, '/prices': pricesPage,
  '/accounts/:number': accountOf, '/deliveries': deliveries, '/deliveries/:id': delivery, '/work': work, '/reconciliations': reconciliations, '/reconciliations/:id': reconciliation,
  '/balance': trialBalance, '/system/:account': systemAccount, '/holds': holds, '/dormant': dormant, '/audit': auditLog,
};
const menu = [ // address, name, icon
  ['/', 'Status', 'overview'], ['/search', 'Search', 'developers'], ['/reviews', 'Reviews', 'me'], ['/misdirected', 'Misdirected', 'misdirected'], ['/recalls', 'Recalls', 'refresh'], ['/events', 'Bank events', 'payments'],
  ['/transfers', 'Payouts', 'transfers'], ['/freezes', 'Freezes', 'keys'], ['/holds', 'Holds', 'keys'], ['/kyc', 'KYC', 'customers'], ['/tenants', 'Tenants', 'members'], ['/prices', 'Prices', 'settings'], ['/dormant', 'Dormant accounts', 'accounts'], ['/deliveries', 'Webhooks', 'deliveries'],
  ['/work', 'Work', 'menu'], ['/reconciliations', 'Reconciliation', 'copy'], ['/balance', 'Trial balance', 'accounts'], ['/audit', 'Audit log', 'audit'],
];

let me = null; // {name, role} of the session; null: nobody's
let starting = 0; // while it is not 0, who is there is not known yet

const session = {
  get name() { return me.name; },
  // acts reports whether the operator may change something.
  get acts() { return me.role === 'operator'; },
  // signedIn reads who it is and goes to a path.
  async signedIn(next) {
    await readSession();
    const target = '#' + (next?.startsWith('/') ? next : '/');
    if (location.hash === target) draw();
    else location.hash = target;
  },
};

async function readSession() {
  me = await get('/console/api/me');
  tabs.postMessage(me.name);
}

// The tabs of a browser share the session's cookie. Once another operator has signed in in one of them, what the others do is that one's in the audit log.
const tabs = new BroadcastChannel('ajo-operator');
tabs.addEventListener('message', ({ data }) => {
  if (!me || data === me.name) return;
  location.hash = '#/';
  location.reload();
});

whenSignedOut(() => {
  const had = me;
  me = null;
  for (const d of document.querySelectorAll('dialog')) d.close('');
  if (!open[read().path]) toLogin(had ? 'ended' : '');
});

function toLogin(note) {
  const here = location.hash.slice(1);
  const query = new URLSearchParams();
  if (note) query.set('note', note);
  if (here.startsWith('/') && here !== '/' && !open[read().path]) query.set('next', here);
  location.hash = '#/login' + (query.size ? '?' + query : '');
}

async function logout() {
  await call('POST', '/console/api/logout');
  me = null;
  location.hash = '#/login';
  announce('You have been logged out.');
}

async function start() {
  starting++;
  try {
    await readSession();
  } catch (e) {
    if (e.status !== 401) return frame([problem(e), h('p', { class: 'actions' }, button('Try again', start))], 'No session');
    if (!open[read().path]) return toLogin();
  } finally {
    starting--;
  }
  draw();
}

function draw() {
  const { path, query } = read();
  if (!me && !open[path]) return toLogin();
  if (me && open[path]) return void (location.hash = '#/');
  let page = me ? null : open[path]({}, query, session);
  for (const [pattern, make] of Object.entries(pages)) {
    const params = page ? null : match(pattern, path);
    if (params) page = make(params, query, session);
  }
  page ??= notFound();
  frame(page.nodes, page.title, path);
}

function frame(nodes, title, path) {
  shell({
    nodes, title, path, menu, signedIn: me !== null, name: 'Ajo operations',
    who: () => [h('p', null, h('strong', null, me.name), h('span', { class: 'dim' }, session.acts ? 'Operator' : 'Viewer: looks only')), theme(),
      h('button', { type: 'button', class: 'button', onclick: () => logout().catch((e) => announce(e.message)) }, 'Log out')],
  });
}

addEventListener('pageshow', (e) => e.persisted && start()); // kept by the browser, perhaps from before a logout
addEventListener('hashchange', () => starting || draw());
start();
