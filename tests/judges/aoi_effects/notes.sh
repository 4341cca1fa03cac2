# A small tool that conforms to AOI-CLI, unless $WRONG names a defect. $NOTES is its state directory.
dir=$NOTES
name= key= confirm= dry= limit=3 limited= cursor= go= slow=
wrong() { [ "$WRONG" = "$1" ]; }
meta() { echo '{"type":"aoi:meta","tool":"notes","aoi_version":"0.2","schema_version":"1.0.0"}'; }
event() { echo "{\"type\":\"$1\",\"id\":$2}"; }
end() { echo "{\"type\":\"aoi:summary\",\"ok\":$1${2:+,$2}}"; }
error() {
    echo "{\"type\":\"aoi:error\",\"category\":\"$1\",\"code\":\"$2\",\"message\":\"no\",\"retryable\":false${3:+,$3}}"
}
fail() { meta; error "$1" "$2"; end false; exit 65; }
lock() { mkdir -p "$dir/keys"; until mkdir "$dir/lock" 2>/dev/null; do sleep 0.01; done; }
unlock() { rmdir "$dir/lock"; }
make() {
    mkdir -p "$dir/keys"
    n=$(cat "$dir/next" 2>/dev/null || echo 1)
    echo $((n + 1)) > "$dir/next"
    id=note-$n
    wrong one-id && id=note-1
    echo "$1" > "$dir/$id.note"
}
tell() {
    meta
    told="\"$2\""
    wrong no-id && told=null
    wrong other-id && told="\"request-$$\""
    wrong no-event || event "$1" "$told"
    end true
}
plan() {
    wrong dry-run-acts && make planned
    meta
    wrong no-plan || echo '{"type":"aoi:plan","action":"change","target":"x"}'
    end true
    exit 0
}
# Whether the key was used before. Sets `id` to the id of that call.
known() {
    [ -n "$key" ] && [ -f "$dir/keys/$key" ] || return 1
    wrong key-ignored && return 1
    [ "$(sed -n 1p "$dir/keys/$key")" = "$1" ] || { unlock; fail conflict KEY_REUSED; }
    id=$(sed -n 2p "$dir/keys/$key")
    wrong new-id && id=note-$$
    return 0
}
keep() { [ -z "$key" ] || printf '%s\n%s\n' "$1" "$id" > "$dir/keys/$key"; }
create() {
    [ -n "$dry" ] && plan
    wrong no-keys && [ -n "$key" ] && fail usage UNKNOWN_FLAG
    wrong race && { known "$name" || { sleep 0.5; lock; make "$name"; keep "$name"; unlock; }; tell created "$id"; return; }
    lock
    known "$name" || { make "$name"; keep "$name"; }
    unlock
    tell created "$id"
}
delete() {
    [ -n "$dry" ] && plan
    wrong asks && [ -z "$confirm" ] && { read -r confirm < /dev/tty; }
    wrong piped && [ -z "$confirm" ] && read -r confirm
    wrong ci && confirm=${confirm:-$CI}
    wrong too-late && rm -f "$dir/$name.note"
    [ -n "$confirm" ] || fail usage CONFIRMATION_REQUIRED
    lock
    if ! known "$name"; then
        [ -f "$dir/$name.note" ] || { unlock; fail not_found NO_SUCH_NOTE; }
        wrong lies || rm "$dir/$name.note"
        id=$name
        keep "$name"
    fi
    unlock
    tell deleted "$id"
}
# Stores a note under its name, which is the id. If $WRONG starts with by-name, capabilities say so.
put() {
    [ -n "$dry" ] && plan
    mkdir -p "$dir/keys"
    lock
    if ! known "$name"; then
        id=$name
        wrong by-name-lies && id=request-1
        [ -f "$dir/$name.note" ] && wrong by-name-twice && echo "$name" > "$dir/$name.note.again.note"
        echo "$name" > "$dir/$name.note"
        keep "$name"
    fi
    unlock
    tell put "$id"
}
drop() {
    [ -n "$confirm" ] || fail usage CONFIRMATION_REQUIRED
    [ -f "$dir/$name.note" ] || fail not_found NO_SUCH_NOTE
    rm "$dir/$name.note"
    id=$name
    wrong by-name-drops-another && id=note-1
    tell dropped "$id"
}
say() {
    text=$(cat)
    [ -n "$text" ] || fail usage NOTHING_SAID
    make "$text"
    tell created "$id"
}
capabilities() {
    key='"natural_key":"NAME"'
    case $WRONG in by-name*) ;; *) fail usage UNKNOWN_COMMAND ;; esac
    wrong by-name-untold && key='"natural_key":""'
    echo "{\"tool\":\"notes\",\"commands\":[{\"name\":\"put\",$key},{\"name\":\"drop\",$key}]}"
}
schema() {
    wrong schema-needs-seed && { [ -f "$dir/seeded.note" ] || exit 70; }
    echo '{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","required":["type"]}'
}
import() {
    lines=$(tr -d ' \r' | sed '1s/^\xef\xbb\xbf//')
    meta
    at=0 bad=0
    printf '%s' "${lines:+$lines
}" > "$TMPDIR/in"
    while IFS= read -r line; do
        at=$((at + 1))
        case $line in
        '{"name":"'*'"}') ;;
        *)
            wrong silent && continue
            bad=$((bad + 1))
            [ -n "$go" ] || {
                [ $bad = 1 ] || continue
                wrong line-from-zero && at=$((at - 1))
            }
            error validation BAD_LINE "\"line_number\":$at"
            ;;
        esac
    done < "$TMPDIR/in"
    wrong stops-late || { [ $bad != 0 ] && [ -z "$go" ] && { end false; exit 65; }; }
    while IFS= read -r line; do
        case $line in '{"name":"'*'"}') make "$line"; event created "\"$id\"" ;; esac
        wrong one-only && break
    done < "$TMPDIR/in"
    case $bad in 0) end true ;; *) end false '"partial":true'; exit 65 ;; esac
}
find() {
    case $limit in '' | *[!0-9]* | 0) wrong odd-limit && limit=99 || fail usage LIMIT ;; esac
    case $cursor in
    '') from=1 ;;
    c[1-5]) from=${cursor#c} ;;
    *) wrong any-cursor && from=1 || fail validation CURSOR ;;
    esac
    case $WRONG in buffered*) exec 3>&1; exec > "$TMPDIR/out" ;; esac
    wrong slow-start && sleep 0.7
    meta
    at=$from last=$((from + limit - 1))
    wrong no-bound && [ -z "$limited" ] && last=5
    wrong one-more && last=$((last + 1))
    while [ $at -le 5 ] && [ $at -le $last ]; do
        [ -n "$slow" ] && sleep 0.2
        event hit "\"d$at\""
        at=$((at + 1))
    done
    wrong skips && at=$((at + 1))
    more=false next=null
    [ $at -le 5 ] && more=true next="\"c$at\""
    wrong no-word && more=false
    end true "\"truncated\":$more,\"next_cursor\":$next"
    wrong buffered && cat "$TMPDIR/out" >&3
    wrong buffered-in-lines && while IFS= read -r line; do echo "$line"; sleep 0.02; done < "$TMPDIR/out" >&3
    exit 0
}
login() {
    wrong browser && xdg-open https://login.example
    wrong prose && { echo 'please log in' >&2; exit 1; }
    wrong waits && read -r answer < /dev/tty
    fail authn INTERACTIVE_REQUIRED
}
# Refuses to run twice in the same directory.
watch() {
    mkdir -p "$dir"
    mkdir "$dir/watched" 2>/dev/null || fail conflict WATCHED_ALREADY
    trap 'end false "\"reason\":\"interrupted\""; exit 130' INT
    trap 'end false "\"reason\":\"interrupted\""; exit 143' TERM
    wrong deaf && trap '' INT TERM
    wrong never-says && while :; do sleep 0.05; done
    # Late in all runs of the first second, and never after.
    wrong late-once && {
        first=$dir/../../../first
        [ -f "$first" ] || date +%s > "$first"
        [ $(($(date +%s) - $(cat "$first"))) -gt 1 ] || sleep 3
    }
    meta
    while event tick '"t"' 2>/dev/null; do sleep 0.05; done
    exit 0
}
# Without aoi:meta and aoi:summary, like older tools.
quiet() {
    wrong deaf && trap '' INT TERM
    event tick '"1"'
    [ -n "$slow" ] && for _ in 1 2 3 4 5 6 7 8; do sleep 0.2; done
    event tick '"2"'
    exit 0
}
list() {
    wrong needs-seed && { [ -f "$dir/seeded.note" ] || fail not_found NOTHING_HERE; }
    wrong list-writes && make listed
    wrong list-leaves-a-file && echo x > last-list.txt
    wrong list-empties-a-file && [ -s "$HOME/.notesrc" ] && : > "$HOME/.notesrc"
    wrong list-keeps-a-cache && mkdir -p "$XDG_CACHE_HOME" && echo x > "$XDG_CACHE_HOME/list"
    wrong list-keeps-a-log && mkdir -p "$XDG_STATE_HOME" && date +%N >> "$XDG_STATE_HOME/log"
    wrong list-uses-a-temporary-file && echo $$ > "$TMPDIR/list.$$"
    wrong list-keeps-a-history && echo x >> "$HOME/.list-history"
    # Two entries by default, if $WRONG starts with list-bounded.
    most=9999 from=${cursor#c} at=0 more=
    case $WRONG in list-bounded*) most=2 ;; esac
    [ -z "$limited" ] || most=$limit
    meta
    for file in "$dir"/*.note; do
        [ -f "$file" ] || continue
        at=$((at + 1))
        [ $at -gt $((${from:-0} + most)) ] && more=y && break
        [ $at -gt "${from:-0}" ] || continue
        id=${file##*/}
        id=${id%.note}
        echo "{\"type\":\"entry\",\"id\":\"${id%.note.again}\",\"name\":\"$(tr -dc a-z0-9- < "$file")\"}"
    done
    case $more in
    y) end true "\"truncated\":true,\"next_cursor\":\"c$((${from:-0} + most))\"" ;;
    *) end true ;;
    esac
}
# Changes a file in every run, whatever the command is.
wrong runs-are-counted && echo x >> "$HOME/.notes-runs"
command=$1
shift
while [ $# -gt 0 ]; do
    case $1 in
    --) name=$2; break ;;
    --output) shift ;;
    --key) key=$2; shift ;;
    --limit) limit=$2 limited=y; shift ;;
    --cursor) cursor=$2; shift ;;
    --confirm) confirm=y ;;
    --dry-run) dry=y ;;
    --go-on) go=y ;;
    --slow) slow=y ;;
    -*) wrong any-flag || fail usage UNKNOWN_FLAG ;;
    *) name=$1 ;;
    esac
    shift
done
case $command in
create | delete | put | drop | say | import | find | login | watch | quiet | list | capabilities | schema) $command ;;
*) fail usage UNKNOWN_COMMAND ;;
esac
