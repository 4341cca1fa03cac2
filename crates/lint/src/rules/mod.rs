//! The rules by family. A file holds one rule or a tight group: the record, the words for schema
//! violations and the check. Beside it `<slug>.md` is the rule's page with its examples. Each
//! family names its rules and checks; `FAMILIES` is the explicit table.

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
