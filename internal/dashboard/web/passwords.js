// Passwords in the dashboard: changing one's own, setting a new one by a mailed code, and what ends sessions.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, ended, go, settled } from './browser.js';
import { totp } from './totp.js';
import { newTenant, visit, visitAs, world } from './world.js';

// login tries a password on the page that asks for one.
async function login(page, email, password) {
  await page.getByLabel('E-mail').fill(email);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Log in' }).click();
}

test('a password is changed: the other sessions end, one’s own goes on', async () => {
  const tenant = await newTenant();
  const [v, other] = [await visitAs(tenant), await visitAs(tenant)];
  const { page } = v;
  await go(page, '/me');
  const change = async (old, next) => {
    await page.getByLabel('Current password').fill(old);
    await page.getByLabel('New password').fill(next);
    await page.getByRole('button', { name: 'Change password' }).click();
  };
  await change('not the password', 'a new password');
  await page.getByRole('alert').waitFor();
  await change(tenant.password, 'a new password');
  await page.getByText('Password changed. All your other sessions have ended.').waitFor();
  assert.equal(await page.getByLabel('Current password').inputValue() + await page.getByLabel('New password').inputValue(), '', 'no password stays on the page');
  await go(page, '/');
  await page.getByRole('button', { name: 'Refresh' }).click();
  await page.getByText('Refreshed.').waitFor();

  await ended(other.page);
  await login(other.page, tenant.email, tenant.password);
  assert.equal(await other.page.getByRole('alert').textContent(), 'Invalid credentials.');
  await login(other.page, tenant.email, 'a new password');
  await other.page.getByRole('heading', { name: tenant.name, level: 1 }).waitFor();
  await other.close();
  await v.close();
});

test('a forgotten password is set by the mailed code, once, and ends the sessions', async () => {
  const tenant = await newTenant();
  const old = await visitAs(tenant);
  const v = await visit();
  const { page } = v;
  await page.getByRole('link', { name: 'Forgot your password?' }).click();
  await accessible(page, 'the forgotten password');
  await page.getByLabel('E-mail').fill(tenant.email);
  await page.getByRole('button', { name: 'Send a code' }).click();
  await page.waitForURL('**/dashboard/#/reset');
  await settled(page);
  await accessible(page, 'the new password');
  const code = await world.service.code(tenant.email, /^ {4}([0-9A-Za-z_-]{43})\r?$/m);
  const set = async (by, password) => {
    await page.getByLabel('Code').fill(by);
    await page.getByLabel('New password').fill(password);
    await page.getByRole('button', { name: 'Set password' }).click();
  };
  await set((code[0] === 'a' ? 'b' : 'a') + code.slice(1), 'a new password');
  await page.getByRole('alert').waitFor();
  await set(code, 'a new password');
  await page.getByRole('heading', { name: tenant.name, level: 1 }).waitFor();
  assert.equal(page.url().includes(code), false);
  await ended(old.page);
  await old.close();
  await v.close();

  const again = await visit();
  await login(again.page, tenant.email, tenant.password);
  assert.equal(await again.page.getByRole('alert').textContent(), 'Invalid credentials.');
  await go(again.page, '/reset');
  await again.page.getByLabel('Code').fill(code);
  await again.page.getByLabel('New password').fill('another password');
  await again.page.getByRole('button', { name: 'Set password' }).click();
  await again.page.getByRole('alert').waitFor(); // a code works once
  await go(again.page, '/login');
  await login(again.page, tenant.email, 'a new password');
  await again.page.getByRole('heading', { name: tenant.name, level: 1 }).waitFor();
  await again.close();
});

test('who has a second factor sets a new password by the mailed code, and is told to log in', async () => {
  const tenant = await newTenant();
  const owner = await visitAs(tenant);
  const { secret } = await (await owner.context.request.post('/auth/totp', { data: { password: tenant.password } })).json();
  assert.equal((await owner.context.request.post('/auth/totp/confirm', { data: { code: totp(secret) } })).status(), 200);
  await owner.close();
  const v = await visit();
  const { page } = v;
  await world.service.request('POST', '/auth/forgot-password', { email: tenant.email });
  await go(page, '/reset');
  await page.getByLabel('Code').fill(await world.service.code(tenant.email, /^ {4}([0-9A-Za-z_-]{43})\r?$/m));
  await page.getByLabel('New password').fill('a new password');
  await page.getByRole('button', { name: 'Set password' }).click();
  await page.getByText('Your new password is set. Log in with it.').waitFor();
  await login(page, tenant.email, 'a new password');
  await page.getByLabel('Code').fill(totp(secret, 1));
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByRole('heading', { name: tenant.name, level: 1 }).waitFor();
  await v.close();
});

test('an operator ends all sessions of a tenant, and the pages say so', async () => {
  const tenant = await newTenant();
  const pages = [await visitAs(tenant), await visitAs(tenant)];
  await world.service.tool('tenant', 'end-sessions', tenant.email, '--reason', 'a test', '--yes');
  for (const v of pages) {
    await ended(v.page);
    await login(v.page, tenant.email, tenant.password);
    await v.page.getByRole('heading', { name: tenant.name, level: 1 }).waitFor();
    await v.close();
  }
});

test('somebody else signs in in another tab: this one does not go on under the first one’s name', async () => {
  const [one, other] = [await newTenant('Ada Stores'), await newTenant('Bola Foods')];
  const v = await visitAs(one);
  const { page } = v;
  await go(page, '/settings');
  const tab = await v.context.newPage();
  await tab.goto('/dashboard/');
  await settled(tab);
  assert.equal(await page.evaluate(() => location.hash), '#/settings', 'the same member: nothing is loaded anew');
  await page.locator('.who').getByText('Ada Stores').waitFor();
  await v.context.request.post('/auth/login', { data: { email: other.email, password: other.password } });
  await tab.reload();
  await page.locator('.who').getByText('Bola Foods').waitFor();
  await settled(page);
  assert.equal(await page.evaluate(() => location.hash), '#/');
  await tab.close();
  await v.close();
});
