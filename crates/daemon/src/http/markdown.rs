//! Parses Markdown for the dashboard. The result is a tree of known elements, from which the page
//! makes elements with text. So no text of an agent is ever parsed as HTML.

use pulldown_cmark::{Alignment, CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ApiError;

/// Maximum number of texts in a request.
const MAX_TEXTS: usize = 64;
/// Maximum size of one text in bytes.
const MAX_TEXT: usize = 256 << 10;
/// Maximum depth of the tree. Deeper elements are left out, but their text is kept.
const MAX_DEPTH: usize = 24;
/// Maximum number of nodes in the tree of one text.
const MAX_NODES: usize = 4000;
/// Maximum number of characters of one text that can start or end an emphasis. The time of the
/// parser grows with their square.
const MAX_MARKS: usize = 4000;
/// Maximum length of the address of a link in bytes.
const MAX_ADDRESS: usize = 2048;

/// Texts to parse.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Markdown {
    /// At most 64 texts.
    pub texts: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct MarkdownTrees {
    /// One tree for each text, in the same order. Null for a text that is longer than 256 KiB or
    /// has more than 4000 nodes or marks of emphasis.
    #[schemars(with = "Vec<Option<Vec<MarkdownNode>>>")]
    pub trees: Vec<Option<Vec<MarkdownNode>>>,
}

/// A text or an element.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum MarkdownNode {
    Text(String),
    Element(MarkdownElement),
}

#[derive(Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct MarkdownElement {
    /// Name of the HTML element: p, h1 to h6, blockquote, pre, ul, ol, li, table, thead, tr, th, td,
    /// em, strong, del, code, a, br or hr.
    pub tag: &'static str,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<MarkdownNode>,
    /// Target of a link: an address with http, https or mailto.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub href: Option<String>,
    /// Language of a code block.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lang: Option<String>,
    /// Number of the first item of a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<u64>,
    /// Alignment of a table cell: left, center or right.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub align: Option<&'static str>,
    /// Whether the task of a list item is done, if it is a task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checked: Option<bool>,
}

/// Parses all texts. Takes time in proportion to their size.
pub fn parse(request: &Markdown) -> Result<MarkdownTrees, ApiError> {
    if request.texts.len() > MAX_TEXTS {
        return Err(ApiError::bad_request(format!(
            "`texts` has {} items, but at most {MAX_TEXTS} are allowed",
            request.texts.len()
        ))
        .hint("send several requests"));
    }
    Ok(MarkdownTrees {
        trees: request.texts.iter().map(|text| tree(text)).collect(),
    })
}

/// The tree of one text, or `None` if it is too large.
fn tree(text: &str) -> Option<Vec<MarkdownNode>> {
    let marks = text.bytes().filter(|b| matches!(b, b'*' | b'_' | b'~'));
    if text.len() > MAX_TEXT || marks.count() > MAX_MARKS {
        return None;
    }
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_TASKLISTS | Options::ENABLE_STRIKETHROUGH;
    let mut builder = Builder::default();
    for event in Parser::new_ext(text, options) {
        builder.event(event);
        if builder.nodes > MAX_NODES {
            return None;
        }
    }
    builder.flush();
    Some(builder.root)
}

#[derive(Default)]
struct Builder {
    root: Vec<MarkdownNode>,
    open: Vec<MarkdownElement>,
    /// Number of open elements that are deeper than `MAX_DEPTH`.
    skipped: usize,
    /// Text that was not added yet, because the parser splits texts.
    text: String,
    nodes: usize,
    /// Alignments of the columns of the current table, and the current column.
    columns: Vec<Alignment>,
    column: usize,
    is_head: bool,
}

