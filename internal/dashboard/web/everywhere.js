// What holds on every page: it can be used by everybody, on a phone and by keyboard; and pictures of all of it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, fits, go, looks, phone, picture, settled, tabTo } from './browser.js';
import { until } from './stack.js';
import { entry, newTenant, open, pay, visit, visitAs, world } from './world.js';

// busyTenant has some of everything.
async function busyTenant() {
  const { service } = world;
  const t = await newTenant('Ada Stores & Daughters Nigeria Limited');
  await t.listen();
  await t.call('POST', '/auth/webhook-secret');
  const shop = await open(t, 'customer-1', 'Ada Obi', { bvn: '22222222222' });
  const long = await open(t, 'a-very-long-reference-of-the-kind-that-programs-make-0198c0de-7b1a-7c3e-9d52-0f6a1e2b3c4d', 'Oluwaseun Adebayo-Ogunlesi');
  const order = await open(t, 'order-1001', 'Chidi Eze', { mode: 'onetime', expectedAmount: 7500.5 });
  await open(t, 'order-1002', 'Zainab Musa', { mode: 'onetime', expiresAt: '2030-01-30T12:15:00+01:00' });
  await pay(shop.BankAccountNumber, '1250000.00', { narration: 'Opening balance, paid in by transfer' });
  await pay(shop.BankAccountNumber, '48250.75');
  await pay(order.BankAccountNumber, '7500.50', { narration: 'Order 1001' });
  await entry(t, 'order-1001', 'the order to be paid', (e) => e.Status === 'confirmed');
  await pay(order.BankAccountNumber, '7500.50', { force: 'true' }); // paid twice: it finds no open account
  await entry(t, 'customer-1', 'a payment to be confirmed', (e) => e.Status === 'confirmed' && e.Amount === '1249950.00');
  const { merchantTxRef } = await t.call('POST', '/v1/accounts/customer-1/settle', { amount: '250000.00', bankCode: '058', accountNumber: '0123456789', narration: 'Rent' });
  await until('the payout', async () => (await t.call('GET', '/v1/transfers/' + merchantTxRef)).status === 'success');
  await t.call('POST', `/v1/customers/${shop.CustomerID}/kyc`, { nin: '12345678901' });
  service.shop.failing = true;
  try {
    await pay(long.BankAccountNumber, '5000.00');
    await until('a dead letter', async () => (await t.call('GET', '/v1/webhooks/dead-letters')).deadLetters.length === 1);
  } finally {
    service.shop.failing = false;
  }
  await service.request('POST', service.bank + '/control/faults', { add: [{ on: 'transactions', do: 'amount', value: '98000.00' }] });
  try {
    await pay(shop.BankAccountNumber, '99000.00', { narration: 'One that the bank’s records do not show like this' });
    await entry(t, 'customer-1', 'an entry that needs a review', (e) => e.Status === 'needs_review');
  } finally {
    await service.request('POST', service.bank + '/control/faults', { clear: true });
  }
  await t.call('POST', '/v1/beneficiaries', { bankCode: '058', accountNumber: '0123456789', label: 'The landlord of the shop in Ìbàdàn, for rent and service charges' });
  await t.call('POST', '/v1/beneficiaries', { bankCode: '044', accountNumber: '1234567890' });
  const { endpoint } = await t.call('POST', '/auth/webhook-endpoints', { url: 'https://books.example/hooks/of-the-accounting-department/ajo?tenant=ada-stores', events: ['payment.received', 'settlement.refunded'], accountRefs: ['customer-1'] });
  await t.call('PATCH', '/auth/webhook-endpoints/' + endpoint.id, { paused: true });
  const { payments } = await t.call('GET', '/v1/payments?accountRef=customer-1&status=confirmed');
  const { deadLetters } = await t.call('GET', '/v1/webhooks/dead-letters');
  t.pages = {
    overview: '/', accounts: '/accounts', account: '/accounts/' + shop.ID, 'account-long': '/accounts/' + long.ID, payments: '/payments', payment: '/payments/' + payments[0].id, 'payments-none': '/payments?search=nobody', transfers: '/transfers', transfer: '/transfers/' + merchantTxRef, beneficiaries: '/beneficiaries', 'payout-choose': '/payout', 'payout-order': '/payout?account=' + shop.ID,
    customers: '/customers', customer: '/customers/' + shop.CustomerID, deliveries: '/deliveries', delivery: '/deliveries/' + deadLetters[0].ID,
    misdirected: '/misdirected', api: '/api', keys: '/keys', 'new-key': '/keys/new', members: '/members', audit: '/audit', settings: '/settings', endpoints: '/endpoints', 'new-endpoint': '/endpoints/new', endpoint: '/endpoints/' + endpoint.id, me: '/me', 'not-found': '/nowhere', empty: '/transfers?status=refunded', refused: '/transfers/AJO00000000000000000000000000000000',
  };
  return t;
}

