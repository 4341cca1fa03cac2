use super::*;
use proptest::prelude::*;
use serde_json::json;

fn quirks_of(text: &str) -> Vec<(String, JsonQuirkKind)> {
    let read = read(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"));
    let quirks = read.quirks.into_iter();
    quirks.map(|quirk| (quirk.pointer, quirk.kind)).collect()
}

#[test]
fn duplicate_names_are_reported() {
    let text = r#"{"a":[{"b~/":1,"c":2,"b~/":3}],"a":{"a":1}}"#;
    let expected = [
        ("/a/0/b~0~1", JsonQuirkKind::DuplicateKey),
        ("/a", JsonQuirkKind::DuplicateKey),
    ];
    assert_eq!(quirks_of(text), expected.map(|(p, k)| (p.to_owned(), k)));
    assert_eq!(read(text.as_bytes()).unwrap().value, json!({"a": {"a": 1}}));
    let same = r#"{"a":1,"\u0061":2}"#;
    assert_eq!(
        quirks_of(same),
        [("/a".to_owned(), JsonQuirkKind::DuplicateKey)]
    );
    assert_eq!(quirks_of(r#"[{"a":1},{"a":1,"b":{"a":1}}]"#), []);
}

#[test]
fn lone_surrogates_are_reported() {
    for (text, value) in [
        (r#""\ud800""#, "\u{fffd}"),
        (r#""\udc00x""#, "\u{fffd}x"),
        (r#""\ud800\n""#, "\u{fffd}\n"),
        (r#""\ud800\u0041""#, "\u{fffd}A"),
        (r#""\ud800\ud83d\ude00""#, "\u{fffd}\u{1f600}"),
    ] {
        let read = read(text.as_bytes()).unwrap();
        assert_eq!(read.value, json!(value), "{text}");
        assert_eq!(
            quirks_of(text),
            [(String::new(), JsonQuirkKind::LoneSurrogate)],
            "{text}"
        );
    }
    assert_eq!(quirks_of(r#""\ud83d\ude00 \u00e9 é""#), []);
    let name = r#"{"\ud800":1}"#;
    assert_eq!(quirks_of(name).len(), 1);
}

#[test]
fn deep_nesting_is_parsed_without_recursion() {
    let deep = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    assert_eq!(quirks_of(&deep(MAX_DEPTH)), []);
    assert_eq!(quirks_of(&deep(MAX_DEPTH + 1)).len(), 1);
    let million = deep(1_000_000);
    let read = read(million.as_bytes()).unwrap();
    assert_eq!(read.quirks.len(), 1);
    assert_eq!(
        read.value.to_string(),
        deep(MAX_DEPTH).replace("[]", "[null]")
    );
    assert!(super::read(&million.as_bytes()[1..]).is_err());
    let mixed = format!("{}1,2]{}}}", "{\"a\":[".repeat(200), "}]".repeat(199));
    assert!(super::read(mixed.as_bytes()).is_ok());
    assert!(super::read(mixed.replace("1,2", "1,").as_bytes()).is_err());
}

#[test]
fn large_integers_are_reported() {
    assert_eq!(
        quirks_of("[9007199254740991,-9007199254740991,1e300,9e99,1.5]"),
        []
    );
    for text in [
        "9007199254740992",
        "-9007199254740993",
        "18446744073709551616",
    ] {
        assert_eq!(
            quirks_of(text),
            [(String::new(), JsonQuirkKind::BigInteger)],
            "{text}"
        );
    }
}

#[test]
fn invalid_json_is_reported_with_its_place() {
    for (text, at) in [
        ("", 0),
        ("{", 1),
        ("[1,]", 3),
        ("{\"a\":1,}", 7),
        ("{\"a\" 1}", 5),
        ("[1}", 2),
        ("1 2", 2),
        ("01", 2),
        ("-", 1),
        ("1.", 2),
        ("1e", 2),
        ("NaN", 0),
        ("-Infinity", 1),
        ("nul", 0),
        ("\"a\nb\"", 2),
        ("\"\\x\"", 2),
        ("\"\\u12g4\"", 3),
        ("\"\\ud800\\u12", 9),
        ("\"abc", 4),
        ("\u{feff}1", 0),
        ("1e999", 5),
    ] {
        let error = read(text.as_bytes()).expect_err(text);
        assert_eq!(error.at, at, "{text}: {error}");
    }
    assert_eq!(read(b"\"\xff\"").expect_err("invalid UTF-8").at, 1);
}

/// Generates any JSON value.
fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 60, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::vec((any::<String>(), inner), 0..8)
                .prop_map(|members| members.into_iter().collect()),
        ]
    })
}

/// Generates texts that are nearly JSON, and often valid.
fn nearly() -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        "[\\[\\]{}:,\" ]",
        Just("\"a\":".to_owned()),
        Just("{\"a\":1,\"a\":".to_owned()),
        "-?[0-9]{1,22}(\\.[0-9]{1,3})?([eE][+-]?[0-9]{1,3})?",
        "\"(\\\\u[dD][89a-fA-F][0-9a-f]{2}|\\\\[nrtbf/u\"\\\\]|[a-z\u{7f}é]){0,4}\"",
        Just("null".to_owned()),
        Just("true,".to_owned()),
        "\\PC{0,3}",
    ];
    prop::collection::vec(pieces, 0..8).prop_map(|pieces| pieces.concat())
}

fn agrees(text: &str) -> Result<(), TestCaseError> {
    let ours = read(text.as_bytes());
    match (serde_json::from_str::<Value>(text), ours) {
        (Ok(theirs), Ok(ours)) => {
            prop_assert_eq!(theirs.to_string(), ours.value.to_string());
            prop_assert_eq!(theirs, ours.value);
        }
        (Ok(_), Err(error)) => prop_assert!(false, "{error}: {text}"),
        // This parser accepts more than serde_json, and reports it.
        (Err(_), Ok(ours)) => prop_assert!(
            ours.quirks.iter().any(|o| matches!(
                o.kind,
                JsonQuirkKind::LoneSurrogate | JsonQuirkKind::TooDeep
            )),
            "{text}"
        ),
        (Err(_), Err(_)) => {}
    }
    Ok(())
}

proptest! {
    #[test]
    fn values_are_parsed_like_serde_json(value in values()) {
        agrees(&value.to_string())?;
        agrees(&format!("{value:#}"))?;
        let quirks_of = read(value.to_string().as_bytes()).expect("JSON").quirks;
        prop_assert!(quirks_of.iter().all(|o| o.kind == JsonQuirkKind::BigInteger), "{quirks_of:?}");
    }

    #[test]
    fn nearly_valid_texts_are_parsed_like_serde_json(text in nearly()) {
        agrees(&text)?;
        agrees(&format!("[{text}]"))?;
        agrees(&format!("{{\"a\":{text}}}"))?;
    }
}
