//! Setup through real processes, each under the bundle's sandbox (AIP-29 § Setup).
#![cfg(target_os = "linux")]

mod bench_bundle;

use agentproto::runtime::setup::answers::Answers;
use agentproto::runtime::setup::{self, Choices, Outcome, Redo};
use agentproto::runtime::{Code, auth};
use bench_bundle::pty::Pty;
use bench_bundle::{Bench, Person, parts, request};

const CANARY: &str = "canary-4711-hunter";

fn asked_for() -> Choices {
    Choices {
        asked_for: true,
        ..Choices::default()
    }
}

fn text(env: &[(std::ffi::OsString, std::ffi::OsString)]) -> Vec<String> {
    let pair = |(n, v): &(std::ffi::OsString, std::ffi::OsString)| {
        format!("{}={}", n.to_string_lossy(), v.to_string_lossy())
    };
    env.iter().map(pair).collect()
}

/// A29-SETUP-02, -03, -22, -24, -27, A45-SETUP-02.
#[tokio::test]
async fn steps_run_once_and_in_order() {
    let bench = Bench::new("");
    assert_eq!(
        setup::ensure(&bench.alone(), &bench.bin())
            .await
            .expect("nothing"),
        []
    );
    let blocks = "setup:\n\
        - { id: one, kind: cmd, cmd: tool log one }\n\
        - { id: two, kind: cmd, cmd: 'tool log two && tool log shell' }\n";
    bench.manifest(blocks);
    let person = Person::answering(&["true"]);
    setup::ensure(&bench.with(person.clone()), &bench.bin())
        .await
        .expect("done");
    assert_eq!(bench.log(), "one\ntwo\nshell\n");
    assert_eq!(person.questions(), 1, "one confirmation for all");
    for _ in 0..2 {
        setup::ensure(&bench.alone(), &bench.bin())
            .await
            .expect("done before");
    }
    assert_eq!(bench.log(), "one\ntwo\nshell\n");
    // A29-SETUP-12.
    let steps = bench.audited("setup.step");
    assert_eq!(steps.len(), 2);
    assert_eq!(steps[1]["id"], "two");
    // Another workspace is another triple.
    let mut ctx = bench.alone();
    ctx.cwd = bench.at("user");
    let fault = setup::ensure(&ctx, &bench.bin())
        .await
        .expect_err("pending there");
    assert_eq!(fault.code, Code::SetupRequired);
}

/// What is said about a step may change; what it does may not.
#[tokio::test]
async fn a_changed_step_is_done_again() {
    let bench = Bench::new("setup:\n- { id: a, kind: cmd, cmd: tool log 1 }\n");
    let go = async || setup::run(&bench.alone(), &bench.bin(), &asked_for()).await;
    go().await.expect("done");
    bench.manifest("setup:\n- { id: a, kind: cmd, cmd: tool log 1, description: x }\n");
    go().await.expect("done before");
    assert_eq!(bench.log(), "1\n");
    bench.manifest("setup:\n- { id: a, kind: cmd, cmd: tool log 2 }\n");
    go().await.expect("done again");
    assert_eq!(bench.log(), "1\n2\n");
}

/// A29-SETUP-14, A29-SETUP-25: once done, a check is looked at only when setup is asked for.
#[tokio::test]
async fn a_step_that_proves_itself_is_skipped() {
    let blocks = "setup:\n\
        - { id: a, kind: cmd, cmd: tool log ran, skip_if: { cmd: tool exit 3, exit_code: 3 } }\n\
        - { id: b, kind: cmd, cmd: 'touch made', skip_if: { cmd: tool has made } }\n";
    let bench = Bench::new(blocks);
    let run = async || setup::run(&bench.alone(), &bench.bin(), &asked_for()).await;
    let report = run().await.expect("done");
    assert_eq!(
        report.steps,
        [("a".into(), Outcome::Skipped), ("b".into(), Outcome::Done)]
    );
    assert_eq!(bench.log(), "");
    let report = run().await.expect("done");
    assert_eq!(report.steps[1].1, Outcome::Skipped);
    std::fs::remove_file(bench.at("work/made")).expect("gone");
    setup::ensure(&bench.alone(), &bench.bin())
        .await
        .expect("the ledger says done");
    assert!(!bench.at("work/made").exists());
    let report = run().await.expect("done");
    assert_eq!(report.steps[1].1, Outcome::Done);
    assert!(bench.at("work/made").exists());
}

