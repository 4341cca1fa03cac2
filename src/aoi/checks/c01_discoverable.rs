//! Check 1: schema and capabilities without credentials and without a network.

use crate::aoi::rules::Rule;
use crate::aoi::session::Session;

pub const RULES: &[&Rule] = &[];

pub async fn check(_session: &Session) {}
