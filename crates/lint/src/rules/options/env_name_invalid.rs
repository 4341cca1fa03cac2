//! Rule `env-name-invalid`: an environment variable has an invalid name.

use super::BASE;
use crate::context::{FindingDraft, Location};
use crate::rule::{Level, Rule, Scope};
use agentproto_text::truncate;

pub static ENV_NAME_INVALID: Rule = Rule {
    slug: "env-name-invalid",
    title: "An environment variable has an invalid name",
    level: Level::Derived,
    scope: Scope::Field,
    docs: include_str!("env-name-invalid.md"),
    ..BASE
};

pub(super) fn bad_env_name<'d>(place: Location<'d>, name: &str) -> FindingDraft<'d> {
    let message = format!("invalid environment variable name `{}`", truncate(name, 40));
    FindingDraft::new(&ENV_NAME_INVALID, place, message)
        .help("use letters, digits and `_`, and do not start with a digit")
}
