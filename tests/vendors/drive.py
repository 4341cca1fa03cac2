#!/usr/bin/env python3
"""Runs third-party agents with the mock model, over plain stdio.

    drive.py --agentproto BIN --place DIR [--verbose] [--only KEY]... < RECIPE.json

For every prompt of the recipe, it opens a session, sends the prompt, and checks the messages on the
wire. The recipe is one of `certify --list-recipes --output json`. Prints a table, and exits with
code 1 if a prompt failed.
"""

import argparse
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
# These agents do not write a new file if the client answers "not found" to a read.
OVERWRITES = ["gemini-cli"]
KEYS = ["text", "thought", "tool", "permission", "fs_read", "fs_write", "terminal", "plan",
        "slow", "recall"]
PATIENCE = 90


class Failed(Exception):
    pass


class Lines:
    """The lines of a stream, read by a thread to allow timeouts."""

    def __init__(self, stream):
        self.queue = queue.Queue()
        threading.Thread(target=self._read, args=(stream,), daemon=True).start()

    def _read(self, stream):
        for line in stream:
            self.queue.put(line)
        self.queue.put(None)

    def next(self, seconds):
        try:
            line = self.queue.get(timeout=max(seconds, 0.001))
        except queue.Empty:
            return ""
        return line


class Model:
    """`agentproto mock llm`, and the requests that it received."""

    def __init__(self, binary, verbose):
        self.verbose = verbose
        self.process = subprocess.Popen([binary, "mock", "llm", "--log-requests"], stdout=subprocess.PIPE,
                                        stdin=subprocess.DEVNULL, text=True)
        self.lines = Lines(self.process.stdout)
        first = self.lines.next(20)
        if not first:
            raise SystemExit("the mock model did not start")
        self.url = json.loads(first)["url"]
        self.asked = []

    def wait(self, wanted, seconds):
        """The first request that satisfies `wanted`."""
        end = time.monotonic() + seconds
        while True:
            for asked in self.asked:
                if wanted(asked):
                    return asked
            line = self.lines.next(end - time.monotonic())
            if not line:
                return None
            self.asked.append(json.loads(line)["asked"])
            if self.verbose:
                print("model:", line.rstrip(), file=sys.stderr)

    def stop(self):
        self.process.kill()
        self.process.wait()


def fill(text, words):
    for word, value in words.items():
        text = text.replace("{" + word + "}", value)
    return text


class Recipe:
    def __init__(self, recipe, words):
        self.name = recipe["name"]
        self.words = words
        self.auth = recipe["auth"]
        self.command = [fill(word, words) for word in recipe["command"]]
        # The variables that `certify --mock-llm` sets.
        url = words["model_url"]
        self.env = {"ANTHROPIC_BASE_URL": url, "OPENAI_BASE_URL": f"{url}/v1",
                    "GOOGLE_GEMINI_BASE_URL": url}
        for vendor in ["ANTHROPIC", "OPENAI", "GEMINI"]:
            self.env[f"{vendor}_API_KEY"] = "mock"
        for key, value in recipe["env"].items():
            self.env[key] = fill(value, words)
        self.prompts = {key: text.replace("{cwd}", words["work"])
                        for key, text in recipe["prompts"].items()}
        self.home = recipe["home"]

    def furnish(self, home):
        """Writes the agent's configuration."""
        for path, text in self.home.items():
            target = home / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(fill(text, self.words))


