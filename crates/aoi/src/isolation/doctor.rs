//! What the engine can check on this machine, for `doctor`.

use std::fs::File;
use std::os::fd::AsRawFd;

use super::{Isolation, IsolationNeeds, establish};
use agentproto_sandbox::helper::sys;
use agentproto_sandbox::probe::{Availability, Feature};
use agentproto_sandbox::run_directory::RunDirectory;
use agentproto_sandbox::spawn::PseudoTerminal;

/// Tests each feature that the checks need, and returns one line per feature.
pub async fn lines() -> Vec<Feature> {
    let isolation = match RunDirectory::new("aoi") {
        Ok(dir) => establish(&IsolationNeeds::default(), dir.path()).await,
        Err(_) => Isolation::default(),
    };
    vec![
        isolation_line("network isolation", &isolation.no_network_isolation),
        isolation_line("hiding credentials", &isolation.no_credential_isolation),
        isolation_line("hiding unix sockets", &isolation.no_socket_isolation),
        Feature::new("terminals", &terminal()),
        Feature::new("/dev/full", &full()),
        Feature::new("pipe size", &small_pipe()),
    ]
}

fn isolation_line(item: &'static str, missing: &Option<String>) -> Feature {
    let finding = match missing {
        None => Availability::available("available, tested with a child process"),
        Some(why) => Availability::missing(
            format!("{why}; checks that need it are `not_verified`"),
            "see the missing features above",
        ),
    };
    Feature::new(item, &finding)
}

fn terminal() -> Availability {
    match PseudoTerminal::open(24, 80) {
        Ok(_) => Availability::available("can be created"),
        Err(error) => Availability::missing(
            format!("cannot be created: {error}"),
            "mount /dev/pts; without it, probes with a terminal are left out",
        ),
    }
}

fn full() -> Availability {
    let opened = File::options().write(true).open("/dev/full");
    match opened {
        Ok(_) => Availability::available("available"),
        Err(error) => Availability::missing(
            error.to_string(),
            "create the device; without it, `aoi-lint` does not check whether a full disk is \
             noticed",
        ),
    }
}

fn small_pipe() -> Availability {
    const SMALL: libc::c_int = 4096;
    let pipe_size = sys::pipe().map(|(_, end)| {
        // SAFETY: takes an open descriptor and integers only.
        unsafe { libc::fcntl(end.as_raw_fd(), libc::F_SETPIPE_SZ, SMALL) }
    });
    match pipe_size {
        Ok(size) if size >= 0 => Availability::available(format!("can be set to {size} bytes")),
        _ => Availability::missing(
            "the size of pipes cannot be reduced",
            "use Linux; without small pipes, checks with slow readers and closed pipes may be \
             inconclusive",
        ),
    }
}
