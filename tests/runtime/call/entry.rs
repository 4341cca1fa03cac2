//! Hooks that a host defines in Rust (AIP-29, `defineCli`). tests/npm tests modules in Node.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use agentproto_runtime::auth::{self, LoginOptions};
use agentproto_runtime::bundle::Bundle;
use agentproto_runtime::context::{Context, ContextOptions, Sandboxing};
use agentproto_runtime::entry::{
    CliHandle, DetectExpiryArgs, ExpectedOutput, LoginFailure, LoginResult, OutputError,
    ParseOutputArgs, ParseOutputResult, RefreshFailure, RefreshResult,
};
use agentproto_runtime::home::Home;
use agentproto_runtime::interact::Headless;
use agentproto_runtime::tool::{BundleOptions, CallOptions, CallResult, Format, ToolBundle};
use agentproto_runtime::{CliDefinition, Code, Error, define_cli};
use agentproto_sandbox::helper;
use agentproto_suites::proves;
use serde_json::{Value, json};

use super::{Aviary, LOGIN};
use crate::bench_bundle::Heard;

struct Host {
    aviary: Aviary,
    heard: Arc<Heard>,
}

/// The definition of the bundle in these tests, as its CLI.md has it.
fn bird() -> CliDefinition {
    CliDefinition::new("bird", "Bird CLI", "Talks about birds.", "bird")
}

impl Host {
    fn new(blocks: &str) -> Host {
        helper::use_binary(env!("CARGO_BIN_EXE_agentproto"));
        Host {
            aviary: Aviary::new(blocks),
            heard: Arc::default(),
        }
    }

    fn context(&self, cli: &CliHandle) -> Context {
        let bundle = Bundle::load(&self.aviary.at("bird/CLI.md")).expect("a bundle");
        let options = ContextOptions {
            home: Home::new(self.aviary.at("home")),
            cwd: self.aviary.at("work"),
            host_env: Arc::new(vec![
                ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()),
                ("HOME".into(), self.aviary.at("user").into()),
                ("USER".into(), "robin".into()),
            ]),
            sandboxing: Sandboxing::Auto,
            sandbox: Default::default(),
            yes: false,
            observer: self.heard.clone(),
            interact: Arc::new(Headless),
        };
        let context = Context::new(bundle, options).expect("a context");
        context.attach(cli.clone())
    }

    async fn call(
        &self,
        cli: &CliHandle,
        words: &[&str],
        input: Value,
    ) -> Result<CallResult, Error> {
        let bundle = ToolBundle::load(self.context(cli), BundleOptions::default())?;
        let command = bundle.command(words)?;
        bundle.call(command, input, CallOptions::default()).await
    }

    async fn log_in(&self, context: &Context) -> Result<(), Error> {
        let bin = self.aviary.at("bird/bin/bird");
        auth::login(context, &bin, &LoginOptions::default()).await
    }

    async fn refresh(&self, cli: &CliHandle) -> Result<(), Error> {
        let bin = self.aviary.at("bird/bin/bird");
        auth::refresh(&self.context(cli), &bin).await
    }

    async fn status(&self, cli: &CliHandle) -> auth::LoginStatus {
        let context = self.context(cli);
        auth::status(&context, None).await.expect("a status")
    }
}

/// A login that no command confirms.
const UNCHECKED: &str = "auth:\n  state: { paths: [], env: [BIRD_KEY] }\n  login: { cmd: 'bird fail' }\n\
    \x20 refresh: { cmd: 'bird fail', every: PT24H }";

#[tokio::test]
async fn the_output_hook_gets_the_output_and_decides() {
    proves!(
        "A29-DEFCLI-01",
        "A29-DEFCLI-02",
        "A29-DEFCLI-03",
        "A29-DEFCLI-09",
        "A29-DEFCLI-10"
    );
    let host = Host::new("output: { default_format: text, exit_codes: { 3: missing } }");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let list = Arc::clone(&seen);
    let cli = define_cli(bird().on_parse_output(move |args| {
        list.lock().expect("a list").push(args.clone());
        match args.exit_code {
            0 => ParseOutputResult::ok(json!({ "words": args.stdout.split(' ').count() })),
            3 => ParseOutputResult::ok(json!([])),
            _ => ParseOutputResult::failed(OutputError {
                code: "broken_wing".into(),
                message: args.stderr.trim().into(),
                retryable: Some(true),
            }),
        }
    }));
    let said = host
        .call(&cli, &["run", "say"], json!({ "text": "a b c" }))
        .await;
    let said = said.expect("called");
    assert_eq!(
        (said.is_ok(), said.value),
        (true, Some(json!({ "words": 3 })))
    );
    let first = ParseOutputArgs {
        exit_code: 0,
        stdout: "a b c".into(),
        stderr: "a note\n".into(),
        expected: ExpectedOutput {
            format: Format::Text,
        },
    };
    assert_eq!(*seen.lock().expect("a list"), [first]);

    let failed = host
        .call(&cli, &["run", "exit"], json!({ "code": 1 }))
        .await;
    let error = failed.expect("called").error.expect("an error");
    assert_eq!(error.code, Code::ToolFailed);
    assert!(error.message.contains("it broke"), "{}", error.message);
    assert_eq!(
        *error.details,
        json!({ "code": "broken_wing", "retryable": true })
    );

    // The hook may accept what the exit code reports as an error.
    let none = host
        .call(&cli, &["run", "exit"], json!({ "code": 3 }))
        .await;
    let none = none.expect("called");
    assert!(
        none.is_ok() && none.meaning == "missing",
        "{:?}",
        none.error
    );
    assert_eq!(none.value, Some(json!([])));

    // Without the hook, the exit code and the format decide.
    let plain = define_cli(bird());
    let plain = host
        .call(&plain, &["run", "exit"], json!({ "code": 3 }))
        .await;
    assert!(!plain.expect("called").is_ok());
}

