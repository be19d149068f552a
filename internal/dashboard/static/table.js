// Tables that become cards on a phone, and lists that are read page by page.

import { h } from './dom.js';
import { get } from './api.js';
import { remember, remembered } from './route.js';
import { announce, button, region } from './ui.js';
import { grouped, plural } from './format.js';

// A column is {name, value(row), number: true for figures, wide: true for words, loose: true for what may be one endless word, head: true for what names the row}. Roles are written out, as the
// style turns rows into cards on a narrow screen and browsers then forget what was a table. sorting is {value, choose(value)} where the columns with a sort are headings that sort.
export function table(caption, columns, rows, sorting) {
  const body = h('tbody', { role: 'rowgroup' }, rows.map((r) => line(columns, r)));
  return h('table', { role: 'table' },
    h('caption', { class: 'hidden' }, caption),
    h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' }, columns.map(
      (c) => (c.sort && sorting ? sortHead(c, sorting) : h('th', { role: 'columnheader', scope: 'col', class: c.number && 'number' }, c.name))))),
    body);
}

// How a list is sorted stands in its query as one word, such as amount-asc; none: the newest first.
const newest = 'created-desc';

// sortHead is a heading that sorts by its column, and the other way round when it does already. On a phone, where headings are not seen, the filters have the orders.
function sortHead(c, { value, choose }) {
  const [by, way] = (value || newest).split('-');
  const here = by === c.sort;
  const next = `${c.sort}-${here ? (way === 'asc' ? 'desc' : 'asc') : c.sort === 'name' ? 'asc' : 'desc'}`;
  return h('th', { role: 'columnheader', scope: 'col', class: c.number && 'number', 'aria-label': c.name, 'aria-sort': here && (way === 'asc' ? 'ascending' : 'descending') },
    h('button', { type: 'button', class: 'sort', 'data-sort': c.sort, onclick: () => choose(next === newest ? '' : next) },
      c.name, h('span', { class: 'way', 'aria-hidden': 'true' }, here ? (way === 'asc' ? '▲' : '▼') : '')));
}

// asked is a list's query as the service takes it, but for the order: an amount may be written as people do, such as ₦12,000.
export const asked = (query) => ({ ...query, amount: (query.amount ?? '').replaceAll(/[₦,\s]/g, ''), sort: '' });

// sortedBy is how the service is asked for an order.
export function sortedBy({ sort }) {
  const [by, order] = (sort || '').split('-');
  return sort ? { sort: by, order } : {};
}

// orders is the field of a form of filters that has a list's orders, beside the newest first: [[word, what it is called]].
export const orders = (more) => ({ name: 'sort', label: 'Order', options: [['', 'Newest first'], ['created-asc', 'Oldest first'], ...more] });

// sorting makes a list sort by its headings: query() is what it shows, change(query) shows another and says when it does.
export function sorting(query, form, change) {
  return {
    get value() { return query().sort ?? ''; },
    async choose(value) {
      form().elements.sort.value = value;
      await change({ ...query(), sort: value });
      document.querySelector(`[data-sort="${(value || newest).split('-')[0]}"]`)?.focus();
    },
  };
}

function line(columns, row) {
  return h('tr', { role: 'row' }, columns.map((c) => {
    const content = h('div', null, c.value(row));
    return h(c.head ? 'th' : 'td', {
      role: c.head ? 'rowheader' : 'cell', scope: c.head && 'row', 'data-name': c.name,
      class: [c.number && 'number', c.wide && 'wide-cell', c.loose && 'loose', content.textContent === '—' && 'none'].filter(Boolean).join(' '),
    }, content);
  }));
}

// read is a page of a list: the rows that the answer has under the name.
export async function read(path, name, query) {
  const answer = await get(path, query);
  return { rows: answer[name] ?? [], pagination: answer.pagination, archivedBefore: answer.archivedBefore };
}

