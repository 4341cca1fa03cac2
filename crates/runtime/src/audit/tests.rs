mod writing;

use proptest::prelude::*;

use super::*;

fn open(home: &Home) -> Audit {
    Audit::open(home, "local:x/AGENT-CLI.md", SecretRedactor::default()).expect("opened")
}

/// A home with a log of six events by two writers.
struct Bench {
    dir: tempfile::TempDir,
    home: Home,
    path: PathBuf,
}

impl Bench {
    fn empty() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let home = Home::new(dir.path().join("home"));
        let path = default_path(&home);
        Bench { dir, home, path }
    }

    fn new() -> Self {
        let bench = Bench::empty();
        for round in 0..2 {
            let audit = open(&bench.home);
            for step in 0..3 {
                let data = json!({"round": round, "step": step, "b": {"z": 1, "a": "x"}});
                audit.record("test.step", data).expect("written");
            }
        }
        bench
    }

    /// A home whose log was written by an earlier version: no key, and no `mac`.
    fn from_earlier_version() -> Self {
        let bench = Bench::empty();
        let records = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../fixtures/aoi/agentproto/records"
        );
        make_dir(bench.path.parent().expect("a parent")).expect("made");
        for name in ["audit-log.jsonl", "audit-log.head.json"] {
            let from = Path::new(records).join(name);
            std::fs::copy(from, bench.path.with_file_name(name)).expect("copied");
        }
        bench
    }

    fn verify(&self) -> Result<Verified, Error> {
        verify(&self.home, &self.path, &[])
    }

    fn lines(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.path).expect("readable");
        text.lines().map(str::to_owned).collect()
    }

    fn write(&self, lines: &[String]) {
        let text: String = lines.iter().map(|l| format!("{l}\n")).collect();
        std::fs::write(&self.path, text).expect("written");
    }

    fn pointer(&self) -> PathBuf {
        head_path(&self.path)
    }

    /// The line and the message of a broken log.
    #[track_caller]
    fn broken(&self) -> (u64, String) {
        let error = self.verify().expect_err("detected");
        assert_eq!(error.code, Code::AuditBroken, "{error:?}");
        assert!(error.hint.is_some(), "{error:?}");
        (
            error.details["line"].as_u64().expect("a line"),
            error.message,
        )
    }

    /// Nothing hides the change by adding an event.
    #[track_caller]
    fn refuses_events(&self) {
        let before = self.lines();
        let error = open(&self.home)
            .record("test.next", json!({}))
            .expect_err("refused");
        assert_eq!(error.code, Code::AuditBroken, "{error:?}");
        assert_eq!(self.lines(), before);
    }
}

#[test]
fn a_chain_by_several_writers_verifies_and_contains_no_secret() {
    let bench = Bench::new();
    let masks = SecretRedactor::default();
    masks.add("hunter22");
    let audit = Audit::open(&bench.home, "local:x", masks).expect("opened");
    audit
        .record("test.secret", json!({"a": ["hunter22"]}))
        .expect("written");
    let verified = bench.verify().expect("whole");
    assert_eq!((verified.events, verified.unkeyed), (7, 0));
    assert!(!verified.restarted);
    let text = bench.lines().join("\n");
    assert!(!text.contains("hunter22") && text.contains("[secret]"));
    let mode = |path: PathBuf| path.metadata().expect("there").mode() & 0o777;
    assert_eq!(mode(bench.home.path(key::FILE)), 0o600);
    assert_eq!(mode(bench.home.path("keys")), 0o700);
}

