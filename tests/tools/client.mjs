// A client with the official TypeScript SDK of MCP that calls ripgrep, jq and git through
// agentproto.
//
//   node client.mjs http|stdio BINARY BUNDLES REPOSITORY
//
// For HTTP, it reads URL and token from $AGENTPROTO_HOME/runtime.json. For stdio, it starts
// `BINARY mcp --bundle …` in REPOSITORY.
import assert from "node:assert/strict"
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js"
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js"

const [door, binary, bundles, repository] = process.argv.slice(2)

function transport() {
  if (door === "stdio") {
    const { PATH, HOME, AGENTPROTO_HOME } = process.env
    const names = ["ripgrep", "jq", "git"]
    return new StdioClientTransport({
      command: binary,
      args: ["mcp", ...names.flatMap((name) => ["--bundle", `${bundles}/${name}`])],
      cwd: repository,
      env: { PATH, HOME, AGENTPROTO_HOME },
      stderr: "inherit",
    })
  }
  const { url, token } = JSON.parse(
    readFileSync(`${process.env.AGENTPROTO_HOME}/runtime.json`, "utf8"),
  )
  const headers = { Authorization: `Bearer ${token}` }
  return new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit: { headers } })
}

const client = new Client({ name: "tools", version: "1" }, { capabilities: {} })
await client.connect(transport())

// After this call, the SDK validates structured results with the schemas of the tools.
const { tools } = await client.listTools()
const tool = (name) => tools.find((tool) => tool.name === name)
const offered = tools.map((tool) => tool.name).filter((name) => /^(git|jq|ripgrep)_/.test(name))
assert.equal(offered.length, 12, offered.join(" "))

// Schemas and annotations.
const search = tool("ripgrep_search")
assert.equal(search.title, "Search files")
assert.deepEqual(search.inputSchema.required, ["pattern"])
assert.equal(search.inputSchema.properties.max_count.minimum, 1)
assert.deepEqual(search.annotations, {
  title: "Search files",
  readOnlyHint: true,
  destructiveHint: false,
  idempotentHint: true,
  openWorldHint: false,
})
assert.equal(tool("git_commit").annotations.readOnlyHint, false)
assert.equal(tool("git_commit").annotations.destructiveHint, false)
assert.equal(tool("git_commit").annotations.idempotentHint, false)
assert.equal(tool("git_clean").annotations.destructiveHint, true)
assert.deepEqual(tool("jq_package").outputSchema.required, ["name", "version", "dependencies"])
assert.equal(search.outputSchema, undefined)

async function call(name, args) {
  const result = await client.callTool({ name, arguments: args })
  assert.ok(!result.isError, JSON.stringify(result))
  return result
}
async function refused(name, args) {
  const result = await client.callTool({ name, arguments: args })
  assert.ok(result.isError, JSON.stringify(result))
  return JSON.parse(result.content[0].text)
}

// Text, with options.
const found = await call("ripgrep_search", {
  pattern: "HERON",
  ignore_case: true,
  glob: ["*.txt", "!skip.txt"],
})
assert.equal(found.content[0].text, "./birds.txt:2:a heron\n")
// A value that looks like an option of the program stays a value.
const dash = await call("ripgrep_search", { pattern: "--files" })
assert.equal(dash.content[0].text, "./birds.txt:3:an option: --files\n")

// JSON, with and without an output schema.
const about = await call("jq_package", {})
assert.deepEqual(about.structuredContent, {
  name: "aviary",
  version: "1.2.0",
  dependencies: ["heron", "wren"],
})
const query = { filter: ".dependencies | keys[] | . + $vars.end", file: "package.json" }
const values = await call("jq_query", { ...query, vars: { end: "!" } })
assert.deepEqual(values.structuredContent, { value: ["heron!", "wren!"] })

