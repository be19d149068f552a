// What a person does without a program: opens an account, submits a NIN, sends an event once more, keeps the log of events.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { go, looked, looks, said, settled } from './browser.js';
import { until } from './stack.js';
import { entry, joined, newTenant, pay, visitAs, world } from './world.js';

test('an account is opened, its holder’s NIN submitted, and an event of it sent once more', async () => {
  const t = await newTenant();
  await t.listen();
  const v = await visitAs(t);
  const { page } = v;
  await go(page, '/accounts');
  await page.getByRole('button', { name: 'Open an account…' }).click();
  const dialog = page.getByRole('dialog', { name: 'Open an account' });
  await dialog.getByLabel('Reference').fill('walk-in-1');
  await dialog.getByLabel('Holder’s name').fill('Ada Obi');
  await dialog.getByLabel('Type').selectOption('onetime');
  await dialog.getByLabel('Expected amount').fill('₦90,071,992,547,409.93'); // a float has .94
  await dialog.getByRole('button', { name: 'Open', exact: true }).click();
  await page.getByRole('heading', { name: 'walk-in-1', level: 1 }).waitFor();
  await page.getByText('₦90,071,992,547,409.93').waitFor();
  const account = await t.call('GET', '/v1/accounts/walk-in-1');
  assert.equal(account.Type, 'onetime');
  await page.getByRole('link', { name: 'Name and KYC' }).click();
  await page.getByLabel('NIN', { exact: true }).fill('12345678901');
  await page.getByRole('button', { name: 'Submit NIN' }).click();
  await said(page, 'The NIN waits for a review.'); // no identity service is there
  await page.getByRole('button', { name: 'Approve' }).waitFor();
  const reviewed = async (route) => { // as in production, where the service would refuse it
    const answer = await route.fetch();
    return route.fulfill({ response: answer, json: { ...await answer.json(), reviewsKYC: false } });
  };
  await page.route('**/auth/member', reviewed);
  await page.reload();
  await page.getByText('An operator of the service decides.').waitFor();
  assert.equal(await page.getByRole('button', { name: 'Approve' }).count(), 0);
  await page.unroute('**/auth/member', reviewed);
  await page.reload();
  await page.getByRole('button', { name: 'Approve' }).waitFor();
  assert.equal(await page.evaluate(() => document.documentElement.outerHTML.includes('12345678901')), false, 'the number is gone from the page');

  await pay(account.BankAccountNumber, '7500.50');
  await entry(t, 'walk-in-1', 'the payment', (e) => e.Status === 'confirmed');
  const sent = () => world.service.shop.received.filter((r) => r.body.includes('walk-in-1'));
  await until('the webhook', () => sent().length === 1);
  await go(page, '/deliveries');
  await page.getByRole('link', { name: 'payment.received' }).click();
  await page.getByText('Delivered', { exact: true }).first().waitFor();
  await page.getByRole('button', { name: 'Send the event once more…' }).click();
  await page.getByRole('dialog').getByText('goes to the account’s own URL, or your webhook URL, as it is now').waitFor(); // which may not be where this one went
  await page.getByRole('dialog').getByRole('button', { name: 'Send', exact: true }).click();
  await said(page, 'The event is being sent once more.');
  await until('it again', () => sent().length === 2);
  assert.equal(sent()[1].headers['x-ajo-resent'], 'true');
  await page.getByRole('region', { name: 'Result' }).getByText('Delivered', { exact: true }).first().waitFor(); // by itself

  await go(page, '/settings');
  await page.getByLabel('Keep every event').check();
  await page.getByRole('button', { name: 'Save events' }).click();
  await said(page, 'Events saved.');
  await page.reload();
  await settled(page);
  assert.equal(await page.getByLabel('Keep every event').isChecked(), true);
  await go(page, '/audit');
  for (const action of ['Account opened', 'NIN submitted', 'Log of events changed']) await page.getByRole('row', { name: action }).first().waitFor();
  await v.close();

  const viewer = await visitAs(await joined(t, 'viewer'));
  await go(viewer.page, '/accounts');
  await viewer.page.getByText('walk-in-1').waitFor();
  assert.equal(await viewer.page.getByRole('button', { name: 'Open an account…' }).count(), 0);
  await viewer.close();

  for (const [look, options] of Object.entries(looks)) {
    const w = await visitAs(t, options);
    await go(w.page, '/accounts');
    await looked(w.page, 'accounts-statements', look);
    await w.page.getByRole('button', { name: 'Open an account…' }).click();
    await w.page.getByRole('dialog').waitFor();
    await looked(w.page, 'open-account', look);
    await w.close();
  }
});

test('what a program has set since the dashboard was loaded is what the dashboard shows', async () => {
  const t = await newTenant();
  const v = await visitAs(t);
  const { page } = v;
  await page.locator('.steps li:not(.done)').getByText('Set a webhook URL').waitFor();
  await t.listen();
  await page.locator('.steps li.done').getByText('Set a webhook URL').waitFor(); // by itself
  await go(page, '/settings');
  assert.equal(await page.getByLabel('Webhook URL').inputValue(), world.service.shop.url);
  const { apiKey } = await (await v.context.request.post('/auth/rotate-key')).json(); // in another tab
  for (const path of ['/api', '/settings']) {
    await go(page, path);
    await page.getByText('…' + apiKey.slice(-4)).waitFor();
  }
  await v.close();
});

test('a reference that has an account already opens no other one, and the page says whose it is', async () => {
  const t = await newTenant();
  const account = await t.call('POST', '/v1/accounts', { externalRef: 'walk-in-2', name: 'Ada Obi' });
  const v = await visitAs(t);
  const { page } = v;
  await go(page, '/accounts');
  await page.getByRole('button', { name: 'Open an account…' }).click();
  const dialog = page.getByRole('dialog', { name: 'Open an account' });
  await dialog.getByLabel('Reference').fill('walk-in-2');
  await dialog.getByLabel('Holder’s name').fill('Bola Ade');
  await dialog.getByRole('button', { name: 'Open', exact: true }).click();
  await said(page, 'Nothing was opened: walk-in-2 has this account already, for Ada Obi.');
  await page.waitForFunction((id) => location.hash === '#/accounts/' + id, account.ID);
  await go(page, '/accounts');
  await page.getByRole('button', { name: 'Open an account…' }).click();
  await dialog.getByLabel('Reference').fill('walk-in-3');
  await dialog.getByLabel('Holder’s name').fill('Bola Ade');
  await dialog.getByRole('button', { name: 'Open', exact: true }).click();
  await said(page, `${(await until('the account', () => t.call('GET', '/v1/accounts/walk-in-3').catch(() => null))).BankAccountNumber} is open.`);
  await v.close();
});
