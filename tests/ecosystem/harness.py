"""Shared by the checks: the list of checks, the binary under test, and sample bundles."""

import json
import os
import shutil
import subprocess
import tempfile
import traceback
from pathlib import Path

import yaml

REPOSITORY = TARGET = WORK = BINARY = None
CHECKS = []


def prepare(repository, target, work):
    global REPOSITORY, TARGET, WORK, BINARY
    REPOSITORY, TARGET, WORK = repository, target, work
    shutil.rmtree(work / "tmp", ignore_errors=True)
    (work / "tmp").mkdir()
    run("cargo", "build", "--quiet", "--locked", cwd=repository, expect=0)
    BINARY = target / "debug" / "agentproto"


def check(function):
    CHECKS.append(function)
    return function


def run_all(words):
    passed = failed = 0
    for function in CHECKS:
        name = f"{function.__module__}: {function.__name__.replace('_', ' ')}"
        if words and not any(word in name for word in words):
            continue
        try:
            function()
        except Exception as error:  # report every failure, and continue
            failed += 1
            print(f"FAILED  {name}\n{describe(error)}", flush=True)
        else:
            passed += 1
            print(f"ok      {name}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


def describe(error):
    frames = traceback.extract_tb(error.__traceback__)
    places = " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(frames[1:]))
    return f"        {type(error).__name__}: {error}\n        at {places}"


class Result:
    def __init__(self, process):
        self.code = process.returncode
        self.out = process.stdout.decode()
        self.err = process.stderr.decode()
        self.all = self.out + self.err


def run(*command, cwd=None, env=None, expect=None):
    process = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=env, capture_output=True, check=False
    )
    result = Result(process)
    if expect is not None and result.code != expect:
        raise AssertionError(
            f"exit code {result.code}, expected {expect}: {' '.join(map(str, command))}\n{result.all}"
        )
    return result


def venv(name):
    return WORK / "venv" / "bin" / name


def npm(name):
    return WORK / "npm" / "node_modules" / name


def debian_tool(name, *packages):
    """A program from PATH, or else unpacked from a Debian package without installing it."""
    found = shutil.which(name)
    if found:
        return [found]
    root = WORK / "debian"
    if not list(root.glob(f"**/bin/{name}")):
        root.mkdir(exist_ok=True)
        run("apt-get", "download", *packages, cwd=root, expect=0)
        for archive in root.glob("*.deb"):
            run("dpkg-deb", "-x", archive, root, expect=0)
    program = next(iter(root.glob(f"**/bin/{name}")), None)
    assert program, f"{name} is neither on PATH nor in {', '.join(packages)}"
    libraries = ":".join(str(p) for p in root.glob("usr/lib/*-linux-gnu"))
    return ["env", f"LD_LIBRARY_PATH={libraries}", program]


def fresh(name):
    """An empty directory that the next run removes."""
    return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=WORK / "tmp"))


def clone():
    """A clone of the repository at HEAD, as a user would get it."""
    path = WORK / "clone"
    shutil.rmtree(path, ignore_errors=True)
    run("git", "clone", "--quiet", "--no-hardlinks", REPOSITORY, path, expect=0)
    return path


def build_environment(**more):
    """The environment for builds of HEAD: one shared target directory, no optimization."""
    return {
        **os.environ,
        "CARGO_TARGET_DIR": str(WORK / "cargo"),
        "CARGO_PROFILE_RELEASE_OPT_LEVEL": "0",
        "CARGO_PROFILE_RELEASE_LTO": "off",
        "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16",
        **more,
    }


def demo(which, into):
    shutil.copytree(REPOSITORY / "fixtures/demo" / which, into, dirs_exist_ok=True)
    return Path(into)


def edit(file, old, new):
    text = file.read_text()
    assert old in text, f"{file} does not contain {old!r}"
    file.write_text(text.replace(old, new, 1))


