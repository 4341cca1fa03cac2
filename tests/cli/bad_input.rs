//! Hostile input: each bad file gets a clear finding, its neighbors are still linted, and the run
//! ends in bounded time.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

/// Time limit for one run. A debug build on a busy machine needs far less.
const PATIENCE: Duration = Duration::from_secs(60);

/// A directory with a good bundle and a bad neighbor, `x/AGENT-CLI.md`.
struct Yard(tempfile::TempDir);

impl Yard {
    fn new() -> Self {
        let yard = Yard(tempfile::tempdir().expect("a directory"));
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/demo/good/heron");
        for entry in std::fs::read_dir(from).expect("fixtures") {
            let entry = entry.expect("an entry");
            let name = Path::new("heron").join(entry.file_name());
            yard.write(name, &std::fs::read(entry.path()).expect("readable"));
        }
        // A mistake that the report must contain, whatever the other files are.
        let manifest = yard.at("heron/AGENT-CLI.md");
        let text = std::fs::read_to_string(&manifest).expect("text");
        let text = text.replace("tags: [coding,", "tags: [coding, coding,");
        std::fs::write(manifest, text).expect("written");
        yard
    }

    fn with(bad: impl AsRef<[u8]>) -> Self {
        let yard = Yard::new();
        yard.write("x/AGENT-CLI.md", bad.as_ref());
        yard
    }

    fn at(&self, file: impl AsRef<Path>) -> PathBuf {
        self.0.path().join(file)
    }

    fn write(&self, file: impl AsRef<Path>, bytes: &[u8]) {
        let path = self.at(file);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("created");
        std::fs::write(path, bytes).expect("written");
    }

    fn lint(&self, args: &[&str]) -> (i32, String) {
        let output = assert_cmd::Command::cargo_bin("agentproto")
            .expect("the binary")
            .current_dir(self.0.path())
            .timeout(PATIENCE)
            .arg("lint")
            .args(args)
            .output()
            .expect("it runs");
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!err.contains("panicked"), "{err}");
        let out = String::from_utf8(output.stdout).expect("UTF-8");
        (output.status.code().expect("it ended in time"), out)
    }

    /// The rules of the findings outside the good bundle, and the first message. Checks the human
    /// and the JSON output.
    fn judged(&self) -> (Vec<String>, String) {
        let (code, human) = self.lint(&[]);
        assert_eq!(code, 1, "{human}");
        assert!(human.contains("tags-unique"), "{human}");
        assert!(!human.contains(is_raw_control), "{human:?}");
        let (code, json) = self.lint(&["-o", "json"]);
        assert_eq!(code, 1);
        let report: Value = serde_json::from_str(&json).expect("JSON");
        let findings = report["findings"].as_array().expect("a list");
        let is_neighbor = |f: &&Value| f["file"] == "heron/AGENT-CLI.md";
        let neighbor: Vec<&Value> = findings.iter().filter(is_neighbor).collect();
        assert_eq!(neighbor.len(), 1, "{neighbor:?}");
        assert_eq!(neighbor[0]["rule"], "tags-unique");
        let text = |f: &Value, key: &str| f[key].as_str().expect("text").to_owned();
        let rest = || findings.iter().filter(|f| !is_neighbor(f));
        assert!(rest().all(|f| f["rule"] != "internal-fault"), "{json}");
        let rules = rest().map(|f| text(f, "rule")).collect();
        (
            rules,
            rest().next().map_or(String::new(), |f| text(f, "message")),
        )
    }

    #[track_caller]
    fn says(&self, rule: &str) {
        let (rules, message) = self.judged();
        assert!(
            rules.iter().any(|r| r == rule),
            "{rule} is not in {rules:?}: {message}"
        );
    }

    /// Expects exactly one finding, with `words` in its message.
    #[track_caller]
    fn says_only(&self, rule: &str, words: &str) {
        let (rules, message) = self.judged();
        assert_eq!(rules, [rule], "{message}");
        assert!(message.contains(words), "{message}");
    }
}

fn is_raw_control(c: char) -> bool {
    c != '\n' && c.is_control()
}

fn front(yaml: &str) -> String {
    format!("---\n{yaml}---\n")
}

#[test]
fn invalid_utf8_and_control_characters() {
    let all: Vec<u8> = (0..=255).cycle().take(4096).collect();
    Yard::with(all).says_only("fm-encoding", "not UTF-8");
    Yard::with(b"---\nname: caf\xe9\n---\n").says_only("fm-encoding", "offset 13");
    Yard::with([0xff, 0xfe, b'-', 0, b'-', 0]).says("fm-encoding");
    Yard::with([0; 5000]).says_only("fm-missing", "");
    Yard::with("---\nname: a\0b\n\0id: x\n---\n").says("fm-yaml-syntax");
    Yard::with(front("name: \u{1b}[31mred\u{7}\u{202e}\n")).judged();
}

