#!/usr/bin/env bash
# Lint step of the GitHub action. action.yml sets the variables.
set -euo pipefail

tool="$RUNNER_TEMP/agentproto/bin/agentproto"

paths=()
while IFS= read -r line || [ -n "$line" ]; do
  line="${line%$'\r'}"
  if [ -n "$line" ]; then paths+=("$line"); fi
done <<<"$LINT_PATHS"
if [ "${#paths[@]}" -eq 0 ]; then paths=(.); fi

# An option overrides agentproto.toml, so an empty input must not become an option.
options=()
if [ -n "$LINT_PROFILE" ]; then options+=("--profile=$LINT_PROFILE"); fi
if [ -n "$LINT_FAIL_ON" ]; then options+=("--fail-on=$LINT_FAIL_ON"); fi
if [ -n "$LINT_BASELINE" ]; then options+=("--baseline=$LINT_BASELINE"); fi

lint() {
  # "${a[@]+…}" is needed because bash before 4.4 treats an empty array as unset.
  "$tool" lint ${options[@]+"${options[@]}"} "$@" -- "${paths[@]}"
}

if [ -n "$LINT_SARIF" ]; then
  mkdir -p -- "$(dirname -- "$LINT_SARIF")"
  # Code scanning would also open alerts for suppressed results.
  lint --exit-zero --hide-suppressed --output=sarif >"$LINT_SARIF"
fi
lint --output="${LINT_OUTPUT:-github}"
