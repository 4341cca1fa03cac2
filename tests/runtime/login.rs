//! The first login on a fresh machine, what a login shows, and how it ends.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use crate::bench_bundle::{Bench, Person, events, request};
use agentproto_runtime::auth::callback::{Callback, CallbackSettings};
use agentproto_runtime::auth::state::{self, LoginState};
use agentproto_runtime::auth::{self, LoginOptions};
use agentproto_runtime::{Code, version};
use agentproto_suites::proves;

const SOON: &LoginOptions = &LoginOptions {
    timeout: Duration::from_secs(60),
    completion_timeout: Duration::from_millis(300),
};

/// A bundle whose login writes a file below the home.
fn with_state(path: &str, cmd: &str, check: &str) -> Bench {
    Bench::new(&format!(
        "auth:\n  state: {{ paths: ['{path}'] }}\n  login:\n    cmd: '{cmd}'\n    completes_when: {{ cmd: '{check}' }}\n"
    ))
}

fn mode(bench: &Bench, path: &str) -> u32 {
    let meta = std::fs::metadata(bench.at(path)).expect(path);
    meta.permissions().mode() & 0o777
}

/// `probe` is the id of the bundle.
#[tokio::test]
async fn the_first_login_on_a_fresh_machine_persists() {
    proves!("A29-AUTH-03", "A29-AUTH-07", "A29-LOGIN-03");
    for (path, cmd, file) in [
        (
            "~/.config/parrot",
            "echo token > ~/.config/parrot/session",
            "user/.config/parrot/session",
        ),
        (
            "~/.config/parrot/**",
            "mkdir ~/.config/parrot/a && echo token > ~/.config/parrot/a/session",
            "user/.config/parrot/a/session",
        ),
        // A file in the program's own new directory: the program renames a temporary file.
        (
            "~/.config/probe/hosts.yml",
            "echo token > ~/.config/probe/t && mv ~/.config/probe/t ~/.config/probe/hosts.yml",
            "user/.config/probe/hosts.yml",
        ),
        // A file elsewhere.
        ("~/.proberc", "echo token > ~/.proberc", "user/.proberc"),
    ] {
        let inside = file.strip_prefix("user/").expect("in the home");
        let bench = with_state(path, cmd, &format!("test -s ~/{inside}"));
        let ctx = bench.alone();
        let before = auth::ensure(&ctx, &bench.bin())
            .await
            .expect_err("logged out");
        assert_eq!(before.code, Code::AuthRequired, "{path}");
        auth::login(&ctx, &bench.bin(), SOON).await.expect(path);
        let text = std::fs::read_to_string(bench.at(file)).expect(path);
        assert_eq!(text, "token\n", "{path}");
        auth::ensure(&ctx, &bench.bin()).await.expect("logged in");
        let moves = bench.audited("auth.state");
        let to: Vec<_> = moves.iter().filter_map(|m| m["to"].as_str()).collect();
        assert_eq!(to, ["unauthed", "authed"], "{path}");
        if path.starts_with("~/.config/") {
            assert_eq!(mode(&bench, "user/.config"), 0o700);
            let dir = bench.at(file);
            let dir = dir.strip_prefix(bench.dir.path()).expect("inside");
            let dir: std::path::PathBuf = dir.components().take(3).collect();
            assert_eq!(mode(&bench, &dir.to_string_lossy()), 0o700);
        } else {
            assert_eq!(mode(&bench, file), 0o600);
        }
    }
}

/// An empty file or directory looks like a login to many checks.
#[tokio::test]
async fn a_login_that_writes_nothing_leaves_nothing() {
    proves!("A29-LOGIN-09");
    for (path, check) in [
        ("~/.config/parrot", "test -d ~/.config/parrot"),
        ("~/.parrot.json", "test -e ~/.parrot.json"),
    ] {
        let bench = with_state(path, "true", check);
        let ctx = bench.alone();
        let error = auth::login(&ctx, &bench.bin(), SOON)
            .await
            .expect_err("no login");
        assert_eq!(error.code, Code::AuthRequired);
        assert_eq!(
            state::read(&ctx).expect("a state").state,
            LoginState::Unauthed
        );
        let left = std::fs::read_dir(bench.at("user")).expect("a home").count();
        assert_eq!(left, 0, "{path}");
    }
}

