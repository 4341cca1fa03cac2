# Shared by tests/mcp_conformance/run and tests/mcp_client/run: versions, installation, servers.
# Needs $root, the root directory of the repository.
NODE=22.23.3
CONFORMANCE=0.2.0-alpha.12
SDK=1.32.2
PYTHON_SDK=1.30.0
place=$root/target/mcp
node=$place/node_modules/node/bin/node
pids=()

die() {
    echo "$1" >&2
    exit 69
}

# Whether this version of a package is installed.
has_npm() {
    grep -qs "\"version\": \"$2\"" "$place/node_modules/$1/package.json"
}

install_npm() {
    command -v npm >/dev/null || die "install first: npm"
    has_npm "$1" "$2" && return
    mkdir -p "$place"
    [ -f "$place/package.json" ] || echo '{"private":true}' >"$place/package.json"
    npm install --prefix "$place" --save-exact --no-audit --no-fund --loglevel error "$1@$2"
    has_npm "$1" "$2" || die "npm did not install $1@$2"
}

# The suite needs Node 22. Its npm package downloads the binary during installation.
install_node() {
    install_npm node "$NODE"
    [ -x "$node" ] || (cd "$place/node_modules/node" && "$(command -v node)" installArchSpecificPackage)
    "$node" --version >/dev/null || die "node@$NODE does not run"
}

install_python() {
    command -v python3 >/dev/null || die "install first: python3"
    [ -x "$place/venv/bin/python" ] || python3 -m venv "$place/venv" || die "install first: python3-venv"
    "$place/venv/bin/pip" install -q --disable-pip-version-check "$1"
}

# Uses $AGENTPROTO_BINARY, or else builds this checkout.
build() {
    binary=${AGENTPROTO_BINARY:-}
    if [ -z "$binary" ]; then
        cargo build
        binary=$root/target/debug/agentproto
    fi
    [ -x "$binary" ] || die "$binary does not exist or is not executable"
    PATH=$(dirname "$binary"):$PATH
    export PATH
}

# Waits for a file while the process that writes it is alive.
await_file() {
    for _ in $(seq 600); do
        [ -s "$1" ] && return
        kill -0 "$2" 2>/dev/null || die "the server that should write $1 has exited"
        sleep 0.1
    done
    die "$1 was not written"
}

start_daemon() {
    AGENTPROTO_HOME=$1 "$binary" serve --port 0 --quiet &
    pids+=($!)
    await_file "$1/runtime.json" "$!"
}

stop_all() {
    for pid in "${pids[@]}"; do
        kill "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    pids=()
}
