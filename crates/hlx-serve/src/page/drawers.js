// The two panels at the sides: beside the conversation where there is room, and over it where there is not.

import { el, iconButton } from './dom.js';
import { kept } from './notices.js';

const narrow = matchMedia('(max-width: 60rem)');

export class Drawer {
  /** A panel with the button that opens it. `opens`: whether it is open at first where there is room. */
  constructor(panel, button, opens) {
    this.panel = panel;
    this.button = button;
    this.name = `drawer.${panel.id}`;
    this.isOver = false;
    this.isWanted = (kept.get(this.name) ?? String(opens)) === 'true';
    panel.prepend(iconButton('close', 'Close', () => this.set(false), { class: 'close' }));
    button.setAttribute('aria-controls', panel.id);
    button.addEventListener('click', () => this.set(!this.isOpen, true));
    panel.addEventListener('keydown', (event) => {
      if (event.key === 'Escape' && narrow.matches && !event.defaultPrevented) this.set(false);
    });
    document.getElementById('backdrop').addEventListener('click', () => narrow.matches && this.set(false));
    narrow.addEventListener('change', () => this.set(!narrow.matches && this.isWanted));
    this.set(!narrow.matches && this.isWanted);
  }

  set(isOpen, isAsked = false) {
    const wasOpen = this.isOpen;
    this.isOpen = isOpen;
    this.panel.hidden = !isOpen;
    this.button.setAttribute('aria-expanded', String(isOpen));
    if (isAsked && !narrow.matches) {
      this.isWanted = isOpen;
      kept.set(this.name, String(isOpen));
    }
    const wasOver = this.isOver;
    this.isOver = isOpen && narrow.matches;
    if (wasOver !== this.isOver) this.cover();
    const controls = [...this.panel.querySelectorAll('button, input, textarea')];
    if (isOpen && isAsked) controls.find((one) => one.checkVisibility())?.focus();
    else if (wasOver && !isOpen) this.button.focus();
  }

  /** Closes the panel where it lies over the conversation. */
  closeIfOver() {
    if (narrow.matches && this.isOpen) this.set(false);
  }

  /** Keeps the rest from focus while the panel lies over it. */
  cover() {
    document.getElementById('main').inert = this.isOver;
    document.getElementById('backdrop').hidden = !this.isOver;
  }
}

/** Shows a dialog over the page, which Escape closes. Its head has a title. */
export function dialog(title, ...children) {
  const close = el('button', { type: 'button', class: 'button', autofocus: true, onclick: () => box.close() }, 'Close');
  const box = el('dialog', { 'aria-label': title }, el('h2', {}, title), ...children, el('footer', {}, close));
  box.addEventListener('close', () => box.remove());
  box.addEventListener('click', (event) => event.target === box && box.close());
  document.body.append(box);
  box.showModal();
  return box;
}
