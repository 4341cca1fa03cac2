//! Sandbox blocks (AIP-36): SANDBOX.md, and `sandbox` inline in AGENT-CLI.md.

mod catalog;

use catalog::*;

use crate::context::{Context, Draft, Place};
use crate::edits;
use crate::finding::{Edit, Safety};
use crate::registry::{Check, Family};
use crate::shape::{Keyword, Violation, draft};
use agentproto_manifest::{Doctype, Entry, Node, SANDBOX_PROVIDERS, Span, Value};
use agentproto_text::credentials::{is_placeholder, is_secret_name, is_token};
use agentproto_text::{closest_of, one_of};

pub static FAMILY: Family = Family {
    name: "sandbox36",
    rules: &[
        &SB36_REQUIRED,
        &SB36_PROVIDER_KNOWN,
        &SB36_STANDALONE_FIELDS,
        &SB36_CONFIG_SHAPE,
        &SB36_PLAINTEXT_CREDENTIAL,
        &SB36_MOUNT_AT,
        &SB36_MOUNT_OVERLAP,
        &SB36_LIFECYCLE_UNSUPPORTED,
        &SB36_LIFECYCLE_LEGACY_KEYS,
        &SB36_INLINE_AND_REF,
    ],
    checks: &[
        Check {
            doctypes: &[Doctype::Sandbox],
            run: check_file,
        },
        Check {
            doctypes: &[Doctype::AgentCli],
            run: check_inline,
        },
    ],
};

const PAUSE_OLD: [&str; 2] = ["pause_after_idle_ms", "pauseAfterIdleMs"];
const DESTROY_OLD: [&str; 2] = ["destroy_on_workspace_close", "destroyOnWorkspaceClose"];

/// The block of a document that has one.
fn block<'d>(ctx: &Context<'d>) -> Option<&'d Node> {
    match ctx.doctype {
        Doctype::Sandbox => Some(ctx.root),
        Doctype::AgentCli => ctx.sandbox().filter(|n| n.is_map()),
        _ => None,
    }
}

/// Violations that the checks below report in their own words.
pub fn said_elsewhere<'d>(ctx: &Context<'d>, v: &Violation<'d>) -> bool {
    let Some(block) = block(ctx) else {
        return false;
    };
    match v.keyword {
        Keyword::AdditionalProperties => {
            let Some(entry) = v.entry else {
                return false;
            };
            let key = entry.key.as_str();
            let old = PAUSE_OLD.contains(&key) || DESTROY_OLD.contains(&key);
            let lifecycle = || block.get("lifecycle");
            (old && lifecycle().is_some_and(|l| std::ptr::eq(l, v.node)))
                || (is_both(block) && std::ptr::eq(block, v.node) && is_form(key))
        }
        Keyword::Required if !std::ptr::eq(block, v.node) => false,
        Keyword::Required => is_both(block) || required(ctx, v),
        Keyword::OneOf => {
            let mounts = block.get("mounts").map_or(&[][..], Node::items);
            let is_source = mounts
                .iter()
                .filter_map(|m| m.get("source"))
                .any(|source| std::ptr::eq(source, v.node));
            is_source && is_both(v.node)
        }
        _ => false,
    }
}

fn required_or_both<'d>(ctx: &Context<'d>, v: &Violation<'d>) {
    if !said_elsewhere(ctx, v) {
        ctx.report(draft(ctx, v));
    }
}

/// A required field, with what to write there.
fn required<'d>(ctx: &Context<'d>, v: &Violation<'d>) -> bool {
    let help = match v.missing.as_deref() {
        Some("provider") => format!("say where commands run: {}", one_of(&SANDBOX_PROVIDERS)),
        Some("config") => "add what the provider needs to know, or `config: {}`".to_owned(),
        _ => return false,
    };
    ctx.report(draft(ctx, v).help(help));
    true
}

fn is_form(key: &str) -> bool {
    matches!(key, "inline" | "ref" | "file")
}

fn is_both(node: &Node) -> bool {
    node.entries().iter().filter(|e| is_form(&e.key)).count() > 1
}

fn check_file(ctx: &Context<'_>) {
    standalone(ctx);
    check_block(ctx, ctx.root);
}

fn check_inline(ctx: &Context<'_>) {
    if let Some(block) = block(ctx) {
        check_block(ctx, block);
    }
}

