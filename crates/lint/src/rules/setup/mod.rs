//! First-run steps: their fields, the values they capture, and where these go.

mod catalog;

pub use catalog::*;

use std::collections::HashMap;

use super::auth::{secrets_in, secrets_of, secrets_place};
use crate::context::{Context, Draft, Place};
use crate::edits;
use crate::finding::Safety;
use crate::registry::{Check, Family};
use crate::shape::{Violation, draft, repeated_texts};
use agentproto_manifest::{Doctype, Entry, Node};
use agentproto_text::{closest_of, one_of, short};

pub static FAMILY: Family = Family {
    name: "setup",
    rules: &[
        &SETUP_KIND_ENUM,
        &SETUP_REQUIRED_FIELD,
        &SETUP_EXTRA_FIELD,
        &SETUP_ID_PATTERN,
        &SETUP_ID_UNIQUE,
        &SETUP_PERSIST_EXACTLY_ONE,
        &SETUP_PERSIST_ON_OAUTH,
        &SETUP_PERSIST_ENV_NAME,
        &SETUP_PERSIST_CMD_NO_VALUE,
        &SETUP_SECRET_PERSISTED_ENV,
        &SETUP_SECRET_DEFAULT,
        &SETUP_SELECT_NO_OPTIONS,
        &SETUP_OPTIONS_NOT_SELECT,
        &SETUP_DEFAULT_NOT_IN_OPTIONS,
        &SETUP_BOOLEAN_DEFAULT,
        &SETUP_OAUTH_SLUG_UNDECLARED,
        &SETUP_OAUTH_SLUG_KIND,
        &SETUP_PERSIST_SLUG_UNDECLARED,
        &SETUP_INTERP_FORWARD_REF,
        &SETUP_NO_SKIP_IF,
        &SETUP_SKIPIF_SAME_AS_CMD,
        &SETUP_EXTERNAL_URL,
    ],
    checks: &[Check {
        doctypes: &[Doctype::Cli, Doctype::AgentCli],
        run: check,
    }],
};

/// "step `pick-host`", or "this step" where it has no id.
fn named(step: &Node) -> String {
    match step.str_at(&["id"]) {
        Some(id) => format!("step `{}`", short(id, 64)),
        None => "this step".to_owned(),
    }
}

fn say<'d>(ctx: &Context<'d>, v: &Violation<'d>, message: String, help: String) {
    ctx.report(Draft::new(v.rule, v.place.clone(), message).help(help));
}

fn required_field<'d>(ctx: &Context<'d>, v: &Violation<'d>) {
    let name = v.missing.as_deref().unwrap_or("");
    let help = match name {
        "kind" => format!("add `kind`: {}", one_of(&v.expected)),
        "id" => "give it an `id` that never changes, as in `id: pick-host`".to_owned(),
        _ => format!("add `{name}`"),
    };
    let who = match v.node.str_at(&["kind"]) {
        Some(kind) if name == "id" => format!("a step of kind `{kind}`"),
        Some(kind) if name != "kind" => format!("{} of kind `{kind}`", named(v.node)),
        _ => named(v.node),
    };
    say(ctx, v, format!("{who} lacks `{name}`"), help);
}

fn extra_field<'d>(ctx: &Context<'d>, v: &Violation<'d>) {
    let Some(entry) = v.entry else {
        return ctx.report(draft(ctx, v));
    };
    let kind = v.node.str_at(&["kind"]).unwrap_or("");
    let known = v.expected.iter().map(String::as_str);
    let help = match (owner_of(&entry.key), closest_of(&entry.key, known)) {
        (Some(owner), _) => format!("only steps of kind `{owner}` have it"),
        (None, Some(meant)) => format!("did you mean `{meant}`?"),
        (None, None) => format!("known here: {}", one_of(&v.expected)),
    };
    let message = format!("a step of kind `{kind}` has no field `{}`", entry.key);
    say(ctx, v, message, help);
}

fn persist_on_oauth<'d>(ctx: &Context<'d>, v: &Violation<'d>) {
    let message = format!("{} of kind `oauth` cannot have `persist`", named(v.node));
    let help = "leave it out: the tokens always land in `secret_slug`";
    say(ctx, v, message, help.to_owned());
}

