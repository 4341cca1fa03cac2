//! Formats for other programs and for the web.

use agentproto_harness::model::{Level, Report, SuiteInfo, Verdict};
use agentproto_harness::render::{Format, RenderOptions, baseline, write_all};
use agentproto_report::baseline::FixedRow;
use agentproto_text::is_hidden;
use proptest::prelude::*;
use serde_json::Value;

use crate::certify_reports::{print, print_with, sample, samples};

#[test]
fn junit_counts_failures() {
    let xml = print(Format::Junit, &sample::vendor());
    let parsed = quick_junit::Report::deserialize_from_str(&xml).expect("JUnit XML");
    assert_eq!(parsed.test_suites.len(), sample::SECTIONS.len());
    // One of the three failures is in the baseline. Skip, n/a and not verified do not count as
    // passed.
    assert_eq!((parsed.tests, parsed.failures, parsed.errors), (300, 2, 1));
    assert!(xml.contains("already in the baseline: line 3"), "{xml}");
    assert!(xml.contains("n/a: the agent does not announce `loadSession`"));
    assert!(xml.contains("do: Keep the id as the JSON value"), "{xml}");
    for report in samples() {
        let xml = print(Format::Junit, &report);
        let parsed = quick_junit::Report::deserialize_from_str(&xml).expect("JUnit XML");
        assert_eq!(parsed.tests, report.results.len());
    }
}

fn sarif(report: &Report) -> Value {
    serde_json::from_str(&print(Format::Sarif, report)).expect("JSON")
}

#[test]
fn sarif_has_rules_for_requirements_and_results_for_failures() {
    for report in samples() {
        let log = sarif(&report);
        let run = &log["runs"][0];
        let rules = run["tool"]["driver"]["rules"].as_array().expect("rules");
        let results = run["results"].as_array().expect("results");
        let wrong = |v| matches!(v, Verdict::Fail | Verdict::Warn);
        let expected = report.results.iter().filter(|r| wrong(r.verdict)).count();
        assert_eq!(results.len(), expected);
        let notes = run["invocations"][0]["toolExecutionNotifications"].as_array();
        assert_eq!(notes.map(Vec::len), Some(report.summary.error));
        let mut prints = std::collections::HashSet::new();
        for result in results {
            let index = result["ruleIndex"].as_u64().expect("an index") as usize;
            assert_eq!(rules[index]["id"], result["ruleId"]);
            assert!(!result["message"]["text"].as_str().expect("text").is_empty());
            prints.insert(result["partialFingerprints"].to_string());
        }
        assert_eq!(prints.len(), results.len(), "duplicate fingerprints");
        for rule in rules {
            let tags = rule["properties"]["tags"].as_array().expect("tags");
            let unique: std::collections::HashSet<_> = tags.iter().collect();
            assert_eq!(unique.len(), tags.len(), "{rule}");
            assert!(
                !rule["shortDescription"]["text"]
                    .as_str()
                    .expect("text")
                    .trim()
                    .is_empty()
            );
        }
    }
}

