// Webhooks that were sent to the tenant, and their results.

import { get, post, segment } from './api.js';
import { asked, confirmed } from './dialog.js';
import { h } from './dom.js';
import { grouped, moment, plural } from './format.js';
import { setQuery, to } from './route.js';
import { filters, list, read } from './table.js';
import { announce, badge, button, card, code, copyButton, dim, empty, facts, follow, pageHead, refreshButton, region, retitle, time } from './ui.js';

export const eventNames = {
  'payment.received': 'A payment was received.', 'payment.confirmed': 'The payment was confirmed.',
  'payment.reversed': 'The payment was not genuine, or it was taken back.', 'settlement.succeeded': 'A payout was completed.',
  'settlement.failed': 'A payout failed; its amount is back in the account.', 'settlement.refunded': 'A payout was returned by the bank, or was not made after all; its amount is back in the account.',
};

// archived says that deliveries of before a time are in no list.
export function archived(before) {
  return ['Deliveries from before ', time(before), ' may be archived: they are not shown here, and support can restore them.'];
}

// ofOne says that a list which an account's reference narrows is of one account, and of which one, if it has a row.
export const ofOne = ({ of, rows: [row] }) => of && h('p', { class: 'dim' }, 'Of one account', row && [', ', h('a', { href: to`/accounts/${row.accountId}` }, row.accountRef)],
  '. A reference that several accounts have names the open or the newest one: enter the ID of another.');

// standing is a delivery's status; an event that goes to no URL is in the log, and was delivered to nobody.
const standing = (d) => badge(d.callbackUrl ? d.status : 'logged');

// deliveries lists them, newest first.
export function deliveries(_, query, session) {
  const found = list({
    caption: 'Deliveries', noun: 'delivery', nouns: 'deliveries',
    columns: [
      { name: 'Event', head: true, value: (d) => h('a', { href: to`/deliveries/${d.id}` }, d.eventType) },
      { name: 'Account', loose: true, value: (d) => d.accountRef },
      { name: 'To', wide: true, value: (d) => (d.callbackUrl ? h('span', { class: 'reference' }, d.callbackUrl) : dim('—')) },
      { name: 'Status', value: (d) => [standing(d), d.status !== 'delivered' && d.lastError && h('div', { class: 'reference' }, d.lastError)] },
      { name: 'Attempts', number: true, value: (d) => grouped(d.attemptCount) },
      { name: 'Created', value: (d) => time(d.createdAt) },
    ],
    fetchPage: async (range) => {
      const of = query.accountRef;
      return { ...await read('/auth/deliveries', 'deliveries', { ...query, ...range }), of };
    },
    above: (data) => (data.of || data.archivedBefore) && h('div', { class: 'stack' }, data.archivedBefore && h('p', { class: 'dim' }, archived(data.archivedBefore)), ofOne(data)),
    none: (data) => [data.archivedBefore ? empty('No deliveries match.', ...archived(data.archivedBefore)) : Object.values(query).some(Boolean) ? empty('No deliveries match.')
      : empty('No deliveries yet.', 'Deliveries start with the first payment after you set a ', h('a', { href: '#/settings' }, 'webhook URL'), '.'), ofOne(data)],
  });
  const form = filters([
    { name: 'accountRef', label: 'Account', type: 'search', placeholder: 'Full reference' },
    { name: 'status', label: 'Status', options: [['', 'All'], ['pending', 'Pending'], ['delivered', 'Delivered'], ['dead_letter', 'Dead letter']] },
    { name: 'eventType', label: 'Event', options: [['', 'All'], ...Object.keys(eventNames).map((n) => [n, n])] },
  ], query, (q) => {
    query = q;
    setQuery(q);
    found.reload();
  });
  return { title: 'Deliveries', nodes: [pageHead('Deliveries', { actions: [session.may('developer') && button('Send dead letters again…', () => resend(found.reload)), refreshButton(found.reload)] }), form, found.box] };
}

// resend has all dead letters since a day sent again.
function resend(reload) {
  return asked({
    title: 'Send dead letters again', label: 'Send again',
    text: 'Each gets a new set of attempts: the oldest first, ten a second, so that new events are not delayed.',
    fields: [{ name: 'since', label: 'From this day on', type: 'date', required: true, hint: 'In Lagos time.' }],
    act: async ({ since }) => {
      const from = since + 'T00:00:00+01:00';
      const { count, hasMore, archivedBefore } = await post('/auth/deliveries/replay', { since: from });
      await reload();
      const older = new Date(from) < new Date(archivedBefore) ? ` Those from before ${moment(archivedBefore)} may be archived: they are not sent, and support can restore them.` : '';
      announce((!count ? 'No dead letter since that day can be sent again.'
        : `${plural(count, 'delivery is', 'deliveries are')} being sent again.${hasMore ? ' There are more: repeat it in two minutes.' : ''}`) + older);
    },
  });
}