#[tokio::test]
async fn the_cli_md_wins_over_the_definition_with_a_warning() {
    proves!("A29-DEFCLI-12");
    let host = Host::new("metadata: { aviary: { size: 3 }, other: 1 }");
    let cli = define_cli(CliDefinition {
        name: "Another name".into(),
        bin: "sh".into(),
        sandbox: Some(json!({ "network": { "egress": ["example.com"] } })),
        metadata: json!({ "aviary": { "size": 4 } }).as_object().cloned(),
        tags: Some(vec!["extra".into()]),
        ..bird()
    });
    let result = host
        .call(&cli, &["run", "say"], json!({ "text": "x" }))
        .await;
    let result = result.expect("the program of the CLI.md ran");
    assert_eq!(result.output.text(), "x");
    let mut fields: Vec<&str> = Vec::new();
    for warning in &result.warnings {
        assert_eq!(warning.code, "entry_conflict", "{}", warning.message);
        fields.extend(warning.message.split('`').nth(1));
    }
    fields.sort_unstable();
    assert_eq!(fields, ["bin", "metadata", "name", "sandbox"]);
    // A refused call and a login also show the warning.
    let host = Host::new(LOGIN);
    let cli = define_cli(CliDefinition {
        name: "Another name".into(),
        ..bird()
    });
    host.call(&cli, &["run", "say"], json!({}))
        .await
        .expect_err("not logged in");
    host.log_in(&host.context(&cli)).await.expect("logged in");
    let heard = host.heard.text();
    assert_eq!(
        heard.matches("entry_conflict: `name`").count(),
        2,
        "{heard}"
    );
    // An equal definition has no conflict.
    let equal = define_cli(CliDefinition {
        version: Some("1.0.0".into()),
        install: Some(vec![json!({ "method": "vendored", "path": "./bin/bird" })]),
        version_check: Some(
            json!({ "cmd": "bird --version", "parse": r"bird (\S+)", "range": ">=1 <2" }),
        ),
        ..bird()
    });
    let result = host
        .call(&equal, &["run", "say"], json!({ "text": "x" }))
        .await;
    let warnings = result.expect("called").warnings;
    assert!(warnings.is_empty(), "{warnings:?}");
}

#[tokio::test]
async fn the_login_hook_logs_in_and_its_failures_have_reasons() {
    proves!("A29-DEFCLI-05", "A29-DEFCLI-06");
    let host = Host::new(LOGIN);
    let session = host.aviary.at("work/session");
    let cli = define_cli(bird().on_login(move |args| {
        let session = session.clone();
        async move {
            assert_eq!(args.context.bundle, "bird@1");
            assert_eq!(args.context.surface, "headless");
            assert_eq!(args.context.user.as_deref(), Some("robin"));
            assert!(!args.signal.is_cancelled());
            args.context.show("open https://login.example");
            std::fs::write(session, "").expect("written");
            LoginResult::Ok
        }
    }));
    let refused = host.call(&cli, &["run", "say"], json!({})).await;
    assert_eq!(refused.expect_err("logged out").code, Code::AuthRequired);
    host.log_in(&host.context(&cli)).await.expect("logged in");
    assert!(host.heard.text().contains("open https://login.example"));
    assert_eq!(host.status(&cli).await.state.as_str(), "authed");
    host.call(&cli, &["run", "say"], json!({ "text": "x" }))
        .await
        .expect("called");

    for reason in [
        LoginFailure::UserCancelled,
        LoginFailure::CallbackFailed,
        LoginFailure::UpstreamError,
    ] {
        let host = Host::new(LOGIN);
        let failing = define_cli(
            bird().on_login(move |_| async move { LoginResult::failed(reason, "the reason why") }),
        );
        let error = host.log_in(&host.context(&failing)).await;
        let error = error.expect_err("failed");
        assert_eq!(error.code, Code::AuthRequired);
        let name: &str = reason.into();
        assert_eq!(error.details["reason"], name);
        assert!(
            error.message.contains("the reason why"),
            "{}",
            error.message
        );
        assert_eq!(host.status(&failing).await.state.as_str(), "unauthed");
    }
    // `completes_when` of the CLI.md decides, not the hook.
    let host = Host::new(LOGIN);
    let lying = define_cli(bird().on_login(async |_| LoginResult::Ok));
    let options = LoginOptions {
        completion_timeout: Duration::from_millis(200),
        ..LoginOptions::default()
    };
    let bin = host.aviary.at("bird/bin/bird");
    let error = auth::login(&host.context(&lying), &bin, &options).await;
    assert_eq!(error.expect_err("not confirmed").code, Code::AuthRequired);
}

