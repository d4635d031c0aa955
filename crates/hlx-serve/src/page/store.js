// Where conversations are kept: the browser's IndexedDB, each message by itself; in memory where there is none.

import { fileOf, read } from './imports.js';

const NAME = 'hlx-chat';
const VERSION = 1;

const done = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

function open() {
  const request = indexedDB.open(NAME, VERSION);
  request.onupgradeneeded = () => {
    request.result.createObjectStore('conversations', { keyPath: 'id' });
    const messages = request.result.createObjectStore('messages', { keyPath: 'id' });
    messages.createIndex('conversation', 'conversation');
  };
  return done(request);
}

export class Store {
  /** Opens what the browser has kept. `failed(line)` is called with what goes wrong later. */
  static async open(failed) {
    try {
      return new Store(await open(), failed);
    } catch (error) {
      failed(`This browser keeps no conversations (${error.message}): export those that you need.`);
      return new Store(null, failed);
    }
  }

  constructor(database, failed) {
    this.database = database;
    this.failed = failed;
    /** What is kept in memory if there is no database. */
    this.memory = { conversations: new Map(), messages: new Map() };
    this.channel = typeof BroadcastChannel === 'undefined' ? null : new BroadcastChannel(NAME);
  }

  /** Calls `changed(id)` when another tab has changed a conversation. */
  watch(changed) {
    if (this.channel) this.channel.onmessage = ({ data }) => changed(data);
  }

  async conversations() {
    const all = this.database
      ? await done(this.database.transaction('conversations').objectStore('conversations').getAll())
      : [...this.memory.conversations.values()];
    return all.sort((a, b) => b.updated - a.updated);
  }

  async messages(conversation) {
    if (!this.database) {
      return [...this.memory.messages.values()].filter((one) => one.conversation === conversation);
    }
    const messages = this.database.transaction('messages').objectStore('messages');
    return done(messages.index('conversation').getAll(conversation));
  }

  /** Keeps a conversation and messages of it, all or nothing. */
  async keep(conversation, messages = []) {
    await this.change(conversation.id, (stores) => {
      stores.conversations.put(conversation);
      for (const message of messages) stores.messages.put(message);
    });
  }

  async remove(conversation) {
    const ids = (await this.messages(conversation)).map((message) => message.id);
    await this.change(conversation, (stores) => {
      stores.conversations.delete(conversation);
      for (const id of ids) stores.messages.delete(id);
    });
  }

  async change(conversation, work) {
    if (!this.database) {
      const store = (map) => ({ put: (one) => map.set(one.id, one), delete: (id) => map.delete(id) });
      work({ conversations: store(this.memory.conversations), messages: store(this.memory.messages) });
      return;
    }
    try {
      await new Promise((resolve, reject) => {
        const transaction = this.database.transaction(['conversations', 'messages'], 'readwrite');
        transaction.oncomplete = resolve;
        transaction.onabort = () => reject(transaction.error ?? new Error('the browser broke off'));
        const stores = (name) => transaction.objectStore(name);
        work({ conversations: stores('conversations'), messages: stores('messages') });
      });
      this.channel?.postMessage(conversation);
    } catch (error) {
      const isFull = error.name === 'QuotaExceededError';
      const reason = isFull ? "the browser's storage is full" : error.message;
      this.failed(`The last change is not kept: ${reason}. Export this conversation, or delete others.`);
    }
  }

  /** All conversations, or one, as the text of a file. */
  async exported(id = null) {
    const all = (await this.conversations()).filter((one) => id === null || one.id === id);
    const conversations = [];
    for (const one of all) conversations.push({ ...one, messages: await this.messages(one.id) });
    return fileOf(conversations);
  }

  /** Adds the conversations of a file, under new ids. Returns how many there were. */
  async imported(text) {
    const all = read(text);
    for (const { conversation, messages } of all) await this.keep(conversation, messages);
    return all.length;
  }
}
