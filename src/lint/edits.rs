//! Byte edits that change one value and leave comments, order and style alone.
//! Each returns `None` where the way the file is written leaves no safe edit.

use super::finding::Edit;
use crate::manifest::{Document, Entry, Node};

/// Gives a scalar another text, in its own quotes where these can hold it.
pub fn set_scalar(_doc: &Document, _node: &Node, _text: &str) -> Option<Vec<Edit>> {
    None
}

/// Turns a plain scalar that YAML reads as another type into a string: `123` → `"123"`.
pub fn quote(_doc: &Document, _node: &Node) -> Option<Vec<Edit>> {
    None
}

/// Replaces a value by YAML text as it stands (one line).
pub fn set_raw(_doc: &Document, _node: &Node, _yaml: &str) -> Option<Vec<Edit>> {
    None
}

pub fn rename_key(_doc: &Document, _entry: &Entry, _name: &str) -> Option<Vec<Edit>> {
    None
}

/// Removes a key with its value, and in block style its line(s).
pub fn remove_entry(_doc: &Document, _map: &Node, _entry: &Entry) -> Option<Vec<Edit>> {
    None
}

/// Removes an item of a list.
pub fn remove_item(_doc: &Document, _list: &Node, _item: &Node) -> Option<Vec<Edit>> {
    None
}

/// Appends a string to a list of scalars, in the list's own style.
pub fn append_item(_doc: &Document, _list: &Node, _text: &str) -> Option<Vec<Edit>> {
    None
}

/// Adds a key at the end of a mapping (which may be the root). `yaml` is one line, or
/// several lines indented relative to the key.
pub fn add_entry(_doc: &Document, _map: &Node, _key: &str, _yaml: &str) -> Option<Vec<Edit>> {
    None
}

/// How a string is written as a one-line YAML value: plain where that is unambiguous.
pub fn string(_text: &str) -> String {
    String::new()
}
