// Webhook endpoints beside the webhook URL, as a developer adds and changes them.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { go, looked, looks, putAway, said, tabTo } from './browser.js';
import { joined, newTenant, open, visitAs } from './world.js';

const hook = 'https://books.example/ajo/hook';

// stored puts the secret away that a dialog shows once.
async function stored(page, title) {
  const secret = await putAway(page, title, 'Signing secret');
  assert.match(secret, /^[0-9a-f]{64}$/);
  return secret;
}

for (const [look, options] of Object.entries(looks)) {
  test(`an endpoint is added, changed, paused, given a new secret and removed, in ${look}`, async () => {
    const tenant = await newTenant();
    for (const ref of ['customer-1', 'customer-9']) await open(tenant, ref, 'Ada Obi');
    const v = await visitAs(await joined(tenant, 'developer'), options);
    const { page } = v;
    await go(page, '/settings');
    await page.getByRole('link', { name: 'Webhook endpoints' }).click();
    await page.getByText('No additional endpoints.').waitFor();
    await page.getByRole('link', { name: 'Add an endpoint' }).click();
    await page.getByLabel('URL').fill(hook);
    for (const box of await page.getByRole('checkbox').all()) await box.uncheck();
    await page.getByRole('button', { name: 'Add endpoint' }).click();
    await page.getByRole('alert').waitFor();
    assert.equal((await tenant.call('GET', '/auth/webhook-endpoints')).endpoints.length, 0, 'an endpoint without events is refused');
    await page.getByLabel('payment.received').check();
    await page.getByLabel('settlement.failed').check();
    await page.getByLabel('Accounts').fill('customer-1\n customer-9 \n');
    await looked(page, 'endpoint-new', look);
    await page.getByRole('button', { name: 'Add endpoint' }).click();
    const first = await stored(page, 'The signing secret');
    const row = page.getByRole('row', { name: hook });
    for (const text of ['Active', 'payment.received', 'settlement.failed', 'customer-1', 'customer-9', '95 minutes']) await row.getByText(text, { exact: true }).waitFor();
    await looked(page, 'endpoints', look);

    await row.getByRole('link', { name: `Change ${hook}` }).click();
    assert.equal(await page.getByLabel('payment.confirmed').isChecked(), false);
    assert.equal(await page.getByLabel('Accounts').inputValue(), 'customer-1\ncustomer-9');
    await page.getByLabel('Accounts').fill('');
    await page.getByLabel('Retries').selectOption('day');
    await page.getByRole('button', { name: 'Save' }).click();
    for (const text of ['All', '24 hours']) await row.getByText(text, { exact: true }).waitFor();

    await row.getByRole('button', { name: `Pause ${hook}` }).click();
    await said(page, 'wait until you resume it');
    await row.getByText('Paused', { exact: true }).waitFor();
    await row.getByRole('button', { name: `Resume ${hook}` }).click();
    await row.getByText('Active', { exact: true }).waitFor();

    await row.getByRole('button', { name: /^New secret…/ }).click();
    await looked(page, 'endpoint-secret', look);
    await page.getByRole('dialog').getByRole('button', { name: 'Make a new secret' }).click();
    assert.notEqual(await stored(page, 'The new signing secret'), first);

    await row.getByRole('button', { name: /^New secret…/ }).click(); // again: what the receiver has goes on signing
    await page.getByRole('dialog').getByText('The older one signs until then.').waitFor();
    await page.getByRole('dialog').getByRole('button', { name: 'Make a new secret' }).click();
    assert.notEqual(await stored(page, 'The new signing secret'), first);

    await row.getByRole('button', { name: /^Remove…/ }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click();
    await page.getByText('No additional endpoints.').waitFor();
    await v.close();

    const owner = await visitAs(tenant, options);
    await go(owner.page, '/audit');
    for (const name of ['Webhook endpoint added', 'Webhook endpoint removed', 'Webhook endpoint’s secret changed']) await owner.page.getByRole('row', { name }).first().waitFor();
    await owner.close();
  });
}

test('a viewer reads the endpoints, and changes none', async () => {
  const tenant = await newTenant();
  await tenant.call('POST', '/auth/webhook-endpoints', { url: hook, events: ['payment.received'] });
  const v = await visitAs(await joined(tenant, 'viewer'));
  await go(v.page, '/endpoints');
  await v.page.getByRole('row', { name: hook }).getByText('payment.received').waitFor();
  assert.equal(await v.page.locator('td button, td a').count() + await v.page.getByRole('link', { name: 'Add an endpoint' }).count(), 0);
  await v.close();
});

test('an endpoint is added and paused by keyboard alone', async () => {
  const v = await visitAs(await newTenant());
  const { page } = v;
  await go(page, '/endpoints/new');
  await tabTo(page, 'URL');
  await page.keyboard.type(hook);
  await page.keyboard.press('Enter');
  await page.getByRole('dialog', { name: 'The signing secret' }).waitFor();
  await tabTo(page, 'I have stored it');
  await page.keyboard.press('Enter');
  await page.getByRole('row', { name: hook }).waitFor();
  await tabTo(page, `Pause ${hook}`);
  await page.keyboard.press('Enter');
  await page.getByRole('row', { name: hook }).getByText('Paused', { exact: true }).waitFor();
  await v.close();
});
