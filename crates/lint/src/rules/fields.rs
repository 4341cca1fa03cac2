//! Field names: misspelt case, fields of the wrong format, fields that only the reference
//! implementation knows.

use std::path::Path;

use crate::context::{Context, Draft, Place};
use crate::edits;
use crate::finding::Safety;
use crate::registry::{Check, Family};
use crate::rule::{FixKind, Level, Profile, Rule, Severity, Source};
use crate::rules::document::FM_UNKNOWN_FIELD;
use crate::rules::refs::or_here;
use crate::shape::{Keyword, Violation, draft, shapes_for, violations};
use agentproto_manifest::{Doctype, Document, Entry, KeyKind, Node, Value, normalize, same_path};

pub static FAMILY: Family = Family {
    name: "fields",
    rules: &[
        &FM_FIELD_CASE,
        &FM_KNOWN_DRIFT_FIELD,
        &BUNDLE_DISCOURAGED_SHELL_ENV_CWD,
    ],
    checks: &[Check {
        doctypes: &[Doctype::Tool],
        run: tool_fields_of_a_bundle,
    }],
};

pub static FM_FIELD_CASE: Rule = Rule {
    slug: "fm-field-case",
    title: "A field name is written in the wrong case",
    level: Level::Must,
    source: Source {
        spec: "AIP-29",
        section: "Frontmatter",
    },
    decides: &["A29-FM-02"],
    doctypes: &Doctype::ALL,
    fix: FixKind::Safe,
    docs: include_str!("fields/fm-field-case.md"),
    ..Rule::BASE
};

pub static FM_KNOWN_DRIFT_FIELD: Rule = Rule {
    slug: "fm-known-drift-field",
    title: "A field that only the reference implementation knows",
    severity: Severity::Warning,
    level: Level::Derived,
    source: Source {
        spec: "agentproto",
        section: "Profile reference",
    },
    doctypes: &[Doctype::AgentCli, Doctype::Sandbox],
    docs: include_str!("fields/fm-known-drift-field.md"),
    ..Rule::BASE
};

pub static BUNDLE_DISCOURAGED_SHELL_ENV_CWD: Rule = Rule {
    slug: "bundle-discouraged-shell-env-cwd",
    title: "`shell`, `env` or `cwd` at bundle level",
    severity: Severity::Warning,
    spec_severity: Some(Severity::Error),
    level: Level::Should,
    source: Source {
        spec: "AIP-29",
        section: "Discouraged",
    },
    decides: &["A29-OPT-17"],
    doctypes: &[Doctype::Cli],
    fix: FixKind::Suggest,
    docs: include_str!("fields/bundle-discouraged-shell-env-cwd.md"),
    ..Rule::BASE
};

/// Fields of the reference implementation that no schema has.
#[derive(Debug)]
pub struct Drift {
    /// `D1` to `D12`.
    pub id: &'static str,
    keys: &'static [&'static str],
    /// Mappings that hold them: `""` is the top level, `modes[]` any mode.
    places: &'static [&'static str],
    /// What the reference implementation does with them.
    pub does: &'static str,
}

static DRIFTS: &[Drift] = &[
    Drift {
        id: "D1",
        keys: &["print"],
        places: &[""],
        does: "describes a one-shot run for `protocol: print`",
    },
    Drift {
        id: "D3",
        keys: &["deny", "apply", "bin_args_template"],
        places: &["models"],
        does: "refuses models by pattern and says how a chosen model reaches the binary",
    },
    Drift {
        id: "D4",
        keys: &["bin_args_prepend"],
        places: &["", "modes[]", "options[]"],
        does: "puts arguments before `bin_args`",
    },
    Drift {
        id: "D5",
        keys: &["env_unset"],
        places: &["", "modes[]", "options[]"],
        does: "removes variables from the environment of the process",
    },
    Drift {
        id: "D6",
        keys: &["turn_idle_timeout_ms"],
        places: &["session"],
        does: "ends a turn that stays silent for that long",
    },
    Drift {
        id: "D7",
        keys: &[
            "provider",
            "authSubscription",
            "gatewayAuth",
            "authEnforce",
            "modelDerivedApiKey",
            "routeSelection",
        ],
        places: &["", "auth", "models", "modes[]", "options[]"],
        does: "chooses the model provider and how its key is found",
    },
    Drift {
        id: "D8",
        keys: &["env"],
        places: &[""],
        does: "sets variables on every start",
    },
    Drift {
        id: "D9",
        keys: &["presets"],
        places: &[""],
        does: "adds model gateways to its catalogue",
    },
    Drift {
        id: "D10",
        keys: &["kind", "status", "status_note", "apply"],
        places: &["modes[]"],
        does: "says what state a mode is in and how it is switched on",
    },
    Drift {
        id: "D11",
        keys: &["file_attach", "nativeTerminalResume"],
        places: &["capabilities"],
        does: "shows more capabilities to its clients",
    },
    Drift {
        id: "D12",
        keys: &["autoPassthrough", "extraPorts"],
        places: &["sandbox", "sandbox.env", "sandbox.network"],
        does: "hands on variables and opens ports of the sandbox",
    },
];

