// Events of the bank that matched no account.

import { h } from './dom.js';
import { words } from './format.js';
import { list, read } from './table.js';
import { badge, empty, pageHead, refreshButton, time } from './ui.js';

// misdirected lists them, newest first. They are the whole service's, as no tenant owns them.
export function misdirected() {
  const found = list({
    caption: 'Misdirected events', noun: 'event',
    columns: [
      { name: 'Bank’s reference', head: true, value: (e) => h('span', { class: 'reference' }, e.ProviderTxnRef || '—') },
      { name: 'Reason', value: (e) => words(e.ErrorMessage) },
      { name: 'Category', value: (e) => words(e.Category) },
      { name: 'Signature', value: (e) => (e.SignatureValid ? 'Valid' : 'Invalid') },
      { name: 'Status', value: (e) => badge(e.Status) },
      { name: 'Received', value: (e) => time(e.ReceivedAt) },
    ],
    fetchPage: (range) => read('/auth/misdirected', 'events', range),
    none: () => empty('No payment is misdirected.'),
  });
  return {
    title: 'Misdirected',
    nodes: [
      pageHead('Misdirected', { lead: 'Payments to any tenant that matched no account. An operator assigns them to one, or pays them back.', actions: refreshButton(found.reload) }),
      found.box,
    ],
  };
}