const openPages = { login: '/login', signup: '/signup', code: '/code?tenant=0198c0de-7b1a-7c3e-9d52-0f6a1e2b3c4d' };

let busy;
const tenant = () => (busy ??= busyTenant());

for (const [look, options] of Object.entries(looks)) {
  test(`every page in ${look}: nothing that axe finds serious, nothing wider than the screen`, async () => {
    const t = await tenant();
    for (const [v, pages] of [[await visit(options), openPages], [await visitAs(t, options), t.pages]]) {
      await month(v.page);
      for (const [name, path] of Object.entries(pages)) {
        await go(v.page, path);
        await v.page.waitForFunction(() => !document.querySelector('.plot:empty'));
        await fits(v.page, `${name} in ${look}`);
        await accessible(v.page, `${name} in ${look}`);
        await picture(v.page, `${name}-${look}`);
      }
      await v.close();
    }
  });
}

test('a long list says how many rows it has', async () => {
  const t = await newTenant();
  for (let i = 1; i <= 51; i++) await open(t, `customer-${i}`, i % 17 ? 'Ada Obi' : 'Chidi Eze');
  let total; // in place of the service's; null: none
  const saying = async (page, text) => {
    await page.getByRole('button', { name: 'Refresh' }).click();
    await page.getByText(text, { exact: true }).waitFor();
  };
  for (const [look, options] of Object.entries(looks)) {
    const v = await visitAs(t, options);
    const { page } = v;
    await page.route('**/auth/accounts?*', async (route) => {
      const answer = await route.fetch();
      const list = await answer.json();
      if (total !== undefined && list.pagination.total) list.pagination.total = total ?? undefined;
      return route.fulfill({ response: answer, json: list });
    });
    total = undefined;
    for (const [path, text] of [['/accounts', 'The first 50 of 51 accounts'], ['/customers', 'The first 50 of 51 customers'], ['/accounts?search=chidi', '3 accounts']]) {
      await go(page, path);
      await page.getByText(text, { exact: true }).waitFor();
    }
    await go(page, '/accounts');
    for (const [said, text] of [
      [{ count: 10000, exact: false }, 'The first 50 of at least 10,000 accounts'], [{ count: 10000, exact: false }, 'At least 10,000 accounts'],
      [{ count: 7, exact: false }, 'The first 50 accounts'], [{ count: 50, exact: true }, 'The first 50 accounts'], [null, 'The first 50 accounts'],
      [{ count: 1234, exact: true }, 'The first 50 of 1,234 accounts'], [{ count: 1234, exact: true }, '1,234 accounts'],
    ]) {
      total = said;
      await saying(page, text);
    }
    await fits(page, `a long list in ${look}`);
    await accessible(page, `a long list in ${look}`);
    await picture(page, `accounts-many-${look}`);
    await page.getByRole('button', { name: 'Show more' }).click();
    await page.getByText('51 accounts', { exact: true }).waitFor();
    await v.close();
  }
});