/// A29-SETUP-23: the step's id and its last words; what was done stays done.
#[tokio::test]
async fn a_failing_step_stops_the_rest() {
    let blocks = "setup:\n\
        - { id: a, kind: cmd, cmd: tool log a }\n\
        - { id: b, kind: cmd, cmd: tool fail badly }\n\
        - { id: c, kind: cmd, cmd: tool log c }\n";
    let bench = Bench::new(blocks);
    let fault = setup::run(&bench.alone(), &bench.bin(), &asked_for()).await;
    let fault = fault.expect_err("it fails");
    assert_eq!(fault.code, Code::SetupFailed);
    assert_eq!(fault.details["step"], "b");
    assert!(fault.message.contains("it broke: badly") && fault.message.contains("exit code 7"));
    assert_eq!(bench.log(), "a\n");
    bench.manifest(&blocks.replace("fail badly", "log b"));
    setup::run(&bench.alone(), &bench.bin(), &asked_for())
        .await
        .expect("done");
    assert_eq!(bench.log(), "a\nb\nc\n");
    for (block, word) in [
        (
            "{ id: x, kind: cmd, cmd: no-such-program }",
            "no-such-program",
        ),
        (
            "{ id: x, kind: cmd, cmd: tool hang, timeout_ms: 200 }",
            "time limit",
        ),
    ] {
        let bench = Bench::new(&format!("setup:\n- {block}\n"));
        let fault = setup::run(&bench.alone(), &bench.bin(), &asked_for()).await;
        let fault = fault.expect_err("it fails");
        assert_eq!(fault.code, Code::SetupFailed, "{block}");
        assert!(fault.message.contains(word), "{}", fault.message);
    }
}

