//! What the engine can prove on this machine, for `doctor`.

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
        wall("network taken away", &isolation.no_network_walls),
        wall("credentials hidden", &isolation.no_credential_walls),
        wall("unix sockets hidden", &isolation.no_socket_walls),
        Line::new("terminals", &terminal()),
        Line::new("/dev/full", &full()),
        Line::new("small pipes", &small_pipe()),
    ]
}

fn wall(item: &'static str, lacking: &Option<String>) -> Line {
    let finding = match lacking {
        None => Finding::yes("works, tried with a child of our own"),
        Some(why) => Finding::no(
            format!("{why}: what needs it is `not_verified`"),
            "see what is missing above",
        ),
    };
    Line::new(item, &finding)
}

fn terminal() -> Finding {
    match Terminal::open(24, 80) {
        Ok(_) => Finding::yes("can be made"),
        Err(error) => Finding::no(
            format!("none can be made: {error}"),
            "mount /dev/pts; probes with a terminal are left out",
        ),
    }
}

fn full() -> Finding {
    let opened = File::options().write(true).open("/dev/full");
    match opened {
        Ok(_) => Finding::yes("is there"),
        Err(error) => Finding::no(
            error.to_string(),
            "make the device; whether a full disk is noticed is not looked at",
        ),
    }
}

fn small_pipe() -> Finding {
    const SMALL: libc::c_int = 4096;
    let made = sys::pipe().map(|(_, end)| {
        // SAFETY: plain numbers.
        unsafe { libc::fcntl(end.as_raw_fd(), libc::F_SETPIPE_SZ, SMALL) }
    });
    match made {
        Ok(size) if size >= 0 => Finding::yes(format!("{size} bytes")),
        _ => Finding::no(
            "pipes cannot be made small",
            "use Linux; slow readers and early closes may prove nothing",
        ),
    }
}
