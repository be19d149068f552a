// Who paid, and what became of it.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { accessible, fits, go, phone, picture, settled, tabTo } from './browser.js';
import { until } from './stack.js';
import { entry, newTenant, open, pay, visitAs, world } from './world.js';

const today = () => new Date(Date.now() + 3600000).toISOString().slice(0, 10); // in Lagos

test('who paid 12,000 today is found, with the ids for the bank, and by the way back the list is as it was', async () => {
  const tenant = await newTenant();
  await tenant.listen();
  const one = await open(tenant, 'customer-1', 'Ada Obi');
  const two = await open(tenant, 'customer-2', 'Chidi Eze');
  await pay(one.BankAccountNumber, '5000.00', { sender: 'Amina <i>Bello</i>\u202E' });
  await pay(two.BankAccountNumber, '12000.00', { sender: 'Bola Ade', narration: 'Rent' });
  const paid = await entry(tenant, 'customer-2', 'the payment to be confirmed', (e) => e.Status === 'confirmed');
  await entry(tenant, 'customer-1', 'the other to be confirmed', (e) => e.Status === 'confirmed');
  const v = await visitAs(tenant);
  const { page } = v;
  await page.getByRole('link', { name: 'Payments', exact: true }).click();
  await page.getByText('2 payments', { exact: true }).waitFor();
  await page.getByLabel('Amount', { exact: true }).fill('₦12,000');
  await page.getByLabel('From').fill(today());
  await page.getByText('1 payment', { exact: true }).waitFor();
  const row = page.getByRole('row', { name: 'Bola Ade' });
  const text = (await row.textContent()).replace(/\s+/g, ' ');
  for (const part of [paid.SenderAccount, 'customer-2', 'Chidi Eze', 'Confirmed', '₦12,000.00']) assert.ok(text.includes(part), `${part}: ${text}`);

  const file = page.waitForEvent('download');
  await page.getByRole('link', { name: 'CSV' }).click();
  const csv = await readFile(await (await file).path(), 'utf8');
  assert.ok(csv.includes(paid.ID) && !csv.includes('Amina'), csv);

  await row.getByRole('link').click();
  await page.getByRole('heading', { name: 'Bola Ade', level: 1 }).waitFor();
  const quote = page.getByRole('region', { name: 'To quote to the bank' });
  await quote.getByRole('button', { name: 'Copy bank’s reference' }).click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), paid.ProviderTxnRef);
  await quote.getByText(paid.SessionID).waitFor();
  const timeline = page.getByRole('region', { name: 'Timeline' });
  const happened = await timeline.locator('tbody tr').allTextContents();
  for (const [i, what] of ['Paid', 'Received', 'Posted to the account', 'Webhook', 'Webhook attempt'].entries()) assert.ok(happened[i].includes(what), happened.join('\n'));
  await timeline.getByText('Confirmed', { exact: true }).waitFor();
  await accessible(page, 'a payment');
  await timeline.getByRole('row', { name: 'payment.received' }).getByRole('link').click();
  await page.getByRole('heading', { name: 'payment.received', level: 1 }).waitFor();
  await page.getByRole('link', { name: paid.TransactionGroupID }).click();
  await page.getByRole('heading', { name: 'Bola Ade', level: 1 }).waitFor();
  await page.goBack();
  await page.goBack();
  await page.goBack();
  await page.getByText('1 payment', { exact: true }).waitFor();
  assert.equal(await page.getByLabel('Amount', { exact: true }).inputValue(), '₦12,000');

  await page.getByLabel('Amount', { exact: true }).fill('twelve');
  await page.getByRole('alert').getByText('Amount must be a decimal string above zero').waitFor();
  await page.getByRole('button', { name: 'Clear' }).click();
  await page.getByText('2 payments', { exact: true }).waitFor();
  await page.getByRole('row', { name: 'Amina <i>Bello</i>' }).waitFor();
  assert.doesNotMatch(await page.locator('main').textContent(), /[\u202A-\u202E\u2066-\u2069]/, 'no name turns round what follows it');

  await go(page, '/accounts/' + two.ID);
  await page.getByRole('link', { name: 'Payment', exact: true }).click();
  await page.getByRole('heading', { name: 'Bola Ade', level: 1 }).waitFor();
  await v.close();
});

test('payments are found by keyboard, on a phone too', async () => {
  const tenant = await newTenant();
  const account = await open(tenant, 'customer-1', 'Ada Obi');
  await pay(account.BankAccountNumber, '5000.00', { sender: 'Amina Bello' });
  await entry(tenant, 'customer-1', 'the payment', (e) => e.Direction === 'credit');
  const v = await visitAs(tenant, { viewport: phone });
  const { page } = v;
  await go(page, '/payments');
  await tabTo(page, 'Search');
  await page.keyboard.type('amina');
  await page.getByText('1 payment', { exact: true }).waitFor();
  for (const label of ['Amount', 'From']) await tabTo(page, label);
  await page.getByRole('row', { name: 'Amina Bello' }).getByRole('link').focus();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Amina Bello', level: 1 }).waitFor();
  await settled(page);
  await fits(page, 'a payment on a phone');
  await v.close();
});

