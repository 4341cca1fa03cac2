//! Measures the linter's speed as ratios within one run: compared with other tools, and with the
//! time for reading and parsing alone (the floor). `cargo bench --bench lint` needs node, npm and
//! python3, and installs the other tools in `target/bench-peer`. `-- --no-peer` skips them.

#[path = "corpus.rs"]
mod corpus;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use agentproto_lint::discover::{self, Excludes};
use agentproto_manifest::{ConfinedDisk, Document};

/// The floor uses the same allocator as the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const FILES: usize = 10_000;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let Some(at) = args.iter().position(|a| a == "--floor") {
        return floor(Path::new(&args[at + 1]));
    }
    let peers = !args.iter().any(|a| a == "--no-peer");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let small = target.join("corpus-10k");
    let large = target.join("corpus-100k");
    let count = corpus_at(&small, FILES);
    println!("corpus: {count} manifests");
    let mut checks = Checks::default();

    let read_and_parse = || {
        run(Command::new(std::env::current_exe().expect("self"))
            .arg("--floor")
            .arg(&small))
    };
    let (ours, floor) = side_by_side(7, || lint(&small, 1), read_and_parse);
    println!(
        "ours   {:>9.0} files per CPU-second",
        count as f64 / ours.cpu.as_secs_f64()
    );
    println!(
        "floor  {:>9.0} files per CPU-second (walk, read, parse)",
        count as f64 / floor.cpu.as_secs_f64()
    );
    checks.at_most(
        "all rules / read + parse floor",
        ours.cpu.as_secs_f64() / floor.cpu.as_secs_f64(),
        1.6,
    );
    checks.at_most(
        "peak memory at 10,000 files, MB",
        ours.peak_kb as f64 / 1024.0,
        150.0,
    );

    let (one, two) = side_by_side(5, || lint(&small, 1), || lint(&small, 2));
    checks.at_least(
        "wall time of one thread / two threads",
        one.wall.as_secs_f64() / two.wall.as_secs_f64(),
        1.7,
    );

    let many = corpus_at(&large, FILES * 10);
    // Alternate measurements of similar length. Otherwise the best of a short run would be
    // compared with the average of a long one.
    let mut ratios: Vec<f64> = (0..5)
        .map(|_| {
            let ten: f64 = (0..5).map(|_| lint(&small, 1).cpu.as_secs_f64()).sum();
            let hundred = lint(&large, 1).cpu.as_secs_f64();
            hundred / (ten / 5.0) * (count as f64 * 10.0 / many as f64)
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    let per_ten = ratios[ratios.len() / 2];
    checks.at_most("time for 100,000 files / 10,000 files", per_ten, 11.0);

    if peers {
        let peer = node_peer(target);
        let list = target.join("corpus-10k.txt");
        std::fs::write(&list, file_list(&small)).expect("list");
        let node = best(3, || {
            run(Command::new("node")
                .current_dir(&peer)
                .arg("peer.mjs")
                .arg(schemas())
                .arg(&list))
        });
        println!(
            "node   {:>9.0} files per CPU-second (js-yaml + ajv, schema only)",
            count as f64 / node.cpu.as_secs_f64()
        );
        checks.at_least(
            "files per CPU-second / js-yaml + ajv",
            node.cpu.as_secs_f64() / ours.cpu.as_secs_f64(),
            3.5,
        );

        let one_file = first_file(&small);
        // A run takes only a few milliseconds, so use the best of several.
        let lint_one = || {
            run(Command::new(env!("CARGO_BIN_EXE_agentproto"))
                .args(["lint", "--no-config", "-o", "concise"])
                .arg(&one_file))
        };
        let python = python_peer(target);
        let front = target.join("one.yaml");
        let text = std::fs::read_to_string(&one_file).expect("manifest");
        std::fs::write(&front, text.split("---\n").nth(1).unwrap_or("")).expect("yaml");
        let check_one = || {
            run(Command::new(&python)
                .arg("--schemafile")
                .arg(schemas().join("CLI.schema.json"))
                .arg(&front))
        };
        let (cold, checker) = side_by_side(5, || best(8, lint_one), check_one);
        println!(
            "one file, cold: ours {:?}, check-jsonschema {:?} CPU",
            cold.cpu, checker.cpu
        );
        checks.at_least(
            "one file, cold: CPU of check-jsonschema / ours",
            checker.cpu.as_secs_f64() / cold.cpu.as_secs_f64(),
            100.0,
        );
    }
    checks.finish();
}

fn walk(dir: &Path) -> Vec<PathBuf> {
    let disk = ConfinedDisk::new(dir);
    let found = discover::targets(&[dir.to_owned()], &disk, &Excludes::default(), false, 1);
    let found = found.expect("a directory").into_iter();
    found.map(|target| target.path).collect()
}

/// Walks, reads and parses, and does nothing else. Any linter with this parser needs that time.
fn floor(dir: &Path) {
    let mut total = 0;
    for path in walk(dir) {
        let bytes = std::fs::read(&path).expect("readable");
        let doc = Document::from_bytes(path, bytes);
        total += usize::from(doc.root.is_some());
    }
    assert!(total > 0);
}

fn lint(dir: &Path, threads: usize) -> Cost {
    run(Command::new(env!("CARGO_BIN_EXE_agentproto"))
        .args([
            "lint",
            "--no-config",
            "--exit-zero",
            "-o",
            "concise",
            "--threads",
            &threads.to_string(),
        ])
        .arg(dir))
}

#[derive(Clone, Copy)]
struct Cost {
    cpu: Duration,
    wall: Duration,
    peak_kb: i64,
}

fn best(times: usize, mut work: impl FnMut() -> Cost) -> Cost {
    (0..times)
        .map(|_| work())
        .min_by_key(|c| c.cpu)
        .expect("at least once")
}

/// The best of each. The runs alternate, so that a change in the machine's speed affects both.
fn side_by_side(
    times: usize,
    mut one: impl FnMut() -> Cost,
    mut other: impl FnMut() -> Cost,
) -> (Cost, Cost) {
    let pairs: Vec<_> = (0..times).map(|_| (one(), other())).collect();
    let least = |of: fn(&(Cost, Cost)) -> Cost| Cost {
        cpu: pairs.iter().map(|p| of(p).cpu).min().expect("a run"),
        wall: pairs.iter().map(|p| of(p).wall).min().expect("a run"),
        peak_kb: pairs.iter().map(|p| of(p).peak_kb).max().expect("a run"),
    };
    (least(|pair| pair.0), least(|pair| pair.1))
}

/// CPU time (user and system), wall time and peak memory of a child.
fn run(command: &mut Command) -> Cost {
    let started = Instant::now();
    // `wait4` below waits for the child and returns its resource usage.
    #[allow(clippy::zombie_processes)]
    let child = command
        .stdout(Stdio::null())
        .spawn()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let mut status = 0;
    // SAFETY: plain data; wait4 fills it in.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pid is that of our own child, waited for once.
    let waited = unsafe { libc::wait4(child.id() as i32, &mut status, 0, &mut usage) };
    assert!(waited > 0 && libc::WIFEXITED(status), "{command:?}");
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    Cost {
        cpu: time(usage.ru_utime) + time(usage.ru_stime),
        wall: started.elapsed(),
        peak_kb: usage.ru_maxrss,
    }
}

fn corpus_at(dir: &Path, files: usize) -> usize {
    let stamp = dir.join("COUNT");
    if let Ok(count) = std::fs::read_to_string(&stamp)
        && let Ok(count) = count.trim().parse()
    {
        return count;
    }
    let _ = std::fs::remove_dir_all(dir);
    let count = corpus::write(dir, files);
    std::fs::write(stamp, count.to_string()).expect("stamp");
    count
}

fn schemas() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas")
}