impl Builder {
    fn event(&mut self, event: Event) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(end) => self.end(end),
            // HTML is shown as it is written.
            Event::Text(text)
            | Event::Html(text)
            | Event::InlineHtml(text)
            | Event::InlineMath(text)
            | Event::DisplayMath(text)
            | Event::FootnoteReference(text) => self.text.push_str(&text),
            Event::Code(text) => {
                self.open("code");
                self.text.push_str(&text);
                self.close();
            }
            Event::SoftBreak => self.text.push('\n'),
            Event::HardBreak => self.empty("br"),
            Event::Rule => self.empty("hr"),
            Event::TaskListMarker(checked) => {
                self.flush();
                if self.skipped == 0
                    && let Some(item) = self.open.iter_mut().rev().find(|open| open.tag == "li")
                {
                    item.checked = Some(checked);
                }
            }
        }
    }

    fn start(&mut self, tag: Tag) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.open("p"),
            Tag::Heading { level, .. } => self.open(heading(level)),
            Tag::BlockQuote(_) => self.open("blockquote"),
            Tag::CodeBlock(kind) => {
                let lang = match kind {
                    CodeBlockKind::Fenced(info) => language(&info),
                    CodeBlockKind::Indented => None,
                };
                self.open_element(MarkdownElement {
                    tag: "pre",
                    lang,
                    ..MarkdownElement::default()
                });
            }
            Tag::List(start) => self.open_element(MarkdownElement {
                tag: if start.is_some() { "ol" } else { "ul" },
                start: start.filter(|start| *start != 1),
                ..MarkdownElement::default()
            }),
            Tag::Item => self.open("li"),
            Tag::Table(columns) => {
                self.columns = columns;
                self.open("table");
            }
            Tag::TableHead => {
                self.is_head = true;
                self.column = 0;
                self.open("thead");
                self.open("tr");
            }
            Tag::TableRow => {
                self.column = 0;
                self.open("tr");
            }
            Tag::TableCell => {
                let align = match self.columns.get(self.column) {
                    Some(Alignment::Left) => Some("left"),
                    Some(Alignment::Center) => Some("center"),
                    Some(Alignment::Right) => Some("right"),
                    Some(Alignment::None) | None => None,
                };
                self.column += 1;
                self.open_element(MarkdownElement {
                    tag: if self.is_head { "th" } else { "td" },
                    align,
                    ..MarkdownElement::default()
                });
            }
            Tag::Emphasis => self.open("em"),
            Tag::Strong => self.open("strong"),
            Tag::Strikethrough => self.open("del"),
            // Images become links, because the page loads nothing from other sites.
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.open_element(MarkdownElement {
                    tag: "a",
                    href: safe_address(&dest_url),
                    ..MarkdownElement::default()
                });
            }
            // The other extensions are not enabled.
            _ => self.open("p"),
        }
    }

    fn end(&mut self, end: TagEnd) {
        self.close();
        if end == TagEnd::TableHead {
            // The row in the head.
            self.close();
            self.is_head = false;
        }
    }

    fn open(&mut self, tag: &'static str) {
        self.open_element(MarkdownElement {
            tag,
            ..MarkdownElement::default()
        });
    }

    fn open_element(&mut self, element: MarkdownElement) {
        self.flush();
        self.nodes += 1;
        if self.open.len() >= MAX_DEPTH {
            self.skipped += 1;
        } else {
            self.open.push(element);
        }
    }

    fn close(&mut self) {
        self.flush();
        if self.skipped > 0 {
            self.skipped -= 1;
        } else if let Some(element) = self.open.pop() {
            self.add(MarkdownNode::Element(element));
        }
    }

    fn empty(&mut self, tag: &'static str) {
        self.open(tag);
        self.close();
    }

    fn add(&mut self, node: MarkdownNode) {
        match self.open.last_mut() {
            Some(parent) => parent.children.push(node),
            None => self.root.push(node),
        }
    }

    /// Adds the waiting text. Addresses in it become links, except in code and in links.
    fn flush(&mut self) {
        if self.text.is_empty() {
            return;
        }
        let text = std::mem::take(&mut self.text);
        let is_plain = !self
            .open
            .iter()
            .any(|e| matches!(e.tag, "a" | "code" | "pre"));
        let mut rest = text.as_str();
        while is_plain
            && self.nodes <= MAX_NODES
            && let Some((before, address, after)) = split_address(rest)
        {
            if !before.is_empty() {
                self.nodes += 1;
                self.add(MarkdownNode::Text(before.to_owned()));
            }
            self.nodes += 2;
            self.add(MarkdownNode::Element(MarkdownElement {
                tag: "a",
                href: Some(address.to_owned()),
                children: vec![MarkdownNode::Text(address.to_owned())],
                ..MarkdownElement::default()
            }));
            rest = after;
        }
        if !rest.is_empty() {
            self.nodes += 1;
            self.add(MarkdownNode::Text(rest.to_owned()));
        }
    }
}

