// The search of everything: a text that is a name, a number, a reference or a sum, and what has it.

import { get } from './api.js';
import { accountColumns } from './accounts.js';
import { customerColumns } from './customers.js';
import { h } from './dom.js';
import { plural } from './format.js';
import { paymentColumns } from './payments.js';
import { table } from './table.js';
import { transferColumns } from './transfers.js';
import { card, empty, pageHead, region } from './ui.js';

const lists = [ // the answer's name of each, its title, its columns, and where there may be more
  ['accounts', 'Accounts', accountColumns({}), 'account'], ['customers', 'Customers', customerColumns, 'customer'],
  ['payments', 'Payments', paymentColumns, 'payment'], ['transfers', 'Transfers', transferColumns, 'transfer'],
];

// searchPage shows what GET /auth/search finds.
export function searchPage(_, { q = '' }) {
  const text = q.trim();
  const lead = 'By account number, reference, ID, session ID, name or amount. Press / on any page to search.';
  const found = text.length > 1 && region(() => get('/auth/search', { q: text }), (answer) => shown(answer, text), { rows: 3 });
  return {
    title: 'Search',
    nodes: [pageHead(text ? `Search: ${text}` : 'Search', { lead }), found ? found.box : empty('Write at least two characters into the search box.')],
  };
}

function shown(answer, text) {
  const cards = lists.map(([name, title, columns, noun]) => {
    const rows = answer[name];
    const more = answer.more.includes(name);
    return rows.length > 0 && card(title,
      h('p', { class: 'dim' }, more ? `The first ${plural(rows.length, noun)}. There may be more.` : plural(rows.length, noun)),
      h('div', { class: 'table' }, table(title, columns, rows)),
      more && h('p', null, h('a', { href: '#/' + name + '?' + new URLSearchParams(narrowed(name, text)) }, `Search all ${title.toLowerCase()}`)));
  }).filter(Boolean);
  const unseen = lists.filter(([name]) => answer.more.includes(name) && answer[name].length === 0);
  return [
    cards.length === 0 && empty('Nothing was found.', 'Try the whole number, reference or amount.'), cards,
    unseen.length > 0 && h('p', { class: 'dim' }, 'Only the newest 10,000 of each list were searched. Look further in ',
      unseen.map(([name, title], i) => [i > 0 && ', ', h('a', { href: '#/' + name + '?' + new URLSearchParams(narrowed(name, text)) }, title.toLowerCase())]), '.'),
  ].flat();
}

// narrowed is the query of a list that goes on with the search: for an amount, where the list has a filter of it.
function narrowed(name, text) {
  // ten digits and more are a number, unless they are written as a sum
  const sum = /^₦?\s*[0-9][0-9,\s]*(\.[0-9]{1,2})?$/.test(text) && (/[₦,.]/.test(text) || text.replaceAll(/\s/g, '').length < 10);
  return sum && ['payments', 'transfers'].includes(name) ? { amount: text } : { search: text };
}
