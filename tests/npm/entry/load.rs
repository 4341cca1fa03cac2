//! Loading a module.

use std::fs;
use std::time::{Duration, Instant};

use agentproto_suites::proves;

use super::{Aviary, HEAD, unreachable};

/// Every attempt fails with a typed error before a tool runs, and nothing happens outside.
#[test]
#[ignore = "needs node"]
fn loading_a_module_has_no_side_effects() {
    proves!("A29-DEFCLI-16");
    let (listener, port) = unreachable();
    let made = tempfile::tempdir().expect("a directory");
    let made = made.path().join("made");
    let path = made.display();
    let end = "export default defineCli(bird);";
    for (line, words) in [
        (format!("writeFileSync('{path}', 'x');"), "ENOENT"),
        ("writeFileSync('made', 'x');".to_owned(), "threw an error"),
        ("readFileSync('notes');".to_owned(), "ENOENT"),
        (
            "const { error } = spawnSync('/bin/sh', ['-c', 'exit 0']); if (error) throw error;"
                .to_owned(),
            "spawnSync",
        ),
        (format!("connect({port}, '127.0.0.1');"), "E"),
        (
            format!(
                "const dialed = await dial({port}); if (dialed !== 'done') throw new Error(dialed);"
            ),
            "E",
        ),
        ("setInterval(() => {}, 1000);".to_owned(), "Timeout"),
        (
            "throw new Error('no such bird');".to_owned(),
            "no such bird",
        ),
        ("process.exit(3);".to_owned(), "exited with code 3"),
        (
            "await new Promise(() => {});".to_owned(),
            "is never settled",
        ),
        ("process.abort();".to_owned(), "signal 6"),
        (
            "writeSync(1, 'hello\\n');".to_owned(),
            "wrote to its stdout: \"hello\"",
        ),
        (
            "import './other.mjs';".to_owned(),
            "imports a file or a package that it cannot use",
        ),
        ("JSON.parse('{');".to_owned(), "threw an error: SyntaxError"),
        (
            "const = 1;".to_owned(),
            "is not valid JavaScript: SyntaxError",
        ),
    ] {
        let aviary = Aviary::plain(&format!("{line}\n{end}"));
        let ran = aviary.call("say", "x");
        assert!(!aviary.at("work/made").exists() && !made.exists(), "{line}");
        ran.has_failed(words);
        let log = fs::read_to_string(aviary.at("home/audit/audit-log.jsonl")).expect("a log");
        assert!(
            !log.contains("tool.invoke") && log.contains("entry_failed"),
            "{log}"
        );
        aviary.nothing_is_left();
    }
    assert!(listener.accept().is_err(), "nothing has connected");
    for (module, words) in [
        (
            "export const a = 1;",
            "must export one result of defineCli(), found 0",
        ),
        (
            "export const a = defineCli(bird); export const b = defineCli(bird);",
            "found 2",
        ),
        (
            "export default defineCli({ ...bird, bin: 3 });",
            "`bin` must be a string",
        ),
        (
            "export default defineCli({ ...bird, login: 3 });",
            "`login` must be a function",
        ),
        (
            "export default defineCli({ ...bird, metadata: 3n });",
            "BigInt",
        ),
        ("export default (", "SyntaxError"),
    ] {
        Aviary::plain(module).call("say", "x").has_failed(words);
    }
    // The sibling without side effects is loaded, also with the global and twice exported.
    for module in [
        end,
        "export default globalThis.defineCli(bird);",
        "const cli = defineCli(bird); export { cli, cli as default };",
    ] {
        Aviary::plain(module).call("say", "x").exits(0);
    }
}

#[test]
#[ignore = "needs node"]
fn a_module_that_never_stops_loading_is_killed() {
    for line in [
        "for (;;);",
        "for (;;) writeSync(1, 'x'.repeat(65536));",
        "for (;;) writeSync(2, 'x\\n'.repeat(65536));",
    ] {
        let aviary = Aviary::plain(&format!("{line}\nexport default defineCli(bird);"));
        let started = Instant::now();
        aviary.call("say", "x").has_failed("while it was loaded");
        assert!(started.elapsed() < Duration::from_secs(25), "{line}");
        aviary.nothing_is_left();
    }
}

#[test]
#[ignore = "needs node"]
fn typescript_is_used_where_node_can_load_it() {
    let aviary = Aviary::plain("");
    fs::remove_file(aviary.at("bird/cli.mjs")).expect("removed");
    let module = |types: &str| {
        format!(
            "{HEAD}export default defineCli({{ ...bird, parseOutput: (args{types}) => ({{ ok: true, value: args.stdout }}) }});"
        )
    };
    aviary.write("bird/cli.ts", &module(""));
    let result = aviary.call("say", "x").exits(0).json();
    assert_eq!(result["value"], "x");
    aviary.write("bird/cli.ts", &module(": any"));
    let ran = aviary.call("say", "x").exits(0);
    let is_used = ran.json()["value"] == "x";
    // Without support, the CLI.md alone is used, with a warning.
    assert!(
        is_used || ran.err.contains("entry_unavailable"),
        "{}",
        ran.err
    );
    // The same applies if Node is not installed.
    let path = tempfile::tempdir().expect("a directory");
    let mut call = aviary.command(&["call", "--output", "json", "../bird", "say", "--arg", "x"]);
    let output = call.env("PATH", path.path()).output().expect("it runs");
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(err.contains("entry_unavailable: "), "{err}");
    assert_eq!(output.status.code(), Some(0), "{err}");
}
