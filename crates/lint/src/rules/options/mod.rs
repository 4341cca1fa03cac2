//! Options: typed settings, and how their values reach arguments and environment.

mod catalog;
mod values;
mod words;

pub use catalog::*;
pub use words::is_env_name;

use words::{flag_name, is_secret_name, shell_sign, strange_placeholder};

use super::modes::{has_id, mend_id, unique_ids};
use crate::context::{Context, Draft, Place};
use crate::edits;
use crate::finding::Safety;
use crate::registry::{Check, Family};
use crate::shape::Violation;
use agentproto_manifest::{Doctype, Entry, Node, Span};
use agentproto_text::{closest_of, one_of};

pub static FAMILY: Family = Family {
    name: "options",
    rules: &[
        &OPTION_ID_PATTERN,
        &OPTION_ID_UNIQUE,
        &OPTION_TYPE_ENUM,
        &OPTION_ENUM_REQUIRED,
        &OPTION_ENUM_ON_NON_ENUM,
        &OPTION_ENUM_DUPLICATES,
        &OPTION_MINMAX_NON_INTEGER,
        &OPTION_MIN_GT_MAX,
        &OPTION_DEFAULT_TYPE,
        &OPTION_DEFAULT_NOT_IN_ENUM,
        &OPTION_DEFAULT_BOUNDS,
        &OPTION_APPEND_WHEN_TRUE_NON_BOOL,
        &OPTION_TEMPLATE_NO_VALUE,
        &OPTION_TEMPLATE_ON_BOOLEAN,
        &OPTION_UNKNOWN_PLACEHOLDER,
        &OPTION_INERT,
        &OPTION_SECRET_ARGV,
        &OPTION_SECRET_ENV,
        &OPTION_FLAG_CONFLICTS_MODE,
        &ARGV_SHELL_METACHAR,
        &ENV_NAME_INVALID,
    ],
    checks: &[Check {
        doctypes: &[Doctype::AgentCli],
        run: check,
    }],
};

const TYPES: [&str; 4] = ["boolean", "integer", "string", "enum"];

fn enum_required<'d>(ctx: &Context<'d>, v: &Violation<'d>) {
    let place = v
        .node
        .get("type")
        .map_or_else(|| v.place.clone(), Place::Value);
    ctx.report(
        Draft::new(
            &OPTION_ENUM_REQUIRED,
            place,
            "an option of type `enum` needs the list `enum` of its values",
        )
        .help("add `enum` with every value that a caller may choose, or use `type: string`"),
    );
}

fn id_pattern<'d>(ctx: &Context<'d>, node: &'d Node) -> Draft<'d> {
    let draft = Draft::new(
        &OPTION_ID_PATTERN,
        node,
        "the id of an option may have lower-case letters, digits and `_` only, and starts with a letter or digit",
    );
    let Some(mended) = node.as_str().and_then(|text| mend_id(text, '_')) else {
        return draft.help("choose another id, for example `max_turns`");
    };
    let taken = ctx
        .root
        .get("options")
        .is_some_and(|list| has_id(list, &mended));
    if taken {
        return draft.help("choose an id that no other option has");
    }
    let edits = edits::set_scalar(ctx.doc, node, &mended);
    draft.help(format!("write `{mended}`")).fix_if(
        Safety::Safe,
        format!("Replace it by `{mended}`"),
        edits,
    )
}

fn type_enum<'d>(ctx: &Context<'d>, node: &'d Node) -> Draft<'d> {
    let written = ctx.doc.slice(node.span);
    let meant = match node.as_str().map(str::to_ascii_lowercase).as_deref() {
        Some("bool" | "flag" | "switch") => Some("boolean"),
        Some("int" | "number" | "float") => Some("integer"),
        Some("str" | "text") => Some("string"),
        Some("select" | "choice") => Some("enum"),
        Some(word) => closest_of(word, TYPES),
        None => None,
    };
    let draft = Draft::new(
        &OPTION_TYPE_ENUM,
        node,
        format!("`{written}` is not a type that an option can have"),
    );
    match meant {
        Some(meant) => draft.help(format!("did you mean `{meant}`?")),
        None => draft.help(format!("allowed: {}", one_of(&TYPES))),
    }
}

