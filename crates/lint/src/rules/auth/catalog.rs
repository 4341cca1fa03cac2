//! The rules of `auth`.

use super::*;
use crate::rule::{Example, FixKind, Level, Rule, Scope, Severity, Source};
use agentproto_manifest::Doctype;

const BOTH: &[Doctype] = &[Doctype::Cli, Doctype::AgentCli];
const TOOL: &[Doctype] = &[Doctype::Cli];
const AGENT: &[Doctype] = &[Doctype::AgentCli];
const AUTH: Source = Source {
    spec: "AIP-29",
    section: "Auth",
};

const fn quill(yaml: &'static str) -> Example {
    Example::over("quill", "AGENT-CLI.md", yaml)
}
const fn forge(yaml: &'static str) -> Example {
    Example::over("forge", "CLI.md", yaml)
}

/// A sandbox for the examples that hold `auth` against one.
macro_rules! sandboxed {
    ($auth:literal, $network:literal, $fs:literal, $env:literal, $tty:literal) => {
        concat!(
            "auth:\n  ref: ./SECRETS.md\n",
            $auth,
            "sandbox:\n  network:\n",
            $network,
            "  fs:\n",
            $fs,
            "  exec:\n    allow: true\n  env:\n",
            $env,
            "  tty:\n    required: ",
            $tty,
            "\n"
        )
    };
}

pub static AUTH_RECOMMENDED: Rule = Rule {
    slug: "auth-recommended",
    title: "An agent without an auth block",
    severity: Severity::Warning,
    level: Level::Should,
    source: Source {
        spec: "AIP-45",
        section: "Auth surface",
    },
    decides: &["A45-AUTH-01"],
    doctypes: AGENT,
    what: "AGENT-CLI.md has an `auth` block.",
    why: "Nearly every agent needs a model key. Without `auth` a host cannot find out which, and the first turn fails.",
    bad: Example::file(
        "quill",
        "AGENT-CLI.md",
        "---\nname: quill\nid: quill\ndescription: Writes.\nversion: 3.0.1\nbin: quill\ninstall:\n  - method: brew\n    package: quillworks/tap/quill\nversion_check:\n  cmd: quill --version\n  parse: '(\\d+\\.\\d+\\.\\d+)'\n  range: ^2.6.0\nsandbox: ./quill.SANDBOX.md\nprotocol: proprietary\nadapter: \"@quillworks/adapter-quill\"\n---\n",
    ),
    good: quill("auth:\n  ref: ./SECRETS.md\n"),
    ..Rule::BASE
};

pub static AUTH_REF_SECRETS_VALID: Rule = Rule {
    slug: "auth-ref-secrets-valid",
    title: "The secrets file that auth names breaks its schema",
    source: AUTH,
    decides: &["A29-AUTH-01", "A45-FM-10", "A45-AUTH-02"],
    doctypes: BOTH,
    scope: Scope::CrossFile,
    what: "The SECRETS.md that `auth.ref` names conforms to AIP-19. Said only where that file is not linted in the same run; otherwise its own findings say it.",
    why: "The host reads that inventory to bind secrets to the binary; one that it refuses leaves the binary without a login.",
    bad: Example::file(
        "quill",
        "SECRETS.md",
        "---\nsecrets:\n  - slug: quill-api-key\n    kind: opaque\n---\n",
    ),
    good: Example::file(
        "quill",
        "SECRETS.md",
        "---\nsecrets:\n  - slug: quill-api-key\n    name: Quill key\n    description: Pays for the writing models.\n---\n",
    ),
    ..Rule::BASE
};

