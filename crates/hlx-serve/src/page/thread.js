// The messages of a conversation, and where the reader is in them.

import { el, iconButton } from './dom.js';
import { Answer, Question } from './message.js';

/** Messages that are made at once when a conversation is opened; the others follow while nothing else is done. */
const FIRST = 40;

export class Thread {
  constructor(root, messages, actions) {
    this.root = root;
    this.messages = messages;
    this.actions = actions;
    this.views = [];
    this.follows = true;
    /** Counts refreshes: views that were to follow an earlier one are not made any more. */
    this.turn = 0;
    this.jump = iconButton('down', 'To the newest message', () => this.toEnd(), { class: 'jump', hidden: true });
    root.after(this.jump);
    root.addEventListener('scroll', () => this.scrolled(), { passive: true });
  }

  /** Shows a conversation from the start; `empty` is what stands where there is no message. */
  open(tree, empty) {
    this.tree = tree;
    this.empty = empty;
    this.views = [];
    this.messages.replaceChildren();
    this.refresh();
    this.toEnd();
  }

  /** Brings what is shown up to the path of the tree; views of messages that stay are left as they are. */
  refresh() {
    this.turn += 1;
    const path = this.tree.path();
    const known = new Map(this.views.map((view) => [view.message.id, view]));
    const context = {
      tree: this.tree,
      actions: this.actions,
      grew: () => this.follow(),
      hasModels: this.actions.hasModels,
    };
    const make = (message) => new (message.role === 'user' ? Question : Answer)(message, context);
    const later = known.size === 0 ? path.slice(0, -FIRST) : [];
    this.views = path.slice(later.length).map((message) => known.get(message.id) ?? make(message));
    for (const view of this.views) if (known.has(view.message.id)) view.branched();
    const elements = this.views.map((view) => view.element);
    const stays = new Set(elements);
    for (const child of [...this.messages.children]) if (!stays.has(child)) child.remove();
    elements.forEach((element, at) => {
      const there = this.messages.children[at] ?? null;
      if (there !== element) this.messages.insertBefore(element, there);
    });
    if (!path.length) this.messages.append(this.empty());
    this.makeLater(later, make, this.turn);
  }

  /** Makes views for earlier messages, from the last to the first, without moving what is seen. */
  makeLater(messages, make, turn) {
    if (!messages.length) return;
    const work = () => {
      if (this.turn !== turn) return;
      const piece = messages.slice(-FIRST).map(make);
      const before = this.root.scrollHeight - this.root.scrollTop;
      this.views.unshift(...piece);
      this.messages.prepend(...piece.map((view) => view.element));
      this.root.scrollTop = this.root.scrollHeight - before;
      this.makeLater(messages.slice(0, -FIRST), make, turn);
    };
    setTimeout(work, 0);
  }

  view(id) {
    return this.views.find((view) => view.message.id === id);
  }

  scrolled() {
    const rest = this.root.scrollHeight - this.root.scrollTop - this.root.clientHeight;
    this.follows = rest < 48;
    this.jump.hidden = rest < 240;
  }

  follow() {
    if (this.follows) this.root.scrollTop = this.root.scrollHeight;
  }

  toEnd() {
    this.follows = true;
    this.follow();
  }
}

/** What stands in an empty conversation. */
export function welcome(model) {
  const length = model?.max_model_len;
  return el('div', { class: 'welcome' },
    el('h1', {}, model?.id ?? 'HLX'),
    length ? el('p', {}, `Context: ${length.toLocaleString('en-US')} tokens`) : null,
    el('p', {}, 'An answer depends on the model, the messages, the settings and the seed, and on nothing else: '
      + 'ask again with the same seed, on any device, and it is the same.'));
}
