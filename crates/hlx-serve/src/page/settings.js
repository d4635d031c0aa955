// The panel of settings: the system prompt, how tokens are drawn, receipts, the key of the server, light and dark.

import { el } from './dom.js';
import { kept, notice } from './notices.js';
import { setKey } from './api.js';
import { USUAL } from './tree.js';

/** The numbers that say how tokens are drawn: name, what it does, and the range of its slider. */
const NUMBERS = [
  ['temperature', 'Temperature', '0 takes the likeliest token; more makes rare tokens likelier.', 0, 2, 0.05],
  ['top_p', 'Top p', 'Only the likeliest tokens that together have this probability.', 0, 1, 0.01],
  ['min_p', 'Min p', 'Only tokens with this share of the likeliest one’s probability.', 0, 1, 0.01],
  ['repetition_penalty', 'Repetition penalty', 'More than 1 makes tokens rarer that were there before.', 0.5, 2, 0.05],
  ['presence_penalty', 'Presence penalty', 'Taken from the logit of each token of the answer so far.', -2, 2, 0.1],
  ['frequency_penalty', 'Frequency penalty', 'The same, times how often the token was there.', -2, 2, 0.1],
];
const WHOLES = [
  ['top_k', 'Top k', 'Only this many of the likeliest tokens; 0 for all.', 'all'],
  ['max_tokens', 'Max tokens', 'How long an answer may be; empty for as long as there is room.', 'none'],
];

const group = (title, ...children) => el('fieldset', {}, el('legend', {}, title), ...children);

function field(id, label, hint, ...inputs) {
  const name = el('label', { for: id }, label);
  return el('div', { class: 'field' }, name, ...inputs, el('p', { class: 'hint', id: `${id}-hint` }, hint));
}

export class Settings {
  /** `changed()` is called when the conversation's settings have changed, `keyed()` when the key has. */
  constructor(root, { changed, keyed }) {
    this.changed = changed;
    this.inputs = {};
    this.system = el('textarea', { id: 'system', rows: 3, spellcheck: 'true', 'aria-describedby': 'system-hint' });
    this.system.addEventListener('change', () => this.set(() => (this.conversation.system = this.system.value)));
    const reset = () => this.set(() => {
      const { sampling } = this.conversation;
      Object.assign(sampling, USUAL, { seed: sampling.seed });
    });
    root.append(
      el('h2', {}, 'Settings'),
      group('Conversation',
        field('system', 'System prompt', 'Comes before the first message.', this.system),
        this.receiptSwitch()),
      group('Seed', ...this.seed()),
      group('Sampling',
        ...NUMBERS.slice(0, 2).map((row) => this.slider(...row)),
        ...WHOLES.map((row) => this.whole(...row)),
        ...NUMBERS.slice(2).map((row) => this.slider(...row)),
        el('button', { type: 'button', class: 'plain', onclick: reset }, 'Reset to the usual')),
      group('Server', ...this.key(keyed)),
      group('Appearance', this.theme()),
    );
  }

  set(work) {
    work();
    this.show(this.conversation);
    this.changed();
  }

  slider(name, label, hint, min, max, step) {
    const described = { 'aria-describedby': `${name}-hint` };
    const range = el('input', { type: 'range', min, max, step, 'aria-label': label, tabindex: '-1' });
    const number = el('input', { type: 'number', id: name, step: 'any', inputmode: 'decimal', ...described });
    range.addEventListener('input', () => (number.value = range.value));
    const take = (input) => () => {
      const value = input.value === '' ? USUAL[name] : Number(input.value);
      this.set(() => (this.conversation.sampling[name] = value));
    };
    range.addEventListener('change', take(range));
    number.addEventListener('change', take(number));
    this.inputs[name] = (value) => {
      range.value = value;
      number.value = value;
    };
    return field(name, label, hint, range, number);
  }

  whole(name, label, hint, empty) {
    const described = { 'aria-describedby': `${name}-hint` };
    const kind = { type: 'number', min: 0, step: 1, inputmode: 'numeric' };
    const input = el('input', { ...kind, id: name, placeholder: empty, ...described });
    input.addEventListener('change', () => {
      const value = Number.parseInt(input.value, 10);
      this.set(() => (this.conversation.sampling[name] = Number.isFinite(value) ? value : USUAL[name]));
    });
    this.inputs[name] = (value) => (input.value = value === USUAL[name] ? '' : value);
    return field(name, label, hint, input);
  }

