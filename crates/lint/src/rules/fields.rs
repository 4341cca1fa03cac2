//! Field names: wrong case, fields of another manifest format, and fields that only the reference
//! implementation supports.

use std::path::Path;

use crate::context::{FindingDraft, Location, RuleContext};
use crate::edits;
use crate::finding::Safety;
use crate::registry::{Family, FamilyCheck};
use crate::rule::{FixKind, Level, Profile, Rule, Severity, Source};
use crate::rules::document::FM_UNKNOWN_FIELD;
use crate::rules::refs::or_current_dir;
use crate::shape::{Keyword, SchemaViolation, draft, shapes_for, violations};
use agentproto_manifest::{Doctype, Document, Entry, KeyKind, Node, Value, normalize, same_path};

pub static FAMILY: Family = Family {
    name: "fields",
    rules: &[
        &FM_FIELD_CASE,
        &FM_KNOWN_DRIFT_FIELD,
        &BUNDLE_DISCOURAGED_SHELL_ENV_CWD,
    ],
    checks: &[FamilyCheck {
        doctypes: &[Doctype::Tool],
        run: tool_fields_of_a_bundle,
    }],
};

pub static FM_FIELD_CASE: Rule = Rule {
    slug: "fm-field-case",
    title: "A field name has the wrong case",
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
    title: "A field is supported only by the reference implementation",
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
    title: "A CLI.md sets `shell`, `env` or `cwd` for the whole bundle",
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

/// A known deviation of the reference implementation: fields that it accepts and no AIP schema has.
#[derive(Debug)]
pub struct Deviation {
    keys: &'static [&'static str],
    /// Paths of the mappings that may contain the keys: `""` is the top level, `modes[]` any mode.
    places: &'static [&'static str],
    /// What the reference implementation does with the fields: a verb phrase without a subject.
    pub effect: &'static str,
}

impl Deviation {
    /// What to do about the field.
    fn remedy(&self) -> &'static str {
        match self.keys {
            ["env"] => {
                "remove it; declare secrets in SECRETS.md, list their variables under `auth.state.env`, and replace a secret that is written here"
            }
            _ => "remove it, or lint with profile `reference`, where it is a warning",
        }
    }
}

static DEVIATIONS: &[Deviation] = &[
    Deviation {
        keys: &["print"],
        places: &[""],
        effect: "describes a one-shot run for `protocol: print`",
    },
    Deviation {
        keys: &["deny", "apply", "bin_args_template"],
        places: &["models"],
        effect: "rejects models by pattern and defines how the selected model is passed to the binary",
    },
    Deviation {
        keys: &["bin_args_prepend"],
        places: &["", "modes[]", "options[]"],
        effect: "inserts arguments before `bin_args`",
    },
    Deviation {
        keys: &["env_unset"],
        places: &["", "modes[]", "options[]"],
        effect: "removes environment variables from the process",
    },
    Deviation {
        keys: &["turn_idle_timeout_ms"],
        places: &["session"],
        effect: "ends a turn that produces no output for that long",
    },
    Deviation {
        keys: &[
            "provider",
            "authSubscription",
            "gatewayAuth",
            "authEnforce",
            "modelDerivedApiKey",
            "routeSelection",
        ],
        places: &["", "auth", "models", "modes[]", "options[]"],
        effect: "selects the model provider and the source of its key",
    },
    Deviation {
        keys: &["env"],
        places: &[""],
        effect: "sets environment variables on every start",
    },
    Deviation {
        keys: &["presets"],
        places: &[""],
        effect: "adds model gateways to its catalog",
    },
    Deviation {
        keys: &["kind", "status", "status_note", "apply"],
        places: &["modes[]"],
        effect: "records the status of a mode and how to enable it",
    },
    Deviation {
        keys: &["file_attach", "nativeTerminalResume"],
        places: &["capabilities"],
        effect: "advertises more capabilities to its clients",
    },
    Deviation {
        keys: &["autoPassthrough", "extraPorts"],
        places: &["sandbox", "sandbox.env", "sandbox.network"],
        effect: "passes variables into the sandbox and opens its ports",
    },
];

/// Items of `models.allowed` that are mappings. This is a type and not a field, so it is not in the
/// table.
static MODEL_OBJECTS: Deviation = Deviation {
    keys: &[],
    places: &[],
    effect: "accepts mappings as well as names there",
};

