// Paying out from the dashboard, as finance does it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { go, looked, looks, said, settled, tabTo } from './browser.js';
import { until } from './stack.js';
import { totp } from './totp.js';
import { entry, joined, newTenant, open, pay, visitAs, world } from './world.js';

// funded is a tenant with confirmed money on an account; has is how a page shows it.
async function funded() {
  const tenant = await newTenant();
  tenant.account = await open(tenant, 'customer-1', 'Ada Obi');
  await pay(tenant.account.BankAccountNumber, '5000.00');
  const paid = await entry(tenant, 'customer-1', 'the payment to be confirmed', (e) => e.Status === 'confirmed');
  tenant.has = '₦' + Number(paid.Amount).toLocaleString('en', { minimumFractionDigits: 2 });
  tenant.transfers = async () => (await tenant.call('GET', '/v1/transfers')).transfers;
  return tenant;
}

async function fill(page, { amount = '1,000', number = '0123456789', narration = 'Rent' } = {}) {
  const form = page.getByRole('region', { name: 'To', exact: true });
  await form.getByLabel('Bank', { exact: true }).selectOption('Guaranty Trust Bank');
  await form.getByLabel('Account number').fill(number);
  await form.getByLabel('Amount (₦)').fill(amount);
  await form.getByLabel('Narration').fill(narration);
  await form.getByRole('button', { name: 'Review…' }).click();
}

for (const [look, options] of Object.entries(looks)) {
  test(`finance pays out: the name and all of it in words, the password, and the end, in ${look}`, async () => {
    const tenant = await funded();
    const finance = await joined(tenant, 'finance');
    const v = await visitAs(finance, options);
    const { page } = v;
    const dialog = page.getByRole('dialog');
    await go(page, '/transfers');
    await page.getByRole('link', { name: 'Pay out' }).click();
    await page.getByText('From which account?').waitFor();
    await settled(page);
    await looked(page, 'payout-from', look);
    await page.getByRole('link', { name: 'customer-1' }).click();
    await page.getByRole('region', { name: 'From', exact: true }).getByText(tenant.has).first().waitFor();
    await settled(page);
    await looked(page, 'payout', look);
    assert.equal(await page.locator('#nav [aria-current]').textContent(), 'Transfers');
    await fill(page, { number: '0001234567' });
    await page.getByRole('alert').getByText('Destination account not found.').waitFor();
    await fill(page);
    await dialog.getByText('₦1,000.00 leaves customer-1 and goes to AMINA BELLO, account 0123456789 at Guaranty Trust Bank, with the narration “Rent”.').waitFor();
    await looked(page, 'payout-confirm', look);
    await dialog.getByLabel('Your password').fill('wrong horse battery');
    await dialog.getByRole('button', { name: 'Pay ₦1,000.00' }).click();
    await dialog.getByRole('alert').getByText('Password is wrong.').waitFor();
    assert.deepEqual(await tenant.transfers(), [], 'nothing has moved');
    await looked(page, 'payout-refused', look);
    await dialog.getByLabel('Your password').fill(finance.password);
    await dialog.getByRole('button', { name: 'Pay ₦1,000.00' }).click();
    await dialog.waitFor({ state: 'detached' });
    const details = page.getByRole('region', { name: 'Transfer details' });
    await details.getByText('Success').waitFor(); // without a reload
    await settled(page);
    await looked(page, 'payout-done', look);
    const [t, ...others] = await tenant.transfers();
    assert.deepEqual([t.status, t.amount, t.accountNumber, t.narration, others], ['success', '1000.00', '0123456789', 'Rent', []]);
    await v.close();

    const owner = await visitAs(tenant, options);
    await go(owner.page, '/audit?action=transfer.settle');
    await owner.page.getByText('1 line', { exact: true }).waitFor();
    await owner.close();
  });
}

