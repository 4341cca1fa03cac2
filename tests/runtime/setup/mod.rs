//! Setup with real processes, each in the sandbox of the bundle (AIP-29 § Setup).

mod values;

use crate::bench_bundle::{Bench, Person, events};
use agentproto_runtime::Code;
use agentproto_runtime::setup::answers::Answers;
use agentproto_runtime::setup::{self, Redo, SetupOptions, StepOutcome};

const CANARY: &str = "canary-4711-hunter";

fn requested() -> SetupOptions {
    SetupOptions {
        requested: true,
        ..SetupOptions::default()
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
    agentproto_suites::proves!(
        "A29-SETUP-01",
        "A29-SETUP-02",
        "A29-SETUP-03",
        "A29-SETUP-12",
        "A29-SETUP-22",
        "A29-SETUP-24",
        "A29-SETUP-27",
        "A45-SETUP-02"
    );
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
    assert_eq!(person.questions(), 1, "one confirmation for all steps");
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
    // Another workspace has its own ledger entry.
    let mut ctx = bench.alone();
    ctx.cwd = bench.at("user");
    let fault = setup::ensure(&ctx, &bench.bin())
        .await
        .expect_err("pending there");
    assert_eq!(fault.code, Code::SetupRequired);
}

/// A step runs again if its command changes, but not if only its description changes.
#[tokio::test]
async fn a_changed_step_runs_again() {
    let bench = Bench::new("setup:\n- { id: a, kind: cmd, cmd: tool log 1 }\n");
    let go = async || setup::run(&bench.alone(), &bench.bin(), &requested()).await;
    go().await.expect("done");
    bench.manifest("setup:\n- { id: a, kind: cmd, cmd: tool log 1, description: x }\n");
    go().await.expect("done before");
    assert_eq!(bench.log(), "1\n");
    bench.manifest("setup:\n- { id: a, kind: cmd, cmd: tool log 2 }\n");
    go().await.expect("done again");
    assert_eq!(bench.log(), "1\n2\n");
}

/// A29-SETUP-14, A29-SETUP-25: after a step is done, its check runs only when setup is requested.
#[tokio::test]
async fn a_step_with_a_passing_check_is_skipped() {
    agentproto_suites::proves!("A29-SETUP-14", "A29-SETUP-25");
    let blocks = "setup:\n\
        - { id: a, kind: cmd, cmd: tool log ran, skip_if: { cmd: tool exit 3, exit_code: 3 } }\n\
        - { id: b, kind: cmd, cmd: 'touch made', skip_if: { cmd: tool has made } }\n";
    let bench = Bench::new(blocks);
    let run = async || setup::run(&bench.alone(), &bench.bin(), &requested()).await;
    let report = run().await.expect("done");
    assert_eq!(
        report.steps,
        [
            ("a".into(), StepOutcome::Skipped),
            ("b".into(), StepOutcome::Done)
        ]
    );
    assert_eq!(bench.log(), "");
    let report = run().await.expect("done");
    assert_eq!(report.steps[1].1, StepOutcome::Skipped);
    std::fs::remove_file(bench.at("work/made")).expect("gone");
    setup::ensure(&bench.alone(), &bench.bin())
        .await
        .expect("already done in the ledger");
    assert!(!bench.at("work/made").exists());
    let report = run().await.expect("done");
    assert_eq!(report.steps[1].1, StepOutcome::Done);
    assert!(bench.at("work/made").exists());
}

/// A29-SETUP-23: the error has the step's id and stderr, and earlier steps stay done.
#[tokio::test]
async fn a_failing_step_stops_the_rest() {
    agentproto_suites::proves!("A29-SETUP-23");
    let blocks = "setup:\n\
        - { id: a, kind: cmd, cmd: tool log a }\n\
        - { id: b, kind: cmd, cmd: tool fail badly }\n\
        - { id: c, kind: cmd, cmd: tool log c }\n";
    let bench = Bench::new(blocks);
    let fault = setup::run(&bench.alone(), &bench.bin(), &requested()).await;
    let fault = fault.expect_err("it fails");
    assert_eq!(fault.code, Code::SetupFailed);
    assert_eq!(fault.details["step"], "b");
    assert!(fault.message.contains("it broke: badly") && fault.message.contains("exit code 7"));
    assert_eq!(bench.log(), "a\n");
    bench.manifest(&blocks.replace("fail badly", "log b"));
    setup::run(&bench.alone(), &bench.bin(), &requested())
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
        let fault = setup::run(&bench.alone(), &bench.bin(), &requested()).await;
        let fault = fault.expect_err("it fails");
        assert_eq!(fault.code, Code::SetupFailed, "{block}");
        assert!(fault.message.contains(word), "{}", fault.message);
    }
}