pub static AUTH_STATE_ENV_UNDECLARED: Rule = Rule {
    slug: "auth-state-env-undeclared",
    title: "A login variable that no secret reaches",
    severity: Severity::Warning,
    level: Level::May,
    source: AUTH,
    decides: &["A29-AUTH-02", "A29-SKILL-03"],
    doctypes: BOTH,
    scope: Scope::CrossFile,
    fix: FixKind::Suggest,
    what: "Each name in `auth.state.env` is reached by a secret of the SECRETS.md: by the naming convention (`STRIPE_API_KEY` and `stripe-api-key`, with or without a group in front), by an exposure, or by `metadata.bindings.env`.",
    why: "The host fills these variables from that inventory. A name that nothing binds stays empty.",
    bad: quill(
        "auth:\n  ref: ./SECRETS.md\n  state:\n    env:\n      - QUILL_API_KEY\n      - QUILL_TEAM_KEY\n",
    ),
    good: quill("auth:\n  ref: ./SECRETS.md\n  state:\n    env:\n      - QUILL_API_KEY\n"),
    ..Rule::BASE
};

pub static AUTH_STATE_ENV_NAME: Rule = Rule {
    slug: "auth-state-env-name",
    title: "A login variable with an impossible name",
    severity: Severity::Warning,
    level: Level::Derived,
    source: AUTH,
    doctypes: BOTH,
    what: "Names in `auth.state.env` consist of capital letters, digits and `_`, and begin with no digit.",
    why: "Shells and most hosts cannot set other names, and AIP-19 binds none.",
    bad: quill("auth:\n  ref: ./SECRETS.md\n  state:\n    env:\n      - quill-api-key\n"),
    good: quill("auth:\n  ref: ./SECRETS.md\n  state:\n    env:\n      - QUILL_API_KEY\n"),
    ..Rule::BASE
};

pub static AUTH_STATE_ENV_NOT_PASSED: Rule = Rule {
    slug: "auth-state-env-not-passed",
    title: "The sandbox keeps a login variable from the binary",
    level: Level::Derived,
    source: AUTH,
    doctypes: TOOL,
    scope: Scope::CrossField,
    fix: FixKind::Safe,
    what: "Each name in `auth.state.env` is in `sandbox.env.pass`, or is set in `sandbox.env.set`.",
    why: "The sandbox hides every other variable, so the binary cannot log in although the secret is there.",
    bad: forge(sandboxed!(
        "  state:\n    env:\n      - FORGE_TOKEN\n",
        "    egress:\n      - api.forge.example\n",
        "    read:\n      - ~/.cache/forge/**\n",
        "    pass:\n      - HOME\n      - FORGE_HOST\n      - FORGE_GROUP\n      - FORGE_PROJECT\n",
        "true"
    )),
    good: forge(sandboxed!(
        "  state:\n    env:\n      - FORGE_TOKEN\n",
        "    egress:\n      - api.forge.example\n",
        "    read:\n      - ~/.cache/forge/**\n",
        "    pass:\n      - HOME\n      - FORGE_TOKEN\n      - FORGE_HOST\n      - FORGE_GROUP\n      - FORGE_PROJECT\n",
        "true"
    )),
    ..Rule::BASE
};

pub static AUTH_STATE_PATHS_NOT_WHITELISTED: Rule = Rule {
    slug: "auth-state-paths-not-whitelisted",
    title: "The sandbox does not open a path of the login",
    source: AUTH,
    decides: &["A29-AUTH-03"],
    doctypes: TOOL,
    scope: Scope::CrossField,
    fix: FixKind::Safe,
    what: "Each path in `auth.state.paths` is taken in by a glob of `sandbox.fs.read` or `sandbox.fs.write`.",
    why: "The sandbox must let the binary reach its login. A host that enforces this manifest as written locks it out.",
    bad: forge(sandboxed!(
        "  state:\n    paths:\n      - ~/.config/forge\n",
        "    egress:\n      - api.forge.example\n",
        "    read:\n      - ~/.cache/forge/**\n",
        "    pass:\n      - HOME\n",
        "true"
    )),
    good: forge(sandboxed!(
        "  state:\n    paths:\n      - ~/.config/forge\n",
        "    egress:\n      - api.forge.example\n",
        "    read:\n      - ~/.config/forge/**\n",
        "    pass:\n      - HOME\n",
        "true"
    )),
    ..Rule::BASE
};

