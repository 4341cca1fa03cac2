#!/bin/sh
# An agent as an executable adapter: commands arrive as JSON lines on stdin, and events are written
# as JSON lines to stdout. It understands the prompts of the other mock agents.
say() { printf '%s\n' "$1"; }
text() { say "{\"type\":\"text-delta\",\"text\":\"$1\"}"; }
end() { say "{\"type\":\"turn-end\",\"reason\":\"$1\"}"; }
field() { printf '%s' "$line" | sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }
memory() { cat ".memory-$session" 2>/dev/null; }

while IFS= read -r line; do
  case $line in
    '{"op":"connect"'*)
      line=${line%%\"definition\"*}
      session=$(field resume)
      [ -n "$session" ] || session=s-$(date +%s%N)
      say "{\"type\":\"connected\",\"sessionId\":\"$session\"}"
      ;;
    '{"op":"send"'*)
      message=$(field message)
      case $message in
        'be slow')
          # Wait until the turn is cancelled.
          text tick
          ;;
        'use a tool')
          say '{"type":"tool-call","id":"1","name":"search","kind":"search","args":{}}'
          say '{"type":"tool-result","id":"1","ok":true,"content":"one note"}'
          text done
          end end_turn
          ;;
        'ask for permission')
          say '{"type":"agent-prompt","id":"q","message":"May I?","options":[{"id":"y","label":"Yes","kind":"allow_once"}]}'
          ;;
        'what did I say before?')
          text "Before: $(memory)"
          end end_turn
          ;;
        *)
          text "You said: "
          text "$message"
          end end_turn
          ;;
      esac
      printf '%s; ' "$message" >> ".memory-$session"
      ;;
    '{"op":"answer"'*) end end_turn ;;
    '{"op":"cancel"'*) end cancelled ;;
    '{"op":"close"'*) exit 0 ;;
  esac
done