// delivery shows one: its body, its attempts and their answers. A dead letter can be sent again.
export function delivery({ id }, _, session) {
  const path = '/auth/deliveries/' + segment(id);
  let last;
  const found = region(() => get(path), (d) => {
    last = d.status;
    retitle(top, d.eventType);
    return [
      card('Result', facts([
        ['Status', standing(d)], ['To', d.callbackUrl ? code(d.callbackUrl) : 'Not sent: event log only'], ['Account', h('a', { href: to`/accounts/${d.accountId}` }, d.accountRef)],
        ['Attempts', grouped(d.attemptCount)], ['Next attempt', d.nextAttemptAt && time(d.nextAttemptAt)], ['Delivered', d.callbackUrl && d.deliveredAt && time(d.deliveredAt)],
        ['Last error', d.status !== 'delivered' && d.lastError ? d.lastError : null], ['Created', time(d.createdAt)], ['Transaction group', d.eventType.startsWith('payment.') ? h('a', { href: to`/payments/${d.transactionGroupId}` }, d.transactionGroupId) : code(d.transactionGroupId)],
      ]), session.may('developer') && h('div', { class: 'actions' }, d.status === 'dead_letter' ? again(path, () => found.reload()) : once(d))),
      body('Body', d.body, 'Body of the event'),
      attempts(d.attempts),
    ];
  });
  follow(found, () => last, ['pending']);
  const top = pageHead('Delivery', { up: { href: '#/deliveries', name: 'Deliveries' }, actions: refreshButton(found.reload) });
  return { title: 'Delivery', nodes: [top, found.box] };
}

// once sends an event one more time, as a delivery of its own.
function once(d) {
  return button('Send the event once more…', async () => {
    let made;
    const yes = await confirmed({
      title: 'Send the event once more?', label: 'Send', danger: false, text: `A new delivery with the same body and ID goes to ${d.endpointId ? 'the endpoint’s URL' : 'the account’s own URL, or your webhook URL,'} as it is now, marked as sent again.`,
      act: async () => { made = await post('/auth/events/resend', { transactionGroupId: d.transactionGroupId, eventType: d.eventType, endpointId: d.endpointId }); },
    });
    if (!yes) return;
    announce('The event is being sent once more.');
    location.hash = to`/deliveries/${made.id}`;
  });
}

function again(path, reload) {
  return button('Send again', async () => {
    await post(path + '/replay');
    await reload();
    announce('The delivery is being sent again, with a new set of attempts.');
    document.querySelector('h1').focus();
  }, { kind: 'main' });
}

// body shows JSON as it was sent, with its lines broken where it can be read.
export function body(title, text, what) {
  let shown = text;
  try {
    shown = JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    // shown as it is
  }
  const pre = h('pre', { tabindex: '0', role: 'group', 'aria-label': what }, shown);
  return card(title, h('div', { class: 'snippet' }, pre, copyButton(text, what, pre)));
}

function attempts(all) {
  return card('Attempts', all.length === 0 ? h('p', { class: 'dim' }, 'None yet.')
    : h('ol', { class: 'attempts' }, all.map((a) => h('li', null,
      h('p', null, h('strong', null, `Attempt ${a.attempt}`), ' ', outcome(a), ' ', dim(`in ${grouped(a.durationMs)} ms`), h('br'), time(a.startedAt)),
      answer(a)))));
}

// outcome is the answer's status, or that there was none.
export function outcome(a) {
  const good = a.statusCode >= 200 && a.statusCode < 300;
  return h('span', { class: 'badge ' + (good ? 'good' : 'bad') }, a.statusCode ? `HTTP ${a.statusCode}` : 'No response');
}

// answer is what an endpoint said, or what kept it from saying anything.
export function answer(a) {
  return [a.error && a.error !== `HTTP ${a.statusCode}` && h('p', { class: 'reference' }, a.error),
    a.responseBody ? h('pre', { tabindex: '0', role: 'group', 'aria-label': 'Response' }, a.responseBody) : a.statusCode && h('p', { class: 'dim' }, 'The response has no body.')];
}
