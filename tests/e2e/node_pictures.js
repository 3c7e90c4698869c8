// Pictures through OpenAI's, Anthropic's and Ollama's clients: node node_pictures.js URL KEY MODEL FOLDER
const assert = require("node:assert");
const fs = require("node:fs");
const path = require("node:path");
const OpenAI = require("openai");
const Anthropic = require("@anthropic-ai/sdk");
const { Ollama } = require("ollama");

const [url, apiKey, model, folder] = process.argv.slice(2);
const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 });
const claude = new Anthropic({ baseURL: url, apiKey, maxRetries: 0 });
const ollama = new Ollama({ host: url, headers: { authorization: `Bearer ${apiKey}` } });
const file = path.join(folder, "green.png");
const bare = fs.readFileSync(file).toString("base64");
const dataUrl = `data:image/png;base64,${bare}`;
const greedy = { model, temperature: 0 };

async function throughOpenAI() {
  const user = (...content) => [{ role: "user", content }];
  const image = { type: "image_url", image_url: { url: dataUrl, detail: "high" } };
  const messages = user({ type: "text", text: "What?" }, image);
  const chat = await openai.chat.completions.create({ ...greedy, messages });
  assert.strictEqual(chat.choices[0].message.content, "green");
  assert.strictEqual(chat.usage.prompt_tokens_details.image_tokens, 16);
  let text = "";
  const stream = { stream: true, stream_options: { include_usage: true }, timings: true };
  let last = null;
  for await (const chunk of await openai.chat.completions.create({ ...greedy, messages, ...stream })) {
    text += chunk.choices[0]?.delta?.content ?? "";
    last = chunk.usage === undefined || chunk.usage === null ? last : chunk;
  }
  assert.strictEqual(text, "green");
  assert.strictEqual(last.usage.prompt_tokens_details.image_tokens, 16);
  const input = user({ type: "input_text", text: "What?" }, { type: "input_image", image_url: dataUrl, detail: "auto" });
  const made = await openai.responses.create({ ...greedy, input });
  assert.strictEqual(made.output_text, "green");
  assert.strictEqual(made.usage.input_tokens_details.image_tokens, 16);
  const again = await openai.responses.create({ ...greedy, input: "Sure?", previous_response_id: made.id });
  assert.strictEqual(again.output_text, "green");
  assert.strictEqual((await openai.responses.inputTokens.count({ model, input })).input_tokens, made.usage.input_tokens);
  const [seen, other] = (await openai.embeddings.create({ model, input: [{ content: [image] }, "green"] })).data;
  assert.strictEqual(seen.embedding.length, other.embedding.length);
  await assert.rejects(
    openai.chat.completions.create({ ...greedy, messages: user({ type: "image_url", image_url: { url: "data:," } }) }),
    (error) => error instanceof OpenAI.BadRequestError && error.param === "messages[0].content[0]",
  );
  for await (const each of openai.models.list()) {
    if (each.id === model) assert.ok(each.architecture.input_modalities.includes("image"));
  }
}

async function throughAnthropic() {
  const image = { type: "image", source: { type: "base64", media_type: "image/png", data: bare } };
  const call = { type: "tool_use", id: "c", name: "Read", input: { file_path: "green.png" } };
  const result = { type: "tool_result", tool_use_id: "c", content: [image] };
  for (const messages of [
    [{ role: "user", content: [image, { type: "text", text: "What?" }] }],
    [{ role: "user", content: "Look." }, { role: "assistant", content: [call] }, { role: "user", content: [result] }],
  ]) {
    const made = await claude.messages.create({ ...greedy, max_tokens: 5, messages });
    assert.strictEqual(made.content[0].text, "green");
    assert.strictEqual(made.usage.image_tokens, 16);
    assert.strictEqual(await claude.messages.stream({ ...greedy, max_tokens: 5, messages }).finalText(), "green");
    const counted = await claude.messages.countTokens({ model, messages });
    assert.strictEqual(counted.input_tokens, made.usage.input_tokens + made.usage.cache_read_input_tokens);
    assert.strictEqual(counted.image_tokens, 16);
  }
  const known = await claude.models.retrieve(model);
  assert.ok(known.capabilities.image_input.supported);
}

async function throughOllama() {
  const options = { temperature: 0 };
  for (const images of [[file], [bare], [new Uint8Array(fs.readFileSync(file))], [dataUrl]]) {
    const made = await ollama.chat({ model, messages: [{ role: "user", content: "What?", images }], options });
    assert.strictEqual(made.message.content, "green");
    assert.strictEqual(made.image_eval_count, 16);
    assert.strictEqual((await ollama.generate({ model, prompt: "What?", images, options })).response, "green");
  }
  assert.ok((await ollama.show({ model })).capabilities.includes("vision"));
}

throughOpenAI()
  .then(throughAnthropic)
  .then(throughOllama)
  .then(() => console.log("all is well"));