test('what needs a review is found from the overview', async () => {
  const v = await visitAs(await tenant());
  const { page } = v;
  const tile = page.getByRole('link', { name: 'Needs review' });
  await tile.getByText('1 payment could not be verified, and is not in the balance').waitFor();
  await tile.click();
  await page.getByText('1 account', { exact: true }).waitFor();
  await page.getByRole('link', { name: 'customer-1' }).click();
  await page.getByRole('region', { name: 'Statement' }).getByText('1 line', { exact: true }).waitFor();
  await page.getByRole('row', { name: 'One that the bank’s records do not show like this' }).getByText('Needs review').waitFor();
  await v.close();
});

// month gives the overview a past, which a service that has just begun cannot have. All else is what the service says.
async function month(page) {
  await page.route('**/auth/overview', async (route) => {
    const answer = await route.fetch();
    if (!answer.ok()) return route.fulfill({ response: answer });
    const o = await answer.json();
    o.days.forEach((d, i) => {
      if (i === 29) return;
      d.moneyIn = `${(i * 7919) % 1301}000.00`;
      d.moneyOut = i % 7 < 5 ? `${(i * 6421) % 619}500.50` : '0.00';
    });
    return route.fulfill({ response: answer, json: o });
  });
}

test('dialogs, the menu of a phone and the first day', async () => {
  for (const [look, options] of Object.entries(looks)) {
    const v = await visitAs(await newTenant('Bayo Stores'), options);
    const { page } = v;
    await page.getByRole('heading', { name: 'Your first payment' }).waitFor();
    await fits(page, 'the first day in ' + look);
    await accessible(page, 'the first day in ' + look);
    await picture(page, 'first-day-' + look);
    if (look === 'phone') {
      await page.getByRole('button', { name: 'Menu' }).click();
      await page.getByRole('link', { name: 'Settings', exact: true }).waitFor();
      await accessible(page, 'the menu');
      await picture(page, 'menu-phone');
    }
    await go(page, '/settings');
    await page.getByRole('button', { name: 'Rotate key…' }).click();
    await accessible(page, 'the question in ' + look);
    await picture(page, 'dialog-' + look);
    await page.getByRole('dialog').getByRole('button', { name: 'Rotate key' }).click();
    await page.getByRole('dialog', { name: 'Your new API key' }).waitFor();
    await fits(page, 'the key in ' + look);
    await accessible(page, 'the key in ' + look);
    await picture(page, 'key-' + look);
    await page.getByRole('button', { name: 'I have stored it' }).click();
    await v.close();
  }
});

test('a business that has been quiet, and has paid everything out, is no beginner', async () => {
  const t = await newTenant();
  const account = await open(t, 'customer-1', 'Ada Obi');
  await pay(account.BankAccountNumber, '5000.00');
  await entry(t, 'customer-1', 'the payment', (e) => e.Direction === 'credit');
  const v = await visitAs(t);
  const { page } = v;
  await page.route(/auth\/overview/, async (route) => { // as it is after a week without a payment
    const answer = await route.fetch();
    const o = await answer.json();
    const none = { moneyIn: '0.00', moneyOut: '0.00' };
    return route.fulfill({ response: answer, json: { ...o, ...none, balance: '0.00', provisional: '0.00', days: o.days.map((d) => ({ ...d, ...none })) } });
  });
  await page.getByLabel('Show', { exact: true }).selectOption('7');
  await page.getByRole('heading', { name: 'Last 7 days' }).waitFor();
  assert.equal(await page.getByRole('heading', { name: 'Your first payment' }).count(), 0);
  await page.getByLabel('Show', { exact: true }).selectOption('90');
  await page.getByRole('heading', { name: 'Last 90 days' }).waitFor();
  await v.close();
});

