// The search of everything: its box on every page, by keyboard and on a phone, and what it finds.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { go, looked, looks, settled } from './browser.js';
import { entry, newTenant, open, pay, visitAs } from './world.js';

test('anything is found by its number, reference, name or amount', async () => {
  const t = await newTenant();
  const shop = await open(t, 'customer-1', 'Ada Obi');
  await open(t, 'customer-2', 'Chidi Eze');
  await pay(shop.BankAccountNumber, '12000.00', { sender: 'Amina Bello' });
  await entry(t, 'customer-1', 'a payment to be confirmed', (e) => e.Status === 'confirmed');
  const { payments: [paid] } = await t.call('GET', '/v1/payments');
  for (const [look, options] of Object.entries(looks)) {
    const v = await visitAs(t, options);
    const { page } = v;
    const box = page.getByRole('searchbox', { name: 'Search everything' });
    await go(page, '/settings');
    await page.keyboard.press('/');
    assert.equal(await page.evaluate(() => document.activeElement.id), 'seek', 'a key leads to the box');
    await page.keyboard.type('₦12,000');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Search: ₦12,000' }).waitFor();
    await settled(page);
    assert.equal(await box.inputValue(), '₦12,000');
    await page.getByRole('region', { name: 'Payments' }).getByText('1 payment', { exact: true }).waitFor();
    await page.getByRole('rowheader').getByRole('link').click();
    await page.getByRole('heading', { name: paid.senderName, level: 1 }).waitFor();
    await page.goBack();
    await page.getByRole('heading', { name: 'Search: ₦12,000' }).waitFor();
    for (const [text, name] of [['ada obi', 'Accounts'], ['CUSTOMER-2', 'Customers'], [shop.BankAccountNumber, 'Accounts'], [paid.sessionId, 'Payments'], [paid.providerTxnRef, 'Payments'], ['amina', 'Payments']]) {
      await box.fill(text);
      await box.press('Enter');
      await page.getByRole('heading', { name: `Search: ${text}` }).waitFor();
      await page.getByRole('region', { name, exact: true }).getByRole('row').nth(1).waitFor();
    }
    await box.fill('a');
    await box.press('Enter');
    assert.match(page.url(), /q=amina/, 'one letter is not searched for');
    await box.fill('customer');
    await box.press('Enter');
    await page.getByRole('region', { name: 'Accounts' }).getByText('2 accounts', { exact: true }).waitFor();
    await looked(page, 'search', look);
    await box.fill('<nobody>');
    await box.press('Enter');
    await page.getByText('Nothing was found.').waitFor();
    await go(page, '/payments');
    await page.getByLabel('Amount').press('/');
    assert.equal(await page.getByLabel('Amount').inputValue(), '/', 'in a field it is a character');
    await v.close();
  }
});

test('a search says where there may be more', async () => {
  const v = await visitAs(await newTenant());
  const { page } = v;
  await page.route('**/auth/search?*', async (route) => {
    const answer = await route.fetch();
    return route.fulfill({ response: answer, json: { ...await answer.json(), more: ['payments', 'transfers'] } });
  });
  await go(page, '/search?q=bello');
  await page.getByText('Only the newest 10,000 of each list were searched.').waitFor();
  await page.getByRole('link', { name: 'payments', exact: true }).click();
  await page.getByRole('heading', { name: 'Payments', level: 1 }).waitFor();
  assert.equal(await page.getByRole('searchbox', { name: 'Search', exact: true }).inputValue(), 'bello');
  for (const [name, heading, text, sum] of [['payments', 'Payments', '₦12,000', '12000'], ['transfers', 'Transfers', '₦12,000', '12000'], ['transfers', 'Transfers', '1250000.50', '1250000.50']]) { // a sum goes on as one
    await go(page, '/search?q=' + encodeURIComponent(text));
    await page.getByText('Only the newest 10,000 of each list were searched.').waitFor();
    const asked = page.waitForRequest(new RegExp(`/auth/${name}\\?(.*&)?amount=${sum}(&|$)`));
    await page.getByRole('link', { name, exact: true }).click();
    await page.getByRole('heading', { name: heading, level: 1 }).waitFor();
    assert.equal(await page.getByLabel('Amount').inputValue(), text);
    await asked;
  }
  await v.close();
});
