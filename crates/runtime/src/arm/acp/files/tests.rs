use super::*;

fn files<'g>(dir: &Path, guarded: &'g Guarded) -> Files<'g> {
    Files {
        agent_cwd: "/workspace".into(),
        host_cwd: dir.canonicalize().expect("there"),
        policy: None,
        guarded,
    }
}

#[test]
fn files_are_read_and_written_below_the_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    let guarded = Guarded::default();
    let files = files(dir.path(), &guarded);
    let path = Path::new("/workspace/a/b/c.txt");
    assert_eq!(files.read(path), Err(FileError::Missing));
    assert_eq!(files.write(path, b"long text", || Ok(())), Ok(()));
    assert_eq!(files.write(path, b"text", || Ok(())), Ok(()));
    assert_eq!(files.read(path).as_deref(), Ok("text"));
}

#[test]
fn no_path_reaches_outside() {
    let dir = tempfile::tempdir().expect("a directory");
    let outside = tempfile::tempdir().expect("a directory");
    std::fs::write(outside.path().join("secret"), "x").expect("written");
    let link = |to: &Path, name: &str| {
        std::os::unix::fs::symlink(to, dir.path().join(name)).expect("linked");
    };
    link(&outside.path().join("secret"), "file");
    link(outside.path(), "dir");
    link(Path::new("../.."), "up");
    link(Path::new("inside"), "good");
    link(&outside.path().join("new"), "dangling");
    std::fs::write(dir.path().join("inside"), "ok").expect("written");
    let guarded = Guarded::default();
    let files = files(dir.path(), &guarded);
    for path in [
        "relative",
        "/etc/passwd",
        "/workspace/../etc/passwd",
        "/workspace",
        "/workspace/file",
        "/workspace/dir/secret",
        "/workspace/up/x",
        "/workspace/dangling",
        "/workspacex/a",
    ] {
        let path = Path::new(path);
        assert!(
            matches!(files.read(path), Err(FileError::Params(_))),
            "{path:?}"
        );
        assert!(
            matches!(files.write(path, b"", || Ok(())), Err(FileError::Params(_))),
            "{path:?}"
        );
    }
    assert_eq!(
        files.read(Path::new("/workspace/good")).as_deref(),
        Ok("ok")
    );
    assert_eq!(
        std::fs::read(outside.path().join("secret")).expect("read"),
        b"x"
    );
    assert!(!outside.path().join("new").exists());
}

/// The agent can create any link. What it points to outside does not change the error.
#[test]
fn errors_do_not_reveal_what_exists_outside() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let dir = tempfile::tempdir().expect("a directory");
    let outside = tempfile::tempdir().expect("a directory");
    let at = |name: &str| outside.path().join(name);
    std::fs::write(at("file"), "x").expect("written");
    std::fs::create_dir(at("dir")).expect("made");
    std::fs::create_dir(at("closed")).expect("made");
    std::fs::set_permissions(at("closed"), std::fs::Permissions::from_mode(0o0)).expect("closed");
    symlink("loop", at("loop")).expect("linked");
    std::os::unix::net::UnixListener::bind(at("socket")).expect("bound");
    let up = "../".repeat(dir.path().components().count() + 3);
    let guarded = Guarded::default();
    let files = files(dir.path(), &guarded);
    let mut errors = std::collections::BTreeSet::new();
    for (number, target) in [
        "missing",
        "file",
        "file/x",
        "dir",
        "dir/x",
        "missing/x",
        "closed/x",
        "loop",
        "socket",
    ]
    .into_iter()
    .enumerate()
    {
        let absolute = at(target);
        let relative = format!("{up}{}", absolute.display());
        for (kind, to) in [("a", absolute), ("r", relative.into())] {
            let name = format!("{kind}{number}");
            symlink(to, dir.path().join(&name)).expect("linked");
            symlink(&name, dir.path().join(format!("{name}-again"))).expect("linked");
            for path in [
                name.clone(),
                format!("{name}/below"),
                format!("{name}-again"),
            ] {
                let path = Path::new("/workspace").join(path);
                errors.insert(format!("{:?}", files.read(&path)));
                errors.insert(format!("{:?}", files.write(&path, b"x", || Ok(()))));
            }
        }
    }
    for (path, exists) in [("/etc/passwd", true), ("/etc/passwd-none", false)] {
        assert_eq!(Path::new(path).exists(), exists);
        let direct = files.read(Path::new(path));
        let what = "the path is outside the session's working directory";
        assert_eq!(direct, Err(invalid_params(what)));
    }
    let wanted = format!("{:?}", Err::<(), _>(link_error()));
    assert_eq!(errors.into_iter().collect::<Vec<_>>(), [wanted]);
    assert!(!at("missing").exists() && !at("dir/x").exists());
}