test('all dead letters since a day are sent again from the list of deliveries', async () => {
  const { service } = world;
  const tenant = await newTenant();
  await tenant.listen();
  const account = await open(tenant, 'customer-1', 'Ada Obi');
  service.shop.failing = true;
  try {
    for (const amount of ['100.00', '200.00']) await pay(account.BankAccountNumber, amount);
    await until('two dead letters', async () => (await tenant.call('GET', '/v1/webhooks/dead-letters')).deadLetters.length === 2);
  } finally {
    service.shop.failing = false;
  }
  const v = await visitAs(tenant, { viewport: phone });
  const { page } = v;
  await go(page, '/deliveries?status=dead_letter');
  await page.getByText('2 deliveries', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Send dead letters again…' }).click();
  const dialog = page.getByRole('dialog', { name: 'Send dead letters again' });
  await dialog.getByLabel('From this day on').fill(today());
  await accessible(page, 'the dialog of dead letters');
  await fits(page, 'the dialog of dead letters');
  await picture(page, 'dead-letters-again-phone');
  await dialog.getByRole('button', { name: 'Send again' }).click();
  await page.getByText('2 deliveries are being sent again.').waitFor();
  await until('both to arrive', async () => {
    await go(page, '/deliveries?status=delivered');
    return await page.getByText('2 deliveries', { exact: true }).count() === 1 || (await go(page, '/deliveries'), false);
  });

  await page.getByRole('button', { name: 'Send dead letters again…' }).click();
  await dialog.getByLabel('From this day on').fill(today());
  await dialog.getByRole('button', { name: 'Send again' }).click();
  await page.getByText('No dead letter since that day can be sent again.').waitFor(); // there may be some, in the archive or of an endpoint that was removed

  // of what is archived, neither the list nor a payment says that it never was
  const archivedBefore = new Date(Date.now() + 60000).toISOString();
  await page.route('**/auth/deliveries/replay', async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...await response.json(), count: 2, archivedBefore } });
  });
  await page.getByRole('button', { name: 'Send dead letters again…' }).click();
  await dialog.getByLabel('From this day on').fill(today());
  await dialog.getByRole('button', { name: 'Send again' }).click();
  await page.getByText('2 deliveries are being sent again. Those from before').waitFor();
  for (const path of ['**/auth/deliveries?*', '**/auth/payments/*']) {
    await page.route(path, async (route) => {
      const response = await route.fetch();
      const json = await response.json();
      await route.fulfill({ response, json: { ...json, archivedBefore, ...(json.deliveries ? { deliveries: [] } : { timeline: json.timeline.filter((s) => s.step === 'paid') }) } });
    });
  }
  await go(page, '/deliveries');
  await page.getByText('No deliveries match.').waitFor();
  await page.getByText('may be archived').first().waitFor();
  await go(page, '/payments/' + (await entry(tenant, 'customer-1', 'a payment', () => true)).ID);
  await page.getByRole('region', { name: 'Timeline' }).getByText('may be archived').waitFor();
  await v.close();
});

test('what was paid to an older one-time account leads to that one, and not to a newer one of its reference', async () => {
  const tenant = await newTenant();
  await tenant.listen();
  const first = await open(tenant, 'order-1', 'Ada Obi', { mode: 'onetime', expectedAmount: 7500.5 });
  await pay(first.BankAccountNumber, '7500.50', { sender: 'Tunde Bello' });
  const paid = await entry(tenant, first.ID, 'the payment to be confirmed', (e) => e.Status === 'confirmed');
  const { merchantTxRef } = await tenant.call('POST', `/v1/accounts/${first.ID}/settle`, { amount: '1000.00', bankCode: '058', accountNumber: '0123456789' });
  const second = await open(tenant, 'order-1', 'Ada Obi', { mode: 'onetime', expectedAmount: 100 });
  assert.notEqual(second.ID, first.ID);
  const v = await visitAs(tenant);
  const { page } = v;
  for (const from of ['/payments/' + paid.ID, '/transfers/' + merchantTxRef]) {
    await go(page, from);
    await page.getByRole('link', { name: 'order-1', exact: true }).click();
    await page.getByText(first.BankAccountNumber, { exact: true }).waitFor();
    assert.equal(await page.evaluate(() => location.hash), '#/accounts/' + first.ID);
  }
  await v.close();
});