/// Only a login or a run creates something.
#[tokio::test]
async fn checks_and_explanations_create_nothing() {
    let bench = with_state("~/.config/parrot", "true", "false");
    let ctx = bench.alone();
    let installed = agentproto_runtime::install::ensure(&ctx, Default::default());
    let installed = installed.await.expect("installed");
    version::ensure(&ctx, &installed).await.expect("a version");
    auth::status(&ctx, Some(&bench.bin()))
        .await
        .expect("a status");
    auth::ensure(&ctx, &bench.bin())
        .await
        .expect_err("logged out");
    let run = |args: &[&str]| {
        let out = bench.command(args).output().expect("ran");
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    run(&["doctor", "../bundle"]);
    run(&["auth", "status", "../bundle"]);
    run(&["lint", "../bundle"]);
    let explained = run(&["sandbox", "explain", "../bundle"]);
    assert!(
        explained.contains("the directory does not exist: a login or a run creates it"),
        "{explained}"
    );
    assert!(!bench.at("user/.config").exists());
    // A run does.
    run(&["sandbox", "run", "../bundle", "--", "true"]);
    assert_eq!(mode(&bench, "user/.config/parrot"), 0o700);
}

/// Both backends keep what a program writes to a state path that did not exist before.
#[test]
fn state_of_a_first_run_persists_on_each_backend() {
    proves!("A29-AUTH-03");
    let save = "echo token > ~/.config/parrot/session && echo token > ~/.config/other";
    for backend in ["native", "bubblewrap"] {
        let bench = with_state("~/.config/parrot", "true", "false");
        let args = ["sandbox", "run", "--backend", backend, "../bundle", "--"];
        let args = [&args[..], &["/bin/sh", "-c", save]].concat();
        let out = bench.command(&args).output().expect("ran");
        let err = String::from_utf8_lossy(&out.stderr);
        assert!(!err.contains("sandbox_unenforceable"), "{backend}: {err}");
        let kept = std::fs::read_to_string(bench.at("user/.config/parrot/session"));
        assert_eq!(kept.unwrap_or_default(), "token\n", "{backend}: {err}");
        assert_eq!(mode(&bench, "user/.config/parrot"), 0o700, "{backend}");
        // Nothing else is kept.
        assert!(!bench.at("user/.config/other").exists(), "{backend}");
    }
}

const REFRESH: &str = "auth:\n  login:\n    cmd: touch session\n    completes_when: { cmd: tool has session }\n  refresh: { cmd: 'tool log refreshed', every: PT1H }\n";

#[tokio::test]
async fn a_refresh_is_not_a_login() {
    proves!("A29-LOGIN-01", "A29-LOGIN-02", "A29-LOGIN-09");
    let bench = Bench::new(REFRESH);
    let ctx = bench.alone();
    let now = || state::read(&ctx).expect("a state").state;
    for _ in 0..2 {
        let error = auth::refresh(&ctx, &bench.bin())
            .await
            .expect_err("logged out");
        assert_eq!(error.code, Code::AuthRequired);
        assert!(error.message.contains("touch session"), "{}", error.message);
        assert_eq!((now(), bench.log().as_str()), (LoginState::Unknown, ""));
        auth::forget(&ctx).expect("forgotten");
    }
    // A login outside agentproto is noticed. It also passes through the states.
    bench.write("work/session", "");
    auth::refresh(&ctx, &bench.bin()).await.expect("refreshed");
    assert_eq!(
        (now(), bench.log().as_str()),
        (LoginState::Authed, "refreshed\n")
    );
    let moves = bench.audited("auth.state");
    let to: Vec<_> = moves.iter().filter_map(|m| m["to"].as_str()).collect();
    assert_eq!(to, ["unauthed", "authed"]);
    // The login is gone: the command does not run, and the state follows.
    std::fs::remove_file(bench.at("work/session")).expect("removed");
    auth::refresh(&ctx, &bench.bin())
        .await
        .expect_err("logged out");
    assert_eq!(
        (now(), bench.log().as_str()),
        (LoginState::Unauthed, "refreshed\n")
    );
    // A refresh that ends the login is reported.
    bench.manifest(&REFRESH.replace("tool log refreshed", "rm session"));
    bench.write("work/session", "");
    let ctx = bench.alone();
    let error = auth::refresh(&ctx, &bench.bin()).await.expect_err("gone");
    assert_eq!(error.details["reason"], "auth_expired");
    assert_eq!(now(), LoginState::Unauthed);
}

/// Only the check decides: also about a command that fails, and about a second login.
#[tokio::test]
async fn the_completion_check_decides() {
    proves!("A29-AUTH-07", "A29-LOGIN-03", "A29-LOGIN-08");
    let blocks = |cmd: &str| REFRESH.replace("cmd: touch session", &format!("cmd: '{cmd}'"));
    let bench = Bench::new(&blocks("touch session; exit 3"));
    let ctx = bench.alone();
    auth::login(&ctx, &bench.bin(), SOON)
        .await
        .expect("logged in");
    let now = || state::read(&ctx).expect("a state").state;
    assert_eq!(now(), LoginState::Authed);
    // A failed second login does not end the first one.
    bench.manifest(&blocks("tool exit 3"));
    auth::login(&bench.alone(), &bench.bin(), SOON)
        .await
        .expect("the first login is still there");
    bench.manifest(&blocks("rm -f session; exit 3"));
    let error = auth::login(&bench.alone(), &bench.bin(), SOON).await;
    assert_eq!(error.expect_err("logged out").code, Code::AuthRequired);
    assert_eq!(now(), LoginState::Unauthed);
}

#[test]
fn a_login_without_a_terminal_shows_what_to_open() {
    let secret = "canary-0815-hunter";
    let blocks = format!(
        "auth:\n  state: {{ env: [PROBE_KEY] }}\n  login:\n    cmd: 'echo open https://login.example/device; echo code ABCD with {secret} >&2; touch session'\n    completes_when: {{ cmd: tool has session }}\n"
    );
    let mut bench = Bench::new(&blocks);
    bench.set("PROBE_KEY", secret);
    let out = bench.command(&["auth", "login", "../bundle"]).output();
    let out = out.expect("ran");
    let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(0), "{stderr}");
    assert!(
        stderr.contains("open https://login.example/device"),
        "{stderr}"
    );
    assert!(stderr.contains("code ABCD with [secret]"), "{stderr}");
    let out = bench.command(&["auth", "login", "../bundle", "-o", "jsonl"]);
    let out = { out }.output().expect("ran");
    let shown: Vec<String> = events(&out.stdout)
        .iter()
        .filter(|e| e["type"] == "aoi:progress")
        .filter_map(|e| e["message"].as_str().map(str::to_owned))
        .collect();
    let has = |text: &str| shown.iter().any(|line| line == text);
    assert!(has("open https://login.example/device"), "{shown:?}");
    assert!(has("code ABCD with [secret]"), "{shown:?}");
}

