// Events of the bank that matched no account.

import { get } from './api.js';
import { h } from './dom.js';
import { words } from './format.js';
import { list } from './table.js';
import { badge, empty, pageHead, refreshButton, time } from './ui.js';

// misdirected lists them, newest first. They are the whole service's, as no tenant owns them.
export function misdirected() {
  const found = list({
    caption: 'Misdirected events', noun: 'event',
    columns: [
      { name: 'Bank’s reference', head: true, value: (e) => h('span', { class: 'reference' }, e.ProviderTxnRef || '—') },
      { name: 'Why', value: (e) => words(e.ErrorMessage) },
      { name: 'Category', value: (e) => words(e.Category) },
      { name: 'Signature', value: (e) => (e.SignatureValid ? 'Valid' : 'Not valid') },
      { name: 'Status', value: (e) => badge(e.Status) },
      { name: 'Received', value: (e) => time(e.ReceivedAt) },
    ],
    fetchPage: async (after) => {
      const { events, pagination } = await get('/auth/misdirected', { after });
      return { rows: events ?? [], pagination };
    },
    none: () => empty('No misdirected events.', 'Every payment has found its account.'),
  });
  return {
    title: 'Misdirected',
    nodes: [
      pageHead('Misdirected', { lead: 'Payments that matched no account. They belong to the whole service: an operator assigns them.', actions: refreshButton(found.reload) }),
      found.box,
    ],
  };
}