/// A29-SETUP-31, A45-SETUP-06, A45-SETUP-07.
#[tokio::test]
async fn setup_without_a_user() {
    agentproto_suites::proves!("A29-SETUP-31", "A45-SETUP-07");
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
    // `--yes` uses defaults but cannot provide a secret. Nothing runs before that is known.
    bench.yes = true;
    let fault = setup::ensure(&bench.alone(), &bench.bin())
        .await
        .expect_err("pending");
    assert_eq!(fault.code, Code::SetupRequired);
    assert_eq!(bench.log(), "");
    bench.set("THE_C", CANARY);
    let choices = SetupOptions {
        answers: Answers::parse("a.yaml", b"c: { env: THE_C }\n".to_vec()).expect("answers"),
        ..requested()
    };
    let ctx = bench.alone();
    setup::run(&ctx, &bench.bin(), &choices)
        .await
        .expect("done");
    let env = text(&setup::ensure(&ctx, &bench.bin()).await.expect("done"));
    assert_eq!(env, ["B=x".to_owned(), format!("C={CANARY}")]);
    bench.nowhere(CANARY);
    let literal = SetupOptions {
        answers: Answers::parse("a.yaml", b"c: plain\n".to_vec()).expect("answers"),
        redo: Redo::One("c".into()),
        ..requested()
    };
    let fault = setup::run(&ctx, &bench.bin(), &literal)
        .await
        .expect_err("a literal secret");
    assert_eq!(fault.code, Code::OptionInvalid);
    let unknown = SetupOptions {
        redo: Redo::One("nobody".into()),
        ..requested()
    };
    let fault = setup::run(&ctx, &bench.bin(), &unknown)
        .await
        .expect_err("no such step");
    assert!(fault.hint.is_some_and(|h| h.contains("a, b, c")));
}

#[tokio::test]
async fn redo_runs_one_step_or_all() {
    let bench = Bench::new(
        "setup:\n- { id: a, kind: cmd, cmd: tool log a }\n- { id: b, kind: cmd, cmd: tool log b }\n",
    );
    let run = async |redo| {
        let choices = SetupOptions {
            redo,
            ..requested()
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

/// A29-SETUP-16 and similar: invalid steps are refused before anything runs.
#[tokio::test]
async fn invalid_steps_are_refused_before_anything_runs() {
    for (step, word) in [
        ("{ id: x, kind: cmd }", "cmd"),
        ("{ kind: cmd, cmd: x }", "id"),
        ("{ id: x, kind: dance }", "dance"),
        ("{ id: x, kind: prompt, prompt: X, type: color }", "color"),
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
        (
            "{ id: first, kind: cmd, cmd: y }",
            "duplicate setup step id",
        ),
    ] {
        let bench = Bench::new(&format!(
            "setup:\n- {{ id: first, kind: cmd, cmd: tool log ran }}\n- {step}\n"
        ));
        let fault = setup::run(&bench.alone(), &bench.bin(), &requested()).await;
        let fault = fault.expect_err(step);
        assert_eq!(fault.code, Code::ManifestInvalid, "{step}");
        assert!(fault.message.contains(word), "{step}: {}", fault.message);
        assert_eq!(bench.log(), "");
    }
}

/// Commands run in the sandbox of the bundle and cannot see the state directory.
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

/// The command line in machine mode.
#[test]
fn setup_command_in_machine_mode() {
    let mut bench = Bench::new(
        "setup:\n\
         - { id: a, kind: cmd, cmd: tool log a }\n\
         - { id: t, kind: prompt, type: secret, prompt: T, persist: { env: T } }\n",
    );
    let ran = bench
        .command(&["setup", "../bundle", "-o", "jsonl"])
        .output()
        .expect("ran");
    assert_eq!(ran.status.code(), Some(78), "{ran:?}");
    let told = events(&ran.stdout);
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
    let told = events(&ran.stdout);
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

/// Concurrent runs execute a step once: the second waits and sees that it is done.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_runs_execute_a_step_once() {
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

/// A29-SBX: for a CLI.md, every step runs in the AIP-29 sandbox of the bundle: no new process, and
/// no file outside the granted paths.
#[tokio::test]
async fn steps_run_in_the_sandbox_of_a_cli_md() {
    agentproto_suites::proves!("A29-PRIN-01", "A29-SBX-06", "A29-SBX-08");
    let bench = Bench::new("");
    let write = |steps: &str| {
        bench.write(
            "bundle/CLI.md",
            &format!(
                "---\nname: Probe\nid: probe\nversion: 1.0.0\ndescription: D\nbin: touch\n\
                 sandbox:\n  network: {{ egress: [] }}\n  fs: {{ read: ['./**'], write: ['./**'] }}\n  exec: {{ allow: false }}\n  env: {{}}\n\
                 setup:\n{steps}---\n"
            ),
        );
        let bundle = agentproto_runtime::bundle::Bundle::load(&bench.at("bundle/CLI.md"));
        let interact = std::sync::Arc::new(agentproto_runtime::interact::Headless);
        bench.context(bundle.expect("a bundle"), interact)
    };
    let bin = std::path::Path::new("/usr/bin/touch");
    let ctx = write("- { id: a, kind: cmd, cmd: touch made }\n");
    setup::run(&ctx, bin, &requested()).await.expect("done");
    assert!(bench.at("work/made").exists());
    let outside = bench.at("user/outside");
    let outside = outside.display();
    for line in [
        format!("touch {outside}"),
        "touch one && touch two".to_owned(),
    ] {
        let ctx = write(&format!("- {{ id: b, kind: cmd, cmd: '{line}' }}\n"));
        let fault = setup::run(&ctx, bin, &requested()).await.expect_err(&line);
        assert_eq!(fault.code, Code::SetupFailed, "{}", fault.message);
    }
    assert!(!bench.at("user/outside").exists() && !bench.at("work/two").exists());
}
