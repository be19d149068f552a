// The first page: what there is, how it moved, and on the first day how to begin.

import { get, mode } from './api.js';
import { plot } from './chart.js';
import { commands } from './commands.js';
import { h } from './dom.js';
import { naira, plural } from './format.js';
import { setQuery, to } from './route.js';
import { card, code, pageHead, refreshButton, region, snippet } from './ui.js';

const again = 4000; // milliseconds between two looks while the first payment is awaited

// overview shows GET /auth/overview. Until the first payment has come it also shows what is left to do, and looks again by itself.
export function overview(_, query, session) {
  let timer;
  let { days = '30' } = query;
  const figures = region(async () => {
    const o = await get('/auth/overview', { days: days === '30' ? '' : days });
    const tenant = started(o) ? null : await get('/auth/me'); // a program may have done a step
    clearTimeout(timer);
    if (tenant) timer = setTimeout(() => figures.box.isConnected && figures.reload(), again);
    return { ...o, tenant };
  }, (o) => [
    o.tenant && begin(o, o.tenant), tiles(o),
    started(o) && card(`Last ${o.days.length} days`, range(), h('p', { class: 'dim' }, 'By day, in Lagos time. Reversed payments and payments under review are not included. Money that moves between your own accounts counts as in and as out.'), plot(o.days)),
  ]);
  const range = () => h('div', { class: 'filters' }, h('div', { class: 'field fit' }, h('label', { for: 'range' }, 'Show'),
    h('select', { id: 'range', onchange: async (e) => {
      days = e.target.value;
      setQuery({ days: days === '30' ? '' : days });
      await figures.reload();
      document.getElementById('range')?.focus();
    } }, [['7', '7 days'], ['30', '30 days'], ['90', '90 days'], ['365', 'A year']].map(([v, name]) => h('option', { value: v, selected: v === days }, name)))));
  return {
    title: 'Overview',
    nodes: [pageHead(session.tenant.name, { lead: 'Your money at Ajo', actions: refreshButton(figures.reload) }), figures.box],
  };
}

// started reports whether any money has come yet: perhaps before the days that are shown, and all of it is paid out.
const started = (o) => o.posted;

function tiles(o) {
  const tile = (name, value, note, href, kind) => h(href ? 'a' : 'div', { class: 'tile ' + (kind ?? ''), href },
    h('b', null, name), h('span', { class: 'money' }, breakable(naira(value))), h('small', null, note));
  const reviews = o.needsReview.count;
  const back = o.notRefunded;
  return h('div', { class: 'tiles' },
    tile('Balance', o.balance, `Across your ${plural(o.accounts, 'account')}`, '#/accounts', 'first'),
    tile('Provisional', o.provisional, 'Included in the balance, not yet confirmed by the bank'),
    tile('Money in', o.moneyIn, `Last ${o.days.length} days, after the bank’s fees`),
    tile('Money out', o.moneyOut, `Last ${o.days.length} days`, '#/transfers'),
    o.awaitingApproval.count > 0 && tile('Awaits approval', o.awaitingApproval.amount,
      `${plural(o.awaitingApproval.count, 'payout')} to approve or reject. Without approval ${o.awaitingApproval.count === 1 ? 'it fails' : 'they fail'} after 24 hours`, '#/transfers?awaiting=approval', 'alert'),
    back.count > 0 && tile('Not refunded', back.amount, `${plural(back.count, 'payment')} could not go back to ${back.count === 1 ? 'its sender. It is held until you release or refund it' : 'their senders. They are held until you release or refund them'}`,
      to`/payments/${back.oldest}`, 'alert'),
    tile('Needs review', o.needsReview.amount,
      reviews ? `${plural(reviews, 'payment')} could not be verified, and ${reviews === 1 ? 'is' : 'are'} not in the balance` : 'Nothing to review', reviews ? '#/accounts?status=needs_review' : null, reviews ? 'alert' : ''));
}

// breakable lets a very long amount go on in the next line after a comma.
function breakable(text) {
  return text.split(/(?<=,)/).map((part) => [part, h('wbr')]);
}

function begin(o, tenant) {
  const run = commands(location.origin);
  const step = (done, title, ...more) => h('li', { class: done ? 'done' : '' },
    h('h3', null, title, h('span', { class: done ? 'badge good' : 'badge quiet' }, done ? 'Done' : 'To do')), done ? null : more);
  return card('Your first payment',
    h('ol', { class: 'steps' },
      mode.test ? h('li', { class: tenant.apiKeySuffix ? 'done' : '' }, h('h3', null, 'Get a test key'), h('p', null, 'Make one under ', h('a', { href: '#/keys' }, 'Keys'), '. It begins with ', code('ajo_test_'), '.'))
        : step(true, `Get an API key (${tenant.apiKeySuffix})`),
      step(tenant.webhookUrl, 'Set a webhook URL', h('p', null, 'Choose one in the ', h('a', { href: '#/settings' }, 'settings'), '. You can do it later.')),
      step(o.accounts > 0, 'Open an account for a customer', h('p', null, 'On the page of the ', h('a', { href: '#/accounts' }, 'accounts'), ', or in a terminal, with your key:'),
        snippet(run.variables, 'Variables for the terminal'), snippet(run.open, 'Open an account')),
      step(false, 'Receive a payment', h('p', null, mode.test ? ['Receive a test payment on the page of an ', h('a', { href: '#/accounts' }, 'account'), '. '] : o.accounts > 0 ? ['Anyone can now transfer to ', h('a', { href: '#/accounts' }, 'your account’s number'), '. '] : 'Anyone can transfer to its number. ',
        'The payment appears here automatically.'))));
}
