// Requests that move money, or decide who may: who asks shows again who is there, and those that move it are done once however often they are sent.

import { call, mode, Refusal } from './api.js';
import { fixed } from './format.js';

// proofField is the field of a form by which the member shows that.
export const proofField = (session) => (session.member.totp
  ? { name: 'code', label: 'Code', required: true, maxlength: 64, autocomplete: 'one-time-code', spellcheck: 'false', hint: 'From your authenticator, or a recovery code. Each works once.' }
  : { name: 'password', label: 'Your password', type: 'password', required: true, maxlength: 128, autocomplete: 'current-password' });

// proofFields are the fields for what is done in both modes: none where no money can leave.
export const proofFields = (session) => (mode.test ? [] : [proofField(session)]);

// sumField is a field for a sum, which may be written as people do, such as 12,000; sum is what it says as the API writes it.
export const sumField = { name: 'amount', label: 'Amount (₦)', required: true, inputmode: 'decimal', pattern: ' *₦? *[0-9]+(,[0-9]{3})*([.][0-9]{1,2})? *', title: 'A sum in naira, such as 12,000.00', autocomplete: 'off' };
export const sum = (text) => fixed(text.replaceAll(/[₦,\s]/g, ''));

// Requests that have not succeeded have their keys, by what they ask for, in the browser's tab, as a page may be loaded anew while the answer is on its way. Test mode has a place of its own, and
// may end without a load (mode.js).
const placeOf = () => (mode.test ? 'ajo-unknown-test' : 'ajo-unknown');
const kept = (place) => new Map(JSON.parse(sessionStorage.getItem(place) ?? '[]'));

// keep keeps a request's key, with the holder's name if it has one; none: the request has succeeded.
function keep(place, what, key) {
  const keys = kept(place);
  if (key) keys.set(what, key);
  else keys.delete(what);
  sessionStorage.setItem(place, JSON.stringify([...keys]));
}

const newKey = () => [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, '0')).join('');

// once sends a request under a key that stays until it has succeeded, and says whether that was by an earlier one. A refusal does not end it: it may answer a repeat that the browser
// made by itself, while the first is still running, or is done and has used up the code. What was refused is not kept under its key, so the next try is like a first.
// The bank may spell the holder of the destination otherwise the next time: accountName makes no other request, and is sent as it was first. Once that is refused the name that is shown takes
// its place, under the same key, as an earlier request with the first name may still be running.
export async function once(path, { accountName, ...order }, proof) {
  const place = placeOf();
  const what = JSON.stringify([path, order]);
  const [key, first] = [kept(place).get(what) ?? newKey()].flat();
  const holder = first ?? accountName;
  keep(place, what, holder === undefined ? key : [key, holder]);
  try {
    let again = false;
    const answer = await call('POST', path, { body: { ...order, accountName: holder, ...proof }, key, replayed: () => { again = true; } });
    keep(place, what);
    return { answer, again };
  } catch (e) {
    if (e.message === 'account name mismatch') keep(place, what, key);
    const unknown = e.status === 0 || e.status === 409 && /still running/.test(e.message) || (e.status >= 500 && !e.message.startsWith('provider error'));
    throw unknown ? new Refusal(e.status, 'We do not know whether this was accepted. Try again without changing anything; it will not be done twice.', e.id) : e;
  }
}
