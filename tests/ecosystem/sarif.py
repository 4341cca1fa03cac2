"""SARIF: Microsoft's validator with the official schema, and checks that a schema cannot express."""

import json
import re
from urllib.parse import unquote

from harness import check, fresh, npm, run, samples

# The tool has no home page yet.
ACCEPTED = {"SARIF2005"}


@check
def the_official_validator_reports_no_errors():
    program = next(iter(npm("@microsoft").glob("sarif-multitool-*/Sarif.Multitool")))
    place = fresh("sarif")
    for i, sample in enumerate(samples()):
        (place / f"{i}.sarif").write_text(sample.output("sarif"))
    # An invalid file shows that the validator works.
    (place / "wrong.sarif").write_text('{"version": "2.1.0", "runs": [{"tool": {}}]}')
    verdict = place / "verdict.json"
    run(program, "validate", place / "*.sarif", "--output", verdict, "--rule-kind", "Sarif;Ghas",
        "--level", "Error;Warning")
    results = json.loads(verdict.read_text())["runs"][0]["results"]
    complaints = []
    caught = False
    for result in results:
        uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        if uri.endswith("wrong.sarif"):
            caught = True
        elif result["ruleId"] not in ACCEPTED:
            complaints.append(f"{uri} {result['ruleId']} {result['message']}")
    assert caught, "the validator accepted an invalid file"
    assert not complaints, "\n".join(complaints)


def runs():
    for sample in samples():
        yield sample, json.loads(sample.output("sarif"))["runs"][0]


@check
def the_samples_cover_every_part():
    seen = set()
    for _, run_ in runs():
        for result in run_["results"]:
            seen.update(result)
            seen.update(s["kind"] for s in result.get("suppressions", []))
    missing = {"fixes", "relatedLocations", "inSource", "external"} - seen
    assert not missing, missing


@check
def results_match_the_findings_of_the_json_report():
    levels = {"error": "error", "warning": "warning", "info": "note"}
    for sample, run_ in runs():
        findings = sample.findings()
        assert len(findings) == len(run_["results"]), sample.name
        for finding, result in zip(findings, run_["results"]):
            place = result["locations"][0]["physicalLocation"]
            region = place["region"]
            assert result["ruleId"] == finding["rule"]
            assert run_["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == finding["rule"]
            assert result["level"] == levels[finding["severity"]]
            assert unquote(place["artifactLocation"]["uri"]) == finding["file"]
            assert (region["startLine"], region["startColumn"]) == (
                finding["start"]["line"], finding["start"]["column"])
            assert ("suppressions" in result) == ("suppressed" in finding)


def offset(text, line, column):
    """Converts line and column (code points), both from 1, to an index."""
    lines = re.findall(r"[^\r\n]*(?:\r\n|\n|\r|$)", text)
    return sum(map(len, lines[: line - 1])) + column - 1


def cut(text, region):
    start = offset(text, region["startLine"], region["startColumn"])
    return start, offset(text, region["endLine"], region["endColumn"])


@check
def regions_in_lines_and_in_bytes_are_the_same_text():
    for sample, run_ in runs():
        for result in run_["results"]:
            for location in result["locations"] + result.get("relatedLocations", []):
                place = location["physicalLocation"]
                file = sample.directory / unquote(place["artifactLocation"]["uri"])
                try:
                    text = file.read_bytes().decode()
                except (OSError, UnicodeDecodeError):
                    continue
                region = place["region"]
                start, end = cut(text, region)
                first = region["byteOffset"]
                by_bytes = text.encode()[first : first + region["byteLength"]]
                assert text[start:end].encode() == by_bytes, (sample.name, result["ruleId"], region)


@check
def fixes_match_the_json_report():
    compared = 0
    for sample, run_ in runs():
        for finding, result in zip(sample.findings(), run_["results"]):
            assert ("fixes" in result) == (finding["fix"] is not None)
            for fix in result.get("fixes", []):
                change = fix["artifactChanges"][0]
                path = sample.directory / unquote(change["artifactLocation"]["uri"])
                text = path.read_bytes().decode()
                ours = text.encode()
                for e in sorted(finding["fix"]["edits"], key=lambda e: -e["start"]):
                    ours = ours[: e["start"]] + e["text"].encode() + ours[e["end"] :]
                theirs = text
                edits = [(*cut(text, r["deletedRegion"]), r["insertedContent"]["text"])
                         for r in change["replacements"]]
                for start, end, new in sorted(edits, reverse=True):
                    theirs = theirs[:start] + new + theirs[end:]
                assert theirs.encode() == ours, (sample.name, result["ruleId"])
                compared += 1
    assert compared > 3