#[test]
fn byte_order_marks_and_line_endings() {
    let good = std::fs::read_to_string(Yard::new().at("heron/AGENT-CLI.md")).expect("text");
    let good = good
        .replace("coding, coding", "coding")
        .replace("name: heron", "name: x");
    for text in [
        format!("\u{feff}{good}"),
        good.replace('\n', "\r\n"),
        format!("\u{feff}{}", good.replace('\n', "\r\n")),
        good.trim_end().to_owned(),
    ] {
        let yard = Yard::with(&text);
        for file in ["ACP.md", "SANDBOX.md", "SECRETS.md", "OPERATOR.md"] {
            yard.write(
                Path::new("x").join(file),
                &std::fs::read(yard.at("heron").join(file)).expect("there"),
            );
        }
        let (rules, message) = yard.judged();
        assert!(
            rules
                .iter()
                .all(|r| r == "id-unique-registry" || r == "name-kebab-equals-dir"),
            "{rules:?}: {message}"
        );
    }
    Yard::with("---\rname: x\r---\r").judged();
}

#[test]
fn missing_or_incomplete_frontmatter() {
    Yard::with("").says_only("fm-missing", "");
    Yard::with("# Heading\n\nText.\n").says_only("fm-missing", "");
    Yard::with("---\n---\n").says_only("fm-missing", "");
    Yard::with("---").says_only("fm-delimiters", "never closed");
    Yard::with("---\nname: x\n").says("fm-delimiters");
    Yard::with("\n\n---\nname: x\n---\n").says("fm-delimiters");
    Yard::with("---\n- a\n- b\n---\n").says_only("fm-not-mapping", "");
    Yard::with("---\njust text\n---\n").says_only("fm-not-mapping", "");
    Yard::with("---\nname: x\n...\nid: y\n---\n").judged();
    Yard::with("---\n".repeat(100_000)).judged();
    Yard::with(front("name: [1, 2\nid: x\n")).says("fm-yaml-syntax");
    Yard::with(front("name: \"never closed\n")).says("fm-yaml-syntax");
    Yard::with(front("\tname: x\n")).says("fm-yaml-syntax");
}

#[test]
fn unusual_yaml_features() {
    Yard::with(front("name: &a x\nid: *a\n")).says("fm-yaml-feature");
    Yard::with(front("name: *nowhere\n")).says("fm-yaml-syntax");
    Yard::with(front("base: &b {name: x}\n<<: *b\n")).says("fm-yaml-feature");
    Yard::with(front("<<: [1, {a: 1}, *x]\n")).judged();
    Yard::with(front("<<: x\n? [a]\n: b\n")).judged();
    Yard::with(front("name: !!python/object:os.system x\nid: !own y\n")).says("fm-yaml-feature");
    Yard::with(front("name: x\n--- \nname: y\n")).judged();
    Yard::with("---\n%YAML 1.1\n%TAG ! tag:x,2000:\nname: x\n---\n").judged();
    Yard::with(front("a: &a [*a]\n")).judged();
}

#[test]
fn alias_expansion_is_limited() {
    let mut laughs = "l0: &l0 [ha, ha, ha, ha, ha, ha, ha, ha, ha, ha]\n".to_owned();
    for i in 1..12 {
        let last = format!("*l{}", i - 1);
        laughs += &format!("l{i}: &l{i} [{}]\n", vec![last; 10].join(", "));
    }
    Yard::with(front(&laughs)).says("fm-yaml-syntax");
    // The same for depth: each alias contains nested lists that contain the previous alias.
    let tower = |inner: &str| format!("{}{inner}{}", "[".repeat(100), "]".repeat(100));
    let mut towers = format!("t0: &t0 {}\n", tower("x"));
    for i in 1..60 {
        towers += &format!("t{i}: &t{i} {}\n", tower(&format!("*t{}", i - 1)));
    }
    Yard::with(front(&towers)).says("fm-yaml-syntax");
}

