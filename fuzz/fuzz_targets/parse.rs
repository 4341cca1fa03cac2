//! Any bytes: parsing ends, spans are sound, and the two YAML readers agree.
#![no_main]

use agentproto::manifest::Document;
use agentproto::manifest::yaml::{parse_quick, parse_with_library};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let doc = Document::from_bytes("AGENT-CLI.md", data.to_vec());
    for problem in &doc.problems {
        assert!(doc.text.get(problem.span.range()).is_some());
    }
    if let Some(front) = doc.front {
        let source = doc.slice(front.yaml);
        if let Some(quick) = parse_quick(source, 0) {
            assert_eq!(quick, parse_with_library(source, 0));
        }
    }
});
