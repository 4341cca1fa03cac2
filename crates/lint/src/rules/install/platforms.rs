//! Operating systems that an install method supports, and absolute paths.

use agentproto_manifest::Node;

pub const OPERATING_SYSTEMS: [&str; 3] = ["darwin", "linux", "windows"];

/// Whether a method may work on an operating system. True if this cannot be determined.
pub fn supports_os(method: &Node, os: &str) -> bool {
    match method.str_at(&["method"]) {
        Some("brew") => os != "windows",
        Some("apt" | "dnf" | "pacman") => os == "linux",
        Some("choco" | "scoop") => os == "windows",
        Some("curl") => {
            // The script is for a Unix shell, unless it is named as a PowerShell script.
            let url = method.str_at(&["url"]).unwrap_or("");
            (os == "windows") == url.ends_with(".ps1")
        }
        Some("download") => {
            let named = ["url", "extract_bin"]
                .iter()
                .filter_map(|key| method.str_at(&[key]))
                .find_map(os_in_name);
            named.is_none_or(|named| named == os)
        }
        _ => true,
    }
}

/// The operating system that a file name contains, such as `tool-3.1-linux-x64.tar.gz`.
fn os_in_name(text: &str) -> Option<&'static str> {
    // Only the last part of a URL counts: `https://linux.example/tool.zip` names no system.
    let name = text.rsplit('/').next().unwrap_or(text).to_ascii_lowercase();
    let words: Vec<&str> = name
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let mut found = None;
    for word in words {
        let os = match word {
            "linux" | "musl" | "gnu" | "deb" | "rpm" | "appimage" => "linux",
            "darwin" | "macos" | "osx" | "apple" | "mac" | "dmg" => "darwin",
            "windows" | "win" | "win32" | "win64" | "exe" | "msi" => "windows",
            _ => continue,
        };
        // Contradictory names (`universal-linux-darwin`) are inconclusive.
        if found.is_some_and(|before| before != os) {
            return None;
        }
        found = Some(os);
    }
    found
}

/// Whether a path is absolute on any system: `/x`, `~/x`, `\x`, `C:\x`, `C:/x`.
pub fn is_absolute(path: &str) -> bool {
    let mut chars = path.chars();
    match (chars.next(), chars.next(), chars.next()) {
        (Some('/' | '\\' | '~'), _, _) => true,
        (Some(drive), Some(':'), Some('/' | '\\')) => drive.is_ascii_alphabetic(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operating_systems_are_found_in_file_names() {
        assert_eq!(
            os_in_name("https://x.example/v1/t-linux-x64.tar.gz"),
            Some("linux")
        );
        assert_eq!(
            os_in_name("https://x.example/t-aarch64-apple-darwin.zip"),
            Some("darwin")
        );
        assert_eq!(os_in_name("t.exe"), Some("windows"));
        assert_eq!(os_in_name("https://linux.example/t.zip"), None);
        assert_eq!(os_in_name("t-pc-windows-gnu.zip"), None);
        assert_eq!(os_in_name("darwinia-1.0.tar.gz"), None);
    }

    #[test]
    fn absolute_paths_of_every_system_are_recognized() {
        for path in ["/bin/x", "~/x", "\\\\host\\x", "C:\\x", "c:/x"] {
            assert!(is_absolute(path), "{path}");
        }
        for path in ["bin/x", "./x", "../x", "c:x", "ü:/x", ""] {
            assert!(!is_absolute(path), "{path}");
        }
    }
}
