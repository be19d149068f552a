// The operators' console, as operators use it. Run by `make test-web`, beside the dashboard's tests.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, go, looked, looks, picture, reloadedWithGo, said, settled, tabTo, visitor } from './browser.js';
import { until } from './stack.js';
import { totp } from './totp.js';
import { entry, newTenant, open, pay, world } from './world.js';

const password = 'correct horse battery';

// added makes an account by the command line, and returns its set-up code.
async function added(name, role) {
  return JSON.parse((await world.service.tool('operator', 'add', name, '--role', role, '--yes', '--json', '--reason', 'joins')).replace(/^[^{]*/, '')).code;
}

// desk opens the console with a session: {page, secret, close()}.
async function desk(name, role = 'operator', options = {}) {
  const { ops } = world.service;
  const v = await visitor(world.browser, ops, options);
  const code = await added(name, role);
  const { secret } = await (await v.context.request.post('/console/api/setup', { data: { name, code, password } })).json();
  const answer = await v.context.request.post('/console/api/login', { data: { name, password, code: totp(secret) } });
  assert.equal(answer.status(), 200);
  await v.page.goto('/console#/');
  await v.page.getByRole('heading', { name: 'Status', level: 1 }).waitFor();
  await settled(v.page);
  return { ...v, secret };
}

// asking presses a button of a place on the page, gives a reason and what else is asked, and returns the dialog with the sentence.
async function asking(page, name, { fill = async () => {}, place = page } = {}) {
  await place.getByRole('button', { name: name + '…', exact: true }).first().click();
  const asked = page.getByRole('dialog', { name, exact: true });
  await fill(asked);
  await asked.getByLabel('Reason').fill('ticket 4711');
  await asked.getByRole('button', { name: 'Continue' }).click();
  const sure = page.getByRole('dialog', { name: name + '?', exact: true });
  await sure.waitFor();
  return sure;
}

// decided asks, and confirms the sentence, which it returns. If what would happen has changed meanwhile, it confirms the new sentence.
async function decided(page, name, fill, place) {
  const sure = await asking(page, name, { fill, place });
  const sentence = sure.locator('p').first();
  for (;;) {
    const text = await sentence.textContent();
    await sure.getByRole('button', { name, exact: true }).click();
    await until('the end of the question, or a new one', async () => (await sentence.allTextContents())[0] !== text);
    if (await sure.isHidden()) return text;
  }
}

let shared; // a tenant with an account, whose payments the tests use
async function tenant() {
  if (shared) return shared;
  shared = await newTenant('Ada Stores');
  shared.account = await open(shared, 'customer-1', 'Ada Obi');
  return shared;
}

// held makes a payment that needs a review, since the bank's record has another sum, and returns its event's id.
async function held(sender) {
  const { service } = world;
  const t = await tenant();
  await service.request('POST', service.bank + '/control/faults', { add: [{ on: 'transactions', do: 'amount', value: '98000.00' }] });
  try {
    await pay(t.account.BankAccountNumber, '5000.00', { sender });
    return (await until('a review', async () => JSON.parse(await service.tool('review', 'list', '--json')).items.find((v) => v.SenderName === sender))).EventID;
  } finally {
    await service.request('POST', service.bank + '/control/faults', { clear: true });
  }
}

test('an operator sets up an account by the code, logs in by all three, and out', async () => {
  const code = await added('ada', 'operator');
  const v = await visitor(world.browser, world.service.ops);
  const { page } = v;
  await page.goto('/console');
  await page.getByRole('heading', { name: 'Log in' }).waitFor();
  await page.getByRole('link', { name: 'Use a set-up code' }).click();
  await page.getByLabel('Name').fill('ada');
  await page.getByLabel('Set-up code').fill(code);
  await page.getByLabel('New password').fill(password);
  await accessible(page, 'the set-up');
  await page.getByRole('button', { name: 'Set up' }).click();
  await page.locator('img.qr').waitFor();
  const secret = await page.locator('.secret').textContent();
  await accessible(page, 'the secret');
  await picture(page, 'console-setup');
  await page.getByRole('link', { name: 'Log in', exact: true }).click();
  const enter = async (word, digits) => {
    await page.getByLabel('Name').fill('ada');
    await page.getByLabel('Password').fill(word);
    await page.getByLabel('Code').fill(digits);
    await page.getByRole('button', { name: 'Log in' }).click();
  };
  await enter(password, totp(secret) === '000000' ? '000001' : '000000');
  await page.getByRole('alert').getByText('Name, password or code is wrong.').waitFor();
  await enter('another password', totp(secret));
  await page.getByRole('alert').getByText('Name, password or code is wrong.').waitFor();
  await enter(password, totp(secret));
  await page.getByRole('heading', { name: 'Status', level: 1 }).waitFor();
  await settled(page);
  const cookie = (await v.context.cookies()).find((c) => c.name === 'ajo_console');
  assert.deepEqual([cookie.httpOnly, cookie.sameSite], [true, 'Strict']);
  await page.getByRole('button', { name: 'Log out' }).click();
  await page.getByRole('heading', { name: 'Log in' }).waitFor();
  assert.equal((await v.context.request.get('/console/api/me')).status(), 401);
  await v.close();
});

test('another operator signs in in another tab: this one does not go on under the first one’s name', async () => {
  const v = await desk('first-tab');
  await v.page.locator('.who').getByText('first-tab').waitFor();
  const code = await added('second-tab', 'viewer');
  const { secret } = await (await v.context.request.post('/console/api/setup', { data: { name: 'second-tab', code, password } })).json();
  assert.equal((await v.context.request.post('/console/api/login', { data: { name: 'second-tab', password, code: totp(secret) } })).status(), 200);
  const tab = await v.context.newPage();
  await tab.goto('/console#/');
  await v.page.locator('.who').getByText('second-tab').waitFor();
  await v.page.getByText('Viewer: looks only').waitFor();
  await settled(v.page);
  await tab.close();
  await v.close();
});

test('an address that is opened while the console still starts is where one arrives', async () => {
  const v = await desk('quick');
  await reloadedWithGo(v.page, '**/console/api/me', '/audit');
  await v.page.getByRole('heading', { name: 'Audit log', level: 1 }).waitFor();
  assert.equal(await v.page.evaluate(() => location.hash), '#/audit');
  await v.close();
});

test('a review is decided beside the bank’s record, and the audit log says by whom', async () => {
  const event = await held('Bola <b>Ade</b>');
  const v = await desk('bola');
  const { page } = v;
  await go(page, '/reviews');
  await page.getByRole('link', { name: 'Bola <b>Ade</b>' }).click();
  await page.getByRole('heading', { name: 'The bank’s record beside ours' }).waitFor();
  await page.getByRole('row', { name: 'Amount ₦5,000.00' }).waitFor();
  // what a browser would take for one date is not the same
  const altered = '**/console/api/read/review-show?*';
  await page.route(altered, async (route) => {
    const response = await route.fetch();
    const json = await response.json();
    Object.assign(json.Event, { Amount: '50.01', Narration: 'School fees 2026' });
    Object.assign(json.Bank, { Amount: '1950.01', Narration: 'Gift 2026' });
    Object.assign(json.Review, { Amount: '4975.00', Brings: '4921.25', Split: true });
    await route.fulfill({ response, json });
  });
  await page.getByRole('button', { name: 'Refresh' }).click();
  for (const name of ['Amount ₦50.01 ₦1,950.01', 'Narration School fees 2026 Gift 2026']) await page.getByRole('row', { name }).getByText('Differs', { exact: true }).waitFor();
  await page.getByRole('row', { name: 'Time' }).getByText('yes', { exact: true }).waitFor();
  await page.getByRole('region', { name: 'State' }).getByText('₦4,921.25', { exact: true }).waitFor(); // less what the platform takes
  await page.getByRole('region', { name: 'State' }).getByText(', less what the account’s split passes on').waitFor();
  await page.unroute(altered);
  await page.getByRole('button', { name: 'Refresh' }).click();
  await page.getByRole('row', { name: 'Amount ₦5,000.00' }).waitFor();
  assert.equal(await page.getByText('split').count(), 0);
  const will = await decided(page, 'Confirm');
  assert.match(will, /^Confirm the payment of NGN .* It counts in the balance again, and may be paid out\.$/);
  await said(page, 'is confirmed');
  await settled(page);
  assert.equal(await page.getByRole('button', { name: 'Confirm…' }).count(), 0);
  await go(page, '/audit');
  const row = page.getByRole('row', { name: 'review.confirm' }).first();
  await row.getByText('console:bola').waitFor();
  await row.getByText('event:' + event).waitFor();
  await v.close();
});

test('a viewer sees a review and has no button', async () => {
  const event = await held('Vera Udo');
  const v = await desk('vera', 'viewer');
  await go(v.page, '/reviews/' + event);
  await v.page.getByRole('heading', { name: 'The bank’s record beside ours' }).waitFor();
  assert.equal(await v.page.locator('main button', { hasText: '…' }).count(), 0);
  await v.page.getByText('Viewer: looks only').waitFor();
  await v.close();
});

// pages are looked at in each look, with what the heading says.
const pages = {
  '/': 'Status', '/search': 'Search', '/reviews': 'Reviews', '/misdirected': 'Misdirected', '/recalls': 'Recalls', '/events': 'Bank events', '/transfers': 'Payouts', '/freezes': 'Freezes', '/kyc': 'KYC', '/tenants': 'Tenants',
  '/prices': 'Prices', '/deliveries?status=delivered': 'Webhooks', '/work': 'Work', '/reconciliations': 'Reconciliation', '/balance': 'Trial balance', '/system/provider_float': 'provider_float', '/holds': 'Holds', '/dormant': 'Dormant accounts', '/audit': 'Audit log',
};

test('each page in light, dark and on a phone', async () => {
  const { service } = world;
  const event = await held('Chidi Eze');
  const t = await tenant();
  const { id } = await t.call('GET', '/auth/me').catch(() => ({}));
  const listed = async (...args) => JSON.parse(await service.tool(...args, '--json')).items[0];
  const owner = id ?? (await listed('tenant', 'list')).ID;
  await service.tool('reconcile').catch(() => {});
  const run = await listed('reconcile', 'list');
  const all = {
    ...pages, ['/reviews/' + event]: 'Payment under review', ['/events/' + event]: 'Bank event', ['/tenants/' + owner]: 'Tenant', ['/accounts/' + t.account.BankAccountNumber]: 'Account ' + t.account.BankAccountNumber,
    ...(run && { ['/reconciliations/' + run.ID]: 'Reconciliation report' }),
  };
  for (const [look, options] of Object.entries(looks)) {
    const v = await desk('look-' + look, 'operator', options);
    for (const [path, title] of Object.entries(all)) {
      await go(v.page, path);
      await v.page.getByRole('heading', { name: title, level: 1, exact: true }).waitFor();
      await settled(v.page);
      assert.equal(await v.page.getByRole('alert').count(), 0, `${path}: ${await v.page.getByRole('alert').allTextContents()}`);
      assert.doesNotMatch(await v.page.locator('main').textContent(), /undefined|NaN|\[object/, path);
      await looked(v.page, 'console-' + title.toLowerCase().replaceAll(/[^a-z]+/g, '-'), look);
    }
    await go(v.page, '/reviews/' + event);
    await v.page.getByRole('button', { name: 'Confirm…', exact: true }).click();
    await accessible(v.page, 'the question in ' + look);
    await picture(v.page, 'console-question-' + look);
    await v.close();
  }
});

test('the big stop, and one tenant: stopped, shown and lifted', async () => {
  const v = await desk('efe');
  const { page } = v;
  await go(page, '/freezes');
  assert.match(await decided(page, 'Stop ALL payouts', (d) => d.getByLabel('For how long').selectOption('1h')), /^Stop ALL payouts of ALL tenants that are not at the bank yet\./);
  const row = page.getByRole('row', { name: 'ALL payouts' });
  await row.getByText('console:efe').waitFor();
  await settled(page);
  assert.match(await decided(page, 'Lift'), /^Lift the freeze of payouts:all/);
  await page.getByText('No such freeze.').waitFor();

  await world.service.tool('freeze', 'payouts', '--until', '1s', '--yes', '--reason', 'for a second');
  const short = page.getByRole('row', { name: 'for a second' });
  await until('its end', async () => (await world.service.tool('freeze', 'list', '--status', 'ended')).includes('for a second'));
  await go(page, '/freezes?status=ended');
  await short.waitFor();
  assert.equal(await short.getByRole('button').count(), 0, 'its time has come: there is nothing to lift');
  await v.close();
});

test('a suspended tenant stands among the freezes, and its row leads to what ends that', async () => {
  const t = await newTenant('Kano Leather');
  await world.service.tool('tenant', 'suspend', t.email, '--yes', '--reason', 'a fraud report');
  const v = await desk('gowon');
  const { page } = v;
  await go(page, '/freezes');
  const row = page.getByRole('row', { name: 'a fraud report' });
  await row.getByText('it is activated').waitFor();
  assert.equal(await row.getByRole('button').count(), 0, 'there is no freeze to lift');
  await page.route('**/console/api/read/freeze-list?*', async (route) => { // as of 100 tenants
    const response = await route.fetch();
    return route.fulfill({ response, json: { ...await response.json(), note: 'more may be' } });
  }, { times: 1 });
  await page.getByRole('button', { name: 'Refresh' }).click();
  await page.getByText('more may be', { exact: true }).waitFor();
  await row.getByRole('link', { name: 'See the tenant' }).click();
  await page.getByRole('heading', { name: 'Kano Leather' }).waitFor();
  await decided(page, 'Activate');
  await page.getByRole('button', { name: 'Suspend…' }).waitFor();
  await v.close();
});

test('a tenant is found by name, suspended and activated', async () => {
  await newTenant('Zuma Rock Foods');
  const v = await desk('funmi');
  const { page } = v;
  await go(page, '/search');
  await page.getByLabel('Number, reference').fill('zuma rock');
  await page.getByRole('button', { name: 'Search' }).click();
  await page.getByRole('link', { name: 'Tenant Zuma Rock Foods' }).click();
  await page.getByRole('button', { name: 'Suspend…' }).waitFor();
  await decided(page, 'Suspend');
  await decided(page, 'Activate');
  await page.getByRole('button', { name: 'Suspend…' }).waitFor();
  await page.getByRole('region', { name: 'Limits' }).getByText('no limit', { exact: true }).waitFor(); // "none" would be nothing
  await page.getByRole('region', { name: 'Limits' }).getByText('not counted', { exact: true }).waitFor(); // ₦0.00 would be no payout
  await decided(page, 'Limit payouts', (d) => d.getByLabel('One payout').fill('500.00'));
  await page.getByRole('region', { name: 'Limits' }).getByText('₦500.00').waitFor();
  await page.getByRole('region', { name: 'Limits' }).getByText('₦0.00', { exact: true }).waitFor(); // counted from now on
  await decided(page, 'Approval of payouts', async (d) => {
    await d.getByLabel('Members who must approve').fill('2');
    await d.getByLabel('Of a payout above').fill('500.00');
    await d.getByLabel('New beneficiaries wait, in hours').fill('24');
  });
  const policy = page.getByRole('region', { name: 'Approval of payouts' });
  await policy.getByText('24 hours').waitFor();
  await policy.getByText('payouts that need approval will fail: approvals is 2').waitFor();
  assert.match(await policy.textContent(), /Members who may approve1/);
  await v.close();
});

test('what changes while it is asked about is shown, and asked about anew', async () => {
  const { service } = world;
  const t = await newTenant('Olumo Foods');
  const v = await desk('ngozi');
  const { page } = v;
  await go(page, '/tenants?status=active');
  await page.getByRole('link', { name: 'Olumo Foods' }).click();
  const elsewhere = (what) => service.tool('tenant', what, t.email, '--yes', '--reason', 'a test');
  let sure = await asking(page, 'End sessions');
  assert.match(await sure.locator('p').first().textContent(), /active/);
  await elsewhere('suspend');
  await sure.getByRole('button', { name: 'End sessions', exact: true }).click();
  await sure.getByRole('alert').getByText('read it again').waitFor();
  assert.match(await sure.locator('p').first().textContent(), /suspended/);
  await sure.getByRole('button', { name: 'End sessions', exact: true }).click();
  await sure.waitFor({ state: 'detached' });

  sure = await asking(page, 'Activate'); // done by somebody else meanwhile
  await elsewhere('activate');
  await sure.getByRole('button', { name: 'Activate', exact: true }).click();
  await sure.waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Suspend…' }).waitFor();
  await v.close();
});

test('a payment is found by its sum and its account’s number', async () => {
  const t = await tenant();
  await pay(t.account.BankAccountNumber, '12345.67', { sender: 'Gbenga Ali' });
  await entry(t, 'customer-1', 'the payment', (e) => e.Amount !== '4975.00');
  const v = await desk('gbenga');
  const { page } = v;
  await go(page, '/search?q=12%2C345.67');
  await page.getByRole('link', { name: 'Payments of the sum' }).click();
  await page.getByRole('link', { name: 'Gbenga Ali' }).click();
  await page.getByRole('heading', { name: 'Bank event', level: 1 }).waitFor();
  await go(page, '/search?q=' + t.account.BankAccountNumber);
  await page.getByRole('link', { name: 'Account', exact: true }).click();
  await page.getByRole('heading', { name: 'customer-1 of Ada Stores' }).waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('gbenga al');
  await page.keyboard.press('Enter');
  await page.getByRole('link', { name: 'Payments by a payer of the name' }).click();
  await page.getByRole('link', { name: 'Gbenga Ali' }).waitFor();
  await go(page, '/search?q=no-such-thing');
  await page.getByText('Nothing was found.').waitFor();
  // a page of a list looks at so many rows only
  for (const command of ['events', 'tenant']) {
    await page.route(`**/console/api/read/${command}-list?*`, (route) => route.fulfill({ json: { items: [], pagination: { limit: 100, nextCursor: 'more', hasMore: true } } }));
  }
  await go(page, '/search?q=no-such-payer');
  for (const what of ['Payments by a payer of the name, among the newest', 'Other tenants by the name']) {
    await page.getByRole('row', { name: what }).getByText('not known: older ones were not looked at').waitFor();
  }
  await page.unrouteAll();
  await v.close();
});

test('what is held is summed up, found by its source, and released; a system account is read from the trial balance', async () => {
  const t = await newTenant('Mokola Fabrics');
  const shop = await open(t, 'shop-1', 'Ada Obi');
  await pay(shop.BankAccountNumber, '9000.00', { sender: 'Tolu Ajayi' });
  await entry(t, 'shop-1', 'the payment', (e) => e.Status === 'confirmed');
  for (const [amount, reason] of [['1200.50', 'a dispute'], ['300.00', 'a deposit']]) await t.call('POST', '/v1/accounts/shop-1/holds', { amount, reason });
  const v = await desk('ugo');
  const { page } = v;
  await go(page, '/holds?tenant=' + encodeURIComponent(t.email));
  const all = page.getByRole('region', { name: 'All holds' }).getByRole('row', { name: 'All' });
  await all.getByText('₦1,500.50').waitFor();
  await page.getByRole('row', { name: 'a dispute' }).getByText('₦1,200.50').waitFor();
  await decided(page, 'Release', undefined, page.getByRole('row', { name: 'a deposit' }));
  await all.getByText('₦1,200.50').waitFor();
  // the sums are of what the filters choose, and are read again with the list
  await t.call('POST', '/v1/accounts/shop-1/holds', { amount: '99.50', reason: 'another deposit' });
  await page.getByRole('button', { name: 'Refresh' }).click();
  await said(page, 'Refreshed.');
  await all.getByText('₦1,300.00').waitFor();
  await decided(page, 'Release', undefined, page.getByRole('row', { name: 'another deposit' }));
  await page.getByLabel('Source').selectOption('recall');
  await page.getByText('No such hold.').waitFor();
  await page.getByText('What is held of a recalled payment itself is no hold: see Recalls.').waitFor();
  await all.getByText('₦0.00').waitFor();
  assert.equal((await t.call('GET', '/v1/accounts/shop-1/balance')).held, '1200.50');

  await go(page, '/balance');
  await page.getByRole('link', { name: 'provider_float' }).click();
  await page.getByRole('heading', { name: 'provider_float', level: 1 }).waitFor();
  await page.getByRole('row', { name: '₦8,975.00' }).first().waitFor();
  await page.getByLabel('To').fill('2020-01-01');
  await page.getByText('No entry.').waitFor();
  await go(page, '/balance');
  await page.getByText('So far on ').waitFor();
  await page.getByLabel('At the end of').fill('2020-01-01');
  await page.getByText('At the end of 2020-01-01 (Lagos)').waitFor();
  await go(page, '/dormant');
  await page.getByText('No account is dormant.').waitFor();
  await v.close();
});

test('work that was not counted to its end is not shown as an exact number', async () => {
  const v = await desk('wale');
  const { page } = v;
  await page.route('**/console/api/read/work-list?summary=true', (route) => route.fulfill({ json: [
    { Kind: 'deliver', Due: 9701, Leased: 300, Later: 12345, OldestDue: null }, { Kind: 'settle', Due: 1234, Leased: 2, Later: 0, OldestDue: null },
  ] }));
  await go(page, '/work');
  for (const [kind, counts] of [['deliver', ['9,701+', '300+', '10,000+']], ['settle', ['1,234', '2', '0']]]) {
    const row = page.getByRole('region', { name: 'By age' }).getByRole('row', { name: kind });
    assert.deepEqual(await row.locator('td.number').allTextContents(), counts);
  }
  await page.unrouteAll();
  await v.close();
});

test('what may be in the archive is not said to be nothing', async () => {
  const v = await desk('yusuf');
  const { page } = v;
  let items = [];
  await page.route('**/console/api/read/deliveries-list?*', (route) => route.fulfill({ json: {
    items, pagination: { limit: 50, nextCursor: null, hasMore: false }, archivedBefore: '2026-01-01T00:00:00Z',
  } }));
  await go(page, '/deliveries?status=delivered');
  const note = page.getByText('may be archived');
  await page.getByText('None.', { exact: true }).waitFor();
  await note.waitFor();
  items = [{ id: '0198c0de-0000-7000-8000-000000000001', eventType: 'payment.received', status: 'delivered', attemptCount: 1, callbackUrl: 'https://shop.example/hook', createdAt: '2026-11-01T09:00:00Z' }];
  await page.getByRole('button', { name: 'Refresh' }).click();
  await page.getByRole('link', { name: 'payment.received' }).waitFor();
  await note.waitFor();
  await page.unrouteAll();
  await v.close();
});

test('of what reconciliations still ask about, only an exception can be dismissed', async () => {
  const v = await desk('tunde');
  const { page } = v;
  const [found, exception] = ['2026-11-02T00:00:00Z', { kind: 'payout_differs', detail: 'another sum' }];
  const items = [['AJO1', '-2.00', exception], ['AJO2', '-1000.00'], ['AJO3', '0.00']].map(([Ref, Effect, Exception = null]) => ({ Kind: 'payout', Ref, Effect, Exception, FoundAt: found, NextAt: found }));
  await page.route('**/console/api/read/reconcile-open?*', (route) => route.fulfill({ json: { items, pagination: { limit: 50, nextCursor: null, hasMore: false } } }));
  await go(page, '/reconciliations');
  for (const [ref, what, dismissible] of [
    ['AJO1', 'payout_differs: another sum', 1], ['AJO2', 'No exception, but wallet and books differ', 0], ['AJO3', 'The bank has it under way', 0],
  ]) {
    const row = page.getByRole('row', { name: ref });
    await row.getByText(what, { exact: true }).waitFor();
    assert.equal(await row.getByRole('button', { name: 'Dismiss…' }).count(), dismissible, ref);
  }
  await page.unrouteAll();
  await v.close();
});

test('a price is set, and shown', async () => {
  const v = await desk('halima');
  const { page } = v;
  await go(page, '/prices');
  assert.match(await decided(page, 'Set a price', async (d) => {
    await d.getByLabel('On', { exact: true }).selectOption('vat');
    await d.getByLabel('Percent').fill('7.5');
  }), /of VAT on the platform's fees, from a minute from now on/);
  await page.getByRole('row', { name: 'vat' }).getByText('7.5').waitFor();

  const t = await newTenant();
  await world.service.tool('prices', 'set', '--tenant', t.email, '--on', 'payment', '--percent', '1.5', '--flat', '10', '--from', '2030-01-01', '--reason', 'contract 12', '--yes');
  await world.service.tool('prices', 'set', '--tenant', t.email, '--on', 'payment', '--as-listed', '--from', '2031-01-01', '--reason', 'contract 12 ends', '--yes');
  await go(page, '/prices?tenant=' + encodeURIComponent(t.email));
  const figures = (reason) => page.getByRole('row').filter({ hasText: reason }).locator('td.number').allTextContents();
  await page.getByText('contract 12 ends').waitFor();
  assert.deepEqual(await figures('contract 12 ends'), ['as listed', '—', '—', '—'], 'not a price of nothing');
  assert.equal((await figures('contract 12')).includes('1.5'), true);
  await v.close();
});

test('a review is decided by keyboard', async () => {
  const event = await held('Dayo Ojo');
  const v = await desk('dayo');
  const { page } = v;
  await go(page, '/reviews/' + event);
  await page.getByRole('button', { name: 'Reverse…', exact: true }).waitFor();
  await page.evaluate(() => document.activeElement.blur());
  await tabTo(page, 'Reverse…');
  await page.keyboard.press('Enter');
  await page.getByRole('dialog', { name: 'Reverse', exact: true }).waitFor();
  await tabTo(page, 'Reason');
  await page.keyboard.type('ticket 4712');
  await page.keyboard.press('Enter');
  await page.getByRole('dialog', { name: 'Reverse?', exact: true }).waitFor();
  await tabTo(page, 'Reverse');
  await page.keyboard.press('Enter');
  await said(page, 'is reversed');
  await v.close();
});

test('a working day: misdirected, KYC, a stopped payout, a dead letter, a recall', async () => {
  const { service } = world;
  const t = await newTenant('Ibadan Books');
  await t.listen();
  const shop = await open(t, 'shop-1', 'Ada Obi', { bvn: '22222222222' });
  const order = await open(t, 'order-1', 'Chidi Eze', { mode: 'onetime', expectedAmount: 7500.5 });
  await pay(shop.BankAccountNumber, '20000.00', { sender: 'Kemi Bello' });
  await pay(order.BankAccountNumber, '7500.50');
  await entry(t, 'order-1', 'the order to be paid', (e) => e.Status === 'confirmed');
  const paid = await entry(t, 'shop-1', 'the payment', (e) => e.Status === 'confirmed');
  await pay(order.BankAccountNumber, '7500.50', { force: 'true', sender: 'Lara Twice' }); // it finds no open account
  await t.call('POST', `/v1/customers/${shop.CustomerID}/kyc`, { nin: '12345678901' });
  const v = await desk('ife');
  const { page } = v;

  await until('the misdirected payment', async () => (await service.tool('events', 'list', '--category', 'misdirected')).includes('7500.50'));
  await go(page, '/misdirected');
  await page.getByRole('link', { name: 'Lara Twice' }).click();
  await page.getByRole('button', { name: 'Assign…' }).waitFor();
  assert.match(await decided(page, 'Assign', (d) => d.getByLabel('Account').fill(shop.ID)), /7500\.50/);
  await page.locator('dl').getByText('Processed', { exact: true }).waitFor();

  await go(page, '/kyc');
  await page.getByRole('link', { name: 'Ada Obi' }).click();
  await page.getByRole('button', { name: 'Approve…' }).waitFor();
  await page.locator('dl').getByText('Others approved with this NIN', { exact: true }).waitFor();
  await decided(page, 'Approve');
  await page.locator('dl').getByText('Approved', { exact: true }).waitFor();

  const stop = JSON.parse((await service.tool('freeze', 'tenant', t.email, '--yes', '--json', '--reason', 'a test')).replace(/^[^{]*/, ''));
  const { merchantTxRef } = await t.call('POST', '/v1/accounts/shop-1/settle', { amount: '1500.00', bankCode: '058', accountNumber: '0123456789', narration: 'Rent' });
  await go(page, '/transfers?status=pending');
  await page.getByRole('link', { name: merchantTxRef }).click();
  await page.getByRole('button', { name: 'Cancel payout…' }).waitFor();
  await decided(page, 'Cancel payout');
  await page.locator('dl').getByText('Failed', { exact: true }).waitFor();
  await service.tool('freeze', 'lift', stop.ID, '--yes', '--reason', 'a test');
  const other = await t.call('POST', '/v1/accounts/shop-1/settle', { amount: '250.00', bankCode: '058', accountNumber: '0123456789', narration: 'Rent' });
  await until('the payout', async () => (await t.call('GET', '/v1/transfers/' + other.merchantTxRef)).status === 'success');
  await service.request('POST', service.bank + '/control/faults', { add: [{ on: 'payout_status', do: 'amount', value: '100.00', match: other.merchantTxRef }] });
  await service.tool('transfers', 'resolve', other.merchantTxRef, '--paid', '--amount', '100.00', '--reason', 'a test', '--yes');
  await go(page, '/transfers/' + other.merchantTxRef);
  await page.locator('dl').getByText('Sum that left').waitFor();
  assert.match(await page.locator('dl').textContent(), /Amount₦250\.00Sum that left₦100\.00/);
  const entries = () => page.getByRole('region', { name: 'Entries' }).locator('th[role=rowheader]').allTextContents();
  assert.equal((await entries()).includes('debit'), true, await entries());
  await go(page, '/transfers/' + merchantTxRef);
  await page.locator('dl').getByText('Failed', { exact: true }).waitFor();
  assert.deepEqual((await entries()).sort(), ['credit, a reversal', 'debit']);

  service.shop.failing = true;
  try {
    await pay(shop.BankAccountNumber, '777.00');
    await until('a dead letter', async () => (await t.call('GET', '/v1/webhooks/dead-letters')).deadLetters.length === 1);
  } finally {
    service.shop.failing = false;
  }
  await go(page, '/deliveries');
  await page.getByRole('link', { name: 'payment.received' }).first().click();
  await page.getByRole('button', { name: 'Send again…' }).waitFor();
  await decided(page, 'Send again');
  await until('the delivery', async () => (await t.call('GET', '/v1/webhooks/dead-letters')).deadLetters.length === 0);

  // while the bank's record is of another sum, it decides nothing
  await service.request('POST', service.bank + '/control/faults', { add: [{ on: 'transactions', do: 'amount', value: '98000.00' }] });
  try {
    await service.tool('recalls', 'open', paid.TransactionGroupID, '--reason', 'a test', '--yes');
    await go(page, '/recalls?status=open');
    await page.getByRole('row', { name: 'Kemi Bello' }).getByRole('button', { name: 'Keep…' }).waitFor();
    await decided(page, 'Keep');
    await page.getByText('No recall.').waitFor();
  } finally {
    await service.request('POST', service.bank + '/control/faults', { clear: true });
  }
  // sums of the float are of a time, and of what explains their difference
  await page.route('**/console/api/read/reconcile-show?*', (route) => route.fulfill({ json: {
    id: paid.TransactionGroupID, kind: 'manual', from: '2026-11-01T00:00:00Z', to: '2026-11-02T00:00:00Z', startedAt: '2026-11-02T00:00:00Z', finishedAt: '2026-11-02T00:00:01Z', young: 0,
    counts: { payout_differs: 1200, missing_event: 1 }, exceptions: [{ kind: 'payout_differs', merchantTxRef: 'AJO1', detail: 'another sum', bankAmount: '5.00', booksAmount: '7.00' }],
    float: { comparable: true, at: '2026-10-31T09:00:00Z', wallet: '5000.00', unexplained: '-0.01', explained: [{ what: 'payout_differs: another sum', ref: 'AJO1', amount: '-150.00' }] },
  } }));
  await go(page, '/reconciliations/' + paid.TransactionGroupID);
  const float = page.getByRole('region', { name: 'The float' });
  await float.getByText('Wallet', { exact: true }).waitFor();
  const shown = (await float.textContent()).replace(/\s+/g, ' ');
  for (const part of ['As of31 Oct 2026, 10:00', 'Wallet₦5,000.00', 'Unexplained-₦0.01', 'payout_differs: another sum', '-₦150.00']) assert.ok(shown.includes(part), `${part}: ${shown}`);
  const exceptions = page.getByRole('region', { name: 'Exceptions' });
  await exceptions.getByText('and 1,200 more').waitFor();
  assert.deepEqual(await exceptions.locator('td.number').allTextContents(), ['₦5.00', '₦7.00']);
  await go(page, '/audit');
  for (const action of ['recalls.keep', 'deliveries.replay', 'transfers.cancel', 'customers.approve', 'events.assign']) {
    await page.getByRole('row', { name: action }).first().getByText('console:ife').waitFor();
  }
  await v.close();
});

test('a closed tenant is not said to get its keys back', async () => {
  const t = await newTenant('Owo Timber');
  await world.service.tool('tenant', 'close', t.email, '--yes', '--reason', 'the contract has ended');
  const v = await desk('sade');
  const { page } = v;
  await go(page, '/tenants?status=closed');
  await page.getByRole('link', { name: 'Owo Timber' }).click();
  await page.getByRole('button', { name: 'Activate…' }).click();
  const dialog = page.getByRole('dialog', { name: 'Activate', exact: true });
  await dialog.getByText('It is opened again, without its keys and accounts.').waitFor();
  assert.equal(await dialog.getByText('keys work again').count(), 0);
  await v.close();
});
