// Making elements. Data only ever becomes text or an attribute: there is no way to markup from here.

const svgSpace = 'http://www.w3.org/2000/svg';

// h makes an HTML element. A prop that begins with "on" is a listener, true is an attribute without a value, and null,
// undefined and false are left out. Children are nodes, texts, lists of them, or nothing.
export function h(name, props, ...children) {
  return fill(document.createElement(name), props, children);
}

// svg makes an SVG element, as h does.
export function svg(name, props, ...children) {
  return fill(document.createElementNS(svgSpace, name), props, children);
}

function fill(element, props, children) {
  for (const [key, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else if (key === 'value' || key === 'checked') element[key] = value;
    else element.setAttribute(key, value === true ? '' : value);
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children) {
    if (Array.isArray(child)) append(element, child);
    else if (child !== null && child !== undefined && child !== false) element.append(typeof child === 'string' ? straight(child) : child);
  }
}

// straight is a text without the characters that turn the direction of what follows: behind a payer's name that ends in one, an account number
// would be shown backwards.
export const straight = (text) => text.replaceAll(/[\u202A-\u202E\u2066-\u2069]/g, '');

// icon is one of the symbols in the page. It is never the only name of anything.
export function icon(name) {
  return svg('svg', { class: 'icon', 'aria-hidden': 'true', focusable: 'false' }, svg('use', { href: '#i-' + name }));
}