#[test]
fn deep_nesting() {
    let n = 10_000;
    for deep in [
        format!("name: {}{}\n", "[".repeat(n), "]".repeat(n)),
        format!("name: {}\n", "[".repeat(n)),
        format!("name: {}1{}\n", "{a: ".repeat(n), "}".repeat(n)),
        format!("name:\n  {}x\n", "- ".repeat(n)),
        format!("{}\n", "? ".repeat(n)),
    ] {
        Yard::with(front(&deep)).says_only("fm-yaml-syntax", "");
    }
    // Ten thousand levels of block mappings would need fifty megabytes of indentation.
    let mut block = String::new();
    for level in 0..1000 {
        block += &format!("{}a:\n", " ".repeat(level));
    }
    Yard::with(front(&block)).says_only("fm-yaml-syntax", "nested more than 128 levels deep");
}

#[test]
fn large_files() {
    let yard = Yard::new();
    yard.write("x/AGENT-CLI.md", b"---\nname: x\n---\n");
    let file = std::fs::File::options()
        .write(true)
        .open(yard.at("x/AGENT-CLI.md"));
    file.expect("opened").set_len(50_000_000).expect("grown");
    yard.says_only("file-too-large", "50000000 bytes");
    // The large file as the target of a reference.
    let manifest = yard.at("heron/AGENT-CLI.md");
    let text = std::fs::read_to_string(&manifest).expect("text");
    std::fs::write(manifest, text.replace("./ACP.md", "../x/AGENT-CLI.md")).expect("written");
    let (code, out) = yard.lint(&["-o", "concise"]);
    assert_eq!(code, 1, "{out}");
    Yard::with(front(&format!("name: {}\nodd: 1\n", "x".repeat(1_000_000))))
        .says("fm-unknown-field");
    Yard::with(front(&format!(
        "name: x\nbin: '{}' # {}\n",
        "é".repeat(200_000),
        "ü".repeat(200_000)
    )))
    .judged();
}

#[test]
fn many_keys() {
    let lines = |n: usize, line: &dyn Fn(usize) -> String| (0..n).map(line).collect::<String>();
    let keys = lines(100_000, &|i| format!("k{i}: {i}\n"));
    Yard::with(front(&keys)).says_only("fm-yaml-syntax", "more than 200000 keys and values");
    let same = lines(4000, &|i| format!("k: {i}\n"));
    Yard::with(front(&same)).says("fm-duplicate-key");
    // Each key is a finding.
    Yard::with(front(&lines(1500, &|i| format!("k{i}: {i}\n")))).says("fm-unknown-field");
    let items = lines(1000, &|i| format!("  - method: m{i}\n"));
    Yard::with(front(&format!("install:\n{items}"))).says("install-method-unknown");
    let ignores = "# agentproto: ignore[fm-enum] why\n".repeat(3000);
    Yard::with(front(&format!("{ignores}name: x\n"))).says("ignore-unused");
}

#[cfg(unix)]
#[test]
fn circular_and_dangling_symlinks() {
    use std::os::unix::fs::symlink;
    let yard = Yard::new();
    std::fs::create_dir(yard.at("x")).expect("created");
    symlink("AGENT-CLI.md", yard.at("x/AGENT-CLI.md")).expect("linked");
    yard.says_only("file-unreadable", "cannot be read");
    let yard = Yard::new();
    std::fs::create_dir(yard.at("x")).expect("created");
    symlink("nowhere.md", yard.at("x/AGENT-CLI.md")).expect("linked");
    yard.says_only("file-unreadable", "does not exist");
    let yard = Yard::new();
    std::fs::create_dir_all(yard.at("x/y")).expect("created");
    symlink("../..", yard.at("x/y/up")).expect("linked");
    symlink("loop", yard.at("x/loop")).expect("linked");
    assert!(yard.judged().0.is_empty());
    assert_eq!(
        yard.lint(&["x/loop"]).0,
        1,
        "a path named on the command line is reported"
    );
}

#[cfg(unix)]
#[test]
fn unreadable_files_are_reported() {
    let yard = Yard::new();
    std::fs::create_dir_all(yard.at("x/AGENT-CLI.md")).expect("created");
    yard.says_only("file-unreadable", "found a directory");
    assert_eq!(yard.lint(&["x/AGENT-CLI.md"]).0, 1);
    // Opening a named pipe would block forever.
    let yard = Yard::new();
    std::fs::create_dir(yard.at("x")).expect("created");
    let made = std::process::Command::new("mkfifo")
        .arg(yard.at("x/AGENT-CLI.md"))
        .status();
    assert!(made.expect("mkfifo runs").success());
    yard.says_only("file-unreadable", "found neither a file nor a directory");
    let socket = std::os::unix::net::UnixListener::bind(yard.at("x/ACP.md")).expect("bound");
    assert_eq!(yard.judged().0, ["file-unreadable"; 2]);
    drop(socket);
    use std::os::unix::fs::PermissionsExt;
    let yard = Yard::with("---\nname: x\n---\n");
    let file = yard.at("x/AGENT-CLI.md");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o000)).expect("set");
    // Root can read every file; other users get this error.
    if std::fs::read(&file).is_err() {
        yard.says_only("file-unreadable", "cannot be read");
    }
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).expect("set");
}