#[test]
fn sarif_points_to_the_transcript() {
    let log = sarif(&sample::vendor());
    let results = log["runs"][0]["results"].as_array().expect("results");
    let of = |id: &str| {
        results
            .iter()
            .find(|r| r["ruleId"] == id)
            .expect("a result")
    };
    let place = &of("PT-11")["locations"][0]["physicalLocation"];
    assert_eq!(
        place["artifactLocation"]["uri"],
        "transcripts/cancel%20in%20turn.jsonl"
    );
    assert_eq!(place["region"]["startLine"], 34);
    assert_eq!(of("PT-11")["level"], "error");
    assert_eq!(of("IN-09")["level"], "warning");
    assert!(
        of("IN-09")["locations"][0]
            .get("physicalLocation")
            .is_none()
    );
    assert_eq!(of("TR-03")["suppressions"][0]["kind"], "external");
    assert_eq!(of("TR-08").get("suppressions"), None);
    assert_eq!(of("TR-08")["properties"]["evidence"][1]["line"], 12);
    assert_eq!(
        log["runs"][0]["invocations"][0]["executionSuccessful"],
        false
    );
    let clean = sarif(&sample::clean());
    assert_eq!(
        clean["runs"][0]["invocations"][0]["executionSuccessful"],
        true
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_format_stays_valid_for_any_text(
        parts in prop::collection::vec(
            prop_oneof![
                prop::sample::select(&sample::ATTACKS[..]).prop_map(str::to_owned),
                any::<String>(),
            ],
            0..4,
        ),
    ) {
        let report = sample::hostile(&parts.concat());
        for &format in Format::ALL {
            let text = print(format, &report);
            let hidden = text.contains(|c| c != '\n' && is_hidden(c));
            prop_assert!(!hidden, "{format}: {text}");
            match format {
                Format::Json | Format::Sarif | Format::BadgeJson => {
                    prop_assert!(serde_json::from_str::<Value>(&text).is_ok(), "{text}");
                }
                Format::Jsonl => drop(crate::certify_reports::events(&text)),
                Format::Junit => {
                    prop_assert!(quick_junit::Report::deserialize_from_str(&text).is_ok(), "{text}");
                }
                Format::Html => assert_harmless(&text),
                Format::Human | Format::Markdown | Format::Badge => {}
            }
        }
    }
}

/// The markup of a page without its style and script elements.
fn markup(page: &str) -> String {
    let cut = |page: &str, open: &str, close: &str| {
        let (before, rest) = page.split_once(open).expect("opened");
        let (_, after) = rest.split_once(close).expect("closed");
        format!("{before}{after}")
    };
    let page = cut(page, "<style>", "</style>");
    cut(&page, "<script>", "</script>")
}

/// Every tag of a page: the text between `<` and `>`.
fn tags(page: &str) -> Vec<&str> {
    let parts = page.split('<').skip(1);
    parts
        .filter_map(|part| Some(part.split_once('>')?.0))
        .collect()
}

const OUR_TAGS: [&str; 48] = [
    "!doctype", "a", "b", "body", "button", "circle", "dd", "details", "div", "dl", "dt",
    "fieldset", "footer", "h1", "h2", "h3", "head", "header", "html", "i", "input", "kbd", "label",
    "legend", "li", "link", "main", "meta", "ol", "option", "output", "p", "path", "pre",
    "section", "mark", "select", "small", "span", "summary", "svg", "table", "tbody", "td", "th",
    "thead", "title", "code",
];

#[track_caller]
pub fn assert_harmless(page: &str) {
    assert_eq!(page.matches("<script").count(), 1, "exactly one script");
    assert_eq!(page.matches("</script").count(), 1);
    assert_eq!(page.matches("</style").count(), 1);
    let page = markup(page);
    for tag in tags(&page) {
        let name: String = tag
            .trim_start_matches('/')
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || *c == '!')
            .collect();
        let known = OUR_TAGS.contains(&name.as_str()) || ["ul", "tr"].contains(&name.as_str());
        assert!(known, "<{tag}>");
        // Attribute values contain no quotes, so that no text can add an attribute.
        for word in tag.split('"').step_by(2) {
            for part in word.split_whitespace() {
                let attribute = part.trim_end_matches('=').to_ascii_lowercase();
                assert!(!attribute.starts_with("on"), "<{tag}>");
                assert!(attribute != "src" && attribute != "srcset", "<{tag}>");
            }
        }
        if let Some((_, link)) = tag.split_once("href=\"") {
            let local =
                link.starts_with('#') || link.starts_with("./") || link.starts_with("data:,");
            assert!(local, "<{tag}>");
        }
    }
    assert!(
        !page.contains(|c| c != '\n' && is_hidden(c)),
        "hidden characters must be escaped"
    );
}

#[test]
fn html_is_one_file_without_injected_markup() {
    for report in samples() {
        assert_harmless(&print(Format::Html, &report));
    }
    let page = print(Format::Html, &sample::vendor());
    for outside in ["@import", "url(", "http://", "https://", "src="] {
        let own = page.replace(&markup(&page), "");
        assert!(!own.contains(outside), "{outside}");
    }
    let hash = page.split("script-src 'sha256-").nth(1).expect("a policy");
    assert!(page.contains("default-src 'none'") && hash.contains("'; img-src"));
}