fn heading(level: HeadingLevel) -> &'static str {
    match level {
        HeadingLevel::H1 => "h1",
        HeadingLevel::H2 => "h2",
        HeadingLevel::H3 => "h3",
        HeadingLevel::H4 => "h4",
        HeadingLevel::H5 => "h5",
        HeadingLevel::H6 => "h6",
    }
}

/// The language of a code block: the first word of its info string, if it is short.
fn language(info: &str) -> Option<String> {
    let word = info.split([' ', ',', '{', '\t']).next()?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '#' | '_' | '.');
    let is_language = (1..=32).contains(&word.len()) && word.chars().all(is_name);
    is_language.then(|| word.to_ascii_lowercase())
}

/// The address of a link, if its scheme cannot run anything and no character is hidden.
fn safe_address(address: &str) -> Option<String> {
    let lower = address.get(..8).unwrap_or(address).to_ascii_lowercase();
    let is_allowed = ["http://", "https://", "mailto:"]
        .iter()
        .any(|scheme| lower.starts_with(scheme));
    let is_clean = address
        .chars()
        .all(|c| !c.is_control() && !c.is_whitespace());
    (is_allowed && is_clean && address.len() <= MAX_ADDRESS).then(|| address.to_owned())
}

/// Finds the first address with http or https in a text. Returns the text before it, the address and
/// the text after it.
fn split_address(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    while let Some(found) = text[from..].find("http") {
        let at = from + found;
        let tail = &text[at..];
        let scheme = ["https://", "http://"]
            .into_iter()
            .find(|s| tail.starts_with(s));
        let follows_word = text[..at]
            .chars()
            .next_back()
            .is_some_and(char::is_alphanumeric);
        let Some(scheme) = scheme.filter(|_| !follows_word) else {
            from = at + 4;
            continue;
        };
        let is_end = |c: char| c.is_whitespace() || c.is_control() || "<>\"'`|\\^{}".contains(c);
        let window = tail.char_indices().nth(MAX_ADDRESS);
        let window = window.map_or(tail, |(end, _)| &tail[..end]);
        let Some(end) = window
            .find(is_end)
            .or((window.len() == tail.len()).then_some(tail.len()))
        else {
            // Too long for an address.
            from = at + window.len();
            continue;
        };
        if end <= MAX_ADDRESS {
            // Punctuation at the end belongs to the sentence, and so does a bracket without its
            // partner.
            let mut address =
                tail[..end].trim_end_matches(['.', ',', ';', ':', '!', '?', '*', '_']);
            let count = |bracket| address.matches(bracket).count();
            let alone = count(')').saturating_sub(count('('));
            for _ in 0..alone {
                address = address.strip_suffix(')').unwrap_or(address);
            }
            if address.len() > scheme.len() {
                return Some((&text[..at], address, &tail[address.len()..]));
            }
        }
        from = at + scheme.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn json_of(text: &str) -> Value {
        serde_json::to_value(tree(text)).expect("a value")
    }

    #[test]
    fn blocks_and_spans_become_elements() {
        assert_eq!(
            json_of("# A *b*\n\n- [x] done\n- [ ] open\n\n> q\n\n3. c `d` **e** ~~f~~"),
            json!([
                { "tag": "h1", "children": ["A ", { "tag": "em", "children": ["b"] }] },
                { "tag": "ul", "children": [
                    { "tag": "li", "checked": true, "children": ["done"] },
                    { "tag": "li", "checked": false, "children": ["open"] },
                ] },
                { "tag": "blockquote", "children": [{ "tag": "p", "children": ["q"] }] },
                { "tag": "ol", "start": 3, "children": [{ "tag": "li", "children": [
                    "c ", { "tag": "code", "children": ["d"] }, " ",
                    { "tag": "strong", "children": ["e"] }, " ",
                    { "tag": "del", "children": ["f"] },
                ] }] },
            ])
        );
        assert_eq!(
            json_of("| a | b |\n|:-:|---|\n| 1 | `2` |"),
            json!([{ "tag": "table", "children": [
                { "tag": "thead", "children": [{ "tag": "tr", "children": [
                    { "tag": "th", "align": "center", "children": ["a"] },
                    { "tag": "th", "children": ["b"] },
                ] }] },
                { "tag": "tr", "children": [
                    { "tag": "td", "align": "center", "children": ["1"] },
                    { "tag": "td", "children": [{ "tag": "code", "children": ["2"] }] },
                ] },
            ] }])
        );
        assert_eq!(
            json_of("```Rust,ignore\nlet a;\n```"),
            json!([{ "tag": "pre", "lang": "rust", "children": ["let a;\n"] }])
        );
    }

    #[test]
    fn html_is_text_and_images_are_links() {
        assert_eq!(
            json_of("a <b onclick=x>c</b>\n\n<script>x</script>"),
            json!([
                { "tag": "p", "children": ["a <b onclick=x>c</b>"] },
                { "tag": "p", "children": ["<script>x</script>"] },
            ])
        );
        assert_eq!(
            json_of("![alt](https://a.example/x.png)"),
            json!([{ "tag": "p", "children": [
                { "tag": "a", "href": "https://a.example/x.png", "children": ["alt"] },
            ] }])
        );
    }

    #[test]
    fn only_harmless_addresses_are_links() {
        for hostile in [
            "[x](javascript:alert(1))",
            "[x](JaVaScRiPt:alert(1))",
            "[x](data:text/html,x)",
            "[x](//a.example)",
            "[x](/sessions)",
            "[x](&#106;avascript:alert(1))",
            "[x](<https://a.example/\u{1}>)",
            "<javascript:alert(1)>",
            "<file:///etc/passwd>",
        ] {
            let tree = json_of(hostile);
            assert!(!tree.to_string().contains("href"), "{hostile}: {tree}");
        }
        for good in [
            "[x](HTTPS://a.example)",
            "<mailto:a@b.example>",
            "see http://a.example/b.",
        ] {
            assert!(json_of(good).to_string().contains("href"), "{good}");
        }
        assert_eq!(
            json_of("(see https://a.example/b_(c)), `https://d.example`"),
            json!([{ "tag": "p", "children": [
                "(see ",
                { "tag": "a", "href": "https://a.example/b_(c)", "children": ["https://a.example/b_(c)"] },
                "), ",
                { "tag": "code", "children": ["https://d.example"] },
            ] }])
        );
    }

    fn depth(node: &Value) -> usize {
        let inside = node.get("children").unwrap_or(node);
        let children = inside.as_array().into_iter().flatten();
        let deepest = children.map(depth).max().unwrap_or(0);
        deepest + usize::from(node.is_object())
    }

    #[test]
    fn deep_and_large_texts_are_bounded() {
        let deep = json_of(&format!("{}end", "> ".repeat(1000)));
        assert_eq!(depth(&deep), MAX_DEPTH);
        assert!(deep.to_string().contains("end"));
        let lists: String = (0..100)
            .map(|n| format!("{}- x\n", "  ".repeat(n)))
            .collect();
        assert!(depth(&json_of(&lists)) <= MAX_DEPTH);
        assert_eq!(tree(&"*a* ".repeat(MAX_NODES)), None);
        assert_eq!(tree(&"http://a ".repeat(MAX_NODES)), None);
        assert_eq!(tree(&"x".repeat(MAX_TEXT + 1)), None);
        assert!(tree(&"x".repeat(MAX_TEXT)).is_some());
    }

    /// Texts that are slow in some parsers. A quadratic parser would need minutes.
    #[test]
    fn hostile_texts_are_parsed_in_time() {
        let started = std::time::Instant::now();
        let emphasis = ["_a __a ", "*a **a ", "*_", "~~a", "**a", "_a*b_c*"];
        for pattern in emphasis {
            let marks = pattern
                .bytes()
                .filter(|b| !b.is_ascii_alphabetic() && *b != b' ')
                .count();
            tree(&pattern.repeat(MAX_MARKS / marks));
        }
        let patterns = [
            "[",
            "![",
            "[a](",
            "*a **a ",
            "_a __a ",
            "`",
            "<!--",
            "<a ",
            "> ",
            "- ",
            "| a ",
            "&",
            "\\",
            "~~a",
            "[a]: b\n",
            "```\n",
            "](",
            "<![CDATA[",
            "<?",
            "http",
            "https://a(",
            "a\n=\n",
            "*_",
            "|-",
        ];
        for pattern in patterns {
            let text = pattern.repeat(MAX_TEXT / pattern.len());
            tree(&text);
            tree(&format!("|a|\n|-|\n{text}"));
        }
        assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
    }
}