test('a payout to a beneficiary waits for approval, and its maker has no say', async () => {
  const tenant = await funded();
  await tenant.call('POST', '/v1/beneficiaries', { bankCode: '058', accountNumber: '0123456789', label: 'Landlord' });
  const owner = await visitAs(tenant);
  await owner.context.request.post('/auth/payout-policy', { data: { approvals: 1, threshold: '1.00', password: tenant.password } });
  const finance = await joined(tenant, 'finance');
  const v = await visitAs(finance);
  const { page } = v;
  await go(page, '/beneficiaries');
  await page.getByRole('link', { name: 'Pay out to Landlord' }).click();
  await page.getByRole('link', { name: 'customer-1' }).click();
  const form = page.getByRole('region', { name: 'To', exact: true });
  await form.getByLabel('Amount (₦)').fill('250.5');
  assert.equal(await form.getByLabel('Account number').isVisible(), false, 'a beneficiary has its number');
  await form.getByRole('button', { name: 'Review…' }).click();
  await page.getByRole('dialog').getByText('₦250.50 leaves customer-1 and goes to AMINA BELLO, account 0123456789 at Guaranty Trust Bank.').waitFor();
  await page.getByRole('dialog').getByLabel('Your password').fill(finance.password);
  await page.getByRole('dialog').getByRole('button', { name: 'Pay ₦250.50' }).click();
  await said(page, 'The payout waits for approval.');
  await page.getByText('You asked for this transfer: another member decides.').waitFor();
  const [{ merchantTxRef }] = await tenant.transfers();
  await owner.context.request.post(`/auth/transfers/${merchantTxRef}/approve`);
  await until('the transfer to be paid', async () => (await tenant.transfers())[0].status === 'success');
  await owner.close();
  await v.close();
});

test('two clicks, a lost answer, a page loaded anew and a second try are one payout', async () => {
  const tenant = await funded();
  const v = await visitAs(tenant);
  const { page } = v;
  const dialog = page.getByRole('dialog');
  await go(page, '/payout?account=' + tenant.account.ID);
  const keys = [];
  await page.route('**/settle', async (route) => {
    keys.push(route.request().headers()['idempotency-key']);
    if (keys.length > 3) return route.continue();
    const answer = await route.fetch(); // it is accepted, and nobody hears of it: nothing arrives, or only a part of it
    if (keys.length === 1) return route.abort();
    return route.fulfill({ response: answer, body: keys.length === 2 ? '' : (await answer.text()).slice(0, 20) });
  });
  for (let n = 1; n <= 3; n++) {
    await fill(page);
    await dialog.getByLabel('Your password').fill(tenant.password);
    await dialog.getByRole('button', { name: 'Pay ₦1,000.00' }).dblclick();
    await dialog.getByRole('alert').getByText('We do not know whether this was accepted.').waitFor();
    await page.reload(); // which forgets all but its key
    await settled(page);
  }
  await fill(page);
  await dialog.getByLabel('Your password').fill(tenant.password);
  await dialog.getByRole('button', { name: 'Pay ₦1,000.00' }).dblclick();
  await said(page, 'This payout was already accepted; it was not made again.');
  assert.equal(new Set(keys).size, 1, 'one key for all of them');
  assert.equal((await tenant.transfers()).length, 1);

  await go(page, '/payout?account=' + tenant.account.ID);
  await fill(page); // the same once more, after its end is known, is another
  await dialog.getByLabel('Your password').fill(tenant.password);
  await dialog.getByRole('button', { name: 'Pay ₦1,000.00' }).click();
  await said(page, 'The payout was accepted.');
  assert.equal(new Set(keys).size, 2);
  assert.equal((await tenant.transfers()).length, 2);
  await v.close();
});

test('a session that has ended, a hold in between, and a viewer: no payout', async () => {
  const tenant = await funded();
  const v = await visitAs(tenant);
  const { page } = v;
  const dialog = page.getByRole('dialog');
  await go(page, '/payout?account=' + tenant.account.ID);
  await fill(page, { amount: '4,000' });
  await tenant.call('POST', '/v1/accounts/customer-1/holds', { amount: '2000.00', reason: 'A dispute' });
  await dialog.getByLabel('Your password').fill(tenant.password);
  await dialog.getByRole('button', { name: 'Pay ₦4,000.00' }).click();
  await dialog.getByRole('alert').getByText('Insufficient funds.').waitFor();
  await v.context.clearCookies();
  await dialog.getByRole('button', { name: 'Pay ₦4,000.00' }).click();
  await page.waitForFunction(() => location.hash.startsWith('#/login'));
  assert.equal(await dialog.count(), 0);
  const viewer = await visitAs(await joined(tenant, 'viewer', 'A viewer'));
  await go(viewer.page, '/transfers');
  assert.equal(await viewer.page.getByRole('link', { name: 'Pay out' }).count(), 0);
  await go(viewer.page, '/payout');
  await viewer.page.getByText('Only the owner and members with the role finance can pay out.').waitFor();
  assert.deepEqual(await tenant.transfers(), []);
  await viewer.close();
  await v.close();
});

