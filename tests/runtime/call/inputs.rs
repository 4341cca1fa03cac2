//! Inputs, options and arguments of a call.

use std::fs;

use serde_json::json;

use super::Aviary;
use agentproto_suites::proves;

#[test]
fn the_command_path_and_the_template_become_the_arguments() {
    proves!(
        "A29-CMD-02",
        "A29-CMD-04",
        "A29-CMD-06",
        "A29-CMD-07",
        "A29-OPT-06",
        "A29-OPT-07"
    );
    let aviary = Aviary::new("");
    let ran = aviary
        .bird(&["show", "args", "--title", "A tit", "--limit", "3"])
        .exits(0);
    assert_eq!(
        ran.text(),
        "<args><--title><A tit><--state><open><--limit><3>\n"
    );
    // Without a template, the words of the command are the arguments.
    let ran = aviary.bird(&["plain"]).exits(1);
    assert!(ran.err.contains("unknown plain"), "{}", ran.err);
}

#[test]
fn inputs_are_options_of_their_type() {
    let aviary = Aviary::new("");
    let words = [
        "show",
        "args",
        "--draft",
        "--labels",
        "a",
        "--labels=b",
        "--base-branch",
        "main",
    ];
    let ran = aviary.bird(&words).exits(0);
    assert_eq!(
        ran.text(),
        "<args><--state><open><--draft><--label><a><--label><b><--base=main>\n"
    );
    let ran = aviary
        .bird(&["show", "args", "--no-draft", "--draft"])
        .exits(64);
    assert!(ran.err.contains("given twice"), "{}", ran.err);
    let input = r#"{"limit":2,"draft":false,"labels":["x"]}"#;
    let ran = aviary
        .call(&["--input", input, "../bird", "show", "args"])
        .exits(0);
    assert_eq!(
        ran.text(),
        "<args><--state><open><--limit><2><--label><x>\n"
    );
}

#[test]
fn invalid_inputs_and_commands_are_refused_with_the_place_and_a_suggestion() {
    let aviary = Aviary::new("");
    for (words, code, expected) in [
        (
            &["show", "args", "--limit", "many"][..],
            "input_invalid",
            "`/limit`",
        ),
        (
            &["show", "args", "--limit", "0"],
            "input_invalid",
            "`/limit`",
        ),
        (
            &["show", "args", "--state", "opne"],
            "input_invalid",
            "`/state`",
        ),
        (
            &["show", "args", "--titel", "x"],
            "input_invalid",
            "did you mean `title`?",
        ),
        (
            &["show", "args", "--title"],
            "input_invalid",
            "needs a value",
        ),
        (
            &["show", "args", "extra"],
            "command_unknown",
            "show args extra",
        ),
        (
            &["show", "args", "--output", "json"],
            "input_invalid",
            "put it before the target",
        ),
        (
            &["show", "agrs"],
            "command_unknown",
            "did you mean `show args`?",
        ),
        (&["nothing"], "command_unknown", "lists the commands"),
        (
            &["show", "--title", "x"],
            "command_unknown",
            "group of commands",
        ),
    ] {
        let ran = aviary.bird(words).exits(64);
        assert!(
            ran.err.contains(code) && ran.err.contains(expected),
            "{words:?}: {}",
            ran.err
        );
        assert_eq!(ran.text(), "");
    }
    for input in ["{", "[]", "7", r#"{"limit":"x"}"#, r#"{"nope":1}"#] {
        let ran = aviary
            .call(&["--input", input, "../bird", "show", "args"])
            .exits(64);
        assert!(ran.err.contains("input_invalid"), "{input}: {}", ran.err);
    }
    let ran = aviary
        .call(&["--input", "{}", "../bird", "show", "args", "--title", "x"])
        .exits(64);
    assert!(ran.err.contains("--input"), "{}", ran.err);
    let ran = aviary.call(&["--outptu", "json", "../bird"]).exits(64);
    assert!(ran.err.contains("did you mean `--output`?"), "{}", ran.err);
    // Nothing was started.
    assert!(aviary.audited("tool.invoke").is_empty());
    assert!(!aviary.audited("tool.refused").is_empty());
}

#[test]
fn values_are_arguments_and_never_shell_code_or_options() {
    proves!("A29-CMD-08");
    let aviary = Aviary::new("");
    for text in [
        "$(touch made)",
        "`touch made`",
        "; touch made",
        "a' b\" && touch made",
        "a\nb",
    ] {
        let ran = aviary.bird(&["show", "args", "--title", text]).exits(0);
        assert_eq!(
            ran.text(),
            format!("<args><--title><{text}><--state><open>\n")
        );
        assert!(!aviary.at("work/made").exists());
    }
    let ran = aviary
        .bird(&["show", "args", "--title", "--help me"])
        .exits(0);
    assert_eq!(ran.text(), "<args><--title=--help me><--state><open>\n");
    let ran = aviary
        .bird(&["run", "say", "--text", "--version"])
        .exits(64);
    assert!(ran.err.contains("`/text` begins with `-`"), "{}", ran.err);
}

