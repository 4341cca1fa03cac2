// Hosts an npm package that implements AgentCliClient (AIP-45). Reads commands as lines from stdin
// and writes events of the taxonomy as lines to stdout. The only argument is the directory of the
// package.

import { readFileSync } from "node:fs";
import { join, resolve, sep } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

// stdout belongs to the protocol, so output of the package goes to stderr.
const write = process.stdout.write.bind(process.stdout);
process.stdout.write = process.stderr.write.bind(process.stderr);

const METHODS = ["connect", "send", "cancel", "close"];
const REASONS = {
  completed: "end_turn",
  max_turns: "max_turn_requests",
};

let client = null;
let turn = null; // { id, over }
// The cost and the context size that the package reported last. They belong to the end of a turn.
let reported = {};
let listening = null;
const aborting = new AbortController();

function writeLine(line) {
  write(`${JSON.stringify(line)}\n`);
}

function describe(problem) {
  return problem instanceof Error ? problem.message : String(problem);
}

// The file that an ESM import of the package would load.
function entryOf(directory) {
  const manifest = JSON.parse(readFileSync(join(directory, "package.json"), "utf8"));
  const choose = (target) => {
    if (typeof target === "string") return target;
    if (Array.isArray(target)) return target.map(choose).find(Boolean);
    if (target === null || typeof target !== "object") return undefined;
    for (const [name, inner] of Object.entries(target)) {
      if ([".", "node", "import", "module-sync", "default"].includes(name)) {
        const file = choose(inner);
        if (file) return file;
      }
    }
    return undefined;
  };
  const named = choose(manifest.exports) ?? manifest.main ?? "index.js";
  const file = resolve(directory, named);
  if (!file.startsWith(resolve(directory) + sep)) {
    throw new Error(`package.json points outside the package: ${named}`);
  }
  return file;
}

function isClient(value) {
  return value !== null && typeof value === "object" && METHODS.every((name) => typeof value[name] === "function");
}

// Uses a factory `createAgentCliClient`, or an exported client under any name.
async function clientOf(module, definition) {
  for (const place of [module, module.default]) {
    if (typeof place?.createAgentCliClient === "function") {
      const created = await place.createAgentCliClient(definition);
      if (isClient(created)) return created;
      throw new Error(`createAgentCliClient() did not return an AgentCliClient with the methods ${METHODS.join(", ")} and events`);
    }
  }
  const found = [module.default, ...Object.values(module)].find(isClient);
  if (found) return found;
  throw new Error("the package exports neither createAgentCliClient nor an object with the methods of AgentCliClient");
}

function optionOf(option) {
  const plain = typeof option === "string";
  const id = plain ? option : String(option?.id ?? option?.optionId ?? option?.value ?? "");
  const label = plain ? option : String(option?.label ?? option?.name ?? id);
  let kind = plain ? undefined : option?.kind;
  if (typeof kind !== "string") {
    const always = /always/i.test(id) ? "always" : "once";
    if (/^(allow|approve|accept|yes)/i.test(id)) kind = `allow_${always}`;
    else if (/^(reject|deny|decline|no)/i.test(id)) kind = `reject_${always}`;
    else kind = undefined;
  }
  return { id, label, kind };
}

// Accepts both spellings of the taxonomy: `type` like this runner, `kind` like the reference.
function eventOf(raw) {
  const type = raw?.type ?? raw?.kind;
  switch (type) {
    case "text-delta":
      return { type, text: raw.text };
    case "thought":
      return { type, text: raw.text ?? "", plan: raw.plan };
    // Events of the reference implementation that are not in the closed set.
    case "plan":
      return { type: "thought", text: "", plan: Array.isArray(raw.entries) ? raw.entries : [] };
    case "usage_update":
      if (Number.isSafeInteger(raw.used) && Number.isSafeInteger(raw.size)) {
        reported.context = { used: raw.used, size: raw.size };
      }
      if (Number.isFinite(raw.cost?.amount)) reported.cost = raw.cost;
      return null;
    case "tool-call": {
      const kind = raw.type === undefined ? undefined : raw.kind;
      const args = raw.args ?? raw.arguments ?? null;
      return { type, id: raw.id ?? raw.toolCallId, name: raw.name ?? raw.toolName, kind, args };
    }
    case "tool-result": {
      const ok = raw.ok ?? raw.isError !== true;
      const content = raw.content ?? raw.result ?? null;
      return { type, id: raw.id ?? raw.toolCallId, ok, content };
    }
    case "agent-prompt": {
      const options = Array.isArray(raw.options) ? raw.options.map(optionOf) : [];
      const message = raw.message ?? raw.text ?? raw.toolName ?? "the agent asks a question";
      return { type, id: raw.id ?? raw.toolCallId, message, options };
    }
    case "turn-end": {
      const reason = raw.reason ?? "completed";
      if (reason === "error") return { type: "error", message: "the adapter ended the turn with an error" };
      if (reason === "watchdog-timeout") return { type: "error", code: "turn_timeout", message: "the agent sent nothing for too long" };
      const { usage, cost, context } = { ...reported, ...raw };
      return { type, reason: REASONS[reason] ?? reason, sessionId: sessionId(), usage, cost, context };
    }
    case "error": {
      const inner = raw.error ?? raw;
      const code = inner.code === undefined || inner.code === null ? undefined : String(inner.code);
      return { type, message: String(inner.message ?? "no reason given"), code, details: inner.data };
    }
    default:
      return raw;
  }
}

