// Markdown inside of a paragraph: emphasis, code, links. Makes the trees that `patch` of dom.js takes.

const ESCAPABLE = /[!-/:-@[-`{-~]/;
const PUNCTUATION = /[\p{P}\p{S}]/u;
const ENTITIES = {
  amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0', hellip: '…', ndash: '–', mdash: '—',
};
/** The end of a link's text, and its address: in angle brackets or as it is, with a title that is not shown. */
const TARGET =
  /\]\(\s{0,8}(?:<([^<>\n]*)>|((?:[^\s()\\]|\\.|\([^\s()]*\))*))(?:\s{1,8}(?:"[^"]*"|'[^']*'))?\s{0,8}\)/y;
/** How deep brackets may lie in each other. */
const DEEPEST = 32;

export const node = (tag, attributes, children) => ({ tag, attributes, children });

/** The address of a link that may be followed: of the web or of mail, and nothing that runs. */
export function safeAddress(text) {
  if (!/^(https?:\/\/|mailto:)/i.test(text)) return null;
  try {
    const url = new URL(text);
    return ['http:', 'https:', 'mailto:'].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

function link(address, children) {
  const href = safeAddress(address);
  const inner = children.flatMap((child) => (child.tag === 'a' ? child.children : [child]));
  if (!href) return node('span', {}, inner);
  const attributes = { href, title: href, target: '_blank', rel: 'noopener noreferrer' };
  return node('a', attributes, inner);
}

/**
 * Reads the inline Markdown of a text. With `grows`, more is to come: what is open at the end is shown as it will
 * be once it is closed.
 */
export function inline(text, grows = false) {
  const reader = new Reader(grows ? text.replace(/(?:[*_~`]+|!?\[|\\)$/, '') : text, grows);
  return reader.read();
}

class Reader {
  constructor(text, grows) {
    this.text = text;
    this.grows = grows;
    this.at = 0;
    /** Nodes, and runs of delimiters that may become emphasis. */
    this.items = [];
    /** Where brackets are open in `items`. */
    this.brackets = [];
    /** Marks that are not in the text behind some place: they are not looked for again. */
    this.missing = new Set();
  }

  read() {
    while (this.at < this.text.length) this.step();
    return merged(emphasis(this.items, this.grows));
  }

  push(item) {
    const last = this.items.length - 1;
    if (typeof item === 'string' && typeof this.items[last] === 'string' && !this.brackets.some((b) => b.at === last)) {
      this.items[last] += item;
    } else this.items.push(item);
  }

  /** Reads what a regular expression with the flag `y` finds here. */
  match(pattern) {
    pattern.lastIndex = this.at;
    return pattern.exec(this.text);
  }

