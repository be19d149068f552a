// The whole service as real processes on free ports: the fake bank, the API, a worker and the sandbox beside a Postgres and a Redis, all of
// them this program's own, and a tenant's endpoint. Nothing of it outlives this program.

import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const root = resolve(import.meta.dirname, '../../..');
const ajo = join(root, 'bin/ajo');
const limit = 30000;

// until waits for f to return something true, and returns it.
export async function until(what, f, within = limit) {
  for (const end = Date.now() + within; ;) {
    const got = await f();
    if (got) return got;
    if (Date.now() > end) throw new Error(`waited ${within} ms for ${what}`);
    await new Promise((wake) => setTimeout(wake, 20));
  }
}

const running = new Set();
process.on('exit', () => running.forEach((p) => p.child.kill('SIGKILL')));

// run starts the binary and keeps what it prints.
function run(args, env, cwd) {
  const child = spawn(ajo, args, { env, cwd, stdio: ['ignore', 'pipe', 'pipe'] });
  const p = { child, env, out: '', ended: null };
  p.ended = new Promise((done) => child.on('close', (code) => {
    running.delete(p);
    done(code);
  }));
  running.add(p);
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (d) => { p.out += d; });
  p.says = async (form) => {
    let code;
    p.ended.then((c) => { code = c ?? -1; });
    const m = await until(`ajo ${args[0]} to say ${form}`, () => {
      if (code !== undefined) throw new Error(`ajo ${args[0]} ended with ${code}: ${p.out}`);
      return form.exec(p.out);
    });
    return m[1];
  };
  return p;
}

// servers starts a Postgres and a Redis: {database, redis, stop()}. `ajo stack` ends them when the command that it runs has read its input
// to the end, which is also so when this program is gone.
export async function servers() {
  const child = spawn(ajo, ['stack', '--', 'sh', '-c', 'echo "$AJO_TEST_DATABASE_URL $AJO_TEST_REDIS_URL"; exec cat'], { cwd: root, stdio: 'pipe' });
  let said = '';
  child.stderr.on('data', (d) => { said += d; });
  const ended = once(child, 'close');
  const [line] = await Promise.race([once(child.stdout, 'data'), ended]);
  const [database, redis] = String(line).trim().split(' ');
  if (!redis) throw new Error('ajo stack ended: ' + said);
  return {
    database, redis,
    async stop() {
      child.stdin.end();
      await ended;
    },
  };
}

// at is another database of the same server.
function at(url, path) {
  const other = new URL(url);
  other.pathname = path;
  return other.href;
}

