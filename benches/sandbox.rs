//! What a sandboxed spawn costs over a bare one of the same binary, measured in turns.
//! `cargo bench --bench sandbox`.

use std::time::{Duration, Instant};

use agentproto::runtime::helper;
use agentproto::runtime::sandbox::build;
use agentproto::runtime::sandbox::plan::{Kind, Plan};
use agentproto::runtime::sandbox::policy::{Access, Exec, Grant, Policy, Shape};
use agentproto::runtime::spawn::{Options, spawn};

const ROUNDS: usize = 200;
const TARGET: &str = "/bin/true";

fn main() {
    helper::use_binary(env!("CARGO_BIN_EXE_agentproto"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("runtime");
    let native = build::plan(&policy(), &[TARGET.into()]);
    let guard = Plan {
        kind: Kind::Guard,
        confinement: None,
        ..native.clone()
    };
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let status = std::process::Command::new(TARGET).status();
        assert!(status.expect("bare").success());
        times[0].push(began.elapsed());
        for (plan, times) in [&guard, &native].into_iter().zip(&mut times[1..]) {
            let began = Instant::now();
            runtime.block_on(async {
                let mut child = spawn(plan, Options::default()).await.expect("started");
                assert!(child.wait().await.status.success());
            });
            times.push(began.elapsed());
        }
    }
    let [bare, guard, native] = times.map(median);
    println!("bare {bare:?}, guarded {guard:?}, native sandbox {native:?}");
    let over = native.saturating_sub(bare).as_secs_f64() * 1000.0;
    let ok = over <= 5.0;
    println!(
        "{} native sandbox over bare, ms: {over:.2} (wanted <= 5), {:.1} times",
        if ok { "ok  " } else { "MISS" },
        native.as_secs_f64() / bare.as_secs_f64()
    );
    if !ok {
        std::process::exit(1);
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// What an agent gets: the system read-only, a working directory, a private home.
fn policy() -> Policy {
    let grant = |path: &str, access, exec| Grant {
        source: path.into(),
        at: path.into(),
        access,
        exec,
        create: false,
        clause: None,
    };
    let work = std::env::temp_dir();
    let work = work.to_str().expect("a path");
    Policy {
        shape: Shape::Aip36,
        egress: vec![],
        ingress: vec![],
        grants: vec![
            grant("/usr", Access::Read, true),
            grant("/etc", Access::Read, false),
            grant(work, Access::Write, true),
        ],
        links: vec![],
        absent: vec![],
        denials: vec![],
        exec: Exec::Visible,
        env: vec![],
        env_clauses: vec![],
        tty: None,
        limits: vec![],
        cwd: work.into(),
        home: "/root".into(),
        impossible: vec![],
        notes: vec![],
    }
}
