// What people do in the dashboard, from end to end.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { inflateSync } from 'node:zlib';
import { accessible, go, picture, reloadedWithGo, settled, visitor } from './browser.js';
import { until } from './stack.js';
import { entry, newTenant, open, pay, visit, visitAs, world } from './world.js';

const heading = (page) => page.locator('h1');

test('from nothing to the first payment seen', async () => {
  const { service } = world;
  const v = await visit();
  const { page } = v;
  assert.equal(await heading(page).textContent(), 'Log in');
  assert.equal(await page.locator('.note').count(), 0, 'who has never been here had no session that could end');
  await page.getByRole('link', { name: 'Sign up' }).click();
  await page.getByLabel('Business name').fill('Ngozi & <b>Sons</b>');
  await page.getByLabel('E-mail').fill('ngozi@shop.example');
  await page.getByLabel('Password').fill('correct horse');
  await page.getByRole('button', { name: 'Sign up' }).click();

  const code = await service.code('ngozi@shop.example');
  await page.getByLabel('Code').fill(code === '000000' ? '111111' : '000000');
  await page.getByRole('button', { name: 'Verify' }).click();
  assert.equal(await page.getByRole('alert').textContent(), 'Invalid or expired code.');
  await page.getByLabel('Code').fill(code);
  await page.getByRole('button', { name: 'Verify' }).click();

  const key = await page.locator('.secret').textContent();
  assert.match(key, /^ajo_[0-9A-Za-z]{49}$/);
  await accessible(page, 'the first key');
  await picture(page, 'first-key-light');
  await page.getByRole('button', { name: 'Copy API key' }).click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), key);
  await page.getByRole('button', { name: 'I have stored it: continue' }).click();

  await page.getByRole('heading', { name: 'Ngozi & <b>Sons</b>', level: 1 }).waitFor(); // data is text
  await page.getByRole('heading', { name: 'Your first payment' }).waitFor();
  assert.equal(await page.evaluate(() => JSON.stringify([localStorage, sessionStorage]).includes('ajo_')), false, 'no key is kept');

  const tenant = { call: (method, path, body) => service.request(method, path, body, { 'X-API-Key': key }) };
  const account = await open(tenant, 'customer-1', 'Ada Obi');
  await page.getByText('Anyone can now transfer').waitFor(); // it looks again by itself
  await pay(account.BankAccountNumber, '1250000.50');
  await page.locator('.tile', { hasText: 'Balance' }).getByText('₦1,249,950.50').waitFor();
  await page.getByRole('heading', { name: 'Your first payment' }).waitFor({ state: 'detached' });

  await page.getByRole('link', { name: 'Accounts', exact: true }).click();
  await page.getByRole('link', { name: 'customer-1' }).click();
  const line = page.getByRole('row', { name: 'School fees' });
  await line.waitFor();
  await entry(tenant, 'customer-1', 'the payment to be confirmed', (e) => e.Status === 'confirmed');
  await page.route('**/auth/accounts/**', (route) => route.abort());
  await page.getByRole('button', { name: 'Refresh' }).click();
  await page.getByRole('alert').first().waitFor();
  await settled(page);
  assert.equal(await page.getByText('Refreshed.').count(), 0, 'what failed is not said to be done');
  await page.unroute('**/auth/accounts/**');
  await page.getByRole('button', { name: 'Refresh' }).click();
  await page.getByText('Refreshed.').waitFor();
  await line.getByText('Confirmed').waitFor();
  await line.getByText('Bola Ade').waitFor();
  assert.match((await line.textContent()).replace(/\s+/g, ' '), /₦50\.00.*₦1,249,950\.50.*₦1,249,950\.50/);
  await v.close();
});

test('a session that has ended leads to the login and back to where one was', async () => {
  const tenant = await newTenant();
  const v = await visitAs(tenant);
  const { page } = v;
  await go(page, '/customers?search=Ada');
  await v.context.clearCookies();
  await page.getByRole('button', { name: 'Refresh' }).click();
  await page.getByText('Your session has ended.').waitFor();
  await page.getByLabel('E-mail').fill(tenant.email);
  await page.getByLabel('Password').fill('not the password');
  await page.getByRole('button', { name: 'Log in' }).click();
  assert.equal(await page.getByRole('alert').textContent(), 'Invalid credentials.');
  await page.getByLabel('Password').fill(tenant.password);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.waitForURL('**/dashboard#/customers?search=Ada');
  assert.equal(await page.getByLabel('Search', { exact: true }).inputValue(), 'Ada');
  await page.getByRole('button', { name: 'Log out' }).click();
  await page.waitForURL('**/dashboard#/login');
  assert.deepEqual((await v.context.cookies()).filter((c) => c.value), []);
  await v.close();
});