#[tokio::test]
async fn a_canceled_login_ends_at_once_and_changes_nothing() {
    proves!("A29-DEFCLI-05", "A29-DEFCLI-13");
    let callback = LOGIN.replace(
        "cmd: 'bird login',",
        "cmd: 'bird sleep', requires_callback_url: true,",
    );
    // One hook obeys the signal, the other one does not. The command is killed.
    for kind in ["obeys", "waits for the browser", "ignores", "command"] {
        for was_authed in [true, false] {
            let host = Host::new(&callback);
            let cli = define_cli(bird());
            if was_authed {
                host.aviary.write("work/session", "");
                host.call(&cli, &["run", "say"], json!({ "text": "x" }))
                    .await
                    .expect("logged in");
            }
            let cleaned = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&cleaned);
            let cli = match kind {
                "command" => cli,
                kind => define_cli(bird().on_login(move |args| {
                    let count = Arc::clone(&count);
                    async move {
                        assert!(args.context.callback_url.is_some());
                        match kind {
                            "obeys" => args.signal.cancelled().await,
                            "ignores" => std::future::pending().await,
                            _ => tokio::select! {
                                _ = args.context.callback() => {}
                                () = args.signal.cancelled() => {}
                            },
                        }
                        count.fetch_add(1, SeqCst);
                        LoginResult::Ok
                    }
                })),
            };
            let context = host.context(&cli);
            let cancel = context.cancel.clone();
            let started = Instant::now();
            let canceling = async {
                tokio::time::sleep(Duration::from_millis(300)).await;
                assert_eq!(context.runs_hook(), kind != "command");
                cancel.cancel();
            };
            let (ended, ()) = tokio::join!(host.log_in(&context), canceling);
            let error = ended.expect_err("canceled");
            assert_eq!(error.details["reason"], "user_cancelled", "{kind}");
            assert!(started.elapsed() < Duration::from_secs(4), "{kind}");
            assert_eq!(
                cleaned.load(SeqCst),
                usize::from(kind == "obeys" || kind.starts_with("waits"))
            );
            let expected = if was_authed { "authed" } else { "unauthed" };
            assert_eq!(host.status(&cli).await.state.as_str(), expected, "{kind}");
            assert!(!context.runs_hook());
            let until = Instant::now() + Duration::from_secs(5);
            while host.aviary.is_running("sleep") {
                assert!(Instant::now() < until, "the command is still running");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

#[tokio::test]
async fn the_refresh_hook_decides_when_the_next_refresh_is_due() {
    proves!("A29-DEFCLI-07", "A29-DEFCLI-08");
    let host = Host::new(UNCHECKED);
    let runs = Arc::new(AtomicUsize::new(0));
    let next = Arc::new(Mutex::new(RefreshResult::Ok {
        next_refresh_at: Some("2000-01-01T00:00:00Z".into()),
    }));
    let (count, result) = (Arc::clone(&runs), Arc::clone(&next));
    let cli = define_cli(
        bird()
            .on_login(async |_| LoginResult::Ok)
            .on_refresh(move |args| {
                assert_eq!(args.context.bundle, "bird@1");
                assert!(!args.signal.is_cancelled());
                count.fetch_add(1, SeqCst);
                let result = result.lock().expect("a result").clone();
                async move { result }
            }),
    );
    let call = async || {
        host.call(&cli, &["run", "say"], json!({ "text": "x" }))
            .await
    };
    let set = |result: RefreshResult| *next.lock().expect("a result") = result;
    let error = host.refresh(&cli).await.expect_err("logged out");
    assert_eq!((error.code, runs.load(SeqCst)), (Code::AuthRequired, 0));
    host.log_in(&host.context(&cli)).await.expect("logged in");
    // The declared interval of a day has not passed.
    call().await.expect("called");
    assert_eq!(runs.load(SeqCst), 0);
    host.refresh(&cli).await.expect("refreshed");
    assert_eq!(runs.load(SeqCst), 1);
    // The hook named a time that is over, so the next call refreshes.
    set(RefreshResult::Ok {
        next_refresh_at: Some("2999-01-01T00:00:00+02:00".into()),
    });
    call().await.expect("called");
    assert_eq!(runs.load(SeqCst), 2);
    let due = host.status(&cli).await.refresh_due;
    assert_eq!(due, Some(32_472_136_800));
    call().await.expect("called");
    assert_eq!(runs.load(SeqCst), 2);
    // Without a time, the declared interval applies again.
    set(RefreshResult::Ok {
        next_refresh_at: None,
    });
    host.refresh(&cli).await.expect("refreshed");
    assert!(host.status(&cli).await.refresh_due < due);

    set(RefreshResult::Ok {
        next_refresh_at: Some("tomorrow".into()),
    });
    let error = host.refresh(&cli).await.expect_err("not a time");
    assert_eq!(error.code, Code::EntryFailed);
    set(RefreshResult::failed(RefreshFailure::UpstreamError, "busy"));
    let error = host.refresh(&cli).await.expect_err("failed");
    assert_eq!(error.code, Code::SecretUnavailable);
    assert_eq!(error.details["reason"], "upstream_error");
    assert_eq!(host.status(&cli).await.state.as_str(), "authed");
    set(RefreshResult::failed(RefreshFailure::AuthExpired, "gone"));
    let error = host.refresh(&cli).await.expect_err("expired");
    assert_eq!(error.code, Code::AuthRequired);
    assert_eq!(error.details["reason"], "auth_expired");
    assert_eq!(host.status(&cli).await.state.as_str(), "unauthed");
}

#[tokio::test]
async fn the_expiry_hook_ends_the_login() {
    proves!("A29-DEFCLI-03");
    let host = Host::new(LOGIN);
    host.aviary.write("work/session", "");
    let cli = define_cli(bird().on_detect_expiry(|args: &DetectExpiryArgs| {
        args.exit_code == 0 && args.stdout == "please log in" && args.stderr == "a note\n"
    }));
    let fine = host
        .call(&cli, &["run", "say"], json!({ "text": "x" }))
        .await;
    assert!(fine.expect("called").is_ok());
    let expired = host
        .call(&cli, &["run", "say"], json!({ "text": "please log in" }))
        .await;
    let expired = expired.expect("called");
    assert_eq!(expired.meaning, "auth_required");
    assert_eq!(expired.error.expect("an error").code, Code::AuthRequired);
    assert_eq!(host.status(&cli).await.state.as_str(), "unauthed");
}

/// Hooks do not run when they are defined or attached, and the sandbox of the CLI.md applies to the
/// tool whatever the definition says.
#[tokio::test]
async fn defining_runs_nothing_and_does_not_widen_the_sandbox() {
    proves!("A29-DEFCLI-15", "A29-DEFCLI-16");
    let host = Host::new("");
    host.aviary
        .replace("bird/CLI.md", "write: ['./**']", "write: []");
    let runs = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&runs);
    let cli = define_cli(CliDefinition {
        sandbox: Some(json!({ "fs": { "read": ["/**"], "write": ["/**"] } })),
        ..bird().on_parse_output(move |_| {
            count.fetch_add(1, SeqCst);
            ParseOutputResult::ok(Value::Null)
        })
    });
    let bundle = ToolBundle::load(host.context(&cli), BundleOptions::default()).expect("a bundle");
    assert_eq!(bundle.commands().len(), 6);
    assert_eq!(runs.load(SeqCst), 0);
    let input = json!({ "verb": "write", "arg": "made" });
    host.call(&cli, &["run", "any"], input)
        .await
        .expect("called");
    assert_eq!(runs.load(SeqCst), 1);
    assert!(!host.aviary.at("work/made").exists());
}

/// A module decides about later calls and logins, so a tool that can write in its bundle cannot
/// create or change it.
#[test]
fn a_tool_cannot_write_the_module_of_its_bundle() {
    let host = Host::new("");
    let write = |name: &str| {
        let words = ["run", "any", "--verb", "write", "--arg", name];
        let target = ["--cwd", "../bird", "../bird"];
        host.aviary.call(&[&target[..], &words].concat()).code
    };
    assert_eq!(write("made"), 0);
    for name in ["cli.mjs", "cli.ts"] {
        assert_ne!(write(name), 0);
        assert!(!host.aviary.at("bird").join(name).exists(), "{name}");
    }
}