/// The known deviation that explains a violation, in any profile.
pub fn deviation_of(ctx: &RuleContext<'_>, v: &SchemaViolation<'_>) -> Option<&'static Deviation> {
    if !matches!(ctx.doctype, Doctype::AgentCli | Doctype::Sandbox) {
        return None;
    }
    match v.keyword {
        Keyword::AdditionalProperties => {
            let key = v.entry?.key.as_str();
            let mut rows = DEVIATIONS
                .iter()
                .filter(|d| d.keys.contains(&key))
                .peekable();
            rows.peek()?;
            let place = place_of(ctx, v.node)?;
            rows.find(|d| d.places.contains(&place.as_str()))
        }
        Keyword::Type if ctx.doctype == Doctype::AgentCli && v.node.is_map() => {
            let allowed = ctx.root.at(&["models", "allowed"])?;
            // A list of mappings is reported once, at its first mapping.
            let first = allowed.items().iter().find(|n| n.is_map())?;
            std::ptr::eq(first, v.node).then_some(&MODEL_OBJECTS)
        }
        _ => None,
    }
}

/// Path of a mapping without list indexes: `modes[]`, `sandbox.env`.
fn place_of(ctx: &RuleContext<'_>, node: &Node) -> Option<String> {
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

/// Reports a known deviation: as a warning in profile `reference`, and as an unknown field with an
/// explanation in the other profiles. Violations of a more specific rule are left to that rule.
/// Returns true if it reported one.
fn report_drift<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) -> bool {
    let Some(drift) = deviation_of(ctx, v) else {
        return false;
    };
    if ctx.profile == Profile::Reference {
        let what = match v.entry {
            Some(entry) => format!("`{}`", entry.key),
            None => "mappings in `models.allowed`".to_owned(),
        };
        ctx.report(
            FindingDraft::new(
                &FM_KNOWN_DRIFT_FIELD,
                v.location.clone(),
                format!(
                    "only the reference implementation supports {what}: it {}",
                    drift.effect
                ),
            )
            .help("remove it, unless only the reference implementation reads this file: other hosts reject it"),
        );
        return true;
    }
    if v.rule != &FM_UNKNOWN_FIELD {
        return false;
    }
    ctx.report(draft(ctx, v).help(format!(
        "{}. Only the reference implementation supports it: it {}",
        drift.remedy(),
        drift.effect
    )));
    true
}

/// Reports a mistake about a key itself. This takes precedence over the rule for the place of the
/// key. Returns true if the violation is handled.
pub fn report_key_mistake<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) -> bool {
    match v.keyword {
        Keyword::AdditionalProperties => {
            let Some(entry) = v.entry else { return false };
            // `fm-type` reports keys that are not strings.
            entry.key_kind != KeyKind::Str
                || wrong_case(ctx, v, entry)
                || discouraged(ctx, v, entry)
                || report_drift(ctx, v)
                || report_field_of_other_format(ctx, v, entry)
        }
        // `fm-type` reports these keys. Integer keys, which only `output.exit_codes` allows, are
        // not handled here.
        Keyword::PropertyNames => v.entry.is_some_and(|e| e.key_kind == KeyKind::Other),
        Keyword::Required => report_required_in_wrong_case(ctx, v),
        Keyword::Type => report_drift_in_reference(ctx, v),
        _ => false,
    }
}

fn report_drift_in_reference<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) -> bool {
    ctx.profile == Profile::Reference && report_drift(ctx, v)
}

/// Reports a key that differs from a known field only in case, unless that field is also present.
fn wrong_case<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>, entry: &'d Entry) -> bool {
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

fn report_case<'d>(ctx: &RuleContext<'d>, entry: &'d Entry, known: &str) {
    ctx.report(
        FindingDraft::new(
            &FM_FIELD_CASE,
            entry,
            format!(
                "unknown field `{}`: field names are case-sensitive, and this one is `{known}`",
                entry.key
            ),
        )
        .help(format!("rename it to `{known}`"))
        .fix_if(
            Safety::Safe,
            format!("Rename `{}` to `{known}`", entry.key),
            edits::rename_key(ctx.doc, entry, known),
        ),
    );
}

