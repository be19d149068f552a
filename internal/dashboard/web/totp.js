// The second factor, as an authenticator has it.

import { createHmac } from 'node:crypto';

// totp is the code of a secret (base32) at this moment, or so many steps of 30 seconds later, by RFC 6238.
export function totp(secret, later = 0) {
  const bits = [...secret].map((c) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(c).toString(2).padStart(5, '0')).join('');
  const key = Buffer.from(bits.match(/.{8}/g).map((b) => parseInt(b, 2)));
  const step = Buffer.alloc(8);
  step.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30000) + later));
  const hash = createHmac('sha1', key).update(step).digest();
  return String((hash.readUInt32BE(hash.at(-1) & 15) & 0x7fffffff) % 1e6).padStart(6, '0');
}
