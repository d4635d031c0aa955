// Lines about what has happened, and what screen readers say.

import { el, iconButton } from './dom.js';

/** Shows a line, with a button if there is something to do about it. It leaves by itself unless it is an error. */
export function notice(text, { action = null, act = null, stays = false } = {}) {
  const notices = document.getElementById('notices');
  const same = [...notices.children].find((one) => one.dataset.text === text);
  same?.remove();
  const line = el('div', { class: 'notice', 'data-text': text }, el('span', {}, text));
  const leave = () => line.remove();
  if (action) {
    const run = () => {
      leave();
      act();
    };
    line.append(el('button', { type: 'button', class: 'plain', onclick: run }, action));
  }
  line.append(iconButton('close', 'Close', leave));
  notices.append(line);
  if (!stays) setTimeout(leave, 8_000);
}

/** Lets screen readers say a text, once they have ended what they say. */
export function announce(text) {
  const region = document.getElementById('finished');
  region.textContent = '';
  // A text that is the same again is said again only if the region was empty in between.
  setTimeout(() => (region.textContent = text), 50);
  clearTimeout(announce.later);
  announce.later = setTimeout(() => (region.textContent = ''), 10_000);
}

/** What the browser keeps of small things; nothing where it keeps none. */
export const kept = {
  get(name) {
    try {
      return localStorage.getItem(`hlx.${name}`);
    } catch {
      return null;
    }
  },
  set(name, value) {
    try {
      if (value === null) localStorage.removeItem(`hlx.${name}`);
      else localStorage.setItem(`hlx.${name}`, value);
      return true;
    } catch {
      return false;
    }
  },
};
