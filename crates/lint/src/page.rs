//! Reads the sections of a rule's page, which is Markdown with fixed headings.

use crate::rule::Example;

/// The text between a second-level heading and the next one. Empty if there is no such heading.
pub fn section(page: &'static str, heading: &str) -> &'static str {
    let (mut from, mut at, mut fence) = (None, 0, None);
    for line in page.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let text = line.trim_end();
        if fence.is_some() {
            fence = fence.filter(|open| *open != text);
        } else if text.starts_with("```") {
            fence = Some(fence_of(text));
        } else if let Some(name) = text.strip_prefix("## ") {
            match from {
                Some(from) => return page[from..start].trim_matches('\n'),
                None if name == heading => from = Some(at),
                None => {}
            }
        }
    }
    from.map_or("", |from| page[from..].trim_matches('\n'))
}

/// Parses an example: "Over" or "Whole", then the bundle and its file in backticks, then a fenced
/// block. Returns [`Example::NONE`] for any other text; a test rejects such a page.
pub fn example(section: &'static str) -> Example {
    read_example(section).unwrap_or(Example::NONE)
}

fn read_example(section: &'static str) -> Option<Example> {
    let (place, fenced) = section.split_once("\n\n")?;
    let (kind, path) = place.split_once('`')?;
    let (bundle, file) = path.split_once('`')?.0.split_once('/')?;
    let (open, text) = fenced.split_once('\n')?;
    let text = text.strip_suffix(fence_of(open))?;
    match kind {
        "Over " => Some(Example::over(bundle, file, text)),
        "Whole " => Some(Example::file(bundle, file, text)),
        _ => None,
    }
}

fn fence_of(line: &str) -> &str {
    let end = line.find(|c| c != '`').unwrap_or(line.len());
    &line[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# leash\n\n## What it checks\n\nThe `leash`.\n\n## Example\n\n\
        Whole `harbor/x/ACP.md`:\n\n````markdown\n---\na: 1\n---\n\n## Why\n\n```\n```\n````\n\n\
        ## Why\n\nOne.\n\nTwo.\n";

    #[test]
    fn headings_inside_fences_are_not_sections() {
        assert_eq!(section(PAGE, "What it checks"), "The `leash`.");
        assert_eq!(section(PAGE, "Why"), "One.\n\nTwo.");
        assert_eq!(section(PAGE, "Notes"), "");
    }

    #[test]
    fn examples_return_the_fenced_text_unchanged() {
        let example = example(section(PAGE, "Example"));
        assert_eq!((example.bundle, example.file), ("harbor", "x/ACP.md"));
        assert!(example.whole);
        assert_eq!(example.text, "---\na: 1\n---\n\n## Why\n\n```\n```\n");
        assert_eq!(super::example("").bundle, "");
    }

    #[test]
    fn an_example_starts_with_over_or_whole() {
        let over = example("Over `harbor/ACP.md`:\n\n```yaml\na: 1\n```");
        assert_eq!((over.bundle, over.whole), ("harbor", false));
        let other = example("In `harbor/ACP.md`:\n\n```yaml\na: 1\n```");
        assert_eq!(other.bundle, "");
    }
}
