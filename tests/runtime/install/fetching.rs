//! Installers and archives from the network.

use std::io::Write;

use crate::install::archives::{tar_gz, zip_of};
use crate::install::support::{Answer, Server, World, sha256};

const PROGRAM: &str = "#!/bin/sh\necho demo-tool 1.0.0\n";
/// An installer that installs the program the usual way and records where it ran.
const INSTALLER: &str = "#!/bin/sh -e
mkdir -p \"$HOME/.local/bin\"
echo \"home=$HOME prefix=$PREFIX\"
echo '#!/bin/sh\necho demo-tool 1.0.0' > \"$HOME/.local/bin/demo-tool\"
chmod +x \"$HOME/.local/bin/demo-tool\"
";

fn curl(url: &str, digest: Option<&str>) -> String {
    let digest = digest.map(|d| format!(", verify_sha256: '{d}'"));
    format!(
        "  - {{ method: curl, url: '{url}'{} }}",
        digest.unwrap_or_default()
    )
}

fn download(url: &str, bin: &str, digest: &str) -> String {
    format!(
        "  - {{ method: download, url: '{url}', extract_bin: '{bin}', verify_sha256: '{digest}' }}"
    )
}

/// A29-INSTALL-12, A29-INSTALL-17, A29-SEC-02.
#[test]
fn a_verified_installer_runs_in_its_own_home() {
    let (world, server) = (World::new(), Server::new());
    let url = server.at("/i.sh", Answer::ok(INSTALLER));
    world.manifest(&curl(&url, Some(&sha256(INSTALLER.as_bytes()))));
    let ran = world.install(&["--yes"]);
    assert!(
        ran.works().stdout.contains("1.0.0 (installed by curl)"),
        "{}",
        ran.stdout
    );
    let tools = world.home().join("tools");
    assert!(
        ran.stderr.contains(&format!("home={}", tools.display())),
        "{}",
        ran.stderr
    );
    assert_eq!(
        std::fs::read_dir(world.root().join("user"))
            .expect("there")
            .count(),
        0
    );
    // Neither the installer nor its temporary files remain.
    let left = world.tools();
    assert!(left.iter().all(|p| !p.ends_with("installer")), "{left:?}");
    world.install(&[]).works();
    assert_eq!(server.asked().len(), 1);
}

/// A29-INSTALL-18.
#[test]
fn an_unverified_installer_is_declined_unless_allowed() {
    agentproto_suites::proves!("A29-INSTALL-18");
    let (world, server) = (World::new(), Server::new());
    let url = server.at("/i.sh", Answer::ok(INSTALLER));
    world.manifest(&curl(&url, None));
    let declined = world.install(&["--yes"]);
    declined.fails(69, "install_failed", "--allow-unverified");
    assert!(server.asked().is_empty());
    let allowed = world.install(&["--yes", "--allow-unverified"]);
    assert!(
        allowed.works().stderr.contains("install_unverified"),
        "{}",
        allowed.stderr
    );
    assert_eq!(world.audit()[0]["data"]["verified"], false);
}

#[test]
fn with_a_wrong_digest_nothing_runs_and_nothing_is_left() {
    agentproto_suites::proves!("A29-PRIN-03", "A29-INSTALL-17", "A29-SEC-02");
    let (world, server) = (World::new(), Server::new());
    world.manager("npm");
    let evil = format!("#!/bin/sh\necho x > {}/pwned\n", world.root().display());
    let url = server.at("/i.sh", Answer::ok(evil));
    let other = sha256(b"something else");
    // After a file with a wrong digest, no other method is tried.
    let next = "\n  - { method: npm, package: tool }";
    for entry in [
        curl(&url, Some(&other)),
        download(&url, "demo-tool", &other),
    ] {
        world.manifest(&format!("{entry}{next}"));
        let ran = world.install(&["--yes", "--allow-unverified"]);
        ran.fails(65, "sha256_mismatch", &other);
        assert!(!world.root().join("pwned").exists());
        assert!(world.tools().is_empty(), "{:?}", world.tools());
        assert!(world.calls().is_empty());
    }
    // An invalid digest is not treated as a missing one.
    world.manifest(&curl(&url, Some("abc123")));
    world.install(&["--yes", "--allow-unverified"]).fails(
        65,
        "manifest_invalid",
        "install-sha256-",
    );
    world
        .install(&["--yes", "--allow-unverified", "--allow-invalid"])
        .fails(69, "install_failed", "64 hex digits");
    assert!(!world.root().join("pwned").exists());
}

