//! `rank` and `import`: good lines, bad lines, streams of other tools.

use serde_json::Value;

use crate::aoi::runner::{Ground, Ran};

const IMPORT: &[&str] = &["import", "--input-jsonl", "-"];
const TOLERANT: &[&str] = &["import", "--input-jsonl", "-", "--continue-on-error"];

fn made(ground: &Ground) -> Vec<String> {
    let entries = ground.run(&["list"]).ok().of("entry").into_iter();
    entries
        .map(|entry| entry["name"].as_str().expect("a name").to_owned())
        .collect()
}

fn lines(ran: &Ran) -> Vec<u64> {
    let errors = ran.of("aoi:error").into_iter();
    errors
        .map(|error| error["line_number"].as_u64().expect("a line"))
        .collect()
}

#[test]
fn good_lines_are_imported_in_any_format() {
    for (input, names) in [
        ("", vec![]),
        ("{\"name\":\"a\"}\n{\"name\":\"b\"}\n", vec!["a", "b"]),
        ("{\"name\":\"a\"}\n{\"name\":\"b\"}", vec!["a", "b"]),
        (
            "{\"name\":\"a\"}\r\n{\"name\":\"b\",\"note\":\"n\"}\r\n",
            vec!["a", "b"],
        ),
        ("\u{feff}{\"name\":\"a\"}\n\n", vec!["a"]),
        (
            "{\"type\":\"item\",\"name\":\"a\"}\n{\"type\":\"weather\"}\n",
            vec!["a"],
        ),
        (
            "{\"type\":\"aoi:meta\"}\n{\"name\":\"a\"}\n{\"type\":\"aoi:summary\",\"ok\":true}\n",
            vec!["a"],
        ),
    ] {
        let ground = Ground::new();
        let ran = ground.fed(IMPORT, Some(input));
        assert_eq!(ran.ok().of("created").len(), names.len(), "{input}");
        assert_eq!(made(&ground), names, "{input}");
    }
    let ground = Ground::new();
    let long = format!("{{\"name\":\"{}\"}}\n", "x".repeat(1 << 20));
    ground.fed(IMPORT, Some(&long)).ok();
}

#[test]
fn a_bad_line_stops_the_import_or_is_skipped() {
    let good = ["{\"name\":\"a\"}", "{\"name\":\"b\"}"];
    for bad in [
        "not json",
        "[1]",
        "\"a\"",
        "{\"nmae\":1}",
        "{\"name\":1}",
        "{\"name\":\"\"}",
        "{\"name\":\"a\",\"x\":1}",
        "{\"type\":7,\"name\":\"a\"}",
        "{",
        "\u{0}",
    ] {
        for place in 0..3 {
            let mut input: Vec<&str> = good.to_vec();
            input.insert(place, bad);
            let input = input.join("\n") + "\n";
            let line = place as u64 + 1;
            let ground = Ground::new();
            let ran = ground.fed(IMPORT, Some(&input));
            assert_eq!(ran.code(), Some(65), "{bad}");
            assert_eq!(
                (ran.summary()["ok"].as_bool(), lines(&ran)),
                (Some(false), vec![line])
            );
            assert_eq!(ran.of("aoi:error")[0]["category"], "validation");
            assert!(made(&ground).is_empty(), "nothing may be created");
        }
    }
    let ground = Ground::new();
    let input = "{\"name\":\"a\"}\nnot json\n{\"name\":\"b\"}\n[1]\n{\"name\":\"c\"}";
    let ran = ground.fed(TOLERANT, Some(input));
    assert_eq!((ran.code(), lines(&ran)), (Some(65), vec![2, 4]));
    assert_eq!(ran.summary()["ok"], false);
    assert_eq!(ran.summary()["partial"], true);
    assert_eq!(made(&ground), ["a", "b", "c"]);
}

#[test]
fn rank_reads_the_output_of_search() {
    let ground = Ground::new();
    for version in ["1", "2"] {
        let found = ground
            .run(&["search", "x", "--schema-version", version])
            .text();
        let ran = ground.fed(&["rank", "--input-jsonl", "-"], Some(&found));
        assert_eq!(ran.ok().of("ranked").len(), 20);
        let (cut, _) = found.trim_end().rsplit_once('\n').expect("lines");
        let ran = ground.fed(&["rank"], Some(cut));
        ran.refused(65, "validation", "UPSTREAM_INCOMPLETE");
        let failed = found.replace("\"ok\":true", "\"ok\":false");
        let ran = ground.fed(&["rank"], Some(&failed));
        ran.refused(65, "validation", "UPSTREAM_FAILED");
        let ran = ground.fed(&["rank", "--continue-on-error"], Some(&failed));
        assert_eq!(ran.ok().summary()["partial"], true);
    }
    let unknown = "{\"type\":\"weather\",\"id\":1}\n{\"type\":\"hit\",\"id\":\"h\"}\n{\"type\":\"aoi:warning\",\"code\":\"SLOW\"}\n{\"type\":\"aoi:summary\",\"ok\":true}\n";
    let ran = ground.fed(&["rank"], Some(unknown));
    assert_eq!(ran.ok().of("ranked")[0]["id"], "h");
    assert_eq!(ran.of("aoi:warning").len(), 1);
    for bad in [
        "{}",
        "{\"type\":\"hit\"}",
        "{\"type\":\"hit\",\"id\":7}",
        "nope",
        "7",
    ] {
        let input = format!("{{\"type\":\"hit\",\"id\":\"h\"}}\n{bad}\n");
        let ran = ground.fed(&["rank"], Some(&input));
        assert_eq!((ran.code(), lines(&ran)), (Some(65), vec![2]), "{bad}");
        let ran = ground.fed(&["rank", "--continue-on-error"], Some(&input));
        assert_eq!(ran.of("ranked").len(), 1, "{bad}");
        assert_eq!(ran.summary()["ok"], Value::Bool(false));
    }
    assert_eq!(ground.run(&["rank"]).ok().summary()["count"], 0);
}