fn external_url<'d>(ctx: &Context<'d>, v: &Violation<'d>) {
    let shown = short(v.node.as_str().unwrap_or(""), 60);
    let help = "write the scheme too, as in `https://example.com/pick?host=${input.pick-host}`";
    let message = format!("`{shown}` is not an absolute URL");
    say(ctx, v, message, help.to_owned());
}

/// The one kind of step that has a field.
fn owner_of(field: &str) -> Option<&'static str> {
    Some(match field {
        "cmd" | "interactive" | "timeout_ms" => "cmd",
        "prompt" | "type" | "default" | "options" => "prompt",
        "secret_slug" => "oauth",
        "url" | "callback" => "external",
        _ => return None,
    })
}

fn id_pattern<'d>(ctx: &Context<'d>, v: &Violation<'d>) {
    let id = v.node.as_str().unwrap_or("");
    let draft = Draft::new(
        v.rule,
        v.place.clone(),
        format!("`{}` cannot be the id of a step", short(id, 64)),
    );
    let meant = slug(id);
    let steps = ctx.root.get("setup").map_or(&[][..], Node::items);
    let taken = steps.iter().any(|s| s.str_at(&["id"]) == Some(&meant));
    if meant.is_empty() || taken {
        ctx.report(
            draft.help(
                "use up to 64 small letters, digits and `-`, beginning with a letter or digit",
            ),
        );
        return;
    }
    // Renaming would cut off what refers to the old name.
    let used = ctx.doc.text.contains(&format!("${{input.{id}}}"));
    let edits = (!used).then(|| edits::set_scalar(ctx.doc, v.node, &meant));
    ctx.report(draft.help(format!("write `{meant}`")).fix_if(
        Safety::Safe,
        format!("Rename the step to `{meant}`"),
        edits.flatten(),
    ));
}

/// Small letters, digits and single dashes.
fn slug(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            out.push(c.to_ascii_lowercase());
        } else if !out.is_empty() && !out.ends_with('-') {
            out.push('-');
        }
    }
    out.truncate(64);
    out.trim_end_matches('-').to_owned()
}

const TARGETS: [&str; 3] = ["env", "secret_slug", "cmd"];

fn exactly_one<'d>(ctx: &Context<'d>, v: &Violation<'d>) {
    let found: Vec<&str> = TARGETS.into_iter().filter(|t| v.node.has(t)).collect();
    // A mistyped key is one mistake; the unknown field is reported already.
    if found.is_empty() && !v.node.entries().is_empty() {
        return;
    }
    let message = match found.as_slice() {
        [] => "`persist` does not say where the value goes".to_owned(),
        _ => format!(
            "`persist` names {} places: {}",
            found.len(),
            found.join(", ")
        ),
    };
    ctx.report(
        Draft::new(v.rule, v.place.clone(), message)
            .help("keep exactly one of `env`, `secret_slug` and `cmd`"),
    );
}

fn check(ctx: &Context<'_>) {
    let Some(setup) = ctx.root.get("setup") else {
        return;
    };
    let steps = setup.items();
    for (id, first) in repeated_texts(steps.iter().filter_map(|step| step.get("id"))) {
        unique(ctx, id, first);
    }
    let order = Order::of(steps);
    for (at, step) in steps.iter().enumerate() {
        prompt(ctx, step);
        persist(ctx, step);
        oauth(ctx, step);
        repeatable(ctx, step);
        for text in texts(step) {
            inputs(ctx, text, at, &order);
        }
    }
}

fn unique<'d>(ctx: &Context<'d>, id: &'d Node, first: &'d Node) {
    let text = short(id.as_str().unwrap_or(""), 64);
    ctx.report(
        Draft::new(
            &SETUP_ID_UNIQUE,
            id,
            format!("two steps have the id `{text}`"),
        )
        .help("give each step an id of its own")
        .nearby(first.span, "first here"),
    );
}

