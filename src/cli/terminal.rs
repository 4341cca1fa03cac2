//! What the terminal supports.

use std::io::IsTerminal;

use crate::cli::args::{ColorChoice, Global};

/// Whether to use colors on stdout: decided by the flag, then NO_COLOR and CLICOLOR_FORCE, then the
/// terminal.
pub fn color(global: &Global) -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|v| !v.is_empty() && v != "0");
    match global.color {
        _ if global.no_color => false,
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto if set("NO_COLOR") => false,
        ColorChoice::Auto if set("CLICOLOR_FORCE") => true,
        ColorChoice::Auto => {
            std::io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
        }
    }
}

/// Whether box drawing can be shown: in every UTF-8 locale, and in pipes (which are read as UTF-8).
pub fn unicode() -> bool {
    if !std::io::stdout().is_terminal() {
        return true;
    }
    ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok().filter(|v| !v.is_empty()))
        .is_none_or(|locale| {
            let locale = locale.to_ascii_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        })
}

/// Whether stdout is a terminal.
pub fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// Width of the terminal in columns.
pub fn width() -> usize {
    let named = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    named
        .or_else(|| {
            std::io::stdout()
                .is_terminal()
                .then(|| terminal_size::terminal_size().map(|(w, _)| usize::from(w.0)))
                .flatten()
        })
        .unwrap_or(100)
        .clamp(40, 160)
}