/// Items of `models.allowed` that are mappings; a type and not a field, so beside the table.
static MODEL_OBJECTS: Drift = Drift {
    id: "D2",
    keys: &[],
    places: &[],
    does: "takes mappings beside names in `models.allowed`",
};

/// The drift that a violation is an instance of, in any profile.
pub fn drift_of(ctx: &Context<'_>, v: &Violation<'_>) -> Option<&'static Drift> {
    if !matches!(ctx.doctype, Doctype::AgentCli | Doctype::Sandbox) {
        return None;
    }
    match v.keyword {
        Keyword::AdditionalProperties => {
            let key = v.entry?.key.as_str();
            let mut rows = DRIFTS.iter().filter(|d| d.keys.contains(&key)).peekable();
            rows.peek()?;
            let place = place_of(ctx, v.node)?;
            rows.find(|d| d.places.contains(&place.as_str()))
        }
        Keyword::Type if ctx.doctype == Doctype::AgentCli && v.node.is_map() => {
            let allowed = ctx.root.at(&["models", "allowed"])?;
            // A list written that way throughout is one mistake, told at its first mapping.
            let first = allowed.items().iter().find(|n| n.is_map())?;
            std::ptr::eq(first, v.node).then_some(&MODEL_OBJECTS)
        }
        _ => None,
    }
}

/// Path of a mapping with its list positions left out: `modes[]`, `sandbox.env`.
fn place_of(ctx: &Context<'_>, node: &Node) -> Option<String> {
    let pointer = ctx.doc.pointer_of(node)?;
    let mut out = String::new();
    if ctx.doctype == Doctype::Sandbox {
        out.push_str("sandbox");
    }
    for token in pointer.split('/').skip(1) {
        if token.parse::<usize>().is_ok() {
            out.push_str("[]");
        } else {
            if !out.is_empty() {
                out.push('.');
            }
            out.push_str(token);
        }
    }
    Some(out)
}

/// Reports a drift where it is one: a warning in profile `reference`, and elsewhere an
/// unknown field that says who knows it. A specific rule keeps its own words.
fn report_drift<'d>(ctx: &Context<'d>, v: &Violation<'d>) -> bool {
    let Some(drift) = drift_of(ctx, v) else {
        return false;
    };
    if ctx.profile == Profile::Reference {
        let what = match v.entry {
            Some(entry) => format!("`{}`", entry.key),
            None => "a mapping in `models.allowed`".to_owned(),
        };
        ctx.report(
            Draft::new(
                &FM_KNOWN_DRIFT_FIELD,
                v.place.clone(),
                format!(
                    "{what} is known to the reference implementation only, which {} ({})",
                    drift.does, drift.id
                ),
            )
            .help("other hosts refuse it; keep it only if no other host reads this file"),
        );
        return true;
    }
    if v.rule != &FM_UNKNOWN_FIELD {
        return false;
    }
    ctx.report(draft(ctx, v).help(format!(
        "only the reference implementation knows it, which {} ({}): remove it, or lint with profile `reference`, where it is a warning",
        drift.does, drift.id
    )));
    true
}

/// A mistake about a key that comes before what the rule of its place says.
pub fn mistaken_key<'d>(ctx: &Context<'d>, v: &Violation<'d>) -> bool {
    match v.keyword {
        Keyword::AdditionalProperties => {
            let Some(entry) = v.entry else { return false };
            // `fm-type` speaks about keys that are not text.
            entry.key_kind != KeyKind::Str
                || wrong_case(ctx, v, entry)
                || discouraged(ctx, v, entry)
                || report_drift(ctx, v)
                || of_the_other_format(ctx, v, entry)
        }
        // Integers are legal keys in `output.exit_codes` only, and only they are judged there.
        Keyword::PropertyNames => v.entry.is_some_and(|e| e.key_kind == KeyKind::Other),
        Keyword::Required => missing_by_case(ctx, v),
        Keyword::Type => report_drift_in_reference(ctx, v),
        _ => false,
    }
}

fn report_drift_in_reference<'d>(ctx: &Context<'d>, v: &Violation<'d>) -> bool {
    ctx.profile == Profile::Reference && report_drift(ctx, v)
}

/// A known key but for its case, where the known key is not there too.
fn wrong_case<'d>(ctx: &Context<'d>, v: &Violation<'d>, entry: &'d Entry) -> bool {
    let known = v
        .expected
        .iter()
        .find(|name| name.eq_ignore_ascii_case(&entry.key));
    match known {
        Some(known) if !v.node.has(known) => {
            report_case(ctx, entry, known);
            true
        }
        _ => false,
    }
}

fn report_case<'d>(ctx: &Context<'d>, entry: &'d Entry, known: &str) {
    ctx.report(
        Draft::new(
            &FM_FIELD_CASE,
            entry,
            format!(
                "`{}` is not a field; `{known}` is, and field names are case-sensitive",
                entry.key
            ),
        )
        .help(format!("write `{known}`"))
        .fix_if(
            Safety::Safe,
            format!("Rename `{}` to `{known}`", entry.key),
            edits::rename_key(ctx.doc, entry, known),
        ),
    );
}

