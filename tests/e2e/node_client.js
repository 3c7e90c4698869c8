// Each endpoint through the official client, streamed and whole: node node_client.js URL KEY MODEL
const assert = require("node:assert");
const OpenAI = require("openai");

const [baseURL, apiKey, model] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const messages = [{ role: "user", content: "Hi" }];
const greedy = { model, temperature: 0, seed: 1 };

async function main() {
  const listed = [];
  for await (const entry of client.models.list()) listed.push(entry.id);
  assert.ok(listed.includes(model));
  assert.strictEqual((await client.models.retrieve(model)).id, model);

  const whole = await client.chat.completions.create({ ...greedy, messages, max_tokens: 12, logprobs: true });
  assert.strictEqual(whole.choices[0].logprobs.content.length, whole.usage.completion_tokens);
  const stream = await client.chat.completions.create({
    ...greedy, messages, max_tokens: 12, stream: true, stream_options: { include_usage: true },
  });
  let text = "";
  let usage = null;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta?.content ?? "";
    usage = chunk.usage ?? usage;
  }
  assert.strictEqual(text, whole.choices[0].message.content);
  assert.strictEqual(usage.completion_tokens, whole.usage.completion_tokens);

  const plain = await client.completions.create({ ...greedy, prompt: "Hi", max_tokens: 8, echo: true });
  assert.ok(plain.choices[0].text.startsWith("Hi"));
  let pieces = "";
  for await (const chunk of await client.completions.create({ ...greedy, prompt: "Hi", max_tokens: 8, stream: true })) {
    pieces += chunk.choices[0].text;
  }
  assert.strictEqual("Hi" + pieces, plain.choices[0].text);

  const response = await client.responses.create({ model, temperature: 0, input: "Hi", max_output_tokens: 8 });
  assert.ok(response.output_text.length > 0);
  let told = "";
  for await (const event of await client.responses.create({
    model, temperature: 0, input: "Hi", max_output_tokens: 8, stream: true,
  })) {
    if (event.type === "response.output_text.delta") told += event.delta;
  }
  assert.strictEqual(told, response.output_text);
  const next = await client.responses.create({
    model, temperature: 0, input: "And?", max_output_tokens: 4, previous_response_id: response.id,
  });
  assert.strictEqual(next.previous_response_id, response.id);
  await client.responses.delete(response.id);
  await assert.rejects(client.responses.retrieve(response.id), OpenAI.NotFoundError);

  await assert.rejects(
    client.chat.completions.create({ ...greedy, messages, temperature: -1 }),
    (error) => error instanceof OpenAI.BadRequestError && error.param === "temperature",
  );
  const aborted = await client.chat.completions.create({ ...greedy, messages, stream: true });
  for await (const _ of aborted) break; // leaving the loop closes the connection
  console.log("all is well");
}

main();
