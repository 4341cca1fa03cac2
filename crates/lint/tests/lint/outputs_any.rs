//! Renders random reports. No renderer may panic, machine formats must stay valid, and no control
//! characters may be printed.

use std::path::Path;
use std::sync::LazyLock;

use crate::common::reports::{self, FEATHER, LEASH, WHIM};
use agentproto_lint::render::{Format, Meta, render};
use agentproto_lint::{Edit, Finding, Fix, Report, Rule, Safety};
use agentproto_manifest::{Document, Span};
use agentproto_text::is_hidden;
use proptest::prelude::*;
use serde_json::Value;

const PIECES: [&str; 36] = [
    "---\n",
    "name: rex\n",
    "\n",
    "\r\n",
    "\r",
    "\t",
    " ",
    "\u{0}",
    "\u{1b}[31m",
    "\u{1b}]8;;x\u{1b}\\",
    "\u{7}",
    "\u{8}",
    "\u{7f}",
    "\u{9b}2J",
    "\u{85}",
    "\u{2028}",
    "\u{202e}",
    "\u{2066}",
    "\u{200f}",
    "\u{200b}",
    "\u{feff}",
    "\u{fffe}",
    "\u{e0041}",
    "🦀",
    "👩\u{200d}🚀",
    "日本語",
    "e\u{301}",
    "שלום",
    "%0A",
    "::error::x",
    "]]>",
    "<a b='&'>",
    "\"'`\\",
    "a: b, c",
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "0123456789",
];

fn any_text(pieces: usize) -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => prop::sample::select(&PIECES[..]).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..pieces).prop_map(|pieces| pieces.concat())
}

#[derive(Clone, Debug)]
struct Seed {
    rule: usize,
    file: bool,
    places: [(u16, u16); 4],
    texts: [String; 4],
    optional: [bool; 5],
}

fn any_seed() -> impl Strategy<Value = Seed> {
    (
        0..3usize,
        any::<bool>(),
        any::<[(u16, u16); 4]>(),
        [any_text(6), any_text(6), any_text(6), any_text(6)],
        any::<[bool; 5]>(),
    )
        .prop_map(|(rule, file, places, texts, optional)| Seed {
            rule,
            file,
            places,
            texts,
            optional,
        })
}