class Agent:
    """A minimal ACP client."""

    def __init__(self, recipe, home, cwd, verbose):
        env = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8",
               "TMPDIR": f"{home}/tmp", **recipe.env}
        (home / "tmp").mkdir(exist_ok=True)
        self.cwd, self.verbose = cwd, verbose
        self.errors = open(home / "stderr.log", "w+")
        self.process = subprocess.Popen(recipe.command, stdin=subprocess.PIPE, cwd=cwd, env=env,
                                        stdout=subprocess.PIPE, stderr=self.errors, text=True,
                                        start_new_session=True)
        self.lines = Lines(self.process.stdout)
        self.number = 0
        self.terminals = {}
        self.begin()

    def begin(self):
        self.updates, self.asked = [], []

    def send(self, message):
        if self.verbose:
            print("->", json.dumps(message)[:2000], file=sys.stderr)
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def call(self, method, params, seconds=PATIENCE, on_update=None):
        self.number += 1
        mine = self.number
        self.send({"id": mine, "method": method, "params": params})
        end = time.monotonic() + seconds
        while True:
            line = self.lines.next(end - time.monotonic())
            if line is None:
                raise Failed(f"{method}: the agent exited: {self.last_words()}")
            if line == "":
                raise Failed(f"{method}: no response within {seconds} s")
            if self.verbose:
                print("<-", line.rstrip()[:2000], file=sys.stderr)
            try:
                message = json.loads(line)
            except ValueError:
                raise Failed(f"stdout is not JSON: {line[:200]!r}") from None
            if "method" in message and "id" in message:
                self.answer(message)
            elif "method" in message:
                if message["method"] == "session/update":
                    self.updates.append(message["params"]["update"])
                    if on_update:
                        on_update(self.updates[-1])
            elif message.get("id") == mine:
                if "error" in message:
                    raise Failed(f"{method}: {json.dumps(message['error'])[:300]}")
                return message["result"]

    def answer(self, message):
        method, params = message["method"], message.get("params") or {}
        self.asked.append(method)
        try:
            result = self.serve(method, params)
            self.send({"id": message["id"], "result": result})
        except NotImplementedError:
            error = {"code": -32601, "message": f"{method} is not supported"}
            self.send({"id": message["id"], "error": error})
        except FileNotFoundError as error:
            self.send({"id": message["id"], "error": {"code": -32002, "message": str(error)}})
        except OSError as error:
            self.send({"id": message["id"], "error": {"code": -32603, "message": str(error)}})

    def serve(self, method, params):
        if method == "session/request_permission":
            options = params["options"]
            allowed = [o for o in options if o.get("kind") == "allow_once"] or options
            return {"outcome": {"outcome": "selected", "optionId": allowed[0]["optionId"]}}
        if method == "fs/read_text_file":
            return {"content": Path(params["path"]).read_text()}
        if method == "fs/write_text_file":
            Path(params["path"]).write_text(params["content"])
            return {}
        if method == "terminal/create":
            command = [params["command"], *params.get("args", [])]
            run = subprocess.run(command, cwd=params.get("cwd") or self.cwd, timeout=20,
                                 capture_output=True, text=True, shell=len(command) == 1)
            name = f"t{len(self.terminals)}"
            self.terminals[name] = run
            return {"terminalId": name}
        if method in ("terminal/output", "terminal/wait_for_exit"):
            run = self.terminals[params["terminalId"]]
            status = {"exitCode": run.returncode, "signal": None}
            if method == "terminal/wait_for_exit":
                return status
            return {"output": run.stdout + run.stderr, "truncated": False, "exitStatus": status}
        if method in ("terminal/release", "terminal/kill"):
            return {}
        raise NotImplementedError

    def last_words(self):
        self.errors.flush()
        self.errors.seek(0)
        return self.errors.read()[-600:]

    def said(self, kind):
        chunks = [u.get("content") for u in self.updates if u.get("sessionUpdate") == kind]
        return "".join(c.get("text", "") for c in chunks if isinstance(c, dict))

    def has(self, *kinds):
        return [u for u in self.updates if u.get("sessionUpdate") in kinds]

    def stop(self):
        try:
            self.process.stdin.close()
            self.process.wait(5)
        except (subprocess.TimeoutExpired, OSError):
            pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()


def need(truth, what):
    if not truth:
        raise Failed(what)


def session(agent):
    new = agent.call("session/new", {"cwd": str(agent.cwd), "mcpServers": []})
    need(new.get("sessionId"), "session/new without sessionId")
    return new["sessionId"]


def prompt(agent, name, text, **more):
    agent.begin()
    content = [{"type": "text", "text": text}]
    return agent.call("session/prompt", {"sessionId": name, "prompt": content}, **more)