/// A login may print any amount of output.
#[tokio::test]
async fn a_flood_of_login_output_is_cut() {
    let bench = Bench::new(
        "auth: { login: { cmd: 'yes line | head -n 50000; yes | tr -d \"\\n\" | head -c 300000; true' } }\n",
    );
    let ctx = bench.alone();
    auth::login(&ctx, &bench.bin(), SOON)
        .await
        .expect("logged in");
    let shown = bench.heard.text();
    assert!(shown.contains("more output of this command is not shown"));
    assert!(shown.len() < 100_000, "{}", shown.len());
}

#[tokio::test]
async fn a_login_that_never_completes_ends_with_everything_it_started() {
    for (callback, reason) in [
        ("", "upstream_error"),
        ("requires_callback_url: true, ", "callback_failed"),
    ] {
        let bench = Bench::new(&format!(
            "auth: {{ login: {{ {callback}cmd: 'sleep 4711 & echo open https://x.example; sleep 4711' }} }}\n"
        ));
        let ctx = bench.alone();
        let options = LoginOptions {
            timeout: Duration::from_millis(700),
            ..*SOON
        };
        let started = Instant::now();
        let error = auth::login(&ctx, &bench.bin(), &options).await;
        let error = error.expect_err("it hangs");
        assert!(started.elapsed() < Duration::from_secs(20));
        assert_eq!(error.code, Code::AuthRequired);
        assert!(
            error.message.contains("did not finish within 0.7 s"),
            "{}",
            error.message
        );
        assert_eq!(error.details["reason"], reason);
        assert!(error.hint.is_some());
        assert_eq!(
            state::read(&ctx).expect("a state").state,
            LoginState::Unauthed
        );
        assert_eq!(running(bench.dir.path()), 0, "a process is left");
    }
}