// list shows what fetchPage(range) answers, {rows, pagination}, for the range of a query. More is added by a button, and the focus goes on with it. above(answer) makes what stands above it, of the
// first page's answer. sorted is what sorting() makes.
export function list({ caption, columns, fetchPage, none, noun, nouns, sorted, above = () => null }) {
  const fetchSome = async (after) => { // a page looks at so many rows only, and may find none among them
    let next = await fetchPage({ after, limit: 50, total: after === '' || '' });
    const { total } = next.pagination;
    const first = next;
    while (next.rows.length === 0 && next.pagination.hasMore) next = await fetchPage({ after: next.pagination.nextCursor, limit: 50 });
    return { ...first, ...next, total, sort: sorted?.value };
  };
  return region(async () => {
    const first = await fetchSome('');
    const before = remembered()[caption] ?? 0; // rows that were shown when one left
    while (first.rows.length < before && first.pagination.hasMore) {
      const next = await fetchSome(first.pagination.nextCursor);
      first.rows.push(...next.rows);
      first.pagination = next.pagination;
    }
    return first;
  }, (data) => {
    const { rows, pagination, total } = data;
    if (rows.length === 0) return none(data);
    const shown = table(caption, columns, rows, sorted);
    const size = h('p', { class: 'dim size' });
    return [size, above(data), h('div', { class: 'table' }, shown), rest(shown, columns, pagination, rows.length, total, size, { caption, fetchPage: fetchSome, noun, nouns })];
  }, { rows: 6 });
}

// rest is what stands below a list: which part is shown, and the button for more. size, above it, says how many rows there are. A total is of a
// moment before or a lower bound, and says nothing when it is not above what is shown.
function rest(shown, columns, pagination, count, total, size, { caption, fetchPage, noun, nouns }) {
  const place = h('div', { class: 'rest' });
  function settle(p) {
    pagination = p;
    const known = total?.count > count ? (total.exact ? '' : 'at least ') + plural(total.count, noun, nouns) : '';
    size.textContent = pagination.hasMore ? known && known[0].toUpperCase() + known.slice(1) : plural(count, noun, nouns);
    place.replaceChildren(...(pagination.hasMore ? [
      h('p', { class: 'dim' }, known ? `The first ${grouped(count)} of ${known}` : `The first ${plural(count, noun, nouns)}`), h('p', null, button('Show more', more)),
    ] : []));
  }
  async function more() {
    const next = await fetchPage(pagination.nextCursor);
    const rows = next.rows.map((r) => line(columns, r));
    shown.tBodies[0].append(...rows);
    count += rows.length;
    remember({ [caption]: count });
    settle(next.pagination);
    announce(`${plural(rows.length, noun, nouns)} more.`);
    const first = rows[0]?.querySelector('a, button') ?? rows[0];
    if (first && !first.matches('a, button')) first.tabIndex = -1;
    first?.focus();
  }
  settle(pagination);
  return place;
}

// filters is a form above a list. A field is {name, label, type: search, date or text} or {name, label, options: [[value, text]]}. What is
// chosen is handed to changed at once; typing waits for a pause.
export function filters(fields, query, changed) {
  let timer;
  const controls = fields.map((f) => f.options
    ? h('select', { name: f.name, id: 'f-' + f.name }, f.options.map(([v, text]) => h('option', { value: v, selected: v === (query[f.name] ?? '') }, text)))
    : h('input', { name: f.name, id: 'f-' + f.name, type: f.type ?? 'text', value: query[f.name] ?? '', placeholder: f.placeholder, autocomplete: 'off', spellcheck: 'false' }));
  const now = () => {
    clearTimeout(timer);
    changed(Object.fromEntries(controls.map((c) => [c.name, c.value.trim()])));
  };
  const form = h('form', { class: 'filters', role: 'search', onsubmit: (e) => { e.preventDefault(); now(); } },
    fields.map((f, i) => h('div', { class: 'field' + (f.type === 'search' ? ' wide' : '') }, h('label', { for: 'f-' + f.name }, f.label), controls[i])),
    h('div', { class: 'field' }, h('button', { type: 'reset', class: 'button plain' }, 'Clear')));
  form.addEventListener('input', () => {
    clearTimeout(timer);
    timer = setTimeout(() => form.isConnected && now(), 300); // not into the next page's address
  });
  form.addEventListener('reset', (e) => {
    e.preventDefault();
    for (const c of controls) c.value = '';
    now();
  });
  return form;
}