pub static AUTH_STATE_PATHS_DENIED: Rule = Rule {
    slug: "auth-state-paths-denied",
    title: "The sandbox denies a path of the login",
    source: AUTH,
    decides: &["A29-AUTH-03"],
    doctypes: TOOL,
    scope: Scope::CrossField,
    what: "No path in `auth.state.paths` is taken in by a glob of `sandbox.fs.deny`.",
    why: "A denial beats every grant, so the binary never sees its login.",
    bad: forge(sandboxed!(
        "  state:\n    paths:\n      - ~/.config/forge\n",
        "    egress:\n      - api.forge.example\n",
        "    read:\n      - ~/.config/forge/**\n    deny:\n      - ~/.config/**\n",
        "    pass:\n      - HOME\n",
        "true"
    )),
    good: forge(sandboxed!(
        "  state:\n    paths:\n      - ~/.config/forge\n",
        "    egress:\n      - api.forge.example\n",
        "    read:\n      - ~/.config/forge/**\n    deny:\n      - ~/.ssh/**\n",
        "    pass:\n      - HOME\n",
        "true"
    )),
    ..Rule::BASE
};

pub static AUTH_LOGIN_NO_COMPLETES_WHEN: Rule = Rule {
    slug: "auth-login-no-completes-when",
    title: "Nobody can tell when the login is done",
    severity: Severity::Warning,
    level: Level::Derived,
    source: AUTH,
    decides: &["A29-AUTH-07"],
    doctypes: BOTH,
    scope: Scope::CrossField,
    fix: FixKind::Suggest,
    what: "`auth.login` has `completes_when`.",
    why: "That probe is what moves a host from `unauthed` to `authed`. Without it every call stays refused, or the host guesses.",
    bad: quill("auth:\n  ref: ./SECRETS.md\n  login:\n    cmd: quill login\n"),
    good: quill(
        "auth:\n  ref: ./SECRETS.md\n  login:\n    cmd: quill login\n    completes_when:\n      cmd: quill whoami\n",
    ),
    note: Some(
        "C16: the reference implementation does not know `completes_when` and refuses it. We follow the text of AIP-29 and its schema.",
    ),
    ..Rule::BASE
};

pub static AUTH_INTERACTIVE_NO_TTY: Rule = Rule {
    slug: "auth-interactive-no-tty",
    title: "An interactive login without a terminal",
    severity: Severity::Warning,
    level: Level::Derived,
    source: AUTH,
    doctypes: TOOL,
    scope: Scope::CrossField,
    what: "Where `auth.login.interactive` is true, `sandbox.tty.required` is not false.",
    why: "A login that asks questions hangs or fails where the host gives the binary no terminal.",
    bad: forge(sandboxed!(
        "  login:\n    cmd: forge auth login\n    interactive: true\n    completes_when:\n      cmd: forge auth status\n",
        "    egress:\n      - api.forge.example\n",
        "    read:\n      - ~/.config/forge/**\n",
        "    pass:\n      - HOME\n",
        "false"
    )),
    good: forge(sandboxed!(
        "  login:\n    cmd: forge auth login\n    interactive: true\n    completes_when:\n      cmd: forge auth status\n",
        "    egress:\n      - api.forge.example\n",
        "    read:\n      - ~/.config/forge/**\n",
        "    pass:\n      - HOME\n",
        "true"
    )),
    ..Rule::BASE
};

