// All texts of the page in one place; a translation replaces this file.

/** @param {number} count @param {string} one @param {string} many */
const counted = (count, one, many) => `${count.toLocaleString()} ${count === 1 ? one : many}`;

export const words = {
  lang: "en",
  dir: "ltr",
  title: "localllm",
  skip: "Skip to the conversation",
  views: { chat: "Chat", models: "Models", machine: "Machine" },
  theme: { auto: "Theme: system", light: "Theme: light", dark: "Theme: dark" },
  keyboard: "Help and keyboard shortcuts",
  docs: "Documentation",
  close: "Close",
  cancel: "Cancel",
  ok: "OK",
  copy: "Copy",
  copied: "Copied",
  download: "Download",
  wrap: "Wrap lines",

  key: {
    title: "This server requires an API key",
    field: "API key",
    note: "The key is kept until you close this tab.",
    wrong: "The server does not accept this key.",
    go: "Continue",
  },
  failed: {
    gone: "The server cannot be reached.",
    stream: "The answer was interrupted",
    notJson: "Not valid JSON",
    blocked: "An older version of this page is open in another tab; close it and reload.",
    /** @param {string} why */
    unstored: (why) => `This browser does not store conversations now; export what you want to keep. It said: ${why}`,
    /** @param {string} why */
    unexpected: (why) => `Something failed unexpectedly: ${why}`,
  },

  chats: {
    title: "Conversations",
    new: "New chat",
    search: "Search conversations",
    none: "No conversations yet",
    noMatch: "Nothing found",
    untitled: "New chat",
    rename: "Rename",
    delete: "Delete",
    /** @param {string} title */
    reallyDelete: (title) => `Delete “${title}”? This cannot be undone.`,
    exportJson: "Export as JSON",
    exportMarkdown: "Export as Markdown",
    exportAll: "Export all",
    import: "Import",
    /** @param {number} count */
    imported: (count) => `${counted(count, "conversation", "conversations")} imported`,
    badImport: "This file contains no localllm conversations.",
    menu: "More",
    open: "Show conversations",
    pin: "Pin",
    unpin: "Unpin",
    pinned: "Pinned",
    today: "Today",
    yesterday: "Yesterday",
    week: "Last seven days",
    earlier: "Earlier",
  },

  chat: {
    empty: "What would you like to talk about?",
    note: "Conversations are stored in this browser only.",
    toy: "The demo model is a toy that shows how this works.",
    findModel: "Find a model for this machine",
    /** @type {{ title: string, text: string, reads?: "image" }[]} */
    demoStarters: [
      { title: "Meet it", text: "Who are you?" },
      { title: "Tell a story", text: "Write a short story about a fox." },
      { title: "Look", text: "What do you see in this picture?", reads: "image" },
    ],
    /** @type {{ title: string, text: string, reads?: "image" }[]} */
    starters: [
      { title: "Explain", text: "Explain how a hash table works, with an example." },
      { title: "Draft", text: "Write a friendly message that moves a meeting to next week." },
      { title: "Program", text: "Write a Python function that finds duplicate files in a folder." },
      { title: "Look", text: "Describe this picture, then list everything written in it.", reads: "image" },
    ],
    message: "Message",
    placeholder: "Write a message",
    send: "Send",
    stop: "Stop",
    model: "Model",
    noModels: "There are no models on this machine yet. Download one under Models.",
    you: "You",
    assistant: "Assistant",
    tool: "Tool result",
    edit: "Edit",
    speak: "Read aloud",
    save: "Send again",
    regenerate: "Regenerate",
    continue: "Continue",
    showFigures: "Speed and tokens of this answer",
    previous: "Previous version",
    next: "Next version",
    /** @param {number} at @param {number} of */
    version: (at, of) => `Version ${at} of ${of}`,
    logprobs: "Show token probabilities",
    /** @param {string} seconds */
    thought: (seconds) => `Thought for ${seconds} s`,
    thinking: "Thinking …",
    /** @param {number} done @param {number} total */
    reading: (done, total) => `Reading the prompt: ${done.toLocaleString()} of ${total.toLocaleString()} tokens`,
    waiting: "Waiting for the model …",
    /** @param {number} part */
    loading: (part) => `Loading the model: ${Math.round(part * 100)} %`,
    /** @param {number} tokens @param {number} perSecond @param {number} cached @param {number} prompt @param {number} [files] */
    figures: (tokens, perSecond, cached, prompt, files = 0) =>
      [
        counted(tokens, "token", "tokens"),
        perSecond > 0 ? `${perSecond.toFixed(perSecond < 10 ? 1 : 0)} tokens/s` : "",
        files ? `${counted(files, "token", "tokens")} of attachments` : "",
        `${cached.toLocaleString()} of ${prompt.toLocaleString()} prompt tokens cached`,
      ].filter(Boolean).join(" · "),
    /** @param {number | undefined} limit of the chat's settings */
    cut: (limit) => (limit === undefined ? "The model’s own token limit was reached." : `The limit of ${counted(limit, "token", "tokens")} from the chat settings was reached.`),
    /** @param {number | undefined} ctx */
    tooLong: (ctx) => `The conversation does not fit into the context${ctx ? ` of ${counted(ctx, "token", "tokens")}` : ""}.`,
    /** @param {number} used */
    full: (used) => `The context is full (${counted(used, "token", "tokens")}).`,
    late: "The server’s time limit for a request was reached.",
    makeRoom: "Start a new chat, edit an earlier message to go on from there, or load the model with a larger context (Models, Settings).",
    stopped: "Stopped.",
    broken: "This answer was interrupted when the page was closed.",
    /** @param {number} used @param {number} of */
    context: (used, of) => `${used.toLocaleString()} of ${of.toLocaleString()} tokens`,
    /** @param {number} rows */
    contextOfFiles: (rows) => `, ${rows.toLocaleString()} of them for attachments`,
    contextLabel: "Tokens in this conversation, out of the model's context",
    calls: (/** @type {string} */ name) => `Calls ${name}`,
    result: "Result of the call",
    giveResult: "Submit result",
    run: "Run",
    runs: "Running tools …",
    /** @param {string} why */
    failedTool: (why) => `The tool failed: ${why}`,
    /** @param {string} name */
    noTool: (name) => `The server no longer has the tool ${name}: change the tools in the chat settings.`,
    likely: "Tokens shaded by probability; the arrow keys show alternatives",
    unscored: "The probability of this text is not known.",
    fits: "✓ Matches the schema",
    /** @param {number} count */
    unfit: (count) => `✗ ${counted(count, "value does", "values do")} not match the schema`,
    json: "As a tree",
    text: "As text",
    answering: "The answer is being written",
    answered: "The answer is complete",
  },

  files: {
    attach: "Attach files",
    drop: "Drop files to attach them",
    list: "Attachments",
    remove: "Remove",
    removed: (/** @type {string} */ name) => `Removed: ${name}`,
    attached: (/** @type {string} */ name) => `Attached: ${name}`,
    open: (/** @type {string} */ name) => `Open ${name}`,
    /** @param {number} bytes */
    size: (bytes) => (bytes < 1000 ? `${bytes} B` : bytes < 1e6 ? `${Math.round(bytes / 1000)} kB` : `${(bytes / 1e6).toFixed(1)} MB`),
    pixels: (/** @type {number} */ width, /** @type {number} */ height) => `${width} × ${height}`,
    reduced: (/** @type {string} */ from) => `scaled down from ${from} to the server’s limits`,
    lost: "This browser no longer keeps it.",
    unseen: "This browser cannot show it; the model may read it.",
    /** @param {string} name @param {number} limit */
    tooLarge: (name, limit) => `${name} is larger than the ${Math.round(limit / 2 ** 20)} MB that the server reads.`,
    /** @param {string} name */
    longText: (name) => `${name} is a text of more than 1 MB.`,
    /** @param {string} name */
    unknown: (name) => `${name} is neither a text nor a picture, sound, video or document that can be read.`,
    /** @param {string} name @param {number} limit */
    full: (name, limit) => `${name} is not attached: this browser keeps ${limit / 1e6} MB of attachments. Delete conversations to make room.`,
    refused: (/** @type {string} */ name) => `${name} was refused. Edit the message to remove or replace it.`,
    /** @param {string} model @param {string} kind @param {string[]} others */
    cannot: (model, kind, others) => `${model} cannot ${words.files.senses[/** @type {"image"} */ (kind)]}. Remove it${others.length ? ` or choose ${others.slice(0, 3).join(", ")}` : ""}.`,
    senses: { image: "see pictures", audio: "hear sounds", video: "see videos" },
    /** @param {string} model @param {string[]} kinds */
    standIn: (model, kinds) => `${model} cannot ${kinds.map((kind) => words.files.senses[/** @type {"image"} */ (kind)]).join(" or ")}: of those of earlier messages it gets a note.`,
    /** @param {number} count */
    leftOut: (count) => `The oldest ${counted(count, "attachment is", "attachments are")} no longer sent: together they are larger than the server’s limit.`,
    /** @param {string[]} kinds */
    reading: (kinds) => (kinds.every((kind) => kind === "image") ? (kinds.length === 1 ? "Reading the picture …" : "Reading the pictures …") : kinds.every((kind) => kind === "audio") ? "Listening …" : "Reading the attachments …"),
    camera: "Take a picture",
    viewfinder: "What the camera sees",
    take: "Take it",
    noCamera: (/** @type {string} */ why) => `The camera cannot be used: ${why}`,
    record: "Record sound",
    keepSound: "Attach it",
    noMicrophone: (/** @type {string} */ why) => `The microphone cannot be used: ${why}`,
    /** @param {number} seconds */
    recording: (seconds) => `Recording … ${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`,
    longRecording: (/** @type {number} */ minutes) => `${minutes} minutes are recorded, which is the most.`,
  },

  settings: {
    title: "Chat settings",
    open: "Chat settings",
    system: "System message",
    preset: "Preset",
    presets: { default: "Model defaults", precise: "Precise", creative: "Creative", exact: "Deterministic" },
    savePreset: "Save preset",
    presetName: "Preset name",
    removePreset: "Delete preset",
    temperature: "Temperature",
    top_p: "Top-p",
    top_k: "Top-k",
    min_p: "Min-p",
    repeat_penalty: "Repeat penalty",
    max_tokens: "Maximum tokens",
    seed: "Seed",
    thinking: "Thinking",
    thinkings: { "": "Model default", on: "On", off: "Off" },
    schema: "JSON schema of the answer",
    tools: "Tools (JSON)",
    mcp: "Server tools (MCP)",
    runsAll: "Run all of them without asking (otherwise only read-only tools)",
    unset: { seed: "random", max_tokens: "no limit" },
    asModel: "model default",
    /** @param {string} why in the browser's words */
    bad: (why) => `This is not valid JSON: ${why}`,
    noObject: 'A schema is a JSON object, such as {"type": "object"}.',
    noList: "Tools are a JSON list of objects: [{…}, {…}].",
    /** @param {string[]} names */
    set: (names) => `Set for this chat: ${names.join(", ")}.`,
    /** @param {string[]} names */
    takenOver: (names) => `Taken over from the chat before: ${names.join(", ")}.`,
    useDefaults: "Use defaults",
    sampling: "sampling",
    probabilities: "token probabilities",
    /** @param {number} count */
    numTools: (count) => counted(count, "tool", "tools"),
  },

  models: {
    title: "Models",
    here: "On this machine",
    pull: "Download",
    resume: "Resume",
    stop: "Stop",
    forget: "Dismiss",
    load: "Load",
    loadWith: "Load with …",
    unload: "Unload",
    pin: "Keep loaded",
    pinned: "stays loaded",
    settings: "Settings",
    remove: "Remove",
    /** @param {string} id */
    reallyRemove: (id) => `Remove ${id}?`,
    goes: {
      /** @param {string} size */
      some: (size) => `This deletes its files and frees ${size} of disk space.`,
      none: "Its files stay, because other models or programs use them.",
      unknown: "Its manifest is damaged. Files that no other model needs are deleted.",
    },
    /** @param {string} id */
    reallyPull: (id) => `Download ${id}?`,
    /** @param {string} need */
    fitsNotHere: (need) => `It needs about ${need} of memory, more than is free on this machine. It may fail to load or be very slow.`,
    chat: "Chat",
    none: "No models yet",
    phases: { loading: "loading", ready: "loaded", restarting: "restarting", unloading: "unloading" },
    notLoaded: "not loaded",
    /** @param {string[]} models */
    routes: (models) => `leads to ${models.join(", ")}`,
    /** @param {string} base */
    under: (base) => `${base} under adapters`,
    /** @param {string} rest */
    expires: (rest) => `unloads in ${rest}`,
    pulling: { queued: "waiting", looking: "looking", downloading: "downloading", checking: "checking", done: "done" },
    stoppedAt: "Download stopped. What has arrived is kept for a week.",
    ready: "downloaded",
    underWay: "progress",
    underWayDone: "done",
    /** @param {string} rest */
    rest: (rest) => `${rest} left`,
    waitsFor: (/** @type {string} */ host, /** @type {number} */ seconds) => `waiting for ${host} (${seconds} s)`,
    memory: "memory",
    context: (/** @type {number} */ tokens) => `${tokens.toLocaleString()} tokens of context`,
  },

  find: {
    title: "Find a model",
    field: "Search, or name a model",
    note: "Searches the catalog and Hugging Face. A name such as qwen3:0.6b or hf.co/USER/REPO can be downloaded directly.",
    search: "Search",
    searching: "Searching …",
    onHub: "On Hugging Face",
    /** @param {string} reason */
    hubFailed: (reason) => `Hugging Face could not be searched: ${reason}`,
    nothing: "Nothing found.",
    count: (/** @type {number} */ count) => `${count} found`,
    downloads: (/** @type {number} */ count) => `${count.toLocaleString()} downloads a month`,
    noLicense: "no licence stated",
    changed: (/** @type {string} */ date) => `changed ${date}`,
    gated: "Gated: accept its terms on Hugging Face and set HF_TOKEN for the server.",
    quantizations: "Quantizations",
    looking: "Reading the model's header …",
    here: "on this machine",
    chosen: "recommended",
    columns: ["Quantization", "Download", "Memory", "Fits", "Answers, tokens/s", "Prompts, tokens/s", ""],
    fits: "fits",
    fitsNot: "does not fit",
    yes: "yes",
    no: "no",
    onGpu: (/** @type {number} */ some, /** @type {number} */ all) => (some === all ? "yes, on the GPU" : `yes, ${some} of ${all} layers on the GPU`),
    fitsWith: (/** @type {{ ctx: number, slots: number, kv_type: string }} */ other) => `with ${other.ctx.toLocaleString()} tokens, ${counted(other.slots, "slot", "slots")}, KV cache in ${other.kv_type}`,
    planned: (/** @type {{ ctx: number, slots: number, kv_type: string }} */ fit, /** @type {string} */ free) =>
      `Planned with ${fit.slots ? `${counted(fit.slots, "slot", "slots")} of ` : "texts of "}${fit.ctx.toLocaleString()} tokens, KV cache in ${fit.kv_type}${free && `; ${free} of memory are free`}. Speeds are predictions for one answer at a time.`,
    license: (/** @type {string} */ license) => `Licence: ${license}`,
    cpuOnly: (/** @type {string} */ reason) => `Planned for the CPU: ${reason}`,
    noSpeed: (/** @type {string} */ reason) => `A question mark means that no speed is predicted: ${reason}`,
  },

  own: {
    title: (/** @type {string} */ id) => `Settings of ${id}`,
    note: "These settings apply to all uses of this model. An empty field uses the default that it shows.",
    others: "All other settings",
    loading: "Loading",
    answering: "Answering",
    save: "Save",
    saved: "Saved",
    from: (/** @type {string} */ source) => `set in ${source}`,
    fromModel: "from the model",
    asSet: "as configured",
    automatic: "automatic",
    asDefault: (/** @type {string} */ value) => `default (${value})`,
    reloadTitle: "Reload the model?",
    reloadWhy: "The new settings take effect when it is next loaded. Answers in progress end if it is reloaded now.",
    reload: "Reload now",
    later: "Later",
    loadTitle: (/** @type {string} */ id) => `Load ${id}`,
    loadNote: "These options apply to this load only. Use Settings for permanent values.",
    titles: {
      ctx: "Context, tokens per slot", slots: "Slots (answers at a time)", keep_alive: "Unload after (such as 10m; -1: never)",
      aliases: "Other names",
      gpu_layers: "Layers on GPUs", kv_type: "Type of the KV cache", chat_template: "Chat template", draft: "Draft model", mtp: "Guess tokens with its own NextN layers", stop: "Stop strings",
    },
  },

  machine: {
    title: "Machine",
    answers: "Requests",
    running: "running",
    waiting: "waiting",
    speed: "Tokens per second",
    prompts: "Prompt tokens per second",
    memory: "Model memory",
    cache: "Prompt tokens from cache",
    slot: (/** @type {number} */ id) => `Slot ${id}`,
    held: (/** @type {number} */ used, /** @type {number} */ of) =>
      `${used.toLocaleString()} of ${of.toLocaleString()} tokens`,
    free: "idle",
    busy: "busy",
    idle: "No model is loaded.",
    lastMinutes: "The last five minutes",
    /** @param {string} time */
    since: (time) => `Since ${time}`,
    lost: "The connection was lost. Trying again …",
    doctor: "Diagnosis",
    examine: "Examine this machine",
    examining: "Examining this machine …",
    examined: "The diagnosis is ready.",
  },

  bench: {
    title: "Benchmark",
    note: "Measures one, two and four answers at once. For other loads, run “localllm bench” in a terminal.",
    measure: "Measure",
    stop: "Stop",
    stopped: "Stopped.",
    /** @param {string} model @param {number} streams */
    running: (model, streams) => `Measuring ${model}: ${words.bench.streams(streams)} …`,
    /** @param {string} model @param {string} when */
    measured: (model, when) => `${model}, measured ${when}`,
    columns: ["Concurrent answers", "Tokens per second", "Per answer", "First token after, ms"],
    /** @param {number} count */
    streams: (count) => counted(count, "answer", "answers"),
    /** What the prompts are made of. */
    prompt: ["river", "stone", "light", "garden", "winter", "letter", "window", "yellow", "silver", "morning", "paper", "music"],
  },

  keys: [
    ["?", "Keyboard shortcuts"],
    ["n", "New chat"],
    ["/", "Search conversations"],
    ["m", "Write a message"],
    ["Enter", "Send (Shift+Enter: a new line)"],
    ["Esc", "Stop the answer, or close what is open"],
    ["r", "Regenerate the last answer"],
    ["c", "Continue the last answer"],
    ["e", "Edit your last message"],
    ["k j", "Previous and next message"],
    ["← →", "Previous and next version of a message"],
    ["s", "Chat settings"],
    ["1 2 3", "Chat, Models, Machine"],
    ["f", "Find a model"],
    ["t", "Theme"],
  ],
};