test('with a second factor a code is asked for, by keyboard alone', async () => {
  const tenant = await funded();
  const v = await visitAs(tenant);
  const { page } = v;
  const set = await (await v.context.request.post('/auth/totp', { data: { password: tenant.password } })).json();
  const { recoveryCodes } = await (await v.context.request.post('/auth/totp/confirm', { data: { code: totp(set.secret) } })).json();
  await page.reload();
  await go(page, '/payout?account=' + tenant.account.ID);
  await tabTo(page, 'Bank');
  await page.keyboard.type('Guaranty');
  await page.keyboard.press('Tab');
  await page.keyboard.type('0123456789');
  await page.keyboard.press('Tab');
  await page.keyboard.type('1000');
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').getByText('AMINA BELLO').first().waitFor();
  assert.equal(await page.getByRole('dialog').getByLabel('Your password').count(), 0);
  await tabTo(page, 'Code');
  await page.keyboard.type(recoveryCodes[0]);
  await page.keyboard.press('Enter');
  await said(page, 'The payout was accepted.');
  assert.equal((await tenant.transfers()).length, 1);
  await v.close();
});

test('a request that the browser repeats by itself, with a code that the first has used up, is one payout', async () => {
  const tenant = await funded();
  const v = await visitAs(tenant);
  const { page } = v;
  const dialog = page.getByRole('dialog');
  const set = await (await v.context.request.post('/auth/totp', { data: { password: tenant.password } })).json();
  const { recoveryCodes } = await (await v.context.request.post('/auth/totp/confirm', { data: { code: totp(set.secret) } })).json();
  await page.reload();
  await go(page, '/payout?account=' + tenant.account.ID);
  await page.route('**/settle', async (route) => {
    await route.fetch(); // it is accepted; its connection ends before the answer, and browsers then send it once more
    return route.fulfill({ response: await route.fetch() });
  }, { times: 1 });
  await fill(page);
  await dialog.getByLabel('Code').fill(recoveryCodes[0]);
  await dialog.getByRole('button', { name: 'Pay ₦1,000.00' }).click();
  await dialog.getByRole('alert').getByText('Code is wrong.').waitFor();
  await dialog.getByLabel('Code').fill(recoveryCodes[1]);
  await dialog.getByRole('button', { name: 'Pay ₦1,000.00' }).click();
  await said(page, 'This payout was already accepted; it was not made again.');
  assert.equal((await tenant.transfers()).length, 1);

  await go(page, '/payout?account=' + tenant.account.ID);
  await fill(page, { amount: '4,900' });
  await dialog.getByLabel('Code').fill(recoveryCodes[2]);
  await dialog.getByRole('button', { name: 'Pay ₦4,900.00' }).click();
  await dialog.getByRole('alert').getByText('Insufficient funds.').waitFor();
  await pay(tenant.account.BankAccountNumber, '5000.00');
  await until('the second payment', async () => Number((await tenant.call('GET', '/v1/accounts/customer-1/balance')).balance) > 4900);
  await dialog.getByLabel('Code').fill(recoveryCodes[3]);
  await dialog.getByRole('button', { name: 'Pay ₦4,900.00' }).click();
  await said(page, 'The payout was accepted.'); // a refusal is no payout that was sent before
  assert.equal((await tenant.transfers()).length, 2);
  await v.close();
});

// unanswered pays out from the funded account, and nobody hears that it was accepted.
async function unanswered(page, tenant) {
  await go(page, '/payout?account=' + tenant.account.ID);
  await page.route('**/settle', async (route) => {
    await route.fetch();
    return route.abort();
  }, { times: 1 });
  await fill(page);
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Your password').fill(tenant.password);
  await dialog.getByRole('button', { name: 'Pay ₦1,000.00' }).click();
  await dialog.getByRole('alert').getByText('We do not know whether this was accepted.').waitFor();
}

test('who has left test mode by logging out, and loads the page anew after a lost answer, pays once', async () => {
  const tenant = await funded();
  const v = await visitAs(tenant);
  const { page } = v;
  const dialog = page.getByRole('dialog');
  await Promise.all([page.waitForEvent('load'), page.getByRole('switch', { name: 'Test mode' }).press('Space')]);
  await page.getByRole('note', { name: 'Test mode' }).waitFor();
  await settled(page);
  await page.getByRole('button', { name: 'Log out' }).click();
  await page.getByLabel('E-mail').fill(tenant.email);
  await page.getByLabel('Password').fill(tenant.password);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByRole('heading', { name: tenant.name, level: 1 }).waitFor();
  assert.equal(await page.getByRole('note', { name: 'Test mode' }).count(), 0);
  await unanswered(page, tenant);
  await page.reload();
  await settled(page);
  await fill(page);
  await dialog.getByLabel('Your password').fill(tenant.password);
  await dialog.getByRole('button', { name: 'Pay ₦1,000.00' }).click();
  await said(page, 'This payout was already accepted; it was not made again.');
  assert.equal((await tenant.transfers()).length, 1);
  await v.close();
});

