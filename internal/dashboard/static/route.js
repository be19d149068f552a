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
