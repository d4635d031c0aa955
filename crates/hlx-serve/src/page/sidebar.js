// The list of conversations: open, rename, delete, save as a file, read from a file.

import { el, icon, iconButton, saveAs } from './dom.js';
import { notice } from './notices.js';

export class Sidebar {
  /** `actions`: `create()`, `open(id)`, `rename(id, title)`, `remove(id)`, `changed()`. */
  constructor(root, store, actions) {
    this.store = store;
    this.actions = actions;
    this.list = el('ul', { class: 'list' });
    const unseen = { class: 'away', tabindex: '-1', 'aria-hidden': 'true' };
    this.file = el('input', { type: 'file', accept: '.json,application/json', ...unseen });
    this.file.addEventListener('change', () => this.read(this.file.files[0]));
    const plus = { type: 'button', class: 'button new', onclick: actions.create };
    const create = el('button', plus, icon('plus'), 'New conversation');
    const out = el('button', { type: 'button', class: 'plain', onclick: () => this.write() }, 'Export all');
    const into = el('button', { type: 'button', class: 'plain', onclick: () => this.file.click() }, 'Import');
    root.append(create, this.list, el('footer', {}, out, into, this.file));
  }

  /** Shows all conversations; one that is being renamed is not disturbed. */
  async show(current) {
    this.current = current;
    const all = await this.store.conversations();
    if (this.isRenaming) return;
    const rows = all.map((one) => this.row(one, one.id === current));
    const focused = document.activeElement?.closest?.('#conversations li')?.dataset.id;
    this.list.replaceChildren(...rows);
    if (focused) rows.find((row) => row.dataset.id === focused)?.querySelector('button').focus();
  }

  row(conversation, isCurrent) {
    const title = conversation.title || 'New conversation';
    const open = el('button', {
      type: 'button', class: 'open', title, 'aria-current': isCurrent && 'page',
      onclick: () => this.actions.open(conversation.id),
    }, title);
    const row = el('li', { 'data-id': conversation.id }, open,
      iconButton('edit', `Rename: ${title}`, () => this.rename(row, conversation)),
      iconButton('save', `Export: ${title}`, () => this.write(conversation)),
      iconButton('trash', `Delete: ${title}`, () => this.actions.remove(conversation.id)));
    return row;
  }

  rename(row, conversation) {
    const { title: value } = conversation;
    const input = el('input', { type: 'text', class: 'rename', value, 'aria-label': 'Title', maxlength: 200 });
    let isOver = false;
    this.isRenaming = true;
    const end = async (keeps) => {
      if (isOver) return;
      isOver = true;
      this.isRenaming = false;
      const title = input.value.trim();
      if (keeps && title && title !== conversation.title) await this.actions.rename(conversation.id, title);
      await this.show(this.current);
      this.list.querySelector(`[data-id="${conversation.id}"] button`)?.focus();
    };
    input.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' && event.key !== 'Escape') return;
      event.preventDefault();
      end(event.key === 'Enter');
    });
    input.addEventListener('blur', () => end(true));
    row.replaceChildren(input);
    input.focus();
    input.select();
  }

  async write(conversation = null) {
    const day = new Date().toISOString().slice(0, 10);
    const name = conversation ? conversation.title.replace(/[^\p{L}\p{N}]+/gu, '-').slice(0, 40) : 'conversations';
    saveAs(`hlx-${name || 'conversation'}-${day}.json`, await this.store.exported(conversation?.id ?? null));
  }

  async read(file) {
    this.file.value = '';
    if (!file) return;
    try {
      const n = await this.store.imported(await file.text());
      notice(n === 1 ? '1 conversation is imported.' : `${n} conversations are imported.`);
      this.actions.changed();
    } catch (error) {
      notice(`${file.name}: ${error.message}`, { stays: true });
    }
  }
}
