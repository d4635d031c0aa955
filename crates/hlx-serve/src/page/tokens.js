// An answer token by token: the shade says how likely the model took each, and a table what else it took as likely.

import { el } from './dom.js';

const percent = (logprob) => {
  const share = Math.exp(logprob) * 100;
  return share >= 10 ? `${share.toFixed(0)} %` : share >= 0.1 ? `${share.toFixed(1)} %` : '< 0.1 %';
};

/** A token so that it is seen: spaces and line ends have signs. */
const shown = (text) => text.replaceAll(' ', '␣').replaceAll('\n', '↵').replaceAll('\t', '→') || '(empty)';

/** Five shades, from likely to unlikely. */
const shade = (logprob) => [0.8, 0.5, 0.2, 0.05].filter((least) => Math.exp(logprob) < least).length;

/** The view of tokens `{text, logprob, top}`; one of them is in the order of focus, and arrows go on from it. */
export function tokenView(tokens, isSame) {
  const table = el('div', { class: 'alternatives', role: 'status', 'aria-live': 'polite' });
  const named = { role: 'group', 'aria-label': 'Tokens: arrow keys go from one to the next' };
  const text = el('div', { class: 'token-text', ...named });
  let current = null;
  const choose = (one) => {
    if (one === current) return;
    current?.classList.remove('current');
    current?.setAttribute('tabindex', '-1');
    current = one;
    one.classList.add('current');
    one.setAttribute('tabindex', '0');
    table.replaceChildren(...alternatives(tokens[Number(one.dataset.at)]));
  };
  tokens.forEach((token, at) => {
    const attributes = { class: `token shade-${shade(token.logprob)}`, 'data-at': at, tabindex: '-1', role: 'button' };
    const label = `${shown(token.text)}, ${percent(token.logprob)}`;
    text.append(el('span', { ...attributes, 'aria-label': label }, token.text.replaceAll('\n', '↵\n') || '∅'));
  });
  const found = (event) => event.target.closest?.('.token');
  text.addEventListener('pointerover', (event) => found(event) && choose(found(event)));
  text.addEventListener('focusin', (event) => found(event) && choose(found(event)));
  text.addEventListener('keydown', (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const next = step && text.querySelector(`[data-at="${Number(current?.dataset.at ?? 0) + step}"]`);
    if (!next) return;
    event.preventDefault();
    next.focus();
  });
  if (tokens.length) choose(text.querySelector('.token'));
  const verdict = isSame
    ? `Asked again with its seed: the same text, character by character, in ${tokens.length} tokens.`
    : 'Asked again with its seed, the server answers otherwise: it has another model or another version now.';
  const legend = ['over 80 %', 'over 50 %', 'over 20 %', 'over 5 %', 'less']
    .map((label, n) => el('span', { class: `token shade-${n}` }, label));
  return el('div', { class: 'tokens' }, el('p', { class: isSame ? 'hint' : 'hint wrong' }, verdict), text,
    el('p', { class: 'legend', 'aria-label': 'Shades of probability' }, ...legend), table);
}

function alternatives(token) {
  const isOwn = (one) => one.text === token.text && one.logprob === token.logprob;
  const all = token.top.some(isOwn) ? token.top : [...token.top, token];
  const row = (one) => {
    const share = Math.exp(one.logprob);
    const bar = el('meter', { min: 0, max: 1, value: share, 'aria-hidden': 'true' });
    const number = (text) => el('td', { class: 'number' }, text);
    const name = el('th', { scope: 'row' }, el('code', {}, shown(one.text)));
    const cells = [name, el('td', {}, bar), number(percent(one.logprob)), number(one.logprob.toFixed(3))];
    return el('tr', { class: isOwn(one) ? 'own' : null }, ...cells);
  };
  const head = el('tr', {}, ...['Token', '', 'Probability', 'Log'].map((label) => el('th', { scope: 'col' }, label)));
  return [el('table', {}, el('thead', {}, head), el('tbody', {}, ...all.map(row)))];
}
