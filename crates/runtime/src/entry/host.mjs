// Hosts the entry module of a CLI bundle (AIP-29, defineCli). It loads the module next to this
// file, reads commands as lines from stdin, and writes answers as lines to stdout.

import { existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { defineCli } from "@agentproto/cli-runtime";

// stdout belongs to the protocol, so output of the module goes to stderr.
const write = process.stdout.write.bind(process.stdout);
process.stdout.write = process.stderr.write.bind(process.stderr);
globalThis.defineCli = defineCli;

const HANDLE = Symbol.for("agentproto.cli");
const HOOKS = ["login", "refresh", "parseOutput", "detectExpiry"];
const FIELDS = ["id", "name", "description", "version", "bin", "install", "versionCheck", "sandbox", "commands", "tags", "metadata"];

const aborting = new AbortController();
let definition = null;
let settleCallback = null;
const callback = new Promise((resolve, reject) => {
  settleCallback = { resolve, reject };
});
callback.catch(() => {});

function describe(problem) {
  return problem instanceof Error ? `${problem.name}: ${problem.message}` : String(problem);
}

function answer(line) {
  write(`${JSON.stringify(line)}\n`);
}

// A syntax error of the module itself has no place in the module on its stack.
function causeOf(problem) {
  if (problem?.code === "ERR_MODULE_NOT_FOUND") return "import";
  const isThrown = /^ +at .*cli\.(mjs|ts)/m.test(problem?.stack ?? "");
  const isExport = /does not provide an export/.test(problem?.message ?? "");
  return problem instanceof SyntaxError && !isThrown && !isExport ? "syntax" : "other";
}

function fail(problem) {
  answer({ type: "failed", message: describe(problem), cause: causeOf(problem) });
}

function finish(code) {
  write("", () => process.exit(code));
}

// Without support for TypeScript, a `cli.ts` without types is still JavaScript.
function moduleFile() {
  const typed = new URL("./cli.ts", import.meta.url);
  const isTyped = existsSync(typed);
  const canStrip = process.features.typescript !== undefined && process.features.typescript !== false;
  return { url: isTyped && canStrip ? typed : new URL("./cli.mjs", import.meta.url), isUnsupported: isTyped && !canStrip };
}

async function load() {
  const { url, isUnsupported } = moduleFile();
  const before = process.getActiveResourcesInfo();
  let module;
  try {
    module = await import(url.href);
  } catch (problem) {
    if (isUnsupported && problem instanceof SyntaxError) {
      answer({ type: "unsupported", message: `Node ${process.version} cannot load TypeScript` });
      return finish(0);
    }
    throw problem;
  }
  // What was started in the background has begun by then.
  await new Promise((done) => setImmediate(done));
  const started = process.getActiveResourcesInfo().filter((kind) => {
    const known = before.indexOf(kind);
    if (known >= 0) before.splice(known, 1);
    return known < 0;
  });
  if (started.length > 0) {
    throw new Error(`the module started ${started.join(", ")} while it was loaded; I/O belongs in the hooks`);
  }
  const found = [...new Set(Object.values(module))].filter((value) => value?.[HANDLE] === true);
  if (found.length !== 1) {
    throw new Error(`the module must export one result of defineCli(), found ${found.length}`);
  }
  definition = found[0].definition;
  const fields = Object.fromEntries(FIELDS.filter((name) => definition[name] !== undefined).map((name) => [name, definition[name]]));
  answer({ type: "loaded", fields, hooks: HOOKS.filter((name) => definition[name] !== undefined) });
}

async function run({ hook, args, context }) {
  if (context) {
    args = {
      context: {
        ...context,
        show: (text) => answer({ type: "show", text: String(text) }),
        callback: () => callback,
      },
      signal: aborting.signal,
    };
  }
  const value = await definition[hook](args);
  answer({ type: "result", value: value === undefined ? null : value });
}

process.on("uncaughtException", (problem) => {
  process.stderr.write(`${problem?.stack ?? problem}\n`);
  fail(problem);
  finish(1);
});
process.on("unhandledRejection", (problem) => {
  process.stderr.write(`${problem?.stack ?? problem}\n`);
  fail(problem);
  finish(1);
});

process.once("beforeExit", () => {
  if (definition === null) fail(new Error("loading does not finish: a top-level `await` is never settled"));
});

const COMMANDS = {
  run: (command) => run(command).catch(fail),
  abort: () => aborting.abort(),
  callback: ({ query, error }) => (error === undefined ? settleCallback.resolve(query) : settleCallback.reject(new Error(error))),
};

load().then(() => {
  const lines = createInterface({ input: process.stdin, crlfDelay: Infinity });
  lines.on("line", (line) => {
    const command = JSON.parse(line);
    COMMANDS[command.op]?.(command);
  });
  lines.on("close", () => finish(0));
}, fail);