#[cfg(unix)]
#[test]
fn control_characters_in_file_names() {
    let yard = Yard::new();
    yard.write("a\u{1b}[2J\nb\t/AGENT-CLI.md", b"# Nothing\n");
    yard.says("fm-missing");
    use std::os::unix::ffi::OsStrExt;
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9/AGENT-CLI.md");
    yard.write(Path::new(name), b"# Nothing\n");
    assert_eq!(yard.judged().0, ["fm-missing"; 2]);
}

#[test]
fn references_that_leave_the_workspace() {
    let outside = tempfile::tempdir().expect("a directory");
    let secret = outside.path().join("SECRET.md");
    std::fs::write(&secret, front("secrets: []\nhidden: do-not-show\n")).expect("written");
    let yard = Yard::new();
    let up = format!("{}{}", "../".repeat(40), secret.display());
    let absolute = secret.display().to_string();
    for reference in [up.as_str(), &absolute, "~/x.md", "../../x.md"] {
        let text = format!("name: x\nbin: x\nauth:\n  ref: {reference}\nsandbox: {reference}\n");
        yard.write("x/AGENT-CLI.md", front(&text).as_bytes());
        let (code, out) = yard.lint(&["-o", "json"]);
        assert_eq!(code, 1);
        assert!(
            !out.contains("do-not-show"),
            "{reference}: the target was read"
        );
        let (rules, message) = yard.judged();
        let told = |r: &String| {
            r.starts_with("ref-escapes")
                || r.starts_with("ref-absolute")
                || r == "ref-relative-only"
        };
        assert!(rules.iter().any(told), "{reference}: {rules:?} {message}");
    }
}

#[cfg(unix)]
#[test]
fn references_that_leave_the_workspace_through_a_symlink() {
    use std::os::unix::fs::symlink;
    let outside = tempfile::tempdir().expect("a directory");
    let acp = outside.path().join("ACP.md");
    std::fs::write(&acp, front("hidden: do-not-show\n")).expect("written");
    let yard = Yard::new();
    std::fs::create_dir(yard.at("x")).expect("created");
    symlink(&acp, yard.at("x/acp.txt")).expect("linked");
    symlink(outside.path(), yard.at("x/dir")).expect("linked");
    symlink("../heron", yard.at("x/inside")).expect("linked");
    let found = |reference: &str| {
        let text = format!("name: x\nprotocol: acp\nacp: {reference}\n");
        yard.write("x/AGENT-CLI.md", front(&text).as_bytes());
        assert!(!yard.lint(&["-o", "json"]).1.contains("do-not-show"));
        yard.judged().0
    };
    let escapes = |rules: Vec<String>| rules.iter().any(|r| r.starts_with("ref-escapes"));
    assert!(escapes(found("./acp.txt")));
    assert!(escapes(found("./dir/ACP.md")));
    assert!(!escapes(found("./inside/ACP.md")));
}

#[test]
fn circular_references() {
    let yard = Yard::new();
    let text = "name: x\nprotocol: acp\nacp: ./AGENT-CLI.md\nsandbox: ./AGENT-CLI.md\n\
                runner: ./AGENT-CLI.md\nauth:\n  ref: ./AGENT-CLI.md\n";
    yard.write("x/AGENT-CLI.md", front(text).as_bytes());
    yard.judged();
    let acp = "kind: server\ntransport: stdio\nmetadata:\n  aip44:\n    operator: ./OPERATOR.md\n    sandbox: ./ACP.md\n";
    yard.write("x/ACP.md", front(acp).as_bytes());
    yard.write(
        "x/OPERATOR.md",
        front("runtime:\n  ref: ./AGENT-CLI.md\n").as_bytes(),
    );
    yard.write(
        "x/AGENT-CLI.md",
        front(&text.replace("./AGENT-CLI.md", "./ACP.md")).as_bytes(),
    );
    yard.judged();
    let tool = "inputs: {}\noutputs: {}\nrunner:\n  cli: ../CLI.md\n";
    yard.write("y/t/TOOL.md", front(tool).as_bytes());
    yard.write(
        "y/CLI.md",
        front("bin: y\ncommands:\n  a: ./t/TOOL.md\n  b: ./CLI.md\n").as_bytes(),
    );
    yard.judged();
}