test('an address that is opened while the page still starts is where one arrives', async () => {
  const tenant = await newTenant();
  const v = await visitAs(tenant);
  const { page } = v;
  await reloadedWithGo(page, '**/auth/me', '/transfers');
  await page.getByRole('heading', { name: 'Transfers', level: 1 }).waitFor();
  assert.equal(await page.evaluate(() => location.hash), '#/transfers');
  await v.close();
});

test('a suspended tenant is told so, and can leave', async () => {
  const tenant = await newTenant();
  const v = await visitAs(tenant);
  const { page } = v;
  await world.service.tool('tenant', 'suspend', tenant.email, '--reason', 'a test', '--yes');
  await page.getByRole('button', { name: 'Refresh' }).click();
  await page.getByRole('alert').getByText('Tenant is suspended.').waitFor();
  await page.reload();
  await page.getByRole('alert').getByText('Tenant is suspended.').waitFor();
  await page.getByRole('button', { name: 'Log out' }).click();
  await page.getByLabel('Password').waitFor();
  await v.close();
});

test('a one-time link opens a session, once, and its token leaves the address', async () => {
  const tenant = await newTenant('Ada Stores');
  const link = new URL((await world.service.tool('tenant', 'login-link', tenant.email, '--reason', 'a test', '--url', world.service.url)).match(/http\S+/)[0]);
  const v = await visitor(world.browser, world.service.url);
  const { page } = v;
  await page.goto('/dashboard/' + link.hash);
  await page.waitForURL('**/dashboard/#/');
  await settled(page);
  assert.equal(await heading(page).textContent(), 'Ada Stores');
  await v.close();

  const again = await visit();
  await again.page.goto('/dashboard/' + link.hash); // in a page that is open already
  await again.page.getByText('This sign-in link is no longer valid').waitFor();
  assert.equal(again.page.url().includes('link='), false);
  await again.close();
});

