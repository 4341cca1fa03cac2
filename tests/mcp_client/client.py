"""A client with the official Python SDK that starts, prompts, reads and kills a session.

    python client.py http|stdio BINARY WORKDIR
"""

import asyncio
import json
import os
import sys
import time

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client

door, binary, work = sys.argv[1:]


def transport():
    if door == "stdio":
        names = ["PATH", "HOME", "AGENTPROTO_HOME"]
        env = {name: os.environ[name] for name in names}
        return stdio_client(StdioServerParameters(command=binary, args=["mcp"], env=env))
    with open(os.path.join(os.environ["AGENTPROTO_HOME"], "runtime.json")) as file:
        told = json.load(file)
    headers = {"Authorization": f"Bearer {told['token']}"}
    return streamablehttp_client(f"{told['url']}/mcp", headers=headers)


async def call(session, name, **arguments):
    result = await session.call_tool(name, arguments)
    assert not result.isError, result
    assert json.loads(result.content[0].text) == result.structuredContent
    return result.structuredContent


async def refused(session, name, **arguments):
    result = await session.call_tool(name, arguments)
    assert result.isError, result
    return json.loads(result.content[0].text)["error"]


# The tools of AIP-46. The host may have more.
TOOLS = {
    "start_agent_session",
    "prompt_agent_session",
    "list_agent_sessions",
    "get_agent_session_output",
    "kill_agent_session",
}


async def turns(session, ident, count):
    limit = time.monotonic() + 60
    while True:
        lines = (await call(session, "get_agent_session_output", sessionId=ident))["lines"]
        if sum(line.startswith("── turn-end (") for line in lines) >= count:
            return lines
        assert time.monotonic() < limit, lines
        await asyncio.sleep(0.02)


async def life(session):
    await session.initialize()
    names = {tool.name for tool in (await session.list_tools()).tools}
    assert TOOLS <= names, names
    started = await call(
        session, "start_agent_session", adapter="mock-acp", cwd=work, prompt="remember the heron"
    )
    ident = started["id"]
    await turns(session, ident, 1)
    await call(session, "prompt_agent_session", sessionId=ident, prompt="what did I say before?")
    lines = await turns(session, ident, 2)
    end = next(n for n, line in enumerate(lines) if line.startswith("── turn-end ("))
    assert any("heron" in line for line in lines[end + 1 :]), lines
    await call(session, "prompt_agent_session", sessionId=ident, prompt="be slow")
    busy = await refused(session, "prompt_agent_session", sessionId=ident, prompt="and now?")
    assert busy["code"] == "session_busy", busy
    alive = await call(session, "list_agent_sessions", onlyAlive=True)
    assert any(one["id"] == ident for one in alive["sessions"]), alive
    killed = await call(session, "kill_agent_session", sessionId=ident)
    assert killed == {"ok": True, "sessionId": ident}, killed


async def main():
    async with transport() as streams:
        async with ClientSession(streams[0], streams[1]) as session:
            await life(session)
    print(f"ok: Python SDK over {door}")


asyncio.run(main())
