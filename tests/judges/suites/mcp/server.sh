#!/bin/sh
# MCP servers that conform, each in a different way: `server.sh KIND`.
#   old     supports only the first revision, without structured results
#   bare    has no tools at all
#   paged   lists its tools in two pages, and responds with every type of content
#   asking  requests roots, asks the user, writes logs, and can be canceled; its ids are strings
kind=$1
say() { printf '%s\n' "$1"; }
answer() { say "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$1}"; }
refuse() { say "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":$1,\"message\":\"no\"}}"; }
value() { printf '%s' "$line" | sed -nE "s/.*\"$1\":(\"[^\"]*\"|-?[0-9]+).*/\1/p"; }
tool() { printf '{"name":"%s","description":"d","annotations":{"readOnlyHint":true},"inputSchema":%s%s}' "$1" "$2" "$3"; }
object='{"type":"object"}'
needy='{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}'
loudest=6
roots=no
form=no
asked=0

initialize() {
  version=$(value protocolVersion)
  case $line in *'"roots"'*) roots=yes ;; esac
  case $line in *'"elicitation"'*) form=yes ;; esac
  case $kind in
    old) version='"2024-11-05"' ;;
    # The last two revisions are supported.
    *) case $version in '"2025-11-25"' | '"2025-06-18"') ;; *) version='"2025-11-25"' ;; esac ;;
  esac
  case $kind in
    bare) able='{}' ;;
    asking) able='{"tools":{"listChanged":true},"logging":{}}' ;;
    *) able='{"tools":{}}' ;;
  esac
  answer "{\"protocolVersion\":$version,\"capabilities\":$able,\"serverInfo\":{\"name\":\"$kind\",\"version\":\"1\"}}"
}

list() {
  case $kind:$line in
    bare:*) refuse -32601 ;;
    paged:*'"cursor":"page-2"'*) answer "{\"tools\":[$(tool b.two "$object" ',"outputSchema":{"type":"object","required":["n"]}')]}" ;;
    *'"cursor"'*) refuse -32602 ;;
    paged:*) answer "{\"tools\":[$(tool a-1 "$needy")],\"nextCursor\":\"page-2\"}" ;;
    asking:*) answer "{\"tools\":[$(tool wait "$object"),$(tool ask "$object"),$(tool log "$object")]}" ;;
    *) answer "{\"tools\":[$(tool look "$needy")]}" ;;
  esac
}

progress() { say "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":$token,\"progress\":$1}}"; }
log() {
  [ "$1" -gt "$loudest" ] || say "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"$2\",\"data\":{\"n\":1}}}"
}
done_='{"content":[{"type":"text","text":"done"}]}'

call() {
  token=$(value progressToken)
  case $kind:$line in
    bare:*) refuse -32601 ;;
    *'"name":"look"'*'"n":'*) answer '{"content":[{"type":"text","text":"seen"}],"isError":false}' ;;
    paged:*'"name":"b.two"'*)
      [ -z "$token" ] || { progress 0.25; progress 0.5; progress 1; }
      answer '{"content":[{"type":"image","data":"QQ==","mimeType":"image/png"},{"type":"audio","data":"QQ==","mimeType":"audio/wav"},{"type":"resource_link","uri":"file:///a","name":"a"},{"type":"resource","resource":{"uri":"file:///a","blob":"QQ=="}}],"structuredContent":{"n":1}}' ;;
    *'"name":"look"'* | *'"name":"a-1"'*) answer '{"content":[],"isError":true}' ;;
    asking:*'"name":"ask"'*)
      if [ $form = no ]; then answer "$done_"; else
        held=$id asked=$((asked + 1))
        # Without a mode, this is a form, as in older revisions.
        say "{\"jsonrpc\":\"2.0\",\"id\":\"q-$asked\",\"method\":\"elicitation/create\",\"params\":{\"message\":\"Which?\",\"requestedSchema\":{\"type\":\"object\",\"properties\":{\"c\":{\"type\":\"array\",\"items\":{\"anyOf\":[{\"const\":\"a\",\"title\":\"A\"}]}},\"d\":{\"type\":\"string\",\"oneOf\":[{\"const\":\"x\",\"title\":\"X\"}]}}}}}"
      fi ;;
    asking:*'"name":"log"'*) log 7 debug; log 3 error; answer "$done_" ;;
    asking:*'"name":"wait"'*)
      slow=$id
      (n=0; while [ $n -lt 60 ]; do n=$((n + 1)); [ -z "$token" ] || progress $n; sleep 0.1; done; answer "$done_") &
      worker=$! ;;
    *) refuse -32602 ;;
  esac
}

level() {
  case $line in
    *'"debug"'*) loudest=7 ;;
    *'"emergency"'*) loudest=0 ;;
    *) refuse -32602; return ;;
  esac
  answer '{}'
}

while IFS= read -r line; do
  id=$(value id)
  case $line in
    *'}') ;;
    *) say '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no JSON"}}'; continue ;;
  esac
  case $line in
    *'"jsonrpc":"1.0"'*) refuse -32600 ;;
    *'"method":"initialize"'*) initialize ;;
    *'"method":"notifications/initialized"'*)
      if [ "$kind:$roots" = asking:yes ]; then say '{"jsonrpc":"2.0","id":"roots","method":"roots/list"}'; fi ;;
    *'"method":"notifications/cancelled"'*)
      if [ -n "$worker" ] && [ "$(value requestId)" = "$slow" ]; then kill "$worker" 2>/dev/null; fi ;;
    *'"method":"notifications/'*) ;;
    *'"method":"ping"'*) answer '{"_meta":{"x/y":1}}' ;;
    *'"method":"tools/list"'*) list ;;
    *'"method":"tools/call"'*) call ;;
    *'"method":"logging/setLevel"'*) level ;;
    *'"method":'*) refuse -32601 ;;
    *'"id":"q-'*'"result"'*) id=$held; answer "$done_" ;;
  esac
done
