// Payouts that members approve, as the owner sets it and the members do it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { go, looked, looks, said, settled, tabTo } from './browser.js';
import { until } from './stack.js';
import { entry, joined, newTenant, open, pay, visitAs, world } from './world.js';

// funded is a tenant with money, of whom the owner has two members for its payouts.
async function funded() {
  const tenant = await newTenant();
  const account = await open(tenant, 'customer-1', 'Ada Obi');
  await pay(account.BankAccountNumber, '5000.00');
  await entry(tenant, 'customer-1', 'the payment to be confirmed', (e) => e.Status === 'confirmed');
  tenant.settle = (amount) => tenant.call('POST', '/v1/accounts/customer-1/settle', { amount, bankCode: '058', accountNumber: '0123456789', narration: 'Rent' });
  tenant.ended = (ref, status) => until(`the transfer to be ${status}`, async () => (await tenant.call('GET', '/v1/transfers/' + ref)).status === status);
  return tenant;
}

for (const [look, options] of Object.entries(looks)) {
  test(`the owner sets a policy, and payouts are approved and rejected, in ${look}`, async () => {
    const tenant = await funded();
    const v = await visitAs(tenant, options);
    await go(v.page, '/settings');
    const policy = v.page.getByRole('region', { name: 'Payout approval' });
    await policy.getByText('No payout needs approval.', { exact: true }).waitFor();
    await policy.getByLabel('Approvals').fill('2');
    await policy.getByLabel('Your password').fill(tenant.password);
    await policy.getByRole('button', { name: 'Save policy' }).click();
    await policy.getByRole('alert').getByText('Threshold or dayThreshold is required with approvals.').waitFor();
    await policy.getByLabel('For a payout above').fill('999.99');
    await policy.getByLabel('For a day’s payouts above').fill('1,000,000');
    await policy.getByRole('button', { name: 'Save policy' }).click();
    await policy.getByText('Payouts above ₦999.99, and those that take the day’s payouts above ₦1,000,000.00 need 2 approvals').waitFor();
    await policy.getByText('payouts need 2 approvals, and 1 member may approve.').waitFor();
    const set = async (policy) => {
      const answer = await v.context.request.post('/auth/payout-policy', { data: { ...policy, password: tenant.password } });
      assert.equal(answer.status(), 200, await answer.text());
    };
    await set({ approvals: 2, threshold: '999.99', dayThreshold: '1000000.00', hook: world.service.shop.url }); // after the page was drawn
    await policy.getByLabel('New beneficiaries wait').fill('24');
    await policy.getByLabel('Your password').fill(tenant.password);
    await policy.getByRole('button', { name: 'Save policy' }).click();
    await policy.getByText('Payouts above ₦999.99 may go only to beneficiaries that were saved at least 24 hours ago.').waitFor();
    await policy.getByText(world.service.shop.url).waitFor(); // the form does not take it away
    await set({ approvals: 2, threshold: '999.99' }); // by somebody else, and not written over
    await policy.getByLabel('New beneficiaries wait').fill('48');
    await policy.getByLabel('Your password').fill(tenant.password);
    await policy.getByRole('button', { name: 'Save policy' }).click();
    await said(v.page, 'Not saved: the policy was changed in the meantime. This page now shows the current one.');
    await policy.getByText('Payouts above ₦999.99 need 2 approvals').waitFor();
    assert.equal(await policy.getByText('hours ago').count(), 0);
    await looked(v.page, 'policy', look);

    const [paid, refused] = [(await tenant.settle('1000.00')).merchantTxRef, (await tenant.settle('1500.00')).merchantTxRef];
    const one = await visitAs(await joined(tenant, 'finance'), options);
    const viewer = await visitAs(await joined(tenant, 'viewer', 'A viewer'), options);
    const approval = (page) => page.getByRole('region', { name: 'Approval', exact: true });
    await go(one.page, '/');
    const tile = one.page.getByRole('link', { name: 'Awaits approval' });
    await tile.getByText('2 payouts to approve or reject').waitFor();
    await looked(one.page, 'overview-awaiting', look);
    await tile.click();
    await one.page.getByText('2 transfers', { exact: true }).waitFor();
    await looked(one.page, 'approvals', look);
    await one.page.getByRole('link', { name: paid }).click();
    await approval(one.page).getByText('0 of 2').waitFor();
    await approval(one.page).getByText('An API key').waitFor(); // asked for it
    await one.page.getByRole('button', { name: 'Approve…' }).click();
    await one.page.getByRole('dialog').getByText('₦1,000.00 to account 0123456789').waitFor();
    await one.page.getByRole('dialog').getByText('The bank names AMINA BELLO as its holder.').waitFor();
    assert.deepEqual(await one.page.getByRole('dialog').getByRole('button').allTextContents(), ['Approve', 'Cancel']);
    await looked(one.page, 'approval-asked', look);
    await one.page.getByRole('dialog').getByRole('button', { name: 'Approve' }).click();
    await approval(one.page).getByText('1 of 2').waitFor();
    await approval(one.page).getByText('You have approved it.').waitFor();
    assert.equal(await one.page.getByRole('button', { name: 'Approve…' }).count(), 0);
    await looked(one.page, 'approval', look);
    await go(viewer.page, '/transfers/' + paid);
    await approval(viewer.page).getByText('Only the owner and members with the role finance can decide').waitFor();
    await viewer.close();

    await go(v.page, '/transfers/' + paid); // the owner is the second
    await v.page.getByRole('button', { name: 'Approve…' }).click();
    await v.page.getByRole('dialog').getByRole('button', { name: 'Approve' }).click();
    await approval(v.page).getByText('2 of 2').waitFor();
    await tenant.ended(paid, 'success');

    await go(v.page, '/transfers/' + refused);
    await v.page.getByRole('button', { name: 'Reject…' }).waitFor();
    await go(one.page, '/transfers/' + refused);
    await one.page.getByRole('button', { name: 'Reject…' }).click();
    await one.page.getByRole('dialog').getByRole('button', { name: 'Reject' }).click();
    await said(one.page, 'The payout was rejected.');
    await settled(one.page);
    await one.page.getByRole('region', { name: 'Transfer details' }).getByText('Failed').waitFor();
    await v.page.getByRole('button', { name: 'Approve…' }).click(); // on a page that was drawn before
    await v.page.getByRole('dialog').getByRole('button', { name: 'Approve' }).click();
    await v.page.getByRole('dialog').getByRole('alert').getByText('The transfer does not await approval.').waitFor();
    await v.page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
    await tenant.ended(refused, 'failed');
    await go(v.page, '/audit?action=transfer.reject');
    await v.page.getByText('1 line', { exact: true }).waitFor();
    await one.close();
    await v.close();
  });
}

