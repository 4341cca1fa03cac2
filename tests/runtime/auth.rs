//! Login states, refresh, expiry and callbacks, with real processes (AIP-29 § Auth).

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use crate::bench_bundle::pty::Pty;
use crate::bench_bundle::{Bench, Person, events, parts, request};
use agentproto_runtime::auth::LoginOptions;
use agentproto_runtime::auth::callback::{Callback, CallbackError, CallbackSettings};
use agentproto_runtime::auth::state::{self, LoginState};
use agentproto_runtime::{Code, auth};

const CANARY: &str = "canary-0815-hunter";
const SOON: &LoginOptions = &LoginOptions {
    timeout: Duration::from_secs(60),
    completion_timeout: Duration::from_millis(300),
};

fn loopback() -> CallbackSettings {
    CallbackSettings::default()
}

fn pair(name: &str, value: &str) -> (OsString, OsString) {
    (name.into(), value.into())
}

/// A29-OPT-04.
#[tokio::test]
async fn without_auth_no_login_is_required() {
    agentproto_suites::proves!("A29-OPT-04");
    let bench = Bench::new("");
    assert_eq!(
        auth::ensure(&bench.alone(), &bench.bin())
            .await
            .expect("ready"),
        []
    );
    assert_eq!(bench.audit().len(), 0);
}

/// A45-AUTH-03, A29-LOGIN-05: the missing variable is named, and one of several is enough.
#[tokio::test]
async fn a_missing_variable_is_named_and_a_given_one_is_passed() {
    agentproto_suites::proves!("A29-LOGIN-05", "A45-AUTH-03");
    let blocks = "auth: { state: { env: [PROBE_KEY, OTHER_KEY] } }\n";
    let mut bench = Bench::new(blocks);
    let fault = auth::ensure(&bench.alone(), &bench.bin())
        .await
        .expect_err("nothing set");
    assert_eq!(fault.code, Code::AuthRequired);
    assert!(fault.message.contains("PROBE_KEY") && fault.message.contains("OTHER_KEY"));
    assert_eq!(fault.details["env"][0], "PROBE_KEY");
    bench.set("PROBE_KEY", "");
    let fault = auth::ensure(&bench.alone(), &bench.bin())
        .await
        .expect_err("an empty value");
    assert_eq!(fault.code, Code::AuthRequired);
    bench.set("OTHER_KEY", CANARY);
    let ctx = bench.alone();
    let env = auth::ensure(&ctx, &bench.bin()).await.expect("authed");
    assert_eq!(env, [pair("OTHER_KEY", CANARY)]);
    assert_eq!(ctx.masks.mask(CANARY), "[secret]");
    let revealed = bench.audited("secret.reveal");
    assert_eq!(revealed.len(), 1);
    assert_eq!(revealed[0]["slug"], "other-key");
    assert_eq!(revealed[0]["to"], "agent");
    bench.nowhere(CANARY);
}

const LOGIN: &str = "auth:\n  state: { paths: [], env: [PROBE_KEY] }\n  login:\n    cmd: touch session\n    completes_when: { cmd: tool has session }\n";

