// Anthropic's client for Node against a scripted server: node node_anthropic.js URL KEY [error|stream-error]
//
// Every answer is a thought, a text and two calls, but for that to a conversation with results, which is a text.
const assert = require("node:assert");
const Anthropic = require("@anthropic-ai/sdk");
const { betaTool } = require("@anthropic-ai/sdk/helpers/beta/json-schema");

const [baseURL, apiKey, mode] = process.argv.slice(2);
const client = new Anthropic({ baseURL, apiKey, maxRetries: 0 });
const inputSchema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const tools = [{ name: "weather", description: "The weather.", input_schema: inputSchema }];
const messages = [{ role: "user", content: "How is the weather?" }];
const asked = { model: "tiny", max_tokens: 50, messages, tools };
const withoutIds = (content) => content.map(({ signature, ...block }) => block);

async function answers() {
  const whole = await client.messages.create({ ...asked, thinking: { type: "enabled", budget_tokens: 1024 } });
  assert.deepStrictEqual(withoutIds(whole.content), [
    { type: "thinking", thinking: "Let me see." },
    { type: "text", text: "In Ulm ✓" },
    { type: "tool_use", id: "call_1", name: "weather", input: { city: "Ulm" } },
    { type: "tool_use", id: "call_2", name: "weather", input: { city: "Bonn" } },
  ]);
  assert.strictEqual(whole.stop_reason, "tool_use");
  assert.strictEqual(whole.usage.cache_read_input_tokens, 2);
  assert.match(whole._request_id, /./);
  return whole;
}

async function streams(whole) {
  const heard = {};
  const stream = client.messages.stream(asked);
  const append = (name) => (piece) => (heard[name] = (heard[name] ?? "") + piece);
  const count = (name) => () => (heard[name] = (heard[name] ?? 0) + 1);
  stream.on("text", append("text")).on("thinking", append("thinking")).on("inputJson", append("inputJson"));
  for (const name of ["connect", "signature", "contentBlock", "message", "finalMessage", "end"]) {
    stream.on(name, count(name));
  }
  const message = await stream.finalMessage();
  assert.deepStrictEqual(message.content, whole.content);
  assert.strictEqual(await stream.finalText(), "In Ulm ✓");
  assert.deepStrictEqual(heard, {
    connect: 1,
    thinking: "Let me see.",
    signature: 1,
    text: "In Ulm ✓",
    inputJson: '{"city": "Ulm"}{"city": "Bonn"}',
    contentBlock: 4,
    message: 1,
    finalMessage: 1,
    end: 1,
  });
  const events = [];
  for await (const event of await client.messages.create({ ...asked, stream: true })) events.push(event.type);
  assert.strictEqual(events[0], "message_start");
  assert.strictEqual(events.at(-1), "message_stop");
  const broken = client.messages.stream(asked);
  for await (const event of broken) if (event.type === "content_block_delta") break; // hangs up
  assert.ok(broken.aborted || broken.controller.signal.aborted);
}

async function loops() {
  const cities = [];
  const run = async ({ city }) => `${cities.push(city)}: sunny in ${city}`;
  const weather = betaTool({ name: "weather", description: "The weather.", inputSchema, run });
  for (const stream of [false, true]) {
    const params = { ...asked, tools: [weather], stream, betas: ["interleaved-thinking-2025-05-14"] };
    const last = await client.beta.messages.toolRunner(params);
    assert.strictEqual(last.content.at(-1).text, "It is sunny.");
  }
  assert.deepStrictEqual(cities, ["Ulm", "Bonn", "Ulm", "Bonn"]);
  const { max_tokens, ...counted } = asked;
  assert.deepStrictEqual(Object.keys(await client.messages.countTokens(counted)), ["input_tokens"]);
  assert.ok((await client.beta.messages.countTokens(counted)).input_tokens > 0);
}

async function main() {
  if (mode === undefined) {
    await streams(await answers());
    await loops();
    console.log("all is well");
    return;
  }
  try {
    if (mode === "stream-error") await client.messages.stream(asked).finalMessage();
    else await client.messages.create(asked);
  } catch (error) {
    const kind = Object.keys(Anthropic).find((name) => Anthropic[name] === error.constructor);
    console.log(JSON.stringify({ kind, status: error.status, type: error.type, has_id: Boolean(error.requestID) }));
  }
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
