#!/bin/sh
# A small AOI tool with two schema versions. Its first argument names its defect.
how=$1 secret=$2
shift 2

full() {
    case $1 in
    1 | 1.4.0) echo 1.4.0 ;;
    2 | 2.0.0) echo 2.0.0 ;;
    *) echo none ;;
    esac
}
version=2.0.0 place= name=com.example.small
for word in "$@"; do
    case $place in
    version) version=$(full "$word") ;;
    accept)
        version=$(full "${word#*@}")
        [ "${word%@*}" = $name ] || version=none
        ;;
    esac
    place=
    case $word in
    --schema-version) place=version ;;
    --accept-schema) place=accept ;;
    esac
done
[ $how = flag-ignored ] && [ "$1" = search ] && version=2.0.0
[ $how = unsupported-served ] && [ $version = none ] && version=2.0.0

title=title
[ $version = 1.4.0 ] && title=heading
id="https://schemas.example.com/small/$version.json"
kinds='"aoi:meta","aoi:summary","aoi:error","hit"'
root='"type":"object","required":["type"],"properties":{"type":{"enum":['$kinds']}}'
summary='{"required":["ok"],"properties":{"ok":{"type":"boolean"}}}'
hit='{"required":["'$title'"],"properties":{"'$title'":{"type":"string"}}}'
meta='{"properties":{"tool":{"type":"string"}}}'
case $how in
schema-invalid) root='"type":"objekt"' ;;
schema-dangling) root=$root',"not":{"$ref":"#/$defs/absent"}' ;;
schema-remote) root=$root',"anyOf":[{"$ref":"https://schemas.example.com/hit.json"},true]' ;;
schema-file-id) id=file:///opt/small/schema.json ;;
schema-elsewhere) root=$root',"$comment":"'$PWD'"' ;;
schema-new-each-time) root=$root',"$comment":"'$(date +%N)'"' ;;
esac
when() {
    printf '{"if":{"properties":{"type":{"const":"%s"}},"required":["type"]},"then":%s}' "$1" "$2"
}
print_schema() {
    case $how in
    schema-exit) exit 3 ;;
    schema-login) echo "please log in first" >&2; exit 1 ;;
    schema-file) [ -s "$secret" ] || { echo "cannot start" >&2; exit 1; } ;;
    schema-prose) echo "An event has a type."; exit ;;
    schema-stream) printf '{"type":"aoi:meta"}\n{"type":"aoi:summary","ok":true}\n'; exit ;;
    schema-colors) printf '\033[1m{\033[0m"type":"object"}\n'; exit ;;
    schema-vacuous) echo '{}'; exit ;;
    schema-map)
        printf '{"aoi:meta":%s,"aoi:summary":%s,"aoi:error":{},"hit":%s}\n' "$meta" "$summary" "$hit"
        exit ;;
    schema-unknown-dialect) echo '{"$schema":"https://example.com/mine"}'; exit ;;
    esac
    printf '{"$id":"%s",%s,"allOf":[%s,%s,%s]}\n' "$id" "$root" \
        "$(when aoi:meta "$meta")" "$(when aoi:summary "$summary")" "$(when hit "$hit")"
}
print_capabilities() {
    case $how in
    capabilities-exit) exit 3 ;;
    capabilities-prose) echo "search  finds"; exit ;;
    capabilities-list) echo '[1]'; exit ;;
    no-capabilities) exit 64 ;;
    esac
    default=2.0.0 bounded=true events='"aoi:meta","hit","aoi:error","aoi:summary"' more=
    [ $how = default-differs ] && default=1.4.0
    [ $how = capabilities-odd ] && bounded='"yes"'
    [ $how = unlisted ] && events='"aoi:meta","aoi:error","aoi:summary"'
    [ $how = declared-not-offered ] && more=',"3.0.0"'
    printf '{"tool":"small","schemas":[{"name":"%s","versions":["1.4.0","2.0.0"%s],"default":"%s"}],' $name "$more" $default
    printf '"commands":[{"name":"search","read_only":true,"bounded":%s,"event_types":[%s]}]}\n' "$bounded" "$events"
}

case $1 in
--help)
    [ $how = no-capabilities ] && { echo "usage: small schema | search"; exit; }
    echo "usage: small schema | capabilities | search"
    exit ;;
schema | --schema)
    [ $1 = --schema ] && [ $how = flag-differs ] && { echo '{"type":"object"}'; exit; }
    [ $1 = schema ] && [ $how = flag-only ] && exit 64
    [ $1 = --schema ] && [ $how != flag-differs ] && [ $how != flag-only ] && exit 64
    [ $version = none ] && exit 64
    print_schema
    exit ;;
aoi-schema)
    exit 64 ;;
capabilities)
    print_capabilities
    exit ;;
search) ;;
*)
    exit 64 ;;
esac

said=$version tool='"small"' tool_version=9.1.0 ok=true kind=hit
case $how in
meta-tool-number) tool=5 ;;
summary-ok-text) ok='"yes"' ;;
undeclared-type) kind=result ;;
domain) title=other ;;
version-short) said=v2 ;;
version-unknown) said=2.7.0 ;;
conflated) tool_version=$version ;;
only-said) title=title ;;
esac
[ $version = none ] && [ $how != unsupported-late ] && {
    [ $how = unsupported-mute ] && { echo '{"type":"aoi:meta"}'; exit 64; }
    [ $how = unsupported-prose ] && { echo "no such version" >&2; exit 64; }
    echo '{"type":"aoi:error","category":"usage","code":"VERSION","message":"none","retryable":false}'
    [ $how = unsupported-exit ] && exit 0
    exit 64
}
said="\"schema_version\":\"$said\","
[ $how = version-missing ] && said=
[ $how = version-number ] && said='"schema_version":2,'
printf '{"type":"aoi:meta","tool":%s,"tool_version":"%s","aoi_version":"0.2",%s"schema_name":"%s"}\n' "$tool" $tool_version "$said" $name
printf '{"type":"%s","%s":"one"}\n' $kind $title
[ $version = none ] && {
    echo '{"type":"aoi:error","category":"usage","code":"VERSION","message":"none","retryable":false}'
    exit 64
}
printf '{"type":"aoi:summary","ok":%s,"count":1}\n' "$ok"
