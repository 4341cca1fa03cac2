//! `network.egress`: the proxy is the only way out, and it allows only the listed hosts.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};

use agentproto_sandbox::build;
use agentproto_sandbox::egress::audit::AuditEntry;
use agentproto_sandbox::egress::resolve::ResolveFuture;
use agentproto_sandbox::egress::{HostRules, Proxy, Resolve};
use agentproto_sandbox::plan::PROXY_PORT;
use agentproto_sandbox::spawn::{SpawnOptions, spawn};

use crate::matrix::Control::Escapes;
use crate::matrix::{Backend, Seen, backends, command, follow, wall};
use crate::policies::{clause, visible};
use crate::world::{Host, World};

/// A resolver that maps every name to the local machine and records the names.
#[derive(Default)]
struct Everywhere(Mutex<Vec<String>>);

impl Resolve for Everywhere {
    fn resolve<'a>(&'a self, name: &'a str) -> ResolveFuture<'a> {
        self.0.lock().expect("names").push(name.to_owned());
        Box::pin(async { Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]) })
    }
}

struct Asked {
    seen: Seen,
    resolved: Vec<String>,
    recorded: usize,
}

/// Makes one attempt through the proxy, with these hosts listed.
async fn ask(
    (_, backend): Backend,
    host: &Host,
    rules: &[&str],
    probe: &'static str,
    args: &str,
) -> Asked {
    let world = World::new(host);
    let mut policy = visible(&world);
    policy.egress = rules
        .iter()
        .map(|rule| (clause("network.egress"), (*rule).to_owned()))
        .collect();
    let plan = build::plan(&policy, &command(&world, probe, args));
    let plan = backend(plan).expect("a plan");
    let mut child = spawn(&plan, SpawnOptions::default())
        .await
        .expect("started");
    let listener = child.listener.take().expect("a listener for the proxy");
    let resolver = Arc::new(Everywhere::default());
    let audit: Arc<Mutex<Vec<AuditEntry>>> = Arc::default();
    let rules = HostRules::parse(rules).expect("rules");
    let proxy = Proxy::start(listener, rules, resolver.clone(), audit.clone()).expect("proxy");
    let case = wall(probe, "", "", Escapes);
    let seen = follow(child, &world, &case).await;
    proxy.shutdown().await;
    let resolved = resolver.0.lock().expect("names").clone();
    let recorded = audit.lock().expect("entries").len();
    Asked {
        seen,
        resolved,
        recorded,
    }
}

/// A29-SBX-02: the same probe that is refused reaches the host once it is listed.
#[tokio::test(flavor = "multi_thread")]
async fn only_listed_hosts() {
    agentproto_suites::proves!("A29-PRIN-02", "A29-SBX-02");
    for backend in backends() {
        only_listed_hosts_by(backend).await;
    }
}

async fn only_listed_hosts_by(backend: Backend) {
    let host = Host::new();
    let port = host.tcp_port();
    let proxy = format!("127.0.0.1:{PROXY_PORT}");
    // The requested name, and the entry that would allow it. Loopback is listed in both runs, so
    // that only the name decides.
    let asked = [
        ("other.test", "other.test"),
        ("OTHER.test", "other.test"),
        ("other.test.", "other.test"),
        ("deep.allowed.test", "*.allowed.test"),
        ("allowed.test.evil.test", "*.evil.test"),
        ("evilallowed.test", "evilallowed.test"),
    ];
    let mut lines = vec![];
    for (name, entry) in asked {
        let with_port = format!("{proxy} {name}:{port}");
        let apart = format!("{proxy} {name} {port}");
        for (probe, args) in [
            ("proxy_connect", with_port.as_str()),
            ("proxy_get", &with_port),
            ("proxy_socks", &apart),
        ] {
            let refused = ask(backend, &host, &["allowed.test", "127.0.0.1"], probe, args).await;
            assert_eq!(
                refused.seen.outcome, "blocked",
                "{probe} {name}: {}",
                refused.seen.how
            );
            assert!(refused.resolved.is_empty(), "{name} was resolved");
            assert!(
                refused.recorded > 0,
                "{probe} {name} is not in the audit log"
            );
            lines.push(format!(
                "egress blocked {probe} {name}: {}",
                refused.seen.how
            ));
            // The allowed counterpart. Upper case and a trailing dot name the same host.
            if probe != "proxy_get" {
                let reached = ask(backend, &host, &[entry, "127.0.0.1"], probe, args).await;
                assert_eq!(
                    reached.seen.outcome, "escaped",
                    "{probe} {name}: {}",
                    reached.seen.how
                );
            }
        }
    }
    println!("{}", lines.join("\n"));
}

/// A29-SBX-02: listing a name does not allow addresses, nor the host's own addresses.
#[tokio::test(flavor = "multi_thread")]
async fn a_listed_name_does_not_allow_addresses() {
    for backend in backends() {
        addresses_are_not_names_by(backend).await;
    }
}

async fn addresses_are_not_names_by(backend: Backend) {
    let host = Host::new();
    let port = host.tcp_port();
    let proxy = format!("127.0.0.1:{PROXY_PORT}");
    for literal in [
        "127.0.0.1",
        "2130706433",
        "0x7f.1",
        "[::ffff:127.0.0.1]",
        "[::1]",
        "localhost",
    ] {
        let args = format!("{proxy} {literal}:{port}");
        let refused = ask(
            backend,
            &host,
            &["allowed.test", "*.test"],
            "proxy_connect",
            &args,
        )
        .await;
        assert_eq!(
            refused.seen.outcome, "blocked",
            "{literal}: {}",
            refused.seen.how
        );
    }
    // The name is listed, but it resolves to the local machine.
    let args = format!("{proxy} allowed.test:{port}");
    let refused = ask(backend, &host, &["allowed.test"], "proxy_connect", &args).await;
    assert_eq!(refused.seen.outcome, "blocked", "{}", refused.seen.how);
    let reached = ask(
        backend,
        &host,
        &["allowed.test", "127.0.0.1"],
        "proxy_connect",
        &args,
    )
    .await;
    assert_eq!(reached.seen.outcome, "escaped", "{}", reached.seen.how);
    let args = format!("{proxy} 127.0.0.1:{port}");
    let reached = ask(backend, &host, &["127.0.0.1"], "proxy_connect", &args).await;
    assert_eq!(reached.seen.outcome, "escaped", "{}", reached.seen.how);
}

/// A29-SBX-02: the proxy is the only way out.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_bypasses_the_proxy() {
    for backend in backends() {
        past_the_proxy_by(backend).await;
    }
}

async fn past_the_proxy_by(backend: Backend) {
    let host = Host::new();
    for (probe, args) in [
        ("tcp", "{tcp}"),
        ("udp", "{udp}"),
        ("dns", "{udp}"),
        ("route", "192.0.2.1:443"),
        ("resolve", "allowed.test"),
    ] {
        let tried = ask(backend, &host, &["allowed.test", "127.0.0.1"], probe, args).await;
        assert_eq!(tried.seen.outcome, "blocked", "{probe}: {}", tried.seen.how);
    }
}
