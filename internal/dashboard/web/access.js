// Members, one's own account and its second factor, as the people do it who have to.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import decodeQR from 'qr/decode.js';
import { accessible, ended, go, looked, looks, picture, said, settled, tabTo } from './browser.js';
import { totp } from './totp.js';
import { joined, newTenant, open, visit, visitAs, world } from './world.js';

async function login(page, email, password, code) {
  await page.getByLabel('E-mail').fill(email);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Log in' }).click();
  if (!code) return;
  await page.getByLabel('Code').fill(code);
  await page.getByRole('button', { name: 'Log in' }).click();
}

for (const [look, options] of Object.entries(looks)) {
  test(`the owner invites, withdraws, changes a role and removes a member, in ${look}`, async () => {
    const tenant = await newTenant();
    const v = await visitAs(tenant, options);
    const { page } = v;
    await go(page, '/members');
    await page.getByRole('row', { name: tenant.email }).getByText('Owner').waitFor();
    assert.equal(await page.locator('td button').count(), 0, 'nobody changes the owner');
    const invite = async (email, role) => {
      await page.getByLabel('E-mail').fill(email);
      await page.getByLabel('Role').selectOption(role);
      await page.getByRole('button', { name: 'Send invitation' }).click();
    };
    await invite(tenant.email, 'viewer');
    await page.getByRole('alert').getByText('This e-mail address already belongs to a member.').waitFor();
    const email = 'developer-of-' + tenant.email;
    await invite(email, 'developer');
    await said(page, `Invitation sent to ${email}.`);
    await page.getByRole('row', { name: email }).getByText('Invited').waitFor();
    const first = await world.service.code(email, /^ {4}([0-9A-Za-z_-]{43})\r?$/m);
    await page.getByRole('button', { name: `Send again ${email}` }).click();
    await said(page, 'Another invitation was sent');
    await invite('gone-' + email, 'viewer');
    await page.getByRole('button', { name: `Withdraw… gone-${email}` }).click();
    await looked(page, 'members-withdraw', look);
    await page.getByRole('dialog').getByRole('button', { name: 'Withdraw' }).click();
    await page.getByRole('row', { name: 'gone-' + email }).getByText('Removed').waitFor();
    await assert.rejects(world.service.request('POST', '/auth/accept-invitation', { code: first, name: 'Chidi Eze', password: tenant.password }), /400/, 'the first code was replaced');

    const { password } = await joined(tenant, 'developer'); // invited once more, and accepted
    await page.getByRole('button', { name: 'Refresh' }).click();
    await page.getByRole('row', { name: 'Chidi Eze' }).getByText('Active').waitFor();
    await looked(page, 'members', look);
    const other = await visitAs({ email, password });
    await page.getByRole('button', { name: 'Change role… Chidi Eze' }).click();
    const dialog = page.getByRole('dialog');
    assert.equal(await dialog.getByLabel('Role').inputValue(), 'developer', 'the role it has');
    await dialog.getByLabel('Role').selectOption('viewer');
    await looked(page, 'members-role', look);
    await dialog.getByRole('button', { name: 'Change role' }).click();
    await page.getByRole('row', { name: 'Chidi Eze' }).getByText('Viewer').waitFor();
    await go(other.page, '/settings'); // still drawn as a developer's
    await other.page.getByRole('button', { name: 'Send a test event' }).click();
    await other.page.getByRole('alert').getByText('This needs the role developer; yours is viewer.').waitFor();
    await page.getByRole('button', { name: 'Remove… Chidi Eze' }).click();
    await dialog.getByRole('button', { name: 'Remove' }).click();
    await page.getByRole('row', { name: 'Chidi Eze' }).getByText('Removed').waitFor();
    await other.page.evaluate(() => { location.hash = '#/members'; }); // and on to the login at once
    await other.page.getByText('Your session has ended.').waitFor();
    await other.close();
    await v.close();
  });
}