#[test]
fn html_works_without_scripts_and_links_to_rows() {
    let report = sample::vendor();
    let page = print(Format::Html, &report);
    assert_eq!(page.matches("<details class=\"row ").count(), 300);
    assert!(page.contains("<details class=\"row fail\" id=\"TR-08\" data-verdict=\"fail\""));
    assert!(page.contains("<a class=\"id\" href=\"#PT-11\">PT-11</a>"));
    assert!(page.contains("id=\"tools\" role=\"search\" aria-label=\"Filter the results\" hidden"));
    let ids: Vec<&str> = page
        .split(" id=\"")
        .skip(1)
        .filter_map(|p| p.split('"').next())
        .collect();
    let unique: std::collections::HashSet<_> = ids.iter().collect();
    assert_eq!(unique.len(), ids.len(), "duplicate anchors");
    assert!(
        page.contains("\\u001b[32mINFO"),
        "control characters must be escaped"
    );
    assert!(
        page.contains("&quot;id&quot;:&quot;7&quot;"),
        "the evidence is missing"
    );
    for name in [
        "theme", "level", "section", "search", "clear", "fold", "shown", "tools", "empty",
    ] {
        assert!(ids.contains(&name), "the script uses the missing id {name}");
    }
}

#[test]
fn a_requirement_cannot_use_an_id_of_the_page() {
    let mut report = sample::vendor();
    for (row, id) in report
        .results
        .iter_mut()
        .zip(["theme", "tools", "section-1", ""])
    {
        row.requirement = id.to_owned();
    }
    let page = print(Format::Html, &report);
    for id in ["theme", "tools", "section-1"] {
        assert_eq!(page.matches(&format!(" id=\"{id}\"")).count(), 1, "{id}");
    }
    assert!(!page.contains(" id=\"\""));
}

#[test]
fn markdown_snapshot() {
    let mut report = sample::vendor();
    report.results.retain(|r| r.verdict != Verdict::Pass);
    insta::assert_snapshot!("markdown", print(Format::Markdown, &report));
}

#[test]
fn markdown_in_agent_output_is_escaped() {
    for attack in sample::ATTACKS {
        let text = print(Format::Markdown, &sample::hostile(attack));
        assert!(!text.contains(|c| c != '\n' && is_hidden(c)), "{text}");
        let mut fence: Option<String> = None;
        for line in text.lines() {
            let ticks: String = line.chars().take_while(|c| *c == '`').collect();
            match &fence {
                Some(open) if *open == ticks && line == ticks => fence = None,
                Some(_) => continue,
                None if ticks.len() >= 3 && line.ends_with("text") => fence = Some(ticks),
                None => {
                    let bare = line.replace("<!-- -->", "\u{0}").replace("\\]", "");
                    let code = bare.contains("` ");
                    let address = bare.contains("://") || bare.contains("www.evil");
                    assert!(code || !address, "{line}");
                    assert!(code || !bare.contains("@octocat"), "{line}");
                    assert!(code || !bare.contains("](javascript"), "{line}");
                    let tags = ["<img", "<script", "<svg", "</style", "<!--<"];
                    assert!(code || !tags.iter().any(|t| bare.contains(t)), "{line}");
                }
            }
        }
        assert_eq!(fence, None, "unclosed code fence");
    }
}

#[test]
fn markdown_fits_into_a_comment() {
    let mut report = sample::vendor();
    let bad = report.results.iter().find(|r| r.verdict == Verdict::Fail);
    let bad = bad.expect("a failure").clone();
    report.results = vec![bad; 1000];
    report.summarize();
    let text = print(Format::Markdown, &report);
    assert!(text.len() < 65_000, "{}", text.len());
    assert!(text.contains("rows not shown here. See "), "{text}");
}

#[test]
fn a_check_that_is_not_in_the_spec_requires_nothing() {
    let mut report = sample::clean();
    let own = sample::row(
        "acp/TR-20",
        "TR-20",
        "transport",
        Level::Info,
        Verdict::Warn,
    );
    report.results = vec![own];
    report.summarize();
    let text = print(Format::Human, &report);
    let head = "WARN TR-20 (agentproto's own check, not in the spec)";
    assert!(text.contains(head), "{text}");
    assert!(
        text.contains("  expects") && text.contains("  about"),
        "{text}"
    );
    assert!(
        !text.contains("  requires") && !text.contains("  source"),
        "{text}"
    );
}

