#!/bin/sh
# Wraps the mock agent in a script, because many agents are installed that way.
here=${0%/*}
case $1 in
  --version) exec "$here/agentproto" --version ;;
esac
exec "$here/agentproto" mock acp --state .mock-agent -- "$@"
