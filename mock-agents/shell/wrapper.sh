#!/bin/sh
# The mock agent behind a script, as many agents are installed.
here=${0%/*}
case $1 in
  --version) exec "$here/agentproto" --version ;;
esac
exec "$here/agentproto" mock acp --state .mock-agent -- "$@"
