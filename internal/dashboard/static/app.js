// The frame around all pages: which one the address names, who is signed in, and where the focus goes.

import { account, accounts } from './accounts.js';
import { call, get, mode, whenSignedOut } from './api.js';
import { audit } from './audit.js';
import { beneficiaries } from './beneficiaries.js';
import { customer, customers } from './customers.js';
import { deliveries, delivery } from './deliveries.js';
import { developers } from './developers.js';
import { h } from './dom.js';
import { endpoint, endpoints, newEndpoint } from './endpoints.js';
import { shell, theme } from './frame.js';
import { keys, newKey } from './keys.js';
import { myAccount } from './me.js';
import { members, roles } from './members.js';
import { banner, choose, forget, modeSwitch } from './mode.js';
import { misdirected } from './misdirected.js';
import { overview } from './overview.js';
import { payment, payments } from './payments.js';
import { payout } from './payout.js';
import { match, read } from './route.js';
import { searchPage } from './search.js';
import { settings } from './settings.js';
import { accept, byLink, enterCode, forgot, login, reset, signup } from './signin.js';
import { transfer, transfers } from './transfers.js';
import { announce, button, notFound, pageHead, problem } from './ui.js';

// A page is a function of the path's parameters, the query and the session: {title, nodes}.
const open = { '/login': login, '/signup': signup, '/code': enterCode, '/forgot': forgot, '/reset': reset, '/accept': accept };
const pages = {
  '/': overview, '/search': searchPage, '/accounts': accounts, '/accounts/:id': account, '/payments': payments, '/payments/:id': payment, '/transfers': transfers, '/transfers/:ref': transfer, '/payout': payout, '/beneficiaries': beneficiaries,
  '/customers': customers, '/customers/:id': customer, '/deliveries': deliveries, '/deliveries/:id': delivery,
  '/misdirected': misdirected, '/api': developers, '/keys': keys, '/keys/new': newKey, '/members': members, '/audit': audit, '/settings': settings, '/endpoints': endpoints, '/endpoints/new': newEndpoint, '/endpoints/:id': endpoint, '/me': myAccount,
};
const menu = [ // address, name, icon, the role that it needs, and an address whose pages belong to it
  ['/', 'Overview', 'overview'], ['/accounts', 'Accounts', 'accounts'], ['/payments', 'Payments', 'payments'], ['/transfers', 'Transfers', 'transfers', undefined, '/payout'], ['/beneficiaries', 'Beneficiaries', 'beneficiaries'],
  ['/customers', 'Customers', 'customers'], ['/deliveries', 'Deliveries', 'deliveries'], ['/misdirected', 'Misdirected', 'misdirected', 'finance'],
  ['/api', 'API', 'developers'], ['/keys', 'Keys', 'keys', 'developer'], ['/members', 'Members', 'members'],
  ['/audit', 'Audit log', 'audit', 'owner'], ['/settings', 'Settings', 'settings', undefined, '/endpoints'], ['/me', 'My account', 'me'],
];

let tenant = null; // whose session it is; null: nobody's
let member = null; // which of its people
let drawn = 0;
let starting = 0; // while it is not 0, who is there is not known yet

const session = {
  get tenant() { return tenant; },
  get member() { return member; },
  // may reports whether the member has a role, as the service sees it: the owner has all, and everybody may view.
  may: (role) => [undefined, 'viewer', member.role].includes(role) || member.role === 'owner',
  // signedIn reads the tenant and the member anew and goes to a path.
  async signedIn(next) {
    await readSession();
    const target = '#' + (next?.startsWith('/') ? next : '/');
    if (location.hash === target) draw();
    else location.hash = target;
  },
  // changed takes over what the tenant and the member now are.
  changed: () => readSession(),
};

async function readSession() {
  const who = await get('/auth/member');
  if (mode.test && !who.testMode) forget(); // the service has none any more
  [tenant, member] = [await get('/auth/me'), who];
  tabs.postMessage(member.id);
}

// The tabs of a browser share the session's cookie. Once somebody else has signed in in one of them, the service takes the others' requests for that member's too: lists and settings would be
// of another organisation than the one whose name stands beside them.
const tabs = new BroadcastChannel('ajo-member');
tabs.addEventListener('message', ({ data }) => {
  if (!tenant || data === member.id) return; // test mode has the same members
  location.hash = '#/';
  location.reload();
});

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
  forget();
  location.hash = '#/login';
  announce('You have been logged out.');
}

// start finds out who is there and draws what the address has become by then.
async function start() {
  starting++;
  try {
    if (await whoIsThere()) draw();
  } finally {
    starting--;
  }
}

// whoIsThere looks for a session, and for the token of a one-time link, which leaves the address at once. It reports whether a page can
// be drawn; where not, it has said why or gone to the login.
async function whoIsThere() {
  const link = /^#link=(.+)$/.exec(location.hash);
  if (link) {
    history.replaceState(null, '', location.pathname + '#/');
    try {
      await byLink(decodeURIComponent(link[1]));
    } catch (e) {
      location.hash = '#/login?note=link';
      if (e.status !== 400) announce(e.message);
      return false;
    }
  }
  try {
    await readSession();
  } catch (e) {
    if (e.status !== 401) {
      frame([problem(e), h('p', { class: 'actions' }, button('Try again', start), mode.test && button('Leave test mode', () => choose(false)), button('Log out', logout))], 'No session');
      return false;
    }
    if (!open[read().path]) {
      toLogin();
      return false;
    }
  }
  return true;
}

function draw() {
  const { path, query } = read();
  const turn = ++drawn;
  if (!tenant && !open[path]) return toLogin();
  let page = open[path] && !tenant ? open[path]({}, query, session) : null;
  if (open[path] && tenant) return void (location.hash = '#/');
  if (tenant && path !== '/me' && lacksFactor()) page = secondFactorFirst();
  for (const [pattern, make] of Object.entries(pages)) {
    const params = page ? null : match(pattern, path);
    if (params) page = make(params, query, session);
  }
  page ??= notFound();
  if (turn === drawn) frame(page.nodes, page.title, path);
}

// lacksFactor reports whether the service refuses all else until the member has a second factor.
const lacksFactor = () => member.totpRequired && !member.totp && ['owner', 'finance'].includes(member.role);

function secondFactorFirst() {
  return {
    title: 'Two-factor authentication',
    nodes: [
      pageHead('Set up two-factor authentication first', { lead: `${tenant.name} requires it for your role. Until then this account shows nothing else.` }),
      h('p', { class: 'actions' }, h('a', { class: 'button main', href: '#/me' }, 'Set it up')),
    ],
  };
}

// frame draws a page, with the menu where there is a session.
function frame(nodes, title, path) {
  shell({
    nodes, title, path, signedIn: tenant !== null, banner: tenant && banner(),
    menu: tenant && menu.filter(([, , , role]) => session.may(role)),
    who: () => [h('p', null, h('strong', null, tenant.name), h('span', null, [tenant.name, ''].includes(member.name) ? member.email : member.name), h('span', { class: 'dim' }, roles[member.role])), modeSwitch(member), theme(),
      h('button', { type: 'button', class: 'button', onclick: () => logout().catch((e) => announce(e.message)) }, 'Log out')],
  });
}

addEventListener('pageshow', (e) => e.persisted && start()); // kept by the browser, perhaps from before a logout
addEventListener('hashchange', () => {
  if (location.hash.startsWith('#link=')) start();
  else if (!starting) draw();
});
start();
