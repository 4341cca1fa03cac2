#!/bin/sh
# A small tool that conforms to AOI-CLI, unless MODE names a defect.

# A child process writes the output and remains after the tool exits.
if [ "$MODE" = slow-reader ]; then
    MODE='' "$0" "$@" &
    sleep 0.5
    exit 0
fi

meta='{"type":"aoi:meta","tool":"tool","aoi_version":"0.2","schema_version":"1.0.0","command":"search"}'
summary='{"type":"aoi:summary","ok":true,"count":3,"error_count":0,"warning_count":0}'
partial='{"type":"aoi:summary","ok":false,"reason":"interrupted","partial":true}'
escape=$(printf '\033')

say() { printf '%s\n' "$1" 2>/dev/null || failed; }
failed() {
    case $MODE in
        pipe-trace) echo 'Traceback (most recent call last):' >&2; exit 1 ;;
        pipe-message) echo 'tool: write error: Broken pipe' >&2; exit 141 ;;
        pipe-exit) exit 120 ;;
        full-is-fine) exit 0 ;;
    esac
    exit 74
}
refuse() {
    case $MODE in
        flag-passes) return ;;
        refusal-exits-zero) exit 0 ;;
        refusal-in-prose) echo "unknown: $1"; exit 64 ;;
        refusal-traced) echo "thread 'main' panicked at src/main.rs:1:1:" >&2; exit 101 ;;
        refusal-killed) kill -ABRT $$ ;;
        refusal-ok) say "$meta"; say "$summary"; exit 64 ;;
        refusal-quotes) echo "tool: $*" >&2; exit 64 ;;
        error-no-retryable) error='"category":"usage","code":"UNKNOWN","message":"no"' ;;
        error-odd-category) error='"category":"odd","code":"UNKNOWN","message":"no","retryable":false' ;;
        error-odd-code) error='"category":"usage","code":"unknown","message":"no","retryable":false' ;;
        error-retryable) error='"category":"usage","code":"UNKNOWN","message":"no","retryable":true' ;;
        error-missing) say "$meta"; say '{"type":"aoi:summary","ok":false}'; exit 64 ;;
        quiet-refusal) echo 'tool: no such usage' >&2; exit 64 ;;
        *) error='"category":"usage","code":"UNKNOWN","message":"no","retryable":false' ;;
    esac
    say "$meta"
    say "{\"type\":\"aoi:error\",$error}"
    say '{"type":"aoi:summary","ok":false,"error_count":1}'
    exit 64
}
stop() {
    case $MODE in
        interrupted-ok) say '{"type":"aoi:summary","ok":true,"reason":"interrupted"}' ;;
        interrupted-mute) ;;
        interrupted-traced) echo 'Traceback (most recent call last):' >&2; say "$partial" ;;
        interrupted-torn) printf '{"type":"hi'; say "$partial" ;;
        interrupted-twice) say "$partial"; say "$partial" ;;
        interrupted-reason) say '{"type":"aoi:summary","ok":false,"reason":"stopped"}' ;;
        interrupted-zero) say "$partial"; exit 0 ;;
        interrupted-one) say "$partial"; exit 1 ;;
        *) say "$partial" ;;
    esac
    exit "$1"
}

case $MODE in
    signal-ignored) trap '' INT TERM ;;
    *) trap 'stop 130' INT; trap 'stop 143' TERM ;;
esac
case $MODE in pipe-*) trap '' PIPE ;; esac

case $1 in
    search | watch | doctor) command=$1; shift ;;
    *) [ "$MODE" = command-passes ] || refuse "$@" ;;
esac
operand='' delay=0 token='' debug=''
while [ $# -gt 0 ]; do
    case $1 in
        --output) [ "$2" = jsonl ] || [ "$MODE" = format-passes ] || refuse "$@"; shift ;;
        --delay) delay=$2; shift ;;
        --token) token=$2; shift ;;
        --debug) debug=1 ;;
        -*) refuse "$@"; operand=x ;;
        *) [ -z "$operand" ] || refuse "$@"; operand=$1 ;;
    esac
    shift
