// A tenant's webhook endpoint: it verifies each webhook, does once what it asks for, and answers. Node 18 or later.
//
//   AJO_WEBHOOK_SECRET=… ADDR=127.0.0.1:3000 node docs/examples/node/receive.mjs
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

const secret = process.env.AJO_WEBHOOK_SECRET; // from POST /auth/webhook-secret
if (!secret) throw new Error("AJO_WEBHOOK_SECRET is not set");

// verify returns the event of a genuine, fresh webhook, and throws for anything else. body is a Buffer: the bytes as they came.
export function verify(header, body, secret, toleranceSeconds = 300) {
  let t;
  const signatures = [];
  for (const part of (header ?? "").split(",")) {
    const [name, value] = part.split(/=(.*)/s);
    if (name === "t" && t === undefined) t = value;
    else if (name === "t") throw new Error("two timestamps");
    else if (name === "v1") signatures.push(value); // two of them while the secret is replaced
  }
  if (!/^\d+$/.test(t ?? "") || signatures.length === 0) throw new Error("unsigned");
  if (Math.abs(Math.floor(Date.now() / 1000) - Number(t)) > toleranceSeconds) throw new Error("too old, or the clock is wrong");
  const want = Buffer.from(createHmac("sha256", secret).update(`${t}.`).update(body).digest("hex"));
  const good = signatures.some((s) => {
    const given = Buffer.from(s ?? "");
    return given.length === want.length && timingSafeEqual(given, want);
  });
  if (!good) throw new Error("the signature does not match");
  return JSON.parse(body.toString("utf8"));
}

const done = new Set(); // in your database, in the transaction that does the work
const over = new Set(); // likewise: payments that count no more, even before they have come

const server = createServer(async (request, response) => {
  if (request.method !== "POST" || request.url !== "/hook") return response.writeHead(404).end();
  let event;
  try {
    let body = Buffer.alloc(0); // raw: the signature is over these bytes
    for await (const chunk of request) {
      body = Buffer.concat([body, chunk]);
      if (body.length > 1 << 20) throw new Error("too long");
    }
    event = verify(request.headers["x-service-signature"], body, secret);
  } catch (error) {
    console.log("refused:", error.message);
    return response.writeHead(400).end("not a webhook of ours\n");
  }
  const key = `${event.eventType} ${event.transactionGroupId ?? event.id}`;
  const reversed = event.eventType === "payment.reversed";
  const late = over.has(event.transactionGroupId); // events come in any order
  if (reversed) over.add(event.transactionGroupId);
  if (event.replaces) over.add(event.replaces);
  if (done.has(key)) console.log("again:", key); // a repetition: answer it, and do nothing
  else if (reversed) console.log(`payment.reversed: ${event.accountRef} ${event.amount}: take back what was done for it`);
  else if (late) console.log(`${event.eventType}: ${event.accountRef} ${event.amount} does not count any more (${event.transactionGroupId}): deliver nothing for it`);
  else if (event.policy) console.log(`${event.eventType}: ${event.accountRef} ${event.amount} is held (${event.policy}): deliver nothing for it`);
  else if (event.replaces) console.log(`${event.eventType}: ${event.accountRef} ${event.amount} in the place of ${event.replaces}: deliver no second time`);
  else if (event.eventType === "payment.received") {
    console.log(`payment.received: ${event.accountRef} got NGN ${event.amount} from ${JSON.stringify(event.senderName)}`);
  } else console.log(`${event.eventType}: ${event.accountRef} ${event.amount}`);
  done.add(key);
  response.writeHead(204).end(); // any 2xx, within 10 seconds; slow work belongs in a queue of your own
});

const [host, port] = (process.env.ADDR ?? "127.0.0.1:3000").split(":");
server.listen(Number(port), host, () => console.log(`listening on http://${host}:${server.address().port}/hook`));
