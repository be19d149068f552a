// Opens a virtual account, waits until it is paid, and pays out what came in. Node 18 or later.
//
//   AJO_API_KEY=ajo_… node docs/examples/node/payout.mjs customer-1 044 0123456789
import { randomUUID } from "node:crypto";

const base = process.env.AJO_URL ?? "http://127.0.0.1:8080";
const key = process.env.AJO_API_KEY;
const [ref, bankCode, accountNumber] = process.argv.slice(2);
if (!key || !accountNumber) {
  console.error("usage: AJO_API_KEY=… payout.mjs <your reference> <bank code> <account number>");
  process.exit(2);
}
const deadline = Date.now() + 5 * 60 * 1000;
const sleep = (seconds) => new Promise((wake) => setTimeout(wake, seconds * 1000));

// call makes a call, and makes it again while that is of use: over the limit (429), an earlier call that is still running (409
// with Retry-After), the service's or the bank's own trouble (5xx), no answer. That is safe for what only reads, for opening an
// account, which its reference names, and with an Idempotency-Key.
async function call(method, path, body, headers = {}) {
  for (;;) {
    let wait = 1;
    try {
      const response = await fetch(base + path, {
        method,
        headers: { "X-API-Key": key, ...(body && { "Content-Type": "application/json" }), ...headers },
        body: body && JSON.stringify(body),
        redirect: "error", // the key would go along
        signal: AbortSignal.timeout(30_000),
      });
      if (response.ok) return await response.json();
      const { error } = await response.json().catch(() => ({ error: response.statusText }));
      const running = response.status === 409 && response.headers.has("Retry-After");
      if (response.status !== 429 && response.status < 500 && !running) throw new Refused(`${response.status}: ${error}`);
      wait = Number(response.headers.get("Retry-After")) || wait;
    } catch (error) {
      if (error instanceof Refused) throw error;
    }
    if (Date.now() > deadline) throw new Error(`${method} ${path}: no good answer`);
    await sleep(wait);
  }
}
class Refused extends Error {}

const account = encodeURIComponent(ref);

// The same reference gives the same account, so this may run again.
const opened = await call("POST", "/v1/accounts", { externalRef: ref, name: "Ada Obi" });
console.log("pay to", opened.BankAccountNumber, opened.BankName);

// A webhook tells of payments as they come (see receive.mjs); a program that runs once may as well ask.
let amount = "0.00";
while (amount === "0.00") {
  await sleep(1);
  amount = (await call("GET", `/v1/accounts/${account}/balance`)).balance; // a string: never a float
}
console.log("received NGN", amount);

const holder = await call("POST", "/v1/transfers/lookup", { bankCode, accountNumber });
console.log("paying to", holder.AccountName);

// The key makes it safe to ask again when the answer is lost: a new one for each payout, kept beside your own record of it before
// the first call.
const payoutKey = randomUUID();
const order = { amount, bankCode, accountNumber, accountName: holder.AccountName, narration: `payout of ${ref}` };
const accepted = await call("POST", `/v1/accounts/${account}/settle`, order, { "Idempotency-Key": payoutKey });
console.log("accepted as", accepted.merchantTxRef);

let transfer = accepted;
while (!["success", "failed", "refunded"].includes(transfer.status)) {
  await sleep(1);
  transfer = await call("GET", `/v1/transfers/${accepted.merchantTxRef}`);
}
console.log("the transfer ended:", transfer.status);
