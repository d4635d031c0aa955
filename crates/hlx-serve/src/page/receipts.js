// The receipt of an answer: read, saved, checked by the server.

import { el, saveAs } from './dom.js';
import { dialog } from './drawers.js';
import { verify } from './api.js';

/** Lists longer than this are cut in the table; the file has them whole. */
const MOST = 24;

/** A value as rows `[path, text]`. */
function rows(value, path = '') {
  if (Array.isArray(value) && value.every((one) => typeof one !== 'object')) {
    const rest = value.length > MOST ? ` … (${value.length} in all)` : '';
    return [[path, value.slice(0, MOST).join(' ') + rest]];
  }
  if (typeof value === 'object' && value !== null) {
    return Object.entries(value).flatMap(([name, one]) => rows(one, path ? `${path}.${name}` : name));
  }
  return [[path, String(value)]];
}

/** Opens a receipt in a dialog. */
export function showReceipt(receipt) {
  const body = rows(receipt).map(([path, text]) =>
    el('tr', {}, el('th', { scope: 'row' }, path.replaceAll('_', ' ')), el('td', {}, text)));
  const result = el('div', { class: 'checks', role: 'status', 'aria-live': 'polite' });
  const button = (label, onclick) => el('button', { type: 'button', class: 'button', onclick }, label);
  const save = button('Save as a file', () => saveAs('receipt.json', `${JSON.stringify(receipt)}\n`));
  const check = button('Let the server check it', () => run());
  const run = async () => {
    check.disabled = true;
    result.replaceChildren(el('p', { class: 'hint' }, 'The server computes the answer again …'));
    try {
      result.replaceChildren(...verdict(await verify(receipt)));
    } catch (error) {
      result.replaceChildren(el('p', { class: 'wrong' }, error.message));
    }
    check.disabled = false;
  };
  const table = el('div', { class: 'receipt', tabindex: '0', role: 'group', 'aria-label': 'The fields of the receipt' },
    el('table', {}, el('tbody', {}, ...body)));
  dialog('Receipt', table, el('div', { class: 'row' }, check, save), result);
}

function verdict({ valid, checks = [], message = '' }) {
  const line = ({ name, ok, detail }) =>
    el('li', { class: ok ? 'right' : 'wrong' }, el('span', { class: 'word' }, ok ? 'holds' : 'fails'), ` ${name}`,
      detail ? el('span', { class: 'hint' }, ` ${detail}`) : null);
  const said = message || (valid ? 'The receipt holds.' : 'The receipt does not hold.');
  return [el('p', { class: valid ? 'right' : 'wrong' }, said), el('ul', {}, ...checks.map(line))];
}
