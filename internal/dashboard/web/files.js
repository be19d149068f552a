// What is taken home: receipts, statements of one account and of all; and the chart that is read by pointer and by keys.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { go, looked, looks, settled, tabTo } from './browser.js';
import { until } from './stack.js';
import { entry, newTenant, open, pay, visitAs } from './world.js';

// taken presses what downloads a file, and returns its name and text.
async function taken(page, control) {
  const file = page.waitForEvent('download');
  await control.click();
  const got = await file;
  return { name: got.suggestedFilename(), text: await readFile(await got.path(), 'latin1') };
}

test('receipts and statements are downloaded, and the chart says its figures', async () => {
  const t = await newTenant();
  const shop = await open(t, 'customer-1', 'Ada Obi');
  const other = await open(t, 'customer-2', 'Chidi Eze');
  await pay(shop.BankAccountNumber, '12000.00', { sender: 'Amina Bello' });
  await pay(other.BankAccountNumber, '500.00');
  await entry(t, 'customer-1', 'a payment to be confirmed', (e) => e.Status === 'confirmed');
  await entry(t, 'customer-2', 'another', (e) => e.Status === 'confirmed');
  const { merchantTxRef } = await t.call('POST', '/v1/accounts/customer-1/settle', { amount: '250.00', bankCode: '058', accountNumber: '0123456789' });
  await until('the payout', async () => (await t.call('GET', '/v1/transfers/' + merchantTxRef)).status === 'success');
  const { payments: [paid] } = await t.call('GET', '/v1/payments?accountRef=customer-1');
  const v = await visitAs(t);
  const { page } = v;

  for (const [path, name] of [['/payments/' + paid.id, 'receipt-' + paid.id], ['/transfers/' + merchantTxRef, 'receipt-' + merchantTxRef]]) {
    await go(page, path);
    const file = await taken(page, page.getByRole('link', { name: 'Receipt (PDF)' }));
    assert.ok(file.name.startsWith(name) && file.text.startsWith('%PDF-'), file.name);
  }
  await go(page, '/accounts/' + shop.ID);
  const camt = await taken(page, page.getByRole('link', { name: 'camt.053' }));
  assert.match(camt.text, /camt\.053\.001\.08/);
  assert.match(camt.text, /<Nm>AMINA BELLO<\/Nm>|<Nm>Amina Bello<\/Nm>/i);
  await go(page, '/accounts');
  const all = page.getByRole('region', { name: 'Statements of all accounts' });
  assert.match((await taken(page, all.getByRole('link', { name: 'CSV' }))).text, /customer-1[\s\S]*customer-2/);
  assert.match((await taken(page, all.getByRole('link', { name: 'PDF' }))).text, /^%PDF-/);
  assert.equal((await taken(page, all.getByRole('link', { name: 'camt.053' }))).text.match(/<Stmt>/g).length, 2);
  await all.getByLabel('From', { exact: true }).fill('2090-01-01');
  assert.doesNotMatch((await taken(page, all.getByRole('link', { name: 'CSV' }))).text, /customer-/);
  await all.getByRole('link', { name: 'camt.053' }).click(); // without a statement it would not be valid
  await all.getByRole('alert').getByText('No account has lines in this period: a camt.053 file needs at least one statement.').waitFor();
  await v.close();

  for (const [look, options] of Object.entries(looks)) {
    const w = await visitAs(t, options);
    await w.page.getByRole('slider', { name: 'Day of the chart' }).waitFor();
    const said = w.page.locator('.figure output');
    assert.match(await said.textContent(), /in ₦1[0-9],[0-9.,]+, out ₦250\.00$/, 'today');
    const plot = w.page.getByRole('slider', { name: 'Day of the chart' });
    await plot.focus();
    await w.page.keyboard.press('ArrowLeft');
    assert.match(await said.textContent(), /in ₦0\.00, out ₦0\.00$/, 'the day before');
    assert.equal(await plot.getAttribute('aria-valuetext'), await said.textContent());
    await w.page.keyboard.press('End');
    const box = await plot.boundingBox();
    await w.page.mouse.move(box.x + box.width / 2, box.y + 60);
    await until('the day under the pointer', async () => /in ₦0\.00/.test(await said.textContent()));
    await w.page.getByLabel('Show', { exact: true }).selectOption('A year');
    await w.page.getByRole('heading', { name: 'Last 365 days' }).waitFor();
    assert.equal(await w.page.locator('.plot g').count(), 365);
    await looked(w.page, 'chart-year', look);
    await w.page.reload();
    await w.page.getByRole('heading', { name: 'Last 365 days' }).waitFor();
    await w.page.getByLabel('Show', { exact: true }).selectOption('7 days');
    await w.page.getByRole('heading', { name: 'Last 7 days' }).waitFor();
    await settled(w.page);
    await tabTo(w.page, 'Day of the chart');
    await looked(w.page, 'chart-week', look);
    await w.close();
  }
});