/// A29-SETUP-06, -13, -17, -18, -20.
#[tokio::test]
async fn prompts_of_every_type_and_where_they_go() {
    let blocks = "auth: { ref: ./SECRETS.md, state: { env: [PROBE_TOKEN] } }\nsetup:\n\
        - { id: url, kind: prompt, prompt: Gateway, description: Where to, default: wss://x, persist: { env: PROBE_URL } }\n\
        - { id: region, kind: prompt, type: select, prompt: Region, options: [eu, us], persist: { env: REGION } }\n\
        - { id: channel, kind: prompt, type: select, prompt: Channel, options: { cmd: 'tool print c1\\\\tOne c2' }, persist: { env: CHANNEL } }\n\
        - { id: beta, kind: prompt, type: boolean, prompt: Beta, default: 'false', persist: { env: BETA } }\n\
        - { id: token, kind: prompt, type: secret, prompt: Token, persist: { secret_slug: probe-token } }\n\
        - { id: probe, kind: cmd, cmd: 'tool env PROBE_URL REGION PROBE_TOKEN' }\n";
    let bench = Bench::new(blocks);
    bench.write(
        "bundle/SECRETS.md",
        "---\nsecrets:\n- { slug: probe-token, name: T, description: D }\n---\n",
    );
    let person = Person::answering(&["true", "", "us", "c2", "true", CANARY]);
    let env = setup::ensure(&bench.with(person.clone()), &bench.bin()).await;
    let env = text(&env.expect("done"));
    assert_eq!(
        env,
        ["PROBE_URL=wss://x", "REGION=us", "CHANNEL=c2", "BETA=true"]
    );
    let asked = person.asked.lock().expect("a list").clone();
    assert!(asked[1].message.contains("Where to"));
    assert!(asked[3].message.contains("c1: One"), "{}", asked[3].message);
    // The probe of a finished setup sees everything.
    assert_eq!(
        bench.log(),
        format!("PROBE_URL=wss://x\nREGION=us\nPROBE_TOKEN={CANARY}\n")
    );
    bench.nowhere(CANARY);
    let ctx = bench.alone();
    let secrets = auth::ensure(&ctx, &bench.bin()).await.expect("authed");
    assert_eq!(text(&secrets), [format!("PROBE_TOKEN={CANARY}")]);
    assert_eq!(ctx.masks.mask(CANARY), "[secret]");
    bench.nowhere(CANARY);
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_refused() {
    for (block, answer) in [
        ("type: select, options: [eu]", "mars"),
        ("type: boolean", "perhaps"),
        ("type: text", ""),
    ] {
        let bench = Bench::new(&format!(
            "setup:\n- {{ id: x, kind: prompt, prompt: X, {block}, persist: {{ env: X }} }}\n"
        ));
        let ctx = bench.with(Person::answering(&["true", answer]));
        let fault = setup::ensure(&ctx, &bench.bin()).await.expect_err(block);
        assert_eq!(fault.code, Code::SetupFailed, "{block}");
    }
}

/// A29-SETUP-19: a value is a value, whatever it looks like.
#[tokio::test]
async fn a_hostile_value_stays_one_argument() {
    let evil = "a'; touch pwned; \"$(touch pwned)\" `touch pwned` $HOME \\ |&";
    for cmd in [
        "tool args ${value} end",
        "tool args pre-${value} | cat",
        "tool args \"${value}\" 'x${value}' ; true",
    ] {
        let bench = Bench::new(&format!(
            "setup:\n- id: x\n  kind: prompt\n  prompt: X\n  persist:\n    cmd: |-\n      {cmd}\n"
        ));
        let ctx = bench.with(Person::answering(&["true", evil]));
        setup::ensure(&ctx, &bench.bin()).await.expect(cmd);
        assert!(bench.log().contains(evil), "{cmd}: {}", bench.log());
        assert!(!bench.at("work/pwned").exists(), "{cmd}");
        // The spy sees arguments: what it does not see elsewhere was none.
        let spied = std::fs::read_to_string(bench.at("work/spied")).expect("spied");
        assert!(spied.contains(evil), "{cmd}: {spied}");
    }
}

/// A45-AUTH-04: a secret goes to a command by environment or pipe, never as an argument.
#[tokio::test]
async fn a_secret_value_is_no_argument() {
    let block = |cmd: &str| {
        format!(
            "setup:\n- id: x\n  kind: prompt\n  type: secret\n  prompt: X\n  persist:\n    cmd: |-\n      {cmd}\n"
        )
    };
    for (cmd, logged) in [
        ("TOKEN=${value} tool env TOKEN", format!("TOKEN={CANARY}")),
        ("printf %s ${value} | tool stdin", format!("stdin={CANARY}")),
        (
            "TOKEN=${value} tool env TOKEN | cat",
            format!("TOKEN={CANARY}"),
        ),
    ] {
        let bench = Bench::new(&block(cmd));
        let ctx = bench.with(Person::answering(&["true", CANARY]));
        setup::ensure(&ctx, &bench.bin()).await.expect(cmd);
        assert!(bench.log().contains(&logged), "{cmd}: {}", bench.log());
        bench.nowhere(CANARY);
    }
    for cmd in ["tool args ${value}", "true | tool args \"${value}\""] {
        let bench = Bench::new(&block(cmd));
        let ctx = bench.with(Person::answering(&["true", CANARY]));
        let fault = setup::ensure(&ctx, &bench.bin()).await.expect_err(cmd);
        assert_eq!(fault.code, Code::SetupFailed);
        assert!(fault.message.contains("argument"), "{}", fault.message);
        assert!(!format!("{fault:?}").contains(CANARY));
        assert_eq!(bench.log(), "");
        bench.nowhere(CANARY);
    }
}

/// A command that repeats a secret in its errors does not carry it into ours.
#[tokio::test]
async fn last_words_hold_no_secret() {
    let bench = Bench::new(
        "setup:\n- id: x\n  kind: prompt\n  type: secret\n  prompt: X\n  persist:\n    cmd: \"TOKEN=${value} leak\"\n",
    );
    bench.write(
        "bundle/leak",
        "#!/bin/sh\necho \"bad token $TOKEN\" >&2; exit 1\n",
    );
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(bench.at("bundle/leak"), mode).expect("executable");
    let ctx = bench.with(Person::answering(&["true", CANARY]));
    let bin = bench.at("bundle/leak");
    let fault = setup::ensure(&ctx, &bin).await.expect_err("it fails");
    assert!(
        fault.message.contains("bad token [secret]"),
        "{}",
        fault.message
    );
    assert!(!format!("{fault:?}").contains(CANARY));
    bench.nowhere(CANARY);
}

/// A29-SETUP-31, A45-SETUP-06, A45-SETUP-07.
#[tokio::test]
async fn nobody_is_there() {
    let blocks = "setup:\n\
        - { id: a, kind: cmd, cmd: tool log a, description: First }\n\
        - { id: b, kind: prompt, prompt: B, default: x, persist: { env: B } }\n\
        - { id: c, kind: prompt, prompt: C, type: secret, persist: { env: C } }\n";
    let mut bench = Bench::new(blocks);
    let fault = setup::ensure(&bench.alone(), &bench.bin())
        .await
        .expect_err("pending");
    assert_eq!(fault.code, Code::SetupRequired);
    assert_eq!(
        fault.details["pending"][0],
        serde_json::json!({ "id": "a", "kind": "cmd", "description": "First" })
    );
    assert_eq!(fault.details["pending"].as_array().map(Vec::len), Some(3));
    // `--yes` takes defaults, but makes no secret up; nothing runs before that is known.
    bench.yes = true;
    let fault = setup::ensure(&bench.alone(), &bench.bin())
        .await
        .expect_err("pending");
    assert_eq!(fault.code, Code::SetupRequired);
    assert_eq!(bench.log(), "");
    bench.set("THE_C", CANARY);
    let choices = Choices {
        answers: Answers::parse("a.yaml", b"c: { env: THE_C }\n".to_vec()).expect("answers"),
        ..asked_for()
    };
    let ctx = bench.alone();
    setup::run(&ctx, &bench.bin(), &choices)
        .await
        .expect("done");
    let env = text(&setup::ensure(&ctx, &bench.bin()).await.expect("done"));
    assert_eq!(env, ["B=x".to_owned(), format!("C={CANARY}")]);
    bench.nowhere(CANARY);
    let literal = Choices {
        answers: Answers::parse("a.yaml", b"c: plain\n".to_vec()).expect("answers"),
        redo: Redo::One("c".into()),
        ..asked_for()
    };
    let fault = setup::run(&ctx, &bench.bin(), &literal)
        .await
        .expect_err("a literal secret");
    assert_eq!(fault.code, Code::OptionInvalid);
    let unknown = Choices {
        redo: Redo::One("nobody".into()),
        ..asked_for()
    };
    let fault = setup::run(&ctx, &bench.bin(), &unknown)
        .await
        .expect_err("no such step");
    assert!(fault.hint.is_some_and(|h| h.contains("a, b, c")));
}

#[tokio::test]
async fn redo_one_or_all() {
    let bench = Bench::new(
        "setup:\n- { id: a, kind: cmd, cmd: tool log a }\n- { id: b, kind: cmd, cmd: tool log b }\n",
    );
    let run = async |redo| {
        let choices = Choices {
            redo,
            ..asked_for()
        };
        setup::run(&bench.alone(), &bench.bin(), &choices)
            .await
            .expect("done")
    };
    run(Redo::Nothing).await;
    run(Redo::One("b".into())).await;
    run(Redo::All).await;
    assert_eq!(bench.log(), "a\nb\nb\na\nb\n");
}

/// A29-SETUP-16 and its neighbours: what cannot be meant is refused before anything runs.
#[tokio::test]
async fn broken_steps_are_refused_whole() {
    for (step, word) in [
        ("{ id: x, kind: cmd }", "cmd"),
        ("{ kind: cmd, cmd: x }", "id"),
        ("{ id: x, kind: dance }", "dance"),
        ("{ id: x, kind: prompt, prompt: X, type: colour }", "colour"),
        (
            "{ id: x, kind: prompt, prompt: X, type: select }",
            "options",
        ),
        (
            "{ id: x, kind: prompt, prompt: X, persist: {} }",
            "exactly one",
        ),
        (
            "{ id: x, kind: prompt, prompt: X, persist: { env: A, cmd: b } }",
            "exactly one",
        ),
        (
            "{ id: x, kind: prompt, prompt: X, persist: { env: 'A=B' } }",
            "A=B",
        ),
        ("{ id: first, kind: cmd, cmd: y }", "two setup steps"),
    ] {
        let bench = Bench::new(&format!(
            "setup:\n- {{ id: first, kind: cmd, cmd: tool log ran }}\n- {step}\n"
        ));
        let fault = setup::run(&bench.alone(), &bench.bin(), &asked_for()).await;
        let fault = fault.expect_err(step);
        assert_eq!(fault.code, Code::ManifestInvalid, "{step}");
        assert!(fault.message.contains(word), "{step}: {}", fault.message);
        assert_eq!(bench.log(), "");
    }
}

/// A29-SETUP-09, A29-SETUP-10, A29-SETUP-29, A29-SEC-06.
#[tokio::test]
async fn an_external_step_comes_back_by_its_callback() {
    let bench = Bench::new(
        "setup:\n\
         - { id: team, kind: prompt, prompt: T, persist: { env: TEAM } }\n\
         - id: pick\n  kind: external\n  url: 'https://pick.example/?team=${input.team}&back=${callback_url}'\n\
        \x20 callback: { param: channel_id, timeout_ms: 20000 }\n  persist: { env: CHANNEL }\n",
    );
    let person = Person::acting(&["true", "a b"], |shown| {
        let url = shown.lines().last().expect("a URL").to_owned();
        std::thread::spawn(move || {
            let (before, back) = url.split_once("&back=").expect("a way back");
            assert_eq!(before, "https://pick.example/?team=a%20b");
            let back = back.replace("%3A", ":").replace("%2F", "/");
            let (port, path) = parts(&back);
            let host = format!("Host: 127.0.0.1:{port}");
            let evil = "Origin: https://evil.example";
            let line = format!("GET {path}?channel_id={CANARY} HTTP/1.1");
            assert_eq!(request(port, &line, &[&host, evil]), 403);
            let fine = "Origin: https://pick.example";
            assert_eq!(request(port, &line, &[&host, fine]), 200);
        });
    });
    let env = setup::ensure(&bench.with(person), &bench.bin()).await;
    let env = text(&env.expect("done"));
    assert_eq!(env, ["TEAM=a b".to_owned(), format!("CHANNEL={CANARY}")]);
    bench.nowhere(CANARY);
}

#[tokio::test]
async fn an_external_step_by_hand_and_one_that_nobody_finishes() {
    let bench = Bench::new(
        "setup:\n\
         - { id: paste, kind: external, url: 'https://x.example', persist: { env: PASTED } }\n\
         - { id: done, kind: external, url: 'https://x.example' }\n",
    );
    let ctx = bench.with(Person::answering(&["true", CANARY, "true"]));
    let env = setup::ensure(&ctx, &bench.bin()).await.expect("done");
    assert_eq!(text(&env), [format!("PASTED={CANARY}")]);
    bench.nowhere(CANARY);
    let bench = Bench::new(
        "setup:\n- { id: x, kind: external, url: 'https://x.example', callback: { timeout_ms: 50 } }\n",
    );
    let ctx = bench.with(Person::answering(&["true"]));
    let fault = setup::ensure(&ctx, &bench.bin())
        .await
        .expect_err("nobody came");
    assert_eq!(fault.code, Code::SetupFailed);
    assert!(
        fault.message.contains("nobody came back"),
        "{}",
        fault.message
    );
    let bench = Bench::new("setup:\n- { id: x, kind: external, url: 'file:///etc/passwd' }\n");
    let ctx = bench.with(Person::answering(&["true"]));
    let fault = setup::ensure(&ctx, &bench.bin())
        .await
        .expect_err("no page");
    assert!(fault.message.contains("neither http nor https"));
}

/// The commands see the sandbox of the bundle: nothing of the state's home.
#[tokio::test]
async fn a_step_cannot_read_the_store() {
    let bench = Bench::new("");
    let home = bench.at("home/secrets/key");
    let key = home.display();
    bench.manifest(&format!(
        "setup:\n- {{ id: a, kind: prompt, prompt: A, persist: {{ env: A }} }}\n\
         - {{ id: b, kind: cmd, cmd: 'if cat {key}; then tool log read; else tool log refused; fi' }}\n"
    ));
    let ctx = bench.with(Person::answering(&["true", "x"]));
    setup::ensure(&ctx, &bench.bin()).await.expect("done");
    assert!(home.exists());
    assert_eq!(bench.log(), "refused\n");
}

/// What scripts see of it.
#[test]
fn the_command_line() {
    let mut bench = Bench::new(
        "setup:\n\
         - { id: a, kind: cmd, cmd: tool log a }\n\
         - { id: t, kind: prompt, type: secret, prompt: T, persist: { env: T } }\n",
    );
    let lines = |bytes: &[u8]| -> Vec<serde_json::Value> {
        let text = String::from_utf8_lossy(bytes);
        text.lines()
            .map(|l| serde_json::from_str(l).expect("JSON"))
            .collect()
    };
    let ran = bench
        .command(&["setup", "../bundle", "-o", "jsonl"])
        .output()
        .expect("ran");
    assert_eq!(ran.status.code(), Some(78), "{ran:?}");
    let told = lines(&ran.stdout);
    let error = told
        .iter()
        .find(|l| l["type"] == "aoi:error")
        .expect("an error");
    assert_eq!(error["code"], "SETUP_REQUIRED");
    let summary = told.last().expect("lines");
    assert_eq!(summary["details"]["pending"][1]["id"], "t");
    assert_eq!(bench.log(), "");
    bench.set("THE_TOKEN", CANARY);
    bench.write("work/answers.yaml", "t: { env: THE_TOKEN }\n");
    let args = [
        "setup",
        "../bundle",
        "--answers",
        "answers.yaml",
        "-o",
        "jsonl",
    ];
    let ran = bench.command(&args).output().expect("ran");
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    let told = lines(&ran.stdout);
    let steps: Vec<_> = told.iter().filter(|l| l["type"] == "setup-step").collect();
    assert_eq!(steps.len(), 2, "{told:?}");
    assert_eq!(told.last().expect("lines")["ok"], true);
    assert!(!format!("{ran:?}").contains(CANARY));
    bench.nowhere(CANARY);
    let ran = bench
        .command(&["setup", "../bundle"])
        .output()
        .expect("ran");
    assert_eq!(
        String::from_utf8_lossy(&ran.stdout),
        "a: done before\nt: done before\n"
    );
    let ran = bench
        .command(&["setup", "../bundle", "--redo", "zzz"])
        .output()
        .expect("ran");
    assert_eq!(ran.status.code(), Some(64));
}

/// A29-SETUP-28: asked in the terminal; a secret is not shown while it is typed.
#[test]
fn at_a_terminal() {
    let bench = Bench::new(
        "setup:\n\
         - { id: url, kind: prompt, prompt: Gateway, default: wss://x, persist: { env: URL } }\n\
         - { id: region, kind: prompt, type: select, prompt: Region, options: [eu, us], persist: { env: REGION } }\n\
         - { id: sure, kind: prompt, type: boolean, prompt: Sure, persist: { env: SURE } }\n\
         - { id: token, kind: prompt, type: secret, prompt: Token, persist: { env: TOKEN } }\n\
         - { id: onboard, kind: cmd, interactive: true, cmd: 'read name; tool log hello $name; tool env URL REGION SURE' }\n",
    );
    let mut pty = Pty::start(&bench, &["setup", "../bundle"]);
    pty.expect("Gateway [wss://x]: ");
    pty.send("\n");
    pty.expect("2 us");
    pty.expect("Your choice: ");
    pty.send("9\n");
    pty.expect("one of the numbers");
    pty.send("2\n");
    pty.expect("Sure [y/n]: ");
    pty.send("y\n");
    pty.expect("Token: ");
    assert!(!pty.echoes());
    pty.send(&format!("{CANARY}\n"));
    pty.expect("onboard");
    assert!(pty.echoes());
    pty.send("you\n");
    assert_eq!(pty.finish(), Some(0), "{}", pty.seen);
    assert_eq!(
        bench.log(),
        "hello you\nURL=wss://x\nREGION=us\nSURE=true\n"
    );
    assert!(!pty.seen.contains(CANARY), "{}", pty.seen);
    bench.nowhere(CANARY);
}

/// Two runs at once do a step once: the second waits and sees that it is done.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_at_once() {
    let bench = std::sync::Arc::new(Bench::new(
        "setup:\n- { id: a, kind: cmd, cmd: tool log once }\n",
    ));
    let runs = (0..4).map(|_| {
        let bench = bench.clone();
        tokio::spawn(async move {
            let mut ctx = bench.alone();
            ctx.yes = true;
            setup::ensure(&ctx, &bench.bin()).await.expect("done");
        })
    });
    for run in runs.collect::<Vec<_>>() {
        run.await.expect("joined");
    }
    assert_eq!(bench.log(), "once\n");
}