#[test]
fn misbehaving_servers_are_reported() {
    let (world, server) = (World::new(), Server::new());
    let short = Answer {
        claims: Some(1 << 20),
        ..Answer::ok(INSTALLER)
    };
    let huge = Answer {
        claims: Some(1 << 40),
        ..Answer::ok(INSTALLER)
    };
    server.at("/short", short);
    server.at("/huge", huge);
    server.at("/loop", Answer::redirect("/loop"));
    server.at("/away", Answer::redirect("http://example.com/i.sh"));
    server.at("/file", Answer::redirect("file:///etc/passwd"));
    server.at("/user", Answer::redirect("https://a:b@example.com/"));
    let nowhere = Answer {
        status: 302,
        ..Answer::default()
    };
    server.at("/nowhere", nowhere);
    server.at("/page", Answer::ok("<html>sign in</html>"));
    server.at("/python", Answer::ok("#!/usr/bin/python3\nprint(1)\n"));
    for (path, part) in [
        ("/short", "/short"),
        ("/huge", "larger than"),
        ("/loop", "redirects more than"),
        ("/away", "is not secure: use https"),
        ("/file", "unsupported scheme `file:`"),
        ("/user", "a user name or password"),
        ("/nowhere", "without a valid `Location`"),
        ("/missing", "404"),
        ("/page", "web page"),
        ("/python", "python3"),
    ] {
        world.manifest(&curl(&server.url(path), None));
        let ran = world.install(&["--yes", "--allow-unverified"]);
        ran.fails(69, "install_failed", part);
        assert!(world.tools().is_empty(), "{path}: {:?}", world.tools());
    }
    assert!(server.asked().iter().filter(|p| *p == "/loop").count() <= 11);
    // No server listens on this port.
    let gone = {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        listener.local_addr().expect("bound").port()
    };
    world.manifest(&curl(&format!("http://127.0.0.1:{gone}/x"), None));
    world
        .install(&["--yes", "--allow-unverified"])
        .fails(69, "install_failed", "cannot fetch");
    for url in ["http://example.com/x", "ftp://example.com/x", "no url"] {
        world.manifest(&curl(url, None));
        world
            .install(&["--yes", "--allow-unverified", "--allow-invalid"])
            .fails(69, "install_failed", "skipped");
    }
}

#[test]
fn allowed_redirects_are_followed() {
    let (world, server) = (World::new(), Server::new());
    server.at("/a", Answer::redirect("b/c"));
    server.at("/b/c", Answer::redirect("/i.sh"));
    server.at("/i.sh", Answer::ok(INSTALLER));
    world.manifest(&curl(
        &server.url("/a"),
        Some(&sha256(INSTALLER.as_bytes())),
    ));
    world.install(&["--yes"]).works();
    assert_eq!(server.asked(), ["/a", "/b/c", "/i.sh"]);
}

/// A29-INSTALL-14.
#[test]
fn the_program_is_taken_from_the_archive() {
    let files = [
        ("tool-1.0/bin/demo-tool", PROGRAM),
        ("tool-1.0/README", "read me"),
    ];
    let tar = tar_gz(&files);
    let mut xz = lzma_rust2::XzWriter::new(Vec::new(), lzma_rust2::XzOptions::with_preset(1))
        .expect("a writer");
    xz.write_all(&crate::install::archives::tar_of(&files))
        .expect("packed");
    let xz = xz.finish().expect("packed");
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(PROGRAM.as_bytes()).expect("packed");
    let gz = gz.finish().expect("packed");
    for (name, body, bin) in [
        ("/t.tar.gz", tar, "tool-1.0/bin/demo-tool"),
        ("/t.tar.xz", xz, "tool-1.0/bin/demo-tool"),
        (
            "/t.tar",
            crate::install::archives::tar_of(&files),
            "./tool-1.0/bin/demo-tool",
        ),
        ("/t.zip", zip_of(&files), "tool-1.0/bin/demo-tool"),
        ("/demo-tool", PROGRAM.as_bytes().to_vec(), "demo-tool"),
        ("/demo-tool.gz", gz, "demo-tool"),
    ] {
        let (world, server) = (World::new(), Server::new());
        let url = server.at(name, Answer::ok(body.clone()));
        world.manifest(&download(&url, bin, &sha256(&body)));
        let ran = world.install(&["--yes"]);
        assert!(
            ran.works().stdout.contains("installed by download"),
            "{name}"
        );
        world.install(&[]).works();
        assert_eq!(server.asked().len(), 1, "{name}");
    }
}

#[test]
fn an_archive_with_escaping_paths_is_refused() {
    let (world, server) = (World::new(), Server::new());
    let bodies = [
        crate::install::archives::traversing_tar(),
        zip_of(&[("demo-tool", PROGRAM), ("../../evil", "x")]),
        crate::install::archives::linking_tar("demo-tool", "/bin/sh"),
        tar_gz(&[("other", PROGRAM)]),
        b"\x1f\x8bgarbage".to_vec(),
        b"PK\x03\x04garbage".to_vec(),
        b"\n<!doctype html>".to_vec(),
        Vec::new(),
    ];
    for (number, body) in bodies.into_iter().enumerate() {
        let url = server.at(&format!("/{number}"), Answer::ok(body.clone()));
        world.manifest(&download(&url, "demo-tool", &sha256(&body)));
        world
            .install(&["--yes"])
            .fails(69, "install_failed", "archive");
        assert!(world.tools().is_empty(), "{number}: {:?}", world.tools());
    }
    let tar = tar_gz(&[("demo-tool", PROGRAM)]);
    let url = server.at("/good", Answer::ok(tar.clone()));
    for bin in ["../demo-tool", "/bin/sh", "."] {
        world.manifest(&download(&url, bin, &sha256(&tar)));
        world
            .install(&["--yes"])
            .fails(69, "install_failed", "archive");
    }
}

/// The whole installation is visible in the sandbox, not only the binary.
#[test]
fn a_program_sees_the_files_of_its_installation() {
    let (world, server) = (World::new(), Server::new());
    let tool = "#!/bin/sh\nwhile read -r line; do echo \"demo-tool $line\"; done < \"${0%/*}/../archive/t/share/version\"\n";
    let tar = tar_gz(&[("t/bin/demo-tool", tool), ("t/share/version", "1.7.0\n")]);
    let url = server.at("/t.tgz", Answer::ok(tar.clone()));
    world.manifest(&download(&url, "t/bin/demo-tool", &sha256(&tar)));
    let ran = world.install(&["--yes"]);
    assert!(ran.works().stdout.contains("1.7.0"), "{}", ran.stdout);
}