  seed() {
    const radio = (value, label) => {
      const input = el('input', { type: 'radio', name: 'seed-kind', value });
      return [input, el('label', { class: 'choice' }, input, label)];
    };
    const [drawn, drawnLabel] = radio('drawn', 'Drawn for each answer');
    const [fixed, fixedLabel] = radio('fixed', 'Fixed');
    const named = { id: 'seed', 'aria-label': 'The fixed seed' };
    const input = el('input', { type: 'text', inputmode: 'numeric', maxlength: 20, ...named });
    const least = -(2n ** 63n);
    const most = 2n ** 64n - 1n;
    const take = () => {
      const text = input.value.trim();
      const isSeed = /^-?\d{1,20}$/.test(text) && BigInt(text) >= least && BigInt(text) <= most;
      if (!isSeed) notice('A seed is a whole number of 64 bits.');
      this.set(() => isSeed && (this.conversation.sampling.seed = String(BigInt(text))));
    };
    input.addEventListener('change', take);
    drawn.addEventListener('change', () => this.set(() => (this.conversation.sampling.seed = null)));
    fixed.addEventListener('change', () => {
      this.set(() => (this.conversation.sampling.seed = this.lastSeed ?? '1'));
      input.select();
    });
    this.inputs.seed = (value) => {
      this.lastSeed = value ?? this.lastSeed;
      drawn.checked = value === null;
      fixed.checked = value !== null;
      input.value = value ?? '';
      input.disabled = value === null;
    };
    const promise = 'The same model, messages, settings and seed give the same answer, on every device.';
    const hint = el('p', { class: 'hint' }, promise);
    return [drawnLabel, el('div', { class: 'row' }, fixedLabel, input), hint];
  }

  receiptSwitch() {
    const input = el('input', { type: 'checkbox', id: 'receipts', role: 'switch' });
    input.addEventListener('change', () => this.set(() => (this.conversation.receipts = input.checked)));
    this.inputs.receipts = input;
    this.receipts = el('div', { class: 'field', hidden: true },
      el('label', { class: 'choice' }, input, 'Receipts'),
      el('p', { class: 'hint' }, 'Each answer comes with a signed receipt, by which anybody can check it.'));
    return this.receipts;
  }

  /** Shows the switch for receipts where the server makes them. */
  knowsReceipts(isKnown) {
    this.receipts.hidden = !isKnown;
  }

  key(keyed) {
    const described = { 'aria-describedby': 'key-hint' };
    const input = el('input', { type: 'password', id: 'key', autocomplete: 'off', spellcheck: 'false', ...described });
    const keep = el('input', { type: 'checkbox' });
    input.value = kept.get('key') ?? '';
    keep.checked = input.value !== '';
    setKey(input.value);
    const store = () => {
      const isKept = kept.set('key', keep.checked && input.value.trim() ? input.value.trim() : null);
      if (!isKept) notice('This browser keeps no key.');
    };
    input.addEventListener('change', () => {
      setKey(input.value);
      store();
      keyed();
    });
    keep.addEventListener('change', store);
    this.keyInput = input;
    const hint = 'For a server that was started with --api-keys. Forgotten when the page is closed, unless it is kept.';
    const label = el('label', { class: 'choice' }, keep, 'Keep the key in this browser');
    return [field('key', 'API key', hint, input), label];
  }

  theme() {
    const now = kept.get('theme') ?? 'system';
    const choose = (value) => {
      if (value === 'system') delete document.documentElement.dataset.theme;
      else document.documentElement.dataset.theme = value;
      kept.set('theme', value === 'system' ? null : value);
    };
    const choice = ([value, label]) => {
      const input = el('input', { type: 'radio', name: 'theme', value, onchange: () => choose(value) });
      input.checked = value === now;
      return el('label', {}, input, el('span', {}, label));
    };
    const all = [['system', 'System'], ['light', 'Light'], ['dark', 'Dark']].map(choice);
    return el('div', { class: 'segments', role: 'radiogroup', 'aria-label': 'Light or dark' }, ...all);
  }

  /** Shows the settings of a conversation. */
  show(conversation) {
    this.conversation = conversation;
    this.system.value = conversation.system;
    this.inputs.receipts.checked = conversation.receipts;
    for (const name of Object.keys(USUAL)) this.inputs[name](conversation.sampling[name]);
  }
}
