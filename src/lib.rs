//! agentproto: lint agent manifests, run the agents they describe, certify what they do.
//!
//! Rooms and their doors: `manifest` depends on nothing; `lint` on `manifest`;
//! `report` renders what `lint` found; `cli` calls the rooms.

pub mod cli;
pub mod exit;
pub mod lint;
pub mod manifest;
pub mod report;
