#!/usr/bin/env python3
"""Prepares a report for publication.

    publish.py --agentproto BIN --vendors DIR --place DIR --title NAME REPORT.json OUT

Removes the paths of this machine from a report, and writes its HTML page, Markdown, JSON and badge
to OUT.
"""

import argparse
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

KEPT = ["report.json", "report.html", "report.md", "badge.svg"]


def places(options):
    """The replacements in order: (pattern, replacement)."""
    vendors = sorted({options.vendors, os.path.realpath(options.vendors)})
    known = [(re.escape(options.place) + r"(?:/agentproto-certify-\w+)?", "/run")]
    known += [(re.escape(name), "/vendors") for name in vendors]
    known.append((re.escape(options.agentproto), "agentproto"))
    # Long evidence is truncated, possibly in the middle of a path.
    for name in [options.place, options.agentproto, *vendors]:
        cut = [re.escape(name[:length]) for length in range(len(name) - 1, 4, -1)]
        known.append((f"(?:{'|'.join(cut)})(?= ?…|\\.\\.\\.|\\\\?$)", "/"))
        rest = [re.escape(name[start:]) for start in range(1, len(name))]
        case = r"(?:/agentproto-certify-\w+)?"
        known.append((f"(?<=characters\\]… )(?:{'|'.join(rest)}){case}(?=/)", ""))
    known.append((re.escape(os.path.expanduser("~")) + r"(?=/)", "/home/user"))
    if len(socket.gethostname()) > 3:
        known.append((re.escape(socket.gethostname()), "host"))
    return [(re.compile(pattern), word) for pattern, word in known]


def scrub(value, known):
    if isinstance(value, str):
        for pattern, word in known:
            value = pattern.sub(word, value)
        return value
    if isinstance(value, list):
        return [scrub(one, known) for one in value]
    if isinstance(value, dict):
        return {scrub(key, known): scrub(one, known) for key, one in value.items()}
    return value


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--agentproto", required=True)
    parser.add_argument("--vendors", required=True)
    parser.add_argument("--place", required=True, help="directory in which the cases ran")
    parser.add_argument("--title", required=True, help="display name of the agent")
    parser.add_argument("report", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    report = scrub(json.loads(options.report.read_text()), places(options))
    report["target"]["name"] = options.title
    # Transcripts are not published, so links to them would be broken.
    for row in report["results"]:
        row.pop("transcript", None)
    left = re.findall(r"(?<!\w)/(?:tmp|root|work)/[^\s\"]*", json.dumps(report, ensure_ascii=False))
    if left:
        print(f"{options.report}: check these paths: {sorted(set(left))[:20]}", file=sys.stderr)
    options.out.mkdir(parents=True, exist_ok=True)
    scrubbed = options.out / "report.json"
    scrubbed.write_text(json.dumps(report))
    made = subprocess.run([options.agentproto, "report", "render", str(scrubbed), "--report-dir",
                           str(options.out)], stdout=subprocess.DEVNULL)
    if made.returncode:
        sys.exit(f"cannot render {options.report}")
    for path in options.out.iterdir():
        if path.is_file() and path.name not in KEPT:
            path.unlink()


if __name__ == "__main__":
    main()
