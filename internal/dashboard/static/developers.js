// The page for the tenant's developers: commands to copy, with the tenant's own references.

import { get } from './api.js';
import { commands } from './commands.js';
import { h } from './dom.js';
import { card, code, pageHead, region, snippet } from './ui.js';

// developers shows curl lines for the newest accounts and transfer.
export function developers() {
  const lines = region(async () => {
    const [tenant, { accounts }, { transfers }] = await Promise.all([get('/auth/me'), get('/auth/accounts', { limit: 50 }), get('/auth/transfers', { limit: 1 })]);
    return { suffix: tenant.apiKeySuffix, refs: [...new Set(accounts.map((a) => a.AccountRef))], transfer: transfers[0]?.merchantTxRef };
  }, ({ suffix, refs, transfer }) => {
    const place = h('div', { class: 'pile' });
    const draw = () => place.replaceChildren(...cards(commands(location.origin, { ref: select?.value, transfer })));
    const select = refs.length > 0 && h('select', { id: 'ref', onchange: draw }, refs.map((r) => h('option', { value: r }, r)));
    draw();
    return [setUp(suffix), select && h('div', { class: 'filters' }, h('div', { class: 'field fit' }, h('label', { for: 'ref' }, 'Account used in the commands'), select)), place];
  });
  return { title: 'API', nodes: [pageHead('API', { lead: 'Make these calls from your server, with your API key.' }), lines.box] };
}

function setUp(suffix) {
  return card('Set up', h('p', null, suffix ? ['Your key ends in ', code(suffix), '. If you have lost it, ', h('a', { href: '#/settings' }, 'rotate it')] : ['Make a key under ', h('a', { href: '#/keys' }, 'Keys')],
    '. All endpoints, fields and errors, and a way to try them: ', h('a', { href: '/docs' }, 'the API reference'), ' (', h('a', { href: '/openapi.json' }, 'OpenAPI'), ').'),
  snippet(commands(location.origin).variables, 'Variables for the terminal'));
}

function cards(run) {
  const part = (title, ...rows) => card(title, rows.map(([name, text]) => h('div', { class: 'command' }, h('h3', null, name), snippet(text, name))));
  return [
    part('Collect', ['Open an account', run.open], ['List accounts', run.accounts], ['Get an account', run.account], ['Calculate what a payer must send', run.fee]),
    part('Read', ['Get the balance', run.balance], ['Get the statement', run.statement]),
    part('Pay out', ['List banks', run.banks], ['Look up the account holder', run.lookup], ['Settle', run.settle], ['Get the transfer', run.transfer]),
    part('Webhooks', ['Set the webhook URL', run.url], ['Get the signing secret', run.secret], ['List dead letters', run.deadLetters]),
  ];
}