fn check(ctx: &Context<'_>) {
    let root = ctx.root;
    if let Some(args) = root.get("bin_args") {
        argv(ctx, args, false);
    }
    if let Some(args) = root.at(&["mcp", "args"]) {
        argv(ctx, args, false);
    }
    let modes = root.get("modes").map_or(&[][..], Node::items);
    for mode in modes {
        if let Some(args) = mode.get("bin_args_append") {
            argv(ctx, args, false);
        }
        env_keys(ctx, mode);
    }
    for entry in root.at(&["models", "env"]).map_or(&[][..], Node::entries) {
        let name = &entry.value;
        if name.as_str().is_some_and(|name| !is_env_name(name)) {
            ctx.report(bad_env_name(
                name.into(),
                "`models.env` names a variable that cannot exist",
            ));
        }
    }
    let Some(options) = root.get("options") else {
        return;
    };
    unique_ids(ctx, &OPTION_ID_UNIQUE, options, "option");
    for option in options.items().iter().filter(|o| o.is_map()) {
        values::check(ctx, option);
        patches(ctx, option);
        secret(ctx, option);
        flags(ctx, option, modes);
        env_keys(ctx, option);
        for key in ["bin_args_template", "bin_args_append_when_true"] {
            if let Some(args) = option.get(key) {
                argv(ctx, args, true);
            }
        }
    }
}

/// The declared type, where it is one.
fn type_of(option: &Node) -> Option<&str> {
    option.str_at(&["type"]).filter(|t| TYPES.contains(t))
}

/// A list or map that is there and has something in it, or has the wrong type (which has
/// its own finding and must not look like absence).
fn given<'d>(option: &'d Node, key: &str) -> Option<&'d Entry> {
    option.entry(key).filter(|e| {
        let empty = (e.value.is_seq() && e.value.items().is_empty())
            || (e.value.is_map() && e.value.entries().is_empty());
        !empty
    })
}

const PATCHES: [&str; 3] = ["bin_args_template", "bin_args_append_when_true", "env"];

fn patches<'d>(ctx: &Context<'d>, option: &'d Node) {
    let template = given(option, "bin_args_template");
    let when_true = given(option, "bin_args_append_when_true");
    let env = given(option, "env");
    let known = type_of(option);
    if let (Some(entry), Some(kind)) = (when_true, known)
        && kind != "boolean"
    {
        ctx.report(
            Draft::new(
                &OPTION_APPEND_WHEN_TRUE_NON_BOOL,
                entry,
                format!("`bin_args_append_when_true` is for booleans, but this option is of type `{kind}`"),
            )
            .help("use `bin_args_template` with `{value}`, or make the option a `boolean`"),
        );
    }
    if let Some(entry) = template
        && known == Some("boolean")
    {
        ctx.report(
            Draft::new(
                &OPTION_TEMPLATE_ON_BOOLEAN,
                entry,
                "a boolean has no value to put into `bin_args_template`",
            )
            .help("use `bin_args_append_when_true` for a bare flag"),
        );
    }
    let strange = placeholders(ctx, option);
    if let Some(entry) = template
        && entry.value.is_seq()
        && known != Some("boolean")
        && !strange
        && !entry
            .value
            .strings()
            .any(|(text, _)| text.contains("{value}"))
    {
        ctx.report(
            Draft::new(
                &OPTION_TEMPLATE_NO_VALUE,
                entry,
                "`bin_args_template` never uses `{value}`, so every value gives the same arguments",
            )
            .help("put `{value}` where the value belongs, as in `[--depth, \"{value}\"]`"),
        );
    }
    // A patch under a name that no schema has is told at that name.
    let misnamed = |e: &Entry| {
        let patch = e.key.starts_with("bin_arg") || e.key.starts_with("env");
        patch && !PATCHES.contains(&&*e.key)
    };
    if template.is_none()
        && when_true.is_none()
        && env.is_none()
        && !option.entries().iter().any(misnamed)
        && let Some(id) = option.get("id")
    {
        ctx.report(
            Draft::new(
                &OPTION_INERT,
                id,
                "this option changes neither the arguments nor the environment, so a host cannot apply it",
            )
            .help("say how its value is passed: `bin_args_template`, `bin_args_append_when_true` or `env`"),
        );
    }
}

/// Reports placeholders other than `{value}`; true where the template has one.
fn placeholders<'d>(ctx: &Context<'d>, option: &'d Node) -> bool {
    let mut in_template = false;
    let templates = option.get("bin_args_template").map_or(&[][..], Node::items);
    let variables = option.get("env").map_or(&[][..], Node::entries);
    let texts = templates
        .iter()
        .map(|node| (node, true))
        .chain(variables.iter().map(|e| (&e.value, false)));
    for (node, template) in texts {
        let Some(found) = node.as_str().and_then(strange_placeholder) else {
            continue;
        };
        in_template |= template;
        ctx.report(
            Draft::new(
                &OPTION_UNKNOWN_PLACEHOLDER,
                node,
                format!("`{found}` is passed on as it stands: only `{{value}}` is replaced"),
            )
            .help("write `{value}`, without `$` and in single braces"),
        );
    }
    in_template
}

