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

// What a list has shown and how far the page was scrolled is kept with the browser's entry for the page, so that going back leads to the
// same place. A link begins anew: its entry has nothing yet.
history.scrollRestoration = 'manual';
let wanted = 0; // where the page is to be scrolled, once it is long enough

// remember keeps something with the present entry; remembered returns what is kept.
export const remember = (what) => history.replaceState({ ...history.state, ...what }, '');
export const remembered = () => history.state ?? {};

// arrive is at the top of a page, or where one was on it.
export function arrive() {
  wanted = remembered().scroll ?? 0;
  scrollTo(0, 0);
}

// grown goes on to where one was, as the page gets long enough.
export function grown() {
  if (!wanted || document.documentElement.scrollHeight < wanted + innerHeight) return;
  scrollTo(0, wanted);
  wanted = 0;
}

// Where one is has to be kept before one leaves: at each click and key, as the address has changed already when a page hears of it.
for (const kind of ['click', 'keydown']) {
  addEventListener(kind, () => {
    if (!wanted && scrollY !== (remembered().scroll ?? 0)) remember({ scroll: scrollY });
  }, { capture: true });
}

// setQuery changes the query in the address without going anywhere.
export function setQuery(query) {
  history.replaceState(null, '', '#' + read().path + queryText(query));
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
