"""A client with the official Python SDK of MCP that calls ripgrep, jq and git through agentproto.

    python client.py http|stdio BINARY BUNDLES REPOSITORY
"""

import asyncio
import json
import os
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client

door, binary, bundles, repository = sys.argv[1:]


def transport():
    if door == "stdio":
        names = ["PATH", "HOME", "AGENTPROTO_HOME"]
        args = ["mcp"]
        for name in ["ripgrep", "jq", "git"]:
            args += ["--bundle", f"{bundles}/{name}"]
        env = {name: os.environ[name] for name in names}
        return stdio_client(
            StdioServerParameters(command=binary, args=args, env=env, cwd=repository)
        )
    with open(os.path.join(os.environ["AGENTPROTO_HOME"], "runtime.json")) as file:
        runtime = json.load(file)
    headers = {"Authorization": f"Bearer {runtime['token']}"}
    return streamablehttp_client(f"{runtime['url']}/mcp", headers=headers)


async def check(session):
    await session.initialize()
    tools = {tool.name: tool for tool in (await session.list_tools()).tools}
    assert tools["git_clean"].annotations.destructiveHint is True
    assert tools["jq_query"].annotations.readOnlyHint is True
    assert tools["jq_query"].inputSchema["required"] == ["filter", "file"]

    # The SDK validates structured content with the output schema.
    about = await session.call_tool("jq_package", {"file": "package.json"})
    assert not about.isError, about
    assert about.structuredContent["name"] == "aviary", about
    files = await session.call_tool("ripgrep_files", {"type": "txt"})
    assert "./birds.txt\n" in files.content[0].text, files
    assert "package.json" not in files.content[0].text, files
    log = await session.call_tool("git_log", {"max_count": 1, "grep": "First"})
    assert log.content[0].text.endswith("First commit\n"), log

    for name, arguments, code, meaning in [
        ("ripgrep_count", {"pattern": "albatross"}, "tool_failed", "no_match"),
        ("jq_query", {"filter": "nope", "file": "package.json"}, "tool_failed", "compile_error"),
        ("git_add", {"files": ["missing"]}, "tool_failed", "fatal"),
        ("git_add", {"files": []}, "input_invalid", None),
    ]:
        result = await session.call_tool(name, arguments)
        assert result.isError, result
        text = json.loads(result.content[0].text)
        assert (text["error"]["code"], text.get("meaning")) == (code, meaning), text

    seen = []

    async def progress(done, total, message):
        seen.append(message)

    result = await session.call_tool(
        "jq_evaluate", {"filter": '[1, "two"]'}, progress_callback=progress
    )
    assert result.structuredContent == {"value": [1, "two"]}, result
    assert seen == ['[1,"two"]'], seen


async def main():
    async with transport() as streams:
        async with ClientSession(streams[0], streams[1]) as session:
            await check(session)
    print(f"ok: Python SDK over {door}")


asyncio.run(main())
