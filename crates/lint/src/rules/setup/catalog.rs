//! The rules of `setup`.

use super::*;
use crate::rule::{Example, FixKind, Level, Rule, Scope, Severity, Source};
use agentproto_manifest::Doctype;

const BOTH: &[Doctype] = &[Doctype::Cli, Doctype::AgentCli];
const SETUP: Source = Source {
    spec: "AIP-29",
    section: "Setup",
};

const fn harbor(yaml: &'static str) -> Example {
    Example::over("harbor", "AGENT-CLI.md", yaml)
}

pub static SETUP_KIND_ENUM: Rule = Rule {
    slug: "setup-kind-enum",
    title: "A step of unknown kind",
    source: SETUP,
    decides: &["A29-SETUP-04", "A45-FM-09", "A45-SETUP-01", "A45-SETUP-03"],
    doctypes: BOTH,
    fix: FixKind::Suggest,
    what: "`kind` of each step is `cmd`, `prompt`, `oauth` or `external`.",
    why: "A host that does not know how to run a step must stop the whole setup.",
    bad: harbor("setup:\n  - id: dock-name\n    kind: ask\n    prompt: Name of your dock\n"),
    good: harbor("setup:\n  - id: dock-name\n    kind: prompt\n    prompt: Name of your dock\n"),
    ..Rule::BASE
};

pub static SETUP_REQUIRED_FIELD: Rule = Rule {
    slug: "setup-required-field",
    words: Some(required_field),
    title: "A step lacks a required field",
    source: SETUP,
    decides: &[
        "A29-SETUP-04",
        "A29-SETUP-05",
        "A29-SETUP-07",
        "A29-SETUP-09",
        "A29-SETUP-11",
        "A45-FM-09",
        "A45-SETUP-01",
    ],
    doctypes: BOTH,
    fix: FixKind::Suggest,
    what: "Each step has `id` and `kind`, and what its kind needs: `cmd`, `prompt`, `secret_slug` or `url`.",
    why: "Without it there is nothing to run, ask, store or open.",
    bad: harbor("setup:\n  - id: dock-name\n    kind: prompt\n    type: text\n"),
    good: harbor("setup:\n  - id: dock-name\n    kind: prompt\n    prompt: Name of your dock\n"),
    ..Rule::BASE
};

pub static SETUP_EXTRA_FIELD: Rule = Rule {
    slug: "setup-extra-field",
    words: Some(extra_field),
    title: "A step has a field that its kind does not know",
    source: SETUP,
    decides: &["A29-SETUP-04", "A29-SETUP-05"],
    doctypes: BOTH,
    fix: FixKind::Suggest,
    what: "Each step has only the fields of its kind.",
    why: "The schema closes the list, so a host refuses the manifest; and the field would do nothing.",
    bad: harbor(
        "setup:\n  - id: start-daemon\n    kind: cmd\n    cmd: harbor daemon install\n    default: main\n",
    ),
    good: harbor(
        "setup:\n  - id: start-daemon\n    kind: cmd\n    cmd: harbor daemon install --dock main\n",
    ),
    ..Rule::BASE
};

pub static SETUP_ID_PATTERN: Rule = Rule {
    slug: "setup-id-pattern",
    words: Some(id_pattern),
    title: "A step's id has forbidden characters",
    source: SETUP,
    decides: &["A29-SETUP-11"],
    doctypes: BOTH,
    fix: FixKind::Safe,
    what: "The `id` of a step is up to 64 small letters, digits and `-`, beginning with a letter or digit.",
    why: "Hosts keep the id in audit logs and in the record of finished steps.",
    bad: harbor("setup:\n  - id: Dock_Name\n    kind: prompt\n    prompt: Name of your dock\n"),
    good: harbor("setup:\n  - id: dock-name\n    kind: prompt\n    prompt: Name of your dock\n"),
    ..Rule::BASE
};

