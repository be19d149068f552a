// What of the money stands still, and why.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, go, said, settled } from './browser.js';
import { until } from './stack.js';
import { entry, newTenant, open, pay, visitAs, world } from './world.js';

test('an account says what is held of it: by holds, and for payments that the bank may have taken back', async () => {
  const { service } = world;
  const tenant = await newTenant();
  const account = await open(tenant, 'customer-1', 'Ada Obi');
  const v = await visitAs(tenant);
  const { page } = v;
  await go(page, '/accounts/' + account.ID);
  const held = page.getByRole('region', { name: 'Held', exact: true });
  assert.equal(await held.count(), 0);

  await pay(account.BankAccountNumber, '5000.00', { sender: 'Chidi <b>Eze</b>' });
  const paid = await entry(tenant, 'customer-1', 'the payment to be confirmed', (e) => e.Status === 'confirmed');
  await pay(account.BankAccountNumber, '2000.00');
  await entry(tenant, 'customer-1', 'the other payment to be confirmed', (e) => e.Status === 'confirmed' && e.Amount !== paid.Amount);
  const { id } = await tenant.call('POST', '/v1/accounts/customer-1/holds', { amount: '500.00', reason: 'A deposit' });
  // while the bank's record is of another sum, it decides nothing
  await service.request('POST', service.bank + '/control/faults', { add: [{ on: 'transactions', do: 'amount', value: '98000.00' }] });
  try {
    await service.tool('recalls', 'open', paid.TransactionGroupID, '--reason', 'a test', '--yes');
    await page.getByRole('button', { name: 'Refresh' }).click();
    const recall = held.getByRole('row', { name: 'The bank may have taken back a payment' });
    await recall.waitFor();
    const text = await recall.textContent();
    for (const part of ['Chidi <b>Eze</b>', paid.ProviderTxnRef, '₦' + Number(paid.Amount).toLocaleString('en', { minimumFractionDigits: 2 })]) assert.ok(text.includes(part), `${part}: ${text}`);
    await held.getByRole('row', { name: 'A deposit' }).getByText('₦500.00').waitFor();
    assert.equal(await held.locator('tbody tr').count(), 2);
    await accessible(page, 'what is held');
    await go(page, '/payments/' + paid.ID);
    await page.getByText('In the balance, but on hold: the bank may have taken it back. We are checking.').waitFor();
    assert.equal(await page.getByRole('link', { name: 'Receipt (PDF)' }).count(), 0);
    await go(page, '/accounts/' + account.ID);
  } finally {
    await service.request('POST', service.bank + '/control/faults', { clear: true });
  }
  await service.tool('recalls', 'keep', paid.TransactionGroupID, '--reason', 'a test', '--yes').catch(() => {}); // or the bank's record has decided
  await tenant.call('POST', `/v1/holds/${id}/release`);
  await page.getByRole('button', { name: 'Refresh' }).click();
  await held.waitFor({ state: 'detached' });
  await v.close();
});