/// A29-LOGIN-01 to -04, A29-LOGIN-09, A29-AUTH-07.
#[tokio::test]
async fn login_states_from_unknown_to_authed_and_back() {
    agentproto_suites::proves!(
        "A29-AUTH-07",
        "A29-AUTH-11",
        "A29-LOGIN-04",
        "A29-LOGIN-05",
        "A29-LOGIN-06"
    );
    let blocks = format!("{LOGIN}  expiry: {{ detect: 'exit_code:4' }}\n");
    let bench = Bench::new(&blocks);
    let ctx = bench.alone();
    assert_eq!(
        state::read(&ctx).expect("a state").state,
        LoginState::Unknown
    );
    let fault = auth::ensure(&ctx, &bench.bin())
        .await
        .expect_err("not logged in");
    assert_eq!(fault.code, Code::AuthRequired);
    assert!(fault.message.contains("touch session"), "{}", fault.message);
    assert_eq!(fault.details["login"], "touch session");
    assert_eq!(
        state::read(&ctx).expect("a state").state,
        LoginState::Unauthed
    );
    assert!(
        !bench.at("work/session").exists(),
        "a login ran without being requested"
    );
    auth::login(&ctx, &bench.bin(), SOON)
        .await
        .expect("logged in");
    assert_eq!(
        state::read(&ctx).expect("a state").state,
        LoginState::Authed
    );
    auth::ensure(&ctx, &bench.bin()).await.expect("authed");
    // Only the declared exit code means that the login has expired.
    let ended = |code: i32| ExitStatus::from_raw(code << 8);
    assert!(auth::expired(&ctx, ended(0), "").is_none());
    assert!(auth::expired(&ctx, ended(1), "").is_none());
    assert!(auth::expired(&ctx, ExitStatus::from_raw(9), "").is_none());
    assert_eq!(
        state::read(&ctx).expect("a state").state,
        LoginState::Authed
    );
    let fault = auth::expired(&ctx, ended(4), "token too old").expect("expired");
    assert_eq!(fault.code, Code::AuthRequired);
    assert!(fault.message.contains("token too old"));
    assert_eq!(
        state::read(&ctx).expect("a state").state,
        LoginState::Unauthed
    );
    // After a login elsewhere, the check notices it.
    auth::ensure(&ctx, &bench.bin()).await.expect("authed");
    let moves = bench.audited("auth.state");
    let to: Vec<_> = moves.iter().filter_map(|m| m["to"].as_str()).collect();
    assert_eq!(to, ["unauthed", "authed", "unauthed", "authed"]);
}

/// A29-OUT-08, A29-AUTH-10: the exit code mapping can declare it as well.
#[tokio::test]
async fn a_mapped_exit_code_means_expiry() {
    let bench = Bench::new(&format!(
        "{LOGIN}output: {{ exit_codes: {{ 9: auth_required }} }}\n"
    ));
    let ctx = bench.alone();
    assert!(auth::expired(&ctx, ExitStatus::from_raw(9 << 8), "").is_some());
    assert!(auth::expired(&ctx, ExitStatus::from_raw(4 << 8), "").is_none());
}

/// A29-AUTH-05, A29-LOGIN-08: the user is asked, and an interactive login never runs unattended.
#[tokio::test]
async fn logins_need_consent_or_a_terminal() {
    agentproto_suites::proves!("A29-AUTH-05", "A29-LOGIN-08");
    let mut bench = Bench::new(LOGIN);
    let no = Person::answering(&["false"]);
    let fault = auth::ensure(&bench.with(no.clone()), &bench.bin())
        .await
        .expect_err("declined");
    assert_eq!((fault.code, no.questions()), (Code::AuthRequired, 1));
    let yes = Person::answering(&["true"]);
    auth::ensure(&bench.with(yes), &bench.bin())
        .await
        .expect("logged in");
    let blocks = LOGIN.replace("    cmd:", "    interactive: true\n    cmd:");
    bench = Bench::new(&blocks);
    bench.yes = true;
    for fault in [
        auth::ensure(&bench.alone(), &bench.bin())
            .await
            .expect_err("unattended"),
        auth::login(&bench.alone(), &bench.bin(), SOON)
            .await
            .expect_err("unattended"),
    ] {
        assert_eq!(fault.code, Code::AuthRequired);
    }
    assert!(!bench.at("work/session").exists());
    bench = Bench::new(LOGIN);
    bench.yes = true;
    auth::ensure(&bench.alone(), &bench.bin())
        .await
        .expect("`--yes` is enough for a non-interactive login");
}

#[tokio::test]
async fn failed_and_unconfirmed_logins_are_reported() {
    for (cmd, word) in [
        ("tool fail at it", "it broke: at it"),
        ("tool log in", "completes_when"),
    ] {
        let bench = Bench::new(&LOGIN.replace("touch session", cmd));
        let ctx = bench.alone();
        let fault = auth::login(&ctx, &bench.bin(), SOON).await.expect_err(cmd);
        assert_eq!(fault.code, Code::AuthRequired);
        assert!(fault.message.contains(word), "{}", fault.message);
        // A29-DEFCLI-06.
        assert_eq!(fault.details["reason"], "upstream_error");
        assert_ne!(
            state::read(&ctx).expect("a state").state,
            LoginState::Authed
        );
    }
}

