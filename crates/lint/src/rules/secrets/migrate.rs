//! Converts the old `slots` form to `secrets`. Fields that AIP-19 does not define are kept as
//! comments.

use crate::context::Location;
use crate::finding::Edit;
use crate::{edits, shape};
use agentproto_manifest::{Doctype, Document, Entry, Node, Span, Style};

/// Top-level keys of the old form.
pub const OLD_KEYS: [&str; 7] = [
    "name",
    "id",
    "description",
    "version",
    "slots",
    "constraints",
    "tags",
];

const ENTRY_KEYS: [&str; 10] = [
    "slug",
    "name",
    "description",
    "kind",
    "backend",
    "access",
    "audit",
    "tags",
    "metadata",
    "exposures",
];

/// The edits of the conversion. `None` if the result would not be a valid SECRETS.md.
pub fn to_secrets(doc: &Document, root: &Node) -> Option<Vec<Edit>> {
    let slots = root.entry("slots")?;
    if root.has("secrets") || slots.value.style != Style::Block {
        return None;
    }
    let newline = if doc.text.contains("\r\n") {
        "\r\n"
    } else {
        "\n"
    };
    let mut all = vec![Edit {
        span: slots.key_span,
        text: "secrets".to_owned(),
    }];
    for entry in root.entries() {
        if entry.key != "slots" && OLD_KEYS.contains(&entry.key.as_str()) {
            all.extend(comment_out(doc, entry)?);
        }
    }
    for slot in slots.value.items() {
        all.extend(migrate_slot(doc, slot, newline)?);
    }
    is_valid(doc, &all).then_some(all)
}

fn migrate_slot(doc: &Document, slot: &Node, newline: &str) -> Option<Vec<Edit>> {
    let described = |name: &str| edits::string(&format!("Variable {name}."));
    if let Some(name) = slot.as_str() {
        let indent = " ".repeat(column(doc, slot.span));
        let lines = [
            format!("slug: {}", slug(name)),
            format!("name: {name}"),
            format!("description: {}", described(name)),
        ];
        return Some(vec![Edit {
            span: slot.span,
            text: lines.join(&format!("{newline}{indent}")),
        }]);
    }
    let name = slot.entry("name")?;
    let text = name.value.as_str()?;
    let indent = " ".repeat(column(doc, name.key_span));
    let mut added = String::new();
    if !slot.has("slug") {
        added.push_str(&format!("slug: {}{newline}{indent}", slug(text)));
    }
    if !slot.has("description") {
        added.push_str(&format!(
            "description: {}{newline}{indent}",
            described(text)
        ));
    }
    let mut all = vec![Edit {
        span: Span::empty(name.key_span.start as usize),
        text: added,
    }];
    for entry in slot.entries() {
        if !ENTRY_KEYS.contains(&entry.key.as_str()) {
            all.extend(comment_out(doc, entry)?);
        }
    }
    Some(all)
}

/// The slug of a variable by the convention of AIP-19: `STRIPE_API_KEY` → `stripe-api-key`.
fn slug(variable: &str) -> String {
    variable.to_ascii_lowercase().replace('_', "-")
}

fn line_start(doc: &Document, at: usize) -> usize {
    let before = doc.text.get(..at).unwrap_or_default();
    before.rfind('\n').map_or(0, |newline| newline + 1)
}

fn column(doc: &Document, span: Span) -> usize {
    span.start as usize - line_start(doc, span.start as usize)
}

/// Puts `# ` before each line of an entry. `None` if other text precedes it on its first line.
fn comment_out(doc: &Document, entry: &Entry) -> Option<Vec<Edit>> {
    let span = entry.span();
    let from = line_start(doc, span.start as usize);
    let indent = span.start as usize - from;
    let lead = doc.text.get(from..span.start as usize)?;
    if !lead.bytes().all(|b| b == b' ') {
        return None;
    }
    let mut all = Vec::new();
    let mut at = from;
    for line in doc.text.get(from..span.end as usize)?.split_inclusive('\n') {
        if !line.trim().is_empty() {
            let own = line.len() - line.trim_start_matches(' ').len();
            all.push(Edit {
                span: Span::empty(at + own.min(indent)),
                text: "# ".to_owned(),
            });
        }
        at += line.len();
    }
    Some(all)
}

