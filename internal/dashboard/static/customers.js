// Customers and their KYC.

import { get, mode, post, queryText, segment } from './api.js';
import { confirmed } from './dialog.js';
import { h } from './dom.js';
import { form } from './form.js';
import { setQuery, to } from './route.js';
import { filters, list, read } from './table.js';
import { announce, badge, button, card, dim, empty, facts, pageHead, refreshButton, region, retitle, time } from './ui.js';

// customerColumns are those of a table of customers.
export const customerColumns = [
  { name: 'Name', head: true, loose: true, value: (c) => h('a', { href: to`/customers/${c.ID}` }, c.Name) },
  { name: 'Reference', loose: true, value: (c) => c.ExternalRef },
  { name: 'Tier', value: (c) => `Tier ${c.KYCTier}` },
  { name: 'KYC', value: (c) => badge(c.KYCStatus) },
  { name: 'Status', value: (c) => badge(c.Status) },
  { name: 'Created', value: (c) => time(c.CreatedAt) },
];

// customers lists them, newest first.
export function customers(_, query) {
  const found = list({
    caption: 'Customers', noun: 'customer',
    columns: customerColumns,
    fetchPage: (range) => read('/auth/customers', 'customers', { ...query, ...range }),
    none: () => (query.search || query.kycStatus ? empty('No customers match.')
      : empty('No customers yet.', 'A customer is created with its first account.')),
  });
  const form = filters([
    { name: 'search', label: 'Search', type: 'search', placeholder: 'Name or reference' },
    { name: 'kycStatus', label: 'KYC', options: [['', 'All'], ['pending_review', 'Pending review'], ['approved', 'Approved'], ['rejected', 'Rejected'], ['none', 'None']] },
  ], query, (q) => {
    query = q;
    setQuery(q);
    found.reload();
  });
  return { title: 'Customers', nodes: [pageHead('Customers', { actions: refreshButton(found.reload) }), form, found.box] };
}

// accountsOf is the list of a customer's accounts. The reference names one of them, and may name another one a moment later. A search has at most 100 characters.
const accountsOf = (c) => '#/accounts' + queryText({ search: [...c.ExternalRef].slice(0, 100).join('') });

// customer shows one, and lets its KYC be decided while it waits for that.
export function customer({ id }, _, session) {
  const path = '/auth/customers/' + segment(id);
  const found = region(() => get(path), (c) => {
    retitle(top, c.Name);
    return [
      card('Customer', facts([
        ['Status', badge(c.Status)], ['Reference', c.ExternalRef], ['Accounts', h('a', { href: accountsOf(c) }, 'Statements and balances')],
        ['BVN', c.BVNLast4 ? h('span', { class: 'figures' }, '•••• ' + c.BVNLast4) : dim('None')],
        ['NIN', c.NINLast4 ? h('span', { class: 'figures' }, '•••• ' + c.NINLast4) : dim('None')],
        ['Created', time(c.CreatedAt)], ['Last updated', time(c.UpdatedAt)],
      ])),
      card('KYC', h('p', { class: 'name' }, `Tier ${c.KYCTier} `, badge(c.KYCStatus)), review(c, path, session, () => found.reload())),
    ];
  }, { rows: 3 });
  const top = pageHead('Customer', { up: { href: '#/customers', name: 'Customers' }, actions: refreshButton(found.reload) });
  return { title: 'Customer', nodes: [top, found.box] };
}

function review(c, path, session, reload) {
  if (c.KYCStatus === 'approved' || c.KYCTier > 1) return h('p', { class: 'dim' }, 'There is nothing to review.');
  if (c.KYCStatus !== 'pending_review') {
    const note = c.KYCStatus === 'none' ? 'No NIN has been submitted.' : 'Another NIN can be submitted.';
    if (!session.may('finance')) return h('p', { class: 'dim' }, note);
    return [h('p', { class: 'dim' }, note), form([{
      name: 'nin', label: 'NIN', required: true, inputmode: 'numeric', pattern: '[0-9]{11}', maxlength: 11, autocomplete: 'off', hint: 'Eleven digits. It is checked at once, stored encrypted, and never shown again except for its last four digits.',
    }], 'Submit NIN', async ({ nin }) => {
      const { KYCStatus: outcome } = await post(path + '/kyc', { nin });
      await reload();
      announce({ approved: `KYC for ${c.Name} approved.`, rejected: 'There is no such NIN.' }[outcome] ?? 'The NIN waits for a review.');
      document.querySelector('h1').focus();
    })];
  }
  if (!mode.test && !session.member.reviewsKYC) return h('p', { class: 'dim' }, 'The NIN could not be verified automatically. An operator of the service decides.');
  if (!session.may('finance')) return h('p', { class: 'dim' }, 'The NIN could not be verified automatically. A member with the role finance decides.');
  const decide = (verb, done, text, danger) => button(verb, async () => {
    const yes = await confirmed({
      title: `${verb} KYC for ${c.Name}?`, text, label: verb, danger, act: () => post(`${path}/kyc/${verb.toLowerCase()}${queryText({ updatedAt: c.UpdatedAt })}`),
    });
    if (!yes) return;
    await reload();
    announce(`KYC for ${c.Name} ${done}.`);
    document.querySelector('h1').focus();
  }, { kind: danger ? 'danger' : 'main' });
  return [
    h('p', null, 'The NIN could not be verified automatically. Compare the name and the last four digits with the customer’s documents.'),
    h('div', { class: 'actions' }, decide('Approve', 'approved', 'The customer moves to tier 2 immediately.', false),
      decide('Reject', 'rejected', 'The customer stays at tier 1 and can submit another NIN.', true)),
  ];
}