test('the owner hands the account over, with the password, and is no owner on the page then', async () => {
  const tenant = await newTenant();
  const next = await joined(tenant, 'viewer');
  const v = await visitAs(tenant);
  const { page } = v;
  await go(page, '/members');
  await page.getByRole('button', { name: 'Make owner… Chidi Eze' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Your password').fill('not the password');
  await dialog.getByRole('button', { name: 'Hand over' }).click();
  await dialog.getByRole('alert').getByText('Password is wrong.').waitFor();
  await accessible(page, 'handing over');
  await dialog.getByLabel('Your password').fill(tenant.password);
  await dialog.getByRole('button', { name: 'Hand over' }).click();
  await said(page, 'Chidi Eze owns the account now.');
  await settled(page);
  await page.getByRole('row', { name: 'Chidi Eze' }).getByText('Owner').waitFor();
  assert.equal(await page.getByRole('button', { name: 'Send invitation' }).count() + await page.locator('td button').count(), 0);
  await v.close();
  const w = await visitAs(next);
  await go(w.page, '/members');
  await w.page.getByRole('button', { name: 'Send invitation' }).waitFor();
  await w.close();
});

test('a role sees no button that it may not press', async () => {
  const tenant = await newTenant();
  const { CustomerID } = await open(tenant, 'customer-1', 'Ada Obi', { bvn: '22222222222' });
  await tenant.call('POST', `/v1/customers/${CustomerID}/kyc`, { nin: '12345678901' });
  await tenant.listen();
  const can = {
    viewer: [], finance: ['Approve', 'Misdirected'], developer: ['Show signing secret', 'Save events', 'Send a test event'],
  };
  for (const [role, names] of Object.entries(can)) {
    const v = await visitAs(await joined(tenant, role, `A ${role}`));
    const { page } = v;
    const seen = [];
    for (const path of ['/members', '/settings', '/customers/' + CustomerID]) {
      await go(page, path);
      for (const name of ['Send invitation', 'Require it for the owner and finance…', 'Rotate key…', 'Show signing secret', 'Save events', 'Send a test event', 'Submit', 'Approve']) {
        if (await page.getByRole('button', { name, exact: true }).count()) seen.push(name);
      }
    }
    if (await page.getByRole('link', { name: 'Misdirected' }).count()) seen.push('Misdirected');
    assert.deepEqual(seen.sort(), names.sort(), role);
    if (role === 'viewer') {
      await picture(page, 'viewer-customer-light');
      await go(page, '/settings');
      await looked(page, 'viewer-settings', 'light');
      await go(page, '/misdirected'); // by its address
      await page.getByRole('alert').getByText('This needs the role finance; yours is viewer.').waitFor();
      await picture(page, 'viewer-refused-light');
    }
    await v.close();
  }
});

// scanned reads the QR code on the page as a camera would.
async function scanned(page) {
  const { data, ...size } = await page.locator('img.qr').evaluate(async (img) => {
    await img.decode();
    const c = new OffscreenCanvas(img.naturalWidth, img.naturalHeight).getContext('2d');
    c.drawImage(img, 0, 0);
    return { data: [...c.getImageData(0, 0, img.naturalWidth, img.naturalHeight).data], width: img.naturalWidth, height: img.naturalHeight };
  });
  return decodeQR({ data: Uint8ClampedArray.from(data), ...size });
}

for (const [look, options] of Object.entries(looks)) {
  test(`a second factor is set up by scanning, used, recovered from and turned off, in ${look}`, async () => {
    const tenant = await newTenant('Ọ̀ṣun Stores & Daughters Nigeria Limited, of Ìbàdàn');
    const v = await visitAs(tenant, options);
    const { page } = v;
    await go(page, '/me');
    const part = page.getByRole('region', { name: 'Two-factor authentication' });
    await looked(page, 'me', look);
    await part.getByLabel('Your password').fill('not the password');
    await part.getByRole('button', { name: 'Set up' }).click();
    await part.getByRole('alert').getByText('Password is wrong.').waitFor();
    await part.getByLabel('Your password').fill(tenant.password);
    await part.getByRole('button', { name: 'Set up' }).click();
    const url = new URL(await scanned(page));
    assert.equal(url.href.startsWith('otpauth://totp/'), true, url.href);
    assert.equal(decodeURIComponent(url.pathname).endsWith(':' + tenant.email), true, url.href);
    const secret = url.searchParams.get('secret');
    assert.equal(await part.locator('.secret').textContent(), secret, 'who cannot scan types the same');
    await looked(page, 'me-qr', look);
    await part.getByLabel('Code').fill('000000');
    await part.getByRole('button', { name: 'Turn on' }).click();
    await part.getByRole('alert').getByText('Code is wrong.').waitFor();
    await part.getByLabel('Code').fill(totp(secret));
    await part.getByRole('button', { name: 'Turn on' }).click();
    const codes = page.getByRole('dialog', { name: 'Your recovery codes' });
    const recovery = (await codes.locator('pre').textContent()).split('\n');
    assert.equal(recovery.length, 10);
    await looked(page, 'me-recovery', look);
    await codes.getByRole('button', { name: 'Copy recovery codes' }).click();
    assert.deepEqual((await page.evaluate(() => navigator.clipboard.readText())).split('\n'), recovery);
    await codes.getByRole('button', { name: 'I have stored them' }).click();
    await part.getByText('A login asks for a code of your authenticator').waitFor();
    assert.equal(await page.evaluate((s) => document.documentElement.outerHTML.includes(s), secret), false, 'the secret is gone from the page');
    await looked(page, 'me-on', look);

    const w = await visit(options);
    await login(w.page, tenant.email, tenant.password, totp(secret, 1));
    await w.page.getByRole('heading', { name: tenant.name, level: 1 }).waitFor();
    await w.close();
    const lost = await visit(options); // the phone is gone
    await login(lost.page, tenant.email, tenant.password, recovery[3]);
    await lost.page.getByRole('heading', { name: tenant.name, level: 1 }).waitFor();
    await go(lost.page, '/me');
    await lost.page.getByLabel('Code').fill(recovery[3]);
    await lost.page.getByRole('button', { name: 'Turn off' }).click();
    await lost.page.getByRole('alert').getByText('Code is wrong.').waitFor(); // it worked once
    await lost.page.getByLabel('Code').fill(recovery[7]);
    await lost.page.getByRole('button', { name: 'Turn off' }).click();
    await said(lost.page, 'Two-factor authentication is off.');
    await lost.page.getByRole('button', { name: 'Set up' }).waitFor();
    await lost.close();
    await v.close();
  });
}

test('where a second factor is required, who has none is led to it, and then goes on', async () => {
  const tenant = await newTenant();
  const finance = await joined(tenant, 'finance');
  const viewer = await joined(tenant, 'viewer');
  const v = await visitAs(tenant);
  const { page } = v;
  await go(page, '/members');
  await page.getByRole('button', { name: 'Require it for the owner and finance…' }).click();
  await page.getByRole('dialog').getByText('that includes you').waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Require it' }).click();
  await said(page, 'A second factor is required now.');
  await v.close();
  const free = await visitAs(viewer);
  await free.page.getByRole('heading', { name: tenant.name, level: 1 }).waitFor();
  await free.close();
  for (const member of [tenant, finance]) {
    const w = await visitAs(member);
    await w.page.getByRole('heading', { name: 'Set up two-factor authentication first' }).waitFor();
    await looked(w.page, 'factor-first', 'light');
    await w.page.getByRole('link', { name: 'Set it up' }).click();
    await w.page.getByLabel('Your password').fill(member.password);
    await w.page.getByRole('button', { name: 'Set up' }).click();
    await w.page.getByLabel('Code').fill(totp(await w.page.locator('.secret').textContent()));
    await w.page.getByRole('button', { name: 'Turn on' }).click();
    await w.page.getByRole('button', { name: 'I have stored them' }).click();
    await w.page.getByText('Your organisation requires it for your role.').waitFor();
    assert.equal(await w.page.getByRole('button', { name: 'Turn off' }).count(), 0);
    await go(w.page, '/');
    await w.page.getByRole('heading', { name: tenant.name, level: 1 }).waitFor();
    await w.close();
  }
});

test('a session is ended from another one: one\'s own, and by the owner a member\'s', async () => {
  const tenant = await newTenant();
  const member = await joined(tenant, 'viewer');
  const [v, same, theirs] = [await visitAs(tenant), await visitAs(tenant), await visitAs(member)];
  const list = (page) => page.getByRole('region', { name: 'Sessions' });
  await go(theirs.page, '/me');
  await list(theirs.page).getByText('This session').waitFor();
  assert.equal(await list(theirs.page).getByText(tenant.email).count(), 0, 'a member sees its own alone');
  await go(v.page, '/me');
  for (const [email, other] of [[tenant.email, same], [member.email, theirs]]) {
    for (const button of await list(v.page).getByRole('button', { name: `End the session of ${email} ` }).all().then((all) => all.map(() => list(v.page).getByRole('button', { name: `End the session of ${email} ` }).first()))) {
      await button.click();
      await said(v.page, 'The session has ended.');
    }
    await ended(other.page);
    await other.close();
  }
  await go(v.page, '/');
  await v.page.getByRole('button', { name: 'Refresh' }).click();
  await v.page.getByText('Refreshed.').waitFor(); // its own goes on
  await v.close();
});

test('members and a second factor by keyboard alone', async () => {
  const tenant = await newTenant();
  await joined(tenant, 'finance');
  const v = await visitAs(tenant);
  const { page } = v;
  await go(page, '/members');
  await tabTo(page, 'E-mail');
  await page.keyboard.type('viewer@shop.example');
  await tabTo(page, 'Role');
  await page.keyboard.press('End');
  await tabTo(page, 'Send invitation');
  await page.keyboard.press('Enter');
  await page.getByRole('row', { name: 'viewer@shop.example' }).getByText('Viewer', { exact: true }).waitFor();
  await tabTo(page, 'Change role… Chidi Eze');
  await page.keyboard.press('Enter');
  await tabTo(page, 'Role');
  await page.keyboard.press('Home');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.getByRole('row', { name: 'Chidi Eze' }).getByText('Developer').waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.tagName), 'H1', 'the focus is not lost with the row');

  await go(page, '/me');
  await tabTo(page, 'Your password');
  await page.keyboard.type(tenant.password);
  await page.keyboard.press('Enter');
  await page.locator('img.qr').waitFor();
  await tabTo(page, 'Code');
  await page.keyboard.type(totp(await page.locator('.secret').textContent()));
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').waitFor();
  await page.keyboard.press('Escape');
  assert.ok(await page.getByRole('dialog').isVisible(), 'codes that cannot be read again are not lost by a slip');
  await tabTo(page, 'I have stored them');
  await page.keyboard.press('Enter');
  await page.getByText('A login asks for a code of your authenticator').waitFor();
  await v.close();
});