pub static SETUP_ID_UNIQUE: Rule = Rule {
    slug: "setup-id-unique",
    title: "Two steps share an id",
    level: Level::Derived,
    source: SETUP,
    decides: &["A29-SETUP-11"],
    doctypes: BOTH,
    scope: Scope::CrossField,
    what: "No two steps have the same `id`.",
    why: "Hosts record finished steps by id; the second of two would be taken for done and never run.",
    bad: harbor(
        "setup:\n  - id: dock\n    kind: prompt\n    prompt: Name of your dock\n  - id: dock\n    kind: prompt\n    prompt: Number of your berth\n",
    ),
    good: harbor(
        "setup:\n  - id: dock\n    kind: prompt\n    prompt: Name of your dock\n  - id: berth\n    kind: prompt\n    prompt: Number of your berth\n",
    ),
    ..Rule::BASE
};

pub static SETUP_PERSIST_EXACTLY_ONE: Rule = Rule {
    slug: "setup-persist-exactly-one",
    words: Some(exactly_one),
    title: "A value is kept in no place or in several",
    source: SETUP,
    decides: &["A29-SETUP-16"],
    doctypes: BOTH,
    what: "`persist` has exactly one of `env`, `secret_slug` and `cmd`.",
    why: "With several a host cannot know which one counts, and with none the value is lost.",
    bad: harbor(
        "setup:\n  - id: dock\n    kind: prompt\n    prompt: Name of your dock\n    persist:\n      env: HARBOR_DOCK\n      cmd: harbor config set dock ${value}\n",
    ),
    good: harbor(
        "setup:\n  - id: dock\n    kind: prompt\n    prompt: Name of your dock\n    persist:\n      env: HARBOR_DOCK\n",
    ),
    ..Rule::BASE
};

pub static SETUP_PERSIST_ON_OAUTH: Rule = Rule {
    slug: "setup-persist-on-oauth",
    words: Some(persist_on_oauth),
    title: "An oauth step with persist",
    source: SETUP,
    decides: &["A29-SETUP-15"],
    doctypes: BOTH,
    fix: FixKind::Suggest,
    what: "A step of kind `oauth` has no `persist`.",
    why: "Its tokens always land in the secret that `secret_slug` names; a second place is not part of the format.",
    bad: harbor(
        "setup:\n  - id: link-console\n    kind: oauth\n    secret_slug: harbor-console\n    persist:\n      env: HARBOR_CONSOLE\n",
    ),
    good: harbor(
        "setup:\n  - id: link-console\n    kind: oauth\n    secret_slug: harbor-console\n",
    ),
    ..Rule::BASE
};

pub static SETUP_PERSIST_ENV_NAME: Rule = Rule {
    slug: "setup-persist-env-name",
    title: "A value is kept under an impossible variable name",
    severity: Severity::Warning,
    level: Level::Derived,
    source: SETUP,
    doctypes: BOTH,
    what: "`persist.env` consists of capital letters, digits and `_`, and begins with a letter.",
    why: "The schema takes any text, but the reference implementation takes only this form, and shells cannot set much else.",
    bad: harbor(
        "setup:\n  - id: dock\n    kind: prompt\n    prompt: Name of your dock\n    persist:\n      env: harbor-dock\n",
    ),
    good: harbor(
        "setup:\n  - id: dock\n    kind: prompt\n    prompt: Name of your dock\n    persist:\n      env: HARBOR_DOCK\n",
    ),
    ..Rule::BASE
};

pub static SETUP_PERSIST_CMD_NO_VALUE: Rule = Rule {
    slug: "setup-persist-cmd-no-value",
    title: "The command that keeps a value never uses it",
    severity: Severity::Warning,
    level: Level::May,
    source: SETUP,
    decides: &["A29-SETUP-19"],
    doctypes: BOTH,
    what: "`persist.cmd` contains `${value}`.",
    why: "The captured value goes where `${value}` stands. Without it the user is asked and the answer is thrown away.",
    bad: harbor(
        "setup:\n  - id: dock\n    kind: prompt\n    prompt: Name of your dock\n    persist:\n      cmd: harbor config set dock\n",
    ),
    good: harbor(
        "setup:\n  - id: dock\n    kind: prompt\n    prompt: Name of your dock\n    persist:\n      cmd: harbor config set dock ${value}\n",
    ),
    ..Rule::BASE
};