pub static AUTH_CALLBACK_NO_INGRESS: Rule = Rule {
    slug: "auth-callback-no-ingress",
    title: "A login callback that cannot come in",
    level: Level::Derived,
    source: AUTH,
    decides: &["A29-AUTH-06"],
    doctypes: TOOL,
    scope: Scope::CrossField,
    fix: FixKind::Suggest,
    what: "Where `auth.login.requires_callback_url` is true, `sandbox.network.ingress` is not empty.",
    why: "The host must expose a callback for this login, and `ingress` is the list of what it exposes.",
    bad: forge(sandboxed!(
        "  login:\n    cmd: forge auth login --web\n    requires_callback_url: true\n    completes_when:\n      cmd: forge auth status\n",
        "    egress:\n      - api.forge.example\n    ingress: []\n",
        "    read:\n      - ~/.config/forge/**\n",
        "    pass:\n      - HOME\n",
        "true"
    )),
    good: forge(sandboxed!(
        "  login:\n    cmd: forge auth login --web\n    requires_callback_url: true\n    completes_when:\n      cmd: forge auth status\n",
        "    egress:\n      - api.forge.example\n    ingress:\n      - https://callback.forge.example/cli\n",
        "    read:\n      - ~/.config/forge/**\n",
        "    pass:\n      - HOME\n",
        "true"
    )),
    ..Rule::BASE
};

pub static AUTH_REFRESH_EVERY_ISO8601: Rule = Rule {
    slug: "auth-refresh-every-iso8601",
    // The check judges every text, also those that the schema's pattern lets pass (C17).
    words: Some(|_, _| {}),
    title: "The refresh cadence is not a duration",
    source: AUTH,
    decides: &["A29-AUTH-08"],
    doctypes: BOTH,
    what: "`auth.refresh.every` is an ISO-8601 duration.",
    why: "The host renews the login when this time has passed; a text that it cannot read is never due.",
    bad: quill("auth:\n  ref: ./SECRETS.md\n  refresh:\n    cmd: quill renew\n    every: P24H\n"),
    good: quill("auth:\n  ref: ./SECRETS.md\n  refresh:\n    cmd: quill renew\n    every: PT24H\n"),
    note: Some(
        "C17: the published pattern also accepts texts such as `Pfoo`. The prose says ISO-8601, and we hold it to that.",
    ),
    ..Rule::BASE
};

pub static AUTH_REFRESH_EVERY_MISSING: Rule = Rule {
    slug: "auth-refresh-every-missing",
    title: "A refresh without a cadence",
    severity: Severity::Warning,
    level: Level::Derived,
    source: AUTH,
    doctypes: BOTH,
    scope: Scope::CrossField,
    what: "`auth.refresh` has `every`.",
    why: "The host renews by elapsed time. Without a cadence it never does, or it does before every call.",
    bad: quill("auth:\n  ref: ./SECRETS.md\n  refresh:\n    cmd: quill renew\n"),
    good: quill("auth:\n  ref: ./SECRETS.md\n  refresh:\n    cmd: quill renew\n    every: P7D\n"),
    note: Some(
        "C16: the reference implementation calls it `interval_s`. We follow the text of AIP-29 and its schema.",
    ),
    ..Rule::BASE
};

pub static AUTH_EXPIRY_FORMAT: Rule = Rule {
    slug: "auth-expiry-format",
    words: Some(expiry_format),
    title: "The expiry signal is not an exit code",
    source: AUTH,
    decides: &["A29-AUTH-10", "A45-CONF-02"],
    doctypes: BOTH,
    what: "`auth.expiry.detect` is `exit_code:` followed by a number.",
    why: "It is the only signal that hosts know; any other is never seen, and an expired login looks like a broken tool.",
    bad: quill("auth:\n  ref: ./SECRETS.md\n  expiry:\n    detect: status 4\n"),
    good: quill("auth:\n  ref: ./SECRETS.md\n  expiry:\n    detect: exit_code:4\n"),
    note: Some(
        "C16: the reference implementation has `parse` and `grace_s` here. We follow the text of AIP-29 and its schema.",
    ),
    ..Rule::BASE
};

