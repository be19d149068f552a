// Commands for a terminal. The key stands in a variable: the dashboard does not know it.

import { mode, segment } from './api.js';

// commands makes curl lines for the service at origin, with the tenant's own references where they are known.
export function commands(origin, { ref = 'customer-1', transfer = 'AJO…' } = {}) {
  const key = ` \\\n  -H "X-API-Key: $KEY"`;
  const json = (body) => ` \\\n  -H 'Content-Type: application/json' \\\n  -d ${quoted(JSON.stringify(body))}`;
  const at = '$API/v1/accounts/' + segment(ref);
  return {
    variables: `API=${origin}\nKEY=${mode.test ? 'ajo_test_…' : 'ajo_…'}`,
    open: `curl -s "$API/v1/accounts"${key}${json({ externalRef: 'customer-1', name: 'Ada Obi' })}`,
    accounts: `curl -s "$API/v1/accounts"${key}`,
    account: `curl -s "${at}"${key}`,
    balance: `curl -s "${at}/balance"${key}`,
    statement: `curl -s "${at}/statement"${key}`,
    fee: `curl -s "$API/v1/fees/calculate?amount=5000.00"${key}`,
    banks: `curl -s "$API/v1/transfers/banks"${key}`,
    lookup: `curl -s "$API/v1/transfers/lookup"${key}${json({ accountNumber: '0123456789', bankCode: '044' })}`,
    settle: `curl -s "${at}/settle"${key} \\\n  -H 'Idempotency-Key: order-1001'${json({ amount: '1000.00', bankCode: '044', accountNumber: '0123456789', narration: 'Rent' })}`,
    transfer: `curl -s "$API/v1/transfers/${transfer}"${key}`,
    deadLetters: `curl -s "$API/v1/webhooks/dead-letters"${key}`,
    url: `curl -s "$API/auth/webhook-url"${key}${json({ url: 'https://shop.example/ajo/hook' })}`,
    secret: `curl -s -X POST "$API/auth/webhook-secret"${key}`,
  };
}

// quoted writes a text as one word of a shell.
function quoted(text) {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
