//! The lint rules, grouped into families. A source file contains one rule or a small group of
//! related rules: the records, the messages for schema violations, and the check. The page of a
//! rule, with its examples, is the file `<slug>.md` in the directory of the family. Each family
//! lists its rules and checks, and [`FAMILIES`] lists the families.

pub mod acp;
pub mod auth;
pub mod commands;
pub mod continuation;
pub mod document;
#[doc(hidden)]
pub mod faulty;
pub mod fields;
pub mod host;
pub mod identity;
pub mod ignores;
pub mod install;
pub mod models;
pub mod modes;
pub mod operator;
pub mod options;
pub mod output29;
pub mod protocol;
pub mod refs;
pub mod registry_wide;
pub mod runner;
pub mod sandbox29;
pub mod sandbox36;
pub mod sandbox45;
pub mod secrets;
pub mod session;
pub mod setup;
pub mod version_check;

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
    &faulty::FAMILY,
];
