// A tenant's keys and its audit log, as a developer and the owner use them.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { accessible, go, looked, looks, putAway, settled, tabTo } from './browser.js';
import { joined, newTenant, open, visitAs, world } from './world.js';

const by = (key) => ({ 'X-API-Key': key });
const request = (...args) => world.service.request(...args);

// shownKey takes the key from the dialog that shows it once.
async function shownKey(page) {
  const key = await putAway(page, 'Your new API key', 'API key');
  await page.getByRole('heading', { name: 'Keys', level: 1 }).waitFor();
  await settled(page);
  return key;
}

for (const [look, options] of Object.entries(looks)) {
  test(`a key is created with little, used, rotated with an overlap and revoked, in ${look}`, async () => {
    const tenant = await newTenant();
    await open(tenant, 'customer-1', 'Ada Obi');
    const v = await visitAs(tenant, options);
    const { page } = v;
    await go(page, '/keys');
    await page.getByRole('row', { name: 'Main key' }).getByText('Everything').waitFor();
    await page.getByRole('link', { name: 'Create a key' }).click();
    await page.getByRole('heading', { name: 'New key', level: 1 }).waitFor();
    await page.getByLabel('Name', { exact: true }).fill('Reports <b>every</b> day');
    await page.getByRole('button', { name: 'Create key' }).click();
    await page.getByRole('alert').getByText('Scopes must name at least one scope.').waitFor();
    await page.getByLabel('accounts:read').check();
    await page.getByLabel('payments:read').check();
    await page.getByLabel('Networks').fill('127.0.0.1\nhere');
    await page.getByRole('button', { name: 'Create key' }).click();
    await page.getByRole('alert').getByText('Networks[1] must be an IP address').waitFor();
    await page.getByLabel('Networks').fill('127.0.0.0/8\n203.0.113.9');
    await page.getByLabel('Last day').fill('2020-01-01');
    assert.equal(await page.getByLabel('Last day').evaluate((e) => e.validity.rangeUnderflow), true, 'the browser refuses a day that is over');
    await page.getByLabel('Last day').fill('2090-12-31');
    await looked(page, 'keys-new', look);
    await page.getByRole('button', { name: 'Create key' }).click();
    const key = await shownKey(page);
    const row = page.getByRole('row', { name: 'Reports <b>every</b> day' });
    for (const text of ['accounts:read, payments:read', '127.0.0.0/8', '203.0.113.9/32', '31 Dec 2090, 23:59:59', 'Never']) await row.getByText(text).waitFor();
    await request('GET', '/v1/accounts', undefined, by(key));
    await assert.rejects(request('GET', '/v1/customers', undefined, by(key)), /403.*customers:read/);

    await row.getByRole('button', { name: /^Rotate…/ }).click();
    await page.getByRole('dialog').getByLabel('The current key').selectOption('86400');
    await looked(page, 'keys-rotate', look);
    await page.getByRole('dialog').getByRole('button', { name: 'Rotate key' }).click();
    const next = await shownKey(page);
    assert.notEqual(next, key);
    await page.getByText('3 keys', { exact: true }).waitFor();
    for (const k of [key, next]) await request('GET', '/v1/accounts', undefined, by(k));
    const old = row.filter({ hasText: key.slice(-4) });
    await old.getByText('Rotating').waitFor();
    assert.equal(await old.getByRole('button', { name: /^Rotate…/ }).count(), 0, 'it is rotated already');
    await old.getByRole('button', { name: /^Revoke…/ }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke key' }).click();
    await old.getByText('Revoked').waitFor();
    await assert.rejects(request('GET', '/v1/accounts', undefined, by(key)), /401/);
    await request('GET', '/v1/accounts', undefined, by(next));
    await looked(page, 'keys', look);
    await v.close();
  });
}

test('a key from a foreign address is refused, and the last use is seen', async () => {
  const tenant = await newTenant();
  const v = await visitAs(tenant);
  const { page } = v;
  const made = {};
  for (const [name, networks] of [['Here', ''], ['Elsewhere', '203.0.113.9']]) {
    await go(page, '/keys/new');
    await page.getByLabel('Name', { exact: true }).fill(name);
    await page.getByLabel('Networks').fill(networks);
    await page.getByLabel('accounts:read').check();
    await page.getByRole('button', { name: 'Create key' }).click();
    made[name] = await shownKey(page);
  }
  await assert.rejects(request('GET', '/v1/accounts', undefined, by(made.Elsewhere)), /403.*may not be used from 127\.0\.0\.1/);
  await request('GET', '/v1/accounts', undefined, by(made.Here));
  await page.getByRole('row', { name: 'Elsewhere' }).getByText('Never').waitFor();
  for (let seen = false; !seen;) { // the use is written after a moment
    await page.getByRole('button', { name: 'Refresh' }).click();
    await settled(page);
    seen = await page.getByRole('row').filter({ hasText: made.Here.slice(-4) }).getByText('127.0.0.1').count() === 1;
  }
  await v.close();
});

test('a developer makes no key that moves money, and rotates none', async () => {
  const tenant = await newTenant();
  const v = await visitAs(await joined(tenant, 'developer'));
  const { page } = v;
  await go(page, '/keys');
  await page.getByRole('button', { name: /^Revoke… Main key/ }).waitFor(); // one that was stolen is ended by whoever sees it first
  assert.equal(await page.getByRole('button', { name: /^Rotate…/ }).count(), 0);
  await go(page, '/keys/new');
  assert.equal(await page.getByLabel('payouts:create').count() + await page.getByLabel('accounts:transfer').count() + await page.getByLabel('holds:write').count(), 0);
  await page.getByText('Only the owner can create a key that moves money.').waitFor();
  await accessible(page, 'a developer\'s new key');
  await v.close();
  const w = await visitAs(await joined(tenant, 'viewer'));
  assert.equal(await w.page.getByRole('link', { name: 'Keys' }).count(), 0);
  await go(w.page, '/keys');
  await w.page.getByRole('alert').getByText('This needs the role developer; yours is viewer.').waitFor();
  await w.close();
});

test('a key is created by keyboard alone', async () => {
  const tenant = await newTenant();
  const v = await visitAs(tenant);
  const { page } = v;
  await go(page, '/keys');
  await tabTo(page, 'Create a key');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'New key', level: 1 }).waitFor();
  await tabTo(page, 'Name');
  await page.keyboard.type('Payouts');
  await tabTo(page, 'payouts:create Pay out and refund: money leaves');
  await page.keyboard.press('Space');
  await tabTo(page, 'Create key');
  await page.keyboard.press('Enter');
  await page.getByRole('dialog', { name: 'Create a key that moves money?' }).waitFor();
  await tabTo(page, 'Your password');
  await page.keyboard.type(tenant.password);
  await page.keyboard.press('Enter');
  await page.getByRole('dialog', { name: 'Your new API key' }).waitFor();
  await tabTo(page, 'I have stored it');
  await page.keyboard.press('Enter');
  await page.getByRole('row', { name: 'Payouts' }).getByText('payouts:create').waitFor();
  await v.close();
});

