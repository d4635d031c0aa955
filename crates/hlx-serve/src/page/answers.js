// Asks for answers and adds what comes to a message.

import { chunks } from './api.js';

/** How an answer is asked for; it is kept with the answer, so that it can be had again. */
export function questionOf(conversation, continues, receipt) {
  return {
    model: conversation.model,
    system: conversation.system,
    sampling: { ...conversation.sampling },
    /** Models without a chat template continue a text. */
    continues,
    receipt,
  };
}

/** The path and fields of the request for a message, whose conversation is before it. */
function requestOf(asked, before, extra) {
  const { max_tokens: most, seed, ...sampling } = asked.sampling;
  const fields = { model: asked.model, ...sampling, seed, ...extra };
  if (most !== null) fields.max_tokens = most;
  const said = before.filter((message) => message.content);
  if (asked.continues) {
    const text = [asked.system, ...said.map((message) => message.content)].filter(Boolean).join('');
    // Without a number, this interface ends after 16 tokens: answers end where the context does.
    return ['v1/completions', { max_tokens: 1 << 24, ...fields, prompt: text }];
  }
  const messages = said.map(({ role, content }) => ({ role, content }));
  if (asked.system) messages.unshift({ role: 'system', content: asked.system });
  return ['v1/chat/completions', { ...fields, messages }];
}

/**
 * Asks for a message and adds to it what comes; `grew()` is called after each piece. Throws what goes wrong, and
 * leaves what came.
 */
export async function ask(message, before, signal, grew) {
  const extra = { stream_options: { include_usage: true }, ...(message.asked.receipt ? { receipt: true } : {}) };
  const [path, fields] = requestOf(message.asked, before, extra);
  const began = performance.now();
  let first = null;
  for await (const chunk of chunks(path, fields, signal)) {
    const choice = chunk.choices?.[0];
    const piece = choice?.delta?.content ?? choice?.text ?? '';
    if (piece) {
      first ??= performance.now();
      message.content += piece;
    }
    message.seed = fields.seed ?? (chunk.seed === undefined ? message.seed : String(chunk.seed));
    message.fingerprint = chunk.system_fingerprint ?? message.fingerprint;
    message.finish = choice?.finish_reason ?? message.finish;
    if (chunk.usage) message.usage = { prompt: chunk.usage.prompt_tokens, answer: chunk.usage.completion_tokens };
    if (chunk.receipt) message.receipt = chunk.receipt;
    grew();
  }
  const end = performance.now();
  message.times = { first: (first ?? end) - began, all: end - began };
}

/**
 * Asks for an answer once more, with its own seed, and returns its tokens with their log-probabilities:
 * `{tokens: [{text, logprob, top: [{text, logprob}]}], isSame}`. An answer that was stopped is asked for up to there.
 */
export async function tokensOf(message, before, signal) {
  const sampling = { ...message.asked.sampling, seed: message.seed };
  const asked = { ...message.asked, sampling };
  const top = 5;
  const extra = asked.continues ? { logprobs: top } : { logprobs: true, top_logprobs: top };
  const [path, fields] = requestOf(asked, before, extra);
  const tokens = [];
  let text = '';
  for await (const chunk of chunks(path, fields, signal)) {
    const choice = chunk.choices?.[0];
    text += choice?.delta?.content ?? choice?.text ?? '';
    tokens.push(...readTokens(choice?.logprobs));
    const isCut = message.state !== 'done' && text.length >= message.content.length;
    if (isCut) break;
  }
  const isSame = message.state === 'done' ? text === message.content : text.startsWith(message.content);
  return { tokens, isSame };
}

/** The tokens of a chunk, as either interface writes them. */
function readTokens(logprobs) {
  if (!logprobs) return [];
  if (logprobs.content) {
    const one = ({ token, logprob }) => ({ text: token, logprob });
    return logprobs.content.map((token) => ({ ...one(token), top: token.top_logprobs.map(one) }));
  }
  return (logprobs.tokens ?? []).map((token, at) => ({
    text: token,
    logprob: logprobs.token_logprobs[at],
    top: Object.entries(logprobs.top_logprobs?.[at] ?? {}).map(([text, logprob]) => ({ text, logprob })),
  }));
}