#[test]
fn links_inside_the_directory_work() {
    use std::os::unix::fs::symlink;
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::create_dir_all(dir.path().join("d/e")).expect("made");
    std::fs::write(dir.path().join("d/file"), "x").expect("written");
    let link = |to: &Path, name: &str| symlink(to, dir.path().join(name)).expect("linked");
    let real = dir.path().canonicalize().expect("there");
    link(Path::new("d"), "relative");
    link(&real.join("d/file"), "absolute");
    link(Path::new("../../d/./file"), "d/e/back");
    link(Path::new("d/none"), "dangling");
    link(Path::new("round"), "round");
    let guarded = Guarded::default();
    let files = files(dir.path(), &guarded);
    for path in ["relative/file", "absolute", "d/e/back", "relative/e/back"] {
        let path = Path::new("/workspace").join(path);
        assert_eq!(files.read(&path).as_deref(), Ok("x"), "{path:?}");
    }
    let read = |path: &str| files.read(&Path::new("/workspace").join(path));
    assert_eq!(read("none"), Err(FileError::Missing));
    assert_eq!(read("relative/none"), Err(FileError::Missing));
    assert_eq!(read("dangling"), Err(FileError::Missing));
    assert_eq!(read("round"), Err(link_error()));
    assert_eq!(
        files.write(Path::new("/workspace/dangling"), b"new", || Ok(())),
        Ok(())
    );
    assert_eq!(
        std::fs::read(dir.path().join("d/none")).expect("there"),
        b"new"
    );
}

/// A policy with writable directories of the host, each at a path inside.
fn policy(grants: &[(&Path, &str)]) -> Policy {
    let grant = |(source, at): &(&Path, &str)| agentproto_sandbox::policy::PathGrant {
        source: source.to_path_buf(),
        at: at.into(),
        access: Access::Write,
        exec: false,
        create: None,
        clause: None,
    };
    Policy {
        spec: agentproto_sandbox::policy::SandboxSpec::Aip29,
        egress: Vec::new(),
        ingress: Vec::new(),
        grants: grants.iter().map(grant).collect(),
        links: Vec::new(),
        create: Vec::new(),
        denials: Vec::new(),
        protected: Vec::new(),
        ineffective: Vec::new(),
        exec: agentproto_sandbox::policy::Exec::Visible,
        env: Vec::new(),
        env_clauses: Vec::new(),
        tty: None,
        limits: Vec::new(),
        private_size: 0,
        cwd: "/workspace".into(),
        home: "/home".into(),
        unenforceable: Vec::new(),
        notes: Vec::new(),
    }
}

/// The directory of a grant can be in a directory that the agent can change.
#[test]
fn a_link_on_the_way_to_a_grant_is_not_followed() {
    use std::os::unix::fs::symlink;
    for (moved, grant) in [("cache", "cache"), ("a", "a/b")] {
        for target in ["victim", "missing"] {
            let dir = tempfile::tempdir().expect("a directory");
            let real = dir.path().canonicalize().expect("there");
            let (work, victim) = (real.join("work"), real.join("victim"));
            std::fs::create_dir_all(work.join(grant)).expect("made");
            std::fs::create_dir_all(victim.join("b")).expect("made");
            for key in ["key", "b/key"] {
                std::fs::write(victim.join(key), "of the victim").expect("written");
            }
            std::fs::write(work.join(grant).join("own"), "own").expect("written");
            let at = format!("/workspace/{grant}");
            let source = work.join(grant);
            let policy = policy(&[(&work, "/workspace"), (&source, &at)]);
            let guarded = Guarded::from_policy(&policy);
            let files = Files {
                policy: Some(&policy),
                ..files(&work, &guarded)
            };
            let path = |name: &str| Path::new(&at).join(name);
            assert_eq!(files.read(&path("own")).as_deref(), Ok("own"));
            std::fs::rename(work.join(moved), work.join("old")).expect("renamed");
            symlink(real.join(target), work.join(moved)).expect("linked");
            // The error is the same whether the target exists or not.
            assert_eq!(files.read(&path("key")), Err(link_error()));
            let written = files.write(&path("new"), b"x", || Ok(()));
            assert_eq!(written, Err(link_error()));
            assert!(!victim.join("new").exists() && !victim.join("b/new").exists());
            // What the agent moved is still its own.
            let own = Path::new("/workspace/old")
                .join(Path::new(grant).strip_prefix(moved).expect("below"))
                .join("own");
            assert_eq!(files.read(&own).as_deref(), Ok("own"));
        }
    }
}

#[test]
fn a_denied_file_stays_denied_after_a_rename() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(dir.path().join("sub")).expect("made");
    std::fs::write(dir.path().join("sub/.env"), "x").expect("written");
    let identity = |name: &str| {
        let meta = std::fs::metadata(dir.path().join(name)).expect("there");
        (meta.dev(), meta.ino())
    };
    let guarded = Guarded {
        hidden: [identity("sub/.env")].into(),
        read_only: [identity("sub")].into(),
    };
    std::fs::rename(dir.path().join("sub"), dir.path().join("other")).expect("renamed");
    let files = files(dir.path(), &guarded);
    let denied = files.read(Path::new("/workspace/other/.env"));
    assert_eq!(denied, Err(invalid_params("the sandbox denies access")));
    let written = files.write(Path::new("/workspace/other/new"), b"x", || Ok(()));
    assert_eq!(
        written,
        Err(invalid_params("the sandbox allows only reading"))
    );
}