/// A29-AUTH-09, A29-LOGIN-07, A29-DEFCLI-08.
#[tokio::test]
async fn refresh_runs_when_due() {
    agentproto_suites::proves!("A29-AUTH-09", "A29-LOGIN-07");
    let blocks = |cmd: &str| {
        format!(
            "{LOGIN}  refresh: {{ cmd: '{cmd}', every: PT1H }}\n  expiry: {{ detect: 'exit_code:4' }}\n"
        )
    };
    let bench = Bench::new(&blocks("tool log refreshed"));
    let ctx = bench.alone();
    auth::login(&ctx, &bench.bin(), SOON)
        .await
        .expect("logged in");
    auth::ensure(&ctx, &bench.bin()).await.expect("authed");
    assert_eq!(bench.log(), "");
    let age = |seconds: u64| {
        let mut kept = state::read(&ctx).expect("a state");
        kept.refreshed = Some(state::now() - seconds);
        kept.write(&ctx).expect("written");
    };
    age(3500);
    auth::ensure(&ctx, &bench.bin()).await.expect("authed");
    assert_eq!(bench.log(), "");
    age(3700);
    for _ in 0..2 {
        auth::ensure(&ctx, &bench.bin()).await.expect("authed");
        assert_eq!(bench.log(), "refreshed\n");
    }
    auth::refresh(&ctx, &bench.bin()).await.expect("refreshed");
    assert_eq!(bench.log(), "refreshed\nrefreshed\n");
    // An upstream failure does not change the login state, but an expiry does.
    bench.manifest(&blocks("tool fail for now"));
    age(3700);
    let ctx = bench.alone();
    auth::ensure(&ctx, &bench.bin())
        .await
        .expect("still authed");
    assert!(bench.heard.text().contains("refresh_failed"));
    bench.manifest(&blocks("tool exit 4"));
    age(3700);
    let ctx = bench.alone();
    let fault = auth::ensure(&ctx, &bench.bin()).await.expect_err("expired");
    assert_eq!(fault.code, Code::AuthRequired);
    assert_eq!(
        state::read(&ctx).expect("a state").state,
        LoginState::Unauthed
    );
    bench.manifest(&blocks("true").replace("PT1H", "1h"));
    let fault = auth::ensure(&bench.alone(), &bench.bin())
        .await
        .expect_err("no duration");
    assert_eq!(fault.code, Code::ManifestInvalid);
}

/// A29-AUTH-06: the command gets the address in an environment variable and the result on stdin.
#[tokio::test]
async fn a_login_with_a_callback() {
    let bench = Bench::new(
        "auth:\n  login:\n    cmd: 'printenv AGENTPROTO_CALLBACK_URL; read back; echo \"$back\" > session'\n    requires_callback_url: true\n    completes_when: { cmd: tool has session }\n",
    );
    let person = Person::acting(&[], |shown| {
        let url = shown.to_owned();
        std::thread::spawn(move || {
            let (port, path) = parts(&url);
            let host = format!("Host: localhost:{port}");
            let line = format!("GET {path}?code=a%20b&state=1 HTTP/1.1");
            assert_eq!(request(port, &line, &[&host]), 200);
        });
    });
    let ctx = bench.with(person);
    auth::login(&ctx, &bench.bin(), SOON)
        .await
        .expect("logged in");
    let came = std::fs::read_to_string(bench.at("work/session")).expect("written");
    assert_eq!(came, "code=a%20b&state=1\n");
}