/// A required field that is there in another case: one mistake, told at the key.
fn missing_by_case<'d>(ctx: &Context<'d>, v: &Violation<'d>) -> bool {
    let Some(missing) = v.missing.as_deref() else {
        return false;
    };
    let mut entries = v.node.entries().iter();
    let Some(entry) = entries.find(|e| e.key.eq_ignore_ascii_case(missing)) else {
        return false;
    };
    if !ctx.on(&FM_FIELD_CASE) {
        return false;
    }
    // In a mapping that is closed, the key itself is a violation and speaks there. Only an
    // open mapping, or a union whose arm this key would choose, is silent about it.
    let all = violations(shapes_for(ctx.doctype), ctx.root, Place::Value(ctx.root));
    let speaks = all
        .iter()
        .any(|w| w.entry.is_some_and(|e| std::ptr::eq(e, entry)));
    if !speaks {
        report_case(ctx, entry, missing);
    }
    true
}

fn discouraged<'d>(ctx: &Context<'d>, v: &Violation<'d>, entry: &'d Entry) -> bool {
    let owner = match entry.key.as_str() {
        "shell" => "the runner starts commands without a shell; compose steps in a tool",
        "env" => "pass variables by `sandbox.env`, or in the tool that needs them",
        "cwd" => "the runner chooses the folder of each call",
        _ => return false,
    };
    if ctx.doctype != Doctype::Cli || !std::ptr::eq(v.node, ctx.root) {
        return false;
    }
    ctx.report(
        Draft::new(
            &BUNDLE_DISCOURAGED_SHELL_ENV_CWD,
            entry,
            format!(
                "`{}` belongs to a single call, not to the bundle (AIP-29, Discouraged)",
                entry.key
            ),
        )
        .help(owner),
    );
    true
}

/// `protocol` in a CLI.md, `commands` in an AGENT-CLI.md: the words of the other format.
fn of_the_other_format<'d>(ctx: &Context<'d>, v: &Violation<'d>, entry: &'d Entry) -> bool {
    let other = match ctx.doctype {
        Doctype::Cli => Doctype::AgentCli,
        Doctype::AgentCli => Doctype::Cli,
        _ => return false,
    };
    if v.rule != &FM_UNKNOWN_FIELD || !std::ptr::eq(v.node, ctx.root) {
        return false;
    }
    let shapes = shapes_for(other);
    let known = shapes
        .get(shapes.root)
        .is_some_and(|root| root.property(&entry.key).is_some());
    if known {
        ctx.report(draft(ctx, v).help(format!(
            "it is a field of {} ({}); is this file the one you meant it for?",
            other.file_name(),
            other.spec()
        )));
    }
    known
}

/// `runner` and `sandbox` in a TOOL.md are AIP-29's, for the tools of a CLI bundle (C1).
fn tool_fields_of_a_bundle(ctx: &Context<'_>) {
    let fields = [ctx.root.entry("runner"), ctx.root.entry("sandbox")];
    // A tool that names its CLI says that it belongs to one; a broken path is `ref-…`'s.
    if fields.iter().all(Option::is_none)
        || ctx.root.str_at(&["runner", "cli"]).is_some()
        || named_by_a_cli_above(ctx)
    {
        return;
    }
    for entry in fields.into_iter().flatten() {
        let help = if entry.key == "runner" {
            "name the bundle by `runner.cli: ../../CLI.md`, or let that CLI.md's `commands` name this tool; a tool of no bundle leaves running to a driver (AIP-14)"
        } else {
            "only the tools of a CLI bundle narrow its sandbox: let a CLI.md's `commands` name this tool, or remove it (AIP-14)"
        };
        ctx.report(
            Draft::new(
                &FM_UNKNOWN_FIELD,
                entry,
                format!(
                    "`{}` is a field of the tools of a CLI bundle, and no CLI.md claims this tool",
                    entry.key
                ),
            )
            .help(help),
        );
    }
}

/// A CLI.md at most three folders up whose `commands` lead to this file.
fn named_by_a_cli_above(ctx: &Context<'_>) -> bool {
    let mut dir = ctx.doc.dir().to_owned();
    for _ in 0..=3 {
        dir = normalize(&dir);
        if !ctx.workspace.contains(&dir) {
            break;
        }
        let names = ctx.workspace.files.list(or_here(&dir));
        let clis = names
            .iter()
            .filter(|name| Doctype::from_file_name(name) == Some(Doctype::Cli));
        for name in clis {
            if let Ok(cli) = ctx.workspace.load(&dir.join(name))
                && let Some(commands) = cli.root.as_ref().and_then(|root| root.get("commands"))
                && leads_to(&cli, commands, &ctx.doc.path)
            {
                return true;
            }
        }
        dir.push("..");
    }
    false
}

fn leads_to(cli: &Document, commands: &Node, tool: &Path) -> bool {
    match &commands.value {
        Value::Str(text) => same_path(&cli.dir().join(text.as_str()), tool),
        Value::Map(entries) => entries.iter().any(|e| leads_to(cli, &e.value, tool)),
        _ => false,
    }
}