fn prompt<'d>(ctx: &Context<'d>, step: &'d Node) {
    if step.str_at(&["kind"]) != Some("prompt") {
        return;
    }
    let kind = match step.get("type") {
        None => "text",
        Some(node) => node.as_str().unwrap_or(""),
    };
    let default = step.entry("default");
    let options = step.entry("options");
    match kind {
        "select" => select(ctx, step),
        "text" | "boolean" | "secret" => {
            if let Some(options) = options {
                options_without_select(ctx, step, kind, options);
            }
        }
        _ => {}
    }
    let Some(default) = default else {
        return;
    };
    if kind == "secret" {
        ctx.report(
            Draft::new(
                &SETUP_SECRET_DEFAULT,
                default,
                format!("{} asks for a secret and has a default for it", named(step)),
            )
            .help("remove `default`; if it is a real secret, revoke it"),
        );
    }
    if kind == "boolean"
        && let Some(text) = default.value.as_str()
        && !matches!(text, "true" | "false")
    {
        ctx.report(
            Draft::new(
                &SETUP_BOOLEAN_DEFAULT,
                &default.value,
                format!(
                    "`{}` is no default for a yes-or-no question",
                    short(text, 40)
                ),
            )
            .help("write \"true\" or \"false\", in quotes"),
        );
    }
}

fn select<'d>(ctx: &Context<'d>, step: &'d Node) {
    let Some(options) = step.get("options") else {
        if let Some(node) = step.get("type") {
            ctx.report(
                Draft::new(
                    &SETUP_SELECT_NO_OPTIONS,
                    node,
                    format!("{} asks for a choice but offers none", named(step)),
                )
                .help("add `options`: a list, or `cmd` for a command that prints them"),
            );
        }
        return;
    };
    let Some(default) = step.get("default") else {
        return;
    };
    let Some(text) = default.as_str() else {
        return;
    };
    // A list of other things than texts is a mistake of its own.
    let all_texts =
        !options.items().is_empty() && options.strings().count() == options.items().len();
    if all_texts && !options.strings().any(|(option, _)| option == text) {
        let meant = closest_of(text, options.strings().map(|(option, _)| option));
        ctx.report(
            Draft::new(
                &SETUP_DEFAULT_NOT_IN_OPTIONS,
                default,
                format!("the default `{}` is not among the options", short(text, 40)),
            )
            .help(match meant {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => "take one of the options, or add it to them".to_owned(),
            })
            .nearby(options.span, "the options"),
        );
    }
}

fn options_without_select<'d>(ctx: &Context<'d>, step: &'d Node, kind: &str, options: &'d Entry) {
    let declared = step.get("type");
    // Who lists options and gives no type wants a choice; who says another type does not.
    let (title, edits) = match declared {
        None => (
            "Make it a choice",
            edits::add_entry(ctx.doc, step, "type", "select"),
        ),
        Some(_) => (
            "Remove the options",
            edits::remove_entry(ctx.doc, step, options),
        ),
    };
    let draft = Draft::new(
        &SETUP_OPTIONS_NOT_SELECT,
        options,
        format!("a prompt of type `{kind}` has no use for `options`"),
    )
    .help("set `type: select`, or remove `options`")
    .fix_if(Safety::Safe, title, edits);
    ctx.report(match declared {
        Some(node) => draft.nearby(node.span, "the type"),
        None => draft,
    });
}

fn persist<'d>(ctx: &Context<'d>, step: &'d Node) {
    let Some(persist) = step.get("persist") else {
        return;
    };
    // Not allowed there at all.
    if step.str_at(&["kind"]) == Some("oauth") {
        return;
    }
    if let Some(node) = persist.get("env")
        && let Some(name) = node.as_str()
    {
        if !is_env_name(name) {
            ctx.report(
                Draft::new(
                    &SETUP_PERSIST_ENV_NAME,
                    node,
                    format!(
                        "`{}` is not the name of an environment variable",
                        short(name, 40)
                    ),
                )
                .help("use capital letters, digits and `_`, beginning with a letter"),
            );
        }
        if step.str_at(&["kind"]) == Some("prompt") && step.str_at(&["type"]) == Some("secret") {
            ctx.report(
                Draft::new(
                    &SETUP_SECRET_PERSISTED_ENV,
                    node,
                    format!(
                        "{} asks for a secret and keeps it as a plain variable",
                        named(step)
                    ),
                )
                .help("use `persist: { secret_slug: … }` with a slug of SECRETS.md"),
            );
        }
    }
    if let Some(node) = persist.get("cmd")
        && let Some(command) = node.as_str()
        && !command.contains("${value}")
    {
        ctx.report(
            Draft::new(
                &SETUP_PERSIST_CMD_NO_VALUE,
                node,
                "this command never uses the value that it should keep",
            )
            .help("put `${value}` where the value goes"),
        );
    }
    if let Some(node) = persist.get("secret_slug")
        && let Some(slug) = node.as_str()
        && let Some((reference, doc)) = secrets_of(ctx)
    {
        let declared = || secrets_in(doc).iter().filter_map(|s| s.str_at(&["slug"]));
        if !declared().any(|s| s == slug) {
            ctx.report(
                Draft::new(
                    &SETUP_PERSIST_SLUG_UNDECLARED,
                    node,
                    format!(
                        "`{}` declares no secret `{}`",
                        short(reference.site.text, 60),
                        short(slug, 80)
                    ),
                )
                .help(match closest_of(slug, declared()) {
                    Some(meant) => format!("did you mean `{meant}`?"),
                    None => "declare it there".to_owned(),
                })
                .related(doc, secrets_place(doc), "the secrets that are declared"),
            );
        }
    }
}

