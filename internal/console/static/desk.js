// What the pages of the console are made of: what a command prints as a list, and a button that runs one.

import { get, post } from './api.js';
import { asked, confirmed } from './dialog.js';
import { h } from './dom.js';
import { filters, list } from './table.js';
import { setQuery } from './route.js';
import { announce, button, card, code, empty, pageHead, refreshButton, region, time } from './ui.js';

const dashed = (command) => command.replaceAll(' ', '-');

// reads runs a command that reads, and returns its JSON.
export const reads = (command, query) => get('/console/api/read/' + dashed(command), query);

// archived says that what is older than a time is in no list.
const archived = (before) => ['Those from before ', time(before), ' may be archived: they are not listed here (', code('ajo archive list'), ').'];

// listOf shows the list that a command prints, for a query; whole, if the command prints all at once and knows no pages.
export function listOf(command, { query = {}, none = 'There is none.', whole = false, ...more }) {
  return list({
    ...more,
    above: ({ archivedBefore, note }) => (archivedBefore || note) && h('p', { class: 'dim' }, archivedBefore && archived(archivedBefore), note),
    none: ({ archivedBefore }) => empty(none, ...(archivedBefore ? archived(archivedBefore) : [])),
    fetchPage: async ({ after, limit }) => {
      const { items, pagination, archivedBefore, note } = await reads(command, whole ? query : { ...query, after, limit });
      return { rows: items, pagination, archivedBefore, note };
    },
  });
}

// listPage is a page with a list, which fields and what is fixed narrow. above is {title, of(query)}: a region that stands above it, of what the fields choose, and is read again
// when the list is.
export function listPage({ title, lead, actions = [], fields = [], above, query, fixed = {}, ...more }) {
  const known = Object.fromEntries(fields.map((f) => [f.name, query?.[f.name] ?? '']));
  let shown = listOf(more.command, { ...more, query: { ...fixed, ...known } });
  let first = above?.of(known);
  const place = shown.box;
  const head = pageHead(title, { lead, actions: [actions, refreshButton(() => shown.reload(), () => first?.reload() ?? true)] });
  const form = fields.length ? filters(fields, known, (q) => {
    setQuery(q);
    const next = listOf(more.command, { ...more, query: { ...fixed, ...q } });
    shown.box.replaceWith(next.box);
    shown = next;
    if (!above) return;
    const other = above.of(q);
    first.box.replaceWith(other.box);
    first = other;
  }) : null;
  return { title, nodes: [head, first && card(above.title, first.box), form, place] };
}

// showPage is a page of what a command shows of one thing; render(data, reload) makes it of its JSON. others are the regions that the caller puts below it: they are read again with it.
export function showPage({ title, up, command, query, render, lead, actions = [], others = [] }) {
  const r = region(() => reads(command, query), (data) => render(data, () => r.reload()));
  return { title, nodes: [pageHead(title, { up, lead, actions: [actions, refreshButton(r.reload, ...others.map((o) => o.reload))] }), r.box] };
}

const reason = { name: 'reason', label: 'Reason', required: true, maxlength: 500, autocomplete: 'off', hint: 'Why, and the ticket. It is kept in the audit log.' };

// redraw shows the page anew, as what was done may have changed any part of it.
export const redraw = () => dispatchEvent(new Event('hashchange'));

// acts is a button that runs a command which changes something: it asks for fields and the reason, shows what will happen, and does it once
// that is confirmed. values are the arguments that are known. A viewer gets no button.
export function acts(session, { command, label, values = {}, fields = [], text = '', danger = true, kind = '', done }) {
  if (!session.acts) return null;
  const path = '/console/api/act/' + dashed(command);
  return button(label + '…', async () => {
    let said;
    let sent;
    const go = await asked({
      title: label, text, fields: [...fields, reason], label: 'Continue', act: async ({ reason: why, ...given }) => {
        sent = { values: { ...values, ...given }, reason: why };
        said = await post(path, { ...sent, saw: '' });
      },
    });
    if (!go) return;
    if (said.idle) return announce(said.text);
    let saw = said.will;
    const will = h('span', null, saw);
    const did = await confirmed({
      title: label + '?', text: will, label, danger, act: async () => {
        try {
          said = await post(path, { ...sent, saw });
        } catch (e) {
          if (e.status !== 409) throw e;
          said = await post(path, { ...sent, saw: '' });
          if (said.idle) return; // somebody else has done it
          saw = said.will;
          will.replaceChildren(h('span', null, saw));
          throw e;
        }
      },
    });
    if (!did) return;
    announce([said.text, said.note].filter(Boolean).join(' '));
    await done?.();
  }, { kind: 'small ' + kind });
}