test('a holder whom the bank spells otherwise the next time does not make another payout', async () => {
  const tenant = await funded();
  const v = await visitAs(tenant);
  const { page } = v;
  const dialog = page.getByRole('dialog');
  await unanswered(page, tenant);
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  await page.route('**/auth/transfers/lookup', async (route) => {
    const response = await route.fetch();
    return route.fulfill({ response, json: { ...await response.json(), AccountName: 'Amina Bello' } });
  });
  await fill(page);
  await dialog.getByText('goes to Amina Bello').waitFor();
  await dialog.getByLabel('Your password').fill(tenant.password);
  await dialog.getByRole('button', { name: 'Pay ₦1,000.00' }).click();
  await said(page, 'This payout was already accepted; it was not made again.');
  assert.equal((await tenant.transfers()).length, 1);

  const keys = [];
  await page.route('**/settle', (route) => {
    keys.push(route.request().headers()['idempotency-key']);
    return route.continue();
  });
  await page.unroute('**/auth/transfers/lookup');
  await page.route('**/auth/transfers/lookup', async (route) => {
    const response = await route.fetch();
    return route.fulfill({ response, json: { ...await response.json(), AccountName: 'Amina Belo' } }); // who is another one when the order comes
  }, { times: 1 });
  for (const [name, then] of [['Amina Belo', dialog.getByRole('alert').getByText('Account name mismatch.')], ['AMINA BELLO', page.locator('#status').getByText('The payout was accepted.')]]) {
    await go(page, '/payout?account=' + tenant.account.ID);
    await fill(page, { amount: '500' });
    await dialog.getByText('goes to ' + name).waitFor();
    await dialog.getByLabel('Your password').fill(tenant.password);
    await dialog.getByRole('button', { name: 'Pay ₦500.00' }).click();
    await then.waitFor();
    if (await dialog.count() > 0) await dialog.getByRole('button', { name: 'Cancel' }).click();
  }
  assert.equal(new Set(keys).size, 1, 'one key for both: the first might be accepted yet');
  assert.equal((await tenant.transfers()).length, 2);
  await v.close();
});

test('who bears fees is told that they are debited with a payout, and that what is available must cover them', async () => {
  const tenant = await funded();
  await world.service.tool('tenant', 'payout-fee', tenant.email, '--by', 'tenant', '--yes', '--reason', 'a test');
  const v = await visitAs(tenant);
  const { page } = v;
  const dialog = page.getByRole('dialog');
  await go(page, '/payout?account=' + tenant.account.ID);
  await page.getByText('What is available must also cover any fee that you bear for the payout.').waitFor();
  await fill(page, { amount: tenant.has });
  await dialog.getByText('Any fee that you bear for the payout is debited too.').waitFor();
  await dialog.getByLabel('Your password').fill(tenant.password);
  await dialog.getByRole('button', { name: 'Pay ' + tenant.has }).click();
  await dialog.getByRole('alert').getByText('Insufficient funds.').waitFor();
  assert.deepEqual(await tenant.transfers(), []);
  await v.close();
});

test('a payout whose destination is not known names none', async () => {
  const tenant = await funded();
  const { merchantTxRef: ref } = await tenant.call('POST', '/v1/accounts/customer-1/settle', { amount: '1000.00', bankCode: '058', accountNumber: '0123456789', narration: 'Rent' });
  const v = await visitAs(tenant);
  const { page } = v;
  for (const path of ['**/auth/transfers?*', '**/auth/transfers/' + ref]) {
    await page.route(path, async (route) => {
      const response = await route.fetch();
      const json = await response.json();
      Object.assign(json.transfers?.[0] ?? json, { bankCode: '', accountNumber: '', bankName: null, accountName: null });
      await route.fulfill({ response, json });
    });
  }
  await go(page, '/transfers');
  await page.getByRole('row', { name: ref }).getByText('not known', { exact: true }).waitFor();
  await go(page, '/transfers/' + ref);
  const details = await page.getByRole('region', { name: 'Transfer details' }).textContent();
  for (const fact of ['To account numberNot known', 'BankNot known']) assert.ok(details.includes(fact), `${fact}: ${details}`);
  await v.close();
});