fn span(doc: &Document, (a, b): (u16, u16)) -> Span {
    let place = |n: u16| {
        let mut at = n as usize % (doc.text.len() + 1);
        while !doc.text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let (a, b) = (place(a), place(b));
    Span::new(a.min(b), a.max(b))
}

fn finding(docs: &[Document; 2], seed: &Seed) -> Finding {
    let rules: [&'static Rule; 3] = [&LEASH, &FEATHER, &WHIM];
    let [here, there] = docs;
    let (doc, other) = if seed.file {
        (here, there)
    } else {
        (there, here)
    };
    let mut finding = reports::finding(
        doc,
        rules[seed.rule],
        span(doc, seed.places[0]),
        &seed.texts[0],
    );
    let [help, same, away, fixed, quiet] = seed.optional;
    if help {
        finding.help = Some(seed.texts[1].clone());
    }
    if same {
        let span = span(doc, seed.places[1]);
        finding
            .related
            .push(reports::related(doc, span, &seed.texts[2]));
    }
    if away {
        let span = span(other, seed.places[2]);
        finding
            .related
            .push(reports::related(other, span, &seed.texts[3]));
    }
    if fixed {
        finding.fix = Some(Fix {
            safety: if same { Safety::Safe } else { Safety::Unsafe },
            title: seed.texts[2].clone(),
            edits: vec![Edit {
                span: span(doc, seed.places[3]),
                text: seed.texts[3].clone(),
            }],
        });
    }
    if quiet && help {
        finding.suppressed = Some(seed.texts[3].clone());
    }
    finding
}

prop_compose! {
    fn any_report()(
        texts in [any_text(40), any_text(12)],
        names in [any_text(3), any_text(3)],
        seeds in prop::collection::vec(any_seed(), 0..6),
        readable in any::<bool>(),
    ) -> Report {
        let [a, b] = texts;
        let [first, second] = names;
        let docs = [
            Document::parse(format!("a{first}.md"), a),
            Document::parse(format!("b{second}.md"), b),
        ];
        let findings = seeds.iter().map(|seed| finding(&docs, seed)).collect();
        let [a, b] = docs;
        reports::report(if readable { vec![a, b] } else { vec![b] }, findings)
    }
}

fn print(format: Format, report: &Report, meta: &Meta) -> String {
    let mut out = Vec::new();
    render(format, report, meta, &mut out).expect("rendered");
    String::from_utf8(out).expect("UTF-8")
}

/// Removes the color codes that the renderer writes.
fn without_color(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        out.push_str(before);
        let end = after
            .find(|c: char| !c.is_ascii_digit() && c != ';')
            .unwrap_or(0);
        if after[end..].starts_with('m') {
            rest = &after[end + 1..];
        } else {
            out.push('\u{1b}');
            rest = after;
        }
    }
    out + rest
}

fn assert_visible(format: Format, text: &str) {
    let raw = text.chars().find(|c| *c != '\n' && is_hidden(*c));
    assert!(raw.is_none(), "{format} prints {raw:?} raw\n{text:?}");
}

fn schema(text: &str) -> jsonschema::Validator {
    let schema: Value = serde_json::from_str(text).expect("JSON");
    jsonschema::validator_for(&schema).expect("a JSON Schema")
}

static LINT: LazyLock<jsonschema::Validator> =
    LazyLock::new(|| schema(include_str!("../../../../schemas/lint-report.schema.json")));
static EVENTS: LazyLock<jsonschema::Validator> =
    LazyLock::new(|| schema(include_str!("../../../../schemas/events.schema.json")));

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_format_is_valid_and_printable(
        report in any_report(),
        width in 0..200usize,
        unicode in any::<bool>(),
        color in any::<bool>(),
    ) {
        let meta = Meta { width, unicode, color, ..reports::meta(Path::new("")) };
        let counted = report.findings.iter().filter(|f| f.counts()).count();

        let human = print(Format::Human, &report, &meta);
        let human = if color { without_color(&human) } else { human };
        assert_visible(Format::Human, &human);
        for format in [Format::Concise, Format::Github] {
            let text = print(format, &report, &meta);
            assert_visible(format, &text);
            prop_assert_eq!(text.lines().count(), counted);
        }
        let agent = print(Format::Agent, &report, &meta);
        assert_visible(Format::Agent, &agent);
        prop_assert_eq!(agent.lines().filter(|l| l.starts_with("- line ")).count(), counted);

        for format in [Format::Json, Format::Sarif, Format::Gitlab] {
            let text = print(format, &report, &meta);
            assert_visible(format, &text);
            let value: Value = serde_json::from_str(&text).expect("JSON");
            if format == Format::Json {
                let error = LINT.iter_errors(&value).next().map(|e| e.to_string());
                prop_assert_eq!(error, None);
            }
        }
        let jsonl = print(Format::Jsonl, &report, &meta);
        assert_visible(Format::Jsonl, &jsonl);
        prop_assert_eq!(jsonl.lines().count(), report.findings.len() + 2);
        for line in jsonl.lines() {
            let value: Value = serde_json::from_str(line).expect("JSON");
            prop_assert!(value.is_object());
            let error = EVENTS.iter_errors(&value).next().map(|e| e.to_string());
            prop_assert_eq!(error, None);
        }
        let xml = print(Format::Junit, &report, &meta);
        assert_visible(Format::Junit, &xml);
        let parsed = quick_junit::Report::deserialize_from_str(&xml).expect("JUnit XML");
        prop_assert_eq!(parsed.test_suites.len(), report.files.len());
    }
}
