//! `config` does not match its provider.

use super::{BLOCKS, aip36};
use crate::context::{FindingDraft, RuleContext};
use crate::rule::{Rule, Scope, Severity};
use agentproto_manifest::Entry;
use agentproto_text::credentials::is_secret_name;
use agentproto_text::{closest_of, one_of};

pub static SB36_CONFIG_SHAPE: Rule = Rule {
    slug: "sb36-config-shape",
    title: "`config` does not match its provider",
    severity: Severity::Warning,
    source: aip36("Provider config shapes"),
    doctypes: BLOCKS,
    scope: Scope::CrossField,
    docs: include_str!("sb36-config-shape.md"),
    ..Rule::BASE
};

/// Field of a provider's config: its name, whether it is required, and its accepted values (empty
/// if any value is accepted).
type ConfigField = (&'static str, bool, &'static [&'static str]);

/// The config fields of a provider. `None` if AIP-36 does not define them.
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

pub(super) fn config_shape<'d>(ctx: &RuleContext<'d>, provider: &str, config: &'d Entry) {
    let Some(fields) = config_fields(provider) else {
        return;
    };
    if !config.value.is_map() {
        return;
    }
    let names = || fields.iter().map(|(name, ..)| *name);
    let entries = config.value.entries();
    // Fields that are present under a wrong name. They are reported at that name, not as missing.
    let mut misplaced: Vec<&str> = Vec::new();
    for entry in entries {
        let field = fields.iter().find(|(name, ..)| *name == entry.key);
        let Some((name, _, accepted)) = field else {
            if is_secret_name(&entry.key) {
                misplaced.extend(names().filter(|n| n.ends_with("_ref")));
                continue;
            }
            let meant = closest_of(&entry.key, names().filter(|n| !config.value.has(n)));
            misplaced.extend(meant);
            let help = match meant {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("expected {}", one_of(&names().collect::<Vec<_>>())),
            };
            ctx.report(
                FindingDraft::new(
                    &SB36_CONFIG_SHAPE,
                    entry,
                    format!(
                        "unknown field `{}` in the config of `{provider}`",
                        entry.key
                    ),
                )
                .help(help),
            );
            continue;
        };
        let text = entry.value.as_str();
        let fits = text.is_some_and(|t| accepted.is_empty() || accepted.contains(&t));
        if !fits {
            let message = match text {
                Some(text) => format!("invalid value `{text}` for `{name}` of `{provider}`"),
                None => format!("`{name}` of `{provider}` must be a string"),
            };
            let draft = FindingDraft::new(&SB36_CONFIG_SHAPE, &entry.value, message);
            ctx.report(if accepted.is_empty() {
                draft.help("put it in quotes")
            } else {
                draft.help(format!("expected {}", one_of(accepted)))
            });
        }
    }
    let missing: Vec<&str> = fields
        .iter()
        .filter(|(name, required, _)| *required && !config.value.has(name))
        .map(|(name, ..)| *name)
        .filter(|name| !misplaced.contains(name))
        .collect();
    if !missing.is_empty() {
        let list: Vec<String> = missing.iter().map(|name| format!("`{name}`")).collect();
        ctx.report(
            FindingDraft::new(
                &SB36_CONFIG_SHAPE,
                config,
                format!(
                    "missing required field {} in the config of `{provider}`",
                    list.join(" and ")
                ),
            )
            .help(format!(
                "AIP-36 defines these fields for `{provider}`: {}",
                names()
                    .map(|n| format!("`{n}`"))
                    .collect::<Vec<_>>()
                    .join(", ")
            )),
        );
    }
}