// start returns a service that runs beside the servers: {url, ops, bank, shop, code(email), request(…), tool(…), stop()}.
export async function start({ database, redis }) {
  const dir = await mkdtemp(join(tmpdir(), 'ajo-web-'));
  const shop = await endpoint();
  const env = {
    PATH: process.env.PATH, HOME: dir, LOG_FORMAT: 'json', AJO_HTTP_ADDR: '127.0.0.1:0', AJO_OPS_ADDR: '127.0.0.1:0', AJO_DRAIN: '0s',
    AJO_DATABASE_URL: database, AJO_REDIS_URL: redis, AJO_ENCRYPTION_KEYS: 'web:' + randomBytes(32).toString('base64'),
    AJO_PROVIDER_ACCOUNT_ID: 'an-account', AJO_PROVIDER_CLIENT_ID: 'a-client', AJO_PROVIDER_CLIENT_SECRET: 'a-client-secret', AJO_PROVIDER_WEBHOOK_SECRET: 'a-webhook-secret',
    AJO_PROVIDER_RATE: '-1', AJO_PROVIDER_POST_RATE: '-1', AJO_PROVIDER_RECIPIENT_RATE: '-1', AJO_RATE_LIMIT: '100000-M', AJO_RATE_LIMIT_OPEN: '100000-M',
    AJO_MAIL_DIR: join(dir, 'mail'), AJO_SPOOL_DIR: join(dir, 'spool'),
    AJO_CONFIRM_DELAYS: '1s', AJO_DELIVERY_DELAYS: '1s,1s,1s,1s,1s', AJO_SETTLE_DELAYS: '1s', AJO_SWEEP_EVERY: '1s',
  };
  const migrated = run(['migrate'], env, dir);
  if (await migrated.ended !== 0) throw new Error(migrated.out);
  const bank = await run(['fakebank', '--addr', '127.0.0.1:0', '--webhook-url', '', '--payout-delay', '500ms', '--recipient-rate', '0'], env, dir).says(/service\): (http\S+)/);
  env.AJO_PROVIDER_URL = bank; // and no NIN service: every submission waits for a review
  const sandbox = run(['sandbox'], {
    ...env, AJO_TEST_SECRET: randomBytes(32).toString('hex'), AJO_DATABASE_URL: at(database, '/postgres'), AJO_REDIS_URL: at(env.AJO_REDIS_URL, '/1'), AJO_SPOOL_DIR: join(dir, 'sandbox', 'spool'),
  }, dir);
  env.AJO_TEST_URL = await sandbox.says(/sandbox listens","url":"(http:\/\/127[^"]+)"/);
  env.AJO_TEST_SECRET = sandbox.env.AJO_TEST_SECRET;
  const api = run(['api'], env, dir);
  const url = await api.says(/"url":"(http:\/\/127[^"]+)"/);
  const ops = 'http://' + await api.says(/operations listener started","address":"([^"]+)"/);
  const worker = run(['worker'], env, dir);
  await worker.says(/(the worker runs)/);
  const service = {
    url, ops, bank, shop,
    // code waits for the mail to an address and returns the code in it, which has a form.
    code: (email, form = /\r?\n\r?\n[\s\S]*?\b([0-9]{6})\b/) => until(`a mail to ${email}`, async () => {
      const names = await readdir(env.AJO_MAIL_DIR).catch(() => []);
      // A name with a dot in front is a mail that is being written, and about to be renamed.
      for (const name of names.filter((n) => !n.startsWith('.')).sort().reverse()) {
        const mail = await readFile(join(env.AJO_MAIL_DIR, name), 'utf8');
        if (mail.includes(email) && form.test(mail)) return form.exec(mail)[1];
      }
    }),
    // request calls the API (or the bank, by a whole URL) and returns the decoded answer.
    async request(method, path, body, headers = {}) {
      const answer = await fetch(path.startsWith('http') ? path : url + path, {
        method, headers: { ...(body && { 'Content-Type': 'application/json' }), ...headers }, body: body && JSON.stringify(body),
      });
      const text = await answer.text();
      if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
      return text ? JSON.parse(text) : null;
    },
    // tool runs one of the operators' commands and returns what it prints.
    async tool(...args) {
      const p = run(args, env, dir);
      if (await p.ended !== 0) throw new Error(p.out);
      return p.out;
    },
    async stop() {
      const all = [...running];
      for (const p of all) p.child.kill('SIGTERM');
      const late = setTimeout(() => all.forEach((p) => p.child.kill('SIGKILL')), 15000);
      await Promise.all(all.map((p) => p.ended));
      clearTimeout(late);
      await shop.close();
      await rm(dir, { recursive: true, force: true });
      for (const p of [api, worker, sandbox]) if (/panic:|DATA RACE/.test(p.out)) throw new Error(p.out.slice(-4000));
    },
  };
  await service.request('POST', bank + '/control/settings', { webhookUrl: url + '/webhooks/provider' });
  return service;
}

// endpoint plays the tenant's program that receives payments' events; failing makes it refuse them.
async function endpoint() {
  const shop = { failing: false, received: [] };
  const server = createServer((req, res) => {
    let body = '';
    req.on('data', (d) => { body += d; });
    req.on('end', () => {
      shop.received.push({ headers: req.headers, body });
      res.writeHead(shop.failing ? 500 : 200, { 'Content-Type': 'text/plain' });
      res.end(shop.failing ? 'the shop is <b>closed</b> & dark' : 'thank you');
    });
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  shop.url = `http://127.0.0.1:${server.address().port}/hook`;
  shop.close = () => new Promise((done) => {
    server.closeAllConnections();
    server.close(done);
  });
  return shop;
}