fn check_block<'d>(ctx: &Context<'d>, block: &'d Node) {
    both_forms(ctx, block);
    credentials(ctx, block);
    if let Some(provider) = block.get("provider")
        && let Some(name) = provider.as_str()
    {
        known_provider(ctx, provider, name);
        if let Some(config) = block.entry("config") {
            config_shape(ctx, name, config);
        }
        pause(ctx, block, name);
    }
    lifecycle(ctx, block);
    mounts(ctx, block);
}

fn standalone(ctx: &Context<'_>) {
    let open = ctx.doc.front.map_or(Span::default(), |front| front.open);
    let missing = |key: &'static str, help: &'static str| {
        (!ctx.root.has(key)).then(|| {
            Draft::new(
                &SB36_STANDALONE_FIELDS,
                Place::Bytes(open),
                format!("this SANDBOX.md has no `{key}`"),
            )
            .help(help)
        })
    };
    if let Some(draft) = missing("schema", "add `schema: sandbox/v1`") {
        ctx.report(draft.fix_if(
            Safety::Safe,
            "Add `schema: sandbox/v1`",
            edits::add_entry(ctx.doc, ctx.root, "schema", "sandbox/v1"),
        ));
    }
    let id = missing(
        "id",
        "add `id: \"@owner/name\"`, by which others refer to it",
    );
    let version = missing("version", "add `version`, such as `1.0.0`");
    for draft in [id, version].into_iter().flatten() {
        ctx.report(draft);
    }
}

fn both_forms<'d>(ctx: &Context<'d>, block: &'d Node) {
    let sources = block.get("mounts").map_or(&[][..], Node::items);
    let nodes = sources.iter().filter_map(|m| m.get("source"));
    for node in std::iter::once(block).chain(nodes) {
        let mut forms = node.entries().iter().filter(|e| is_form(&e.key));
        if let (Some(first), Some(second)) = (forms.next(), forms.next()) {
            ctx.report(
                Draft::new(
                    &SB36_INLINE_AND_REF,
                    second,
                    format!("`{}` and `{}` exclude each other", first.key, second.key),
                )
                .help("keep the one that is meant and remove the other")
                .nearby(first.key_span, "the other form"),
            );
        }
    }
}

/// Looks at every text of the block. A finding names the key, never the value.
fn credentials<'d>(ctx: &Context<'d>, node: &'d Node) {
    match &node.value {
        Value::Map(entries) => {
            for entry in entries {
                match &entry.value.value {
                    Value::Str(text) => {
                        let named = is_secret_name(&entry.key) && !is_placeholder(text);
                        if named || is_token(text) {
                            plaintext(ctx, Place::Key(entry), &format!("`{}`", entry.key));
                        }
                    }
                    // A number can be a password; nothing else has a `password` of digits.
                    Value::Int(_) if is_secret_name(&entry.key) => {
                        plaintext(ctx, Place::Key(entry), &format!("`{}`", entry.key));
                    }
                    _ => credentials(ctx, &entry.value),
                }
            }
        }
        Value::Seq(items) => {
            for item in items {
                match item.as_str() {
                    Some(text) if is_token(text) => {
                        plaintext(ctx, Place::Value(item), "this item");
                    }
                    Some(_) => {}
                    None => credentials(ctx, item),
                }
            }
        }
        _ => {}
    }
}

fn plaintext<'d>(ctx: &Context<'d>, place: Place<'d>, what: &str) {
    ctx.report(
        Draft::new(
            &SB36_PLAINTEXT_CREDENTIAL,
            place,
            format!("{what} holds a credential in plain text"),
        )
        .help(
            "revoke it, put the new one in the vault under a slug of SECRETS.md, and name the slug \
             (`api_key_ref`) or bind it by `env.auth`",
        ),
    );
}

fn known_provider<'d>(ctx: &Context<'d>, node: &'d Node, name: &str) {
    if SANDBOX_PROVIDERS.contains(&name) || name.is_empty() {
        return;
    }
    let listed = one_of(&SANDBOX_PROVIDERS);
    let help = match closest_of(name, SANDBOX_PROVIDERS) {
        Some(meant) => format!("did you mean `{meant}`? (listed: {listed})"),
        None => format!("fine if the host has registered it; listed are {listed}"),
    };
    ctx.report(
        Draft::new(
            &SB36_PROVIDER_KNOWN,
            node,
            format!("`{name}` is not among the providers of AIP-36"),
        )
        .help(help),
    );
}

