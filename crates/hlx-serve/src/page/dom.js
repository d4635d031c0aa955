// Elements and their updates. Text enters the page as text nodes alone: nothing here reads HTML.

const SVG = 'http://www.w3.org/2000/svg';

/** Strokes of icons on a grid of 24 by 24. */
const ICONS = {
  menu: 'M4 7h16M4 12h16M4 17h16',
  plus: 'M12 5v14M5 12h14',
  send: 'M12 19V5M6 11l6-6 6 6',
  stop: 'M7 7h10v10H7z',
  copy: 'M9 9h10v11H9zM15 9V5H5v11h4',
  again: 'M20 12a8 8 0 1 1-2.5-5.8M20 4v4.5h-4.5',
  edit: 'M4 20l1-4L16 5l3 3L8 19zM14 7l3 3',
  left: 'M14 7l-5 5 5 5',
  right: 'M10 7l5 5-5 5',
  down: 'M12 5v14M6 13l6 6 6-6',
  close: 'M6 6l12 12M18 6L6 18',
  sliders: 'M4 7h9M19 7h1M4 17h2M12 17h8M16 4.8v4.4M9 14.8v4.4',
  trash: 'M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13',
  save: 'M12 4v11M7 11l5 5 5-5M5 20h14',
  open: 'M12 16V5M7 9l5-5 5 5M5 20h14',
  seal: 'M12 3l7 3v5c0 5-3 8-7 10-4-2-7-5-7-10V6zM9 12l2 2 4-4',
  tokens: 'M4 6h7v5H4zM14 6h6v5h-6zM4 14h4v5H4zM11 14h9v5h-9z',
  dice: 'M5 5h14v14H5zM9 9h.01M15 15h.01M12 12h.01M15 9h.01M9 15h.01',
  pin: 'M8 11V8a4 4 0 0 1 8 0v3M6 11h12v9H6z',
  light: 'M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8M12 2v3M12 19v3M2 12h3M19 12h3M5 5l2 2M17 17l2 2M19 5l-2 2M7 17l-2 2',
  dark: 'M20 14A8.5 8.5 0 0 1 10 4a8 8 0 1 0 10 10z',
  system: 'M4 5h16v11H4zM9 20h6M12 16v4',
};

/** An element. Attributes that begin with `on` are listeners; those that are false or null are left out. */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** An icon, which screen readers pass over. */
export function icon(name) {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('viewBox', '0 0 24 24');
  svg.setAttribute('class', 'icon');
  svg.setAttribute('aria-hidden', 'true');
  const path = document.createElementNS(SVG, 'path');
  path.setAttribute('d', ICONS[name]);
  svg.append(path);
  return svg;
}

/** A button that shows an icon, with its name for screen readers and as a tip. */
export function iconButton(name, label, onclick, attributes = {}) {
  const { class: kind = '', ...rest } = attributes;
  const named = { class: `icon-button ${kind}`.trim(), 'aria-label': label, title: label };
  return el('button', { type: 'button', ...named, onclick, ...rest }, icon(name));
}

/** Gives a button another icon and name. */
export function relabel(button, name, label) {
  button.setAttribute('aria-label', label);
  button.title = label;
  button.replaceChildren(icon(name));
}

/** Copies a text; false where the browser lets no page do so. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Pages without TLS have no clipboard, but may copy what is selected.
    const area = el('textarea', { class: 'away', 'aria-hidden': 'true' });
    area.value = text;
    const focused = document.activeElement;
    document.body.append(area);
    area.select();
    const copied = document.execCommand('copy');
    area.remove();
    focused?.focus();
    return copied;
  }
}

/** Offers a text as a file. */
export function saveAs(name, text, type = 'application/json') {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = el('a', { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/**
 * Changes the children of an element from `first` on into those of a tree. A string is a text; an object has a
 * `tag`, `attributes` and `children`, or makes its own element by `create()` and `update(element)`.
 * What is the same stays as it is, so that selections and what is open stay too.
 */
export function patch(parent, nodes, first = 0) {
  nodes.forEach((node, at) => {
    const old = parent.childNodes[first + at];
    if (!old) parent.append(make(node));
    else if (!change(old, node)) old.replaceWith(make(node));
  });
  while (parent.childNodes.length > first + nodes.length) parent.lastChild.remove();
}

function make(node) {
  if (typeof node === 'string') return document.createTextNode(node);
  if (node.create) {
    const element = node.create();
    node.update(element);
    return element;
  }
  const element = el(node.tag, node.attributes);
  element.append(...node.children.map(make));
  return element;
}

/** Changes a node in place; false where it is of another kind. */
function change(old, node) {
  if (typeof node === 'string') return old.nodeType === Node.TEXT_NODE && changeText(old, node);
  if (old.localName !== node.tag) return false;
  if (node.create) return node.update(old);
  const attributes = node.attributes ?? {};
  for (const { name } of [...old.attributes]) if (!(name in attributes)) old.removeAttribute(name);
  for (const [name, value] of Object.entries(attributes)) {
    if (old.getAttribute(name) !== String(value)) old.setAttribute(name, value);
  }
  patch(old, node.children);
  return true;
}

/** Changes a text; one that grew only gets what is new. */
export function changeText(old, text) {
  if (old.data === text) return true;
  if (text.startsWith(old.data)) old.appendData(text.slice(old.data.length));
  else old.data = text;
  return true;
}
