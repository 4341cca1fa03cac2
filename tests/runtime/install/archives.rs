//! Malicious archives.

use std::fs;
use std::io::{Cursor, Write};
use std::path::Path;

use agentproto_runtime::install::archive::{self, ArchiveContent, ArchiveLimits};
use tar::{EntryType, Header};

pub fn tar_of(files: &[(&str, &str)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, text) in files {
        let mut header = Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o4755);
        builder
            .append_data(&mut header, name, text.as_bytes())
            .expect("added");
    }
    builder.into_inner().expect("whole")
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(bytes).expect("packed");
    gz.finish().expect("packed")
}

pub fn tar_gz(files: &[(&str, &str)]) -> Vec<u8> {
    gzip(&tar_of(files))
}

pub fn zip_of(files: &[(&str, &str)]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().unix_permissions(0o755);
    for (name, text) in files {
        zip.start_file(*name, options).expect("added");
        zip.write_all(text.as_bytes()).expect("written");
    }
    zip.finish().expect("whole").into_inner()
}

/// One entry that no library would write.
fn raw(name: &str, kind: EntryType, link: &str, size: u64, data: &[u8]) -> Vec<u8> {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(0o777);
    let old = header.as_old_mut();
    old.name[..name.len()].copy_from_slice(name.as_bytes());
    old.linkname[..link.len()].copy_from_slice(link.as_bytes());
    header.set_cksum();
    let mut out = header.as_bytes().to_vec();
    out.extend_from_slice(data);
    out.resize(out.len().div_ceil(512) * 512, 0);
    out
}

fn ended(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut out = entries.concat();
    out.resize(out.len() + 1024, 0);
    out
}

fn file(name: &str, text: &str) -> Vec<u8> {
    raw(
        name,
        EntryType::Regular,
        "",
        text.len() as u64,
        text.as_bytes(),
    )
}

fn link(name: &str, to: &str) -> Vec<u8> {
    raw(name, EntryType::Symlink, to, 0, b"")
}

pub fn traversing_tar() -> Vec<u8> {
    gzip(&ended(&[file("demo-tool", "x"), file("../../evil", "x")]))
}

pub fn linking_tar(name: &str, to: &str) -> Vec<u8> {
    gzip(&ended(&[link(name, to)]))
}

fn unpack_with(
    bytes: &[u8],
    limits: ArchiveLimits,
) -> (tempfile::TempDir, Result<ArchiveContent, String>) {
    let dir = tempfile::tempdir().expect("a directory");
    let packed = dir.path().join("packed");
    fs::write(&packed, bytes).expect("written");
    let inner = dir.path().join("a/b/c");
    fs::create_dir_all(inner.parent().expect("one")).expect("made");
    let result = archive::unpack(&packed, &inner, &dir.path().join("alone"), limits);
    (dir, result)
}

fn unpack(bytes: &[u8]) -> (tempfile::TempDir, Result<ArchiveContent, String>) {
    unpack_with(bytes, ArchiveLimits::default())
}

/// Everything below the directory that is outside the unpacked archive.
fn escaped(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for level in [dir.to_owned(), dir.join("a"), dir.join("a/b")] {
        for entry in fs::read_dir(level).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if !["packed", "a", "b", "c", "alone"].contains(&name.as_str()) {
                found.push(name);
            }
        }
    }
    found
}

#[test]
fn nothing_is_unpacked_outside_the_directory() {
    let cases = [
        ("climbs", ended(&[file("../evil", "x")])),
        ("climbs inside", ended(&[file("d/../../evil", "x")])),
        ("absolute", ended(&[file("/evil-of-the-archive", "x")])),
        ("link up", ended(&[link("l", "../..")])),
        ("absolute link", ended(&[link("l", "/etc")])),
        (
            "through a link",
            ended(&[link("l", ".."), file("l/evil", "x")]),
        ),
        (
            "through a link of links",
            ended(&[
                raw("s/", EntryType::Directory, "", 0, b""),
                link("s/d", ".."),
                link("x", "s/d/../.."),
            ]),
        ),
        (
            "a link through a link",
            ended(&[link("l", "../.."), link("l/evil/deep/x", "y")]),
        ),
        (
            "a link through a link in a directory",
            ended(&[link("d/l", "../../.."), link("d/l/evil/x", "y")]),
        ),
        (
            "a link through two links",
            ended(&[link("a", ".."), link("b", "a/.."), link("b/evil/x", "y")]),
        ),
        (
            "a link through a link that stays inside",
            ended(&[file("d/a", "x"), link("l", "d"), link("l/e/x", "y")]),
        ),
        (
            "a link that leaves and returns",
            ended(&[file("d", "x"), link("l", "../c/d")]),
        ),
        (
            "hard link through a link",
            ended(&[
                file("a", "x"),
                link("l", ".."),
                raw("l/evil/h", EntryType::Link, "a", 0, b""),
            ]),
        ),
        (
            "hard link over a link",
            ended(&[
                file("a", "x"),
                link("h", "../evil"),
                raw("h", EntryType::Link, "a", 0, b""),
            ]),
        ),
        (
            "link over a file",
            ended(&[file("a", "x"), link("a", "../evil"), file("a", "y")]),
        ),
        (
            "link over a link",
            ended(&[link("a", "b"), link("a", "../evil")]),
        ),
        (
            "hard link out",
            ended(&[raw("h", EntryType::Link, "../../../packed", 0, b"")]),
        ),
        (
            "hard link to nothing",
            ended(&[raw("h", EntryType::Link, "nothing", 0, b"")]),
        ),
        ("device", ended(&[raw("dev", EntryType::Char, "", 0, b"")])),
        ("pipe", ended(&[raw("pipe", EntryType::Fifo, "", 0, b"")])),
        (
            "file over a directory",
            ended(&[file("d/a", "x"), file("d", "x")]),
        ),
        (
            "link over a directory",
            ended(&[file("d/a", "x"), link("d", ".")]),
        ),
    ];
    for (name, bytes) in cases {
        for packed in [bytes.clone(), gzip(&bytes)] {
            let (dir, result) = unpack(&packed);
            assert!(result.is_err(), "{name} was unpacked");
            assert_eq!(escaped(dir.path()), [""; 0], "{name}");
        }
    }
    for name in ["../evil", "/evil-of-the-archive", "a/../../evil"] {
        let (dir, result) = unpack(&zip_of(&[(name, "x")]));
        assert!(result.is_err(), "{name} was unpacked");
        assert_eq!(escaped(dir.path()), [""; 0], "{name}");
    }
    assert!(!Path::new("/evil-of-the-archive").exists());
}

