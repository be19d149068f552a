// How data is shown. Money stays the text that the API gave, which gets its groups and its sign here; where a size must be
// compared or drawn, it is counted in whole kobo.

const amountForm = /^(-?)([0-9]+)\.([0-9]{2})$/;

// naira shows an amount of the API, such as "1250000.00", as ₦1,250,000.00. What is no amount is shown as it is.
export function naira(text) {
  const m = amountForm.exec(text);
  return m ? `${m[1]}₦${grouped(m[2])}.${m[3]}` : String(text);
}

// grouped puts a comma before each three digits.
export function grouped(digits) {
  return String(digits).replace(/\B(?=(?:[0-9]{3})+$)/g, ',');
}

// kobo is an amount in kobo, as a BigInt; zero for what is no amount.
export function kobo(text) {
  const m = amountForm.exec(text);
  return m ? BigInt(m[1] + m[2] + m[3]) : 0n;
}

// short shows whole naira, a BigInt, for an axis: ₦500, ₦1.5k, ₦20m.
export function short(whole) {
  for (const [unit, name] of [[1000000000000n, 'tn'], [1000000000n, 'bn'], [1000000n, 'm'], [1000n, 'k']]) {
    if (whole < unit) continue;
    const tenths = (whole * 10n) / unit;
    return `₦${tenths / 10n}${tenths % 10n ? `.${tenths % 10n}` : ''}${name}`;
  }
  return `₦${whole}`;
}

// withAmountsAsText makes texts of the numbers that are money in a body of JSON, before anything can read them as floats.
export function withAmountsAsText(json) {
  return json.replace(/("ExpectedAmount":)\s*(-?[0-9.]+)/g, '$1"$2"');
}

// withAmountsAsNumbers undoes that in a body that is sent.
export function withAmountsAsNumbers(json) {
  return json.replace(/("expectedAmount":)"0*([0-9][0-9.]*)"/g, '$1$2');
}

// fixed gives an amount that was a JSON number its two decimals.
export function fixed(text) {
  const [whole, rest = ''] = String(text).split('.');
  return `${whole}.${rest.padEnd(2, '0')}`;
}

// Everybody who uses this works by the time of Lagos, wherever the browser is.
const zone = 'Africa/Lagos';
const moments = new Intl.DateTimeFormat('en-GB', {
  timeZone: zone, day: '2-digit', month: 'short', year: 'numeric', hour: '2-digit', minute: '2-digit', second: '2-digit',
});
const days = new Intl.DateTimeFormat('en-GB', { timeZone: 'UTC', day: 'numeric', month: 'short' });
const wholeDays = new Intl.DateTimeFormat('en-GB', { timeZone: 'UTC', weekday: 'short', day: 'numeric', month: 'short', year: 'numeric' });

// moment shows a time of the API: 21 Nov 2026, 14:05:09.
export function moment(text) {
  const at = new Date(text);
  return Number.isNaN(at.getTime()) ? String(text) : moments.format(at);
}

// day shows a date such as 2026-11-21, for an axis; wholeDay with its year.
export const day = (text) => days.format(new Date(`${text}T00:00:00Z`));
export const wholeDay = (text) => wholeDays.format(new Date(`${text}T00:00:00Z`));

// Statuses: what they are called, and how they look. The tone never stands without the name.
const statuses = {
  provisional: ['Provisional', 'warn'], confirmed: ['Confirmed', 'good'], reversed: ['Reversed', 'quiet'], needs_review: ['Needs review', 'bad'],
  pending: ['Pending', 'info'], processing: ['Processing', 'info'], success: ['Success', 'good'], failed: ['Failed', 'bad'], refunded: ['Refunded', 'warn'],
  active: ['Active', 'good'], expired: ['Expired', 'quiet'], suspended: ['Suspended', 'bad'], paused: ['Paused', 'warn'],
  none: ['None', 'quiet'], pending_review: ['Pending review', 'warn'], approved: ['Approved', 'good'], rejected: ['Rejected', 'bad'],
  delivered: ['Delivered', 'good'], logged: ['Log only', 'quiet'], dead_letter: ['Dead letter', 'bad'], delivering: ['Delivering', 'info'],
  unverified: ['Unverified', 'warn'], verified: ['Verified', 'good'],
  invited: ['Invited', 'info'], removed: ['Removed', 'quiet'], rotating: ['Rotating', 'warn'], revoked: ['Revoked', 'quiet'],
  awaiting_approval: ['Awaits approval', 'warn'], exempt: ['Exempt', 'warn'],
  needs_you: ['Needs you', 'bad'], fine: ['Fine', 'good'], differs: ['Differs', 'bad'],
  on: ['On', 'good'], off: ['Off', 'quiet'],
  received: ['Received', 'info'], processed: ['Processed', 'good'], ignored: ['Ignored', 'quiet'],
};

// status returns the name and the tone of a status of the API.
export function status(value) {
  return statuses[value] ?? [words(value), 'quiet'];
}

// words makes a title of a name such as sole_proprietor.
export function words(name) {
  const text = String(name ?? '').replaceAll('_', ' ');
  return text.charAt(0).toUpperCase() + text.slice(1);
}

// plural is "1 account" or "2 accounts".
export function plural(n, one, many = one + 's') {
  return `${grouped(n)} ${Number(n) === 1 ? one : many}`;
}
