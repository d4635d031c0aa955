// Markdown as models write it (CommonMark with the tables, strikes and task lists of GitHub; HTML stays text), made
// into elements block by block. A text that grows changes its last block alone.

import { el, iconButton, changeText, copy, patch, relabel } from './dom.js';
import { inline, node } from './inline.js';

/** The lines of a formula at most. */
const LONGEST_MATH = 100;
/** How deep lists and quotes may lie in each other. */
const DEEPEST = 16;

const FENCE = /^ {0,3}(`{3,}(?=[^`]*$)|~{3,})[ \t]*(.*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t](.*))?$/;
const RULE = /^ {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])([ \t]+(?=\S)|[ \t]*$)/;
const DELIMITERS = /^\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?$/;
const MATH = /^ {0,3}(\$\$|\\\[)/;
/** A last line that shows only later what it begins. */
const UNCLEAR = /^(?:[-*+=_#|~`$>\s]+|[>\s]*(?:\d{1,3}[.)]?|\\))$/;

const indentOf = (line) => line.search(/\S|$/);
const isBlank = (line) => !/\S/.test(line);

/** What blocks share: how deep they lie, and whether more text is to come. */
const deeper = (place, grows) => ({ depth: place.depth + 1, grows });

/** Reads lines into blocks, each with the line where it begins. */
export function blocks(lines, place = { depth: 0, grows: false }) {
  const all = [];
  let at = 0;
  while (at < lines.length) {
    if (isBlank(lines[at])) {
      at += 1;
      continue;
    }
    const found = read(lines, at, place);
    all.push({ node: found.node, line: at, isTight: found.isTight });
    at = found.end;
  }
  return all;
}

function read(lines, at, place) {
  const line = lines[at];
  const fence = FENCE.exec(line);
  if (fence) return fenced(lines, at, fence);
  const heading = HEADING.exec(line);
  if (heading) {
    const grows = place.grows && at === lines.length - 1;
    const title = (heading[2] ?? '').trim().replace(/(?:^|[ \t])#+$/, '').trim();
    return { node: node(`h${heading[1].length}`, {}, inline(title, grows)), end: at + 1 };
  }
  if (RULE.test(line)) return { node: node('hr', {}, []), end: at + 1 };
  const isShallow = place.depth < DEEPEST;
  if (QUOTE.test(line) && isShallow) return quote(lines, at, place);
  if (ITEM.test(line) && isShallow) return list(lines, at, place);
  if (indentOf(line) >= 4) return indented(lines, at);
  const math = MATH.exec(line);
  return (math && mathBlock(lines, at, math[1], place)) ?? table(lines, at, place) ?? paragraph(lines, at, place);
}

function fenced(lines, at, [, marks, info]) {
  const indent = indentOf(lines[at]);
  const closes = new RegExp(`^ {0,3}${marks[0]}{${marks.length},}[ \\t]*$`);
  let end = at + 1;
  while (end < lines.length && !closes.test(lines[end])) end += 1;
  const strip = new RegExp(`^ {0,${indent}}`);
  const inner = lines.slice(at + 1, end).map((line) => line.replace(strip, ''));
  return { node: code(inner.join('\n'), info.trim().split(/[\s{,]/)[0]), end: end + 1 };
}

function indented(lines, at) {
  let end = at;
  while (end < lines.length && (isBlank(lines[end]) || indentOf(lines[end]) >= 4)) end += 1;
  return { node: code(lines.slice(at, end).map((line) => line.slice(4)).join('\n').trimEnd(), ''), end };
}

function quote(lines, at, place) {
  const inner = [];
  let end = at;
  for (; end < lines.length && !isBlank(lines[end]); end += 1) {
    const isQuoted = QUOTE.test(lines[end]);
    if (!isQuoted && (interrupts(lines, end) || isBlank(inner.at(-1)))) break;
    inner.push(lines[end].replace(QUOTE, ''));
  }
  const grows = place.grows && end === lines.length;
  return { node: node('blockquote', {}, nodes(inner, deeper(place, grows))), end };
}

const nodes = (lines, place) => blocks(lines, place).map((block) => block.node);

function list(lines, at, place) {
  const [, indent, marker] = ITEM.exec(lines[at]);
  const isOrdered = /\d/.test(marker);
  const items = [];
  let isTight = true;
  let end = at;
  while (end < lines.length) {
    const found = ITEM.exec(lines[end]);
    const isNext = found && found[2].at(-1) === marker.at(-1) && /\d/.test(found[2]) === isOrdered;
    if (!isNext || RULE.test(lines[end])) break;
    const first = found[0].length - (found[3].length > 4 ? found[3].length - 1 : 0);
    const width = Math.max(first, found[1].length + found[2].length + 1);
    // Models indent by two or three where CommonMark wants the width of the marker.
    const least = Math.min(width, indent.length + 2);
    const inner = [lines[end].slice(found[0].length - Math.max(0, found[0].length - width))];
    end += 1;
    for (; end < lines.length; end += 1) {
      const line = lines[end];
      if (isBlank(line)) inner.push('');
      else if (indentOf(line) >= least) inner.push(line.slice(Math.min(width, indentOf(line))));
      else if (isBlank(inner.at(-1)) || interrupts(lines, end) || ITEM.test(line)) break;
      else inner.push(line.trimStart());
    }
    const isLast = end === lines.length || !ITEM.test(lines[end]);
    if (isBlank(inner.at(-1)) && !isLast) isTight = false;
    while (inner.length > 1 && isBlank(inner.at(-1))) inner.pop();
    items.push({ inner, grows: place.grows && end === lines.length });
  }
  const read = items.map(({ inner, grows }) => item(inner, deeper(place, grows)));
  isTight &&= read.every((one) => one.isTight);
  const start = Number.parseInt(marker, 10);
  const attributes = isOrdered && start !== 1 ? { start } : {};
  const children = read.map((one) => one.node(isTight));
  return { node: node(isOrdered ? 'ol' : 'ul', attributes, children), end };
}

function item(lines, place) {
  const task = /^\[([ xX])\][ \t]+(?=\S)/.exec(lines[0]);
  if (task) lines[0] = lines[0].slice(task[0].length);
  const inner = blocks(lines, place);
  const isApart = (block, n) => n > 0 && isBlank(lines[block.line - 1]) && block.node.tag === 'p';
  const build = (isTight) => {
    const flat = ({ node: one }) => (isTight && one.tag === 'p' ? one.children : [one]);
    const children = inner.flatMap(flat);
    if (!task) return node('li', {}, children);
    const box = { type: 'checkbox', disabled: '', ...(task[1] === ' ' ? {} : { checked: '' }) };
    return node('li', { class: 'task' }, [node('input', box, []), ...children]);
  };
  return { node: build, isTight: !inner.some(isApart) };
}

function mathBlock(lines, at, opens, place) {
  const closes = opens === '$$' ? '$$' : '\\]';
  const rest = lines.slice(at, at + LONGEST_MATH);
  rest[0] = rest[0].slice(rest[0].indexOf(opens) + 2);
  const last = rest.findIndex((line) => line.includes(closes));
  if (last < 0 && !place.grows) return null;
  const end = last < 0 ? lines.length : at + last + 1;
  if (last >= 0 && !isBlank(rest[last].slice(rest[last].indexOf(closes) + 2).replace(/[.,;]/, ''))) return null;
  return { node: node('div', { class: 'math' }, [lines.slice(at, end).join('\n').trim()]), end };
}

function cells(line) {
  const inner = line.trim().replace(/^\|/, '').replace(/(?<!\\)\|$/, '');
  // A bar in code divides no cells, where the code ends in its cell's line.
  return (inner.match(/(?:\\.|`[^`]*`|[^|\\`]|`|\\)*(?:\||$)/g) ?? [])
    .slice(0, -1 + (inner === '' || inner.endsWith('|') ? 1 : 0) || undefined)
    .map((cell) => cell.replace(/\|$/, '').trim().replaceAll('\\|', '|'));
}

function table(lines, at, place) {
  const isCut = place.grows && at === lines.length - 1 && /^ {0,3}\|.*\S/.test(lines[at]);
  const line = lines[at + 1] ?? '';
  const isTable = lines[at].includes('|') && DELIMITERS.test(line.trim()) && line.includes('-');
  if (!isCut && !isTable) return null;
  const head = cells(lines[at]);
  const sides = isTable ? cells(line) : head.map(() => '-');
  if (head.length !== sides.length) return null;
  const side = (text) => {
    if (!text.endsWith(':')) return null;
    return text.startsWith(':') ? 'middle' : 'right';
  };
  const row = (texts, tag, isLast) =>
    node('tr', {}, sides.map((text, n) => {
      const grows = place.grows && isLast && n === texts.length - 1;
      return node(tag, side(text) ? { class: side(text) } : {}, inline(texts[n] ?? '', grows));
    }));
  let end = Math.min(at + 2, lines.length);
  const body = [];
  while (end < lines.length && !isBlank(lines[end]) && !interrupts(lines, end)) {
    body.push(row(cells(lines[end]), 'td', end === lines.length - 1));
    end += 1;
  }
  const parts = [node('thead', {}, [row(head, 'th', isCut)])];
  if (body.length) parts.push(node('tbody', {}, body));
  const attributes = { class: 'table', tabindex: '0', role: 'group', 'aria-label': 'table' };
  return { node: node('div', attributes, [node('table', {}, parts)]), end };
}

/** Whether a line ends the paragraph before it. */
function interrupts(lines, at) {
  const line = lines[at];
  const item = ITEM.exec(line);
  const isFirst = item && (!/\d/.test(item[2]) || Number.parseInt(item[2], 10) === 1);
  const isItem = isFirst && !isBlank(line.slice(item[0].length));
  return isItem || FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || MATH.test(line);
}

function paragraph(lines, at, place) {
  let end = at + 1;
  let tag = 'p';
  for (; end < lines.length && !isBlank(lines[end]); end += 1) {
    const under = /^ {0,3}(=+|-{2,})[ \t]*$/.exec(lines[end]);
    if (under) {
      tag = under[1][0] === '=' ? 'h1' : 'h2';
      break;
    }
    if (interrupts(lines, end)) break;
    if (lines[end].includes('|') && DELIMITERS.test((lines[end + 1] ?? '').trim())) break;
  }
  const text = lines.slice(at, end).map((line) => line.trimStart()).join('\n').trimEnd();
  const grows = place.grows && end === lines.length;
  return { node: node(tag, {}, inline(text, grows)), end: tag === 'p' ? end : end + 1 };
}

/** A block of code, with its language and a button that copies it. */
function code(text, language) {
  const name = language.slice(0, 32);
  return {
    tag: 'figure',
    create() {
      const button = iconButton('copy', 'Copy the code', async () => {
        const copied = await copy(area.textContent);
        relabel(button, 'copy', copied ? 'Copied' : 'The browser allows no copy');
        button.classList.toggle('done', copied);
        setTimeout(() => {
          relabel(button, 'copy', 'Copy the code');
          button.classList.remove('done');
        }, 2_000);
      });
      const area = el('code', {}, document.createTextNode(''));
      const head = el('figcaption', {}, el('span', {}), button);
      return el('figure', { class: 'code' }, head, el('pre', { tabindex: '0', 'aria-label': 'code' }, area));
    },
    update(figure) {
      changeText(figure.querySelector('figcaption span').firstChild ?? label(figure), name || 'text');
      const area = figure.querySelector('code');
      if (!area.firstChild) area.append('');
      return changeText(area.firstChild ?? area.appendChild(document.createTextNode('')), text);
    },
  };
}

function label(figure) {
  return figure.querySelector('figcaption span').appendChild(document.createTextNode(''));
}

/** A text in Markdown under an element, which follows the text while it grows. */
export class Markdown {
  constructor(root) {
    this.root = root;
    /** Where the last block begins, and how many elements lie before it: what is before stays. */
    this.from = 0;
    this.before = 0;
  }

  /** Shows a text that begins with the one shown so far. With `grows`, more is to come. */
  show(text, grows) {
    const rest = text.replace(/\r\n?/g, '\n').slice(this.from).replaceAll('\t', '    ');
    const lines = rest.split('\n');
    if (grows && lines.length > 0 && UNCLEAR.test(lines.at(-1).trim()) && !inFence(lines)) lines.pop();
    const all = blocks(lines, { depth: 0, grows });
    patch(this.root, all.map((block) => block.node), this.before);
    const last = all.at(-1);
    // A tab has been made four characters, so that a text with tabs is read from its beginning.
    if (all.length > 1 && grows && !text.includes('\t')) {
      this.from += lines.slice(0, last.line).reduce((sum, line) => sum + line.length + 1, 0);
      this.before += all.length - 1;
    }
  }
}

/** Whether the last line is one of code. */
function inFence(lines) {
  let open = null;
  for (const line of lines.slice(0, -1)) {
    const fence = FENCE.exec(line);
    if (!open) open = fence && fence[1];
    else if (fence && fence[1].startsWith(open) && !fence[2]) open = null;
  }
  return open !== null && !/^ {0,3}[`~]+$/.test(lines.at(-1));
}