#[test]
fn badges_show_the_verdict() {
    let mut partial = sample::clean();
    partial.partial = true;
    partial.summarize();
    let mut unproven = sample::clean();
    unproven.results.clear();
    unproven.summarize();
    let mut unjudged = sample::vendor();
    unjudged
        .results
        .retain(|r| matches!(r.verdict, Verdict::Pass | Verdict::Error));
    unjudged.summarize();
    let cases = [
        (sample::clean(), "certified", "brightgreen"),
        (sample::vendor(), "3 failing", "red"),
        (partial, "interrupted", "yellow"),
        (unjudged, "1 not checked", "yellow"),
        (unproven, "not certified", "lightgrey"),
    ];
    for (report, message, color) in cases {
        let json: Value = serde_json::from_str(&print(Format::BadgeJson, &report)).expect("JSON");
        assert_eq!(json["schemaVersion"], 1);
        assert_eq!(json["label"], "ACP v1");
        assert_eq!(json["message"], message);
        assert_eq!(json["color"], color);
        let svg = print(Format::Badge, &report);
        assert!(
            svg.contains(&format!("<title>ACP v1: {message}</title>")),
            "{svg}"
        );
    }
    insta::assert_snapshot!("badge", print(Format::Badge, &sample::vendor()));
    let mut both = sample::clean();
    both.suites.push(SuiteInfo {
        name: "mcp".to_owned(),
        ..both.suites[0].clone()
    });
    assert!(print(Format::Badge, &both).contains("<title>ACP v1 + MCP: certified</title>"));
}

#[test]
fn a_badge_is_valid_xml_for_any_suite_name() {
    for attack in sample::ATTACKS {
        let svg = print(Format::Badge, &sample::hostile(attack));
        assert!(!svg.contains(|c| c != '\n' && is_hidden(c)), "{svg}");
        for tag in tags(&svg) {
            let name = tag.trim_start_matches('/').split(' ').next();
            let known = ["svg", "title", "clipPath", "rect", "g", "text"];
            assert!(
                name.is_some_and(|n| known.contains(&n.trim_end_matches('/'))),
                "<{tag}>"
            );
        }
    }
}

#[test]
fn fixed_failures_are_listed() {
    let options = RenderOptions {
        fixed: vec![FixedRow {
            id: "SE-07".to_owned(),
            subject: "acp / x".to_owned(),
        }],
        ..RenderOptions::default()
    };
    let report = sample::vendor();
    for format in [Format::Human, Format::Markdown] {
        let text = print_with(format, &report, &options);
        assert!(text.contains("Fixed since the baseline: SE"), "{format}");
        assert!(!print(format, &report).contains("Fixed since"));
    }
    let html = print_with(Format::Html, &report, &options);
    assert!(html.contains("fixed since the baseline</span> SE-07"));
    let events = crate::certify_reports::events(&print_with(Format::Jsonl, &report, &options));
    assert_eq!(events.last().expect("a summary")["fixed"][0], "SE-07");
}

#[test]
fn a_directory_gets_every_format() {
    let dir = tempfile::tempdir().expect("a directory");
    let place = dir.path().join("a/b");
    let report = sample::vendor();
    for _ in 0..2 {
        write_all(&report, &place, &RenderOptions::default()).expect("written");
    }
    let mut names: Vec<_> = std::fs::read_dir(&place)
        .expect("a directory")
        .map(|e| {
            e.expect("an entry")
                .file_name()
                .into_string()
                .expect("UTF-8")
        })
        .collect();
    names.sort();
    let wanted = [
        "badge.json",
        "badge.svg",
        "junit.xml",
        "report.html",
        "report.json",
        "report.md",
        "report.sarif",
    ];
    assert_eq!(names, wanted);
    let loaded = agentproto_harness::render::load(&place.join("report.json"));
    assert_eq!(loaded.expect("a report"), report);
    let markdown = std::fs::read_to_string(place.join("report.md")).expect("report.md");
    assert!(
        markdown.starts_with("![ACP v1: 3 failing](badge.svg)"),
        "{markdown}"
    );

    let error = write_all(&report, &place.join("report.md"), &RenderOptions::default());
    let error = error.expect_err("the path is a file").to_string();
    assert!(error.contains("report.md` cannot be written"), "{error}");
}

#[test]
fn a_baseline_makes_junit_green() {
    let before = sample::vendor();
    let mut now = before.clone();
    baseline::apply(&mut now, &before);
    let xml = print(Format::Junit, &now);
    let parsed = quick_junit::Report::deserialize_from_str(&xml).expect("JUnit XML");
    assert_eq!((parsed.failures, parsed.errors), (0, 0));
}