/// Whether the edited file is a valid SECRETS.md without duplicate slugs.
fn is_valid(doc: &Document, changes: &[Edit]) -> bool {
    let Some(text) = edits::apply_edits(&doc.text, changes) else {
        return false;
    };
    let edited = Document::parse(&doc.path, text);
    let Some(root) = edited.root.as_ref().filter(|_| edited.problems.is_empty()) else {
        return false;
    };
    let shapes = shape::shapes_for(Doctype::Secrets);
    let entries = root.get("secrets").map_or(&[][..], Node::items);
    let slugs: Vec<_> = entries.iter().filter_map(|e| e.str_at(&["slug"])).collect();
    shape::violations(shapes, root, Location::Bytes(Span::default())).is_empty()
        && slugs
            .iter()
            .enumerate()
            .all(|(i, slug)| !slugs.iter().take(i).any(|s| s == slug))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn migrate(yaml: &str) -> Option<String> {
        let doc = Document::parse("SECRETS.md", format!("---\n{yaml}---\n\nBody.\n"));
        let changes = to_secrets(&doc, doc.root.as_ref()?)?;
        edits::apply_edits(&doc.text, &changes)
    }

    #[test]
    fn slots_become_secrets_and_other_fields_become_comments() {
        let old = "name: x-secrets\n\
                   description: >-\n  Two\n  lines.\n\
                   slots:\n\
                   \x20 # For the models.\n\
                   \x20 - name: X_API_KEY\n    description: Pays.\n    required: false\n\
                   \x20 - name: Y_TOKEN\n    description: Opens.\n\
                   constraints:\n  - kind: at-least-one-of\n    of: [X_API_KEY, Y_TOKEN]\n\
                   tags: [x]\n";
        let new = "---\n# name: x-secrets\n\
                   # description: >-\n#   Two\n#   lines.\n\
                   secrets:\n\
                   \x20 # For the models.\n\
                   \x20 - slug: x-api-key\n    name: X_API_KEY\n    description: Pays.\n    # required: false\n\
                   \x20 - slug: y-token\n    name: Y_TOKEN\n    description: Opens.\n\
                   # constraints:\n#   - kind: at-least-one-of\n#     of: [X_API_KEY, Y_TOKEN]\n\
                   # tags: [x]\n---\n\nBody.\n";
        assert_eq!(migrate(old).as_deref(), Some(new));
    }

    #[test]
    fn line_endings_are_kept_and_bare_names_get_fields() {
        let old = "slots:\r\n  - X_KEY\r\n  - name: Y_KEY # ours\r\n";
        let doc = Document::parse("SECRETS.md", format!("---\r\n{old}---\r\n"));
        let root = doc.root.as_ref().expect("readable");
        let changes = to_secrets(&doc, root).expect("a migration");
        let new = edits::apply_edits(&doc.text, &changes).expect("applies");
        let entries = "secrets:\r\n  - slug: x-key\r\n    name: X_KEY\r\n    description: Variable X_KEY.\r\n  \
                       - slug: y-key\r\n    description: Variable Y_KEY.\r\n    name: Y_KEY # ours\r\n";
        assert_eq!(new, format!("---\r\n{entries}---\r\n"));
    }

    #[test]
    fn invalid_slots_are_not_migrated() {
        assert_eq!(migrate("slots: [{ name: A_KEY, description: x }]\n"), None);
        assert_eq!(
            migrate("slots:\n  - required: true\n    name: A_KEY\n"),
            None
        );
        assert_eq!(
            migrate("slots:\n  - name: 9KEY\n    description: x\n"),
            None
        );
        assert_eq!(migrate("slots:\n  - name: A_KEY\n  - name: A_KEY\n"), None);
        assert_eq!(migrate("slots:\n"), None);
    }
}
