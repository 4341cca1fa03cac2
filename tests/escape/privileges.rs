//! The child can never have more privileges than its user, and it has fewer.

use std::os::unix::fs::PermissionsExt;

use crate::matrix::Control::{Escapes, Root};
use crate::matrix::{run, twin, wall};
use crate::policies::visible;
use crate::world::{World, is_root};

/// Creates a set-user-id program of another user, which only root can do.
fn with_setuid(world: &World) -> agentproto_sandbox::Policy {
    if is_root() {
        let program = world.path("other/unlisted");
        std::os::unix::fs::chown(&program, Some(crate::accounts::ORDINARY), None).expect("chown");
        let mode = std::fs::Permissions::from_mode(0o4755);
        std::fs::set_permissions(&program, mode).expect("chmod");
        // That user needs access to the directory to start the program.
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(world.root(), open).expect("chmod");
    }
    visible(world)
}

#[tokio::test]
async fn capabilities() {
    let case = wall("privileges", "", "A29-SEC-04", Escapes);
    run(
        "privileges",
        visible,
        &[case, twin("user", "", "A29-SEC-04")],
    )
    .await;
}

/// As root: a program of an unprivileged user. As a user: a program of root, created by the run as
/// root.
#[tokio::test]
async fn set_user_id() {
    let case = match (is_root(), std::env::var_os(crate::accounts::SETUID)) {
        (true, _) => wall("setuid", "{other}/unlisted", "A29-SEC-04", Root),
        (false, Some(_)) => wall("setuid", "{setuid}", "A29-SEC-04", Escapes),
        (false, None) => {
            println!(
                "user no control: set_user_id: only root can create such a program; run the tests as root"
            );
            return;
        }
    };
    run(
        "set-user-id",
        if is_root() {
            with_setuid
        } else {
            crate::policies::setuid
        },
        &[case],
    )
    .await;
}
