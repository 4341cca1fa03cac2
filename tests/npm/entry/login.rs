//! Hooks that log in and refresh.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use agentproto_suites::proves;
use serde_json::Value;

use super::{AUTH, Aviary, unreachable};

#[test]
#[ignore = "needs node"]
fn login_and_refresh_run_in_the_sandbox_of_the_bundle() {
    proves!("A29-DEFCLI-15");
    let (listener, port) = unreachable();
    let outside = tempfile::tempdir().expect("a directory");
    let outside = outside.path().join("made");
    let auth = "auth:\n  state: { paths: [], env: [] }\n  login: { cmd: 'bird fail' }\n";
    let module = format!(
        "const tried = async () => ({{
            sh: spawned('/bin/sh'), cat: spawned('/bin/cat'), dial: await dial({port}),
            outside: attempt(() => writeFileSync('{}', 'x')),
          }});
          export default defineCli({{ ...bird,
            async login() {{ writeFileSync('login', JSON.stringify(await tried())); return {{ ok: true }}; }},
            async refresh() {{ writeFileSync('refresh', JSON.stringify(await tried())); return {{ ok: true }}; }},
          }});",
        outside.display()
    );
    for (exec, sh) in [
        ("allow: false", "E"),
        ("allow: true, spawn: [sh]", "exit 0"),
    ] {
        let aviary = Aviary::new(auth, exec, &module);
        aviary.run(&["auth", "login", "../bird"]).exits(0);
        aviary.run(&["auth", "refresh", "../bird"]).exits(0);
        for hook in ["work/login", "work/refresh"] {
            let tried = fs::read(aviary.at(hook)).expect("the hook ran");
            let tried: Value = serde_json::from_slice(&tried).expect("JSON");
            let code = |name: &str| tried[name].as_str().unwrap_or_default().to_owned();
            assert!(code("sh").starts_with(sh), "{exec}: {tried}");
            for denied in ["cat", "dial", "outside"] {
                assert!(code(denied).starts_with('E'), "{denied}: {tried}");
            }
        }
        aviary.nothing_is_left();
    }
    assert!(!outside.exists());
    assert!(listener.accept().is_err(), "nothing has connected");
}

#[test]
#[ignore = "needs node"]
fn a_failed_login_hook_is_a_typed_error() {
    for (body, code, words) in [
        (
            "return { ok: false, reason: 'upstream_error', message: 'busy' }",
            77,
            "the service refused the login: busy",
        ),
        (
            "return { ok: false, reason: 'callback_failed' }",
            77,
            "the callback of the login failed",
        ),
        ("return { ok: false, reason: 'tired' }", 69, "wrong form"),
        ("return { ok: false }", 69, "`reason` is missing"),
        ("return true", 69, "wrong form"),
        (
            "throw new Error(`key ${process.env.BIRD_KEY}`)",
            69,
            "key [secret]",
        ),
        ("process.exit(5)", 69, "exited with code 5"),
    ] {
        let aviary = Aviary::new(
            AUTH,
            "allow: true, spawn: [sh, test]",
            &format!("export default defineCli({{ ...bird, async login() {{ {body} }} }});"),
        );
        let mut login = aviary.command(&["auth", "login", "../bird"]);
        let login = login.env("BIRD_KEY", "canary-0815-hunter").output();
        let login = login.expect("it runs");
        let err = String::from_utf8_lossy(&login.stderr);
        assert_eq!(login.status.code(), Some(code), "{err}");
        assert!(err.contains(words) && !err.contains("canary-0815"), "{err}");
        aviary.nothing_is_left();
    }
}

/// The module gets an AbortSignal, and is killed if it does not obey.
#[test]
#[ignore = "needs node"]
fn a_canceled_login_of_a_module_ends() {
    proves!("A29-DEFCLI-05", "A29-DEFCLI-13");
    let auth = AUTH.replace(
        "cmd: 'bird fail',",
        "cmd: 'bird fail', requires_callback_url: true,",
    );
    for (body, obeys) in [
        (
            "await new Promise((done) => signal.addEventListener('abort', done)); writeFileSync('aborted', '');",
            true,
        ),
        (
            "await Promise.race([context.callback(), new Promise((done) => signal.addEventListener('abort', done))]); writeFileSync('aborted', '');",
            true,
        ),
        (
            "await new Promise(() => setInterval(() => {}, 1000));",
            false,
        ),
        (
            "spawn('/bin/sh', ['-c', 'while :; do :; done']); for (;;);",
            false,
        ),
    ] {
        let aviary = Aviary::new(
            &auth,
            "allow: true, spawn: [sh, test]",
            &format!(
                "export default defineCli({{ ...bird, async login({{ context, signal }}) {{
                   context.show('waiting for ' + context.callbackUrl); writeFileSync('started', '');
                   {body}
                   return {{ ok: false, reason: 'user_cancelled' }}; }} }});"
            ),
        );
        let mut login = aviary.command(&["auth", "login", "../bird"]);
        let mut login = login.stderr(Stdio::piped()).spawn().expect("it starts");
        let until = Instant::now() + Duration::from_secs(20);
        while !aviary.at("work/started").exists() {
            assert!(Instant::now() < until, "the hook does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        let pid = login.id().to_string();
        let interrupted = Instant::now();
        assert!(
            Command::new("kill")
                .args(["-INT", &pid])
                .status()
                .expect("kill")
                .success()
        );
        let status = login.wait().expect("an exit");
        assert!(interrupted.elapsed() < Duration::from_secs(6), "{body}");
        assert_eq!(status.code(), Some(130), "{body}");
        assert_eq!(aviary.at("work/aborted").exists(), obeys, "{body}");
        aviary.nothing_is_left();
    }
}

#[test]
#[ignore = "needs node"]
fn a_callback_reaches_the_login_hook() {
    let auth = AUTH.replace(
        "cmd: 'bird fail',",
        "cmd: 'bird fail', requires_callback_url: true,",
    );
    let aviary = Aviary::new(
        &auth,
        "allow: true, spawn: [sh, test]",
        "export default defineCli({ ...bird, async login({ context }) {
           writeFileSync('url', context.callbackUrl);
           const query = await context.callback();
           writeFileSync('session', JSON.stringify(query));
           return { ok: true }; } });",
    );
    let mut login = aviary.command(&["auth", "login", "../bird"]);
    let mut login = login.spawn().expect("it starts");
    let until = Instant::now() + Duration::from_secs(20);
    let url = loop {
        match fs::read_to_string(aviary.at("work/url")) {
            Ok(url) if !url.is_empty() => break url,
            _ => assert!(Instant::now() < until, "the hook does not start"),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let address = url.trim_start_matches("http://");
    let (host, path) = address.split_once('/').expect("a path");
    let mut stream = std::net::TcpStream::connect(host).expect("connected");
    write!(
        stream,
        "GET /{path}?code=canary-0815-hunter HTTP/1.1\r\nHost: {host}\r\n\r\n"
    )
    .expect("sent");
    assert_eq!(login.wait().expect("an exit").code(), Some(0));
    let session = fs::read_to_string(aviary.at("work/session")).expect("a session");
    assert_eq!(session, r#"{"code":"canary-0815-hunter"}"#);
}
