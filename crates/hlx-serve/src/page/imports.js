// Files of conversations. What is read may come from anywhere: only what is known of it is taken, by its type.

import { newId, USUAL } from './tree.js';

const FORMAT = 'hlx-conversations';
const VERSION = 1;
const STATES = ['done', 'stopped', 'failed'];

/** The text of a file with conversations, each with its messages. */
export function fileOf(conversations) {
  return JSON.stringify({ format: FORMAT, version: VERSION, conversations }, null, 2);
}

/** Reads a file of conversations. Throws an Error whose message says what is wrong with it. */
export function read(text) {
  let file;
  try {
    file = JSON.parse(text);
  } catch (error) {
    throw new Error(`The file is no JSON: ${error.message}`);
  }
  const format = JSON.stringify(file?.format);
  if (file?.format !== FORMAT) throw new Error(`The file has the format ${format}, expected "${FORMAT}".`);
  if (file.version !== VERSION) throw new Error(`The file has version ${file.version}, expected ${VERSION}.`);
  if (!Array.isArray(file.conversations)) throw new Error('The file has no list of conversations.');
  return file.conversations.map(conversationOf);
}

const textOf = (value) => (typeof value === 'string' ? value : '');
const numberOf = (value) => (Number.isFinite(value) ? value : 0);
const timeOf = (value) => (Number.isFinite(value) ? value : Date.now());
const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);
const objectOf = (value) => (isObject(value) ? value : {});
const isSeed = (value) => /^-?\d{1,20}$/.test(value);

function samplingOf(found) {
  const isValue = (name) => (name === 'seed' ? isSeed(found[name]) : Number.isFinite(found[name]));
  const all = Object.entries(USUAL).map(([name, usual]) => [name, isValue(name) ? found[name] : usual]);
  return Object.fromEntries(all);
}

function conversationOf(found, at) {
  if (!Array.isArray(found?.messages)) throw new Error(`conversations[${at}] has no list of messages.`);
  const ids = new Map(found.messages.map((message) => [message?.id, newId()]));
  const id = newId();
  const where = (n) => `conversations[${at}].messages[${n}]`;
  const messages = found.messages.map((message, n) => messageOf(message, id, ids, where(n)));
  const chosen = Object.entries(objectOf(found.chosen)).map(([key, value]) => [key && ids.get(key), ids.get(value)]);
  const conversation = {
    id,
    title: textOf(found.title),
    created: timeOf(found.created),
    updated: timeOf(found.updated),
    model: textOf(found.model) || null,
    system: textOf(found.system),
    sampling: samplingOf(objectOf(found.sampling)),
    receipts: found.receipts === true,
    chosen: Object.fromEntries(chosen.filter(([key, value]) => key !== undefined && value)),
  };
  return { conversation, messages };
}

function messageOf(found, conversation, ids, where) {
  if (!['user', 'assistant'].includes(found?.role)) throw new Error(`${where} has no role that is known here.`);
  if (typeof found.content !== 'string') throw new Error(`${where} has no text.`);
  const parent = found.parent ?? null;
  if (parent !== null && !ids.has(parent)) throw new Error(`${where} follows a message that is not in the file.`);
  const message = {
    id: ids.get(found.id),
    conversation,
    parent: parent === null ? null : ids.get(parent),
    role: found.role,
    content: found.content,
    created: timeOf(found.created),
  };
  return found.role === 'user' ? message : { ...message, ...answerOf(found) };
}

function answerOf({ state, error, finish, seed, fingerprint, usage, times, asked, receipt }) {
  const fields = { state: STATES.includes(state) ? state : 'stopped', error: textOf(error), finish: textOf(finish) };
  if (isSeed(seed)) fields.seed = String(seed);
  if (typeof fingerprint === 'string') fields.fingerprint = fingerprint;
  if (isObject(usage)) fields.usage = { prompt: numberOf(usage.prompt), answer: numberOf(usage.answer) };
  if (isObject(times)) fields.times = { first: numberOf(times.first), all: numberOf(times.all) };
  if (isObject(receipt)) fields.receipt = receipt;
  if (isObject(asked)) {
    fields.asked = {
      model: textOf(asked.model),
      system: textOf(asked.system),
      sampling: samplingOf(objectOf(asked.sampling)),
      continues: asked.continues === true,
      receipt: asked.receipt === true,
    };
  }
  return fields;
}
