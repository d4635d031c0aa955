// The field for a new message.

import { el, icon, iconButton, relabel } from './dom.js';

export class Composer {
  /** `actions`: `send(text)`, `stop()`, `editLast()`, `seeds()` opens the seed's settings. */
  constructor(form, actions) {
    this.actions = actions;
    const named = { placeholder: 'Message', 'aria-label': 'Message', 'aria-describedby': 'keys' };
    this.area = el('textarea', { id: 'message', rows: 1, ...named });
    this.button = iconButton('send', 'Send', null, { type: 'submit', class: 'send' });
    this.seed = el('button', { type: 'button', class: 'seed', onclick: actions.seeds });
    const keys = el('span', { id: 'keys' }, 'Enter sends, Shift+Enter makes a new line, Esc stops');
    form.append(el('div', { class: 'box' }, this.area, this.button), el('div', { class: 'under' }, this.seed, keys));
    this.area.addEventListener('input', () => this.fit());
    this.area.addEventListener('keydown', (event) => this.key(event));
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      if (this.isGrowing) actions.stop();
      else this.send();
    });
    this.fit();
  }

  key(event) {
    if (event.isComposing) return;
    const isEmpty = this.area.value === '';
    if (event.key === 'Enter' && !event.shiftKey) this.send();
    else if (event.key === 'ArrowUp' && isEmpty && !this.isGrowing) this.actions.editLast();
    else return;
    event.preventDefault();
  }

  send() {
    const text = this.area.value.trim();
    if (!text || this.isGrowing) return;
    if (this.actions.send(text)) this.area.value = '';
    this.fit();
  }

  /** The text that is written but not sent. */
  set draft(text) {
    this.area.value = text;
    this.fit();
  }

  /** As high as its text. */
  fit() {
    this.area.style.height = 'auto';
    this.area.style.height = `${this.area.scrollHeight}px`;
    this.button.disabled = !this.isGrowing && !this.area.value.trim();
  }

  /** While an answer grows, the button stops it. */
  grows(isGrowing) {
    this.isGrowing = isGrowing;
    relabel(this.button, isGrowing ? 'stop' : 'send', isGrowing ? 'Stop' : 'Send');
    this.fit();
  }

  showSeed(seed) {
    const label = seed === null ? 'Seed drawn for each answer' : `Seed fixed: ${seed}`;
    this.seed.replaceChildren(icon(seed === null ? 'dice' : 'pin'), label);
  }

  focus() {
    this.area.focus({ preventScroll: true });
  }
}