test('what both a recall and a hold keep of a payment is counted once, and a release does not say that it may leave', async () => {
  const { service } = world;
  const tenant = await newTenant();
  const account = await open(tenant, 'customer-1', 'Ada Obi', { expectedAmount: 5000, policy: { under: 'hold' } });
  await pay(account.BankAccountNumber, '4000.00', { sender: 'Chidi Eze' });
  const paid = await entry(tenant, 'customer-1', 'the payment to be confirmed', (e) => e.Status === 'confirmed');
  await service.request('POST', service.bank + '/control/faults', { add: [{ on: 'transactions', do: 'amount', value: '98000.00' }] });
  try {
    await service.tool('recalls', 'open', paid.TransactionGroupID, '--reason', 'a test', '--yes');
    const v = await visitAs(tenant);
    const { page } = v;
    await go(page, '/accounts/' + account.ID);
    const held = page.getByRole('region', { name: 'Held', exact: true });
    const recall = held.getByRole('row', { name: 'The bank may have taken back a payment' });
    await recall.getByText('₦3,990.00').waitFor();
    await held.getByRole('row').getByText('in the sum of the payment', { exact: true }).waitFor();
    assert.equal(await held.locator('tbody tr').count(), 2);
    assert.equal(await held.locator('tbody').getByText('₦3,990.00', { exact: true }).count(), 1, 'the sums are those of the balance');
    await accessible(page, 'what is held twice');
    await page.getByRole('button', { name: 'Release ₦3,990.00' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('This hold ends. Payouts can use the money unless the bank has not confirmed it yet or may have taken it back, or a limit holds it.').waitFor();
    await dialog.getByRole('button', { name: 'Release' }).click();
    await said(page, 'The hold of ₦3,990.00 is released.');
    assert.equal(await held.locator('tbody tr').count(), 1);
    await recall.getByText('₦3,990.00').waitFor();
    assert.equal((await tenant.call('GET', '/v1/accounts/customer-1/balance')).available, '0.00');
    await v.close();
  } finally {
    await service.request('POST', service.bank + '/control/faults', { clear: true });
  }
});

test('what is under review is not shown as held of the balance', async () => {
  const { service } = world;
  const tenant = await newTenant();
  const account = await open(tenant, 'customer-1', 'Ada Obi');
  await service.request('POST', service.bank + '/control/faults', { add: [{ on: 'transactions', do: 'amount', value: '98000.00' }] });
  try {
    await pay(account.BankAccountNumber, '5000.00');
    await entry(tenant, 'customer-1', 'the payment to be under review', (e) => e.Status === 'needs_review');
  } finally {
    await service.request('POST', service.bank + '/control/faults', { clear: true });
  }
  const v = await visitAs(tenant);
  for (const [path, place] of [['/accounts/', 'Account details'], ['/payout?account=', 'From']]) {
    await go(v.page, path + account.ID);
    await v.page.getByRole('region', { name: place, exact: true }).getByText('Held or under review', { exact: true }).waitFor();
  }
  await v.close();
});

test('the overview counts payments under review in plain words', async () => {
  const tenant = await newTenant();
  const v = await visitAs(tenant);
  const { page } = v;
  let count = 0;
  await page.route('**/auth/overview', async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: { ...await response.json(), needsReview: { count, amount: `${count}000.00` } } });
  });
  const tile = page.locator('.tile', { hasText: 'Needs review' });
  for (const [n, text] of [
    [1, '1 payment could not be verified, and is not in the balance'],
    [3, '3 payments could not be verified, and are not in the balance'],
    [1234, '1,234 payments could not be verified, and are not in the balance'],
  ]) {
    count = n;
    await page.getByRole('button', { name: 'Refresh' }).click();
    await tile.getByText(text, { exact: true }).waitFor();
    assert.equal(await tile.getAttribute('href'), '#/accounts?status=needs_review');
  }
  await settled(page);
  await v.close();
});

test('the overview says that a payment could not go back to its sender, and leads to it', async () => {
  const tenant = await newTenant();
  const account = await open(tenant, 'customer-1', 'Ada Obi', { expectedAmount: 5000, policy: { under: 'refund' } });
  await pay(account.BankAccountNumber, '4000.00', { senderAccount: '-' });
  const v = await visitAs(tenant);
  const { page } = v;
  const tile = page.getByRole('link', { name: 'Not refunded' });
  await until('the refund to be declined', async () => {
    await page.getByRole('button', { name: 'Refresh' }).click();
    await settled(page);
    return await tile.count() === 1;
  });
  assert.match(await tile.textContent(), /₦3,990\.00.*1 payment could not go back to its sender\. It is held until you release or refund it/);
  await accessible(page, 'the overview of what was not refunded');
  await tile.click();
  await page.getByText('In the balance, and confirmed. ₦3,990.00 of it is held').waitFor();
  await v.close();
});

test('a payout that waits while payouts are stopped is not said to leave as soon as it is covered', async () => {
  const { service } = world;
  const tenant = await newTenant();
  const account = await open(tenant, 'customer-1', 'Ada Obi');
  await pay(account.BankAccountNumber, '5000.00');
  await entry(tenant, 'customer-1', 'the payment to be confirmed', (e) => e.Status === 'confirmed');
  await service.tool('freeze', 'tenant', tenant.email, '--yes', '--reason', 'a test');
  const { merchantTxRef } = await tenant.call('POST', '/v1/accounts/customer-1/settle', { amount: '1000.00', bankCode: '058', accountNumber: '0123456789', narration: 'Rent' });
  const v = await visitAs(tenant);
  await go(v.page, '/transfers/' + merchantTxRef);
  await v.page.getByText('It is submitted once confirmed funds cover it, unless payouts are stopped.').waitFor();
  await v.close();
});