done
[ "$command" = watch ] || [ -n "$operand" ] || refuse "$@"
[ -z "$debug" ] || echo 'tool: debug' >&2
case $MODE in
    token-in-meta) say '{"type":"aoi:meta","note":"'"$token"'"}' ;;
    token-on-stderr) echo "using $token" >&2; say "$meta" ;;
    token-in-file) echo "$token" >tool.log; say "$meta" ;;
    token-base64) say '{"type":"aoi:meta","note":"'"$(printf 'u:%s' "$token" | base64 -w0)"'"}' ;;
    variables) say '{"type":"aoi:meta","note":"'"$AOI_CANARY_ENV"'"}' ;;
    argv) say '{"type":"aoi:meta","args":["search","x","--output","jsonl"]}' ;;
    no-meta) ;;
    meta-late) say '{"type":"hit"}'; say "$meta" ;;
    two-metas) say "$meta"; say "$meta" ;;
    legacy) say '{"type":"meta","aoi_version":"0.2"}' ;;
    byte-order-mark) printf '\357\273\277'; say "$meta" ;;
    *) say "$meta" ;;
esac
if [ "$command" = watch ]; then
    while :; do say '{"type":"tick"}'; sleep 0.05; done
fi
case $operand in
    aoi-absent-*)
        case $MODE in
            absent-ok) say "$summary"; exit 66 ;;
            absent-zero) say '{"type":"aoi:summary","ok":false}'; exit 0 ;;
            absent-mute) exit 66 ;;
        esac
        say '{"type":"aoi:error","category":"not_found","code":"ABSENT","message":"no","retryable":false}'
        case $MODE in
            error-uncounted) say '{"type":"aoi:summary","ok":false,"error_count":0}' ;;
            *) say '{"type":"aoi:summary","ok":false,"error_count":1}' ;;
        esac
        exit 66 ;;
esac
case $MODE in
    held) sleep 30 & ;;
    banner) echo '==== tool ====' ;;
    prose) echo 'Searching the index' ;;
    twice) say '{"type":"hit","a":1,"a":2}' ;;
    no-type) say '{"id":1}' ;;
    surrogate) say '{"type":"hit","text":"\ud800"}' ;;
    latin1) printf '{"type":"hit","text":"\344"}\n' ;;
    big) say '{"type":"hit","n":9007199254740993}' ;;
    blank) say '' ;;
    reserved) say '{"type":"summary","text":"x"}' ;;
    unknown-type) say '{"type":"aoi:note"}' ;;
    color) say "$escape[32m{\"type\":\"hit\"}$escape[0m" ;;
    color-forced) [ -z "$FORCE_COLOR" ] || say "$escape[32m" ;;
    color-terminal) [ ! -t 1 ] || say "$escape[32m" ;;
    color-escaped) say '{"type":"hit","text":"\u001b[31m"}' ;;
    color-in-warning) say '{"type":"aoi:warning","message":"\u001b[31m"}' ;;
    debug-on-stdout) [ -z "$debug" ] || echo 'DEBUG 1' ;;
    array) say '[{"type":"hit"}]' ;;
    nan) say '{"type":"hit","n":NaN}' ;;
    long) printf '{"type":"hit","text":"%s"}\n' "$(head -c 1100000 /dev/zero | tr '\0' x)" ;;
esac
for id in 1 2 3; do
    [ "$delay" = 0 ] || sleep "$delay"
    case $MODE in
        carriage-return) printf '{"type":"hit"}\r\n' ;;
        *) say '{"type":"hit","id":"'$id'"}' ;;
    esac
done
case $MODE in
    no-summary) exit 0 ;;
    two-summaries) say "$summary" ;;
    not-last) say "$summary"; say '{"type":"hit"}'; exit 0 ;;
    not-ok) summary='{"type":"aoi:summary","ok":false}' ;;
    ok-text) summary='{"type":"aoi:summary","ok":"true"}' ;;
    count) summary='{"type":"aoi:summary","ok":true,"count":7}' ;;
    count-all) summary='{"type":"aoi:summary","ok":true,"count":5}' ;;
    no-line-feed) printf '%s' "$summary"; exit 0 ;;
    legacy) summary='{"type":"summary","ok":true}' ;;
    token-* | variables | argv | meta-late | two-metas | held | color* | big | twice | latin1 | surrogate | long)
        summary='{"type":"aoi:summary","ok":true}' ;;
esac
say "$summary"
[ "$MODE" != exit-one ] || exit 1
exit 0
