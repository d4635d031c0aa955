// The page: conversations with the models of the server that it comes from.

import * as api from './api.js';
import { ask, questionOf, tokensOf } from './answers.js';
import { Composer } from './composer.js';
import { el, iconButton } from './dom.js';
import { Drawer } from './drawers.js';
import { announce, kept, notice } from './notices.js';
import { showReceipt } from './receipts.js';
import { Settings } from './settings.js';
import { Sidebar } from './sidebar.js';
import { Store } from './store.js';
import { Thread, welcome } from './thread.js';
import { tokenView } from './tokens.js';
import { newConversation, titleOf, Tree } from './tree.js';

const at = (id) => document.getElementById(id);
/** How often an answer that grows is kept, in milliseconds. */
const KEEP_EVERY = 1_000;

class Page {
  constructor(store) {
    this.store = store;
    this.models = [];
    this.hasReceipts = false;
    /** Models without a chat template, which continue a text. */
    this.continuing = new Set();
    /** What grows, by the conversation's id: `{tree, message, controller}`. */
    this.growing = new Map();
    this.thread = new Thread(at('thread'), at('messages'), {
      again: (message) => this.again(message),
      choose: (id) => this.choose(id),
      edited: (message, text) => this.edited(message, text),
      fixSeed: (seed) => this.fixSeed(seed),
      hasModels: () => this.models.length > 1,
      receipt: (message) => showReceipt(message.receipt),
      tokens: (message) => this.tokens(message),
    });
    this.composer = new Composer(at('composer'), {
      send: (text) => this.send(text),
      stop: () => this.stop(),
      editLast: () => this.editLast(),
      seeds: () => this.showSeeds(),
    });
    this.sidebar = new Sidebar(at('conversations'), store, {
      create: () => this.create(),
      open: (id) => this.open(id),
      rename: (id, title) => this.rename(id, title),
      remove: (id) => this.remove(id),
      changed: () => this.sidebar.show(this.conversation.id),
    });
    this.settings = new Settings(at('settings'), { changed: () => this.changed(), keyed: () => this.loadModels() });
    this.makeTop();
    store.watch((id) => this.changedElsewhere(id));
    document.addEventListener('keydown', (event) => {
      const isFree = !event.defaultPrevented && !event.target.closest?.('dialog, .editor, .drawer');
      if (event.key === 'Escape' && isFree) this.stop();
    });
  }

  get conversation() {
    return this.tree.conversation;
  }

  makeTop() {
    this.title = el('h1', { class: 'title' });
    this.picker = el('select', { 'aria-label': 'Model', class: 'picker' });
    this.picker.addEventListener('change', () => {
      this.conversation.model = this.picker.value;
      this.changed();
      this.showWelcome();
    });
    const list = iconButton('menu', 'Conversations', null);
    const settings = iconButton('sliders', 'Settings', null);
    at('top').append(list, this.title, this.picker, settings);
    this.listDrawer = new Drawer(at('conversations'), list, true);
    this.settingsDrawer = new Drawer(at('settings'), settings, false);
  }

  async start() {
    const all = await this.store.conversations();
    const last = all.find((one) => one.id === kept.get('last')) ?? all[0];
    if (last) await this.open(last.id);
    else await this.create();
    await this.loadModels();
  }

  async loadModels() {
    try {
      this.models = await api.models();
    } catch (error) {
      this.models = [];
      const again = () => this.loadModels();
      notice(error.message, { action: 'Try again', act: again, stays: true });
      if (error.status === 401) this.showKey();
    }
    this.hasReceipts = this.models.length > 0 && (await api.hasReceipts());
    this.settings.knowsReceipts(this.hasReceipts);
    this.showModels();
    this.showWelcome();
  }

  /** Shows the models that are served, and the conversation's own if it is not. */
  showModels() {
    const { conversation } = this;
    const ids = this.models.map((model) => model.id);
    if (!conversation.model || (ids.length > 0 && !ids.includes(conversation.model) && this.tree.messages.size === 0)) {
      conversation.model = ids[0] ?? conversation.model;
    }
    const options = this.models.map(({ id }) => el('option', { value: id }, id));
    if (conversation.model && !ids.includes(conversation.model)) {
      const label = ids.length ? `${conversation.model} (not served)` : conversation.model;
      options.push(el('option', { value: conversation.model }, label));
    }
    this.picker.replaceChildren(...options);
    this.picker.value = conversation.model ?? '';
    this.picker.disabled = options.length < 2;
  }

