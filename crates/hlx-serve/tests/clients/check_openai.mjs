// Runs OpenAI's own JavaScript client against a server: `node check_openai.mjs http://127.0.0.1:8000/v1 MODEL`.

import assert from "node:assert/strict";
import { createRequire } from "node:module";

// Packages are found from where node is run.
const OpenAI = createRequire(`${process.cwd()}/`)("openai").default;
const [baseURL, model] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey: "none", maxRetries: 0 });

const models = await client.models.list();
assert.ok(models.data.some((one) => one.id === model));

const messages = [{ role: "system", content: "be kind" }, { role: "user", content: "light" }];
const options = { model, messages, seed: 5, max_tokens: 20 };
const whole = await client.chat.completions.create({ ...options, logprobs: true, top_logprobs: 2 });
const text = whole.choices[0].message.content;
assert.ok(text);
const stream = await client.chat.completions.create({
  ...options, stream: true, stream_options: { include_usage: true },
});
let streamed = "", usage = null;
for await (const chunk of stream) {
  streamed += chunk.choices[0]?.delta?.content ?? "";
  usage = chunk.usage ?? usage;
}
assert.equal(streamed, text);
assert.equal(usage.total_tokens, whole.usage.total_tokens);

const written = await client.completions.create({ model, prompt: [[97], [98]], seed: 1, max_tokens: 8, echo: true });
assert.deepEqual(written.choices.map((one) => one.text[0]), ["a", "b"]);

const [coded, plain] = await Promise.all([
  client.embeddings.create({ model, input: "the river" }),
  client.embeddings.create({ model, input: "the river", encoding_format: "float" }),
]);
assert.deepEqual(coded.data[0].embedding.map(Math.fround), plain.data[0].embedding.map(Math.fround));

const said = await client.responses.create({ model, input: "light", instructions: "be kind" });
assert.ok(said.output_text);

await assert.rejects(client.chat.completions.create({ ...options, model: "nothing" }), OpenAI.NotFoundError);
await assert.rejects(client.chat.completions.create({ ...options, top_p: 2 }), OpenAI.BadRequestError);

// A client that leaves.
const left = await client.chat.completions.create({ ...options, max_tokens: 200, stream: true });
for await (const chunk of left) {
  if (chunk.choices[0]?.delta?.content) break;
}
console.log("openai (JavaScript) ok");