fn file_list(dir: &Path) -> String {
    let paths = walk(dir);
    let names = paths.iter().filter(|p| !p.ends_with("GOVERNANCE.md"));
    names.map(|p| format!("{}\n", p.display())).collect()
}

fn first_file(dir: &Path) -> PathBuf {
    walk(dir)
        .into_iter()
        .find(|p| p.ends_with("CLI.md") && !p.ends_with("AGENT-CLI.md"))
        .expect("a CLI.md")
}

fn node_peer(target: &Path) -> PathBuf {
    let dir = target.join("bench-peer");
    std::fs::create_dir_all(&dir).expect("peer directory");
    std::fs::copy(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peer.mjs"),
        dir.join("peer.mjs"),
    )
    .expect("peer");
    if !dir.join("node_modules/ajv").exists() {
        let done = Command::new("npm")
            .current_dir(&dir)
            .args([
                "install",
                "--no-audit",
                "--no-fund",
                "js-yaml@4",
                "ajv@8",
                "ajv-formats@3",
            ])
            .status()
            .expect("npm");
        assert!(done.success(), "npm install failed");
    }
    dir
}

fn python_peer(target: &Path) -> PathBuf {
    let venv = target.join("bench-venv");
    let tool = venv.join("bin/check-jsonschema");
    if !tool.exists() {
        let run = |command: &mut Command| assert!(command.status().expect("python3").success());
        run(Command::new("python3").args(["-m", "venv"]).arg(&venv));
        run(Command::new(venv.join("bin/pip")).args(["install", "-q", "check-jsonschema"]));
    }
    tool
}

#[derive(Default)]
struct Checks {
    failed: usize,
}

impl Checks {
    fn at_least(&mut self, what: &str, found: f64, limit: f64) {
        self.report(what, found, ">=", limit, found >= limit);
    }
    fn at_most(&mut self, what: &str, found: f64, limit: f64) {
        self.report(what, found, "<=", limit, found <= limit);
    }
    fn report(&mut self, what: &str, found: f64, sign: &str, limit: f64, ok: bool) {
        let verdict = if ok { "ok  " } else { "MISS" };
        println!("{verdict} {what}: {found:.2} (limit {sign} {limit})");
        self.failed += usize::from(!ok);
    }
    fn finish(self) {
        if self.failed > 0 {
            println!("{} ratio(s) out of range", self.failed);
            std::process::exit(1);
        }
    }
}
