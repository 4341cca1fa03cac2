//! What the engine can check on this machine, for `doctor`.

use std::fs::File;
use std::os::fd::AsRawFd;

use super::{Isolation, Needs, establish};
use agentproto_sandbox::helper::sys;
use agentproto_sandbox::probe::{Finding, Line};
use agentproto_sandbox::spawn::Terminal;
use agentproto_sandbox::workplace::Workplace;

pub async fn lines() -> Vec<Line> {
    let isolation = match Workplace::new("aoi") {
        Ok(place) => establish(&Needs::default(), place.path()).await,
        Err(_) => Isolation::default(),
    };
    vec![
        wall("network isolation", &isolation.no_network_walls),
        wall("credentials hidden", &isolation.no_credential_walls),
        wall("unix sockets hidden", &isolation.no_socket_walls),
        Line::new("terminals", &terminal()),
        Line::new("/dev/full", &full()),
        Line::new("small pipes", &small_pipe()),
    ]
}

fn wall(item: &'static str, lacking: &Option<String>) -> Line {
    let finding = match lacking {
        None => Finding::yes("works, tested with a child process"),
        Some(why) => Finding::no(
            format!("{why}; checks that need it are `not_verified`"),
            "see the missing features above",
        ),
    };
    Line::new(item, &finding)
}

fn terminal() -> Finding {
    match Terminal::open(24, 80) {
        Ok(_) => Finding::yes("can be created"),
        Err(error) => Finding::no(
            format!("cannot be created: {error}"),
            "mount /dev/pts; without it, probes with a terminal are left out",
        ),
    }
}

fn full() -> Finding {
    let opened = File::options().write(true).open("/dev/full");
    match opened {
        Ok(_) => Finding::yes("available"),
        Err(error) => Finding::no(
            error.to_string(),
            "create the device; without it, `aoi-lint` does not check whether a full disk is \
             noticed",
        ),
    }
}

fn small_pipe() -> Finding {
    const SMALL: libc::c_int = 4096;
    let made = sys::pipe().map(|(_, end)| {
        // SAFETY: takes an open descriptor and integers only.
        unsafe { libc::fcntl(end.as_raw_fd(), libc::F_SETPIPE_SZ, SMALL) }
    });
    match made {
        Ok(size) if size >= 0 => Finding::yes(format!("{size} bytes")),
        _ => Finding::no(
            "the size of pipes cannot be reduced",
            "use Linux; without small pipes, checks with slow readers and closed pipes may be \
             inconclusive",
        ),
    }
}