test('an answer that comes late does not put older sums over newer ones', async () => {
  const tenant = await newTenant();
  const account = await open(tenant, 'customer-1', 'Ada Obi');
  const v = await visitAs(tenant);
  const { page } = v;
  await go(page, '/accounts/' + account.ID);
  const statement = page.getByRole('region', { name: 'Statement' });
  let answer;
  const late = new Promise((done) => { answer = done; });
  await page.route('**/statement?*', async (route) => {
    const response = await route.fetch();
    await late;
    await route.fulfill({ response });
  }, { times: 1 });
  const [asked] = await Promise.all([page.waitForRequest('**/statement?*'), page.getByRole('button', { name: 'Refresh' }).click()]);
  await pay(account.BankAccountNumber, '5000.00');
  const paid = await entry(tenant, 'customer-1', 'the payment', (e) => e.Direction === 'credit');
  await page.getByLabel('Direction').selectOption('credit');
  const sum = statement.locator('dl').getByText('₦' + Number(paid.Amount).toLocaleString('en', { minimumFractionDigits: 2 })).first();
  await sum.waitFor();
  answer();
  await (await asked.response()).finished();
  await page.getByText('Refreshed.').waitFor();
  assert.equal(await sum.count(), 1);
  await v.close();
});

test('a payment that an operator takes from the wrong account is not said to be taken back by the bank', async () => {
  const { service } = world;
  const tenant = await newTenant();
  const account = await open(tenant, 'customer-1', 'Ada Obi');
  await pay(account.BankAccountNumber, '5000.00');
  const paid = await entry(tenant, 'customer-1', 'the payment to be confirmed', (e) => e.Status === 'confirmed');
  for (const name of ['open', 'reverse']) await service.tool('recalls', name, paid.TransactionGroupID, '--reason', 'posted to the wrong account', '--yes');
  const v = await visitAs(tenant);
  await go(v.page, '/payments/' + paid.ID);
  await v.page.getByRole('region', { name: 'Timeline' }).getByText('It was taken back', { exact: true }).waitFor();
  await v.page.getByText('or it was taken back.').waitFor();
  assert.equal(await v.page.getByText(/the bank took it back/i).count(), 0);
  await v.close();
});

test('what a split passed on of a payment is not said to be in the balance', async () => {
  const { service } = world;
  const tenant = await newTenant();
  const account = await open(tenant, 'customer-1', 'Ada Obi');
  await open(tenant, 'platform', 'Chidi Eze');
  await tenant.call('PATCH', '/v1/accounts/customer-1', { split: { shares: [{ accountRef: 'platform', percent: '10' }] } });
  await pay(account.BankAccountNumber, '5000.00');
  const part = await entry(tenant, 'customer-1', 'the payment to be shared out', (e) => e.Kind === 'split');
  const paid = await entry(tenant, 'customer-1', 'the payment', (e) => e.Direction === 'credit');
  const passed = `₦${part.Amount} of it was passed on to other accounts by the split, and is `;
  const v = await visitAs(tenant);
  const { page } = v;
  await go(page, '/payments/' + paid.ID);
  await page.getByText(`Confirmed. ${passed}not in this balance.`, { exact: true }).waitFor();
  await service.request('POST', service.bank + '/control/faults', { add: [{ on: 'transactions', do: 'amount', value: '98000.00' }] });
  try {
    await service.tool('recalls', 'open', paid.TransactionGroupID, '--reason', 'a test', '--yes');
    await page.getByRole('button', { name: 'Refresh' }).click();
    await page.getByText(`On hold: the bank may have taken it back. We are checking. ${passed}held there, as far as it is left.`, { exact: true }).waitFor();
  } finally {
    await service.request('POST', service.bank + '/control/faults', { clear: true });
  }
  await v.close();
});
