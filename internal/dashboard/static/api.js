// Speaking with the service: JSON by fetch, with the session's cookie.

import { withAmountsAsNumbers, withAmountsAsText } from './format.js';

// Refusal is an answer that is no success, or none at all (status 0). Its message is meant to be shown.
export class Refusal extends Error {
  constructor(status, message, id) {
    super(message);
    this.status = status;
    this.id = id; // of the request, for whoever reads the log
  }
}

// mode says in which of the tenant's two sets of data a page works (mode.js).
export const mode = { test: false };

let signedOut = () => {};

// whenSignedOut says what happens when an answer shows that the session has ended.
export function whenSignedOut(f) {
  signedOut = f;
}

// call makes a request and returns the decoded answer. A body is sent as JSON. A path that is open answers 401 to wrong
// credentials, which is then no end of a session. key is the request's Idempotency-Key; replayed is called if the answer is that of an earlier
// request under it. Warned gets the warning of an answer that has one.
export async function call(method, path, { body, query, key, open = false, warned = () => {}, replayed = () => {} } = {}) {
  const answer = await send(method, path + queryText(query), body, key);
  if (!answer.ok) throw refused(answer, await answer.text().catch(() => ''), open);
  const decoded = await whole(answer);
  const warning = answer.headers.get('X-Ajo-Warning');
  if (warning) warned(warning);
  if (answer.headers.get('Idempotent-Replayed')) replayed();
  return decoded;
}

// whole decodes an answer. One that was cut on its way, or is not the service's, is none: what it answers may have been done.
async function whole(answer) {
  try {
    return JSON.parse(withAmountsAsText(await answer.text()));
  } catch {
    throw new Refusal(0, 'The response was incomplete. Check your connection and try again.', answer.headers.get('X-Request-ID'));
  }
}

export const get = (path, query) => call('GET', path, { query });
export const post = (path, body, key) => call('POST', path, { body, key });
export const patch = (path, body) => call('PATCH', path, { body });
export const remove = (path) => call('DELETE', path);

// download fetches a file and hands it to the browser under the name that the answer gives it.
export async function download(path) {
  const answer = await send('GET', path);
  if (!answer.ok) throw refused(answer, await answer.text().catch(() => ''), false);
  const named = /filename="?([^";]+)"?/.exec(answer.headers.get('Content-Disposition') ?? '');
  const link = document.createElement('a');
  link.href = URL.createObjectURL(await answer.blob());
  link.download = named ? named[1] : path.split('/').pop().split('?')[0];
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
  return link.download;
}

async function send(method, path, body, key) {
  const init = { method, credentials: 'same-origin', cache: 'no-store', headers: {} };
  if (mode.test) init.headers['X-Ajo-Mode'] = 'test';
  if (key) init.headers['Idempotency-Key'] = key;
  if (body !== undefined) {
    init.headers['Content-Type'] = 'application/json';
    init.body = withAmountsAsNumbers(JSON.stringify(body));
  }
  try {
    return await fetch(path, init);
  } catch {
    throw new Refusal(0, 'The service cannot be reached. Check your connection and try again.');
  }
}

function refused(answer, text, open) {
  let message = '';
  try {
    message = JSON.parse(text).error;
  } catch {
    // not ours: a proxy's page, perhaps
  }
  if (answer.status === 429) message = `Too many requests. Try again in ${answer.headers.get('Retry-After') ?? 'a few'} seconds.`;
  if (answer.status === 401 && !open) signedOut();
  return new Refusal(answer.status, message || `The service returned an error (${answer.status}).`, answer.headers.get('X-Request-ID'));
}

// queryText writes the values that are not empty as a query, with its question mark.
export function queryText(query) {
  const given = Object.entries(query ?? {}).filter(([, v]) => v !== '' && v !== null && v !== undefined);
  return given.length ? '?' + new URLSearchParams(given) : '';
}

// segment writes a value as one part of a path.
export function segment(value) {
  return encodeURIComponent(value).replaceAll("'", '%27');
}
