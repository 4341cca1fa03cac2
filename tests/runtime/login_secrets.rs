//! SECRETS.md and the encrypted store (AIP-19).

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};

use crate::bench_bundle::{Bench, Person, manifest, parts, request};
use agentproto_runtime::bundle::Bundle;
use agentproto_runtime::interact::Headless;
use agentproto_runtime::secrets::{self, SecretScope, SecretStore, StoredValue, ValueKind};
use agentproto_runtime::{Code, auth, setup};

const CANARY: &str = "canary-1234-hunter";
const AUTH: &str = "auth: { ref: ./SECRETS.md, state: { env: [PROBE_KEY] } }\n";

/// The secret of `AUTH` in a SECRETS.md.
const ENTRY: &str = "- { slug: probe-key, name: K, description: D }";

fn kept(value: &str) -> StoredValue {
    StoredValue {
        value: value.to_owned(),
        secret: true,
    }
}

fn value(env: &[(OsString, OsString)], name: &str) -> Option<String> {
    let (_, value) = env.iter().find(|(n, _)| n == name)?;
    Some(value.to_string_lossy().into_owned())
}

fn with_inventory(entry: &str) -> Bench {
    let bench = Bench::new(AUTH);
    bench.write(
        "bundle/SECRETS.md",
        &format!("---\nsecrets:\n{entry}\n---\n"),
    );
    bench
}

#[test]
fn the_store_is_encrypted_and_detects_changes() {
    let bench = Bench::new("");
    let ctx = bench.alone();
    let store = SecretStore::new(&ctx.home);
    let scope = SecretScope {
        bundle: "probe@1".into(),
        origin: "/x".into(),
        workspace: None,
    };
    store
        .put(&scope, ValueKind::Slug, "canary-name", kept(CANARY))
        .expect("kept");
    let got = store
        .get(&scope, ValueKind::Slug, "canary-name")
        .expect("read");
    assert_eq!(got.map(|k| k.value.clone()).as_deref(), Some(CANARY));
    assert!(
        store
            .get(&scope, ValueKind::Variable, "canary-name")
            .expect("read")
            .is_none()
    );
    bench.nowhere(CANARY);
    bench.nowhere("canary-name");
    for name in ["store", "key"] {
        let meta = std::fs::metadata(bench.at(&format!("home/secrets/{name}"))).expect("there");
        assert_eq!(meta.permissions().mode() & 0o777, 0o600, "{name}");
    }
    let path = bench.at("home/secrets/store");
    let whole = std::fs::read(&path).expect("read");
    let unusable = |why: &str| {
        let fault = store
            .get(&scope, ValueKind::Slug, "canary-name")
            .expect_err(why);
        assert_eq!(fault.code, Code::SecretUnavailable, "{why}");
        // An unreadable store is not overwritten either.
        store
            .put(&scope, ValueKind::Slug, "x", kept("y"))
            .expect_err(why);
    };
    for at in [0, 10, 25, whole.len() / 2, whole.len() - 1] {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        std::fs::write(&path, &changed).expect("written");
        unusable("a flipped bit");
    }
    std::fs::write(&path, &whole[..20]).expect("written");
    unusable("cut off");
    std::fs::write(&path, &whole).expect("written");
    let key = bench.at("home/secrets/key");
    std::fs::set_permissions(&key, PermissionsExt::from_mode(0o644)).expect("opened");
    unusable("a key that others read");
    std::fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).expect("closed");
    assert!(
        store
            .get(&scope, ValueKind::Slug, "canary-name")
            .expect("read")
            .is_some()
    );
    std::fs::remove_file(&key).expect("gone");
    unusable("no key");
}

