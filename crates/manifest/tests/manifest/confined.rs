//! Files below a directory, while another process replaces directories with links.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use agentproto_manifest::{ConfinedDisk, Disk, FileSource, ReadError, ReplaceError};

const ROUNDS: usize = 20_000;

/// A tree with `dir/FILE`, and the same file outside it.
fn places() -> (tempfile::TempDir, tempfile::TempDir) {
    let tree = tempfile::tempdir().expect("a directory");
    let outside = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(tree.path().join("dir")).expect("created");
    std::fs::write(tree.path().join("dir/FILE"), "inside").expect("written");
    std::fs::write(outside.path().join("FILE"), "outside").expect("written");
    (tree, outside)
}

/// Swaps `dir` and a link to `outside` until `work` ends.
fn while_swapping(tree: &Path, outside: &Path, work: impl FnOnce()) {
    let (dir, kept, link) = (tree.join("dir"), tree.join("kept"), tree.join("link"));
    symlink(outside, &link).expect("linked");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let steps = [(&dir, &kept), (&link, &dir), (&dir, &link), (&kept, &dir)];
                for (from, to) in steps {
                    std::fs::rename(from, to).expect("renamed");
                }
            }
        });
        work();
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_link_that_appears_in_the_meantime_is_not_followed() {
    let (tree, outside) = places();
    let file = tree.path().join("dir/FILE");
    let disk = ConfinedDisk::new(tree.path());
    let (mut inside, mut refused, mut control) = (0, 0, 0);
    while_swapping(tree.path(), outside.path(), || {
        // A busy machine may need more rounds until both threads met often enough.
        for round in 0.. {
            match disk.read(&file) {
                Ok(bytes) => {
                    assert_eq!(bytes, b"inside");
                    inside += 1;
                }
                Err(ReadError::LeavesTree { .. }) => refused += 1,
                Err(_) => {}
            }
            let unconfined = Disk.read(&file);
            control += usize::from(unconfined.is_ok_and(|bytes| bytes == b"outside"));
            if round >= ROUNDS && inside > 0 && refused > 0 && control > 0 {
                break;
            }
        }
    });
}

#[test]
fn nothing_is_written_through_a_link_that_appears_in_the_meantime() {
    let (tree, outside) = places();
    // The check of the old contents must not be what protects the file.
    std::fs::write(outside.path().join("FILE"), "inside").expect("written");
    let file = tree.path().join("dir/FILE");
    let disk = ConfinedDisk::new(tree.path());
    let mut written = 0;
    while_swapping(tree.path(), outside.path(), || {
        for round in 0.. {
            written += usize::from(disk.replace(&file, b"inside", b"inside").is_ok());
            let names = std::fs::read_dir(outside.path()).expect("listed").count();
            assert_eq!(names, 1, "a temporary file was created outside");
            if round >= ROUNDS / 100 && written > 0 {
                break;
            }
        }
    });
    let (tree, outside) = places();
    std::fs::write(outside.path().join("FILE"), "inside").expect("written");
    let file = tree.path().join("dir/FILE");
    let disk = ConfinedDisk::new(tree.path());
    while_swapping(tree.path(), outside.path(), || {
        for _ in 0..ROUNDS / 10 {
            if disk.replace(&file, b"inside", b"new").is_ok() {
                break;
            }
        }
    });
    let text = std::fs::read_to_string(outside.path().join("FILE"));
    assert_eq!(text.expect("readable"), "inside");
}

#[test]
fn a_file_is_replaced_with_its_mode() {
    let (tree, outside) = places();
    let file = tree.path().join("dir/FILE");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).expect("set");
    let disk = ConfinedDisk::new(tree.path());
    assert_eq!(
        disk.replace(&file, b"other", b"new"),
        Err(ReplaceError::Changed)
    );
    assert_eq!(disk.replace(&file, b"inside", b"new"), Ok(()));
    assert_eq!(std::fs::read(&file).expect("readable"), b"new");
    let mode = std::fs::metadata(&file)
        .expect("there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o640);
    let names = std::fs::read_dir(tree.path().join("dir")).expect("listed");
    assert_eq!(names.count(), 1, "no temporary file is left behind");
    // Links: the file itself, and its directory.
    let link = tree.path().join("link");
    symlink("dir/FILE", &link).expect("linked");
    assert_eq!(
        disk.replace(&link, b"new", b"newer"),
        Err(ReplaceError::Link)
    );
    symlink("dir", tree.path().join("in")).expect("linked");
    symlink(outside.path(), tree.path().join("out")).expect("linked");
    let at = |name: &str| tree.path().join(name).join("FILE");
    assert_eq!(disk.replace(&at("in"), b"new", b"newer"), Ok(()));
    let refused = disk.replace(&at("out"), b"outside", b"newer");
    assert!(matches!(
        refused,
        Err(ReplaceError::Read(ReadError::LeavesTree { .. }))
    ));
    assert_eq!(
        std::fs::read(outside.path().join("FILE")).expect("readable"),
        b"outside"
    );
}

#[test]
fn kinds_and_names_outside_are_not_revealed() {
    let (tree, outside) = places();
    symlink(outside.path(), tree.path().join("out")).expect("linked");
    symlink("dir", tree.path().join("in")).expect("linked");
    let disk = ConfinedDisk::new(tree.path());
    assert_eq!(disk.list(&tree.path().join("in")), ["FILE"]);
    assert!(disk.kind(&tree.path().join("in/FILE")).is_some());
    assert!(disk.list(&tree.path().join("out")).is_empty());
    assert!(disk.kind(&tree.path().join("out/FILE")).is_none());
    let error = |name: &str| disk.read(&tree.path().join(name)).expect_err("outside");
    // Whether a file outside exists makes no difference.
    assert_eq!(error("out/FILE"), error("out/MISSING"));
}