/// Handles a required field that is present in another case: reports it once, at the key.
fn report_required_in_wrong_case<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) -> bool {
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
    // In a closed mapping the key is a violation of its own and is reported there. An open mapping,
    // or a union whose arm this key would select, has no such violation.
    let all = violations(shapes_for(ctx.doctype), ctx.root, Location::Value(ctx.root));
    let reported_elsewhere = all
        .iter()
        .any(|w| w.entry.is_some_and(|e| std::ptr::eq(e, entry)));
    if !reported_elsewhere {
        report_case(ctx, entry, missing);
    }
    true
}

fn discouraged<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>, entry: &'d Entry) -> bool {
    let owner = match entry.key.as_str() {
        "shell" => "remove it: commands are started without a shell",
        "env" => "pass variables through `sandbox.env`, or set them in the tool that needs them",
        "cwd" => "remove it: the host chooses the working directory of each call",
        _ => return false,
    };
    if ctx.doctype != Doctype::Cli || !std::ptr::eq(v.node, ctx.root) {
        return false;
    }
    ctx.report(
        FindingDraft::new(
            &BUNDLE_DISCOURAGED_SHELL_ENV_CWD,
            entry,
            format!("`{}` does not belong in CLI.md", entry.key),
        )
        .help(owner),
    );
    true
}

/// Explains an unknown field that belongs to the other format: `protocol` in a CLI.md, or
/// `commands` in an AGENT-CLI.md. Returns true if it reported one.
fn report_field_of_other_format<'d>(
    ctx: &RuleContext<'d>,
    v: &SchemaViolation<'d>,
    entry: &'d Entry,
) -> bool {
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
            "this is a field of {} ({}): move it to such a file, or remove it",
            other.file_name(),
            other.spec()
        )));
    }
    known
}

/// Reports `runner` and `sandbox` in a TOOL.md that belongs to no CLI bundle. Only AIP-29 defines
/// these fields, for the tools of a CLI bundle (C1).
fn tool_fields_of_a_bundle(ctx: &RuleContext<'_>) {
    let fields = [ctx.root.entry("runner"), ctx.root.entry("sandbox")];
    // A tool with `runner.cli` belongs to a bundle. The `ref-…` rules report a broken path.
    if fields.iter().all(Option::is_none)
        || ctx.root.str_at(&["runner", "cli"]).is_some()
        || listed_by_parent_cli(ctx)
    {
        return;
    }
    for entry in fields.into_iter().flatten() {
        let help = if entry.key == "runner" {
            "set `runner.cli: ../../CLI.md`, or list this tool in the `commands` of a CLI.md. A tool without a bundle is run by a driver (AIP-14)"
        } else {
            "list this tool in the `commands` of a CLI.md, or remove `sandbox`: only the tools of a CLI bundle have it (AIP-14)"
        };
        ctx.report(
            FindingDraft::new(
                &FM_UNKNOWN_FIELD,
                entry,
                format!(
                    "`{}` is allowed only in the tools of a CLI bundle, and no CLI.md lists this tool",
                    entry.key
                ),
            )
            .help(help),
        );
    }
}

/// Whether a CLI.md at most three directories up lists this file in its `commands`.
fn listed_by_parent_cli(ctx: &RuleContext<'_>) -> bool {
    let mut dir = ctx.doc.dir().to_owned();
    for _ in 0..=3 {
        dir = normalize(&dir);
        if !ctx.workspace.contains(&dir) {
            break;
        }
        let names = ctx.workspace.files.list(or_current_dir(&dir));
        let clis = names
            .iter()
            .filter(|name| Doctype::from_file_name(name) == Some(Doctype::Cli));
        for name in clis {
            if let Ok(cli) = ctx.workspace.load(&dir.join(name))
                && let Some(commands) = cli.root.as_ref().and_then(|root| root.get("commands"))
                && lists_tool(&cli, commands, &ctx.doc.path)
            {
                return true;
            }
        }
        dir.push("..");
    }
    false
}

fn lists_tool(cli: &Document, commands: &Node, tool: &Path) -> bool {
    match &commands.value {
        Value::Str(text) => same_path(&cli.dir().join(text.as_str()), tool),
        Value::Map(entries) => entries.iter().any(|e| lists_tool(cli, &e.value, tool)),
        _ => false,
    }
}