// The output does not match the schema: the SDK would reject it as a result.
const mismatch = await refused("jq_package", { file: "nameless.json" })
assert.equal(mismatch.error.code, "output_invalid")
assert.match(mismatch.error.message, /output_schema_mismatch.*`\/name`/)

// Exit codes have their declared meaning.
const none = await refused("ripgrep_search", { pattern: "albatross" })
assert.deepEqual([none.error.code, none.exit_code, none.meaning], ["tool_failed", 1, "no_match"])
const broken = await refused("jq_query", { filter: ".[", file: "package.json" })
assert.deepEqual([broken.exit_code, broken.meaning], [3, "compile_error"])
assert.match(broken.stderr, /syntax error/)
const runtime = await refused("jq_query", { filter: ".name.x", file: "package.json" })
assert.deepEqual([runtime.exit_code, runtime.meaning], [5, "runtime_error"])

// Invalid input does not reach the program.
const input = async (name, args, pointer) => {
  const { error } = await refused(name, args)
  assert.equal(error.code, "input_invalid")
  assert.equal(error.details.pointer, pointer, JSON.stringify(error))
  assert.ok(error.hint)
}
await input("ripgrep_search", { pattern: "x", max_count: 0 }, "/max_count")
await input("ripgrep_search", {}, "")
await input("git_log", { max_count: "many" }, "/max_count")
await input("jq_evaluate", { filter: "--version" }, "/filter")

// A change, and what the sandbox prevents.
writeFileSync(`${repository}/new-${door}.txt`, "new\n")
const author = { name: "Test", email: "test@example.com" }
await call("git_add", { files: [`new-${door}.txt`] })
const staged = await refused("git_diff", { staged: true })
assert.equal(staged.meaning, "differs")
assert.match(staged.stdout, /\+new/)
await call("git_commit", { message: `-m looks like an option, ${door}`, ...author })
const log = await call("git_log", { max_count: 1, author: "Test" })
assert.match(log.content[0].text, new RegExp(`Test: -m looks like an option, ${door}\n$`))
const outside = await refused("ripgrep_search", { pattern: "private", paths: ["../outside.txt"] })
assert.equal(outside.error.code, "tool_failed")
await assert.rejects(client.callTool({ name: "git_push", arguments: {} }), /unknown tool/)

// Progress of a long call, then cancellation.
function running() {
  return readdirSync("/proc").some((pid) => {
    const path = `/proc/${pid}/cmdline`
    try {
      return /^\d+$/.test(pid) && readFileSync(path, "utf8").includes(`"call ${door}"`)
    } catch {
      return false
    }
  })
}
const progress = []
const stop = new AbortController()
const filter = `"call ${door}", last(range(1e15))`
const long = client.callTool({ name: "jq_evaluate", arguments: { filter } }, undefined, {
  signal: stop.signal,
  onprogress: (one) => progress.push(one.message),
})
long.catch(() => {})
async function until(what, condition) {
  const limit = Date.now() + 20000
  while (!condition()) {
    assert.ok(Date.now() < limit, what)
    await new Promise((done) => setTimeout(done, 50))
  }
}
await until("no progress", () => progress.length > 0)
assert.deepEqual(progress, [`"call ${door}"`])
assert.ok(running(), "the running program is not found")
stop.abort("not needed")
await assert.rejects(long)
await until("the program still runs after the call was canceled", () => !running())
assert.ok((await call("git_status", {})).content[0].text !== undefined)

// Only what was asked for is deleted.
writeFileSync(`${repository}/left-${door}.tmp`, "")
await call("git_clean", { paths: [`left-${door}.tmp`], dry_run: true })
assert.ok(existsSync(`${repository}/left-${door}.tmp`))
await call("git_clean", { paths: [`left-${door}.tmp`] })
assert.ok(!existsSync(`${repository}/left-${door}.tmp`))
assert.ok(existsSync(`${repository}/nameless.json`))

await client.close()
console.log(`ok: TypeScript SDK over ${door}`)
