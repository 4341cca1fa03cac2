//! Finds the credential. Its value is never shown.

use std::path::PathBuf;

use super::args::ParsedArgs;

pub const VARIABLE: &str = "MOCK_AOI_TOKEN";

pub fn file() -> Option<PathBuf> {
    let home = std::env::var_os("HOME")?;
    Some(PathBuf::from(home).join(".config/mock-aoi/token"))
}

pub fn found(words: &ParsedArgs) -> Option<String> {
    let flag = words.value("--token").map(str::to_owned);
    let variable = || std::env::var(VARIABLE).ok();
    let file = || std::fs::read_to_string(file()?).ok();
    let found = flag.or_else(variable).or_else(file)?;
    let token = found.trim();
    (!token.is_empty()).then(|| token.to_owned())
}