pub static SETUP_SECRET_PERSISTED_ENV: Rule = Rule {
    slug: "setup-secret-persisted-env",
    title: "A secret is kept as a plain variable",
    severity: Severity::Warning,
    level: Level::Derived,
    source: SETUP,
    doctypes: BOTH,
    scope: Scope::CrossField,
    fix: FixKind::Suggest,
    what: "A prompt of type `secret` keeps its value in a secret slot, not in `persist.env`.",
    why: "A slot has access rules and an audit trail (AIP-19); a variable has neither.",
    bad: harbor(
        "setup:\n  - id: tide\n    kind: prompt\n    prompt: Credential for the tide service\n    type: secret\n    persist:\n      env: HARBOR_TIDE\n",
    ),
    good: harbor(
        "setup:\n  - id: tide\n    kind: prompt\n    prompt: Credential for the tide service\n    type: secret\n    persist:\n      secret_slug: harbor-tide-credential\n",
    ),
    ..Rule::BASE
};

pub static SETUP_SECRET_DEFAULT: Rule = Rule {
    slug: "setup-secret-default",
    title: "A secret has a default value",
    level: Level::Derived,
    source: SETUP,
    doctypes: BOTH,
    scope: Scope::CrossField,
    what: "A prompt of type `secret` has no `default`.",
    why: "A default that everybody can read is no secret, and a real one has leaked.",
    bad: harbor(
        "setup:\n  - id: tide\n    kind: prompt\n    prompt: Credential for the tide service\n    type: secret\n    default: changeme\n",
    ),
    good: harbor(
        "setup:\n  - id: tide\n    kind: prompt\n    prompt: Credential for the tide service\n    type: secret\n",
    ),
    ..Rule::BASE
};

pub static SETUP_SELECT_NO_OPTIONS: Rule = Rule {
    slug: "setup-select-no-options",
    title: "A choice without options",
    level: Level::Derived,
    source: SETUP,
    decides: &["A29-SETUP-06"],
    doctypes: BOTH,
    scope: Scope::CrossField,
    what: "A prompt of type `select` has `options`.",
    why: "There is nothing to choose from, and hosts fail when they come to the step.",
    bad: harbor(
        "setup:\n  - id: dock\n    kind: prompt\n    prompt: Which dock?\n    type: select\n",
    ),
    good: harbor(
        "setup:\n  - id: dock\n    kind: prompt\n    prompt: Which dock?\n    type: select\n    options:\n      - north\n      - south\n",
    ),
    ..Rule::BASE
};

pub static SETUP_OPTIONS_NOT_SELECT: Rule = Rule {
    slug: "setup-options-not-select",
    title: "Options on a prompt that is no choice",
    severity: Severity::Warning,
    level: Level::May,
    source: SETUP,
    decides: &["A29-SETUP-06"],
    doctypes: BOTH,
    scope: Scope::CrossField,
    fix: FixKind::Safe,
    what: "Only a prompt of type `select` has `options`; without `type` a prompt is `text`.",
    why: "The options are never shown, and the user may type anything.",
    bad: harbor(
        "setup:\n  - id: dock\n    kind: prompt\n    prompt: Which dock?\n    options:\n      - north\n      - south\n",
    ),
    good: harbor(
        "setup:\n  - id: dock\n    kind: prompt\n    prompt: Which dock?\n    type: select\n    options:\n      - north\n      - south\n",
    ),
    ..Rule::BASE
};

