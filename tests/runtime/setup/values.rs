//! Values: how the user enters them, and where they are stored.

use agentproto_runtime::{Code, auth, setup};

use crate::bench_bundle::pty::Pty;
use crate::bench_bundle::{Bench, Person, parts, request};
use crate::setup::{CANARY, text};

/// A29-SETUP-06, -13, -17, -18, -20.
#[tokio::test]
async fn prompts_of_every_type_store_their_values() {
    agentproto_suites::proves!(
        "A29-SETUP-13",
        "A29-SETUP-17",
        "A29-SETUP-18",
        "A29-SETUP-20"
    );
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
    // The probe command of a finished setup sees all values.
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
async fn an_invalid_answer_is_refused() {
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

/// A29-SETUP-19: a value is never interpreted, whatever it contains.
#[tokio::test]
async fn a_hostile_value_stays_one_argument() {
    agentproto_suites::proves!("A29-SETUP-19");
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
        // The tool records the arguments of all processes, so a value that is not recorded was not
        // an argument.
        let spied = std::fs::read_to_string(bench.at("work/spied")).expect("spied");
        assert!(spied.contains(evil), "{cmd}: {spied}");
    }
}

/// A45-AUTH-04: a secret is passed to a command in the environment or a pipe, never as an argument.
#[tokio::test]
async fn a_secret_value_is_never_an_argument() {
    agentproto_suites::proves!("A45-AUTH-04");
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

/// If a command prints a secret in its error, our error does not contain it.
#[tokio::test]
async fn stderr_in_errors_is_redacted() {
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

/// A29-SETUP-09, A29-SETUP-10, A29-SETUP-29, A29-SEC-06.
#[tokio::test]
async fn an_external_step_ends_with_its_callback() {
    agentproto_suites::proves!("A29-SETUP-10", "A29-SETUP-29", "A29-SEC-06", "A29-SEC-07");
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
async fn an_external_step_without_callback_and_one_that_times_out() {
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
        .expect_err("no callback arrived");
    assert_eq!(fault.code, Code::SetupFailed);
    assert!(
        fault.message.contains("no callback arrived"),
        "{}",
        fault.message
    );
    let bench = Bench::new("setup:\n- { id: x, kind: external, url: 'file:///etc/passwd' }\n");
    let ctx = bench.with(Person::answering(&["true"]));
    let fault = setup::ensure(&ctx, &bench.bin())
        .await
        .expect_err("no page");
    assert!(fault.message.contains("must start with http"));
}

/// A29-SETUP-28: prompts appear on the terminal, and a secret is not echoed.
#[test]
fn prompts_on_a_terminal() {
    agentproto_suites::proves!("A29-SETUP-28");
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