/// Number of processes whose working directory is below a path.
fn running(below: &std::path::Path) -> usize {
    let entries = std::fs::read_dir("/proc").expect("processes").flatten();
    let dirs = entries.filter_map(|e| std::fs::read_link(e.path().join("cwd")).ok());
    dirs.filter(|dir| dir.starts_with(below)).count()
}

/// The declared order: install, version check, setup, login.
#[test]
fn setup_comes_before_the_login() {
    proves!("A29-SETUP-21");
    let setup =
        "setup:\n  - { id: name, kind: prompt, prompt: Your name, persist: { env: PROBE_NAME } }\n";
    let login = "auth:\n  login:\n    cmd: tool log in\n    completes_when: { cmd: 'true' }\n";
    let bench = Bench::new(&format!("{setup}{login}"));
    let out = bench.command(&["auth", "login", "../bundle"]).output();
    let out = out.expect("ran");
    assert_eq!(out.status.code(), Some(78), "{out:?}");
    assert!(String::from_utf8_lossy(&out.stderr).contains("name"));
    assert_eq!(bench.log(), "");
    let bench = Bench::new(&format!(
        "setup:\n  - {{ id: once, kind: cmd, cmd: tool log setup }}\n{login}"
    ));
    let out = bench.command(&["auth", "login", "../bundle", "--yes"]);
    let out = { out }.output().expect("ran");
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    assert_eq!(bench.log(), "setup\nin\n");
}

/// A certificate for `localhost`, made by this test.
fn certificate(bench: &Bench) -> (std::path::PathBuf, std::path::PathBuf) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
    bench.write("cert.pem", &made.cert.pem());
    bench.write("key.pem", &made.signing_key.serialize_pem());
    (bench.at("cert.pem"), bench.at("key.pem"))
}