/// Field of a provider's config: name, whether it must be there, accepted values (any if none).
type ConfigField = (&'static str, bool, &'static [&'static str]);

/// The provider's fields; `None` where AIP-36 gives no shape.
fn config_fields(provider: &str) -> Option<&'static [ConfigField]> {
    Some(match provider {
        "local" => &[
            ("cwd", false, &[]),
            ("shell", false, &["/bin/sh", "/bin/bash"]),
        ],
        "mastra-e2b" => &[
            ("template", true, &[]),
            ("api_key_ref", true, &[]),
            ("region", false, &["us-east-1", "eu-west-1"]),
        ],
        "mastra-modal" => &[
            ("app_name", true, &[]),
            ("function_name", true, &[]),
            ("api_token_ref", true, &[]),
        ],
        "mastra-daytona" => &[("workspace_id", true, &[]), ("api_key_ref", true, &[])],
        "mastra-blaxel" => &[("workspace", true, &[]), ("api_key_ref", true, &[])],
        _ => return None,
    })
}

fn config_shape<'d>(ctx: &Context<'d>, provider: &str, config: &'d Entry) {
    let Some(fields) = config_fields(provider) else {
        return;
    };
    if !config.value.is_map() {
        return;
    }
    let names = || fields.iter().map(|(name, ..)| *name);
    let entries = config.value.entries();
    // What is written under another name is one mistake, told at that name.
    let mut mistaken: Vec<&str> = Vec::new();
    for entry in entries {
        let field = fields.iter().find(|(name, ..)| *name == entry.key);
        let Some((name, _, accepted)) = field else {
            if is_secret_name(&entry.key) {
                mistaken.extend(names().filter(|n| n.ends_with("_ref")));
                continue;
            }
            let meant = closest_of(&entry.key, names().filter(|n| !config.value.has(n)));
            mistaken.extend(meant);
            let help = match meant {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("known here: {}", one_of(&names().collect::<Vec<_>>())),
            };
            ctx.report(
                Draft::new(
                    &SB36_CONFIG_SHAPE,
                    entry,
                    format!("`{}` is not in the config of `{provider}`", entry.key),
                )
                .help(help),
            );
            continue;
        };
        let text = entry.value.as_str();
        let fits = text.is_some_and(|t| accepted.is_empty() || accepted.contains(&t));
        if !fits {
            let message = match text {
                Some(text) => format!("`{text}` is not a `{name}` of `{provider}`"),
                None => format!("`{name}` of `{provider}` must be a string"),
            };
            let draft = Draft::new(&SB36_CONFIG_SHAPE, &entry.value, message);
            ctx.report(if accepted.is_empty() {
                draft.help("put it in quotes")
            } else {
                draft.help(format!("allowed: {}", one_of(accepted)))
            });
        }
    }
    let missing: Vec<&str> = fields
        .iter()
        .filter(|(name, required, _)| *required && !config.value.has(name))
        .map(|(name, ..)| *name)
        .filter(|name| !mistaken.contains(name))
        .collect();
    if !missing.is_empty() {
        let list: Vec<String> = missing.iter().map(|name| format!("`{name}`")).collect();
        ctx.report(
            Draft::new(
                &SB36_CONFIG_SHAPE,
                config,
                format!("the config of `{provider}` lacks {}", list.join(" and ")),
            )
            .help(format!(
                "AIP-36 gives `{provider}` the fields {}",
                names()
                    .map(|n| format!("`{n}`"))
                    .collect::<Vec<_>>()
                    .join(", ")
            )),
        );
    }
}

fn pause<'d>(ctx: &Context<'d>, block: &'d Node, provider: &str) {
    if !matches!(
        provider,
        "local" | "mastra-e2b" | "mastra-blaxel" | "node-permission"
    ) {
        return;
    }
    let Some(lifecycle) = block.get("lifecycle") else {
        return;
    };
    let names = ["pause_after_idle"].into_iter().chain(PAUSE_OLD);
    if let Some(entry) = names.into_iter().find_map(|name| lifecycle.entry(name)) {
        ctx.report(
            Draft::new(
                &SB36_LIFECYCLE_UNSUPPORTED,
                entry,
                format!("`{provider}` cannot pause a sandbox and ignores this"),
            )
            .help("remove it, or choose a provider that can: `mastra-modal` or `mastra-daytona`"),
        );
    }
}

