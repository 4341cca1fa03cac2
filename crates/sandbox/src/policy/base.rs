//! What every child sees although no manifest declares it: programs need it to run, and it contains
//! no secrets.

use std::path::Path;

use super::draft::{Draft, Role};

/// The visible files of `/etc`. Never shadow, sudoers, private keys or anything else.
const ETC: [&str; 38] = [
    "alternatives",
    "bash.bashrc",
    "bindresvport.blacklist",
    "ca-certificates",
    "ca-certificates.conf",
    "debian_version",
    "ethertypes",
    "fonts",
    "gai.conf",
    "gitconfig",
    "group",
    "host.conf",
    "hosts",
    "inputrc",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "locale.conf",
    "localtime",
    "magic",
    "mailcap",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "pki/ca-trust",
    "pki/tls/cert.pem",
    "pki/tls/certs",
    "profile",
    "protocols",
    "resolv.conf",
    "services",
    "shells",
    "ssl/cert.pem",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
];

/// Directories of programs and libraries. On most machines some are links to others.
const SYSTEM: [&str; 10] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
    "/run/current-system",
];

/// Data that all kinds of programs read.
const DATA: [&str; 5] = [
    "/usr/share",
    "/usr/lib/locale",
    "/usr/lib/ssl",
    "/usr/local/share/ca-certificates",
    "/etc/timezone",
];

/// Grants files of `/etc`, shared data, and links such as `/bin` through which programs are called.
pub fn common(draft: &mut Draft) {
    for path in SYSTEM.map(Path::new) {
        if path.is_symlink() {
            // A broken link is not needed, because no program can be called through it.
            let _ = draft.followed.follow(path);
        }
    }
    for name in ETC {
        draft.provide(Role::System, &Path::new("/etc").join(name), false);
    }
    for path in DATA {
        draft.provide(Role::System, Path::new(path), false);
    }
}

/// Grants the system's directories, from which AIP-36 allows everything to run.
pub fn system(draft: &mut Draft) {
    for path in SYSTEM {
        draft.provide(Role::System, Path::new(path), true);
    }
}

/// Whether a path is in a directory of TLS certificates.
pub fn is_trust(path: &Path) -> bool {
    ["/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/usr/share"]
        .iter()
        .any(|dir| path.starts_with(dir))
}