  showWelcome() {
    if (this.tree.messages.size === 0) this.thread.open(this.tree, () => this.welcome());
  }

  welcome() {
    return welcome(this.models.find((model) => model.id === this.conversation.model));
  }

  /** A new conversation, with the settings of the one before. It is kept once something is said. */
  async create() {
    const before = this.tree?.conversation;
    await this.show(new Tree(newConversation(before)));
    this.listDrawer.closeIfOver();
    this.composer.focus();
  }

  async open(id) {
    const growing = this.growing.get(id);
    const conversation = growing?.tree.conversation ?? (await this.store.conversations()).find((one) => one.id === id);
    if (!conversation) return this.create();
    const tree = growing?.tree ?? new Tree(conversation, await this.settled(await this.store.messages(id)));
    await this.show(tree);
    kept.set('last', id);
    return this.listDrawer.closeIfOver();
  }

  /** Messages as they are after their page was left: none grows, except in another tab. */
  async settled(messages) {
    if (!messages.some(({ state }) => state === 'growing')) return messages;
    const locks = await navigator.locks?.query();
    const others = new Set(locks?.held.map(({ name }) => name));
    const left = { state: 'failed', error: 'The page was left before the answer ended.' };
    return messages.map((one) => (one.state === 'growing' && !others.has(lockOf(one)) ? { ...one, ...left } : one));
  }

  async show(tree) {
    this.tree = tree;
    this.settings.show(tree.conversation);
    this.composer.draft = '';
    this.showModels();
    this.showHead();
    this.thread.open(tree, () => this.welcome());
    await this.sidebar.show(tree.conversation.id);
  }

  showHead() {
    const { title, id, sampling } = this.conversation;
    this.title.textContent = title || 'New conversation';
    document.title = title ? `${title} – HLX` : 'HLX';
    this.composer.grows(this.growing.has(id));
    this.composer.showSeed(sampling.seed);
  }

  /** Keeps what has changed of the conversation, once it has messages. */
  async changed(...messages) {
    this.showHead();
    await this.keep(this.tree, ...messages);
  }

  async keep(tree, ...messages) {
    if (tree.messages.size > 0 && !tree.isRemoved) await this.store.keep(tree.conversation, messages);
  }

  async changedElsewhere(id) {
    const isShown = id === this.conversation.id && !this.growing.has(id);
    const known = isShown && (await this.store.conversations()).some((one) => one.id === id);
    if (known && this.thread.messages.querySelector('.editor') === null) {
      const draft = this.composer.area.value;
      await this.open(id);
      this.composer.draft = draft;
    } else await this.sidebar.show(this.conversation.id);
  }

  async rename(id, title) {
    const isShown = id === this.conversation.id;
    const conversation = this.growing.get(id)?.tree.conversation
      ?? (isShown ? this.conversation : (await this.store.conversations()).find((one) => one.id === id));
    conversation.title = title;
    await this.store.keep(conversation);
    this.showHead();
  }

  async remove(id) {
    const growing = this.growing.get(id);
    if (growing) growing.tree.isRemoved = true;
    growing?.controller.abort();
    const conversation = (await this.store.conversations()).find((one) => one.id === id);
    const messages = await this.store.messages(id);
    await this.store.remove(id);
    if (id === this.conversation.id) {
      const next = (await this.store.conversations())[0];
      if (next) await this.open(next.id);
      else await this.create();
    } else await this.sidebar.show(this.conversation.id);
    const undo = async () => {
      await this.store.keep(conversation, messages);
      await this.open(id);
    };
    this.composer.focus();
    notice(`Deleted: ${conversation.title || 'New conversation'}`, { action: 'Undo', act: undo });
  }

  /** Sends a message; false if there is no model to send it to. */
  send(text) {
    if (!this.conversation.model) {
      notice('The server has told of no model yet.', { action: 'Try again', act: () => this.loadModels() });
      return false;
    }
    const { tree } = this;
    const last = tree.path().at(-1);
    const question = tree.append(last?.id ?? null, 'user', { content: text });
    tree.conversation.title ||= titleOf(text);
    this.grow(tree, question);
    return true;
  }

  /** Whether an answer grows in this conversation: then no other one may begin, and a line says so. */
  isBusy() {
    const isBusy = this.growing.has(this.conversation.id);
    if (isBusy) notice('An answer still grows: wait for it, or stop it.', { action: 'Stop', act: () => this.stop() });
    return isBusy;
  }

