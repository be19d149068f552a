// The first page: how the service is, line by line, and where to look.

import { h } from './dom.js';
import { reads } from './desk.js';
import { table } from './table.js';
import { badge, dim, pageHead, refreshButton, region, time } from './ui.js';

// places are the pages that show more, by the beginning of the command that the line names.
const places = {
  'ajo review list': '/reviews', 'ajo events list --category misdirected': '/misdirected', 'ajo recalls list': '/recalls', 'ajo freeze list': '/freezes', 'ajo customers review': '/kyc',
  'ajo transfers list --status pending': '/transfers?status=pending', 'ajo transfers list --status processing': '/transfers?status=processing', 'ajo transfers list --differing': '/transfers?differing=true',
  'ajo work list': '/work', 'ajo work list --due': '/work?due=true', 'ajo work list --failing': '/work?failing=true', 'ajo deliveries list': '/deliveries', 'ajo deliveries list --status pending': '/deliveries?status=pending',
  'ajo reconcile': '/reconciliations',
};

function place(look) {
  const found = Object.keys(places).filter((p) => look?.startsWith(p)).sort((a, b) => b.length - a.length)[0];
  return found ? h('a', { href: '#' + places[found] }, 'Look') : look ? h('code', null, look) : dim('—');
}

export function overview() {
  const r = region(() => reads('status'), (s) => [
    h('p', { class: 'dim' }, s.ok ? 'Nothing needs attention, as of ' : 'Something needs attention, as of ', time(s.at)),
    h('div', { class: 'table' }, table('The service, part by part', [
      { name: 'What', head: true, value: (l) => `${l.part}: ${l.what}` },
      { name: 'How it is', wide: true, value: (l) => l.state },
      { name: 'State', value: (l) => badge(l.needs ? 'needs_you' : 'fine') },
      { name: 'More', value: (l) => place(l.look) },
    ], s.lines)),
  ], { rows: 12 });
  return { title: 'Status', nodes: [pageHead('Status', { lead: 'The state of the service now. Each line that needs attention says where to look.', actions: [refreshButton(r.reload)] }), r.box] };
}