test('a customer’s page leads to all accounts of the customer', async () => {
  const tenant = await newTenant();
  const first = await open(tenant, 'order-1', 'Ada Obi', { mode: 'onetime', expectedAmount: 7500.5 });
  const second = await open(tenant, 'order-1', 'Ada Obi', { mode: 'onetime', expectedAmount: 100 });
  const v = await visitAs(tenant);
  const { page } = v;
  await go(page, '/customers/' + first.CustomerID);
  await page.getByRole('link', { name: 'Statements and balances' }).click();
  for (const a of [first, second]) await page.getByText(a.BankAccountNumber, { exact: true }).waitFor();
  await page.getByRole('row', { name: first.BankAccountNumber }).getByRole('link', { name: 'order-1' }).click();
  await page.getByRole('region', { name: 'Account details' }).getByText(first.BankAccountNumber, { exact: true }).waitFor();
  await v.close();
});

test('a payment that its account’s policy holds is not shown as money that payouts can use', async () => {
  const tenant = await newTenant();
  const account = await open(tenant, 'customer-1', 'Ada Obi', { expectedAmount: 5000, policy: { over: 'hold' } });
  await pay(account.BankAccountNumber, '6000.00', { sender: 'Tunde Bello' });
  const paid = await entry(tenant, 'customer-1', 'the payment to be confirmed', (e) => e.Status === 'confirmed');
  const v = await visitAs(tenant);
  await go(v.page, '/payments/' + paid.ID);
  await v.page.getByText(/^In the balance, and confirmed[.] ₦5,[0-9]{3}[.][0-9]{2} of it is held, and covers no payout[.] /).waitFor();
  await v.close();
});

test('a payment that is reversed as it counts with another sum says where to look for that, and the other one what it is', async () => {
  const { service } = world;
  const tenant = await newTenant();
  const account = await open(tenant, 'customer-1', 'Ada Obi');
  await service.request('POST', service.bank + '/control/faults', { add: [{ on: 'transactions', do: 'amount', value: '1950.00' }] });
  let first;
  try {
    await pay(account.BankAccountNumber, '2000.00');
    first = await entry(tenant, 'customer-1', 'the payment to be under review', (e) => e.Status === 'needs_review');
    await service.tool('review', 'correct', first.TransactionGroupID, '--amount', '1950.00', '--fee', '10.00', '--reason', 'a test', '--yes');
  } finally {
    await service.request('POST', service.bank + '/control/faults', { clear: true });
  }
  const v = await visitAs(tenant);
  const { page } = v;
  await go(page, '/payments/' + first.ID);
  await page.getByText('If it turns out to be valid, or of another amount, it appears as a separate payment with the same bank reference.').waitFor();
  await accessible(page, 'a reversed payment');
  await page.getByRole('link', { name: 'Payments with this reference' }).click();
  await page.getByRole('row', { name: '₦1,950.00' }).getByText('Confirmed').waitFor();
  await page.getByRole('row', { name: '₦2,000.00' }).getByText('Reversed').waitFor();
  await page.getByRole('row', { name: '₦1,950.00' }).getByRole('link').first().click();
  await page.getByText('In the balance, and confirmed.').waitFor();
  await page.getByRole('row', { name: 'Received' }).getByText('In place of one with the same bank’s reference, which was reversed').waitFor();
  await v.close();
});

test('a list that a reference narrows says that it is of one account, as several may have the reference', async () => {
  const tenant = await newTenant();
  await tenant.listen();
  const first = await open(tenant, 'order-1', 'Ada Obi', { mode: 'onetime', expectedAmount: 7500.5 });
  await pay(first.BankAccountNumber, '7500.50', { sender: 'Tunde Bello' });
  await entry(tenant, first.ID, 'the payment to be confirmed', (e) => e.Status === 'confirmed');
  await open(tenant, 'order-1', 'Ada Obi', { mode: 'onetime', expectedAmount: 100 });
  const v = await visitAs(tenant);
  const { page } = v;
  const only = page.getByText('A reference that several accounts have names the open or the newest one: enter the ID of another.');
  for (const [list, nothing, row] of [['payments', 'No payments match.', 'Tunde Bello'], ['deliveries', 'No deliveries match.', 'payment.received']]) {
    await go(page, `/${list}?accountRef=order-1`); // the second one's, which was not paid
    await page.getByText(nothing).waitFor();
    await only.waitFor();
    await go(page, `/${list}?accountRef=${first.ID}`);
    await page.getByRole('row', { name: row }).waitFor();
    await only.waitFor();
    assert.equal(await only.getByRole('link').getAttribute('href'), '#/accounts/' + first.ID);
    await accessible(page, `${list} of one account`);
    await page.getByLabel('Account', { exact: true }).fill(''); // the same rows
    await only.waitFor({ state: 'detached' });
    await page.getByRole('row', { name: row }).waitFor();
  }
  await v.close();
});
