//! Fingerprints of findings that do not change when other parts of the file are edited.

use std::collections::HashMap;

use agentproto_report::fingerprint::{digest, hex};

use crate::Report;
use crate::render::{Meta, message};

/// One fingerprint per finding, in report order: the SHA-256 of rule, file, pointer and message.
/// Line numbers are not included. Identical findings are distinguished by their order.
pub fn fingerprints(report: &Report, meta: &Meta) -> Vec<String> {
    let mut seen: HashMap<[u8; 32], u32> = HashMap::new();
    report
        .findings
        .iter()
        .map(|finding| {
            let path = meta.path(&finding.file);
            let parts = [finding.rule.slug, &path, &finding.pointer, message(finding)];
            let identity = digest(&parts.map(str::as_bytes));
            let nth = seen.entry(identity).or_insert(0);
            *nth += 1;
            match *nth {
                1 => hex(&identity),
                n => hex(&digest(&[&identity, &n.to_be_bytes()])),
            }
        })
        .collect()
}
