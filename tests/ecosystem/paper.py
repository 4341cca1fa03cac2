"""The manual page and the completion scripts."""

import os
import re

from harness import BINARY, WORK, check, debian_tool, run


def written(name, *command):
    file = WORK / name
    file.write_text(run(BINARY, *command, expect=0).out)
    return file


@check
def man_renders_the_page():
    tool = debian_tool("man", "man-db")
    env = {**os.environ, "MANWIDTH": "80", "MAN_KEEP_FORMATTING": "", "LC_ALL": "C.UTF-8"}
    result = run(*tool, "--warnings", "--local-file", written("agentproto.1", "man"), env=env, expect=0)
    assert result.err == "", result.err
    for word in ["NAME", "EXIT STATUS", "--fail-on", "--stdin-filename", "COMPLETIONS"]:
        assert word in result.out, word


@check
def mandoc_reports_no_warnings():
    tool = debian_tool("mandoc", "mandoc")
    page = written("agentproto.1", "man")
    said = run(*tool, "-T", "lint", "-W", "warning", page).out.splitlines()
    # The page has no date, because builds would differ.
    said = [line for line in said if "missing date" not in line]
    assert not said, "\n".join(said)


def parses(shell, *packages):
    tool = debian_tool(shell, *packages)
    script = written(f"completions.{shell}", "completions", shell)
    result = run(*tool, "-n", script, expect=0)
    assert result.err == "", result.err
    wrong = WORK / f"wrong.{shell}"
    wrong.write_text("if true; then (\n")
    assert run(*tool, "-n", wrong).code != 0, f"{shell} -n accepts invalid scripts"


@check
def bash_parses_its_completions():
    parses("bash", "bash")


@check
def zsh_parses_its_completions():
    parses("zsh", "zsh", "zsh-common")


@check
def fish_parses_its_completions():
    parses("fish", "fish", "fish-common", "libpcre2-32-0")


@check
def bash_completes():
    script = written("completions.bash", "completions", "bash")
    ask = f'source "{script}"; COMP_WORDS=(agentproto lint --fa); COMP_CWORD=2; ' \
        '_agentproto agentproto --fa lint; echo "${COMPREPLY[@]}"'
    answer = run("bash", "--norc", "-c", ask, expect=0).out.split()
    assert answer == ["--fail-on"], answer


@check
def every_option_is_on_the_page():
    page = (WORK / "agentproto.1").read_text().replace("\\-", "-")
    options = set(re.findall(r"--[a-z][a-z-]+", run(BINARY, "lint", "--help", expect=0).out))
    missing = [o for o in options if o not in page]
    assert not missing, missing
