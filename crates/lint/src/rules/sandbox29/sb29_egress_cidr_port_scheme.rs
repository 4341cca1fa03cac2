//! An egress entry is not a host name or a glob of one.

use super::words::EgressFault;
use super::{BOTH, SANDBOX};
use crate::context::Draft;
use crate::rule::{FixKind, Rule};
use agentproto_manifest::Node;
use agentproto_text::short;

pub static EGRESS_CIDR_PORT_SCHEME: Rule = Rule {
    slug: "sb29-egress-cidr-port-scheme",
    title: "An egress entry is not a host name or a glob of one",
    source: SANDBOX,
    decides: &["A29-SBX-03"],
    doctypes: BOTH,
    fix: FixKind::Suggest,
    docs: include_str!("sb29-egress-cidr-port-scheme.md"),
    ..Rule::BASE
};

pub(super) fn egress_report<'d>(node: &'d Node, host: &str, fault: EgressFault<'_>) -> Draft<'d> {
    let (what, help) = match fault {
        EgressFault::Empty => (
            "is empty".to_owned(),
            "name a host, or remove the entry".to_owned(),
        ),
        EgressFault::Scheme(name) => (
            "has a scheme; egress takes host names and globs only".to_owned(),
            format!("write `{name}`"),
        ),
        EgressFault::Cidr => (
            "is a CIDR block; version 1 takes host names and globs only".to_owned(),
            "name the hosts instead".to_owned(),
        ),
        EgressFault::Path(name) => (
            "has a path; egress takes host names and globs only".to_owned(),
            format!("write `{name}`"),
        ),
        EgressFault::Port(name) => (
            "has a port; version 1 has no rules for ports".to_owned(),
            format!("write `{name}`"),
        ),
        EgressFault::Character(c) => (
            format!("has the character `{c}`, which no host name or glob has"),
            "write a host name, or a glob such as `*.example.com`".to_owned(),
        ),
    };
    let host = short(host, 60);
    Draft::new(
        &EGRESS_CIDR_PORT_SCHEME,
        node,
        format!("the egress entry `{host}` {what}"),
    )
    .help(help)
}