pub static SETUP_DEFAULT_NOT_IN_OPTIONS: Rule = Rule {
    slug: "setup-default-not-in-options",
    title: "The default is not one of the options",
    severity: Severity::Warning,
    level: Level::Derived,
    source: SETUP,
    doctypes: BOTH,
    scope: Scope::CrossField,
    what: "The `default` of a choice with listed options is one of them.",
    why: "A user who just confirms would pick something that the tool does not offer.",
    bad: harbor(
        "setup:\n  - id: dock\n    kind: prompt\n    prompt: Which dock?\n    type: select\n    default: east\n    options:\n      - north\n      - south\n",
    ),
    good: harbor(
        "setup:\n  - id: dock\n    kind: prompt\n    prompt: Which dock?\n    type: select\n    default: south\n    options:\n      - north\n      - south\n",
    ),
    ..Rule::BASE
};

pub static SETUP_BOOLEAN_DEFAULT: Rule = Rule {
    slug: "setup-boolean-default",
    title: "The default of a yes-or-no question is neither",
    severity: Severity::Warning,
    level: Level::Derived,
    source: SETUP,
    doctypes: BOTH,
    scope: Scope::CrossField,
    what: "The `default` of a prompt of type `boolean` is the text `true` or `false`.",
    why: "The reference implementation honours only these two; `yes` is silently ignored.",
    bad: harbor(
        "setup:\n  - id: tides\n    kind: prompt\n    prompt: Show tides?\n    type: boolean\n    default: \"yes\"\n",
    ),
    good: harbor(
        "setup:\n  - id: tides\n    kind: prompt\n    prompt: Show tides?\n    type: boolean\n    default: \"true\"\n",
    ),
    ..Rule::BASE
};

pub static SETUP_OAUTH_SLUG_UNDECLARED: Rule = Rule {
    slug: "setup-oauth-slug-undeclared",
    title: "An oauth step names a secret that is not declared",
    source: SETUP,
    decides: &["A29-SETUP-07"],
    doctypes: BOTH,
    scope: Scope::CrossFile,
    what: "`secret_slug` of an `oauth` step is declared in the SECRETS.md that `auth.ref` names. It is an error too if `auth.ref` names none.",
    why: "The tokens have nowhere to go, and no access rule covers them.",
    bad: harbor("setup:\n  - id: link-console\n    kind: oauth\n    secret_slug: harbor-consol\n"),
    good: harbor(
        "setup:\n  - id: link-console\n    kind: oauth\n    secret_slug: harbor-console\n",
    ),
    ..Rule::BASE
};

pub static SETUP_OAUTH_SLUG_KIND: Rule = Rule {
    slug: "setup-oauth-slug-kind",
    title: "An oauth step names a secret of another kind",
    source: SETUP,
    decides: &["A29-SETUP-07"],
    doctypes: BOTH,
    scope: Scope::CrossFile,
    what: "The secret that an `oauth` step names is declared with `kind: oauth`; without `kind` a secret is `opaque`.",
    why: "An oauth slot holds several tokens and an expiry; another kind holds one text.",
    bad: harbor(
        "setup:\n  - id: link-console\n    kind: oauth\n    secret_slug: harbor-tide-credential\n",
    ),
    good: harbor(
        "setup:\n  - id: link-console\n    kind: oauth\n    secret_slug: harbor-console\n",
    ),
    ..Rule::BASE
};

pub static SETUP_PERSIST_SLUG_UNDECLARED: Rule = Rule {
    slug: "setup-persist-slug-undeclared",
    title: "A value is kept in a secret that is not declared",
    level: Level::Derived,
    source: SETUP,
    doctypes: BOTH,
    scope: Scope::CrossFile,
    fix: FixKind::Suggest,
    what: "`persist.secret_slug` is declared in the SECRETS.md that `auth.ref` names.",
    why: "The host has no slot to write to, and the user's answer is lost.",
    bad: harbor(
        "setup:\n  - id: tide\n    kind: prompt\n    prompt: Credential for the tide service\n    type: secret\n    persist:\n      secret_slug: harbor-tide-key\n",
    ),
    good: harbor(
        "setup:\n  - id: tide\n    kind: prompt\n    prompt: Credential for the tide service\n    type: secret\n    persist:\n      secret_slug: harbor-tide-credential\n",
    ),
    ..Rule::BASE
};