test('the key is rotated, shown once, and the old one is dead', async () => {
  const tenant = await newTenant();
  const v = await visitAs(tenant);
  const { page } = v;
  await go(page, '/settings');
  await page.getByRole('button', { name: 'Rotate key…' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
  await tenant.call('GET', '/v1/accounts');
  await page.getByRole('button', { name: 'Rotate key…' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Rotate key' }).click();
  const shown = page.getByRole('dialog', { name: 'Your new API key' });
  const key = await shown.locator('.secret').textContent();
  for (let i = 0; i < 3; i++) await page.keyboard.press('Escape');
  assert.ok(await shown.isVisible(), 'a key that cannot be read again is not lost by a slip, nor by several');
  await assert.rejects(tenant.call('GET', '/v1/accounts'), /401/);
  await world.service.request('GET', '/v1/accounts', undefined, { 'X-API-Key': key });
  await shown.getByRole('button', { name: 'I have stored it' }).click();
  await page.getByText('…' + key.slice(-4)).waitFor();
  assert.equal(await page.evaluate((k) => document.documentElement.outerHTML.includes(k), key), false);

  const { keys } = await (await v.context.request.get('/auth/keys')).json();
  await v.context.request.post(`/auth/keys/${keys.find((k) => k.main).id}/revoke`);
  await page.reload();
  await page.getByText('There is no main key.').waitFor();
  await page.getByRole('button', { name: 'Create a main key…' }).click();
  await page.getByRole('dialog', { name: 'Create a main key?' }).getByRole('button', { name: 'Create a main key' }).click();
  const first = await shown.locator('.secret').textContent();
  await shown.getByRole('button', { name: 'I have stored it' }).click();
  await page.getByText('…' + first.slice(-4)).waitFor();
  assert.equal(await page.getByText('There is no main key.').count(), 0);
  await v.close();
});

test('a KYC that waits is approved, and another rejected', async () => {
  const tenant = await newTenant();
  for (const [ref, name] of [['customer-1', 'Ada Obi'], ['customer-2', 'Bayo Ojo']]) {
    const { CustomerID } = await open(tenant, ref, name, { bvn: '22222222222' });
    await tenant.call('POST', `/v1/customers/${CustomerID}/kyc`, { nin: '12345678901' });
  }
  const v = await visitAs(tenant);
  const { page } = v;
  for (const [name, verb, outcome, tier] of [['Ada Obi', 'Approve', 'Approved', 'Tier 2'], ['Bayo Ojo', 'Reject', 'Rejected', 'Tier 1']]) {
    await go(page, '/customers?kycStatus=pending_review');
    await page.getByRole('link', { name }).click();
    await page.getByRole('button', { name: verb }).click();
    await page.getByRole('dialog').getByRole('button', { name: verb }).click();
    await page.getByText(`KYC for ${name} ${outcome.toLowerCase()}.`).waitFor();
    const kyc = page.getByRole('region', { name: 'KYC' });
    await kyc.getByText(outcome, { exact: true }).waitFor();
    await kyc.getByText(tier).waitFor();
    assert.equal(await page.getByRole('button', { name: verb }).count(), 0);
  }
  await go(page, '/customers?kycStatus=pending_review');
  await page.getByText('No customers match.').waitFor();
  await v.close();
});

test('a KYC that has changed since it was shown is not decided', async () => {
  const tenant = await newTenant();
  const { CustomerID } = await open(tenant, 'customer-1', 'Ada Obi', { bvn: '22222222222' });
  await tenant.call('POST', `/v1/customers/${CustomerID}/kyc`, { nin: '12345678901' });
  const v = await visitAs(tenant);
  const { page } = v;
  await go(page, '/customers/' + CustomerID);
  const approve = page.getByRole('button', { name: 'Approve' });
  await approve.waitFor();
  await tenant.call('PATCH', '/v1/customers/' + CustomerID, { name: 'Ada Bello' });
  await approve.click();
  await page.getByRole('dialog').getByRole('button', { name: 'Approve' }).click();
  await page.getByText('The customer has changed since it was shown: look at it again').waitFor();
  assert.equal((await tenant.call('GET', '/v1/customers/' + CustomerID)).KYCStatus, 'pending_review');
  await v.close();
});

test('a dead letter is read and sent again', async () => {
  const { shop } = world.service;
  const tenant = await newTenant();
  await tenant.listen();
  const account = await open(tenant, 'customer-1', 'Ada Obi');
  shop.failing = true;
  try {
    await pay(account.BankAccountNumber, '5000.00');
    await until('a dead letter', async () => (await tenant.call('GET', '/v1/webhooks/dead-letters')).deadLetters.length === 1);
  } finally {
    shop.failing = false;
  }
  const v = await visitAs(tenant);
  const { page } = v;
  await go(page, '/deliveries');
  await page.getByLabel('Status').selectOption('dead_letter');
  await page.waitForURL('**status=dead_letter');
  await page.getByRole('link', { name: 'payment.received' }).click();
  await page.getByText('Attempt 6').waitFor();
  assert.equal(await page.getByText('the shop is <b>closed</b> & dark').count(), 6, 'answers are text');
  await page.getByText('"amount": "4975.00"').waitFor();
  const before = shop.received.length;
  await page.getByRole('button', { name: 'Send again' }).click();
  await until('the delivery to arrive', () => shop.received.length > before);
  await until('the page to show it', async () => {
    await page.getByRole('button', { name: 'Refresh' }).click();
    await settled(page);
    return page.getByRole('region', { name: 'Result' }).getByText('Delivered', { exact: true }).first().isVisible();
  });
  assert.equal(await page.getByRole('button', { name: 'Send again' }).count(), 0);
  await v.close();
});

test('webhooks are set up: URL, secret, events, a test event', async () => {
  const { shop } = world.service;
  const tenant = await newTenant();
  const v = await visitAs(tenant);
  const { page } = v;
  await go(page, '/settings');
  await page.getByRole('button', { name: 'Send a test event' }).click();
  await page.getByRole('alert').getByText('Url is required').waitFor();
  await page.getByLabel('Webhook URL').fill(shop.url);
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await page.getByText(/Webhook URL saved\..* But production refuses this address: url must begin with https/).waitFor();
  await page.getByRole('button', { name: 'Show signing secret' }).click();
  assert.match(await page.locator('.secret').first().textContent(), /^[0-9a-f]{64}$/);
  await page.getByRole('button', { name: 'Hide' }).click();
  assert.equal(await page.locator('.secret').count(), 0);

  assert.ok(await page.getByLabel('payment.received').isDisabled());
  await page.getByLabel('settlement.failed').check();
  await page.getByRole('button', { name: 'Save events' }).click();
  await page.getByText('Events saved.').waitFor();

  const before = shop.received.length;
  await page.getByRole('button', { name: 'Send a test event' }).click();
  await page.getByText('HTTP 200').waitFor();
  await page.getByText('thank you').waitFor();
  const { headers, body } = shop.received[before];
  assert.equal(JSON.parse(body).eventType, 'test');
  assert.equal(await page.locator('.result .secret').textContent(), headers['x-service-signature']);
  await page.getByLabel('Business type').selectOption('ngo');
  await page.getByRole('button', { name: 'Submit' }).click();
  await page.getByText('Your business is verified.').waitFor();
  await page.reload();
  await settled(page);
  assert.equal(await page.getByLabel('Webhook URL').inputValue(), shop.url);
  assert.ok(await page.getByLabel('settlement.failed').isChecked());
  assert.ok(await page.getByText('There is nothing left to do.').isVisible());
  await v.close();
});

test('a transfer says where it went, what the bank took, and why it failed', async () => {
  const tenant = await newTenant();
  const account = await open(tenant, 'customer-1', 'Ada Obi');
  await open(tenant, 'platform', 'Chidi Eze');
  await tenant.call('PATCH', '/v1/accounts/customer-1', { split: { shares: [{ accountRef: 'platform', percent: '10' }] } });
  await pay(account.BankAccountNumber, '5000.00');
  await entry(tenant, 'customer-1', 'the payment to be shared out', (e) => e.Kind === 'split');
  const settle = (body) => tenant.call('POST', '/v1/accounts/customer-1/settle', { amount: '1000.00', bankCode: '058', accountNumber: '0123456789', narration: 'Rent', ...body });
  const ended = (ref, status) => until(`the transfer to be ${status}`, async () => {
    const t = await tenant.call('GET', '/v1/transfers/' + ref);
    return t.status === status && t;
  });
  const paid = await ended((await settle({})).merchantTxRef, 'success');
  await world.service.request('POST', world.service.bank + '/control/faults', { on: 'payouts', do: 'reject', next: '1' });
  const failed = await ended((await settle({ amount: '2000.00' })).merchantTxRef, 'failed');
  const v = await visitAs(tenant);
  for (const t of [paid, failed]) {
    await go(v.page, '/transfers/' + t.merchantTxRef);
    const facts = await v.page.getByRole('region', { name: 'Transfer details' }).textContent();
    for (const text of ['Rent', t.accountNumber, t.accountName, t.bankName, t.failureReason]) assert.ok(!text || facts.includes(text), `${text}: ${facts}`);
    assert.equal(facts.includes('Failure reason'), t === failed);
    assert.equal(facts.includes('Bank fee'), t.providerFee !== undefined && t.providerFee !== null);
  }
  assert.ok(failed.failureReason && paid.accountName && paid.bankName && paid.providerFee, JSON.stringify([paid, failed]));

  await world.service.request('POST', world.service.bank + '/control/faults', { add: [{ on: 'payout_status', do: 'amount', value: '400.00', match: paid.merchantTxRef }] });
  await world.service.tool('transfers', 'resolve', paid.merchantTxRef, '--paid', '--amount', '400.00', '--reason', 'a test', '--yes');
  await go(v.page, '/transfers/' + paid.merchantTxRef);
  const details = v.page.getByRole('region', { name: 'Transfer details' });
  await details.getByText('₦400.00', { exact: true }).waitFor();
  assert.match(await details.textContent(), /Ordered₦1,000\.00/);
  await go(v.page, '/transfers');
  const row = v.page.getByRole('row', { name: paid.merchantTxRef });
  await row.getByText('₦400.00', { exact: true }).waitFor();
  await row.getByText('of ₦1,000.00', { exact: true }).waitFor();
  for (const sum of ['400', '1,000']) { // what left, as the list shows it, and what was ordered
    await v.page.getByRole('textbox', { name: 'Amount' }).fill(sum);
    await v.page.getByText('1 transfer', { exact: true }).waitFor();
    await row.waitFor();
  }

  await v.page.route('**/auth/transfers/' + paid.merchantTxRef, async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...await response.json(), differs: true } });
  });
  await go(v.page, '/transfers/' + paid.merchantTxRef);
  await details.getByText('Paid. But the bank’s record says otherwise, and the service’s operators look into it.', { exact: true }).waitFor();
  assert.equal(await details.getByRole('link', { name: 'Receipt (PDF)' }).count(), 0, 'it would be refused');
  await v.page.unrouteAll();

  // The bank never paid it, as an operator finds.
  await world.service.request('POST', world.service.bank + '/control/faults', { clear: true });
  await world.service.request('POST', world.service.bank + '/control/faults', { add: [{ on: 'payout_status', do: 'amount', value: '500.00', match: paid.merchantTxRef }] });
  await world.service.tool('transfers', 'resolve', paid.merchantTxRef, '--not-paid', '--reason', 'a test', '--yes');
  await go(v.page, '/transfers');
  await go(v.page, '/transfers/' + paid.merchantTxRef);
  await details.getByText('The money is back in the account.', { exact: true }).waitFor();
  assert.match(await details.textContent(), /Failure reasonthe bank did not pay the transfer/);
  assert.equal(await details.getByText('Bank fee').count(), 0);

  await go(v.page, '/accounts/' + account.ID);
  const lines = v.page.getByRole('region', { name: 'Statement' }).locator('tbody tr');
  await lines.filter({ hasText: 'Split · Split of payment' }).waitFor();
  assert.equal(await lines.filter({ hasText: 'Payment · ' }).count(), 1, 'a share that is passed on is no payment');
  await v.close();
});