#[test]
fn a_zip_with_an_escaping_symlink_is_refused() {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default();
    zip.add_symlink("l", "../../..", options).expect("added");
    let bytes = zip.finish().expect("whole").into_inner();
    let (_dir, result) = unpack(&bytes);
    assert!(result.expect_err("refused").contains("outside the archive"));
}

#[test]
fn entries_inside_the_directory_are_unpacked() {
    let long = format!("{}/file", "long/".repeat(40));
    let mut builder = tar::Builder::new(ended(&[])[..0].to_vec());
    let mut header = Header::new_gnu();
    header.set_size(1);
    header.set_mode(0o644);
    builder
        .append_data(&mut header, &long, &b"x"[..])
        .expect("added");
    let named = builder.into_inner().expect("whole");
    let bytes = ended(&[
        named[..named.len() - 1024].to_vec(),
        raw("d/", EntryType::Directory, "", 0, b""),
        file("d/tool", "old"),
        file("d/tool", "new"),
        link("bin", "d/tool"),
        link("d/e/back", "../../d/./tool"),
        link("nowhere", "gone"),
        raw("h", EntryType::Link, "d/tool", 0, b""),
    ]);
    let (dir, result) = unpack(&bytes);
    assert_eq!(result, Ok(ArchiveContent::Tree));
    let root = dir.path().join("a/b/c");
    let text = |name: &str| fs::read_to_string(root.join(name)).expect(name);
    assert_eq!(text(&long), "x");
    assert_eq!(
        [text("d/tool"), text("bin"), text("h")],
        ["new", "new", "new"]
    );
    assert_eq!(text("d/e/back"), "new");
    assert!(fs::symlink_metadata(root.join("nowhere")).is_err());
    assert_eq!(archive::program(&root, "bin"), Ok(root.join("bin")));
    assert!(archive::program(&root, "d").is_err());
    assert!(archive::program(&root, "../../../packed").is_err());

    // Set-user-id bits are not restored from an archive.
    let (dir, result) = unpack(&tar_gz(&[("tool", "x")]));
    assert_eq!(result, Ok(ArchiveContent::Tree));
    use std::os::unix::fs::PermissionsExt;
    let tool = fs::metadata(dir.path().join("a/b/c/tool")).expect("there");
    assert_eq!(tool.permissions().mode() & 0o7777, 0o755);
}

#[test]
fn archive_bombs_are_refused() {
    let small = ArchiveLimits {
        bytes: 64 << 10,
        entries: 10,
    };
    let zeros = "\0".repeat(1 << 20);
    let many: Vec<(String, &str)> = (0..20).map(|n| (format!("f{n}"), "")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(n, t)| (n.as_str(), *t)).collect();
    let mut xz = lzma_rust2::XzWriter::new(Vec::new(), lzma_rust2::XzOptions::with_preset(1))
        .expect("a writer");
    xz.write_all(&tar_of(&[("big", &zeros)])).expect("packed");
    let cases = [
        ("tar.gz", tar_gz(&[("big", &zeros)])),
        ("tar.xz", xz.finish().expect("packed")),
        ("zip", zip_of(&[("big", &zeros)])),
        ("many in tar", tar_gz(&many)),
        ("many in zip", zip_of(&many)),
        ("one file", gzip(zeros.as_bytes())),
        // The header claims a large size that the file does not have.
        (
            "claim",
            ended(&[raw("big", EntryType::Regular, "", 1 << 32, b"")]),
        ),
        (
            "long name",
            ended(&[raw(
                "././@LongLink",
                EntryType::GNULongName,
                "",
                40 << 10,
                &vec![b'a'; 40 << 10],
            )]),
        ),
        (
            "sparse",
            ended(&[raw("big", EntryType::GNUSparse, "", 1 << 32, b"")]),
        ),
    ];
    for (name, bytes) in cases {
        let (dir, result) = unpack_with(&bytes, small);
        assert!(result.is_err(), "{name} was unpacked");
        let written = fs::metadata(dir.path().join("a/b/c/big")).map_or(0, |m| m.len());
        assert!(written <= small.bytes, "{name} wrote {written}");
    }
}

#[test]
fn invalid_archives_are_errors() {
    let good = tar_gz(&[("tool", "text of the tool")]);
    let zip = zip_of(&[("tool", "text of the tool")]);
    for bytes in [&good, &zip] {
        for cut in (0..bytes.len()).step_by(7) {
            let _ = unpack(&bytes[..cut]);
            let mut changed = bytes.clone();
            changed[cut] ^= 0x55;
            let _ = unpack(&changed);
        }
    }
    for bytes in [
        &b"BZh9"[..],
        b"\x28\xb5\x2f\xfd",
        b"\xfd7zXZ\0",
        b"PK\x05\x06",
        b"",
    ] {
        assert!(unpack(bytes).1.is_err(), "{bytes:?}");
    }
}