/// Another bundle with the same id at another path gets none of its secrets.
#[tokio::test]
async fn a_secret_belongs_to_its_bundle() {
    let bench = with_inventory("- { slug: probe-key, name: K, description: D }");
    let ctx = bench.alone();
    secrets::store_slug(&ctx, "probe-key", kept(CANARY), true).expect("kept");
    let env = auth::ensure(&ctx, &bench.bin()).await.expect("authed");
    assert_eq!(value(&env, "PROBE_KEY").as_deref(), Some(CANARY));
    std::fs::create_dir(bench.at("thief")).expect("made");
    bench.write("thief/AGENT-CLI.md", &manifest(AUTH));
    std::fs::copy(bench.at("bundle/SECRETS.md"), bench.at("thief/SECRETS.md")).expect("copied");
    let bundle = Bundle::load(&bench.at("thief/AGENT-CLI.md")).expect("a bundle");
    let thief = bench.context(bundle, Arc::new(Headless));
    let fault = auth::ensure(&thief, &bench.bin())
        .await
        .expect_err("another bundle gets no secret");
    assert_eq!(fault.code, Code::AuthRequired);
}

/// A value for one workspace takes precedence over the global one, until the global one is set
/// again.
#[tokio::test]
async fn the_workspace_value_takes_precedence() {
    let bench = with_inventory(ENTRY);
    let ctx = bench.alone();
    let get = async || {
        let env = auth::ensure(&bench.alone(), &bench.bin())
            .await
            .expect("authed");
        value(&env, "PROBE_KEY").expect("set")
    };
    secrets::store_slug(&ctx, "probe-key", kept("for-all-1"), true).expect("kept");
    secrets::store_slug(&ctx, "probe-key", kept("for-this-1"), false).expect("kept");
    assert_eq!(get().await, "for-this-1");
    secrets::store_slug(&ctx, "probe-key", kept("for-all-2"), true).expect("kept");
    assert_eq!(get().await, "for-all-2");
}

/// AIP-19 § Access: an access list that grants the secret to others is a refusal, and it is logged.
#[tokio::test]
async fn access_lists_are_enforced() {
    let entry = |access: &str| {
        format!("- {{ slug: probe-key, name: K, description: D, access: {{ {access} }} }}")
    };
    for (access, granted_by) in [
        ("reveal: []", Some("owner")),
        (
            "bind: [{ tool: other }, { tool: probe }]",
            Some("tool: probe"),
        ),
        ("bind: [{ userId: USER }]", Some("userId")),
        ("bind: [{ role: admin }]", Some("owner (role")),
        ("bind: [{ tool: other }]", None),
        ("bind: []", None),
    ] {
        // SAFETY: `geteuid` takes no arguments and cannot fail.
        let me = format!("'uid:{}'", unsafe { libc::geteuid() });
        let bench = with_inventory(&entry(&access.replace("USER", &me)));
        let ctx = bench.alone();
        secrets::store_slug(&ctx, "probe-key", kept(CANARY), true).expect("kept");
        let got = auth::ensure(&ctx, &bench.bin()).await;
        match granted_by {
            Some(by) => {
                assert_eq!(
                    value(&got.expect(access), "PROBE_KEY").as_deref(),
                    Some(CANARY)
                );
                let said = bench.audited("secret.reveal")[0]["granted_by"].to_string();
                assert!(said.contains(by), "{access}: {said}");
            }
            None => {
                assert_eq!(got.expect_err(access).code, Code::SecretUnavailable);
                assert_eq!(bench.audited("secret.reveal").len(), 0);
                assert_eq!(bench.audited("secret.reveal.denied").len(), 1);
            }
        }
        bench.nowhere(CANARY);
    }
}

/// AIP-19: an exposure that this host does not serve is refused, not ignored. An entry for another
/// tool does not matter.
#[tokio::test]
async fn exposures_are_served_or_refused() {
    for (exposure, kind) in [
        ("{ kind: file, path: '~/k' }", "file"),
        (
            "{ kind: egress-substitute, placeholderName: KEY, allowedByDefault: true }",
            "egress-substitute",
        ),
    ] {
        let entry = |access: &str| {
            let mut bench = with_inventory(&format!(
                "- {{ slug: probe-key, name: K, description: D }}\n\
                 - {{ slug: other, name: K, description: D, {access} exposures: [{exposure}] }}"
            ));
            bench.set("PROBE_KEY", CANARY);
            bench
        };
        let bench = entry("");
        let fault = auth::ensure(&bench.alone(), &bench.bin()).await;
        let fault = fault.expect_err(kind);
        assert_eq!(fault.code, Code::SecretUnavailable);
        assert_eq!(fault.details["exposure"], kind);
        assert!(fault.message.contains("`other`"), "{}", fault.message);
        let bench = entry("access: { bind: [{ tool: another }] },");
        let env = auth::ensure(&bench.alone(), &bench.bin()).await;
        assert_eq!(
            value(&env.expect(kind), "PROBE_KEY").as_deref(),
            Some(CANARY)
        );
    }
}