fn lifecycle<'d>(ctx: &Context<'d>, block: &'d Node) {
    let Some(lifecycle) = block.entry("lifecycle") else {
        return;
    };
    for entry in lifecycle.value.entries() {
        let key = entry.key.as_str();
        let (new, value) = if PAUSE_OLD.contains(&key) {
            // `idle-N` counts whole seconds; a fraction has no exact counterpart.
            let ms = entry.value.as_int().filter(|ms| *ms > 0 && ms % 1000 == 0);
            (
                "pause_after_idle",
                ms.map(|ms| format!("idle-{}", ms / 1000)),
            )
        } else if DESTROY_OLD.contains(&key) {
            let on = entry.value.as_bool();
            (
                "destroy_on",
                on.map(|on| {
                    if on {
                        "workspace-close".to_owned()
                    } else {
                        String::new()
                    }
                }),
            )
        } else {
            continue;
        };
        let draft = Draft::new(
            &SB36_LIFECYCLE_LEGACY_KEYS,
            entry,
            format!("`{key}` is an old name; the schema has `{new}`"),
        );
        ctx.report(match value.as_deref() {
            None => draft.help("write `pause_after_idle: idle-N` (seconds) or `destroy_on: EVENT`"),
            Some("") => draft
                .help(format!(
                    "remove it: without `{new}` nothing is destroyed early"
                ))
                .fix_if(
                    Safety::Safe,
                    format!("Remove `{key}`"),
                    remove(ctx, block, lifecycle, entry),
                ),
            Some(_) if lifecycle.value.has(new) => draft
                .help(format!("remove it: `{new}` is there already"))
                .fix_if(
                    Safety::Safe,
                    format!("Remove `{key}`"),
                    remove(ctx, block, lifecycle, entry),
                ),
            Some(value) => draft.help(format!("write `{new}: {value}`")).fix_if(
                Safety::Safe,
                format!("Replace by `{new}: {value}`"),
                replace(ctx, entry, new, value),
            ),
        });
    }
}

fn replace(ctx: &Context<'_>, entry: &Entry, key: &str, value: &str) -> Option<Vec<Edit>> {
    let mut all = edits::rename_key(ctx.doc, entry, key)?;
    all.extend(edits::set_raw(ctx.doc, &entry.value, value)?);
    Some(all)
}

/// A mapping that loses its last key goes as a whole: `lifecycle:` alone would be null.
fn remove(ctx: &Context<'_>, block: &Node, holder: &Entry, entry: &Entry) -> Option<Vec<Edit>> {
    if holder.value.entries().len() == 1 {
        edits::remove_entry(ctx.doc, block, holder)
    } else {
        edits::remove_entry(ctx.doc, &holder.value, entry)
    }
}

/// More mounts than a sandbox has; what they may hide is looked for among the first ones.
const MOST_MOUNTS: usize = 500;

fn mounts<'d>(ctx: &Context<'d>, block: &'d Node) {
    let mounts = block.get("mounts").map_or(&[][..], Node::items);
    for (i, mount) in mounts.iter().enumerate() {
        let Some(at) = mount.get("at") else {
            continue;
        };
        let Some(path) = at.as_str() else {
            continue;
        };
        let problem = if !path.starts_with('/') {
            Some("is not absolute")
        } else if path.split('/').any(|part| part == "..") {
            Some("contains `..`")
        } else {
            None
        };
        if let Some(problem) = problem {
            ctx.report(
                Draft::new(
                    &SB36_MOUNT_AT,
                    at,
                    format!("the mount point `{path}` {problem}"),
                )
                .help("write the full path inside the sandbox, such as `/workspace`"),
            );
            continue;
        }
        let earlier = mounts.iter().take(i.min(MOST_MOUNTS));
        let hidden = earlier
            .filter_map(|m| m.get("at"))
            .find(|other| other.as_str().is_some_and(|other| covers(path, other)));
        if let Some(hidden) = hidden {
            ctx.report(
                Draft::new(
                    &SB36_MOUNT_OVERLAP,
                    at,
                    format!("the mount at `{path}` hides an earlier one"),
                )
                .help("mount the outer path first, and each path once")
                .nearby(hidden.span, "hidden by it"),
            );
        }
    }
}

/// Whether `outer` is `inner` or a directory above it, as paths.
fn covers(outer: &str, inner: &str) -> bool {
    fn parts(path: &str) -> impl Iterator<Item = &str> {
        path.split('/').filter(|p| !p.is_empty() && *p != ".")
    }
    let mut inner_parts = parts(inner);
    inner.starts_with('/') && parts(outer).all(|part| inner_parts.next() == Some(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_covers_what_is_below_it() {
        assert!(covers("/a", "/a"));
        assert!(covers("/a/", "/a/./b"));
        assert!(covers("/", "/a"));
        assert!(!covers("/a/b", "/a"));
        assert!(!covers("/ab", "/abc"));
        assert!(!covers("/a", "a/b"));
    }
}
