// Webhook endpoints: where events are sent beside the webhook URL, each with its events, accounts and secret.

import { get, patch, post, queryText, remove, segment } from './api.js';
import { eventNames } from './deliveries.js';
import { confirmed, showOnce } from './dialog.js';
import { h } from './dom.js';
import { form } from './form.js';
import { list } from './table.js';
import { announce, badge, button, card, code, dim, empty, pageHead, refreshButton, region, time } from './ui.js';

const shownOnce = 'Verify the events of this endpoint with it. It is shown only once and cannot be read again.';
const up = { href: '#/endpoints', name: 'Webhook endpoints' };

// endpoints lists them. A developer adds and changes them.
export function endpoints(_, __, session) {
  const may = session.may('developer');
  const found = list({
    caption: 'Webhook endpoints', noun: 'endpoint',
    columns: [
      { name: 'URL', head: true, loose: true, value: (e) => h('span', { class: 'reference' }, e.url) },
      { name: 'Status', value: (e) => [badge(e.pausedAt ? 'paused' : 'active'), e.pausedAt && h('div', { class: 'dim' }, 'Since ', time(e.pausedAt))] },
      { name: 'Events', wide: true, value: (e) => e.events.map((name) => h('div', null, code(name))) },
      { name: 'Accounts', value: (e) => (e.accountRefs ? e.accountRefs.map((ref) => h('div', { class: 'reference' }, ref)) : 'All') },
      { name: 'Retries', value: (e) => (e.retries === 'day' ? '24 hours' : '95 minutes') },
      ...(may ? [{ name: 'Change', value: (e) => changes(e, () => found.reload()) }] : []),
    ],
    fetchPage: async () => { // at most twenty: they come at once
      const { endpoints: rows } = await get('/auth/webhook-endpoints');
      return { rows, pagination: { hasMore: false, total: rows.length } };
    },
    none: () => empty('No additional endpoints.'),
  });
  return {
    title: 'Webhook endpoints',
    nodes: [
      pageHead('Webhook endpoints', {
        up: { href: '#/settings', name: 'Settings' }, lead: 'Events also go to these endpoints. Each has its own signing secret.',
        actions: [refreshButton(found.reload), may && h('a', { class: 'button main', href: '#/endpoints/new' }, 'Add an endpoint')],
      }), found.box,
    ],
  };
}

// changes are the buttons of an endpoint's row.
function changes(e, reload) {
  const path = '/auth/webhook-endpoints/' + segment(e.id);
  const after = async (text) => {
    await reload();
    announce(text);
    document.querySelector('h1').focus();
  };
  const small = (label, act, kind = '') => button(label, act, { kind: 'small ' + kind, describe: `${label} ${e.url}` });
  return h('div', { class: 'actions' },
    h('a', { class: 'button small', href: '#/endpoints/' + segment(e.id), 'aria-label': `Change ${e.url}` }, 'Change'),
    small(e.pausedAt ? 'Resume' : 'Pause', async () => {
      await patch(path, { paused: !e.pausedAt });
      await after(e.pausedAt ? 'Events are sent again, and so are those that waited.' : 'Events for this endpoint wait until you resume it, for 30 days at most.');
    }),
    small('New secret…', async () => {
      let secret;
      const until = e.previousSecretUntil; // the one before signs too, and may be the only one that the receiver has
      const done = await confirmed({
        title: 'Make a new secret?', label: 'Make a new secret', danger: false,
        text: until
          ? ['Events for ', e.url, ' are signed with two secrets until ', time(until), '. The newer one stops at once: make another only if it is not in use. The older one signs until then.']
          : `Events for ${e.url} are signed with both secrets for a day, then with the new one alone.`,
        act: async () => { secret = (await post(path + '/rotate-secret' + queryText({ replace: until && 'true', updatedAt: until && e.updatedAt }))).webhookSecret; },
      });
      if (!done) return;
      await showOnce({ title: 'The new signing secret', text: shownOnce, secret, what: 'Signing secret' });
      await after('The new secret signs from now on.');
    }),
    small('Remove…', async () => {
      const yes = await confirmed({ title: 'Remove the endpoint?', text: `Nothing more is sent to ${e.url}. What waits for it becomes a dead letter.`, label: 'Remove', act: () => remove(path) });
      if (yes) await after('The endpoint was removed.');
    }, 'danger'));
}

// newEndpoint is the page that adds one.
export function newEndpoint() {
  return {
    title: 'New endpoint',
    nodes: [
      pageHead('New endpoint', { up }),
      card('What it gets', region(() => get('/auth/webhook-events'), ({ available }) => endpointForm(available, { events: available, retries: 'standard' }, 'Add endpoint', async (v) => {
        const { webhookSecret } = await post('/auth/webhook-endpoints', v);
        await showOnce({ title: 'The signing secret', text: shownOnce, secret: webhookSecret, what: 'Signing secret' });
        location.hash = up.href;
      })).box),
    ],
  };
}

// endpoint is the page that changes one.
export function endpoint({ id }) {
  const load = async () => {
    const [{ endpoints: all }, { available }] = await Promise.all([get('/auth/webhook-endpoints'), get('/auth/webhook-events')]);
    return { found: all.find((e) => e.id === id), available };
  };
  return {
    title: 'Endpoint',
    nodes: [
      pageHead('Endpoint', { up }),
      card('What it gets', region(load, ({ found, available }) => (found ? endpointForm(available, found, 'Save', async (v) => {
        await patch('/auth/webhook-endpoints/' + segment(id), v);
        announce('Saved. Events that wait for the endpoint go to its current URL.');
        location.hash = up.href;
      }) : empty('There is no such endpoint.'))).box),
    ],
  };
}

// endpointForm asks for what can be set of an endpoint.
function endpointForm(available, e, label, save) {
  const boxes = h('fieldset', null, h('legend', null, 'Events'), available.map((name) => h('label', { class: 'check' },
    h('input', { type: 'checkbox', name: 'event', value: name, checked: e.events.includes(name) }), h('span', null, code(name), ' ', h('br'), dim(eventNames[name] ?? '')))));
  return form([
    { name: 'url', label: 'URL', type: 'url', required: true, maxlength: 2048, value: e.url ?? '', placeholder: 'https://shop.example/ajo/hook' },
    boxes,
    { name: 'accounts', label: 'Accounts', rows: 3, spellcheck: 'false', value: (e.accountRefs ?? []).join('\n'), hint: 'References of the accounts whose events it gets, one per line. Empty: all accounts.' },
    { name: 'retries', label: 'Retries', value: e.retries, options: [['standard', 'Six attempts in 95 minutes'], ['day', 'Ten attempts in 24 hours']] },
  ], label, ({ url, accounts, retries }) => {
    const refs = accounts.split(/\n/).map((ref) => ref.trim()).filter(Boolean);
    return save({ url, events: [...boxes.querySelectorAll(':checked')].map((box) => box.value), accountRefs: refs.length ? refs : null, retries });
  });
}