/// A string option that carries a credential goes past AIP-19, and in argv everybody sees it.
fn secret<'d>(ctx: &Context<'d>, option: &'d Node) {
    if type_of(option) != Some("string") {
        return;
    }
    let template = given(option, "bin_args_template");
    let env = given(option, "env");
    let by_id = option
        .get("id")
        .filter(|id| id.as_str().is_some_and(is_secret_name));
    let by_env = env.and_then(|env| env.value.entries().iter().find(|e| is_secret_name(&e.key)));
    let by_flag = template.and_then(|t| {
        let flags = t.value.strings().filter(|(text, _)| text.starts_with('-'));
        flags
            .filter(|(text, _)| is_secret_name(flag_name(text)))
            .map(|(_, node)| node)
            .next()
    });
    let telling = by_id
        .map(|id| id.span)
        .or(by_env.map(|e| e.key_span))
        .or(by_flag.map(|node| node.span));
    let Some(telling) = telling else {
        return;
    };
    if let Some(entry) = template {
        ctx.report(
            Draft::new(
                &OPTION_SECRET_ARGV,
                entry,
                "this option looks like a credential, and its value would stand in the arguments",
            )
            .help("declare it in SECRETS.md and list its variable under `auth.state.env`; a secret never goes into argv")
            .nearby(telling, "named like a credential"),
        );
    } else if let Some(entry) = env {
        ctx.report(
            Draft::new(
                &OPTION_SECRET_ENV,
                entry,
                "this option looks like a credential, but options are plain settings that operators write down",
            )
            .help("declare it in SECRETS.md and list its variable under `auth.state.env`")
            .nearby(telling, "named like a credential"),
        );
    }
}

fn flags_of(list: Option<&Node>) -> impl Iterator<Item = (&str, &Node)> {
    list.into_iter()
        .flat_map(Node::strings)
        .filter(|(text, _)| text.len() > 1 && text.starts_with('-') && *text != "--")
        .map(|(text, node)| (flag_name(text), node))
}

fn flags<'d>(ctx: &Context<'d>, option: &'d Node, modes: &'d [Node]) {
    if modes.is_empty() {
        return;
    }
    for key in ["bin_args_template", "bin_args_append_when_true"] {
        for (flag, node) in flags_of(option.get(key)) {
            let same = modes
                .iter()
                .flat_map(|mode| flags_of(mode.get("bin_args_append")))
                .find(|(other, _)| *other == flag);
            if let Some((_, other)) = same {
                ctx.report(
                    Draft::new(
                        &OPTION_FLAG_CONFLICTS_MODE,
                        node,
                        format!(
                            "`{flag}` is also passed by a mode; with both, the agent gets it twice"
                        ),
                    )
                    .help("leave the flag to one of them")
                    .nearby(other.span, "the mode passes it here"),
                );
                return;
            }
        }
    }
}

/// No shell reads these arguments, so its signs reach the program as they stand.
fn argv<'d>(ctx: &Context<'d>, args: &'d Node, has_placeholders: bool) {
    let mut script = false;
    for item in args.items() {
        let Some(text) = item.as_str() else {
            continue;
        };
        // `sh -c "a && b"` hands the text to a shell on purpose.
        let is_script = std::mem::replace(
            &mut script,
            matches!(text, "-c" | "-lc" | "-ec" | "-Command"),
        );
        if is_script {
            continue;
        }
        if let Some((at, sign)) = shell_sign(text, has_placeholders) {
            ctx.report(
                Draft::new(
                    &ARGV_SHELL_METACHAR,
                    part(ctx, item, text, at, sign.len()),
                    format!(
                        "`{sign}` means something to a shell, but no shell reads this argument"
                    ),
                )
                .help(
                    "write each argument as its own item, spelled out as the program is to get it",
                ),
            );
        }
    }
}

/// The bytes of a part of a scalar, where the scalar is written as it reads.
fn part<'d>(ctx: &Context<'d>, node: &'d Node, text: &str, at: usize, len: usize) -> Place<'d> {
    let written = ctx.doc.slice(node.span);
    match written.find(text) {
        Some(offset) => {
            let start = node.span.start as usize + offset + at;
            Place::Part(node, Span::new(start, start + len))
        }
        None => Place::Value(node),
    }
}

fn env_keys<'d>(ctx: &Context<'d>, holder: &'d Node) {
    for entry in holder.get("env").map_or(&[][..], Node::entries) {
        if !is_env_name(&entry.key) {
            ctx.report(bad_env_name(
                entry.into(),
                "this cannot be the name of a variable",
            ));
        }
    }
}

fn bad_env_name<'d>(place: Place<'d>, message: &str) -> Draft<'d> {
    Draft::new(&ENV_NAME_INVALID, place, message)
        .help("use letters, digits and `_`, and no digit first")
}
