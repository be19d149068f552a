// The plot of money in and out by day. Heights are counted in whole kobo; the picture's facts stand in a table, too.

import { h, svg } from './dom.js';
import { day, kobo, naira, short, wholeDay } from './format.js';
import { table } from './table.js';

const height = 200;
const edge = { left: 52, right: 6, top: 10, bottom: 24 };

// plot draws the days of an overview, anew whenever its width changes. The day under the pointer, or that the arrow keys have reached, is marked, and its figures are written above.
export function plot(days) {
  const place = h('div', { class: 'plot', tabindex: '0', role: 'slider', 'aria-label': 'Day of the chart', 'aria-valuemin': '1', 'aria-valuemax': String(days.length) });
  const said = h('output');
  let drawn = 0;
  let at = days.length - 1;
  const mark = (i) => {
    at = Math.max(0, Math.min(days.length - 1, i));
    const text = figures(days[at]);
    said.textContent = text;
    place.setAttribute('aria-valuenow', String(at + 1));
    place.setAttribute('aria-valuetext', text);
    place.querySelectorAll('g').forEach((g, n) => g.classList.toggle('at', n === at));
  };
  place.addEventListener('pointermove', (e) => mark(Math.floor(((e.clientX - place.getBoundingClientRect().left - edge.left) / (drawn - edge.left - edge.right)) * days.length)));
  place.addEventListener('keydown', (e) => {
    const to = { ArrowLeft: at - 1, ArrowDown: at - 1, ArrowRight: at + 1, ArrowUp: at + 1, PageDown: at - 7, PageUp: at + 7, Home: 0, End: days.length - 1 }[e.key];
    if (to === undefined) return;
    e.preventDefault();
    mark(to);
  });
  new ResizeObserver(() => {
    const width = Math.max(280, Math.floor(place.clientWidth));
    if (width === drawn) return;
    drawn = width;
    place.replaceChildren(draw(days, width));
    mark(at);
  }).observe(place);
  mark(at);
  const columns = [
    { name: 'Day', head: true, value: (d) => wholeDay(d.date) },
    { name: 'Money in', number: true, value: (d) => naira(d.moneyIn) },
    { name: 'Money out', number: true, value: (d) => naira(d.moneyOut) },
  ];
  return h('figure', { class: 'figure' },
    h('figcaption', { class: 'legend' }, h('span', { class: 'key in' }, 'Money in'), h('span', { class: 'key out' }, 'Money out')),
    said, place,
    h('details', null, h('summary', null, 'Show as a table'),
      h('div', { class: 'table' }, table('Money in and out by day', columns, days.toReversed()))));
}

const figures = (d) => `${wholeDay(d.date)}: in ${naira(d.moneyIn)}, out ${naira(d.moneyOut)}`;

function draw(days, width) {
  const highest = days.flatMap((d) => [kobo(d.moneyIn), kobo(d.moneyOut)]).reduce((a, b) => (a > b ? a : b), 0n);
  const step = stepFor(highest);
  const top = step * ((highest + step - 1n) / step || 1n);
  const room = height - edge.top - edge.bottom;
  const y = (amount) => edge.top + room - Number((amount * BigInt(room) * 100n) / top) / 100;
  const slot = (width - edge.left - edge.right) / days.length;
  const bar = Math.max(0.5, Math.min(12, slot * 0.36));
  const lines = [];
  for (let at = 0n; at <= top; at += step) {
    lines.push(svg('line', { class: at ? 'grid' : 'base', x1: edge.left, x2: width - edge.right, y1: y(at), y2: y(at) }),
      svg('text', { x: edge.left - 8, y: y(at) + 4, 'text-anchor': 'end' }, short(at / 100n)));
  }
  const every = Math.ceil(days.length / Math.max(2, Math.floor(width / 90)));
  const columns = days.map((d, i) => {
    const middle = edge.left + slot * (i + 0.5);
    const one = (amount, kind, x) => amount > 0n && svg('rect', {
      class: kind, x, width: bar, y: Math.min(y(amount), edge.top + room - 2), height: Math.max(2, edge.top + room - y(amount)), rx: Math.min(2, bar / 3),
    });
    return svg('g', null,
      svg('title', null, figures(d)),
      svg('rect', { class: 'hit', x: middle - slot / 2, width: slot, y: edge.top, height: room }),
      one(kobo(d.moneyIn), 'in', middle - bar - 0.5), one(kobo(d.moneyOut), 'out', middle + 0.5),
      (days.length - 1 - i) % every === 0 && svg('text', { x: Math.min(middle, width - 22), y: height - 6, 'text-anchor': 'middle' }, day(d.date)));
  });
  return svg('svg', {
    viewBox: `0 0 ${width} ${height}`, width, height, 'aria-hidden': 'true', focusable: 'false',
  }, lines, columns);
}

// stepFor is the distance of two lines, in kobo: 1, 2 or 5 and noughts, so that there are at most five.
function stepFor(highest) {
  for (let unit = 10000n; ; unit *= 10n) {
    for (const n of [1n, 2n, 5n]) if (unit * n * 4n >= highest) return unit * n;
  }
}