/// A29-SEC-06, A29-SEC-07.
#[tokio::test]
async fn a_callback_accepts_one_request_and_refuses_others() {
    agentproto_suites::proves!("A29-SEC-06", "A29-SEC-07");
    let origins = ["https://login.example".to_owned()];
    let callback = Callback::open(&loopback(), None, None, &origins)
        .await
        .expect("open");
    let (port, path) = parts(&callback.url());
    assert_eq!(path.len(), "/callback/".len() + 64);
    let waiting = tokio::spawn(callback.wait(Duration::from_secs(20)));
    let attacks = tokio::task::spawn_blocking(move || {
        let host = format!("Host: 127.0.0.1:{port}");
        let get = |path: &str| format!("GET {path}?code=evil HTTP/1.1");
        let near = format!("{}0", &path[..path.len() - 1]);
        let near = if near == path {
            format!("{}1", &path[..path.len() - 1])
        } else {
            near
        };
        assert_eq!(request(port, &get("/"), &[&host]), 404);
        assert_eq!(request(port, &get("/callback/"), &[&host]), 404);
        assert_eq!(request(port, &get(&near), &[&host]), 404);
        let absolute = format!("http://evil.example{path}");
        assert_eq!(request(port, &get(&absolute), &[&host]), 404);
        // DNS rebinding: the correct path under a different host name.
        assert_eq!(request(port, &get(&path), &["Host: evil.example"]), 403);
        assert_eq!(request(port, &get(&path), &[]), 403);
        assert_eq!(
            request(port, &get(&path), &[&host, "Host: evil.example"]),
            403
        );
        assert_eq!(
            request(port, &get(&path), &[&host, "Origin: https://evil.example"]),
            403
        );
        assert_eq!(request(port, &get(&path), &[&host, "Origin: null"]), 403);
        assert_eq!(
            request(port, &format!("POST {path} HTTP/1.1"), &[&host]),
            405
        );
        assert_eq!(request(port, "nonsense", &[&host]), 400);
        let long = format!("X: {}", "x".repeat(20_000));
        assert!(matches!(
            request(port, &get(&path), &[&host, &long]),
            400 | 0
        ));
        // An idle connection does not block others.
        let _idle = std::net::TcpStream::connect(("127.0.0.1", port)).expect("connected");
        let line = format!("GET {path}?code=good HTTP/1.1");
        let origin = "Origin: https://login.example";
        assert_eq!(request(port, &line, &[&host, origin]), 200);
        port
    });
    let port = attacks.await.expect("attacked");
    let query = waiting.await.expect("joined").expect("a request");
    assert_eq!(query, [("code".to_owned(), "good".to_owned())]);
    let again = std::net::TcpStream::connect(("127.0.0.1", port));
    assert!(again.is_err(), "the callback must close after one request");
}

#[tokio::test]
async fn a_callback_with_its_own_state_and_a_timeout() {
    agentproto_suites::proves!("A29-SEC-06");
    let callback = Callback::open(&loopback(), Some("/cb"), Some("s3cr3t".into()), &[])
        .await
        .expect("open");
    let (port, path) = parts(&callback.url());
    assert_eq!(path, "/cb");
    let waiting = tokio::spawn(callback.wait(Duration::from_secs(20)));
    tokio::task::spawn_blocking(move || {
        let host = format!("Host: 127.0.0.1:{port}");
        let get = |query: &str| request(port, &format!("GET /cb{query} HTTP/1.1"), &[&host]);
        assert_eq!(get("?code=evil"), 403);
        assert_eq!(get("?code=evil&state=wrong"), 403);
        assert_eq!(get("?code=evil&state=s3cr3t&state=wrong"), 403);
        assert_eq!(get("?code=good&state=s3cr3t"), 200);
    })
    .await
    .expect("visited");
    assert!(waiting.await.expect("joined").is_ok());
    // Without its own state parameter, a fixed path would be guessable, so it is not used.
    let callback = Callback::open(&loopback(), Some("/cb"), None, &[])
        .await
        .expect("open");
    assert_ne!(parts(&callback.url()).1, "/cb");
    let limit = Duration::from_millis(20);
    assert_eq!(
        callback.wait(limit).await,
        Err(CallbackError::Timeout(limit))
    );
}

