//! Generates any number of realistic bundles. The files differ in names, texts, versions and
//! optional blocks.

use std::fmt::Write as _;
use std::path::Path;

/// A xorshift generator, so that the corpus is the same on every machine.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
    fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }
    fn hex(&mut self, digits: usize) -> String {
        (0..digits)
            .map(|_| char::from(b"0123456789abcdef"[self.below(16)]))
            .collect()
    }
}

const NOUNS: &[&str] = &[
    "harbor", "lantern", "quarry", "meadow", "signal", "orchard", "beacon", "garnet", "willow",
    "summit", "ember", "delta",
];
const VERBS: &[&str] = &[
    "edits",
    "reviews",
    "plans",
    "tests",
    "explains",
    "migrates",
    "refactors",
    "documents",
];
const THINGS: &[&str] = &[
    "source trees",
    "pull requests",
    "release notes",
    "schemas",
    "build scripts",
    "incident reports",
];

fn sentence(rng: &mut Rng) -> String {
    let mut out = String::new();
    for _ in 0..2 + rng.below(4) {
        let _ = write!(
            out,
            "It {} {} for a team — {} {} without leaving the terminal. ",
            rng.pick(VERBS),
            rng.pick(THINGS),
            rng.pick(VERBS),
            rng.pick(THINGS)
        );
    }
    out.trim_end().to_owned()
}

/// Writes about `files` manifests to `dir`. Returns their number.
pub fn write(dir: &Path, files: usize) -> usize {
    let mut written = 0;
    let mut number = 0;
    while written < files {
        let mut rng = Rng::new(number as u64 + 1);
        let noun = rng.pick(NOUNS);
        let id = format!("{noun}-{number}");
        written += if number % 2 == 0 {
            agent(&mut rng, &dir.join("adapters").join(&id), &id)
        } else {
            tool_cli(&mut rng, &dir.join(".cli").join(&id), &id)
        };
        number += 1;
    }
    written
}

fn put(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().expect("a parent")).expect("corpus directory");
    std::fs::write(path, text).expect("corpus file");
}

fn env_name(id: &str) -> String {
    format!("{}_API_KEY", id.to_uppercase().replace('-', "_"))
}