test('a statement is filtered and exported', async () => {
  const tenant = await newTenant();
  const account = await open(tenant, 'customer-1', '=Ada Obi');
  await pay(account.BankAccountNumber, '5000.00', { narration: '=HYPERLINK("x")' });
  await entry(tenant, 'customer-1', 'the payment to be confirmed', (e) => e.Status === 'confirmed');
  await tenant.call('POST', '/v1/accounts/customer-1/settle', { amount: '1000.00', bankCode: '058', accountNumber: '0123456789', narration: 'Rent' });
  await entry(tenant, 'customer-1', 'the payout to be confirmed', (e) => e.Direction === 'debit' && e.Status === 'confirmed');
  await tenant.call('POST', '/v1/accounts/customer-1/holds', { amount: '500.00', reason: 'A deposit' });
  const v = await visitAs(tenant);
  const { page } = v;
  await go(page, '/accounts/' + account.ID);
  const details = page.getByRole('region', { name: 'Account details' });
  for (const sum of ['₦3,975.00', '₦3,475.00', '₦500.00']) await details.getByText(sum, { exact: true }).waitFor(); // balance, available, held
  assert.equal(await page.getByRole('region', { name: 'Statement' }).locator('tbody tr').count(), 2);
  const saved = async (name) => {
    const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name }).click()]);
    assert.match(file.suggestedFilename(), new RegExp(`\\.${name.toLowerCase()}$`));
    return readFile(await file.path());
  };
  const csv = (await saved('CSV')).toString();
  assert.match(csv, /4975\.00/);
  assert.match(csv, /1000\.00/);
  assert.doesNotMatch(csv, /(^|,|")=/m, 'no cell is a formula');
  const pdf = textOf(await saved('PDF'));
  for (const text of ['4,975.00', '1,000.00']) assert.ok(pdf.includes(text) || pdf.includes(text.replace(',', '')), `${text} is not in the PDF: ${pdf.slice(0, 2000)}`);

  const first = page.getByRole('region', { name: 'Statement' }).locator('tbody tr').first();
  assert.match(await first.textContent(), /Payout/, 'the newest line is the first');
  await page.getByLabel('Order').selectOption('asc');
  await page.waitForURL('**order=asc');
  await settled(page);
  assert.match(await first.textContent(), /Payment · Bola Ade/);
  await page.getByRole('link', { name: '← Accounts' }).waitFor();
  await go(page, '/transfers?search=' + encodeURIComponent('customer'));
  await page.getByText('1 transfer', { exact: true }).waitFor();
  await page.getByLabel('Search', { exact: true }).fill('nothing of it');
  await page.getByText('No transfers match.').waitFor();
  await page.getByLabel('Search', { exact: true }).fill('456789');
  await page.getByText('1 transfer', { exact: true }).waitFor();
  await go(page, '/accounts/' + account.ID);

  await page.getByLabel('Direction').selectOption('debit');
  await page.waitForURL('**direction=debit');
  await settled(page);
  assert.equal(await page.getByRole('region', { name: 'Statement' }).locator('tbody tr').count(), 1);
  const debits = (await saved('CSV')).toString();
  assert.match(debits, /1000\.00/);
  assert.doesNotMatch(debits, /4975\.00/);
  await v.close();
});

