//! Tests of argument templates.

use super::*;
use agentproto_manifest::Document;

fn template(argv: &str) -> Result<ArgvTemplate, TemplateError> {
    let doc = Document::parse_yaml("tool.yaml", format!("argv: {argv}\n").into_bytes());
    let root = doc.root.expect("a mapping");
    ArgvTemplate::parse(root.get("argv").expect("argv"))
}

fn expand(argv: &str, input: Value) -> Result<Vec<String>, Error> {
    let listed = |_: &Reference, text: &str| text == "--listed";
    let expanded = template(argv).expect("a template").expand(&input, &listed);
    expanded.map(|expanded| expanded.words)
}

#[track_caller]
fn is(argv: &str, input: Value, words: &[&str]) {
    assert_eq!(expand(argv, input).expect("words"), words, "{argv}");
}

#[test]
fn values_replace_their_templates() {
    agentproto_suites::proves!("A29-CMD-06", "A29-CMD-07");
    let argv =
        r#"[pr, create, --title, "${input.title}", --base, "${input.base | default('main')}"]"#;
    let words = ["pr", "create", "--title", "Fix it", "--base", "main"];
    is(argv, json!({ "title": "Fix it" }), &words);
    let other = ["pr", "create", "--title", "a", "--base", "dev"];
    is(argv, json!({ "title": "a", "base": "dev" }), &other);
    is(
        r#"["v${input.a}.${input.b}"]"#,
        json!({ "a": 1, "b": 2.5 }),
        &["v1.2.5"],
    );
    is(
        r#"["${input.x.y[1]}"]"#,
        json!({ "x": { "y": [0, "b"] } }),
        &["b"],
    );
    is(r#"["${input.x | default(20)}"]"#, json!({}), &["20"]);
    is(
        r#"["${input.x | json}"]"#,
        json!({ "x": { "a": [1] } }),
        &[r#"{"a":[1]}"#],
    );
    is(r#"["${input.x}"]"#, json!({ "x": false }), &["false"]);
}

#[test]
fn absent_inputs_drop_their_argument_and_option() {
    let argv = r#"[list, --state, "${input.state}", "--base=${input.base}", "${input.name}"]"#;
    is(argv, json!({}), &["list"]);
    is(argv, json!({ "state": null, "name": "x" }), &["list", "x"]);
    is(argv, json!({ "base": "m" }), &["list", "--base=m"]);
    is(
        r#"[-n, "${input.n | default('')}"]"#,
        json!({}),
        &["-n", ""],
    );
    is(r#"[--, "${input.n}"]"#, json!({}), &["--"]);
}

#[test]
fn lists_become_several_arguments() {
    let many = json!({ "x": ["a", "b"] });
    is(r#"[cat, "${input.x}"]"#, many.clone(), &["cat", "a", "b"]);
    is(
        r#"[--tag, "${input.x}"]"#,
        many.clone(),
        &["--tag", "a", "--tag", "b"],
    );
    is(
        r#"["--tag=${input.x}"]"#,
        many.clone(),
        &["--tag=a", "--tag=b"],
    );
    is(r#"[--, "${input.x}"]"#, many, &["--", "a", "b"]);
    is(r#"[--tag, "${input.x}"]"#, json!({ "x": [] }), &[]);
    let two = expand(r#"["${input.x}${input.x}"]"#, json!({ "x": ["a", "b"] }));
    assert_eq!(two.expect_err("ambiguous").code, Code::InputInvalid);
}

#[test]
fn filters_of_the_reference_implementation_work() {
    let flag = r#"[create, "${input.draft | flag('--draft')}"]"#;
    is(flag, json!({ "draft": true }), &["create", "--draft"]);
    is(flag, json!({ "draft": false }), &["create"]);
    is(flag, json!({}), &["create"]);
    let optional = r#"["${input.head | optional('--head', input.head)}"]"#;
    is(optional, json!({ "head": "x" }), &["--head", "x"]);
    is(optional, json!({ "head": "-x" }), &["--head=-x"]);
    is(optional, json!({}), &[]);
}

#[test]
fn shell_syntax_stays_one_argument() {
    agentproto_suites::proves!("A29-CMD-08");
    for text in [
        "$(id)",
        "; rm -rf /",
        "a && b",
        "`id`",
        "x\ny",
        "'",
        "${input.y}",
    ] {
        is(
            r#"["${input.x}"]"#,
            json!({ "x": text, "y": "no" }),
            &[text],
        );
    }
}

#[test]
fn a_value_cannot_become_an_option() {
    let evil = json!({ "x": "--exec=id" });
    for argv in [
        r#"["${input.x}"]"#,
        r#"[-n, "${input.x}"]"#,
        r#"["${input.x}y"]"#,
    ] {
        let error = expand(argv, evil.clone()).expect_err(argv);
        assert_eq!(error.code, Code::InputInvalid);
        assert_eq!(error.details["pointer"], "/x");
    }
    is(
        r#"[--body, "${input.x}"]"#,
        evil.clone(),
        &["--body=--exec=id"],
    );
    is(r#"[--, "${input.x}"]"#, evil.clone(), &["--", "--exec=id"]);
    is(r#"["a${input.x}"]"#, evil.clone(), &["a--exec=id"]);
    is(r#"["--b=${input.x}"]"#, evil, &["--b=--exec=id"]);
    is(
        r#"["${input.x}"]"#,
        json!({ "x": "--listed" }),
        &["--listed"],
    );
    is(r#"["${input.x | default('-v')}"]"#, json!({}), &["-v"]);
    is(r#"["${input.x}"]"#, json!({ "x": "-" }), &["-"]);
    is(r#"[--n, "${input.x}"]"#, json!({ "x": -5 }), &["--n=-5"]);
    let list = json!({ "x": ["a", "-b"] });
    is(
        r#"[--tag, "${input.x}"]"#,
        list.clone(),
        &["--tag", "a", "--tag=-b"],
    );
    assert!(expand(r#"["${input.x}"]"#, list).is_err());
}

#[test]
fn values_that_no_argument_can_hold_are_refused() {
    for value in [json!("a\0b"), json!("x".repeat(MAX_ARGUMENT + 1))] {
        let error = expand(r#"["${input.x}"]"#, json!({ "x": value })).expect_err("refused");
        assert_eq!(error.code, Code::InputInvalid);
    }
    let many = vec!["x".repeat(100_000); 11];
    let error = expand(r#"["${input.x}"]"#, json!({ "x": many })).expect_err("refused");
    assert!(error.message.contains("1 MiB"), "{error}");
}

#[test]
fn invalid_templates_are_errors() {
    for (argv, expected) in [
        (r#"["${input.x"]"#, "unclosed template"),
        (r#"["${secrets.token}"]"#, "unknown template"),
        (r#"["${env.HOME}"]"#, "unknown template"),
        (r#"["${input}"]"#, "unknown template"),
        (r#"["${input.}"]"#, "unknown template"),
        (r#"["${input.a[x]}"]"#, "unknown template"),
        (
            r#"["${input.x | defualt('a')}"]"#,
            "did you mean `default`?",
        ),
        (r#"["${input.x | default}"]"#, "needs a value"),
        (r#"["${input.x | default('a'}"]"#, "not closed"),
        ("[5]", "must be a string"),
        ("text", "must be a list"),
    ] {
        let error = template(argv).expect_err(argv);
        assert!(error.what.contains(expected), "{argv}: {}", error.what);
    }
}
