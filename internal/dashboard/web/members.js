// Who else logs in: an invited member, and an owner with a second factor.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, go, settled } from './browser.js';
import { totp } from './totp.js';
import { newTenant, visit, visitAs, world } from './world.js';

export async function ask(v, path, data) {
  const r = await v.context.request.post(path, { data });
  assert.equal(r.ok(), true, `${path}: ${r.status()} ${await r.text()}`);
  return r.json();
}

test('an invited person becomes a member, once, and sees what the role may see', async () => {
  const tenant = await newTenant();
  const owner = await visitAs(tenant);
  const email = 'finance-of-' + tenant.email;
  await ask(owner, '/auth/members', { email, role: 'finance' });
  const code = await world.service.code(email, /^ {4}([0-9A-Za-z_-]{43})\r?$/m);
  const v = await visit();
  const { page } = v;
  await page.getByRole('link', { name: 'Accept an invitation' }).click();
  await page.waitForURL('**/dashboard/#/accept');
  await settled(page);
  await accessible(page, 'an invitation');
  const join = async (by) => {
    await page.getByLabel('Code').fill(by);
    await page.getByLabel('Your name').fill('Chidi Eze');
    await page.getByLabel('Password').fill('correct horse battery');
    await page.getByRole('button', { name: 'Join' }).click();
  };
  await join((code[0] === 'a' ? 'b' : 'a') + code.slice(1));
  await page.getByRole('alert').waitFor();
  await join(code);
  await page.getByRole('heading', { name: tenant.name, level: 1 }).waitFor();
  assert.equal(page.url().includes(code), false);
  await go(page, '/transfers');
  await page.getByRole('heading', { name: 'Transfers', level: 1 }).waitFor();
  await v.close();

  const again = await visit();
  await go(again.page, '/accept');
  await again.page.getByLabel('Code').fill(code);
  await again.page.getByLabel('Your name').fill('Somebody Else');
  await again.page.getByLabel('Password').fill('another password');
  await again.page.getByRole('button', { name: 'Join' }).click();
  await again.page.getByRole('alert').waitFor(); // an invitation is accepted once
  await again.close();
  await owner.close();
});

test('a login with a second factor asks for its code, and a recovery code works once', async () => {
  const tenant = await newTenant();
  const owner = await visitAs(tenant);
  const { secret } = await ask(owner, '/auth/totp', { password: tenant.password });
  const { recoveryCodes } = await ask(owner, '/auth/totp/confirm', { code: totp(secret) });
  await owner.close();
  for (const [code, good] of [['000000', false], [recoveryCodes[0], true], [recoveryCodes[0], false]]) {
    const v = await visit();
    const { page } = v;
    await page.getByLabel('E-mail').fill(tenant.email);
    await page.getByLabel('Password').fill(tenant.password);
    await page.getByRole('button', { name: 'Log in' }).click();
    await page.getByLabel('Code').fill(code);
    await accessible(page, 'a login with a code');
    await page.getByRole('button', { name: 'Log in' }).click();
    if (good) {
      await page.getByRole('heading', { name: tenant.name, level: 1 }).waitFor();
    } else {
      await page.getByRole('alert').getByText('Invalid code.').waitFor();
    }
    await v.close();
  }
});