def lint(directory, *args, output):
    return run(BINARY, "lint", "--output", output, *args, cwd=directory)


def findings(directory, *args):
    return json.loads(lint(directory, *args, output="json").out)["findings"]


class Sample:
    """A directory and the arguments of a lint run on it."""

    def __init__(self, name, directory, *args):
        self.name, self.directory, self.args = name, directory, args
        self.outputs = {}

    def output(self, form):
        if form not in self.outputs:
            self.outputs[form] = lint(self.directory, *self.args, output=form).out
        return self.outputs[form]

    def findings(self):
        return json.loads(self.output("json"))["findings"]

    def counted(self):
        return [f for f in self.findings() if "suppressed" not in f]


_samples = None


def samples():
    """Runs that together cover every field of a finding."""
    global _samples
    if _samples is None:
        _samples = list(make_samples(fresh("samples")))
    return _samples


def make_samples(top):
    yield Sample("bad", demo("bad", top / "bad"))
    yield Sample("clean", demo("good", top / "good"))
    yield Sample("two bundles, relations", REPOSITORY / "fixtures/demo")
    yield Sample("warnings fail", top / "bad", "--fail-on", "warning")
    yield Sample("reference profile", top / "bad", "--profile", "reference")
    yield Sample("absolute path", top / "bad", top / "bad" / "heron")

    odd = demo("bad", top / "odd" / "ünï söl#1 100% 日本, a:b")
    edit(odd / "heron/AGENT-CLI.md", "Patient coding agent", "Pätient 🦀 cödïng agent, 100%:")
    yield Sample("non-ASCII paths and texts", top / "odd")

    ignored = demo("bad", top / "ignored")
    edit(
        ignored / "heron/AGENT-CLI.md",
        "---\n",
        "---\n# agentproto: ignore-file[requires-os-enum] kept for an old host\n",
    )
    yield Sample("ignored inline", ignored)

    known = demo("bad", top / "known")
    lint(known, "--write-baseline", "known.json", output="human")
    edit(known / "heron/AGENT-CLI.md", "name: heron\n", "name: heron\nsurprise: 1\n")
    yield Sample("baseline", known, "--baseline", "known.json")

    broken = top / "broken"
    broken.mkdir()
    (broken / "CLI.md").write_bytes(b"---\nname: \xff\xfe\n---\n")
    (broken / "ACP.md").write_text("---\nname: [open\n---\n")
    (broken / "TOOL.md").write_text("")
    (broken / "SANDBOX.md").mkdir()
    (broken / "tabs.AGENT-CLI.md").write_text("---\r\n\tname: x\r\n---\r\n")
    yield Sample("broken files", broken)

    yield Sample("every mutant", mutants(top / "mutants"))


def mutants(top):
    """Writes every text mutant of the fixtures, each as a separate bundle."""
    cases = [c for f in sorted((REPOSITORY / "fixtures/mutants").glob("*.yaml"))
             for c in yaml.safe_load(f.read_text()) if not c.get("spare") and "odd" not in c]
    for i, case in enumerate(cases):
        bundle = top / str(i) / case["bundle"]
        shutil.copytree(REPOSITORY / "fixtures/base" / case["bundle"], bundle)
        for new, old in case.get("rename", {}).items():
            (bundle / new).parent.mkdir(parents=True, exist_ok=True)
            (bundle / old).rename(bundle / new)
        for name, text in case.get("files", {}).items():
            (bundle / name).parent.mkdir(parents=True, exist_ok=True)
            if text is None:
                (bundle / name).unlink()
            else:
                (bundle / name).write_bytes(text.encode())
        edits = case.get("edits", [])
        if "replace" in case:
            edits = [{"with": "", **case}, *edits]
        for change in edits:
            file = bundle / change["file"]
            old, new = change["replace"].encode(), change["with"].encode()
            file.write_bytes(file.read_bytes().replace(old, new, 1))
    return top