test('figures are exact however large, and the plot says them', async () => {
  const v = await visitAs(await newTenant());
  const { page } = v;
  await page.route('**/auth/overview', async (route) => {
    const answer = await route.fetch();
    const o = await answer.json();
    o.posted = true;
    o.balance = '-90071992547409.93';
    o.days[29].moneyIn = '9007199254740993.01';
    return route.fulfill({ response: answer, json: o });
  });
  await page.reload();
  await page.getByText('-₦90,071,992,547,409.93').waitFor();
  await page.locator('.plot svg').waitFor();
  assert.match(await page.locator('.plot title').last().textContent(), /in ₦9,007,199,254,740,993\.01, out ₦0\.00$/);
  await page.getByText('Show as a table').click();
  await page.getByRole('cell', { name: '₦9,007,199,254,740,993.01' }).waitFor();
  const account = { ExpectedAmount: 'not a number' };
  await page.route('**/auth/accounts/x', (route) => route.fulfill({ contentType: 'application/json', body: JSON.stringify({ ...account, AccountRef: 'x', Status: 'active', CustomerID: 'c' }).replace('"not a number"', '999999999999999.99') }));
  for (const [end, body] of [['balance', { balance: '-999999999999999999.10' }], ['history', { history: null }], ['holds*', { holds: [], pagination: {} }], ['recalls*', { recalls: [], pagination: {} }], ['statement*', { lines: [], totalCredits: '0.00', totalDebits: '0.00', closingBalance: '0.10', pagination: {} }]]) {
    await page.route('**/auth/accounts/x/' + end, (route) => route.fulfill({ json: body }));
  }
  await go(page, '/accounts/x');
  await page.getByText('₦999,999,999,999,999.99').waitFor();
  await page.setViewportSize(phone);
  await fits(page, 'the largest amounts on a phone');
  await v.close();
});

test('a service that is away, refuses or breaks is reported, and asked again', async () => {
  const v = await visitAs(await newTenant());
  const { page } = v;
  const answers = [
    (route) => route.abort(), (route) => route.fulfill({ status: 429, headers: { 'Retry-After': '7' }, json: { error: 'rate limit exceeded' } }),
    (route) => route.fulfill({ status: 500, headers: { 'X-Request-ID': 'the-request' }, json: { error: 'internal error' } }),
    (route) => route.fulfill({ status: 502, body: '<html>a proxy</html>' }),
  ];
  await page.route('**/auth/accounts?*', (route) => (answers.length ? answers.shift()(route) : route.continue()));
  await page.route('**/auth/accounts', (route) => (answers.length ? answers.shift()(route) : route.continue()));
  await go(page, '/accounts');
  for (const text of ['cannot be reached', 'Try again in 7 seconds', 'the-request', 'The service returned an error (502).']) {
    await page.getByRole('alert').getByText(text).waitFor();
    await page.getByRole('button', { name: 'Try again' }).click();
    await settled(page);
  }
  await page.getByText('No accounts yet.').waitFor();
  await v.close();
});

test('all of it by keyboard', async () => {
  const t = await tenant();
  const v = await visit();
  const { page } = v;
  await tabTo(page, 'E-mail');
  await page.keyboard.type(t.email);
  await tabTo(page, 'Password');
  await page.keyboard.type(t.password);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: t.name, level: 1 }).waitFor();
  await settled(page);
  assert.equal(await page.evaluate(() => document.activeElement.tagName), 'H1', 'the focus is at the new page');

  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press('Tab');
  await tabTo(page, 'Skip to content');
  await page.keyboard.press('Enter');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'main');
  await page.reload();
  await settled(page);
  await page.evaluate(() => document.activeElement.blur());
  await tabTo(page, 'Customers');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Customers', level: 1 }).waitFor();
  await settled(page);
  await tabTo(page, 'Ada Obi');
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Approve' }).waitFor();
  await tabTo(page, 'Approve');
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').waitFor();
  for (let i = 0; i < 4; i++) {
    await page.keyboard.press('Tab');
    assert.ok(await page.evaluate(() => !document.querySelector('dialog') || document.activeElement === document.body || document.querySelector('dialog').contains(document.activeElement)), 'the focus stays in the dialog');
  }
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Approve', 'the focus is given back');
  await tabTo(page, 'Theme');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'dark');
  await page.reload();
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'dark', 'the choice is kept');
  await v.close();
});
