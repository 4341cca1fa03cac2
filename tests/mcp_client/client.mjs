// A client with the official TypeScript SDK that starts, prompts, reads and kills a session
// (A46-MCP-01 to 07, A46-TURN-01 to 06).
//
//   node client.mjs http|stdio BINARY WORKDIR
//
// For HTTP, it reads URL and token from $AGENTPROTO_HOME/runtime.json. For stdio, it starts
// `BINARY mcp`.
import assert from "node:assert/strict"
import { readFileSync } from "node:fs"
import { Client } from "@modelcontextprotocol/sdk/client/index.js"
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js"
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js"

const [door, binary, work] = process.argv.slice(2)

function transport() {
  if (door === "stdio") {
    const { PATH, HOME, AGENTPROTO_HOME } = process.env
    return new StdioClientTransport({
      command: binary,
      args: ["mcp"],
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

const client = new Client({ name: "interop", version: "1" }, { capabilities: {} })
await client.connect(transport())
assert.equal(client.getServerVersion().name, "agentproto")
assert.ok(client.getServerCapabilities().tools)

// After this call, the SDK validates structured results with the schemas of the tools.
const { tools } = await client.listTools()
// The tools of AIP-46 come first.
assert.deepEqual(
  tools.map(tool => tool.name).slice(0, 5),
  [
    "start_agent_session",
    "prompt_agent_session",
    "list_agent_sessions",
    "get_agent_session_output",
    "kill_agent_session",
  ],
)

async function call(name, args) {
  const result = await client.callTool({ name, arguments: args })
  assert.ok(!result.isError, JSON.stringify(result))
  assert.deepEqual(JSON.parse(result.content[0].text), result.structuredContent)
  return result.structuredContent
}

async function refused(name, args) {
  const result = await client.callTool({ name, arguments: args })
  assert.equal(result.isError, true, JSON.stringify(result))
  return JSON.parse(result.content[0].text).error
}

async function turns(sessionId, count) {
  const limit = Date.now() + 60_000
  for (;;) {
    const { lines } = await call("get_agent_session_output", { sessionId })
    if (lines.filter(line => line.startsWith("── turn-end (")).length >= count) return lines
    assert.ok(Date.now() < limit, `the turn did not end: ${lines.join("\n")}`)
    await new Promise(done => setTimeout(done, 20))
  }
}

const label = `interop over ${door}`
const started = await call("start_agent_session", {
  adapter: "mock-acp",
  cwd: work,
  label,
  prompt: "remember the heron",
})
const sessionId = started.id
assert.equal(started.status, "starting")
assert.equal(started.label, label)
const first = await turns(sessionId, 1)
assert.ok(first.some(line => line.includes("heron")), first.join("\n"))

// The same agent remembers the first turn.
assert.deepEqual(
  await call("prompt_agent_session", { sessionId, prompt: "what did I say before?" }),
  { ok: true, sessionId },
)
const both = await turns(sessionId, 2)
const second = both.slice(both.findIndex(line => line.startsWith("── turn-end (")) + 1)
assert.ok(second.some(line => line.includes("heron")), both.join("\n"))

// Only one turn at a time; the error code is the same as over HTTP.
await call("prompt_agent_session", { sessionId, prompt: "be slow" })
const busy = await refused("prompt_agent_session", { sessionId, prompt: "and now?" })
assert.equal(busy.code, "session_busy")
assert.ok(busy.hint)

const alive = await call("list_agent_sessions", { onlyAlive: true })
assert.deepEqual(
  alive.sessions.filter(session => session.id === sessionId).map(session => session.status),
  ["running"],
)
assert.deepEqual(await call("kill_agent_session", { sessionId }), { ok: true, sessionId })
assert.deepEqual(await call("kill_agent_session", { sessionId }), { ok: false, sessionId })
const after = await call("get_agent_session_output", { sessionId, lastN: 1 })
assert.deepEqual([after.status, after.lines.length], ["killed", 1])

assert.equal((await refused("start_agent_session", { adapter: "no-such" })).code, "adapter_not_found")
const wrong = await refused("get_agent_session_output", { sessionId, lastN: "all" })
assert.deepEqual([wrong.code, wrong.details.field], ["bad_request", "lastN"])
await assert.rejects(client.callTool({ name: "no_such_tool", arguments: {} }), { code: -32602 })

await client.close()
console.log(`ok: TypeScript SDK over ${door}`)
// Do not wait for timers or sockets that the SDK may leave open.
process.exit(0)
