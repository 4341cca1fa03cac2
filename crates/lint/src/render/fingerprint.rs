//! A name for a finding that survives edits elsewhere in the file.

use std::collections::HashMap;

use agentproto_report::fingerprint::{digest, hex};

use crate::Report;
use crate::render::{Meta, message};

/// One per finding, in the report's order: SHA-256 over rule, file, pointer and message, not
/// over lines. Equal findings are told apart by their order.
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