pub static AUTH_EXPIRY_CODE_UNMAPPED: Rule = Rule {
    slug: "auth-expiry-code-unmapped",
    title: "The expiry code is not mapped",
    severity: Severity::Warning,
    level: Level::May,
    source: AUTH,
    decides: &["A29-AUTH-10"],
    doctypes: TOOL,
    scope: Scope::CrossField,
    fix: FixKind::Safe,
    what: "The exit code of `auth.expiry.detect` is mapped to `auth_required` in `output.exit_codes`. Without that table code 4 is fine, as AIP-29 reserves it.",
    why: "The table is what a caller sees. A code that it does not name reaches the agent as a bare number.",
    bad: forge(
        "auth:\n  ref: ./SECRETS.md\n  expiry:\n    detect: exit_code:77\noutput:\n  exit_codes:\n    0: ok\n    1: error\n",
    ),
    good: forge(
        "auth:\n  ref: ./SECRETS.md\n  expiry:\n    detect: exit_code:77\noutput:\n  exit_codes:\n    0: ok\n    1: error\n    77: auth_required\n",
    ),
    note: Some(
        "C20: YAML reads the keys of `exit_codes` as integers while the schema speaks of strings. They are compared as numbers.",
    ),
    ..Rule::BASE
};

pub static AUTH_EXPIRY_CODE_AMBIGUOUS: Rule = Rule {
    slug: "auth-expiry-code-ambiguous",
    title: "The expiry code means something else",
    severity: Severity::Warning,
    level: Level::May,
    source: AUTH,
    decides: &["A29-AUTH-10"],
    doctypes: TOOL,
    scope: Scope::CrossField,
    what: "The exit code of `auth.expiry.detect` has no other meaning, neither in `output.exit_codes` nor among the codes that AIP-29 reserves.",
    why: "If every ordinary failure also means that the login is gone, the host logs in again after each of them.",
    bad: forge(
        "auth:\n  ref: ./SECRETS.md\n  expiry:\n    detect: exit_code:1\noutput:\n  exit_codes:\n    0: ok\n    1: error\n",
    ),
    good: forge(
        "auth:\n  ref: ./SECRETS.md\n  expiry:\n    detect: exit_code:4\noutput:\n  exit_codes:\n    0: ok\n    1: error\n    4: auth_required\n",
    ),
    note: Some(
        "C19: an example of AIP-29 itself uses `exit_code:1`, which the same text reserves for `error`. We warn.",
    ),
    ..Rule::BASE
};

pub static AUTH_CMD_INLINE_SECRET: Rule = Rule {
    slug: "auth-cmd-inline-secret",
    title: "A secret written into a command",
    level: Level::Derived,
    source: AUTH,
    doctypes: BOTH,
    what: "No command of `auth` or `setup` holds a token, or a literal value for a flag or variable that takes a secret.",
    why: "A manifest is shared and kept in version control, and command lines are visible to every process of the machine.",
    bad: quill(
        "auth:\n  ref: ./SECRETS.md\n  refresh:\n    cmd: quill renew --token=example0example0example0\n    every: P7D\n",
    ),
    good: quill(
        "auth:\n  ref: ./SECRETS.md\n  refresh:\n    cmd: quill renew --token=$QUILL_API_KEY\n    every: P7D\n",
    ),
    ..Rule::BASE
};

pub static AUTH_ENV_ISOLATION: Rule = Rule {
    slug: "auth-env-isolation",
    title: "Secrets in a sandbox that does not isolate the environment",
    severity: Severity::Warning,
    source: Source {
        spec: "AIP-45",
        section: "Security",
    },
    decides: &["A45-SEC-05"],
    doctypes: AGENT,
    scope: Scope::CrossFile,
    what: "An agent with `auth` does not run under the sandbox provider `local`, named inline or by its SANDBOX.md.",
    why: "Secrets reach the agent as variables. Without isolation each shell command that the agent runs sees them too.",
    bad: quill("sandbox:\n  provider: local\n  config:\n    cwd: ./drafts\n"),
    good: quill("sandbox: ./quill.SANDBOX.md\n"),
    note: Some(
        "C7: AIP-45 passes secrets by `sandbox.env.set`, a key that AIP-36 does not have. Whatever the block is called, resolved secrets reach the child by its environment.",
    ),
    ..Rule::BASE
};
