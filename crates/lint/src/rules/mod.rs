//! The lint rules, grouped into families. A source file contains one rule or a small group of
//! related rules: the records, the messages for schema violations, and the check. The page of a
//! rule, with its examples, is the file `<slug>.md` in the directory of the family. Each family
//! lists its rules and checks, and [`FAMILIES`] lists the families.

pub(crate) mod acp;
pub(crate) mod auth;
pub(crate) mod commands;
pub(crate) mod continuation;
pub(crate) mod document;
pub(crate) mod fields;
pub mod host;
pub(crate) mod identity;
pub(crate) mod ignores;
pub(crate) mod install;
pub(crate) mod models;
pub(crate) mod modes;
pub(crate) mod operator;
pub(crate) mod options;
pub(crate) mod output29;
#[doc(hidden)]
pub mod panicking;
pub(crate) mod protocol;
pub(crate) mod refs;
pub mod registry_wide;
pub(crate) mod runner;
pub(crate) mod sandbox29;
pub(crate) mod sandbox36;
pub(crate) mod sandbox45;
pub(crate) mod secrets;
pub(crate) mod session;
pub(crate) mod setup;
pub(crate) mod version_check;

use crate::registry::Family;

/// All rule families.
pub static FAMILIES: &[&Family] = &[
    &document::FAMILY,
    &fields::FAMILY,
    &refs::FAMILY,
    &identity::FAMILY,
    &install::FAMILY,
    &version_check::FAMILY,
    &auth::FAMILY,
    &setup::FAMILY,
    &sandbox29::FAMILY,
    &commands::FAMILY,
    &output29::FAMILY,
    &runner::FAMILY,
    &acp::FAMILY,
    &protocol::FAMILY,
    &session::FAMILY,
    &modes::FAMILY,
    &options::FAMILY,
    &continuation::FAMILY,
    &models::FAMILY,
    &sandbox36::FAMILY,
    &sandbox45::FAMILY,
    &secrets::FAMILY,
    &operator::FAMILY,
    &registry_wide::FAMILY,
    &ignores::FAMILY,
    &panicking::FAMILY,
];