#[test]
fn processes_that_write_at_the_same_time_make_one_chain() {
    let bench = Bench::empty();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let home = bench.home.clone();
            std::thread::spawn(move || {
                for _ in 0..25 {
                    // A new open file each time, like another process.
                    let mut audit = open(&home);
                    audit.log = Arc::default();
                    audit.record("test.step", json!({})).expect("written");
                    verify(&home, &default_path(&home), &[]).expect("whole at any time");
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no panic");
    }
    assert_eq!(bench.verify().expect("whole").events, 100);
}

#[test]
fn every_changed_line_is_detected() {
    let bench = Bench::new();
    let all = bench.lines();
    let changed = |lines: &[String]| {
        bench.write(lines);
        bench.broken()
    };
    let mut altered = all.clone();
    altered[2] = altered[2].replace("\"step\":2", "\"step\":9");
    let (line, what) = changed(&altered);
    assert!(
        line == 3 && what.contains("does not match its `hash`"),
        "{what}"
    );
    // The same value, written in another way.
    let mut respelled = all.clone();
    respelled[2] = respelled[2].replace("\"step\":2", "\"step\": 2");
    assert_eq!(changed(&respelled).0, 3);
    let mut missing = all.clone();
    missing.remove(1);
    assert_eq!(changed(&missing).0, 2);
    let mut swapped = all.clone();
    swapped.swap(3, 4);
    assert_eq!(changed(&swapped).0, 4);
    let mut repeated = all.clone();
    repeated.push(all[5].clone());
    assert_eq!(changed(&repeated).0, 7);
    let mut unsigned = all.clone();
    let (body, _) = all[4].split_once(",\"mac\"").expect("a MAC");
    unsigned[4] = format!("{body}}}");
    let (line, what) = changed(&unsigned);
    assert!(line == 5 && what.contains("has no `mac`"), "{what}");
    std::fs::write(&bench.path, all.join("\n")).expect("written");
    let (line, what) = bench.broken();
    assert!(line == 6 && what.contains("no line break"), "{what}");
    bench.refuses_events();
    bench.write(&all);
    assert_eq!(bench.verify().expect("whole").events, 6);
}

#[test]
fn duplicate_keys_are_detected() {
    for bench in [Bench::new(), Bench::from_earlier_version()] {
        let original = bench.lines();
        let mut lines = original.clone();
        lines[2] = lines[2].replacen('{', "{\"data\":{\"forged\":1},\"actor\":\"user:x\",", 1);
        bench.write(&lines);
        let (line, what) = bench.broken();
        assert!(
            line == 3 && what.contains("duplicate key `actor`"),
            "{what}"
        );
        // In a nested object of the last line.
        let mut lines = original.clone();
        let last = lines.last_mut().expect("a line");
        *last = last.replacen("\"data\":{", "\"data\":{\"x\":{\"z\":0,\"z\":1},", 1);
        bench.write(&lines);
        let (line, what) = bench.broken();
        assert_eq!(line, original.len() as u64);
        assert!(what.contains("duplicate key `z`"), "{what}");
        bench.write(&original);
        assert!(bench.verify().is_ok());
    }
}

#[test]
fn a_cut_log_is_detected_whatever_happens_to_the_pointer() {
    let bench = Bench::new();
    let all = bench.lines();
    let pointer = std::fs::read(bench.pointer()).expect("readable");
    for kept in 0..5 {
        bench.write(&all[..kept]);
        std::fs::write(bench.pointer(), &pointer).expect("written");
        let (line, what) = bench.broken();
        assert_eq!(line, kept as u64 + 1);
        assert!(what.contains("events are missing at the end"), "{what}");
        bench.refuses_events();
        for blank in [&b""[..], b"\n", b"     ", b"{}", b"null", b"{\"seq\":"] {
            std::fs::write(bench.pointer(), blank).expect("written");
            let (line, what) = bench.broken();
            assert_eq!(line, kept as u64);
            assert!(what.contains("head.json"), "{what}");
            if kept > 0 {
                bench.refuses_events();
            }
        }
        std::fs::remove_file(bench.pointer()).expect("removed");
        assert!(bench.broken().1.contains("missing or empty"));
        // The pointer of an earlier version, which needs no key.
        let tip: Value = serde_json::from_str(&all[kept.max(1) - 1]).expect("JSON");
        let forged = json!({ "seq": tip["seq"], "hash": tip["hash"] });
        std::fs::write(bench.pointer(), forged.to_string()).expect("written");
        assert!(bench.broken().1.contains("has no `mac`"));
        bench.refuses_events();
    }
}

#[test]
fn a_deleted_log_leaves_a_trace_in_the_next_one() {
    let bench = Bench::new();
    std::fs::remove_dir_all(bench.path.parent().expect("a parent")).expect("removed");
    let error = bench.verify().expect_err("missing");
    assert_eq!(error.code, Code::TargetUnknown);
    assert!(error.hint.expect("a hint").contains("moved or deleted"));
    open(&bench.home)
        .record("test.next", json!({}))
        .expect("written");
    let verified = bench.verify().expect("whole");
    assert_eq!((verified.events, verified.restarted), (2, true));
    // A cut log with the pointer of its first state is an earlier state of the log.
    std::fs::write(&bench.path, "").expect("written");
    std::fs::remove_file(bench.pointer()).expect("removed");
    assert_eq!(bench.broken().0, 0);
}

#[test]
fn an_older_pointer_is_detected() {
    let bench = Bench::new();
    let older = std::fs::read(bench.pointer()).expect("readable");
    let before = bench.verify().expect("whole").anchor();
    let audit = open(&bench.home);
    audit.record("test.next", json!({})).expect("written");
    // The writer was killed between the line and the pointer.
    let newer = std::fs::read(bench.pointer()).expect("readable");
    std::fs::write(bench.pointer(), &older).expect("written");
    assert_eq!(bench.verify().expect("as designed").events, 7);
    std::fs::write(bench.pointer(), &newer).expect("written");
    audit.record("test.next", json!({})).expect("written");
    let after = bench.verify().expect("whole").anchor();
    std::fs::write(bench.pointer(), &older).expect("written");
    assert!(bench.broken().1.contains("older than the log"));
    // Log and pointer together are a valid earlier state. Only an anchor shows that it is not the
    // newest.
    bench.write(&bench.lines()[..6]);
    assert_eq!(bench.verify().expect("an earlier state").events, 6);
    verify(&bench.home, &bench.path, &[before]).expect("still contained");
    let error = verify(&bench.home, &bench.path, &[after]).expect_err("cut");
    assert!(
        error.message.contains("an anchor was made after 8"),
        "{error:?}"
    );
    assert_eq!(error.details["line"], 7);
}

#[test]
fn events_go_on_after_a_crash_between_line_and_pointer() {
    let bench = Bench::new();
    let older = std::fs::read(bench.pointer()).expect("readable");
    open(&bench.home)
        .record("test.next", json!({}))
        .expect("written");
    std::fs::write(bench.pointer(), &older).expect("written");
    open(&bench.home)
        .record("test.next", json!({}))
        .expect("written");
    assert_eq!(bench.verify().expect("whole").events, 8);
}

#[test]
fn an_incomplete_last_line_is_set_aside_and_reported() {
    let bench = Bench::new();
    let mut text = std::fs::read(&bench.path).expect("readable");
    text.extend_from_slice(br#"{"schema":"agentgovernance/v1","type":"au"#);
    std::fs::write(&bench.path, &text).expect("written");
    bench.broken();
    open(&bench.home)
        .record("test.next", json!({}))
        .expect("written");
    assert_eq!(bench.verify().expect("whole").events, 8);
    let lines = bench.lines();
    let report: Value = serde_json::from_str(&lines[6]).expect("JSON");
    assert_eq!(report["event"], "audit.torn");
    assert_eq!(report["data"]["bytes"], 41);
    let moved_to = report["data"]["moved_to"].as_str().expect("a name");
    let aside = std::fs::read(bench.path.with_file_name(moved_to)).expect("readable");
    assert!(text.ends_with(&aside) && aside.len() == 41);
}

/// The pointer names the event whose line was cut.
#[test]
fn a_cut_last_line_is_not_set_aside() {
    let bench = Bench::new();
    let text = std::fs::read(&bench.path).expect("readable");
    let cut = text.get(..text.len() - 5).expect("a part");
    std::fs::write(&bench.path, cut).expect("written");
    let error = open(&bench.home)
        .record("test.next", json!({}))
        .expect_err("refused");
    assert_eq!(error.code, Code::AuditBroken, "{error:?}");
    assert_eq!(std::fs::read(&bench.path).expect("readable"), cut);
}

#[test]
fn a_broken_log_is_accepted_explicitly() {
    let bench = Bench::new();
    assert!(accept(&bench.home).expect("whole").is_none());
    let lines = bench.lines();
    bench.write(&lines[..4]);
    bench.refuses_events();
    let moved_to = accept(&bench.home).expect("moved").expect("a path");
    let kept = std::fs::read_to_string(moved_to).expect("readable");
    assert_eq!(kept.lines().count(), 4);
    open(&bench.home)
        .record("test.next", json!({}))
        .expect("written");
    let verified = bench.verify().expect("whole");
    assert!(verified.restarted);
    assert_eq!(verified.events, 2);
}

/// Writes all hashes again after a change, as somebody without the key can.
fn rehash(lines: &[String], sorted: bool) -> Vec<String> {
    let mut prev = line::GENESIS.to_owned();
    let mut new = Vec::new();
    for (seq, line) in lines.iter().enumerate() {
        let mut entry: Map<String, Value> = serde_json::from_str(line).expect("JSON");
        entry.insert("seq".into(), seq.into());
        entry.insert("prev".into(), prev.as_str().into());
        let mac = entry.remove("mac");
        entry.remove("hash");
        prev = match sorted {
            true => line::hash_of_sorted(&entry),
            false => {
                let text = serde_json::to_string(&entry).expect("JSON");
                let hash = Sha256::digest(&text.as_bytes()[..text.len() - 1]);
                format!("sha256:{}", agentproto_text::hex(&hash))
            }
        };
        entry.insert("hash".into(), prev.as_str().into());
        if let Some(mac) = mac.filter(|_| !sorted) {
            entry.insert("mac".into(), mac);
        }
        new.push(serde_json::to_string(&entry).expect("JSON"));
    }
    new
}

#[test]
fn a_rehashed_chain_is_detected() {
    let bench = Bench::new();
    let all = bench.lines();
    assert_eq!(rehash(&all, false), all, "the attack computes valid hashes");
    let mut altered = all.clone();
    altered[2] = altered[2].replace("\"step\":2", "\"step\":9");
    bench.write(&rehash(&altered, false));
    let (line, what) = bench.broken();
    assert!(
        line == 3 && what.contains("does not match its `mac`"),
        "{what}"
    );
    // The log is written again as one of an earlier version, with its pointer.
    let old = rehash(&altered, true);
    bench.write(&old);
    let last: Value = serde_json::from_str(&old[5]).expect("JSON");
    let forged = json!({ "seq": 5, "hash": last["hash"] });
    std::fs::write(bench.pointer(), forged.to_string()).expect("written");
    let (_, what) = bench.broken();
    assert!(what.contains("has no `mac`"), "{what}");
    bench.refuses_events();
    // Without a key in the home, this log is what an earlier version would have written.
    std::fs::remove_file(bench.home.path(key::FILE)).expect("removed");
    assert_eq!(bench.verify().expect("only hashes").unkeyed, 6);
}

#[test]
fn a_forged_pointer_is_detected() {
    let bench = Bench::new();
    let pointer = std::fs::read_to_string(bench.pointer()).expect("readable");
    for (from, to) in [
        ("\"from\":0", "\"from\":6"),
        ("\"seq\":5", "\"seq\":4"),
        ("\"seq\":5", "\"seq\":4,\"seq\":5"),
        ("\"seq\":5", "\"seq\":18446744073709551615"),
        ("hmac-sha256:", "hmac-sha256:0"),
    ] {
        let forged = pointer.replace(from, to);
        assert_ne!(forged, pointer);
        std::fs::write(bench.pointer(), forged).expect("written");
        bench.broken();
        bench.refuses_events();
    }
    std::fs::write(bench.pointer(), pointer).expect("written");
    bench.verify().expect("whole");
}

#[test]
fn a_log_without_its_key_is_detected() {
    let bench = Bench::new();
    let file = bench.home.path(key::FILE);
    let key = std::fs::read(&file).expect("readable");
    std::fs::remove_file(&file).expect("removed");
    assert!(
        bench
            .broken()
            .1
            .contains("`$AGENTPROTO_HOME/keys/audit` is missing")
    );
    bench.refuses_events();
    let other: Vec<u8> = key.iter().map(|byte| !byte).collect();
    bench.home.write(key::FILE, &other).expect("written");
    assert!(bench.broken().1.contains("another key"));
    bench.refuses_events();
    bench.home.write(key::FILE, &key[..31]).expect("written");
    let error = bench.verify().expect_err("too short");
    assert_eq!(error.code, Code::AuditBroken);
    bench.home.write(key::FILE, &key).expect("written");
    bench.verify().expect("whole");
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).expect("set");
    let error = bench.verify().expect_err("readable by others");
    assert!(error.hint.expect("a hint").contains("chmod 600"));
}

#[test]
fn the_log_of_another_home_is_detected() {
    let (bench, other) = (Bench::new(), Bench::new());
    let swap = |to: PathBuf, from: PathBuf| _ = std::fs::copy(from, to).expect("copied");
    swap(bench.path.clone(), other.path.clone());
    bench.broken();
    swap(bench.pointer(), other.pointer());
    assert!(bench.broken().1.contains("another key"));
    bench.refuses_events();
    let error = verify(&bench.home, &other.path, &[]).expect_err("another key");
    assert!(error.hint.expect("a hint").contains("AGENTPROTO_HOME"));
}

#[test]
fn a_moved_directory_still_verifies_and_a_new_log_is_started() {
    let bench = Bench::empty();
    let before = open(&bench.home);
    before.record("test.one", json!({})).expect("written");
    // The directory is moved while `before` still has the log open.
    let aside = bench.dir.path().join("evidence");
    let log = aside.join(bench.path.file_name().expect("a name"));
    std::fs::rename(bench.path.parent().expect("a parent"), &aside).expect("moved");
    let after = open(&bench.home);
    after.record("test.two", json!({})).expect("written");
    before.record("test.three", json!({})).expect("written");
    let verified = bench.verify().expect("whole");
    assert_eq!((verified.events, verified.restarted), (2, true));
    let moved = verify(&bench.home, &log, &[]).expect("whole");
    assert_eq!((moved.events, moved.restarted), (2, false));
    let text = std::fs::read_to_string(log).expect("there");
    assert!(text.contains("test.three") && !text.contains("test.two"));
}

#[test]
fn a_log_that_was_moved_without_its_pointer_is_not_replaced() {
    let bench = Bench::new();
    std::fs::rename(&bench.path, bench.path.with_extension("old")).expect("moved");
    let error = open(&bench.home)
        .record("test.next", json!({}))
        .expect_err("refused");
    assert_eq!(error.code, Code::AuditBroken);
    assert!(error.hint.expect("a hint").contains("audit accept"));
}

#[test]
fn the_log_of_an_earlier_version_is_continued_with_a_key() {
    let bench = Bench::from_earlier_version();
    let old = bench.verify().expect("whole");
    assert!(old.events > 3);
    assert_eq!(old.unkeyed, old.events);
    open(&bench.home)
        .record("test.next", json!({}))
        .expect("written");
    let new = bench.verify().expect("whole");
    assert_eq!((new.events, new.unkeyed), (old.events + 1, old.events));
    verify(&bench.home, &bench.path, &[old.anchor(), new.anchor()]).expect("both contained");
    // The events without a key are fixed by the keyed ones after them.
    let all = bench.lines();
    let mut altered = all.clone();
    altered[1] = altered[1].replace("vendored", "whatever");
    let count = old.events as usize;
    let mut forged = rehash(&altered[..count], true);
    forged.extend_from_slice(&all[count..]);
    bench.write(&forged);
    assert_eq!(bench.broken().0, old.events + 1);
    // The keyed part cannot be cut off: the old pointer is not valid any more.
    bench.write(&all[..count]);
    let tip: Value = serde_json::from_str(&all[count - 1]).expect("JSON");
    let pointer = json!({ "seq": tip["seq"], "hash": tip["hash"] });
    std::fs::write(bench.pointer(), pointer.to_string()).expect("written");
    bench.broken();
    bench.refuses_events();
    // In another place, such a log is reported as it is.
    let evidence = Bench::from_earlier_version();
    let found = verify(&bench.home, &evidence.path, &[]).expect("whole");
    assert_eq!(found.unkeyed, found.events);
}

#[test]
fn an_earlier_version_that_writes_to_a_keyed_log_is_named() {
    let bench = Bench::new();
    let mut pointer = std::fs::read(bench.pointer()).expect("readable");
    let old = format!("{:<127}\n", r#"{"seq":6,"hash":"sha256:00"}"#);
    pointer[..128].copy_from_slice(old.as_bytes());
    std::fs::write(bench.pointer(), pointer).expect("written");
    let (_, what) = bench.broken();
    assert!(what.contains("an older agentproto wrote to it"), "{what}");
    bench.refuses_events();
}

#[test]
fn an_interrupted_switch_to_a_key_is_completed() {
    for steps in 1..3 {
        let bench = Bench::from_earlier_version();
        let old = bench.verify().expect("whole");
        let key = key::create(&bench.home).expect("created");
        if steps > 1 {
            let tip = Tip {
                seq: old.events - 1,
                hash: old.head.clone().expect("a head"),
            };
            let head = line::write_head(Some(&tip), old.events, &key);
            std::fs::write(bench.pointer(), head).expect("written");
        }
        assert_eq!(bench.verify().expect("whole").unkeyed, old.events);
        open(&bench.home)
            .record("test.next", json!({}))
            .expect("written");
        let new = bench.verify().expect("whole");
        assert_eq!((new.events, new.unkeyed), (old.events + 1, old.events));
        assert!(bench.home.path(key::FILE).exists());
    }
}

#[test]
fn an_anchor_detects_a_log_that_was_written_again_with_the_key() {
    let bench = Bench::new();
    let anchor = bench.verify().expect("whole").anchor();
    assert_eq!(anchor.to_string().parse(), Ok(anchor.clone()));
    open(&bench.home)
        .record("test.next", json!({}))
        .expect("written");
    verify(&bench.home, &bench.path, std::slice::from_ref(&anchor)).expect("contained");
    std::fs::remove_dir_all(bench.path.parent().expect("a parent")).expect("removed");
    let audit = open(&bench.home);
    for step in 0..9 {
        audit
            .record("forged", json!({ "step": step }))
            .expect("written");
    }
    bench.verify().expect("valid by itself");
    let error = verify(&bench.home, &bench.path, &[anchor]).expect_err("detected");
    assert_eq!(
        (error.code, &error.details["line"]),
        (Code::AuditBroken, &json!(6))
    );
    for wrong in ["", "6", "6:", "x:sha256:00", "6:sha256:00", "-1:sha256:00"] {
        assert!(wrong.parse::<Anchor>().is_err(), "{wrong}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Numbers that are written and read again keep the log valid.
    #[test]
    fn any_number_can_be_recorded(bits in any::<u64>(), whole in any::<i64>()) {
        let bench = Bench::empty();
        let data = json!({ "float": f64::from_bits(bits), "whole": whole, "bits": bits });
        open(&bench.home).record("tool.call", data).expect("written");
        prop_assert_eq!(bench.verify().expect("whole").events, 1);
    }

    /// Any changed byte is detected.
    #[test]
    fn any_changed_byte_is_detected(at in any::<prop::sample::Index>(), bit in 0..8_u8) {
        let bench = Bench::new();
        let mut bytes = std::fs::read(&bench.path).expect("readable");
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        std::fs::write(&bench.path, bytes).expect("written");
        prop_assert!(bench.verify().is_err());
    }
}