fn agent(rng: &mut Rng, dir: &Path, id: &str) -> usize {
    let env = env_name(id);
    let mut y = format!(
        "---\nname: {id}\nid: {id}\ndescription: {}\n",
        sentence(rng)
    );
    let _ = writeln!(
        y,
        "version: {}.{}.{}",
        rng.below(3),
        rng.below(20),
        rng.below(40)
    );
    let _ = writeln!(y, "bin: {id}\nbin_args: [acp]\ninstall:");
    let _ = writeln!(y, "  - {{ method: brew, package: {id} }}");
    let _ = writeln!(
        y,
        "  - method: npm\n    package: \"@{}/{id}@{}.{}.0\"\n    global: true",
        rng.pick(NOUNS),
        1 + rng.below(4),
        rng.below(9)
    );
    let _ = writeln!(
        y,
        "  - method: download\n    url: https://example.com/{id}/{id}-linux-x64.tar.gz\n    extract_bin: {id}/bin/{id}\n    verify_sha256: \"{}\"",
        rng.hex(64)
    );
    let _ = writeln!(
        y,
        "version_check:\n  cmd: {id} --version\n  parse: '{id}\\s+v?(\\d+\\.\\d+\\.\\d+)'\n  range: \">={}.{}.0 <{}.0.0\"\n  timeout_ms: {}",
        rng.below(3),
        rng.below(9),
        3 + rng.below(4),
        1000 + rng.below(9000)
    );
    if rng.chance(60) {
        let _ = writeln!(
            y,
            "setup:\n  - id: daemon\n    kind: cmd\n    cmd: {id} daemon start\n    skip_if:\n      cmd: {id} daemon status\n      exit_code: 0\n  - id: gateway\n    kind: prompt\n    prompt: Gateway URL\n    default: wss://{id}.example.com\n    skip_if: {{ cmd: {id} config has gateway }}\n    persist: {{ env: {} }}",
            env.replace("_API_KEY", "_GATEWAY")
        );
    }
    let _ = writeln!(
        y,
        "auth:\n  ref: ./SECRETS.md\n  state:\n    env: [{env}]\n  login:\n    cmd: {id} login\n    interactive: true\n    completes_when: {{ cmd: {id} whoami, exit_code: 0 }}"
    );
    let _ = writeln!(
        y,
        "sandbox: ./SANDBOX.md\nprotocol: acp\nacp: ./{id}.ACP.md\nsession:\n  mode: persistent\n  idle_timeout_ms: 1800000\n  context_carryover: true"
    );
    let _ = writeln!(
        y,
        "capabilities:\n  streaming: true\n  tool_calls: true\n  file_io: true\n  multimodal: {}\n  resumable: false\n  bidirectional: true",
        rng.chance(50)
    );
    if rng.chance(70) {
        y.push_str("modes:\n  - id: default\n    description: Ordinary session\n");
        for mode in ["plan", "review", "apply"].iter().take(1 + rng.below(3)) {
            let _ = writeln!(
                y,
                "  - id: {mode}\n    description: Runs in {mode} mode\n    bin_args_append: [\"--mode\", \"{mode}\"]"
            );
        }
    }
    if rng.chance(80) {
        let _ = writeln!(
            y,
            "options:\n  - id: max_turns\n    type: integer\n    min: 1\n    max: {}\n    default: 20\n    bin_args_template: [\"--max-turns\", \"{{value}}\"]\n  - id: style\n    type: enum\n    enum: [short, long, {}]\n    default: short\n    bin_args_template: [\"--style\", \"{{value}}\"]\n  - id: verbose\n    type: boolean\n    bin_args_append_when_true: [\"--verbose\"]",
            50 + rng.below(400),
            rng.pick(NOUNS)
        );
    }
    y.push_str("continuation:\n  default: pinned-session\n  supported: [pinned-session, transcript, none]\n  pinned_session:\n    idle_timeout_ms: 900000\n    key_scope: [conversation, operator]\n");
    let _ = writeln!(
        y,
        "requires:\n  os: [linux, darwin]\n  arch: [x64, arm64]\nexamples:\n  - goal: first look\n    prompt: \"Say what {id} can do\"\ntags: [{}, agent, acp]\n---\n\n# {id}\n\n{}\n",
        rng.pick(NOUNS),
        sentence(rng)
    );
    put(&dir.join("AGENT-CLI.md"), &y);
    let multimodal = true;
    let acp = format!(
        "---\nname: {id}\nid: {id}-acp\ndescription: {}\nversion: 1.{}.0\nkind: bridge\ntransport: [stdio, websocket]\nmetadata:\n  aip44:\n    acp_rev: \"{}\"\n    tier: governance-aware\n    governance: ./GOVERNANCE.md\n    capabilities:\n      agent:\n        loadSession: true\n        promptCapabilities:\n          image: {multimodal}\n          audio: false\ntags: [acp, {}]\n---\n",
        sentence(rng),
        rng.below(30),
        rng.hex(40),
        rng.pick(NOUNS)
    );
    put(&dir.join(format!("{id}.ACP.md")), &acp);
    put(
        &dir.join("GOVERNANCE.md"),
        "---\nschema: governance/v1\n---\n",
    );
    let sandbox = format!(
        "---\nschema: sandbox/v1\nid: \"@acme/{id}\"\nversion: 1.0.{}\nprovider: mastra-daytona\nconfig:\n  workspace_id: ws-{}\n  api_key_ref: {id}-daytona\nlimits:\n  timeout_ms: {}\n  memory_mb: {}\nenv:\n  auth:\n    ref: ./SECRETS.md\n    state: {{ env: [{env}] }}\n  passthrough: [LANG, TERM]\nnetwork:\n  egress:\n    - api.example.com\n    - \"*.{}.example.com\"\nmounts:\n  - source: workspace\n    at: /workspace\n    mode: read-write\nread_only: false\n---\n\nCompute for {id}.\n",
        rng.below(50),
        rng.hex(8),
        10_000 + rng.below(90_000),
        512 * (1 + rng.below(8)),
        rng.pick(NOUNS)
    );
    put(&dir.join("SANDBOX.md"), &sandbox);
    let slug = env.to_lowercase().replace('_', "-");
    let secrets = format!(
        "---\nsecrets:\n  - slug: {slug}\n    name: Model key of {id}\n    description: {}\n    kind: opaque\n    access:\n      bind:\n        - tool: {id}\n    audit:\n      retention: 7y\n    exposures:\n      - kind: env\n        name: {env}\n        field: value\n  - slug: {id}-daytona\n    name: Daytona key\n    description: Opens the sandbox.\n---\n",
        sentence(rng)
    );
    put(&dir.join("SECRETS.md"), &secrets);
    4
}

