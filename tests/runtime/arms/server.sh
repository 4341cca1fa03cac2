# A small MCP server. A test prepends the function `call`, which runs for every tools/call with the
# request in $line and its id in $id.
say() { printf '%s\n' "$1"; }
answer() { say "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$1}"; }
event() { say "{\"jsonrpc\":\"2.0\",\"method\":\"fake/event\",\"params\":$1}"; }
progress() { say "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":$token,\"progress\":1,\"message\":\"$1\"}}"; }
log() { say "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"$1\",\"data\":$2}}"; }
text() { answer "{\"content\":[{\"type\":\"text\",\"text\":\"$1\"}],\"structuredContent\":{\"threadId\":\"t-7\"}}"; }
number() { rest="${line#*\"$1\":}"; printf '%s' "${rest%%[,\}]*}"; }
ask() { say "{\"jsonrpc\":\"2.0\",\"id\":\"q1\",\"method\":\"elicitation/create\",\"params\":$1}"; IFS= read -r reply; }
: "${tools:=}"
if [ -z "$tools" ]; then
tools='{"name":"go","inputSchema":{"type":"object","properties":{"prompt":{"type":"string"}},"required":["prompt"]}},{"name":"go-on","inputSchema":{"type":"object","properties":{"prompt":{"type":"string"},"threadId":{"type":"string"}},"required":["prompt","threadId"]}}'
fi
while IFS= read -r line; do
  printf '%s\n' "$line" >> heard
  id=$(number id)
  case $line in
    *'"method":"initialize"'*)
      answer '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"fake","version":"9.9.9"}}' ;;
    *'"method":"tools/list"'*) answer "{\"tools\":[$tools]}" ;;
    *'"method":"tools/call"'*) token=$(number progressToken); call ;;
  esac
done
