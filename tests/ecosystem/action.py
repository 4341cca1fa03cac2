"""Runs action.yml step by step, like a GitHub runner."""

import json
import os
import re

import yaml

from harness import (
    BINARY, REPOSITORY, build_environment, check, clone, demo, edit, findings, fresh, npm, run, venv,
)

ACTION = REPOSITORY / "action.yml"
INPUT = re.compile(r"\$\{\{ inputs\.([a-z-]+) \}\}")
BUILT = None


def steps():
    return yaml.safe_load(ACTION.read_text())["runs"]["steps"]


def step(which, workspace, inputs, temp, checkout):
    """Runs one composite step. `shell: bash` stands for this command line."""
    defaults = yaml.safe_load(ACTION.read_text())["inputs"]
    values = {name: str(spec.get("default", "")) for name, spec in defaults.items()}
    unknown = set(inputs) - set(values)
    assert not unknown, unknown
    values.update(inputs)
    env = build_environment(
        CI="true", GITHUB_ACTIONS="true", GITHUB_WORKSPACE=str(workspace),
        GITHUB_ACTION_PATH=str(checkout), RUNNER_TEMP=str(temp), RUNNER_OS="Linux",
    )
    for key, value in which.get("env", {}).items():
        env[key] = INPUT.sub(lambda m: values[m.group(1)], value)
    script = temp / "step.sh"
    script.write_text(which["run"])
    return run("bash", "--noprofile", "--norc", "-eo", "pipefail", script, cwd=workspace, env=env)


def act(workspace, **inputs):
    global BUILT
    build, lint = steps()
    if BUILT is None:
        temp, checkout = fresh("runner"), clone()
        result = step(build, workspace, {}, temp, checkout)
        assert result.code == 0, result.all
        BUILT = (temp, checkout)
    inputs = {name.replace("_", "-"): value for name, value in inputs.items()}
    return step(lint, workspace, inputs, *BUILT)


def workspace(which):
    return demo(which, fresh("workspace"))


@check
def the_metadata_is_valid():
    run(venv("check-jsonschema"), "--builtin-schema", "vendor.github-actions", ACTION, expect=0)
    run(npm(".bin/action-validator"), ACTION, expect=0)


@check
def every_input_is_used_and_none_is_part_of_a_script():
    inputs = set(yaml.safe_load(ACTION.read_text())["inputs"])
    env = "\n".join(v for s in steps() for v in s.get("env", {}).values())
    assert set(INPUT.findall(env)) == inputs
    assert not any("${{" in s["run"] for s in steps())


@check
def a_bad_bundle_is_annotated_and_fails():
    place = workspace("bad")
    result = act(place, sarif_file="out/lint.sarif")
    assert result.code == 1, result.all
    annotations = [l for l in result.out.splitlines() if re.match("::(error|warning|notice) ", l)]
    expected = findings(place)
    assert len(annotations) == len(expected) > 5, result.out
    assert "file=heron/AGENT-CLI.md,line=11,col=56" in annotations[0]
    log = json.loads((place / "out/lint.sarif").read_text())
    assert len(log["runs"][0]["results"]) == len(expected)


@check
def a_good_bundle_passes_without_output():
    place = workspace("good")
    result = act(place, sarif_file="lint.sarif")
    assert (result.code, result.all) == (0, ""), result.all
    assert json.loads((place / "lint.sarif").read_text())["runs"][0]["results"] == []


@check
def the_configuration_file_applies_without_inputs():
    place = workspace("good")
    edit(place / "heron/AGENT-CLI.md", "name: heron\n", "# agentproto: ignore[fm-type] no\nname: heron\n")
    assert act(place).code == 0
    (place / "agentproto.toml").write_text('[lint]\nfail-on = "warning"\n')
    assert act(place).code == 1
    assert act(place, fail_on="error").code == 0


@check
def known_findings_neither_fail_nor_reach_code_scanning():
    place = workspace("bad")
    run(BINARY, "lint", "--write-baseline", "known.json", cwd=place, expect=0)
    result = act(place, baseline="known.json", sarif_file="lint.sarif")
    assert (result.code, result.out) == (0, ""), result.all
    assert json.loads((place / "lint.sarif").read_text())["runs"][0]["results"] == []


@check
def paths_are_separated_by_lines_and_never_executed():
    place = fresh("workspace")
    demo("good", place / "with a blank")
    demo("bad", place / "second")
    assert act(place, paths="with a blank\n").code == 0
    both = act(place, paths="with a blank\nsecond\n")
    assert both.code == 1 and "file=second/heron" in both.out
    trick = act(place, paths='$(touch owned)\n"; touch owned; "\n--fix')
    assert trick.code == 66, trick.all
    assert not (place / "owned").exists()
    assert act(place, paths="").code == act(place, paths=".").code


@check
def mistakes_keep_their_exit_codes():
    place = workspace("good")
    assert act(place, paths="absent").code == 66
    assert act(place, profile="nonsense").code == 64
    assert act(place, paths="absent", sarif_file="lint.sarif").code == 66