for (const [look, options] of Object.entries(looks)) {
  test(`the owner reads the audit log, filters it and takes it away, in ${look}`, async () => {
    const tenant = await newTenant();
    const v = await visitAs(tenant, options);
    const { page } = v;
    await v.context.request.post('/auth/keys', { data: { name: '=Reports', scopes: ['accounts:read'] } });
    await v.context.request.post('/auth/webhook-url', { data: { url: 'https://shop.example/first' } });
    await tenant.call('POST', '/auth/webhook-url', { url: 'https://shop.example/second' });
    await v.context.request.post('/auth/members', { data: { email: 'finance@shop.example', role: 'finance' } });
    await world.service.tool('tenant', 'suspend', tenant.email, '--reason', 'we suspect fraud', '--yes');
    await world.service.tool('tenant', 'activate', tenant.email, '--reason', 'we do not', '--yes');
    await v.context.request.post('/auth/login', { data: { email: tenant.email, password: tenant.password } });
    await page.reload();
    await settled(page);
    await go(page, '/audit');
    const lines = page.locator('tbody tr');
    const text = (await lines.allTextContents()).join('\n');
    for (const part of ['Key created', '=Reports', 'https://shop.example/first → https://shop.example/second', 'Member invited', 'An operator', 'active → suspended', '127.0.0.1', tenant.email]) {
      assert.ok(text.includes(part), `${part}: ${text}`);
    }
    assert.equal(text.includes('fraud'), false, 'an operator\'s reason is not the tenant\'s');
    await looked(page, 'audit', look);
    await page.getByLabel('What').selectOption('webhook.url');
    await page.waitForURL('**action=webhook.url');
    await page.getByText('2 lines', { exact: true }).waitFor();
    await page.getByLabel('Who').fill(tenant.email.toUpperCase());
    await page.getByText('1 line', { exact: true }).waitFor();
    await lines.getByText('https://shop.example/first').waitFor();
    const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name: 'CSV' }).click()]);
    assert.match(file.suggestedFilename(), /^audit-.*\.csv$/);
    const csv = await readFile(await file.path(), 'utf8');
    assert.equal(csv.trim().split('\r\n').length, 2, csv);
    assert.match(csv, /shop\.example\/first/);
    await page.getByLabel('From').fill('2020-02-01');
    await page.getByLabel('To', { exact: true }).fill('2020-01-01');
    await page.getByRole('alert').waitFor();
    await page.getByRole('button', { name: 'Clear' }).click();
    await page.getByRole('row', { name: 'Member invited' }).waitFor();
    await page.getByLabel('Who').fill('operator');
    await page.getByText('2 lines', { exact: true }).waitFor();
    await v.close();
  });
}

test('a long audit log is read on', async () => {
  const tenant = await newTenant();
  for (let i = 0; i < 51; i++) await tenant.call('POST', '/auth/webhook-url', { url: `https://shop.example/${i}` });
  const v = await visitAs(tenant);
  const { page } = v;
  await go(page, '/audit?action=webhook.url');
  assert.equal(await page.locator('tbody tr').count(), 50);
  await page.getByRole('button', { name: 'Show more' }).click();
  await page.getByText('51 lines', { exact: true }).waitFor();
  await v.close();
});
