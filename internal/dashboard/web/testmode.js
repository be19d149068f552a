// Test mode: the switch, a payment with and without a fault, a payout, and that none of it is in the live mode.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { go, looked, looks, putAway, said, settled } from './browser.js';
import { joined, newTenant, open, visitAs } from './world.js';
import { until } from './stack.js';
import { world } from './world.js';

// on turns test mode on by its switch, as the keyboard does.
async function on(page, look) {
  if (look === 'phone') await page.getByRole('button', { name: 'Menu' }).click();
  await Promise.all([page.waitForEvent('load'), page.getByRole('switch', { name: 'Test mode' }).press('Space')]);
  await page.getByRole('note', { name: 'Test mode' }).waitFor();
  await settled(page);
}

for (const [look, options] of Object.entries(looks)) {
  test(`in test mode an account is paid and pays out, and the live mode knows nothing of it, in ${look}`, async () => {
    const tenant = await newTenant();
    await open(tenant, 'live-1', 'Ada Obi');
    const v = await visitAs(tenant, options);
    const { page } = v;
    await on(page, look);
    await looked(page, 'testmode-overview', look);

    await go(page, '/keys/new');
    await page.getByLabel('Name', { exact: true }).fill('tests');
    for (const scope of ['accounts:read', 'accounts:write', 'payments:read']) await page.getByRole('checkbox', { name: scope }).check();
    await page.getByRole('button', { name: 'Create key' }).click();
    const key = await putAway(page, 'Your new API key', 'API key');
    assert.match(key, /^ajo_test_[0-9A-Za-z]{49}$/);
    const call = (method, path, body) => world.service.request(method, path, body, { 'X-API-Key': key });
    const account = await call('POST', '/v1/accounts', { externalRef: 'customer-1', name: 'Ada Obi' });

    await go(page, '/accounts');
    assert.equal(await page.getByRole('link', { name: 'live-1' }).count(), 0);
    await page.getByRole('link', { name: 'customer-1' }).click();
    const form = page.getByRole('region', { name: 'Receive a test payment' });
    await form.getByLabel('Sender').fill('Bola Ade');
    await settled(page);
    await looked(page, 'testmode-account', look);
    await form.getByRole('button', { name: 'Receive payment' }).click();
    await said(page, '₦5,000.00 was paid.');
    const status = async (amount) => (await call('GET', '/v1/payments')).payments.find((p) => p.grossAmount === amount)?.status;
    await until('the payment to be confirmed', async () => await status('5000.00') === 'confirmed');
    await form.getByLabel('Amount (₦)').fill('700');
    await form.getByLabel('What goes wrong').selectOption('The bank’s record has another amount');
    await form.getByRole('button', { name: 'Receive payment' }).click();
    await said(page, '₦700.00 was paid.');
    await until('the other one to need a review', async () => await status('700.00') === 'needs_review');
    await page.getByRole('button', { name: 'Refresh' }).click();
    await page.getByRole('table').getByText('Confirmed', { exact: true }).first().waitFor();
    await settled(page);
    await looked(page, 'testmode-paid', look);

    await page.getByRole('link', { name: 'Pay out' }).click();
    const to = page.getByRole('region', { name: 'To', exact: true });
    await to.getByLabel('Bank', { exact: true }).selectOption('Guaranty Trust Bank');
    await to.getByLabel('Account number').fill('0123456789');
    await to.getByLabel('Amount (₦)').fill('1,000');
    await to.getByRole('button', { name: 'Review…' }).click();
    const dialog = page.getByRole('dialog');
    assert.equal(await dialog.getByLabel('Your password').count(), 0, 'no money leaves');
    await dialog.getByRole('button', { name: 'Pay ₦1,000.00' }).click();
    await page.getByRole('region', { name: 'Transfer details' }).waitFor();
    await until('the payout to succeed', async () => (await call('GET', `/v1/accounts/${account.ID}/balance`)).balance === '3975.00');

    await page.reload();
    await page.getByRole('note', { name: 'Test mode' }).waitFor();
    await settled(page);
    await Promise.all([page.waitForEvent('load'), page.getByRole('button', { name: 'Leave test mode' }).click()]);
    await settled(page);
    assert.equal(await page.getByRole('note', { name: 'Test mode' }).count(), 0);
    await go(page, '/accounts');
    await page.getByRole('link', { name: 'live-1' }).waitFor();
    assert.equal(await page.getByRole('link', { name: 'customer-1' }).count(), 0);
    assert.deepEqual((await tenant.call('GET', '/v1/payments')).payments, []);
    await v.close();
  });
}

test('test mode is the tab\'s, ends with the session, and gives no form to viewers', async () => {
  const tenant = await newTenant();
  const v = await visitAs(await joined(tenant, 'viewer'));
  await on(v.page);
  const other = await v.context.newPage();
  await other.goto('/dashboard');
  await settled(other);
  assert.equal(await other.getByRole('note', { name: 'Test mode' }).count(), 0);
  for (const [page, stopped] of [[v.page, true], [other, false]]) { // the wheel's button on a file's link: its tab would have no mode
    await go(page, '/payments');
    const link = page.getByRole('link', { name: 'CSV' });
    assert.equal(await link.evaluate((a) => !a.dispatchEvent(new MouseEvent('auxclick', { button: 1, bubbles: true, cancelable: true }))), stopped);
  }
  await v.page.getByRole('button', { name: 'Log out' }).click();
  await v.page.getByRole('heading', { name: 'Log in' }).waitFor();
  assert.equal(await v.page.evaluate(() => sessionStorage.getItem('ajo-mode')), null);
  await v.close();
});

test('test mode does not say that the business itself is verified', async () => {
  const v = await visitAs(await newTenant());
  await on(v.page);
  await go(v.page, '/settings');
  const kyc = v.page.getByRole('region', { name: 'Business KYC' });
  await kyc.waitFor();
  await settled(v.page);
  assert.equal(await kyc.getByText('There is nothing left to do.').count(), 0);
  await kyc.getByText('In test mode every business counts as verified.').waitFor();
  await v.close();
});
