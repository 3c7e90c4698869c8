// A call, its result and the answer through the official client, streamed and whole: node node_tools.js URL KEY MODEL
const assert = require("node:assert");
const OpenAI = require("openai");

const [baseURL, apiKey, model] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const weather = { name: "get_weather", description: "Get the weather in a city.", parameters };
const tools = [{ type: "function", function: weather }];
const result = JSON.stringify({ temperature: 19, sky: "cloudy" });
const asked = { model, temperature: 0, max_tokens: 200, tools };

async function loop(answer, choice) {
  const messages = [{ role: "user", content: "What is the weather in Paris?" }];
  const first = await answer({ ...asked, messages, tool_choice: choice });
  assert.strictEqual(first.finish_reason, "tool_calls");
  const [call] = first.message.tool_calls;
  assert.strictEqual(call.function.name, "get_weather");
  assert.deepStrictEqual(JSON.parse(call.function.arguments), { city: "Paris" });
  messages.push(first.message, { role: "tool", tool_call_id: call.id, content: result });
  const last = await answer({ ...asked, messages });
  assert.strictEqual(last.finish_reason, "stop");
  assert.match(last.message.content, /19/);
  return last.message.content;
}

const whole = async (request) => (await client.chat.completions.create(request)).choices[0];
const streamed = async (request) => (await client.chat.completions.stream(request).finalChatCompletion()).choices[0];

async function main() {
  for (const choice of ["auto", "required"]) {
    assert.strictEqual(await loop(whole, choice), await loop(streamed, choice));
  }
  const runner = client.chat.completions.runTools({
    ...asked,
    messages: [{ role: "user", content: "What is the weather in Paris?" }],
    tools: [{ type: "function", function: { ...weather, parse: JSON.parse, function: () => result } }],
    stream: true,
  });
  assert.match(await runner.finalContent(), /19/);
  console.log("all is well");
}

main();