def judge(key, agent, model, recipe, cwd):
    """Runs one key in its own session. Returns a remark, or raises Failed."""
    name = session(agent)
    notes = cwd / "certify-notes.txt"
    notes.unlink(missing_ok=True)
    text = recipe.prompts[key]
    if key == "fs_read" or (key == "fs_write" and recipe.name in OVERWRITES):
        notes.write_text("certified before\n")
    if key == "slow":
        return cancel(agent, model, name, text)
    if key == "recall":
        prompt(agent, name, "remember the word marigold")
    result = prompt(agent, name, text)
    reason = result.get("stopReason")
    need(reason == "end_turn", f"stopReason {reason}")
    said = agent.said("agent_message_chunk")
    calls = agent.has("tool_call", "tool_call_update")
    raw = json.dumps(agent.updates)
    if "no such tool" in said:
        raise Failed("the agent has no tool for it")
    if key == "text":
        need(said, "no text")
        if "certify:" in text:
            need("Certified in three chunks." in said, f"said {said!r}")
    elif key == "thought":
        need(agent.said("agent_thought_chunk"), "no thought")
    elif key == "recall":
        need("marigold" in said, f"said {said!r}")
    elif key == "plan":
        need(agent.has("plan"), "no plan")
    else:
        need(calls, "no tool call")
        need('"completed"' in raw, f"no call completed: {raw[-300:]}")
    if key == "permission":
        need("session/request_permission" in agent.asked, "the agent did not ask for permission")
    if key in ("permission", "fs_write") and "certify:" in text:
        need(notes.exists() and notes.read_text() == "certified\n", "no file was written")
    if key in ("fs_read", "terminal") and "certify:" in text:
        need(model.wait(lambda asked: got_result(asked, text), 5), "the model got no result")
    by = sorted({a for a in agent.asked if a.startswith(("fs/", "terminal/create"))})
    return "via " + ", ".join(by) if by else ""


def got_result(asked, text):
    """Whether the model received the result of a tool after this prompt."""
    texts = [(said["role"], said["text"]) for said in asked["messages"]]
    prompts = [i for i, (role, said) in enumerate(texts) if role == "user" and text in said]
    later = texts[prompts[-1]:] if prompts else []
    return any(role == "tool" and "certified" in said for role, said in later)


def cancel(agent, model, name, text):
    """Cancels at the first chunk. The turn must end as cancelled, and the agent must disconnect from
    the model."""
    sent = []

    def at_first(update):
        chunk = update.get("sessionUpdate") == "agent_message_chunk" and not sent
        # An agent may send its own text before the model responds.
        if chunk and ("certify:" not in text or "slowly" in json.dumps(update)):
            sent.append(time.monotonic())
            agent.send({"method": "session/cancel", "params": {"sessionId": name}})

    result = prompt(agent, name, text, on_update=at_first)
    need(sent, "no chunk to cancel at")
    took = time.monotonic() - sent[0]
    need(result.get("stopReason") == "cancelled", f"stopReason {result.get('stopReason')}")
    if "certify:" in text:
        ours = lambda asked: any(text in said["text"] for said in asked["messages"])
        dropped = model.wait(lambda asked: ours(asked) and asked["dropped"], 12)
        need(dropped, "the agent did not disconnect from the model")
    return f"in {took:.1f} s"


def run(recipe, options, model):
    name = recipe["name"]
    place = Path(tempfile.mkdtemp(prefix=f"vendor-{name}-"))
    home, cwd = place / "home", place / "work"
    home.mkdir()
    cwd.mkdir()
    words = {"model_url": model.url, "home": str(home), "cwd": options.place, "work": str(cwd)}
    recipe = Recipe(recipe, words)
    recipe.furnish(home)
    results = {}
    agent = Agent(recipe, home, cwd, options.verbose)
    try:
        start = agent.call("initialize", {
            "protocolVersion": 1,
            "clientCapabilities": {"fs": {"readTextFile": True, "writeTextFile": True},
                                   "terminal": True},
            "clientInfo": {"name": "agentproto-vendors", "version": "1.0.0"},
        })
        need(start.get("protocolVersion") == 1, f"protocolVersion {start.get('protocolVersion')}")
        if recipe.auth:
            agent.call("authenticate", {"methodId": recipe.auth})
        for key in options.only or KEYS:
            if key not in recipe.prompts:
                continue
            try:
                results[key] = (True, judge(key, agent, model, recipe, cwd))
            except Failed as failure:
                results[key] = (False, str(failure))
    except Failed as failure:
        results["start"] = (False, str(failure))
    finally:
        agent.stop()
        if any(not good for good, _ in results.values()):
            words = agent.last_words()
            if words:
                print(f"{name}: stderr: {words}", file=sys.stderr)
        shutil.rmtree(place, ignore_errors=True)
    return results


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--agentproto", required=True)
    parser.add_argument("--place", required=True, help="directory of the installation")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--only", action="append")
    options = parser.parse_args()
    recipe = json.load(sys.stdin)
    good = True
    model = Model(options.agentproto, options.verbose)
    try:
        results = run(recipe, options, model)
    finally:
        model.stop()
    if not results:
        results = {"start": (False, "no key was tested")}
    for key, (passed, remark) in results.items():
        good &= passed
        word = "ok" if passed else "FAILED"
        print(f"{recipe['name']:18} {key:10} {word:6} {remark}".rstrip(), flush=True)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
