//! Helpers for JUnit XML.

/// The schema by which Jenkins checks a file knows `skipped` on suites, not on their list.
pub fn without_skipped_total(mut xml: String) -> String {
    let root = xml.find("<testsuites ").and_then(|start| {
        let end = start + xml.get(start..)?.find('>')?;
        let from = start + xml.get(start..end)?.find(" skipped=\"")?;
        let value = from + " skipped=\"".len();
        let to = value + xml.get(value..end)?.find('"')? + 1;
        Some(from..to)
    });
    if let Some(attribute) = root {
        xml.replace_range(attribute, "");
    }
    xml
}
