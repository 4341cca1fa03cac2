//! An egress entry is not a host name or a glob.

use super::values::EgressError;
use super::{BOTH, SANDBOX};
use crate::context::FindingDraft;
use crate::rule::{FixKind, Rule};
use agentproto_manifest::Node;
use agentproto_text::truncate;

pub static EGRESS_CIDR_PORT_SCHEME: Rule = Rule {
    slug: "sb29-egress-cidr-port-scheme",
    title: "An egress entry is not a host name or a glob",
    source: SANDBOX,
    decides: &["A29-SBX-03"],
    doctypes: BOTH,
    fix: FixKind::Suggest,
    docs: include_str!("sb29-egress-cidr-port-scheme.md"),
    ..Rule::BASE
};

/// A finding of `rule`, which checks the same in another format.
pub fn egress_report<'d>(
    rule: &'static Rule,
    node: &'d Node,
    host: &str,
    error: EgressError<'_>,
) -> FindingDraft<'d> {
    let (what, help) = match error {
        EgressError::Empty => (
            "is empty".to_owned(),
            "write a host name, or remove the entry".to_owned(),
        ),
        EgressError::Scheme(name) => (
            "has a scheme, but only host names and globs are allowed".to_owned(),
            format!("write `{name}`"),
        ),
        EgressError::Cidr => (
            "is a CIDR block, but only host names and globs are allowed".to_owned(),
            "list the host names instead".to_owned(),
        ),
        EgressError::Path(name) => (
            "has a path, but only host names and globs are allowed".to_owned(),
            format!("write `{name}`"),
        ),
        EgressError::Port(name) => (
            "has a port, but only host names and globs are allowed".to_owned(),
            format!("write `{name}`"),
        ),
        EgressError::Character(c) => (
            format!("contains the character `{c}`, which is not allowed in host names and globs"),
            "write a host name, or a glob such as `*.example.com`".to_owned(),
        ),
    };
    let host = truncate(host, 60);
    FindingDraft::new(rule, node, format!("the egress entry `{host}` {what}")).help(help)
}
