// How one message is shown, with what can be done about it.

import { copy, el, iconButton, relabel } from './dom.js';
import { Markdown } from './markdown.js';

/** What a reasoning model thinks before its answer. */
const THOUGHT = /^\s*<think>([\s\S]*?)(?:<\/think>\s*|$)/;

const number = (value) => value.toLocaleString('en-US');

/** What lies around a message: the branches beside it, and the actions for all messages. */
class View {
  constructor(message, context) {
    this.message = message;
    this.context = context;
    this.tools = el('div', { class: 'tools' });
  }

  /** Renews the switch between branches, where it is another one now. */
  branched() {
    if (this.n !== this.context.tree.branches(this.message).length) this.update();
  }

  /** The switch between branches, where there are several. */
  switch() {
    const ids = this.context.tree.branches(this.message);
    this.n = ids.length;
    if (ids.length < 2) return null;
    const at = ids.indexOf(this.message.id);
    const go = (to) => () => this.context.actions.choose(ids[to]);
    const what = this.message.role === 'user' ? 'version' : 'answer';
    return el('span', { class: 'branches', role: 'group', 'aria-label': `${what} ${at + 1} of ${ids.length}` },
      iconButton('left', `Earlier ${what}`, go(at - 1), { disabled: at === 0 }),
      el('span', {}, `${at + 1}/${ids.length}`),
      iconButton('right', `Later ${what}`, go(at + 1), { disabled: at === ids.length - 1 }));
  }

  copyButton() {
    const button = iconButton('copy', 'Copy', async () => {
      relabel(button, 'copy', (await copy(this.message.content)) ? 'Copied' : 'The browser allows no copy');
      setTimeout(() => relabel(button, 'copy', 'Copy'), 2_000);
    });
    return button;
  }
}

/** A question. */
export class Question extends View {
  constructor(message, context) {
    super(message, context);
    this.element = el('article', { class: 'message user', 'aria-label': 'You', 'data-id': message.id });
    this.update();
  }

  update() {
    this.tools.replaceChildren(...[
      this.switch(), this.copyButton(), iconButton('edit', 'Edit', () => this.edit(), { class: 'edit' }),
    ].filter(Boolean));
    this.element.replaceChildren(el('div', { class: 'bubble' }, this.message.content), this.tools);
  }

  /** Lets the text be changed; the conversation then goes on from here, in a branch of its own. */
  edit() {
    const { content } = this.message;
    // Where a browser does not fit the field to its text, it has about as many lines.
    const rows = Math.min(16, content.split('\n').length + Math.floor(content.length / 80));
    const area = el('textarea', { 'aria-label': 'Edit the message', rows });
    area.value = content;
    const cancel = () => {
      this.update();
      this.element.querySelector('.edit').focus();
    };
    const send = () => {
      const text = area.value.trim();
      if (text) this.context.actions.edited(this.message, text);
    };
    area.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') cancel();
      else if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) send();
      else return;
      event.preventDefault();
    });
    const buttons = el('div', { class: 'row' },
      el('button', { type: 'button', class: 'plain', onclick: cancel }, 'Cancel'),
      el('button', { type: 'button', class: 'button main', onclick: send }, 'Send'));
    this.element.replaceChildren(el('div', { class: 'editor' }, area, buttons));
    area.focus();
    area.setSelectionRange(area.value.length, area.value.length);
  }
}

/** An answer, which may still grow. */
export class Answer extends View {
  constructor(message, context) {
    super(message, context);
    this.body = el('div', { class: 'prose' });
    this.below = el('div', { class: 'below' });
    const label = message.asked?.model ?? 'Model';
    this.element = el('article', { class: 'message assistant', 'aria-label': label, 'data-id': message.id },
      this.body, this.below, this.tools);
    this.markdown = new Markdown(this.body);
    this.update();
  }

  get grows() {
    return this.message.state === 'growing';
  }

