// Addresses within the dashboard: #/path?query. What a page shows is in its address, so going back works and links can be shared.

import { queryText, segment } from './api.js';

// to makes an address: to`/accounts/${ref}`.
export function to(parts, ...values) {
  return '#' + parts.reduce((path, part, i) => path + segment(values[i - 1]) + part);
}

// read takes the address apart.
export function read() {
  const [path, query = ''] = location.hash.slice(1).split('?');
  return { path: path.startsWith('/') ? path : '/', query: Object.fromEntries(new URLSearchParams(query)) };
}

// Going back leads to the same place: each entry of the browser's history keeps how much of a list was shown and, under its id, how far
// the page was scrolled. A link begins anew: its entry has nothing yet.
history.scrollRestoration = 'manual';
const scrolled = new Map(); // by the entry's id
let wanted = 0; // where the page is to be scrolled, once it is long enough

// remember keeps something with the present entry; remembered returns what is kept.
export const remember = (what) => history.replaceState({ ...history.state, ...what }, '');
export const remembered = () => history.state ?? {};
let here = 0; // the id of the entry that is shown

// arrive is at the top of a page, or where one was on it.
export function arrive() {
  here = remembered().id ?? Date.now() + Math.random();
  wanted = scrolled.get(here) ?? remembered().scroll ?? 0;
  remember({ id: here });
  scrollTo(0, 0);
}

// grown goes on to where one was, as the page gets long enough.
export function grown() {
  if (!wanted || document.documentElement.scrollHeight < wanted + innerHeight) return;
  scrollTo(0, wanted);
  wanted = 0;
}

// The place is noted while the page is scrolled, so that every way of leaving keeps it: a link, a key, a button of the mouse.
addEventListener('scroll', () => wanted || scrolled.set(here, scrollY));
addEventListener('pagehide', () => remember({ scroll: wanted || scrollY })); // for a reload

// setQuery changes the query in the address without going anywhere.
export function setQuery(query) {
  history.replaceState({ id: here }, '', '#' + read().path + queryText(query));
}

// match returns the parameters of a path such as /accounts/:ref, or null.
export function match(pattern, path) {
  const want = pattern.split('/');
  const got = path.split('/');
  if (want.length !== got.length) return null;
  const params = {};
  for (let i = 0; i < want.length; i++) {
    if (want[i].startsWith(':')) {
      try {
        params[want[i].slice(1)] = decodeURIComponent(got[i]);
      } catch {
        return null;
      }
    } else if (want[i] !== got[i]) return null;
  }
  return params;
}