fn tool_cli(rng: &mut Rng, dir: &Path, id: &str) -> usize {
    let env = env_name(id);
    let slug = env.to_lowercase().replace('_', "-");
    let mut y = format!(
        "---\nname: {} {}\nid: {id}\ndescription: {}\nversion: {}.{}.0\nbin: {id}\n",
        rng.pick(NOUNS),
        rng.below(1000),
        sentence(rng),
        1 + rng.below(3),
        rng.below(12)
    );
    let _ = writeln!(
        y,
        "install:\n  - {{ method: brew, package: {id} }}\n  - {{ method: apt, package: {id} }}\n  - {{ method: npm, package: \"@{id}/cli\", global: true }}\n  - method: download\n    url: https://example.com/{id}/v{}/{id}.tar.gz\n    extract_bin: {id}/bin/{id}\n    verify_sha256: \"{}\"",
        rng.below(9),
        rng.hex(64)
    );
    let _ = writeln!(
        y,
        "version_check:\n  cmd: \"{id} --version\"\n  parse: '{id} version (\\S+)'\n  range: \">=2.{} <3\"\nauth:\n  ref: ./SECRETS.md\n  state:\n    paths: [\"~/.config/{id}\"]\n    env: [\"{env}\"]\n  login:\n    cmd: \"{id} auth login\"\n    interactive: false\n    completes_when:\n      cmd: \"{id} auth status\"\n      exit_code: 0\n  refresh:\n    cmd: \"{id} auth refresh\"\n    every: \"PT{}H\"\n  expiry:\n    detect: \"exit_code:4\"",
        rng.below(60),
        1 + rng.below(48)
    );
    let _ = writeln!(
        y,
        "sandbox:\n  network:\n    egress:\n      - api.{id}.example.com\n      - \"*.{}.example.com\"\n    ingress: []\n  fs:\n    read: [\"**/.git/**\", \"~/.config/{id}/**\"]\n    write: [\"~/.config/{id}/**\"]\n    deny: [\"~/.ssh/**\"]\n  exec:\n    allow: true\n    spawn: [git]\n  env:\n    pass: [{env}, HOME]\n    set:\n      {}_PROMPT_DISABLED: \"1\"\n  tty:\n    required: false",
        rng.pick(NOUNS),
        env.replace("_API_KEY", "")
    );
    y.push_str("output:\n  default_format: text\n  json_flag: \"--json\"\n  exit_codes:\n    0: ok\n    1: error\n    2: usage_error\n    4: auth_required\n  stream: stdout\n  error_stream: stderr\n");
    let tools = 3 + rng.below(3);
    y.push_str("commands:\n  item:\n");
    for t in 0..tools {
        let _ = writeln!(y, "    act{t}: ./tools/item-act{t}/TOOL.md");
    }
    let _ = writeln!(
        y,
        "tags: [{}, cli]\nexamples:\n  - {{ goal: \"list\", cmd: \"{id} item act0 --limit {}\" }}\nrequires:\n  os: [linux, darwin]\n---\n\n## When to reach for this CLI\n\n{}\n\n## Gotchas\n\nNone.\n\n## Debugging\n\nRead the log.\n\n## Reference\n\nThe manual.\n",
        rng.pick(NOUNS),
        rng.below(100),
        sentence(rng)
    );
    put(&dir.join("CLI.md"), &y);
    for t in 0..tools {
        let tool = format!(
            "---\nname: Act {t} of {id}\nid: {id}.item.act{t}\ndescription: {}\nversion: 1.{}.0\ninputs:\n  type: object\n  required: [title]\n  properties:\n    title: {{ type: string }}\n    base: {{ type: string }}\noutputs:\n  type: object\n  properties:\n    number: {{ type: integer }}\nrunner:\n  cli: ../../CLI.md\n  argv:\n    - item\n    - act{t}\n    - --title\n    - \"${{input.title}}\"\n    - --base\n    - \"${{input.base | default('main')}}\"\nrisk_level: 1\ntags: [item]\n---\n",
            sentence(rng),
            rng.below(20)
        );
        put(&dir.join(format!("tools/item-act{t}/TOOL.md")), &tool);
    }
    let secrets = format!(
        "---\nsecrets:\n  - slug: {slug}\n    name: Token of {id}\n    description: {}\n    kind: opaque\n---\n",
        sentence(rng)
    );
    put(&dir.join("SECRETS.md"), &secrets);
    2 + tools
}
