// The API's reference at /docs: what people do with it, and what holds in every look.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessible, fits, looks, picture, visitor } from './browser.js';
import { until } from './stack.js';
import { newTenant, open, world } from './world.js';

async function reference(options) {
  const v = await visitor(world.browser, world.service.url, options);
  await v.page.goto('/docs');
  await v.page.locator('#operations-Accounts-listAccounts').waitFor({ timeout: 60000 }); // near the top: what is further down may not be rendered yet
  return v;
}

// audiences are the headings above the groups. The viewer renders only what is near the window, so the page is scrolled to its end.
async function audiences(page) {
  const seen = new Set();
  await until('the end of the page', async () => {
    for (const text of await page.locator('.audience').allTextContents()) seen.add(text.split(':')[0]);
    return page.evaluate(() => new Promise((done) => {
      scrollBy(0, innerHeight / 2);
      requestAnimationFrame(() => requestAnimationFrame(() => done(scrollY + innerHeight >= document.documentElement.scrollHeight - 1)));
    }));
  });
  await page.evaluate(() => scrollTo(0, 0));
  return [...seen];
}

for (const [look, options] of Object.entries(looks)) {
  test(`the reference in ${look}: grouped, nothing wider than the screen, nothing new that axe finds serious`, async () => {
    const v = await reference(options);
    const { page } = v;
    await fits(page, `the reference in ${look}`);
    await picture(page, `reference-${look}`);
    assert.deepEqual(await audiences(page), ['Tenant API', 'Sign-up and dashboard', "The bank's webhook, and the service itself"]);
    await page.getByPlaceholder('Filter by').fill('/settle');
    await page.locator('#operations-Settlements-settle .opblock-summary-control').click();
    await page.getByText('Idempotency-Key').first().waitFor();
    await fits(page, `an endpoint in ${look}`);
    await accessible(page, `an endpoint in ${look}`);
    await picture(page, `reference-endpoint-${look}`);
    await v.close();
  });
}

test('an endpoint is found in the reference, and called with a key', async () => {
  const tenant = await newTenant();
  await open(tenant, 'customer-1', 'Ada Obi');
  const v = await reference();
  const { page } = v;
  const search = page.getByPlaceholder('Filter by');
  await search.fill('rotate the api');
  await until('the others to go', async () => await page.locator('.opblock-tag-section .opblock').count() === 1);
  assert.ok(await page.locator('#operations-Tenant-rotateKey').isVisible());
  await search.fill('/balance');
  await page.locator('#operations-Accounts-getBalance .opblock-summary-control').click();

  await page.getByRole('button', { name: 'Authorize' }).first().click();
  await page.locator('.auth-container', { hasText: 'apiKey' }).first().locator('input').fill(tenant.key);
  await page.getByRole('button', { name: 'Apply credentials' }).first().click();
  await page.getByRole('button', { name: 'Close', exact: true }).first().click();
  await page.getByPlaceholder('accountRef').fill('customer-1');
  const [answer] = await Promise.all([page.waitForResponse('**/v1/accounts/customer-1/balance'), page.getByRole('button', { name: 'Execute' }).click()]);
  assert.equal(answer.status(), 200);
  assert.equal(answer.request().headers()['x-api-key'], tenant.key);
  await page.locator('.live-responses-table').getByText('"0.00"').first().waitFor();
  await page.reload();
  assert.equal(await page.evaluate(() => JSON.stringify([localStorage, sessionStorage]).includes('ajo_')), false, 'no key is kept');
  await v.close();
});