/// The command line in machine mode: states and sources, but never a value.
#[test]
fn auth_commands_in_machine_mode() {
    let mut bench = Bench::new(LOGIN);
    let run = |bench: &Bench, args: &[&str], input: &str| {
        let out = bench
            .command(args)
            .write_stdin(input.to_owned())
            .output()
            .expect("ran");
        assert!(!format!("{out:?}").contains(CANARY), "{out:?}");
        let stdout = String::from_utf8_lossy(&out.stdout).into_owned();
        let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
        (out.status.code(), stdout, stderr)
    };
    let (code, out, _) = run(&bench, &["auth", "status", "../bundle"], "");
    assert_eq!(code, Some(77));
    assert!(
        out.starts_with("not logged in: run `agentproto auth set ../bundle PROBE_KEY`\n"),
        "{out}"
    );
    let (code, out, err) = run(&bench, &["auth", "set", "../bundle", "PROBE_KEY"], CANARY);
    assert_eq!(
        (code, out.as_str()),
        (Some(0), "probe-key: stored\n"),
        "{err}"
    );
    bench.nowhere(CANARY);
    let (code, out, _) = run(&bench, &["auth", "status", "../bundle", "-o", "jsonl"], "");
    assert_eq!(code, Some(0));
    let told = events(out.as_bytes());
    let told = &told[1];
    assert_eq!(told["type"], "auth-status");
    assert_eq!(told["state"], "authed");
    assert_eq!(told["variables"][0]["source"], "store");
    // A secret cannot be passed as an argument.
    let (code, _, _) = run(&bench, &["auth", "set", "../bundle", "PROBE_KEY", "x"], "");
    assert_eq!(code, Some(64));
    for (args, input, word) in [
        (
            &["auth", "set", "../bundle", "NOBODY"] as &[&str],
            "x",
            "known secrets: probe-key (variable PROBE_KEY)",
        ),
        (
            &["auth", "set", "../bundle", "PROBE_KEY"],
            "",
            "stdin is empty",
        ),
        (
            &["auth", "set", "../bundle", "PROBE_KEY"],
            "a\0b",
            "NUL byte",
        ),
        (&["auth", "refresh", "../bundle"], "", "auth.refresh.cmd"),
    ] {
        let (code, _, err) = run(&bench, args, input);
        assert_eq!(code, Some(64), "{args:?}: {err}");
        assert!(err.contains(word), "{args:?}: {err}");
    }
    let (code, _, err) = run(&bench, &["auth", "forget", "../bundle"], "y\n");
    assert_eq!(code, Some(64));
    assert!(err.contains("--confirm"), "{err}");
    let (code, out, _) = run(&bench, &["auth", "forget", "../bundle", "--confirm"], "");
    assert_eq!(code, Some(0));
    assert!(out.contains("probe-key: deleted"), "{out}");
    let (code, _, err) = run(&bench, &["auth", "login", "../bundle"], "");
    assert_eq!(code, Some(0), "{err}");
    bench.set("PROBE_KEY", CANARY);
    let (code, out, _) = run(&bench, &["auth", "status", "../bundle"], "");
    assert_eq!(code, Some(0));
    assert!(out.contains("PROBE_KEY: from the environment"), "{out}");
    bench.nowhere(CANARY);
}

/// A29-AUTH-05: an interactive login runs on the user's terminal.
#[test]
fn an_interactive_login_at_a_terminal() {
    agentproto_suites::proves!("A29-AUTH-05");
    let bench = Bench::new(
        "auth:\n  login:\n    cmd: 'printf \"name? \"; read name; echo $name > session'\n    interactive: true\n    completes_when: { cmd: tool has session }\n",
    );
    let mut pty = Pty::start(&bench, &["auth", "login", "../bundle"]);
    pty.expect("name? ");
    pty.send("me\n");
    pty.expect("logged in");
    assert_eq!(pty.finish(), Some(0), "{}", pty.seen);
    let session = std::fs::read_to_string(bench.at("work/session")).expect("written");
    assert_eq!(session, "me\n");
}

/// A29-DEFCLI-13: Ctrl-C ends it, and the terminal settings are restored.
#[test]
fn an_interrupt_restores_the_terminal() {
    let bench = Bench::new(LOGIN);
    let mut pty = Pty::start(&bench, &["auth", "set", "../bundle", "PROBE_KEY"]);
    pty.expect("PROBE_KEY: ");
    assert!(!pty.echoes());
    pty.send("half of it\x03");
    assert_eq!(pty.finish(), Some(130), "{}", pty.seen);
    assert!(pty.echoes());
    let mut pty = Pty::start(&bench, &["auth", "set", "../bundle", "PROBE_KEY"]);
    pty.expect("PROBE_KEY: ");
    pty.send(&format!("{CANARY}\n"));
    pty.expect("probe-key: stored");
    assert_eq!(pty.finish(), Some(0));
    assert!(!pty.seen.contains(CANARY), "{}", pty.seen);
    bench.nowhere(CANARY);
    // An interrupt also ends a login that hangs.
    let bench =
        Bench::new("auth: { login: { cmd: 'echo here we go; tool hang', interactive: true } }\n");
    let mut pty = Pty::start(&bench, &["auth", "login", "../bundle"]);
    pty.expect("here we go");
    pty.send("\x03");
    assert_eq!(pty.finish(), Some(130), "{}", pty.seen);
}