  /** Shows what has come, at the next frame. */
  grew() {
    if (this.frame) return;
    const work = () => {
      this.frame = null;
      if (this.grows) this.showText();
      this.context.grew();
    };
    // A page that is not seen has no frames.
    this.frame = document.hidden ? setTimeout(work, 500) : requestAnimationFrame(work);
  }

  showText() {
    const { content } = this.message;
    const thought = THOUGHT.exec(content);
    this.element.classList.toggle('empty', !content);
    this.showThought(thought?.[1], thought && thought[0].length < content.length);
    this.markdown.show(thought ? content.slice(thought[0].length) : content, this.grows);
  }

  showThought(text, isOver) {
    if (!text?.trim()) return;
    if (!this.thought) {
      this.summary = el('summary', {}, 'Thinking …');
      this.thoughtText = el('div', {});
      this.thought = el('details', { class: 'thought', open: !isOver && this.grows }, this.summary, this.thoughtText);
      this.body.before(this.thought);
    }
    this.thoughtText.textContent = text.trim();
    if (isOver && this.summary.textContent !== 'Thoughts') {
      this.summary.textContent = 'Thoughts';
      this.thought.open = false;
    }
  }

  update() {
    const { message, grows } = this;
    this.element.setAttribute('aria-busy', String(grows));
    this.element.classList.toggle('growing', grows);
    this.showText();
    this.below.replaceChildren(...this.trouble(), ...(this.tokens ? [this.tokens] : []));
    this.tools.replaceChildren(...(grows ? [] : this.buttons()));
  }

  trouble() {
    const { message } = this;
    if (message.state === 'failed') {
      const again = () => this.context.actions.again(message);
      return [el('div', { class: 'trouble' }, el('span', {}, message.error),
        el('button', { type: 'button', class: 'button', onclick: again }, 'Try again'))];
    }
    const isFull = message.state === 'done' && message.finish === 'length';
    const line = message.state === 'stopped' ? 'Stopped.' : isFull && 'The answer has reached its longest.';
    return line ? [el('p', { class: 'hint' }, line)] : [];
  }

  buttons() {
    const { message } = this;
    const { actions } = this.context;
    const all = [this.switch()];
    if (message.content) all.push(this.copyButton());
    if (message.state !== 'failed' || message.content) {
      all.push(iconButton('again', 'Answer anew', () => actions.again(message)));
    }
    if (message.content && message.seed && message.asked) {
      const label = this.tokens ? 'Hide the tokens' : 'Ask again with its seed and show the tokens';
      const state = { 'aria-expanded': String(Boolean(this.tokens)), class: 'show-tokens' };
      all.push(iconButton('tokens', label, () => this.toggleTokens(), state));
    }
    if (message.receipt) {
      all.push(iconButton('seal', 'Receipt', () => actions.receipt(message), { class: 'show-receipt' }));
    }
    if (message.content || message.state !== 'failed') all.push(this.facts());
    return all.filter(Boolean);
  }

  facts() {
    const { seed, usage, times, asked } = this.message;
    const facts = el('span', { class: 'facts' });
    if (seed) {
      const fix = () => this.context.actions.fixSeed(seed);
      const title = 'Use this seed for the next answers';
      facts.append(el('button', { type: 'button', class: 'seed', title, onclick: fix }, `seed ${seed}`));
    }
    const rest = [];
    if (usage) rest.push(usage.answer === 1 ? '1 token' : `${number(usage.answer)} tokens`);
    const seconds = times ? (times.all - times.first) / 1_000 : 0;
    if (usage?.answer > 1 && seconds > 0.05) rest.push(`${number(Math.round((usage.answer - 1) / seconds))} tokens/s`);
    if (asked?.model && this.context.hasModels()) rest.push(asked.model);
    facts.append(...rest.map((text) => el('span', {}, text)));
    return facts;
  }

  async toggleTokens() {
    if (this.tokens) this.tokens = null;
    else this.tokens = await this.context.actions.tokens(this.message);
    this.update();
    this.element.querySelector('.show-tokens')?.focus();
  }
}
