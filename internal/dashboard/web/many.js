// Lists of a business that is used: 300 accounts and 20,000 payments, which are sorted, summed up, paged and found.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { go, looked, looks, settled } from './browser.js';
import { newTenant, visitAs, world } from './world.js';

const accounts = 300;
const payments = 20000; // one a minute up to now; each hundredth is reversed

// fill gives a tenant its history by SQL, past the service: balances are those of its payments.
async function fill(tenant) {
  const { id } = await owner(tenant);
  const name = (n) => `(ARRAY['Ada','Bola','Chidi','Zainab','Tunde','Ngozi'])[1 + ${n} % 6] || ' ' || (ARRAY['Obi','Ade','Eze','Musa','Bello'])[1 + ${n} % 5]`;
  const key = (kind, n) => `md5('${id}${kind}' || ${n})::uuid`;
  const gross = 'CASE WHEN n = 777 THEN 765432.10 ELSE 1000 + n % 500 END';
  const sql = `BEGIN;
    SET LOCAL session_replication_role = replica;
    INSERT INTO customers (id, tenant_id, external_ref, name, created_at, updated_at)
      SELECT ${key('c', 'n')}, '${id}', 'customer-' || n, ${name('n')}, now(), now() FROM generate_series(1, ${accounts}) n;
    INSERT INTO accounts (id, tenant_id, customer_id, account_ref, provider, bank_account_number, bank_account_name, bank_name, status, type, created_at, updated_at)
      SELECT ${key('a', 'n')}, '${id}', ${key('c', 'n')}, 'customer-' || n, 'nomba', (7000000000 + n)::text, ${name('n')}, 'Test Bank', 'active', 'dedicated', now(), now()
      FROM generate_series(1, ${accounts}) n;
    INSERT INTO ledger_entries (id, tenant_id, account_id, seq, direction, amount, fee, status, transaction_group_id, running_balance, narration, sender_name, provider_txn_ref, created_at)
      SELECT ${key('e', 'n')}, '${id}', ${key('a', `1 + n % ${accounts}`)}, 1 + n / ${accounts}, 'credit', ${gross} - 10, 10, CASE WHEN n % 100 = 0 THEN 'reversed' ELSE 'confirmed' END,
        ${key('g', 'n')}, 0, 'Order ' || n, ${name('n / 7')}, 'TXN-' || n, now() - n * interval '1 minute'
      FROM generate_series(1, ${payments}) n;
    INSERT INTO ledger_balances (account_id, tenant_id, total_credits, last_seq)
      SELECT a.id, '${id}', coalesce(sum(e.amount) FILTER (WHERE e.status = 'confirmed'), 0), max(e.seq) FROM accounts a JOIN ledger_entries e ON e.account_id = a.id WHERE a.tenant_id = '${id}' GROUP BY a.id;
    COMMIT;
    ANALYZE ledger_entries; ANALYZE accounts; ANALYZE customers; ANALYZE ledger_balances;`;
  await promisify(execFile)('psql', ['-q', '-v', 'ON_ERROR_STOP=1', '-d', world.servers.database, '-c', sql]);
}

// owner is what the tenant's session says of it.
async function owner(tenant) {
  const v = await visitAs(tenant);
  const me = await (await v.context.request.get('/auth/me')).json();
  await v.close();
  return me;
}

let filled;
const busy = () => (filled ??= newTenant('Many Stores').then(async (t) => {
  await fill(t);
  return t;
}));

const column = (page, name) => page.locator(`td[data-name="${name}"]`).allTextContents();
const numbers = (texts) => texts.map((t) => Number(t.replaceAll(/[^0-9.]/g, '')));
const ordered = (list, compare, what) => list.forEach((v, i) => assert.ok(i === 0 || compare(list[i - 1], v), `${what}: ${list[i - 1]}, ${v}`));

