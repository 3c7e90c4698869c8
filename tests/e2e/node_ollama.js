// Ollama's own client for Node, whole and streamed: node node_ollama.js URL KEY FILE DIGEST
const assert = require("node:assert");
const fs = require("node:fs");
const { Ollama } = require("ollama");

const [host, key, file, digest] = process.argv.slice(2);
const client = new Ollama({ host, headers: { authorization: `Bearer ${key}` } });
const greedy = { temperature: 0, seed: 1, num_predict: 60 };
const messages = [{ role: "user", content: "Hello!" }];
const weather = {
  type: "function",
  function: {
    name: "get_weather",
    description: "Get the weather in a city.",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
};

async function main() {
  assert.ok((await client.list()).models.some((model) => model.name === "demo:latest"));
  const shown = await client.show({ model: "demo" });
  assert.ok(shown.capabilities.includes("completion"));
  assert.ok((await client.version()).version);

  const whole = await client.chat({ model: "demo", messages, options: greedy });
  let text = "";
  let last = null;
  for await (const part of await client.chat({ model: "demo", messages, options: greedy, stream: true })) {
    text += part.message.content;
    last = part;
  }
  assert.strictEqual(text, whole.message.content);
  assert.strictEqual(last.eval_count, whole.eval_count);
  assert.ok(last.done && last.total_duration > 0);

  const thought = await client.chat({ model: "demo", messages, options: { ...greedy, num_predict: 200 }, think: true });
  assert.ok(thought.message.thinking.length > 0);

  const asked = [{ role: "user", content: "What is the weather in Paris?" }];
  const calls = [];
  for await (const part of await client.chat({
    model: "demo", messages: asked, tools: [weather], options: { ...greedy, num_predict: 200 }, stream: true,
  })) {
    calls.push(...(part.message.tool_calls ?? []));
  }
  assert.deepStrictEqual(calls[0].function.arguments, { city: "Paris" });

  const format = { type: "object", properties: { age: { type: "integer" } }, required: ["age"] };
  const typed = await client.generate({ model: "demo", prompt: "Answer in JSON.", format, options: greedy });
  assert.strictEqual(typeof JSON.parse(typed.response).age, "number");
  assert.ok(typed.context.length > 0);

  const vectors = await client.embed({ model: "demo", input: ["a cat", "a dog"] });
  assert.strictEqual(vectors.embeddings.length, 2);

  const sent = await fetch(`${host}/api/blobs/${digest}`, {
    method: "POST", headers: { authorization: `Bearer ${key}` }, body: fs.readFileSync(file),
  });
  assert.ok(sent.status === 201 || sent.status === 200);
  const statuses = [];
  for await (const line of await client.create({ model: "from-node", from: "demo", system: "Hm.", stream: true })) {
    statuses.push(line.status);
  }
  assert.strictEqual(statuses.at(-1), "success");
  assert.strictEqual((await client.show({ model: "from-node" })).system, "Hm.");
  await client.delete({ model: "from-node" });

  await client.generate({ model: "demo", prompt: "", keep_alive: "5m" });
  assert.strictEqual((await client.ps()).models[0].name, "demo:latest");

  const stream = await client.generate({ model: "demo", prompt: "Once", raw: true, stream: true });
  setTimeout(() => stream.abort(), 5);
  await assert.rejects(async () => {
    for await (const part of stream) {
      if (part.done) throw new Error("ended before it was aborted");
    }
  });
  await assert.rejects(client.chat({ model: "nothing", messages }), { message: /not found/, status_code: 404 });
  await assert.rejects(client.push({ model: "demo" }), { message: /demo is part of localllm/ });
  console.log("all is well");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
