// Test mode: a second set of data at a simulated bank. The choice is the tab's, and a page that changes it begins anew, so that nothing of the
// other mode stands on it.

import { mode } from './api.js';
import { h } from './dom.js';
import { button } from './ui.js';

const kept = 'ajo-mode';
try {
  mode.test = sessionStorage.getItem(kept) === 'test';
} catch {
  // storage is closed: there is no test mode in this tab
}

// The wheel's button opens a link without a click, and the new tab would ask for live data (exported, in ui.js, keeps clicks from that).
addEventListener('auxclick', (e) => mode.test && e.target.closest('a[href^="/auth/"]') && e.preventDefault());

// choose goes to one of the modes.
export function choose(test) {
  if (test) sessionStorage.setItem(kept, 'test');
  else sessionStorage.removeItem(kept);
  location.hash = '#/';
  location.reload();
}

// forget is the live mode for whoever signs in next.
export function forget() {
  sessionStorage.removeItem(kept);
  mode.test = false;
}

// modeSwitch turns test mode on and off, where the service has it.
export function modeSwitch(member) {
  if (!member.testMode) return null;
  const box = h('input', { type: 'checkbox', role: 'switch', id: 'test-mode', checked: mode.test, onchange: () => choose(box.checked) });
  return h('div', { class: 'theme' }, h('label', { for: 'test-mode' }, 'Test mode'), box);
}

// banner stands on every page in test mode.
export function banner() {
  return mode.test && h('div', { class: 'banner', role: 'note', 'aria-label': 'Test mode' },
    h('p', null, h('strong', null, 'Test mode. '), 'This is test data: nobody pays, and no money moves.'), button('Leave test mode', () => choose(false), { kind: 'small' }));
}