test('20,000 payments: found, sorted, and summed up where they are not too many', async () => {
  const t = await busy();
  for (const [look, options] of Object.entries(looks)) {
    const v = await visitAs(t, options);
    const { page } = v;
    await go(page, '/payments');
    await page.getByText('At least 10,000 payments', { exact: true }).waitFor();
    await page.getByText('More than 10,000 payments: choose dates to see their totals.').waitFor();
    await looked(page, 'many-payments', look);
    if (look === 'phone') {
      await page.getByLabel('Order', { exact: true }).selectOption('Oldest first');
      await page.waitForURL(/sort=created-asc/);
    } else {
      const head = page.getByRole('columnheader', { name: 'When' });
      assert.equal(await head.getAttribute('aria-sort'), 'descending');
      await head.getByRole('button').focus();
      await page.keyboard.press('Enter');
      await page.waitForFunction(() => document.activeElement.dataset.sort === 'created' && document.activeElement.closest('th').ariaSort === 'ascending');
    }
    await settled(page);
    const whens = await page.locator('tbody th time').evaluateAll((all) => all.map((e) => e.dateTime));
    ordered(whens, (a, b) => a <= b, 'oldest first');
    await page.getByRole('button', { name: 'Show more' }).click();
    await page.getByText(/The first 100 of/).waitFor();

    await page.getByLabel('Order', { exact: true }).selectOption('Largest first');
    await page.getByRole('alert').getByText('More than 10000 rows match: narrow the list to sort by this.').waitFor();
    const day = new Date(Date.now() - 86400000 + 3600000).toISOString().slice(0, 10);
    await page.getByLabel('From', { exact: true }).fill(day);
    await page.getByRole('region', { name: 'Sums' }).getByText('Gross').waitFor();
    await settled(page);
    ordered(numbers(await column(page, 'Gross')), (a, b) => a >= b, 'largest first');
    assert.equal(numbers(await column(page, 'Gross'))[0], 765432.1);
    await page.getByRole('region', { name: 'Sums' }).getByText(/not in the balance: [0-9]+ payments of ₦[0-9,.]+ reversed/).waitFor();
    await looked(page, 'sums', look);
    await page.locator('tbody th a').first().click();
    await page.getByRole('region', { name: 'Timeline' }).waitFor();
    await page.goBack();
    await page.getByRole('region', { name: 'Sums' }).waitFor();
    assert.equal(await page.getByLabel('Order', { exact: true }).inputValue(), 'amount-desc', 'the order is kept');
    await v.close();
  }
});

test('300 accounts are sorted by their headings and found', async () => {
  const v = await visitAs(await busy());
  const { page } = v;
  await go(page, '/accounts');
  await page.getByText('The first 50 of 300 accounts', { exact: true }).waitFor();
  for (const [name, cells, compare, read] of [
    ['Balance', 'Balance', (a, b) => a >= b, numbers], ['Balance', 'Balance', (a, b) => a <= b, numbers],
    ['Holder', 'Holder', (a, b) => a.toLowerCase() <= b.toLowerCase(), (x) => x], ['Holder', 'Holder', (a, b) => a.toLowerCase() >= b.toLowerCase(), (x) => x],
  ]) {
    await page.getByRole('columnheader', { name }).getByRole('button').click();
    await page.waitForFunction((n) => document.activeElement.textContent.startsWith(n), name);
    await settled(page);
    ordered(read(await column(page, cells)), compare, name);
  }
  await page.getByRole('button', { name: 'Show more' }).click();
  await page.getByText('The first 100 of 300 accounts', { exact: true }).waitFor();
  ordered(await column(page, 'Holder'), (a, b) => a.toLowerCase() >= b.toLowerCase(), 'two pages');
  await page.keyboard.press('/');
  await page.keyboard.type('TXN-19999');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Search: TXN-19999' }).waitFor();
  await page.getByText(/Only the newest 10,000 of each list were searched|1 payment/).first().waitFor();
  await page.getByRole('searchbox', { name: 'Search everything' }).fill('7000000123');
  await page.keyboard.press('Enter');
  await page.getByRole('region', { name: 'Accounts' }).getByText('customer-123').waitFor();
  await v.close();
});