#[tokio::test]
async fn a_missing_secrets_file_is_refused() {
    let mut bench = Bench::new(AUTH);
    bench.set("PROBE_KEY", CANARY);
    let fault = auth::ensure(&bench.alone(), &bench.bin()).await;
    let fault = fault.expect_err("refused");
    assert_eq!(fault.code, Code::ManifestInvalid);
    assert!(fault.message.contains("SECRETS.md"), "{}", fault.message);
    let mut bench = with_inventory(ENTRY);
    bench.set("PROBE_KEY", CANARY);
    assert!(auth::ensure(&bench.alone(), &bench.bin()).await.is_ok());
}

#[tokio::test]
async fn exposures_bindings_and_backends_are_applied() {
    let mut bench = with_inventory(
        "- { slug: a-pair, name: A, description: D, kind: keypair, exposures: [{ kind: env, name: PUB, field: public }, { kind: env, name: PRIV, field: private }] }\n\
         - { slug: shared, name: B, description: D, metadata: { bindings: { env: [ONE, TWO] } } }\n\
         - { slug: far, name: C, description: D, backend: 'vault://env/FAR_AWAY', metadata: { bindings: { env: [PROBE_KEY] } } }",
    );
    bench.set("FAR_AWAY", "from-far-away");
    let ctx = bench.alone();
    let pair = r#"{"public":"pub-part","private":"priv-part"}"#;
    secrets::store_slug(&ctx, "a-pair", kept(pair), true).expect("kept");
    secrets::store_slug(&ctx, "shared", kept(CANARY), true).expect("kept");
    let env = auth::ensure(&ctx, &bench.bin()).await.expect("authed");
    for (name, expected) in [
        ("PUB", "pub-part"),
        ("PRIV", "priv-part"),
        ("ONE", CANARY),
        ("TWO", CANARY),
        ("PROBE_KEY", "from-far-away"),
    ] {
        assert_eq!(value(&env, name).as_deref(), Some(expected), "{name}");
        assert_eq!(ctx.masks.mask(expected), "[secret]", "{name}");
    }
    let bench = with_inventory(
        "- { slug: probe-key, name: C, description: D, backend: 'vault://hashicorp/kv/x' }",
    );
    let fault = auth::ensure(&bench.alone(), &bench.bin())
        .await
        .expect_err("not served");
    assert_eq!(fault.code, Code::SecretUnavailable);
    assert!(fault.message.contains("vault://hashicorp/kv/x"));
}

/// AIP-19: a manifest that contains a value is refused, and the error does not repeat the value.
#[tokio::test]
async fn an_invalid_inventory_is_refused() {
    for entry in [
        format!("- {{ slug: probe-key, name: K, description: D, value: {CANARY} }}"),
        format!("- {{ slug: probe-key, name: K, description: D, token: {CANARY} }}"),
        "- { slug: a-b, name: K, description: D }\n- { slug: a-b, name: K, description: D }".into(),
        "- { name: K, description: D }".into(),
        "- { slug: a-b, name: K, description: D, kind: magic }".into(),
    ] {
        let bench = with_inventory(&entry);
        let fault = auth::ensure(&bench.alone(), &bench.bin())
            .await
            .expect_err("refused");
        assert_eq!(fault.code, Code::ManifestInvalid, "{entry}");
        assert!(!format!("{fault:?}").contains(CANARY));
    }
}

