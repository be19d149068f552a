// A real browser, Debian's Chromium, with eyes on what no page may do: a script error, a breach of the page's policy, a request
// to another host.

import assert from 'node:assert/strict';
import { readFile, mkdir } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { chromium } from 'playwright-core';

const pictures = resolve(import.meta.dirname, '../../../.ajo/web');
const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

export const phone = { width: 360, height: 740 };
export const desk = { width: 1280, height: 900 };

// looks are how people see the pages.
export const looks = {
  light: { viewport: desk, colorScheme: 'light' }, dark: { viewport: desk, colorScheme: 'dark' },
  phone: { viewport: phone, colorScheme: 'light', hasTouch: true, isMobile: true },
};

// looked checks what is on the screen, and keeps a picture of it.
export async function looked(page, name, look) {
  await fits(page, `${name} in ${look}`);
  await accessible(page, `${name} in ${look}`);
  await picture(page, `${name}-${look}`);
}

// said waits until the page announces a text.
export const said = (page, text) => page.locator('#status').getByText(text).waitFor();

// launch starts the browser; a new empty profile is Playwright's own doing.
export async function launch() {
  await mkdir(pictures, { recursive: true });
  return chromium.launch({
    executablePath: process.env.AJO_CHROMIUM ?? '/usr/bin/chromium',
    args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
  });
}

// visitor opens a context of its own: {page, close()}. close fails when the page did what no page may.
export async function visitor(browser, url, options = {}) {
  const context = await browser.newContext({ baseURL: url, viewport: desk, locale: 'en-GB', timezoneId: 'America/New_York', ...options });
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  const page = await context.newPage();
  page.setDefaultTimeout(15000);
  const wrong = [];
  page.on('pageerror', (e) => wrong.push(String(e)));
  page.on('console', (m) => {
    // That an answer was a refusal is logged by the browser itself, and is often what a test is about.
    if (m.type() === 'error' && !m.text().startsWith('Failed to load resource')) wrong.push(m.text());
  });
  page.on('request', (r) => {
    if (!r.url().startsWith(url) && !/^(blob|data):/.test(r.url())) wrong.push('another host: ' + r.url());
  });
  return {
    page, context,
    async close() {
      await context.close();
      assert.deepEqual(wrong, []);
    },
  };
}

// settled waits until nothing of the page is loading any more.
export async function settled(page) {
  await page.waitForFunction(() => !document.querySelector('[aria-busy="true"]') && document.querySelector('h1'));
}

// putAway reads the secret that a dialog shows once, copies it by its button, and ends the dialog.
export async function putAway(page, title, what) {
  const dialog = page.getByRole('dialog', { name: title });
  const secret = await dialog.locator('.secret').textContent();
  await page.keyboard.press('Escape');
  assert.ok(await dialog.isVisible(), 'a secret that cannot be read again is not lost by a slip');
  await dialog.getByRole('button', { name: `Copy ${what}` }).click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), secret);
  await dialog.getByRole('button', { name: 'I have stored it' }).click();
  await page.locator('dialog').waitFor({ state: 'detached' }); // a closed dialog has no role any more, but is there until the browser says that it closed
  await settled(page);
  assert.equal(await page.evaluate((s) => document.documentElement.outerHTML.includes(s), secret), false, 'the secret is gone from the page');
  return secret;
}

// go opens an address of the dashboard and waits for it.
export async function go(page, path) {
  await page.evaluate((p) => { location.hash = '#' + p; }, path);
  await page.waitForFunction((p) => location.hash === '#' + p, path);
  await settled(page);
}

// ended fails unless the page's session has ended, as the page finds out when it asks. A beginner's overview asks every four seconds by
// itself: it may have found out before, and then there is no button any more.
export async function ended(page) {
  const note = page.getByText('Your session has ended.');
  await page.getByRole('button', { name: 'Refresh' }).or(note).first().waitFor();
  await page.evaluate(() => [...document.querySelectorAll('button')].find((b) => b.textContent === 'Refresh')?.click());
  await note.waitFor();
}

// reloadedWithGo reloads the page and opens another address before who is there, which a path answers, is known.
export async function reloadedWithGo(page, me, path) {
  let opened;
  const before = new Promise((done) => { opened = done; });
  await page.route(me, async (route) => {
    await before;
    await route.continue();
  });
  await page.reload();
  await page.evaluate((p) => new Promise((heard) => {
    addEventListener('hashchange', heard, { once: true });
    location.hash = '#' + p;
  }), path);
  opened();
}

// picture keeps what the page looks like, whole; of a dialog only what the screen shows.
export async function picture(page, name) {
  const fullPage = await page.locator('dialog').count() === 0;
  await page.screenshot({ path: join(pictures, name + '.png'), fullPage });
}

// accessible fails on findings of axe that are serious or critical.
export async function accessible(page, what) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  const bad = violations.filter((v) => ['serious', 'critical'].includes(v.impact))
    .map((v) => `${what}: ${v.id}: ${v.help}: ${v.nodes.map((n) => n.html + ' ' + (n.any[0]?.message ?? '')).join(' | ')}`);
  assert.deepEqual(bad, []);
}

// fits fails when the page is wider than the screen.
export async function fits(page, what) {
  const wide = await page.evaluate(() => ({
    page: document.documentElement.scrollWidth, screen: innerWidth,
    cut: [...document.querySelectorAll('.table, pre, .card')].filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.outerHTML.slice(0, 160)),
    culprits: [...document.querySelectorAll('body *')].filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && getComputedStyle(e).position !== 'absolute')
      .slice(0, 5).map((e) => e.outerHTML.slice(0, 160)),
  }));
  assert.ok(wide.page <= wide.screen, `${what} is ${wide.page} wide on ${wide.screen}: ${wide.culprits.join('\n')}`);
  assert.deepEqual(wide.cut, [], `${what} has parts that are wider than their place`);
}

// tabTo presses Tab until what has the name (or label) has the focus, which must be seen.
export async function tabTo(page, name) {
  for (let i = 0; i < 80; i++) {
    const at = await page.evaluate(() => {
      const e = document.activeElement;
      const style = getComputedStyle(e);
      const label = e.labels?.[0]?.textContent ?? e.getAttribute('aria-label') ?? e.textContent;
      return { label: label.trim(), seen: style.outlineStyle !== 'none' && style.outlineWidth !== '0px' };
    });
    if (at.label === name) {
      assert.ok(at.seen, `the focus on ${name} can be seen`);
      return;
    }
    await page.keyboard.press('Tab');
  }
  assert.fail(`${name} cannot be reached by Tab`);
}