test('who approves last is told that it is paid then, on a page that was drawn before the others approved', async () => {
  const tenant = await funded();
  const v = await visitAs(tenant);
  const { page } = v;
  const dialog = page.getByRole('dialog');
  assert.equal((await v.context.request.post('/auth/payout-policy', { data: { approvals: 2, threshold: '1.00', password: tenant.password } })).status(), 200);
  const { merchantTxRef } = await tenant.settle('1000.00');
  const other = await visitAs(await joined(tenant, 'finance'));
  await go(page, '/transfers/' + merchantTxRef);
  await page.getByRole('button', { name: 'Approve…' }).click();
  await dialog.getByText('Others must approve it too. It is paid after the last approval, and this cannot be undone.').waitFor(); // they may before this one does
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  assert.equal((await other.context.request.post(`/auth/transfers/${merchantTxRef}/approve`)).status(), 200);
  await page.getByRole('button', { name: 'Approve…' }).click();
  await dialog.getByText('It is paid after that, and this cannot be undone.').waitFor();
  assert.equal(await dialog.getByText('Others must approve it too.').count(), 0);
  await dialog.getByRole('button', { name: 'Approve' }).click();
  await tenant.ended(merchantTxRef, 'success');
  await other.close();
  await v.close();
});

test('a payout is approved by keyboard alone', async () => {
  const tenant = await funded();
  const v = await visitAs(tenant);
  const { page } = v;
  await v.context.request.post('/auth/payout-policy', { data: { approvals: 1, threshold: '1.00', password: tenant.password } });
  const { merchantTxRef } = await tenant.settle('1000.00');
  await go(page, '/transfers?awaiting=approval');
  await tabTo(page, merchantTxRef);
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Approve…' }).waitFor();
  await tabTo(page, 'Approve…');
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').getByText('this cannot be undone').waitFor();
  await tabTo(page, 'Approve');
  await page.keyboard.press('Enter');
  await page.getByRole('region', { name: 'Approval', exact: true }).getByText('1 of 1').waitFor();
  await tenant.ended(merchantTxRef, 'success');
  await v.close();
});