// textOf is what a PDF shows: the strings of its pages' streams, which are UTF-16.
function textOf(pdf) {
  assert.equal(pdf.subarray(0, 5).toString(), '%PDF-');
  const raw = pdf.toString('latin1');
  const shown = [];
  for (const m of raw.matchAll(/<<[^>]*>>\s*stream\r?\n/g)) {
    const from = m.index + m[0].length;
    const stream = pdf.subarray(from, raw.indexOf('endstream', from));
    if (m[0].includes('/Length1')) continue; // a font
    const text = (m[0].includes('FlateDecode') ? inflateSync(stream) : stream).toString('latin1');
    for (const [, string] of text.matchAll(/\(((?:[^\\()]|\\[\s\S])*)\) ?Tj/g)) {
      const bytes = Buffer.from(string.replaceAll('\\r', '\r').replace(/\\([\\()])/g, '$1'), 'latin1');
      shown.push(bytes.length % 2 ? bytes.toString('latin1') : bytes.swap16().toString('utf16le'));
    }
  }
  return shown.join('\n');
}

test('lists are searched and read on, and going back leads to the same place', async () => {
  const tenant = await newTenant();
  for (let i = 1; i <= 52; i++) await open(tenant, `customer-${i}`, i === 7 ? 'Chidi Eze' : 'Ada Obi');
  const v = await visitAs(tenant);
  const { page } = v;
  await go(page, '/accounts');
  assert.equal(await page.locator('tbody tr').count(), 50);
  await page.getByText('The first 50 of 52 accounts', { exact: true }).waitFor();
  await page.getByRole('row', { name: 'customer-52' }).getByText('₦0.00').waitFor();
  await page.getByRole('button', { name: 'Show more' }).click();
  await page.getByText('52 accounts', { exact: true }).waitFor();
  await page.locator('tbody tr').nth(51).waitFor();
  assert.equal(await page.locator('tbody tr').count(), 52);
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'customer-2', 'the focus goes on with the list');
  const seen = () => page.evaluate(() => Math.round(scrollY));
  await page.getByRole('link', { name: 'customer-1', exact: true }).scrollIntoViewIfNeeded();
  const place = await seen();
  assert.ok(place > 500, `the end of the list is far down, at ${place}`);
  await page.getByRole('link', { name: 'customer-1', exact: true }).click();
  await page.getByRole('heading', { name: 'Statement' }).waitFor();
  await settled(page);
  assert.equal(await seen(), 0, 'a page begins at its top');
  await page.goBack();
  await page.getByText('52 accounts', { exact: true }).waitFor();
  await until('the place in the list', async () => await seen() === place);
  await page.getByRole('link', { name: 'Accounts', exact: true }).click();
  await page.getByRole('link', { name: 'Overview' }).click();
  await page.getByRole('link', { name: 'Accounts', exact: true }).click();
  await page.getByText('The first 50 of 52 accounts', { exact: true }).waitFor();
  assert.equal(await seen(), 0, 'a link begins anew');
  await page.getByLabel('Search', { exact: true }).fill('chidi');
  await page.waitForURL('**search=chidi');
  await page.getByText('1 account', { exact: true }).waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.name), 'search', 'typing is not interrupted');
  await page.getByRole('link', { name: 'customer-7' }).click();
  await settled(page);
  await page.goBack();
  await settled(page);
  assert.equal(await page.getByLabel('Search', { exact: true }).inputValue(), 'chidi');
  await page.getByLabel('Search', { exact: true }).fill('nobody');
  await page.getByText('No accounts match.').waitFor();

  await go(page, '/settings'); // left by a button of the mouse, without a click or a key
  await page.evaluate(() => new Promise((done) => {
    scrollTo(0, 300);
    requestAnimationFrame(() => requestAnimationFrame(done));
  }));
  await page.goBack();
  await page.getByText('No accounts match.').waitFor();
  await page.goForward();
  await until('the place in the settings', async () => await seen() === 300);
  await v.close();
});
