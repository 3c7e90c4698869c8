// A loop of two steps through the Responses API, streamed and whole: node node_responses.js URL KEY MODEL
const assert = require("node:assert");
const OpenAI = require("openai");

const [baseURL, apiKey, model] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const parameters = {
  type: "object",
  properties: { city: { enum: ["Ulm", "Bonn"] } },
  required: ["city"],
  additionalProperties: false,
};
const tools = [{ type: "function", name: "get_weather", parameters, strict: true }];
const asked = { model, tools, max_output_tokens: 100, temperature: 0 };

async function main() {
  const input = [{ role: "user", content: "How is the weather in Ulm?" }];
  const whole = await client.responses.create({ ...asked, input, tool_choice: "required", parallel_tool_calls: false });
  const [call] = whole.output.filter((item) => item.type === "function_call");
  assert.ok(["Ulm", "Bonn"].includes(JSON.parse(call.arguments).city));

  let told = "";
  const stream = client.responses.stream({ ...asked, input, tool_choice: "required", parallel_tool_calls: false });
  stream.on("response.function_call_arguments.delta", (event) => (told += event.delta));
  const streamed = await stream.finalResponse();
  assert.strictEqual(told, call.arguments);
  assert.strictEqual(streamed.output.at(-1).arguments, call.arguments);

  const result = { type: "function_call_output", call_id: call.call_id, output: "sunny" };
  const history = [...input, ...whole.output, result];
  const answered = await client.responses.create({ ...asked, input: history, tool_choice: "none" });
  assert.ok(answered.output.every((item) => item.type !== "function_call"));
  const next = await client.responses.create({
    ...asked, input: [result], previous_response_id: whole.id, tool_choice: "none",
  });
  assert.strictEqual(next.output_text, answered.output_text);
  console.log("all is well");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