/// The reference implementation's form; AIP-29 says nothing.
fn is_env_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase())
        && name
            .bytes()
            .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

fn oauth<'d>(ctx: &Context<'d>, step: &'d Node) {
    if step.str_at(&["kind"]) != Some("oauth") {
        return;
    }
    let Some(node) = step.get("secret_slug") else {
        return;
    };
    let Some(slug) = node.as_str() else {
        return;
    };
    let Some((reference, doc)) = secrets_of(ctx) else {
        // A reference that leads nowhere is reported where it stands.
        if ctx.root.at(&["auth", "ref"]).is_none() {
            ctx.report(
                Draft::new(
                    &SETUP_OAUTH_SLUG_UNDECLARED,
                    node,
                    format!(
                        "no SECRETS.md declares `{}`: `auth.ref` names none",
                        short(slug, 80)
                    ),
                )
                .help("add `auth.ref` and declare the secret there with `kind: oauth`"),
            );
        }
        return;
    };
    let declared = || secrets_in(doc).iter().filter_map(|s| s.str_at(&["slug"]));
    let Some(secret) = secrets_in(doc)
        .iter()
        .find(|s| s.str_at(&["slug"]) == Some(slug))
    else {
        ctx.report(
            Draft::new(
                &SETUP_OAUTH_SLUG_UNDECLARED,
                node,
                format!(
                    "`{}` declares no secret `{}`",
                    short(reference.site.text, 60),
                    short(slug, 80)
                ),
            )
            .help(match closest_of(slug, declared()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => "declare it there with `kind: oauth`".to_owned(),
            })
            .related(doc, secrets_place(doc), "the secrets that are declared"),
        );
        return;
    };
    let kind = secret.get("kind");
    let word = kind.map_or(Some("opaque"), Node::as_str);
    // A word that is no kind at all is reported where it stands.
    if let Some(word) = word.filter(|w| ["opaque", "keypair", "json"].contains(w)) {
        ctx.report(
            Draft::new(
                &SETUP_OAUTH_SLUG_KIND,
                node,
                format!(
                    "the secret `{}` is of kind `{}`, not `oauth`",
                    short(slug, 80),
                    short(word, 40)
                ),
            )
            .help("set `kind: oauth` there, or name another secret")
            .related(
                doc,
                kind.or_else(|| secret.get("slug"))
                    .map_or(secret.span, |n| n.span),
                match kind {
                    Some(_) => "declared here",
                    None => "declared here; without `kind` it is `opaque`",
                },
            ),
        );
    }
}

fn repeatable<'d>(ctx: &Context<'d>, step: &'d Node) {
    let Some(first) = step.entries().first() else {
        return;
    };
    let Some(skip) = step.get("skip_if") else {
        ctx.report(
            Draft::new(
                &SETUP_NO_SKIP_IF,
                Place::Part(step, first.key_span),
                format!("{} cannot tell whether it is done already", named(step)),
            )
            .help("add `skip_if` with a command that ends with 0 when there is nothing left to do"),
        );
        return;
    };
    if let Some(node) = skip.get("cmd")
        && let (Some(probe), Some(command)) = (node.as_str(), step.str_at(&["cmd"]))
        && probe.split_whitespace().eq(command.split_whitespace())
    {
        ctx.report(
            Draft::new(
                &SETUP_SKIPIF_SAME_AS_CMD,
                node,
                format!("{} runs itself to find out whether to run", named(step)),
            )
            .help("probe the result instead, with a command that changes nothing"),
        );
    }
}

