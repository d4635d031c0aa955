// Requests to the server that the page came from.

/** What goes wrong with a request: one line, and the server's word for it. */
export class ServerError extends Error {
  constructor(message, { status = 0, code = null, param = null } = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.param = param;
  }
}

/** The key that is sent with requests, if there is one. */
let key = '';

export function setKey(text) {
  key = text.trim();
}

async function request(path, body, signal) {
  const headers = key ? { authorization: `Bearer ${key}` } : {};
  if (body !== undefined) headers['content-type'] = 'application/json';
  let response;
  try {
    const method = body === undefined ? 'GET' : 'POST';
    response = await fetch(path, { method, headers, body, signal, cache: 'no-store' });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ServerError('The server does not answer. Is it still running?');
  }
  if (response.ok) return response;
  const { error } = await response.json().catch(() => ({}));
  const message = error?.message ?? `The server answers with status ${response.status}`;
  throw new ServerError(message, { status: response.status, code: error?.code, param: error?.param });
}

/** The models that are served. */
export async function models() {
  const { data } = await (await request('v1/models')).json();
  return data;
}

/** Whether the server makes receipts. */
export async function hasReceipts() {
  try {
    await request('v1/receipts/key');
    return true;
  } catch {
    return false;
  }
}

/** Lets the server check a receipt. */
export async function verify(receipt) {
  return (await request('v1/receipts/verify', JSON.stringify(receipt))).json();
}

/** A body with a seed of up to 64 bits, which is no number of JavaScript. */
function bodyOf({ seed, ...fields }) {
  const text = JSON.stringify(fields);
  return seed === null || seed === undefined ? text : `{"seed":${BigInt(seed)},${text.slice(1)}`;
}

/**
 * The chunks of an answer that streams. Throws a ServerError for one that the server breaks off; ends after `[DONE]`.
 */
export async function* chunks(path, fields, signal) {
  const response = await request(path, bodyOf({ ...fields, stream: true }), signal);
  for await (const data of events(response.body)) {
    if (data === '[DONE]') return;
    const chunk = JSON.parse(data);
    if (chunk.error) throw new ServerError(chunk.error.message, { code: chunk.error.code });
    yield chunk;
  }
  throw new ServerError('The connection to the server was lost in the middle of the answer.');
}

/** The data of server-sent events. */
async function* events(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const parts = (rest + value).replaceAll('\r\n', '\n').split('\n\n');
      rest = parts.pop();
      for (const part of parts) {
        const lines = part.split('\n').filter((line) => line.startsWith('data:'));
        if (lines.length) yield lines.map((line) => line.slice(5).replace(/^ /, '')).join('\n');
      }
    }
  } catch (error) {
    if (error.name === 'AbortError' || error instanceof ServerError) throw error;
    throw new ServerError('The connection to the server was lost in the middle of the answer.');
  } finally {
    reader.cancel().catch(() => {});
  }
}
