// Refunds, and money that is held and released, as finance does it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { go, looked, looks, said } from './browser.js';
import { entry, joined, newTenant, open, pay, visitAs } from './world.js';

for (const [look, options] of Object.entries(looks)) {
  test(`finance refunds a part of a payment, and holds and releases money, in ${look}`, async () => {
    const tenant = await newTenant();
    const account = await open(tenant, 'customer-1', 'Ada Obi');
    await pay(account.BankAccountNumber, '5000.00', { sender: 'AMINA BELLO', senderAccount: '0123456789', senderBank: 'Guaranty Trust Bank' });
    const paid = await entry(tenant, 'customer-1', 'the payment to be confirmed', (e) => e.Status === 'confirmed');
    const finance = await joined(tenant, 'finance');
    const v = await visitAs(finance, options);
    const { page } = v;
    const dialog = page.getByRole('dialog');
    await go(page, '/accounts/' + account.ID);
    await page.getByRole('button', { name: 'Hold money…' }).click();
    await dialog.getByLabel('Amount (₦)').fill('2,000');
    await dialog.getByLabel('Reason').fill('A dispute');
    await looked(page, 'hold', look);
    await dialog.getByRole('button', { name: 'Hold', exact: true }).click();
    await said(page, 'The money is held.');
    await page.getByRole('region', { name: 'Held', exact: true }).getByText('A dispute').waitFor();
    await looked(page, 'held', look);
    await page.getByRole('button', { name: 'Release ₦2,000.00: A dispute' }).click();
    await dialog.getByRole('button', { name: 'Release' }).click();
    await said(page, 'The hold of ₦2,000.00 is released.');
    assert.equal(await page.getByRole('region', { name: 'Held', exact: true }).count(), 0);

    await go(page, '/payments/' + paid.ID);
    await page.getByRole('button', { name: 'Refund…' }).click();
    await dialog.getByText('It leaves customer-1 and goes back to AMINA BELLO, account 0123456789, Guaranty Trust Bank.').waitFor();
    await dialog.getByText('Any fee that you bear for payouts is debited too.').waitFor();
    assert.equal(await dialog.getByLabel('Amount (₦)').inputValue(), paid.Amount, 'all that is left, unless somebody says less');
    await dialog.getByLabel('Amount (₦)').fill('1,500.50');
    await dialog.getByLabel('Your password').fill('wrong horse battery');
    await dialog.getByRole('button', { name: 'Refund', exact: true }).click();
    await dialog.getByRole('alert').getByText('Password is wrong.').waitFor();
    assert.deepEqual((await tenant.call('GET', '/v1/transfers')).transfers, [], 'nothing has moved');
    await looked(page, 'refund', look);
    await dialog.getByLabel('Your password').fill(finance.password);
    await dialog.getByRole('button', { name: 'Refund', exact: true }).click();
    await page.getByRole('region', { name: 'Transfer details' }).getByText('Success').waitFor();
    await go(page, '/payments/' + paid.ID);
    await page.getByRole('row', { name: 'Refund' }).getByText('₦1,500.50').waitFor();
    await page.getByText(/^Confirmed[.] ₦1,500[.]50 of ₦4,[0-9]{3}[.][0-9]{2} went back to its sender, or is on its way there[.]$/).waitFor();
    await page.getByRole('button', { name: 'Refund…' }).click();
    assert.equal(Number(await dialog.getByLabel('Amount (₦)').inputValue()), Number(paid.Amount) - 1500.5);
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await page.route('**/auth/payments/' + paid.ID, async (route) => { // a timeline has 100 refunds at most
      const response = await route.fetch();
      const shown = await response.json();
      return route.fulfill({ response, json: { ...shown, timeline: shown.timeline.filter((s) => s.step !== 'refunded') } });
    });
    await page.getByRole('button', { name: 'Refresh' }).click();
    await page.getByRole('row', { name: 'Refund' }).waitFor({ state: 'detached' });
    await page.getByText(/^Confirmed[.] ₦1,500[.]50 of /).waitFor();
    await page.getByRole('button', { name: 'Refund…' }).click();
    assert.equal(Number(await dialog.getByLabel('Amount (₦)').inputValue()), Number(paid.Amount) - 1500.5);
    await v.close();

    const viewer = await visitAs(await joined(tenant, 'viewer', 'A viewer'), options);
    for (const path of ['/payments/' + paid.ID, '/accounts/' + account.ID]) {
      await go(viewer.page, path);
      assert.equal(await viewer.page.getByRole('button', { name: /^(Refund|Hold money|Release)/ }).count(), 0);
    }
    await viewer.close();
  });
}
