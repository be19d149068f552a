// Beneficiaries, as finance saves them and the owner exempts them.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { go, looked, looks, said, tabTo } from './browser.js';
import { joined, newTenant, visitAs, world } from './world.js';

const landlord = { bankCode: '058', accountNumber: '0123456789', label: 'Landlord' };

for (const [look, options] of Object.entries(looks)) {
  test(`a beneficiary is saved, renamed, exempted and removed, in ${look}`, async () => {
    const tenant = await newTenant();
    const v = await visitAs(await joined(tenant, 'finance'), options);
    const { page } = v;
    const dialog = page.getByRole('dialog');
    await go(page, '/beneficiaries');
    await page.getByText('No beneficiaries yet.').waitFor();
    const form = page.getByRole('region', { name: 'Save a beneficiary' });
    const find = async (bank, number, label = '') => {
      await form.getByLabel('Bank').selectOption(bank);
      await form.getByLabel('Account number').fill(number);
      await form.getByLabel('Label').fill(label);
      await form.getByRole('button', { name: 'Find the holder…' }).click();
    };
    await find('Guaranty Trust Bank', '0001234567');
    await form.getByRole('alert').getByText('Destination account not found.').waitFor();
    const faults = (what) => world.service.request('POST', world.service.bank + '/control/faults', what);
    await faults({ add: [{ on: 'lookup', do: 'fail' }] });
    try {
      await find('Access Bank', '0123456789');
      await form.getByRole('alert').getByText('the bank did not answer').waitFor();
    } finally {
      await faults({ clear: true });
    }
    await find('Guaranty Trust Bank', '0123456789', 'Landlord');
    await dialog.getByText('The bank names AMINA BELLO as the holder of account 0123456789 at Guaranty Trust Bank.').waitFor();
    assert.equal(await page.getByRole('row', { name: 'Landlord' }).count(), 0, 'nothing is saved before the name is agreed to');
    await looked(page, 'beneficiary-save', look);
    await dialog.getByRole('button', { name: 'Save' }).click();
    await said(page, 'AMINA BELLO is saved.');
    await page.getByRole('row', { name: 'Landlord' }).getByText('AMINA BELLO').waitFor();
    await find('Guaranty Trust Bank', '0123456789', 'Somebody');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await said(page, 'It was saved before, as Landlord.');
    await page.getByText('1 beneficiary', { exact: true }).waitFor();

    await page.getByRole('button', { name: 'Rename… Landlord' }).click();
    assert.equal(await dialog.getByLabel('Label').inputValue(), 'Landlord');
    await dialog.getByLabel('Label').fill('Rent of the shop');
    await looked(page, 'beneficiary-rename', look);
    await dialog.getByRole('button', { name: 'Rename' }).click();
    await page.getByRole('row', { name: 'Rent of the shop' }).waitFor();
    await looked(page, 'beneficiaries-finance', look);
    assert.equal(await page.getByRole('button', { name: /^Exempt…/ }).count(), 0, 'only the owner exempts');

    const owner = await visitAs(tenant, options);
    await go(owner.page, '/beneficiaries');
    await owner.page.getByRole('button', { name: 'Exempt… Rent of the shop' }).click();
    await owner.page.getByRole('dialog').getByText('will no longer need approval').waitFor();
    await looked(owner.page, 'beneficiary-exempt', look);
    await owner.page.getByRole('dialog').getByLabel('Your password').fill(tenant.password);
    await owner.page.getByRole('dialog').getByRole('button', { name: 'Exempt' }).click();
    await owner.page.getByRole('row', { name: 'Rent of the shop' }).getByText('Exempt', { exact: true }).waitFor();
    await owner.page.getByRole('button', { name: 'Require approval… Rent of the shop' }).click();
    await owner.page.getByRole('dialog').getByRole('button', { name: 'Require approval' }).click();
    await said(owner.page, 'Payouts to Rent of the shop need approval again.');
    await go(owner.page, '/audit?action=beneficiary.exempt');
    await owner.page.getByText('2 lines', { exact: true }).waitFor();
    await owner.close();

    await page.getByRole('button', { name: 'Remove… Rent of the shop' }).click();
    await dialog.getByRole('button', { name: 'Remove' }).click();
    await page.getByText('No beneficiaries yet.').waitFor();
    await v.close();
  });
}

test('a viewer reads the beneficiaries, and changes none', async () => {
  const tenant = await newTenant();
  await tenant.call('POST', '/v1/beneficiaries', landlord);
  const v = await visitAs(await joined(tenant, 'viewer'));
  await go(v.page, '/beneficiaries');
  await v.page.getByRole('row', { name: 'Landlord' }).getByText('an API key').waitFor();
  assert.equal(await v.page.locator('td button').count() + await v.page.getByRole('button', { name: 'Find the holder…' }).count(), 0);
  await v.close();
});

test('a beneficiary is saved and removed by keyboard alone', async () => {
  const v = await visitAs(await newTenant());
  const { page } = v;
  await go(page, '/beneficiaries');
  await tabTo(page, 'Bank');
  await page.keyboard.type('Guaranty');
  await page.keyboard.press('Tab');
  await page.keyboard.type('0123456789');
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').getByText('AMINA BELLO as the holder').waitFor();
  await tabTo(page, 'Save');
  await page.keyboard.press('Enter');
  await said(page, 'AMINA BELLO is saved.');
  await page.getByRole('row', { name: 'AMINA BELLO' }).waitFor();
  await tabTo(page, 'Remove… AMINA BELLO');
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').getByText('Payouts that were accepted continue.').waitFor();
  await tabTo(page, 'Remove');
  await page.keyboard.press('Enter');
  await page.getByText('No beneficiaries yet.').waitFor();
  await v.close();
});
