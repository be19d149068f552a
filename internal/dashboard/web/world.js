// What the tests of one file share: a running service, a browser, and tenants to be made in them. No other file's tests see any of it.

import { after, before } from 'node:test';
import { launch, settled, visitor } from './browser.js';
import { servers, start, until } from './stack.js';

export const world = {};

before(async () => {
  world.servers = await servers();
  world.service = await start(world.servers);
  world.browser = await launch();
}, { timeout: 180000 });

after(async () => {
  await world.browser?.close();
  try {
    await world.service?.stop();
  } finally {
    await world.servers?.stop();
  }
}, { timeout: 60000 });

let made = 0;

// newTenant signs a tenant up over HTTP: {name, email, password, key, call(method, path, body)}.
export async function newTenant(name = 'Ada Stores') {
  const { service } = world;
  const t = { name, email: `tenant-${++made}@shop.example`, password: 'correct horse battery' };
  const { tenantId } = await service.request('POST', '/register', { name, email: t.email, password: t.password });
  t.key = (await service.request('POST', '/auth/verify-email', { tenantId, otp: await service.code(t.email) })).apiKey;
  t.call = (method, path, body) => service.request(method, path, body, { 'X-API-Key': t.key });
  t.listen = () => t.call('POST', '/auth/webhook-url', { url: service.shop.url });
  return t;
}

// pay has somebody pay to an account at the bank.
export function pay(nuban, amount, more = {}) {
  return world.service.request('POST', world.service.bank + '/control/pay', { nuban, amount, sender: 'Bola Ade', narration: 'School fees', ...more });
}

// entry waits until the account's newest entry is as the condition wants it.
export function entry(tenant, ref, what, ok) {
  return until(what, async () => {
    const { lines } = await tenant.call('GET', `/v1/accounts/${ref}/statement?limit=100`);
    return lines.map((l) => l.entry).findLast(ok);
  });
}

// open opens an account and returns it.
export function open(tenant, externalRef, name, more = {}) {
  return tenant.call('POST', '/v1/accounts', { externalRef, name, ...more });
}

// joined makes a member of the tenant, by invitation: {email, password}, which log in.
export async function joined(tenant, role, name = 'Chidi Eze') {
  const { service } = world;
  const member = { email: `${role}-of-${tenant.email}`, password: 'correct horse battery', name };
  const owner = await visitAs(tenant);
  await owner.context.request.post('/auth/members', { data: { email: member.email, role } });
  await owner.close();
  const code = await service.code(member.email, /^ {4}([0-9A-Za-z_-]{43})\r?$/m);
  await service.request('POST', '/auth/accept-invitation', { code, name, password: member.password });
  return member;
}

// visit opens the dashboard without a session.
export async function visit(options) {
  const v = await visitor(world.browser, world.service.url, options);
  await v.page.goto('/dashboard/');
  await settled(v.page);
  return v;
}

// visitAs opens the dashboard in a session of the tenant.
export async function visitAs(tenant, options) {
  const v = await visitor(world.browser, world.service.url, options);
  await v.context.request.post('/auth/login', { data: { email: tenant.email, password: tenant.password } });
  await v.page.goto('/dashboard');
  await settled(v.page);
  return v;
}