/// Texts of a step in which `${input.X}` is replaced.
fn texts(step: &Node) -> impl Iterator<Item = &Node> {
    [
        step.get("cmd"),
        step.get("url"),
        step.get("prompt"),
        step.get("default"),
        step.at(&["skip_if", "cmd"]),
        step.at(&["persist", "cmd"]),
        step.at(&["options", "cmd"]),
    ]
    .into_iter()
    .flatten()
}

/// The steps, and where each id first stands.
struct Order<'d> {
    steps: &'d [Node],
    first: HashMap<&'d str, usize>,
    /// The first step with the id that has a value.
    valued: HashMap<&'d str, usize>,
}

impl<'d> Order<'d> {
    fn of(steps: &'d [Node]) -> Self {
        let (mut first, mut valued) = (HashMap::new(), HashMap::new());
        for (at, step) in steps.iter().enumerate() {
            if let Some(id) = step.str_at(&["id"]) {
                first.entry(id).or_insert(at);
                if has_value(step) {
                    valued.entry(id).or_insert(at);
                }
            }
        }
        Order {
            steps,
            first,
            valued,
        }
    }
}

fn has_value(step: &Node) -> bool {
    step.str_at(&["kind"]) != Some("oauth")
}

fn inputs<'d>(ctx: &Context<'d>, node: &'d Node, at: usize, order: &Order<'d>) {
    let earlier = order.steps.get(..at).unwrap_or_default();
    let own = order.steps.get(at).and_then(|step| step.str_at(&["id"]));
    let mut rest = node.as_str().unwrap_or("");
    while let Some((_, after)) = rest.split_once("${input.") {
        let Some((name, behind)) = after.split_once('}') else {
            return;
        };
        rest = behind;
        if order.valued.get(name).is_some_and(|first| *first < at) {
            continue;
        }
        let first = order.first.get(name).copied();
        let step = |i: usize| order.steps.get(i);
        let shown = short(name, 64);
        let known = || {
            earlier
                .iter()
                .filter(|s| has_value(s))
                .filter_map(|s| s.str_at(&["id"]))
        };
        let (message, help, other) = if own == Some(name) {
            (
                format!("`${{input.{shown}}}` is the value of this very step"),
                "within `persist`, write `${value}`".to_owned(),
                None,
            )
        } else if let Some(other) = first.filter(|i| *i < at).and_then(step) {
            (
                format!("`${{input.{shown}}}` names a step of kind `oauth`, which has no value"),
                "its tokens are in the secret that it names".to_owned(),
                Some((other, "this step")),
            )
        } else if let Some(other) = first.and_then(step) {
            (
                format!("`${{input.{shown}}}` names a step that runs later"),
                "move that step up; steps run in the order in which they stand".to_owned(),
                Some((other, "it runs after this one")),
            )
        } else {
            (
                format!("`${{input.{shown}}}` names no step"),
                match closest_of(name, known()) {
                    Some(meant) => format!("did you mean `${{input.{meant}}}`?"),
                    None => "name the id of an earlier step".to_owned(),
                },
                None,
            )
        };
        let draft = Draft::new(&SETUP_INTERP_FORWARD_REF, node, message).help(help);
        ctx.report(match other.and_then(|(s, why)| Some((s.get("id")?, why))) {
            Some((id, why)) => draft.nearby(id.span, why),
            None => draft,
        });
        // One finding for one text.
        return;
    }
}

#[cfg(test)]
mod tests {
    use super::slug;

    #[test]
    fn ids_become_slugs() {
        assert_eq!(slug("Pick_Host"), "pick-host");
        assert_eq!(slug("  pick  host! "), "pick-host");
        assert_eq!(slug("ä"), "");
        assert_eq!(slug(&"a".repeat(80)).len(), 64);
    }
}
