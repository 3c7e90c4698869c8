// Sounds and documents through OpenAI's and Anthropic's clients: node node_media.js URL KEY MODEL FOLDER
const assert = require("node:assert");
const fs = require("node:fs");
const path = require("node:path");
const OpenAI = require("openai");
const Anthropic = require("@anthropic-ai/sdk");

const [url, apiKey, model, folder] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 });
const claude = new Anthropic({ baseURL: url, apiKey, maxRetries: 0 });
const talk = () => fs.createReadStream(path.join(folder, "talk.wav"));
const pdf = fs.readFileSync(path.join(folder, "note.pdf")).toString("base64");
const high = fs.readFileSync(path.join(folder, "high.wav")).toString("base64");
const greedy = { model, temperature: 0 };
const taken = "note.pdf, PDF, characters=11, pages=1 of 1";

async function transcripts() {
  const { transcriptions, translations } = client.audio;
  const whole = await transcriptions.create({ model, file: talk(), language: "en" });
  assert.strictEqual(whole.text, "low high low");
  assert.strictEqual(whole.usage.input_token_details.audio_tokens, 45);
  const verbose = await transcriptions.create({
    model, file: talk(), response_format: "verbose_json", timestamp_granularities: ["segment"],
  });
  assert.deepStrictEqual(verbose.segments.map((each) => each.text), ["low", "high", "low"]);
  assert.ok((await transcriptions.create({ model, file: talk(), response_format: "vtt" })).startsWith("WEBVTT\n\n00:"));
  let text = "";
  for await (const event of await transcriptions.create({ model, file: talk(), stream: true })) {
    if (event.type === "transcript.text.delta") text += event.delta;
  }
  assert.strictEqual(text, "low high low");
  assert.strictEqual((await translations.create({ model, file: talk() })).text, "low high low");
  await assert.rejects(
    transcriptions.create({ model: "demo", file: talk() }),
    (error) => error instanceof OpenAI.BadRequestError && error.param === "model",
  );
}

async function parts() {
  const heard = await client.chat.completions.create({
    ...greedy,
    messages: [{
      role: "user",
      content: [{ type: "input_audio", input_audio: { data: high, format: "wav" } }, { type: "text", text: "?" }],
    }],
  });
  assert.strictEqual(heard.choices[0].message.content, "high");
  assert.strictEqual(heard.usage.prompt_tokens_details.audio_tokens, 15);

  const file = { filename: "note.pdf", file_data: `data:application/pdf;base64,${pdf}` };
  const chat = await client.chat.completions
    .create({ ...greedy, max_tokens: 2, messages: [{ role: "user", content: [{ type: "file", file }] }] })
    .withResponse();
  const responses = await client.responses
    .create({
      ...greedy, max_output_tokens: 2, input: [{ role: "user", content: [{ type: "input_file", ...file }] }],
    })
    .withResponse();
  const document = {
    type: "document", title: "note.pdf", source: { type: "base64", media_type: "application/pdf", data: pdf },
  };
  const messages = await claude.messages
    .create({ ...greedy, max_tokens: 2, messages: [{ role: "user", content: [document] }] })
    .withResponse();
  for (const { response } of [chat, responses, messages]) {
    assert.strictEqual(response.headers.get("x-localllm-documents"), taken);
  }
}

transcripts()
  .then(parts)
  .then(() => console.log("all is well"));
