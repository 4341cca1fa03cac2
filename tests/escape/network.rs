//! `network`: without egress, the host's network is not reachable through any address family.

use crate::matrix::Control::{Escapes, Kernel, Root, RootAndKernel};
use crate::matrix::{Case, run, twin, wall};
use crate::policies::{listed, visible};

const NET: &str = "A29-SBX-02 A29-SEC-04";

fn cases() -> Vec<Case> {
    vec![
        wall("tcp", "{tcp}", NET, Escapes),
        wall("tcp", "{tcp6}", NET, Kernel),
        wall("udp", "{udp}", NET, Escapes),
        wall("dns", "{udp}", NET, Escapes),
        // The control needs a network on the host.
        wall("route", "192.0.2.1:53", NET, Kernel),
        wall("route", "[2001:db8::1]:53", NET, Kernel),
        wall("raw", "", NET, Root),
        wall("raw6", "", NET, RootAndKernel),
        wall("packet", "", NET, RootAndKernel),
        wall("vsock", "", NET, Kernel),
        wall("alg", "", NET, Kernel),
        // Sockets of other processes, device events, audit, generic netlink.
        wall("netlink", "4", NET, Kernel),
        wall("netlink", "15", NET, Kernel),
        wall("netlink", "9", NET, Kernel),
        wall("netlink", "16", NET, Kernel),
        wall("unix", "{sockets}/stream", NET, Escapes),
        wall("abstract", "{abstract}", NET, Escapes),
        wall("unix_datagram", "{sockets}/datagram", NET, Escapes),
        wall("unix_datagram_of_pair", "{sockets}/datagram", NET, Escapes),
        wall(
            "unix_stream_of_pair",
            "{sockets}/stream",
            NET,
            crate::matrix::Control::None("no kernel allows a connected stream to connect again"),
        ),
        twin("local", "", "A29-SBX-02"),
        twin("pair", "", "A29-SBX-02"),
        // Listing network interfaces is allowed: it shows only those of the sandbox.
        twin("netlink", "0", "A29-SBX-02"),
    ]
}

#[tokio::test]
async fn listed_network() {
    agentproto_suites::proves!("A29-PRIN-02", "A29-SBX-02", "A29-SEC-04");
    run("network/29", listed, &cases()).await;
}

#[tokio::test]
async fn visible_network() {
    run("network/36", visible, &cases()).await;
}