pub static SETUP_INTERP_FORWARD_REF: Rule = Rule {
    slug: "setup-interp-forward-ref",
    title: "A step uses a value that is not there yet",
    level: Level::Derived,
    source: SETUP,
    doctypes: BOTH,
    scope: Scope::CrossField,
    what: "`${input.X}` in a step names an earlier step that captures a value.",
    why: "Steps run in the order in which they stand. The text is put into a command or URL as it is, or the setup fails.",
    bad: harbor(
        "setup:\n  - id: berth\n    kind: external\n    url: https://console.harbor.example/docks/${input.dock}\n  - id: dock\n    kind: prompt\n    prompt: Name of your dock\n",
    ),
    good: harbor(
        "setup:\n  - id: dock\n    kind: prompt\n    prompt: Name of your dock\n  - id: berth\n    kind: external\n    url: https://console.harbor.example/docks/${input.dock}\n",
    ),
    ..Rule::BASE
};

pub static SETUP_NO_SKIP_IF: Rule = Rule {
    slug: "setup-no-skip-if",
    title: "A step that cannot tell whether it is done",
    severity: Severity::Info,
    level: Level::May,
    source: SETUP,
    decides: &["A29-SETUP-03"],
    doctypes: BOTH,
    what: "Each step has `skip_if`.",
    why: "Setup is meant to be run again without harm. `skip_if` lets a step prove that it is done, also where the host's own record is lost.",
    bad: harbor("setup:\n  - id: start-daemon\n    kind: cmd\n    cmd: harbor daemon install\n"),
    good: harbor(
        "setup:\n  - id: start-daemon\n    kind: cmd\n    cmd: harbor daemon install\n    skip_if:\n      cmd: harbor daemon status\n",
    ),
    ..Rule::BASE
};

pub static SETUP_SKIPIF_SAME_AS_CMD: Rule = Rule {
    slug: "setup-skipif-same-as-cmd",
    title: "A step runs itself to see whether to run",
    severity: Severity::Warning,
    level: Level::Derived,
    source: SETUP,
    doctypes: BOTH,
    scope: Scope::CrossField,
    what: "`skip_if.cmd` is another command than the step's own `cmd`.",
    why: "The probe already does the work, so a step that was to be skipped has run, and one that was not runs twice.",
    bad: harbor(
        "setup:\n  - id: start-daemon\n    kind: cmd\n    cmd: harbor daemon install\n    skip_if:\n      cmd: harbor daemon install\n",
    ),
    good: harbor(
        "setup:\n  - id: start-daemon\n    kind: cmd\n    cmd: harbor daemon install\n    skip_if:\n      cmd: harbor daemon status\n",
    ),
    ..Rule::BASE
};

pub static SETUP_EXTERNAL_URL: Rule = Rule {
    slug: "setup-external-url",
    words: Some(external_url),
    title: "The address of an external step is not a URL",
    source: SETUP,
    decides: &["A29-SETUP-09"],
    doctypes: BOTH,
    what: "`url` of an `external` step is an absolute URI; `${input.X}` may stand in it.",
    why: "The host opens it in a browser; without a scheme there is nothing to open.",
    bad: harbor(
        "setup:\n  - id: berth\n    kind: external\n    url: console.harbor.example/berths\n",
    ),
    good: harbor(
        "setup:\n  - id: berth\n    kind: external\n    url: https://console.harbor.example/berths\n",
    ),
    note: Some(
        "C9: the schema asks for a URI while the prose lets `${input.X}` stand in it. Each is replaced by a letter before the text is judged.",
    ),
    ..Rule::BASE
};
