//! Sandbox blocks (AIP-36): SANDBOX.md, and `sandbox` inline in AGENT-CLI.md.

mod sb36_config_shape;
mod sb36_egress_host;
mod sb36_inline_and_ref;
mod sb36_lifecycle_legacy_keys;
mod sb36_lifecycle_unsupported;
mod sb36_mount;
mod sb36_plaintext_credential;
mod sb36_provider_known;
mod sb36_required;
mod sb36_standalone_fields;

use crate::context::{Location, RuleContext};
use crate::registry::{Family, FamilyCheck};
use crate::rule::Source;
use crate::shape::{Keyword, SchemaViolation, draft};
use agentproto_manifest::{Doctype, Node, SANDBOX_PROVIDERS, Value};
use agentproto_text::credentials::{is_placeholder, is_secret_name, is_token};
use agentproto_text::one_of;

use sb36_config_shape::{SB36_CONFIG_SHAPE, config_shape};
use sb36_egress_host::{SB36_EGRESS_HOST, egress};
use sb36_inline_and_ref::{SB36_INLINE_AND_REF, both_forms};
use sb36_lifecycle_legacy_keys::{SB36_LIFECYCLE_LEGACY_KEYS, lifecycle};
use sb36_lifecycle_unsupported::{SB36_LIFECYCLE_UNSUPPORTED, pause};
use sb36_mount::{SB36_MOUNT_AT, SB36_MOUNT_OVERLAP, mounts};
use sb36_plaintext_credential::{SB36_PLAINTEXT_CREDENTIAL, plaintext};
use sb36_provider_known::{SB36_PROVIDER_KNOWN, known_provider};
use sb36_required::SB36_REQUIRED;
use sb36_standalone_fields::{SB36_STANDALONE_FIELDS, standalone};

pub static FAMILY: Family = Family {
    name: "sandbox36",
    rules: &[
        &SB36_REQUIRED,
        &SB36_PROVIDER_KNOWN,
        &SB36_STANDALONE_FIELDS,
        &SB36_CONFIG_SHAPE,
        &SB36_PLAINTEXT_CREDENTIAL,
        &SB36_EGRESS_HOST,
        &SB36_MOUNT_AT,
        &SB36_MOUNT_OVERLAP,
        &SB36_LIFECYCLE_UNSUPPORTED,
        &SB36_LIFECYCLE_LEGACY_KEYS,
        &SB36_INLINE_AND_REF,
    ],
    checks: &[
        FamilyCheck {
            doctypes: &[Doctype::Sandbox],
            run: check_file,
        },
        FamilyCheck {
            doctypes: &[Doctype::AgentCli],
            run: check_inline,
        },
    ],
};

/// Doctypes with an AIP-36 block: a standalone file, or an inline block in an agent manifest.
const BLOCKS: &[Doctype] = &[Doctype::Sandbox, Doctype::AgentCli];

const fn aip36(section: &'static str) -> Source {
    Source {
        spec: "AIP-36",
        section,
    }
}

const OLD_PAUSE_KEYS: [&str; 2] = ["pause_after_idle_ms", "pauseAfterIdleMs"];

const OLD_DESTROY_KEYS: [&str; 2] = ["destroy_on_workspace_close", "destroyOnWorkspaceClose"];

/// The AIP-36 block of a document.
fn block<'d>(ctx: &RuleContext<'d>) -> Option<&'d Node> {
    match ctx.doctype {
        Doctype::Sandbox => Some(ctx.root),
        Doctype::AgentCli => ctx.sandbox().filter(|n| n.is_map()),
        _ => None,
    }
}

/// Whether a check of this family reports the violation. If so, the general rule must not.
pub fn reported_elsewhere<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) -> bool {
    let Some(block) = block(ctx) else {
        return false;
    };
    match v.keyword {
        Keyword::AdditionalProperties => {
            let Some(entry) = v.entry else {
                return false;
            };
            let key = entry.key.as_str();
            let old = OLD_PAUSE_KEYS.contains(&key) || OLD_DESTROY_KEYS.contains(&key);
            let lifecycle = || block.get("lifecycle");
            (old && lifecycle().is_some_and(|l| std::ptr::eq(l, v.node)))
                || (has_several_forms(block) && std::ptr::eq(block, v.node) && is_form(key))
        }
        Keyword::Required if !std::ptr::eq(block, v.node) => false,
        Keyword::Required => has_several_forms(block) || required(ctx, v),
        Keyword::OneOf => {
            let mounts = block.get("mounts").map_or(&[][..], Node::items);
            let is_source = mounts
                .iter()
                .filter_map(|m| m.get("source"))
                .any(|source| std::ptr::eq(source, v.node));
            is_source && has_several_forms(v.node)
        }
        _ => false,
    }
}

/// Reports a missing required field, with help. Returns false for other fields.
fn required<'d>(ctx: &RuleContext<'d>, v: &SchemaViolation<'d>) -> bool {
    let help = match v.missing.as_deref() {
        Some("provider") => format!("set `provider` to {}", one_of(&SANDBOX_PROVIDERS)),
        Some("config") => {
            "add `config` with the settings of the provider, or `config: {}`".to_owned()
        }
        _ => return false,
    };
    ctx.report(draft(ctx, v).help(help));
    true
}

fn is_form(key: &str) -> bool {
    matches!(key, "inline" | "ref" | "file")
}

fn has_several_forms(node: &Node) -> bool {
    node.entries().iter().filter(|e| is_form(&e.key)).count() > 1
}

fn check_file(ctx: &RuleContext<'_>) {
    standalone(ctx);
    check_block(ctx, ctx.root);
}

fn check_inline(ctx: &RuleContext<'_>) {
    if let Some(block) = block(ctx) {
        check_block(ctx, block);
    }
}

fn check_block<'d>(ctx: &RuleContext<'d>, block: &'d Node) {
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
    egress(ctx, block);
    lifecycle(ctx, block);
    mounts(ctx, block);
}

/// Searches all texts of the block for credentials. Findings contain the key, never the value.
fn credentials<'d>(ctx: &RuleContext<'d>, node: &'d Node) {
    match &node.value {
        Value::Map(entries) => {
            for entry in entries {
                match &entry.value.value {
                    Value::Str(text) => {
                        let named = is_secret_name(&entry.key) && !is_placeholder(text);
                        if named || is_token(text) {
                            plaintext(ctx, Location::Key(entry), &format!("`{}`", entry.key));
                        }
                    }
                    // A number under a key such as `password` is also a credential.
                    Value::Int(_) if is_secret_name(&entry.key) => {
                        plaintext(ctx, Location::Key(entry), &format!("`{}`", entry.key));
                    }
                    _ => credentials(ctx, &entry.value),
                }
            }
        }
        Value::Seq(items) => {
            for item in items {
                match item.as_str() {
                    Some(text) if is_token(text) => {
                        plaintext(ctx, Location::Value(item), "this item");
                    }
                    Some(_) => {}
                    None => credentials(ctx, item),
                }
            }
        }
        _ => {}
    }
}

/// Whether the path `outer` is equal to `inner` or is one of its parent directories.
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
    fn a_mount_covers_the_paths_below_it() {
        assert!(covers("/a", "/a"));
        assert!(covers("/a/", "/a/./b"));
        assert!(covers("/", "/a"));
        assert!(!covers("/a/b", "/a"));
        assert!(!covers("/ab", "/abc"));
        assert!(!covers("/a", "a/b"));
    }
}
