"""Calls ripgrep, jq and git with `agentproto call`.

    python3 call.py BINARY BUNDLES REPOSITORY
"""

import json
import os
import subprocess
import sys
import time

binary, bundles, repository = sys.argv[1:]


def call(*args, code=0):
    """Runs `agentproto call`. In the arguments, `@NAME` is the path of a bundle."""
    args = [f"{bundles}/{arg[1:]}" if arg.startswith("@") else arg for arg in args]
    done = subprocess.run(
        [binary, "call", *args],
        cwd=repository,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == code, (args, done)
    return done


def result(*args, code=0):
    return json.loads(call("--output", "json", *args, code=code).stdout)


# Lists and help.
assert call("@git").stdout.count("\n  ") == 6
listed = result("@jq")["commands"]
assert [one["path"] for one in listed] == [["query"], ["package"], ["evaluate"]], listed
usage = call("@ripgrep", "search", "--help").stdout
for line in ["--pattern <STRING>", "[required]", "--glob <STRING>…", "--max_count <INTEGER>"]:
    assert line in usage, usage

# Options, in the same form as for a native command.
found = call("@ripgrep", "search", "--pattern", "HERON", "--ignore_case", "--glob=*.txt", "--glob", "!skip.txt")
assert found.stdout == "./birds.txt:2:a heron\n", found
assert call("@ripgrep", "count", "--pattern", "an?").stdout.startswith("./birds.txt:"), "count"
assert call("@git", "status").stdout == "", "the repository is clean"

# JSON, parsed and compared with the output schema.
about = result("@jq", "package")
assert about["value"] == {"name": "aviary", "version": "1.2.0", "dependencies": ["heron", "wren"]}
assert about["warnings"] == [], about
mismatch = result("@jq", "package", "--file", "nameless.json")
assert [one["code"] for one in mismatch["warnings"]] == ["output_schema_mismatch"], mismatch
assert "`/name`" in mismatch["warnings"][0]["message"], mismatch
whole = result("--input", '{"filter":".version","file":"package.json"}', "@jq", "query")
assert whole["value"] == ["1.2.0"], whole
text = result("@git", "log", "--max_count", "1")
assert text["value"] is None and text["text"].endswith("First commit\n"), text

# Exit codes.
for args, exit_code, meaning in [
    (["@ripgrep", "search", "--pattern", "albatross"], 1, "no_match"),
    (["@ripgrep", "search", "--pattern", "("], 2, "usage_error"),
    (["@jq", "query", "--filter", ".[", "--file", "package.json"], 3, "compile_error"),
    (["@jq", "query", "--filter", ".name.x", "--file", "package.json"], 5, "runtime_error"),
    (["@git", "add", "--files", "missing"], 128, "fatal"),
]:
    failed = result(*args, code=1)
    assert (failed["ok"], failed["exit_code"], failed["meaning"]) == (False, exit_code, meaning)
    assert failed["error"]["code"] == "tool_failed", failed

# Invalid input does not reach the program.
for args, code, message in [
    (["@ripgrep", "search"], "input_invalid", "pattern"),
    (["@ripgrep", "search", "--pattern", "x", "--max_count", "0"], "input_invalid", "/max_count"),
    (["@ripgrep", "search", "--patern", "x"], "input_invalid", "did you mean `pattern`?"),
    (["@git", "log", "--max_count=many"], "input_invalid", "max_count"),
    (["@jq", "evaluate", "--filter=--version"], "input_invalid", "begins with `-`"),
    (["@git", "push"], "command_unknown", "push"),
]:
    refused = call(*args, code=64)
    assert code in refused.stderr and message in refused.stderr, refused

# The sandbox: files outside the working directory, hooks of the repository, an unused network.
outside = result("@ripgrep", "search", "--pattern", "private", "--paths", "../outside.txt", code=1)
assert outside["text"] == "", outside
hook = f"{repository}/.git/hooks/post-commit"
with open(hook, "w") as file:
    file.write("#!/bin/sh\necho ran >hook-ran\n")
os.chmod(hook, 0o755)
author = ["--name", "Test", "--email", "test@example.com"]
commit = call("@git", "commit", "--allow_empty", "--message", "$(id) && `id`", *author)
assert not os.path.exists(f"{repository}/hook-ran"), commit
os.unlink(hook)
log = call("@git", "log", "--max_count", "1").stdout
assert log.endswith("Test: $(id) && `id`\n"), log

# Events while the program runs, then the time limit.
started = time.monotonic()
endless = '"still here", last(range(1e15))'
limited = call("--output", "jsonl", "--timeout", "2", "@jq", "evaluate", "--filter", endless, code=75)
assert time.monotonic() - started < 30
events = [json.loads(line) for line in limited.stdout.splitlines()]
assert any(e["type"] == "tool-output" and "still here" in e["text"] for e in events), events
ended = next(e for e in events if e["type"] == "result")
assert ended["meaning"] == "timeout" and ended["error"]["code"] == "tool_timeout", ended
for name in os.listdir("/proc"):
    try:
        with open(f"/proc/{name}/cmdline") as file:
            assert endless not in file.read(), f"process {name} was left behind"
    except (OSError, UnicodeDecodeError):
        pass

# Every call is in the audit log.
with open(os.path.join(os.environ["AGENTPROTO_HOME"], "audit", "audit-log.jsonl")) as file:
    audited = [json.loads(line)["event"] for line in file]
assert audited.count("tool.invoke") == audited.count("tool.exit") >= 15, audited
assert "tool.refused" in audited, audited
print("ok: agentproto call")