#[tokio::test]
async fn a_callback_behind_a_proxy() {
    proves!("A29-AUTH-06", "A29-SEC-06", "A29-SEC-07");
    let settings = CallbackSettings {
        public_url: Some("https://login.example/agents/".into()),
        bind: Some("127.0.0.1:0".parse().expect("an address")),
        tls: None,
    };
    for keeps_prefix in [true, false] {
        let bench = Bench::new(
            "auth:\n  login:\n    cmd: 'printenv AGENTPROTO_CALLBACK_URL; read back; echo \"$back\" > session'\n    requires_callback_url: true\n    completes_when: { cmd: tool has session }\n",
        );
        let port = free_port();
        let person = Person::acting(&[], move |shown| {
            let path = shown.strip_prefix("https://login.example/agents");
            let path = path.expect("the public URL").to_owned();
            std::thread::spawn(move || {
                let path = match keeps_prefix {
                    true => format!("/agents{path}"),
                    false => path,
                };
                let line = format!("GET {path}?code=1 HTTP/1.1");
                let host = "Host: login.example";
                // The guards of a local callback hold here as well.
                assert_eq!(request(port, &line, &["Host: evil.example"]), 403);
                assert_eq!(
                    request(port, &line, &[host, "Origin: https://evil.example"]),
                    403
                );
                assert_eq!(
                    request(port, "GET /agents/callback/0 HTTP/1.1", &[host]),
                    404
                );
                let origin = "Origin: https://login.example";
                assert_eq!(request(port, &line, &[host, origin]), 200);
                assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
            });
        });
        let mut ctx = bench.with(person);
        ctx.callback = CallbackSettings {
            bind: Some(([127, 0, 0, 1], port).into()),
            ..settings.clone()
        };
        auth::login(&ctx, &bench.bin(), SOON)
            .await
            .expect("logged in");
        let came = std::fs::read_to_string(bench.at("work/session")).expect("written");
        assert_eq!(came, "code=1\n");
    }
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

#[tokio::test]
async fn a_callback_with_its_own_certificate() {
    proves!("A29-AUTH-06", "A29-SEC-06");
    let bench = Bench::new("");
    let (cert, key) = certificate(&bench);
    let settings = CallbackSettings {
        bind: Some("0.0.0.0:0".parse().expect("an address")),
        public_url: Some("https://localhost:4433".into()),
        tls: Some((cert.clone(), key)),
    };
    let callback = Callback::open(&settings, None, None, &[])
        .await
        .expect("open");
    let url = callback.url();
    let path = url.strip_prefix("https://localhost:4433").expect("public");
    let port = callback.port();
    let waiting = tokio::spawn(callback.wait(Duration::from_secs(20)));
    // Plain HTTP is not answered.
    let line = format!("GET {path}?code=1 HTTP/1.1");
    let plain = line.clone();
    let status =
        tokio::task::spawn_blocking(move || request(port, &plain, &["Host: localhost:4433"]));
    assert_ne!(status.await.expect("asked"), 200);
    assert_eq!(over_tls(port, &cert, &line).await, 200);
    let query = waiting.await.expect("joined").expect("a request");
    assert_eq!(query, [("code".to_owned(), "1".to_owned())]);
}

async fn over_tls(port: u16, cert: &std::path::Path, line: &str) -> u16 {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
    use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(cert).expect("a certificate"))
        .expect("added");
    let config = ClientConfig::builder_with_provider(ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config));
    let stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await;
    let name = ServerName::try_from("localhost").expect("a name");
    let stream = connector.connect(name, stream.expect("connected")).await;
    let mut stream = stream.expect("a handshake");
    let text = format!("{line}\r\nHost: localhost:4433\r\n\r\n");
    stream.write_all(text.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer).await;
    let code = answer.split(' ').nth(1).and_then(|c| c.parse().ok());
    code.unwrap_or(0)
}

#[test]
fn a_callback_that_would_leak_codes_is_refused() {
    let bench = Bench::new(REFRESH);
    for (args, word) in [
        (&["--callback-bind", "0.0.0.0:0"] as &[&str], "needs TLS"),
        (&["--callback-url", "http://login.example"], "must be https"),
        (
            &["--callback-url", "ftp://login.example"],
            "must start with https",
        ),
        (
            &["--callback-url", "https://a@login.example"],
            "no user name",
        ),
        (
            &["--callback-url", "https://login.example/?a=b"],
            "no query",
        ),
        (&["--callback-url", "login"], "invalid callback URL"),
    ] {
        let mut all = vec!["auth", "login", "../bundle"];
        all.extend(args);
        let out = bench.command(&all).output().expect("ran");
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(64), "{args:?}: {stderr}");
        assert!(stderr.contains(word), "{args:?}: {stderr}");
    }
    assert!(!bench.at("work/session").exists());
    // A local URL is fine.
    let url = [
        "auth",
        "login",
        "../bundle",
        "--callback-url",
        "http://localhost:1/",
    ];
    let out = bench.command(&url).output().expect("ran");
    assert_eq!(out.status.code(), Some(0), "{out:?}");
}