#[test]
fn commands_and_inputs_are_listed() {
    let aviary = Aviary::new("");
    let ran = aviary.bird(&[]).exits(0);
    assert!(
        ran.text().contains("  show args  Does args.\n"),
        "{}",
        ran.text()
    );
    let ran = aviary.bird(&["run"]).exits(0);
    assert!(ran.text().contains("run say") && !ran.text().contains("show args"));
    let list = aviary.result(&[], 0);
    let commands = list["commands"].as_array().expect("commands");
    assert_eq!(commands.len(), 6);
    assert_eq!(commands[0]["path"], json!(["show", "args"]));
    assert_eq!(commands[0]["id"], "bird-args");
    assert_eq!(
        commands[0]["inputs"]["properties"]["limit"]["type"],
        "integer"
    );
    for help in ["--help", "-h"] {
        let ran = aviary.bird(&["show", "args", help]).exits(0);
        let text = ran.text();
        assert!(
            text.contains("--title <STRING>") && text.contains("Title of the bird"),
            "{text}"
        );
        assert!(
            text.contains("--labels <STRING>…") && text.contains("  --draft\n"),
            "{text}"
        );
        assert!(text.contains("[possible values: open, closed]"), "{text}");
    }
    // A missing tool is an error of the bundle. With `--allow-invalid`, it does not hide the others.
    fs::remove_file(aviary.at("bird/tools/say/TOOL.md")).expect("removed");
    aviary.bird(&[]).exits(65);
    let bird = |words: &[&str]| aviary.call(&[&["--allow-invalid", "../bird"], words].concat());
    let ran = bird(&[]).exits(0);
    assert!(ran.text().contains("cannot be called"), "{}", ran.text());
    bird(&["show", "args"]).exits(0);
    bird(&["run", "say", "--text", "x"]).exits(65);
}

#[test]
fn a_target_is_a_name_a_file_or_a_tool() {
    let aviary = Aviary::new("");
    let adapters = aviary.at("home/adapters");
    fs::create_dir_all(&adapters).expect("made");
    std::os::unix::fs::symlink(aviary.at("bird"), adapters.join("bird")).expect("linked");
    for target in ["bird", "../bird/CLI.md", "../bird"] {
        aviary.call(&[target, "show", "args"]).exits(0);
    }
    let ran = aviary
        .call(&["../bird/tools/args/TOOL.md", "--title", "x"])
        .exits(0);
    assert_eq!(ran.text(), "<args><--title><x><--state><open>\n");
    let ran = aviary.call(&["mock-acp", "x"]).exits(65);
    assert!(ran.err.contains("describes an agent"), "{}", ran.err);
    aviary.call(&["../nothing"]).exits(66);
}

#[test]
fn fixed_arguments_and_the_json_flag_surround_the_template() {
    proves!("A29-OPT-02", "A29-OPT-03", "A29-OUT-02", "A29-OUT-03");
    let blocks = "bin_args: [-q]\noutput: { default_format: text, json_flag: '--format json', json_flag_args: ['a,b'] }";
    let aviary = Aviary::new(blocks);
    aviary.tool(
        "any",
        "{ arg: { type: string } }",
        r#"[json, --, "${input.arg}"]"#,
        "",
    );
    let result = aviary.result(&["run", "any", "--arg", "-x"], 0);
    assert_eq!(result["value"]["args"], "json --format json a,b -- -x");
    aviary.tool("any", "{ }", "[json, last]", "");
    let result = aviary.result(&["run", "any"], 0);
    assert_eq!(result["value"]["args"], "json last --format json a,b");
    // A tool that passes the flag itself does not get it twice.
    aviary.tool("any", "{ }", "[json, --format, json, own]", "");
    let result = aviary.result(&["run", "any"], 0);
    assert_eq!(result["value"]["args"], "json --format json own");
    // Plain output does not ask for JSON.
    let ran = aviary.bird(&["show", "args"]).exits(0);
    assert_eq!(ran.text(), "<args><--state><open>\n");
}

#[test]
fn templates_with_unknown_inputs_or_secrets_are_invalid() {
    let aviary = Aviary::new("");
    for argv in [
        r#"[args, "${input.nope}"]"#,
        r#"[args, "${secrets.key}"]"#,
        r#"[args, "${env.HOME}"]"#,
        r#"[args, "${input.arg"]"#,
        r#"[args, "${input.arg | nope}"]"#,
    ] {
        aviary.tool("any", "{ arg: { type: string } }", argv, "");
        let ran = aviary.bird(&["run", "any", "--arg", "x"]).exits(65);
        assert!(
            ran.err.contains("manifest_invalid") && ran.err.contains("TOOL.md:"),
            "{argv}: {}",
            ran.err
        );
    }
}