  step() {
    const plain = this.match(/[^\\`*_~[\]!<&$\nhH]+/y);
    if (plain) {
      this.at += plain[0].length;
      return this.push(plain[0]);
    }
    const c = this.text[this.at];
    const took = this[STEPS[c]]?.();
    if (!took) {
      this.at += 1;
      this.push(c);
    }
    return undefined;
  }

  lineEnd() {
    const last = this.items.length - 1;
    if (typeof this.items[last] === 'string') this.items[last] = this.items[last].replace(/ +$/, '');
    this.at += this.match(/\n */y)[0].length;
    this.items.push(node('br', {}, []));
    return true;
  }

  escape() {
    const next = this.text[this.at + 1];
    if (next === '(' && this.math('\\(', '\\)')) return true;
    if (next === '[' && this.math('\\[', '\\]')) return true;
    if (next === '\n') {
      this.at += 1;
      return this.lineEnd();
    }
    // Brackets keep their backslash: they are LaTeX's.
    if (next === undefined || '()[]'.includes(next) || !ESCAPABLE.test(next)) return false;
    this.at += 2;
    this.push(next);
    return true;
  }

  /** LaTeX, which stays as it is written. */
  math(opens, closes) {
    const end = this.find(closes, this.at + opens.length);
    if (end < 0 && !(this.grows && opens !== '$')) return false;
    return this.take('math', end < 0 ? this.text.length : end + closes.length);
  }

  take(kind, end) {
    this.items.push(node('span', { class: kind }, [this.text.slice(this.at, end)]));
    this.at = end;
    return true;
  }

  find(mark, from) {
    if (this.missing.has(mark)) return -1;
    const found = this.text.indexOf(mark, from);
    if (found < 0) this.missing.add(mark);
    return found;
  }

  dollar() {
    if (this.text.startsWith('$$', this.at)) return this.math('$$', '$$');
    if (this.missing.has('$') || /[\w$]/.test(this.text[this.at - 1] ?? '')) return false;
    const found = this.match(/\$(?![\s$])(?:[^$`\\\n]|\\.){0,400}(?<!\s)\$(?!\d)/y);
    return found ? this.take('math', this.at + found[0].length) : false;
  }

  code() {
    const ticks = this.match(/`+/y)[0];
    const from = this.at + ticks.length;
    let end = this.missing.has(ticks) ? -1 : this.closing(ticks, from);
    if (end < 0) {
      this.missing.add(ticks);
      if (!this.grows) {
        this.at = from;
        this.push(ticks);
        return true;
      }
      end = this.text.length;
    }
    let inner = this.text.slice(from, end).replaceAll('\n', ' ');
    if (/^ .* $/.test(inner) && inner.trim()) inner = inner.slice(1, -1);
    this.items.push(node('code', {}, [inner]));
    this.at = Math.min(end + ticks.length, this.text.length);
    return true;
  }

  closing(ticks, from) {
    const runs = /`+/g;
    runs.lastIndex = from;
    for (let run = runs.exec(this.text); run; run = runs.exec(this.text)) if (run[0] === ticks) return run.index;
    return -1;
  }

  delimiter() {
    const run = this.match(/\*+|_+|~+/y)[0];
    const before = [...this.text.slice(Math.max(0, this.at - 2), this.at)].at(-1) ?? ' ';
    this.at += run.length;
    const after = String.fromCodePoint(this.text.codePointAt(this.at) ?? 32);
    const [isSpace, isMark] = [(c) => /\s/.test(c), (c) => PUNCTUATION.test(c)];
    const left = !isSpace(after) && (!isMark(after) || isSpace(before) || isMark(before));
    const right = !isSpace(before) && (!isMark(before) || isSpace(after) || isMark(after));
    const within = run[0] === '_';
    const opens = left && (!within || !right || isMark(before));
    const closes = right && (!within || !left || isMark(after));
    // What may as well be a product, as in 2*x, waits for its end.
    const isSure = opens && (isSpace(before) || isMark(before));
    if (run[0] === '~' && run.length > 2) this.push(run);
    else this.items.push({ run: run[0], n: run.length, opens, closes, isSure });
    return true;
  }

  image() {
    if (this.text[this.at + 1] !== '[') return false;
    this.open(2);
    return true;
  }

  bracket() {
    this.open(1);
    return true;
  }

  open(length) {
    this.brackets.push({ at: this.items.length, from: this.at });
    this.items.push(this.text.slice(this.at, this.at + length));
    this.at += length;
    // The outermost of too many is a bracket and nothing more.
    if (this.brackets.length > DEEPEST) this.brackets.shift();
  }

  /** The end of a link's text: a link if its address follows. */
  closeBracket() {
    const open = this.brackets.pop();
    if (!open) return false;
    const found = this.match(TARGET);
    const isCut = !found && this.grows && this.match(/\]\([^\s)]*$/y);
    if (!found && !isCut) return false;
    const inner = merged(emphasis(this.items.splice(open.at).slice(1), false));
    this.at = isCut ? this.text.length : this.at + found[0].length;
    const address = found ? (found[1] ?? found[2]).replace(/\\([!-/:-@[-`{-~])/g, '$1') : '';
    const isImage = this.text[open.from] === '!';
    // Pictures are not loaded from elsewhere: they are links.
    this.items.push(link(address, isImage && inner.length === 0 ? ['image'] : inner));
    return true;
  }

  angle() {
    const found = this.match(/<((?:https?:\/\/|mailto:)[^\s<>]+)>/iy) ?? this.match(/<br ?\/?>/iy);
    if (!found) return false;
    this.at += found[0].length;
    this.items.push(found[1] ? link(found[1], [found[1]]) : node('br', {}, []));
    return true;
  }

  entity() {
    const found = this.match(/&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|(\w{2,8}));/y);
    if (!found) return false;
    const code = found[1] ? Number(found[1]) : Number.parseInt(found[2] ?? '', 16);
    const isScalar = code > 0 && code <= 0x10ffff && !(code >= 0xd800 && code < 0xe000);
    const text = found[3] ? ENTITIES[found[3]] : isScalar && String.fromCodePoint(code);
    if (!text) return false;
    this.at += found[0].length;
    this.push(text);
    return true;
  }

  /** An address that stands in the text as it is. */
  address() {
    const before = this.text[this.at - 1] ?? ' ';
    const found = /[\w/]/.test(before) ? null : this.match(/https?:\/\/[^\s<>"`*\u3000-\u303f]+/iy);
    if (!found) return false;
    const address = withoutEnd(found[0]);
    if (!safeAddress(address)) return false;
    this.at += address.length;
    this.items.push(link(address, [address]));
    return true;
  }
}

const STEPS = {
  '\n': 'lineEnd', '\\': 'escape', '$': 'dollar', '`': 'code', '*': 'delimiter', '_': 'delimiter', '~': 'delimiter',
  '!': 'image', '[': 'bracket', ']': 'closeBracket', '<': 'angle', '&': 'entity', h: 'address', H: 'address',
};

/** An address without the marks and brackets behind it that belong to the sentence around it. */
function withoutEnd(address) {
  const count = (c) => address.split(c).length;
  const spare = { ')': count(')') - count('('), ']': count(']') - count('[') };
  let end = address.length;
  for (; end > 0; end -= 1) {
    const last = address[end - 1];
    if (last in spare && spare[last] > 0) spare[last] -= 1;
    else if (!".,;:!?'_~".includes(last)) break;
  }
  return address.slice(0, end);
}

/** Makes emphasis of pairs of delimiters, as CommonMark does; with `grows`, the end closes what is open. */
function emphasis(items, grows) {
  const open = [];
  let out = [];
  const close = (opener, size) => {
    const tag = opener.run === '~' ? 'del' : size === 2 ? 'strong' : 'em';
    const inner = out.splice(opener.at + 1);
    opener.n -= size;
    out.push(node(tag, {}, merged(inner.map(literal))));
  };
  for (const item of items) {
    if (!item.run) {
      out.push(item);
      continue;
    }
    const run = { ...item };
    while (run.closes && run.n > 0) {
      const at = open.findLastIndex((one) => pairs(one, run));
      if (at < 0) break;
      open.length = at + 1;
      const size = run.run === '~' ? run.n : Math.min(2, run.n, open[at].n);
      close(open[at], size);
      run.n -= size;
      if (open[at].n === 0) {
        out.splice(open[at].at, 1);
        open.pop();
      }
    }
    if (run.n > 0) {
      run.at = out.length;
      out.push(run);
      if (run.opens && open.length < 64) open.push(run);
    }
  }
  if (grows) {
    for (const opener of open.filter((one) => one.isSure && one.at < out.length - 1).reverse()) {
      while (opener.n > 0) close(opener, opener.run === '~' ? opener.n : Math.min(2, opener.n));
    }
    out = out.filter((item) => !(item.run && item.n === 0));
  }
  return out.map(literal);
}

function pairs(opener, closer) {
  if (opener.run !== closer.run) return false;
  if (opener.run === '~') return opener.n === closer.n;
  const isEither = opener.closes || closer.opens;
  return !isEither || (opener.n + closer.n) % 3 !== 0 || (opener.n % 3 === 0 && closer.n % 3 === 0);
}

function literal(item) {
  return item.run ? item.run.repeat(item.n) : item;
}

/** Texts beside each other as one. */
function merged(nodes) {
  const all = [];
  for (const one of nodes) {
    if (typeof one === 'string' && typeof all.at(-1) === 'string') all[all.length - 1] += one;
    else if (one !== '') all.push(one);
  }
  return all;
}
