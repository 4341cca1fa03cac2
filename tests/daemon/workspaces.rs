//! Links that an agent may have planted in a workspace, and nested workspaces. Each attack has a
//! harmless sibling.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::host::Host;
use super::served::command;
use agentproto_daemon::model::Principal;
use agentproto_daemon::workspaces::Workspaces;
use agentproto_daemon::{ApiError, SessionRecord, SpawnRequest};
use agentproto_runtime::home::Home;
use serde_json::json;
use tempfile::TempDir;

/// A host with a project, and a directory outside it that no agent may reach.
struct Place {
    host: Host,
    root: PathBuf,
}

impl Place {
    fn new() -> Place {
        let host = Host::new();
        let root = host.dir.path().canonicalize().expect("there");
        for dir in ["project/deep", "victim"] {
            std::fs::create_dir_all(root.join(dir)).expect("made");
        }
        Place { host, root }
    }

    fn home(&self) -> &Home {
        &self.host.registry.config().home
    }

    fn register(&self, name: &str) {
        let path = self.root.join(name);
        Workspaces::change(self.home(), |all| all.add(&path, Some("it"), None)).expect("added");
    }

    /// What the agent of an outer directory can do: it replaces a directory with a link.
    fn plant(&self, name: &str) {
        let path = self.root.join(name);
        std::fs::rename(&path, self.root.join("moved")).expect("moved");
        symlink(self.root.join("victim"), path).expect("linked");
    }

    async fn start(
        &self,
        cwd: Option<&Path>,
        slug: Option<&str>,
        principal: Principal,
    ) -> Result<SessionRecord, ApiError> {
        let request = SpawnRequest {
            adapter: "mock-acp".into(),
            cwd: cwd.map(|cwd| cwd.to_string_lossy().into_owned()),
            workspace_slug: slug.map(str::to_owned),
            ..SpawnRequest::default()
        };
        self.host.registry.spawn(request, principal).await
    }

    #[track_caller]
    fn refused(&self, started: Result<SessionRecord, ApiError>, code: &str, named: &Path) {
        let error = started.expect_err("refused");
        assert_eq!((error.status, error.code), (403, code), "{error:?}");
        assert!(
            error.message.contains(&format!("`{}`", named.display())),
            "{error:?}"
        );
        assert!(error.hint.is_some());
        assert!(
            !error
                .message
                .contains(&*self.root.join("victim").to_string_lossy()),
            "{error:?}"
        );
    }
}