function sessionId() {
  const id = client?.sessionId;
  return typeof id === "string" && id !== "" ? id : undefined;
}

// Writes one event. After a failed turn, a second end with an error is ignored.
function pass(raw) {
  const event = eventOf(raw);
  if (event === null) return;
  const last = event?.type === "turn-end" || event?.type === "error";
  if (last && turn?.over === "error" && (raw.reason ?? "error") === "error") return;
  const line = { ...event, turnId: turn?.id };
  try {
    writeLine(line);
  } catch (problem) {
    writeLine({ type: "error", message: `an event of the adapter cannot be written as JSON: ${describe(problem)}`, turnId: turn?.id });
    if (turn) turn.over = "error";
    return;
  }
  if (last && turn) turn.over = event.type;
}

function fail(problem) {
  if (turn && turn.over) return;
  pass({ type: "error", message: describe(problem) });
}

// One reader for all turns, or one per turn if the package ends its stream with the turn.
function listen(stream) {
  const reading = (async () => {
    for await (const event of stream) pass(event);
  })();
  listening = reading.catch(fail).finally(() => {
    listening = null;
  });
}

async function connect(command) {
  const directory = process.argv[2];
  const module = await import(pathToFileURL(entryOf(directory)).href);
  client = await clientOf(module, { ...command.definition, command: command.command });
  const answer = await client.connect({
    cwd: command.cwd,
    env: { ...process.env },
    abortSignal: aborting.signal,
    capabilities: command.definition?.capabilities ?? {},
    resumeSessionId: command.resume,
  });
  const reported = typeof answer?.sessionId === "string" ? answer.sessionId : undefined;
  writeLine({ type: "connected", sessionId: sessionId() ?? reported });
}

async function send(command) {
  turn = { id: command.turnId, over: null };
  const hasEvents = typeof client.events === "function";
  if (hasEvents && !listening) listen(client.events());
  const sent = await client.send(command.turnId, command.message);
  if (!hasEvents && typeof sent?.[Symbol.asyncIterator] === "function") listen(sent);
}

function answer(command) {
  const resolutions = {
    choice: { optionId: command.choice },
    content: { content: command.content },
  };
  const resolution = resolutions[command.answer] ?? { cancelled: true };
  const respond = client.respondPermission ?? client.answer;
  return respond?.call(client, command.id, resolution);
}

async function close() {
  aborting.abort();
  await client?.close();
}

const COMMANDS = {
  connect,
  send,
  answer,
  cancel: (command) => client.cancel(command.turnId),
};

function finish(code) {
  // Flush the output before the process exits.
  write("", () => process.exit(code));
}

process.on("uncaughtException", (problem) => {
  process.stderr.write(`${problem?.stack ?? problem}\n`);
  finish(1);
});
process.on("unhandledRejection", (problem) => {
  process.stderr.write(`${problem?.stack ?? problem}\n`);
  fail(problem);
});

let closing = false;
function end() {
  if (closing) return;
  closing = true;
  close().then(
    () => finish(0),
    (problem) => {
      process.stderr.write(`close: ${describe(problem)}\n`);
      finish(1);
    },
  );
}

const lines = createInterface({ input: process.stdin, crlfDelay: Infinity });
lines.on("line", (line) => {
  let command;
  try {
    command = JSON.parse(line);
  } catch {
    process.stderr.write("received an invalid command\n");
    return;
  }
  if (command.op === "close") return end();
  const handler = COMMANDS[command.op];
  if (!handler) return;
  // Commands run concurrently: a cancel must not wait for the send before it.
  Promise.resolve()
    .then(() => handler(command))
    .catch((problem) => {
      if (command.op === "connect" || command.op === "send") fail(problem);
      else process.stderr.write(`${command.op}: ${describe(problem)}\n`);
    });
});
lines.on("close", end);
