#!/usr/bin/env bash
# The GitHub action's lint step; see action.yml for the variables.
set -euo pipefail
tool="$RUNNER_TEMP/agentproto/bin/agentproto"
read -r -a paths <<<"$LINT_PATHS"
common=(--profile "$LINT_PROFILE" --fail-on "$LINT_FAIL_ON")
if [ -n "$LINT_SARIF" ]; then
  "$tool" lint "${common[@]}" --exit-zero --output sarif -- "${paths[@]}" >"$LINT_SARIF"
fi
exec "$tool" lint "${common[@]}" --output "$LINT_OUTPUT" -- "${paths[@]}"