// A46-SEC-06, A46-WS-05.
#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_that_became_a_link_is_refused() {
    let place = Place::new();
    place.register("project");
    let project = place.root.join("project");
    let both = [Principal::Local, Principal::Remote];
    for principal in both {
        let started = place.start(None, Some("it"), principal).await;
        assert_eq!(started.expect("started").cwd, project.to_string_lossy());
    }
    let before = place.host.registry.list(false).len();
    place.plant("project");
    for principal in both {
        let by_slug = place.start(None, Some("it"), principal).await;
        place.refused(by_slug, "cwd_link", &project);
        let active = place.start(None, None, principal).await;
        place.refused(active, "cwd_link", &project);
        let by_path = place.start(Some(&project), None, principal).await;
        place.refused(by_path, "cwd_link", &project);
    }
    let below = place
        .start(Some(&project.join("deep")), None, Principal::Remote)
        .await;
    assert!(below.is_err());
    // The place to which the link leads did not become a workspace.
    let victim = place.root.join("victim");
    let outside = place.start(Some(&victim), None, Principal::Remote).await;
    assert_eq!(outside.expect_err("refused").code, "cwd_outside_workspaces");
    assert_eq!(place.host.registry.list(false).len(), before, "no session");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_above_a_workspace_is_refused() {
    let place = Place::new();
    place.register("project/deep");
    place.plant("project");
    let project = place.root.join("project");
    std::fs::create_dir(place.root.join("victim/deep")).expect("made");
    for principal in [Principal::Local, Principal::Remote] {
        let started = place.start(None, Some("it"), principal).await;
        place.refused(started, "cwd_link", &project);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_inside_a_workspace_is_refused() {
    let place = Place::new();
    place.register("project");
    let link = place.root.join("project/out");
    symlink(place.root.join("victim"), &link).expect("linked");
    for principal in [Principal::Local, Principal::Remote] {
        let started = place.start(Some(&link), None, principal).await;
        place.refused(started, "cwd_link", &link);
    }
    let real = place.root.join("project/deep");
    for principal in [Principal::Local, Principal::Remote] {
        let started = place.start(Some(&real), None, principal).await;
        assert_eq!(started.expect("started").cwd, real.to_string_lossy());
    }
    // A link of the user, where no agent writes.
    let own = place.root.join("shortcut");
    symlink(&real, &own).expect("linked");
    let started = place.start(Some(&own), None, Principal::Local).await;
    assert_eq!(started.expect("started").cwd, real.to_string_lossy());
    // A remote caller learns nothing about paths outside.
    for path in ["shortcut", "victim", "missing", "project/../victim"] {
        let path = place.root.join(path);
        let started = place.start(Some(&path), None, Principal::Remote).await;
        let error = started.expect_err("refused");
        assert_eq!(error.code, "cwd_outside_workspaces", "{path:?}");
    }
}

// The directory of a session need not be a workspace.
#[tokio::test(flavor = "multi_thread")]
async fn a_link_in_the_directory_of_a_session_is_refused() {
    let place = Place::new();
    let project = place.root.join("project");
    let link = project.join("out");
    symlink(place.root.join("victim"), &link).expect("linked");
    let before = place.start(Some(&link), None, Principal::Local).await;
    assert!(before.is_ok(), "no agent has written there: {before:?}");
    let session = place.start(Some(&project), None, Principal::Local).await;
    let session = session.expect("started");
    let after = place.start(Some(&link), None, Principal::Local).await;
    place.refused(after, "cwd_link", &link);
    // A session is not resumed in a directory that was replaced.
    place
        .host
        .until(&session.id, |s| s.agent_session_id.is_some())
        .await;
    place.host.registry.kill(&session.id).await.expect("killed");
    let resume = || place.host.registry.resume(&session.id, Principal::Local);
    assert!(resume().await.is_ok());
    place.plant("project");
    place.refused(resume().await, "cwd_link", &project);
}

#[tokio::test(flavor = "multi_thread")]
async fn nested_workspaces_of_an_older_version_are_refused() {
    let place = Place::new();
    let [outer, inner, beside] =
        ["project", "project/deep", "work"].map(|dir| place.root.join(dir));
    let at = "2026-01-01T00:00:00.000Z";
    let entry = |slug: &str, path: &Path| json!({ "slug": slug, "path": path, "addedAt": at, "updatedAt": at });
    let file = json!({ "version": 1, "active": "beside", "workspaces": [
        entry("outer", &outer), entry("inner", &inner), entry("beside", &beside),
    ] });
    let text = file.to_string();
    place
        .home()
        .write("workspaces.json", text.as_bytes())
        .expect("written");
    for principal in [Principal::Local, Principal::Remote] {
        for slug in ["outer", "inner"] {
            let started = place.start(None, Some(slug), principal).await;
            let error = started.as_ref().expect_err("refused");
            assert!(
                error.message.contains(&*outer.to_string_lossy()),
                "{error:?}"
            );
            place.refused(started, "workspaces_nested", &inner);
        }
        let below = place.start(Some(&inner), None, principal).await;
        place.refused(below, "workspaces_nested", &inner);
        let started = place.start(None, Some("beside"), principal).await;
        assert!(started.is_ok(), "{started:?}");
    }
    Workspaces::change(place.home(), |all| all.remove("inner")).expect("removed");
    let started = place.start(None, Some("outer"), Principal::Remote).await;
    assert!(started.is_ok(), "{started:?}");
}

#[test]
fn workspaces_that_would_be_nested_are_not_added() {
    let dir = TempDir::new().expect("a directory");
    let root = dir.path().canonicalize().expect("there");
    for path in ["a/b/c", "a-b", "victim"] {
        std::fs::create_dir_all(root.join(path)).expect("made");
    }
    let add = |path: &str, slug: &str| {
        let ran = command(&root)
            .args(["workspace", "add", "--slug", slug])
            .arg(root.join(path))
            .output()
            .expect("run");
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        (ran.status.code().expect("a code"), said)
    };
    assert_eq!(add("a/b", "b"), (0, String::new()));
    for (path, relation) in [("a", "contains"), ("a/b/c", "is inside")] {
        let (code, said) = add(path, "other");
        assert_eq!(code, 64, "{said}");
        let expected = format!(
            "{relation} the workspace `b` (`{}`)",
            root.join("a/b").display()
        );
        assert!(said.contains(&expected), "{said}");
        assert!(said.contains("workspace remove b"), "{said}");
    }
    // A neighbor with a similar name, a second name for the same directory, and a move.
    assert_eq!(add("a-b", "neighbor").0, 0);
    assert_eq!(add("a/b", "alias").0, 0);
    assert_eq!(add("a-b", "alias").0, 0);
    assert_eq!(add("a/b/c", "b").0, 0, "only `b` was in the way");
    // An agent in the workspace `b` cannot choose what is added.
    symlink(root.join("victim"), root.join("a/b/c/out")).expect("linked");
    let (code, said) = add("a/b/c/out", "out");
    assert_eq!(code, 64, "{said}");
    assert!(said.contains("a/b/c/out` is a symbolic link"), "{said}");
    symlink(root.join("victim"), root.join("shortcut")).expect("linked");
    assert_eq!(add("shortcut", "out").0, 0, "a link of the user");
}