  edited(message, text) {
    if (this.isBusy()) return;
    const question = this.tree.append(message.parent, 'user', { content: text });
    this.grow(this.tree, question);
  }

  editLast() {
    const last = this.thread.views.findLast((view) => view.message.role === 'user');
    last?.edit();
  }

  /** Answers a message's question anew: in its place if nothing has come, else in a branch. */
  again(message) {
    if (this.isBusy()) return;
    const question = this.tree.messages.get(message.parent);
    this.grow(this.tree, question, message.content ? null : message);
  }

  choose(id) {
    if (this.isBusy()) return;
    this.tree.choose(this.tree.messages.get(id));
    this.thread.refresh();
    this.changed();
    this.thread.view(id)?.element.querySelector('.branches button:enabled')?.focus();
  }

  /** Lets an answer to a question grow, and keeps it. */
  async grow(tree, question, place = null) {
    const { conversation } = tree;
    const { model, receipts } = conversation;
    const asked = questionOf(conversation, this.continuing.has(model), receipts && this.hasReceipts);
    const answer = place ?? tree.append(question.id, 'assistant');
    Object.assign(answer, { asked, state: 'growing', error: null, finish: null });
    const controller = new AbortController();
    this.growing.set(conversation.id, { tree, message: answer, controller });
    conversation.updated = Date.now();
    kept.set('last', conversation.id);
    this.renew(tree, answer);
    this.thread.toEnd();
    this.composer.focus();
    await this.keep(tree, question, answer);
    await this.sidebar.show(this.conversation.id);
    await locked(lockOf(answer), () => this.fill(tree, answer, controller.signal));
    this.growing.delete(conversation.id);
    conversation.updated = Date.now();
    this.renew(tree, answer);
    if (tree === this.tree) this.thread.follow();
    await this.keep(tree, answer);
    await this.sidebar.show(this.conversation.id);
    announce(answer.state === 'failed' ? answer.error : `Answer: ${answer.content}`);
  }

  /** Asks for an answer, and says in its state how that went. */
  async fill(tree, answer, signal) {
    const before = tree.before(answer);
    let last = performance.now();
    const grew = () => {
      if (tree === this.tree) this.thread.view(answer.id)?.grew();
      if (performance.now() - last < KEEP_EVERY) return;
      last = performance.now();
      this.keep(tree, answer);
    };
    try {
      await ask(answer, before, signal, grew);
      answer.state = 'done';
    } catch (error) {
      if (error.code === 'no_chat_template' && !answer.asked.continues) {
        this.continuing.add(answer.asked.model);
        answer.asked.continues = true;
        notice(`${answer.asked.model} has no chat template: it continues the text.`);
        await this.fill(tree, answer, signal);
        return;
      }
      answer.state = signal.aborted ? 'stopped' : 'failed';
      answer.error = signal.aborted ? null : error.message;
      if (error.status === 401) this.showKey();
    }
  }

  renew(tree, answer) {
    if (tree !== this.tree) return;
    this.thread.refresh();
    this.thread.view(answer.id)?.update();
    this.showHead();
  }

  stop() {
    this.growing.get(this.conversation.id)?.controller.abort();
  }

  fixSeed(seed) {
    this.conversation.sampling.seed = seed;
    this.settings.show(this.conversation);
    this.changed();
    announce(`The seed is fixed: ${seed}`);
  }

  showSeeds() {
    this.settingsDrawer.set(true, true);
    at('settings').querySelector('[name="seed-kind"]:checked')?.focus();
  }

  showKey() {
    this.settingsDrawer.set(true, true);
    this.settings.keyInput.focus();
  }

  /** The view of an answer's tokens; null where the server cannot tell them. */
  async tokens(message) {
    try {
      const { tokens, isSame } = await tokensOf(message, this.tree.before(message), AbortSignal.timeout(600_000));
      return tokenView(tokens, isSame);
    } catch (error) {
      notice(error.message);
      return null;
    }
  }
}

const lockOf = ({ id }) => `hlx-answer-${id}`;

/** Does some work under a lock, by which other tabs see that it is done here. */
function locked(name, work) {
  return navigator.locks ? navigator.locks.request(name, work) : work();
}

const store = await Store.open((line) => notice(line, { stays: true }));
const page = new Page(store);
await page.start();
