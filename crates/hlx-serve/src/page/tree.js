// A conversation: messages in a tree, of which one path is shown. Editing and answering anew add branches.

/** How answers are drawn where nobody has said it: the server's own defaults. */
export const USUAL = {
  temperature: 1, top_p: 1, top_k: 0, min_p: 0, repetition_penalty: 1, presence_penalty: 0, frequency_penalty: 0,
  max_tokens: null, seed: null,
};

export const newId = () => {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
};

export function newConversation(like = {}) {
  const now = Date.now();
  return {
    id: newId(),
    title: '',
    created: now,
    updated: now,
    model: like.model ?? null,
    system: like.system ?? '',
    sampling: { ...USUAL, ...like.sampling },
    receipts: like.receipts ?? false,
    /** The branch that is shown behind a message, by the message's id; `''` for the first messages. */
    chosen: {},
  };
}

export class Tree {
  constructor(conversation, messages = []) {
    this.conversation = conversation;
    this.messages = new Map();
    this.children = new Map();
    for (const message of [...messages].sort((a, b) => a.created - b.created)) this.add(message);
  }

  add(message) {
    this.messages.set(message.id, message);
    const key = message.parent ?? '';
    if (!this.children.has(key)) this.children.set(key, []);
    this.children.get(key).push(message.id);
  }

  /** A new message behind another, which the path now leads through. */
  append(parent, role, fields = {}) {
    const latest = this.branches({ parent }).at(-1);
    const created = Math.max(Date.now(), (this.messages.get(latest)?.created ?? 0) + 1);
    const { id: conversation } = this.conversation;
    const message = { id: newId(), conversation, parent, role, content: '', created, ...fields };
    this.add(message);
    this.choose(message);
    return message;
  }

  /** The messages that have the same message before them, oldest first. */
  branches({ parent }) {
    return this.children.get(parent ?? '') ?? [];
  }

  choose({ id, parent }) {
    this.conversation.chosen[parent ?? ''] = id;
  }

  /** The messages that are shown, from the first. */
  path() {
    const all = [];
    for (let key = ''; ;) {
      const branches = this.children.get(key);
      if (!branches) return all;
      const chosen = this.conversation.chosen[key];
      const id = branches.includes(chosen) ? chosen : branches.at(-1);
      all.push(this.messages.get(id));
      key = id;
    }
  }

  /** The messages before one, from the first. */
  before(message) {
    const all = [];
    for (let id = message.parent; id; id = this.messages.get(id).parent) all.unshift(this.messages.get(id));
    return all;
  }
}

/** The title that a conversation has until it gets another one: the beginning of its first question. */
export function titleOf(text) {
  const line = text.trim().split('\n')[0].trim();
  return line.length > 60 ? `${line.slice(0, 59).trimEnd()}…` : line;
}