/// A token server with scripted answers. It records the requests.
fn token_server(answers: Vec<(u16, String)>) -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let port = listener.local_addr().expect("an address").port();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = asked.clone();
    std::thread::spawn(move || {
        for (code, body) in answers {
            let (mut stream, _) = listener.accept().expect("a caller");
            let mut text = String::new();
            let mut buffer = [0; 4096];
            let complete = |text: &str| {
                let (head, body) = text.split_once("\r\n\r\n")?;
                let length = head.lines().find_map(|l| {
                    let (name, value) = l.split_once(':')?;
                    name.eq_ignore_ascii_case("content-length")
                        .then(|| value.trim().parse())?
                        .ok()
                })?;
                (body.len() >= length).then(|| body.to_owned())
            };
            let said = loop {
                let read = stream.read(&mut buffer).expect("bytes");
                text.push_str(&String::from_utf8_lossy(&buffer[..read]));
                if let Some(body) = complete(&text) {
                    break body;
                }
            };
            seen.lock().expect("a list").push(said);
            let _ = write!(
                stream,
                "HTTP/1.1 {code} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    (port, asked)
}

fn oauth_bench(port: u16) -> Bench {
    let bench = Bench::new(&format!(
        "{AUTH}setup:\n- {{ id: log-in, kind: oauth, secret_slug: probe-key }}\n"
    ));
    bench.write(
        "bundle/SECRETS.md",
        &format!(
            "---\nsecrets:\n- slug: probe-key\n  name: K\n  description: D\n  kind: oauth\n  metadata:\n    agentproto:\n      oauth:\n        authorize_url: https://login.example/authorize\n        token_url: http://127.0.0.1:{port}/token\n        client_id: probe-client\n        scopes: [read, write]\n---\n"
        ),
    );
    bench
}

fn parameters(query: &str) -> std::collections::BTreeMap<String, String> {
    agentproto_runtime::auth::callback::decode(query)
        .into_iter()
        .collect()
}

/// Gives consent on behalf of the user.
fn consent(answer: &'static str) -> Arc<Person> {
    Person::acting(&["true"], move |shown| {
        let url = shown.lines().last().expect("a URL").to_owned();
        std::thread::spawn(move || {
            let asked = parameters(url.split_once('?').expect("a query").1);
            assert_eq!(asked["code_challenge_method"], "S256");
            assert_eq!(asked["scope"], "read write");
            let (port, path) = parts(&asked["redirect_uri"]);
            let host = format!("Host: 127.0.0.1:{port}");
            let forged = format!("GET {path}?code=forged&state=guess HTTP/1.1");
            assert_eq!(request(port, &forged, &[&host]), 403);
            let line = format!("GET {path}?{answer}&state={} HTTP/1.1", asked["state"]);
            assert_eq!(request(port, &line, &[&host]), 200);
        });
    })
}

/// A29-SETUP-07, A29-SETUP-08; RFC 7636.
#[tokio::test]
async fn an_oauth_step_stores_and_refreshes_its_tokens() {
    agentproto_suites::proves!("A29-SETUP-08");
    let first =
        format!(r#"{{"access_token":"{CANARY}-1","refresh_token":"{CANARY}-r","expires_in":1}}"#);
    let second = format!(r#"{{"access_token":"{CANARY}-2","expires_in":3600}}"#);
    let (port, asked) = token_server(vec![(200, first), (200, second)]);
    let bench = oauth_bench(port);
    let person = consent("code=the-code");
    setup::ensure(&bench.with(person.clone()), &bench.bin())
        .await
        .expect("done");
    let exchange = parameters(&asked.lock().expect("a list")[0]);
    assert_eq!(exchange["grant_type"], "authorization_code");
    assert_eq!(exchange["code"], "the-code");
    assert_eq!(exchange["client_id"], "probe-client");
    let shown = person.shown.lock().expect("a list").join("\n");
    let challenge = parameters(shown.split_once('?').expect("a query").1)["code_challenge"].clone();
    use base64::Engine;
    use sha2::Digest;
    let hashed = sha2::Sha256::digest(exchange["code_verifier"].as_bytes());
    assert_eq!(
        challenge,
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(hashed)
    );
    // The token has almost expired: the next run refreshes it, and the run after that uses the new
    // one.
    for _ in 0..2 {
        let env = auth::ensure(&bench.alone(), &bench.bin())
            .await
            .expect("authed");
        assert_eq!(value(&env, "PROBE_KEY"), Some(format!("{CANARY}-2")));
    }
    let refresh = parameters(&asked.lock().expect("a list")[1]);
    assert_eq!(refresh["grant_type"], "refresh_token");
    assert_eq!(refresh["refresh_token"], format!("{CANARY}-r"));
    bench.nowhere(CANARY);
}

#[tokio::test]
async fn a_failed_oauth_step_is_reported() {
    let (port, _) = token_server(vec![(
        400,
        format!(r#"{{"error":"invalid_grant","x":"{CANARY}"}}"#),
    )]);
    let bench = oauth_bench(port);
    let fault = setup::ensure(&bench.with(consent("code=c-o-d-e")), &bench.bin()).await;
    let fault = fault.expect_err("refused");
    assert_eq!(fault.code, Code::SetupFailed);
    assert!(
        fault.message.contains("400: invalid_grant"),
        "{}",
        fault.message
    );
    assert!(!format!("{fault:?}").contains(CANARY));
    let bench = oauth_bench(1);
    let fault = setup::ensure(&bench.with(consent("error=access_denied")), &bench.bin()).await;
    assert!(fault.expect_err("denied").message.contains("access_denied"));
    // AIP-19 does not define endpoints, so missing ones are reported.
    let bench = oauth_bench(1);
    for (inventory, word) in [
        (
            "- { slug: probe-key, name: K, description: D, kind: oauth }",
            "token_url",
        ),
        (
            "- { slug: probe-key, name: K, description: D }",
            "kind: oauth",
        ),
        (
            "- { slug: other, name: K, description: D }",
            "not declared in a SECRETS.md",
        ),
    ] {
        bench.write(
            "bundle/SECRETS.md",
            &format!("---\nsecrets:\n{inventory}\n---\n"),
        );
        let ctx = bench.with(Person::answering(&["true"]));
        let fault = setup::ensure(&ctx, &bench.bin()).await.expect_err(word);
        assert_eq!(fault.code, Code::SetupFailed);
        assert!(fault.message.contains(word), "{}", fault.message);
    }
}

/// A logout does not undo setup steps (A29-SETUP-26).
#[tokio::test]
async fn logout_does_not_undo_setup() {
    agentproto_suites::proves!("A29-SETUP-26");
    let bench = with_inventory(ENTRY);
    bench.manifest(&format!(
        "{AUTH}setup:\n- {{ id: a, kind: prompt, prompt: A, persist: {{ env: A }} }}\n"
    ));
    setup::ensure(&bench.with(Person::answering(&["true", "x"])), &bench.bin())
        .await
        .expect("done");
    let ctx = bench.alone();
    secrets::store_slug(&ctx, "probe-key", kept(CANARY), true).expect("kept");
    assert!(secrets::forget_slug(&ctx, "probe-key").expect("gone"));
    assert!(!secrets::forget_slug(&ctx, "probe-key").expect("gone already"));
    auth::forget(&ctx).expect("forgotten");
    let env = setup::ensure(&ctx, &bench.bin()).await.expect("still done");
    assert_eq!(value(&env, "A").as_deref(), Some("x"));
    let fault = auth::ensure(&ctx, &bench.bin())
        .await
        .expect_err("logged out");
    assert_eq!(fault.code, Code::AuthRequired);
}

/// A fake desktop keyring: a program that stores its input.
fn with_keyring(script: &str) -> Bench {
    let mut bench = with_inventory(ENTRY);
    std::fs::create_dir(bench.at("desktop")).expect("made");
    let ring = bench.at("desktop");
    let ring = ring.display();
    let text = format!("#!/bin/sh\ncd {ring}\necho \"$*\" >> calls\n{script}\n");
    bench.write("desktop/secret-tool", &text);
    let mode = PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(bench.at("desktop/secret-tool"), mode).expect("executable");
    bench.set("PATH", &format!("{ring}:/usr/bin:/bin"));
    bench.set("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere");
    bench
}

const RING: &str = "case $1 in store) cat > kept ;; lookup) cat kept ;; esac";

fn cli(bench: &Bench, args: &[&str], input: &str) -> (Option<i32>, String) {
    let mut command = bench.command(args);
    let out = command.write_stdin(input.to_owned()).output().expect("ran");
    let text = [out.stdout, out.stderr].concat();
    (
        out.status.code(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

/// The key is in the keyring and nowhere else. Without the keyring, the store cannot be opened.
#[test]
fn the_key_is_stored_in_a_keyring() {
    let bench = with_keyring(RING);
    let (code, said) = cli(&bench, &["auth", "set", "../bundle", "PROBE_KEY"], CANARY);
    assert_eq!(code, Some(0), "{said}");
    assert!(!bench.at("home/secrets/key").exists());
    let key = std::fs::read_to_string(bench.at("desktop/kept")).expect("kept");
    assert_eq!(key.len(), 64);
    let calls = std::fs::read_to_string(bench.at("desktop/calls")).expect("called");
    assert!(!calls.contains(&key), "the key must not be an argument");
    bench.nowhere(&key);
    bench.nowhere(CANARY);
    let (code, said) = cli(&bench, &["auth", "status", "../bundle"], "");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("PROBE_KEY: from the secret store"), "{said}");
    std::fs::remove_file(bench.at("desktop/kept")).expect("locked");
    let (code, said) = cli(&bench, &["auth", "status", "../bundle"], "");
    assert_eq!(code, Some(77), "{said}");
    assert!(said.contains("keyring"), "{said}");
}

#[test]
fn a_broken_keyring_falls_back_to_the_file() {
    for script in [
        "echo no >&2; exit 1",
        "true",
        "case $1 in lookup) echo abc ;; esac",
    ] {
        let bench = with_keyring(script);
        let (code, said) = cli(&bench, &["auth", "set", "../bundle", "PROBE_KEY"], CANARY);
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("warning"), "{said}");
        assert!(bench.at("home/secrets/key").exists());
        let (code, said) = cli(&bench, &["auth", "status", "../bundle"], "");
        assert_eq!(code, Some(0), "{said}");
    }
    let mut bench = with_keyring(RING);
    bench.set("AGENTPROTO_KEYRING", "off");
    let (code, _) = cli(&bench, &["auth", "set", "../bundle", "PROBE_KEY"], CANARY);
    assert_eq!(code, Some(0));
    assert!(bench.at("home/secrets/key").exists() && !bench.at("desktop/calls").exists());
}

/// Without a login command, the login is the one described in SECRETS.md.
#[tokio::test]
async fn login_and_refresh_with_oauth() {
    let first = format!(r#"{{"access_token":"{CANARY}-1","refresh_token":"{CANARY}-r"}}"#);
    let second = format!(r#"{{"access_token":"{CANARY}-2"}}"#);
    let no = r#"{"error":"invalid_grant"}"#.to_owned();
    let (port, _) = token_server(vec![(200, first), (200, second), (400, no)]);
    let bench = oauth_bench(port);
    bench.manifest(AUTH);
    let get = async || {
        let env = auth::ensure(&bench.alone(), &bench.bin())
            .await
            .expect("authed");
        value(&env, "PROBE_KEY")
    };
    let fault = auth::login(&bench.alone(), &bench.bin(), &auth::LoginOptions::default())
        .await
        .expect_err("no user to ask");
    assert_eq!(fault.code, Code::AuthRequired);
    let ctx = bench.with(consent("code=the-code"));
    auth::login(&ctx, &bench.bin(), &auth::LoginOptions::default())
        .await
        .expect("logged in");
    assert_eq!(get().await, Some(format!("{CANARY}-1")));
    auth::refresh(&ctx, &bench.bin()).await.expect("refreshed");
    assert_eq!(get().await, Some(format!("{CANARY}-2")));
    let fault = auth::refresh(&ctx, &bench.bin())
        .await
        .expect_err("refused");
    assert_eq!(fault.code, Code::AuthRequired);
    bench.nowhere(CANARY);
}
