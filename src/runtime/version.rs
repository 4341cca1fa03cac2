//! Version check: the program says its version, and the manifest's range decides whether the
//! bundle is available (A45-LIFE-03, A29-VER-08).

use std::time::Duration;

use serde_json::json;

use super::command::{Command, Line};
use super::context::Context;
use super::fault::{Code, Fault};
use super::install::{self, Installed};
use super::observe::Stage;
use crate::manifest::range::{Range, Version};

/// `timeout_ms` where the manifest says nothing (A29-VER-07).
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);
/// Nobody waits longer for a version, whatever the manifest says.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// Makes sure that the program has a version that the manifest is for; installs once more
/// where that can help (A29-VER-09).
pub async fn ensure(ctx: &Context, installed: &Installed) -> Result<(Version, Installed), Fault> {
    let first = match check(ctx, installed).await {
        Ok(version) => return Ok((version, installed.clone())),
        Err(fault) => fault,
    };
    if first.code != Code::VersionMismatch || !install::can_reinstall(ctx) {
        return Err(first);
    }
    ctx.observer.progress(
        Stage::VersionCheck,
        &format!("{}; installing once more", first.message),
    );
    let options = install::Options {
        reinstall: true,
        ..install::Options::default()
    };
    let again = match install::ensure(ctx, options).await {
        Ok(again) => again,
        Err(fault) => {
            let message = format!("{}; installing once more failed: {fault}", first.message);
            return Err(Fault { message, ..first });
        }
    };
    let version = check(ctx, &again).await?;
    Ok((version, again))
}

/// One look at the version (A29-VER-06).
pub async fn check(ctx: &Context, installed: &Installed) -> Result<Version, Fault> {
    let bundle = &ctx.bundle;
    let Some(said) = bundle.common().version_check() else {
        let what = "`version_check` is missing (AIP-29, Version detection)";
        return Err(bundle.invalid(bundle.root(), what));
    };
    let field = |key: &str| match said.0.get(key) {
        Some(node) => node
            .as_str()
            .map(|text| (text, node))
            .ok_or_else(|| bundle.invalid(node, &format!("`{key}` must be a text"))),
        None => Err(bundle.invalid(said.0, &format!("`version_check` needs `{key}`"))),
    };
    let (cmd, cmd_node) = field("cmd")?;
    let (pattern, pattern_node) = field("parse")?;
    let (range_text, range_node) = field("range")?;
    let range = Range::parse(range_text)
        .map_err(|e| bundle.invalid(range_node, &format!("`range` is no npm range: {e}")))?;
    let bin = bundle.text("bin")?;
    let words = match Line::parse(cmd) {
        Ok(Line::Words(words)) => words,
        Ok(Line::Shell(_)) => {
            let what = "`cmd` uses the shell's language; it is run as words, without a shell";
            return Err(bundle.invalid(cmd_node, what));
        }
        Err(why) => return Err(bundle.invalid(cmd_node, &why)),
    };
    let timeout = match said.timeout_ms() {
        Some(ms) => Duration::from_millis(u64::try_from(ms).unwrap_or(1).max(1)),
        None => DEFAULT_TIMEOUT,
    };
    ctx.observer.stage(Stage::VersionCheck, cmd);
    let mut command = Command::new(&words);
    if words.first().is_some_and(|first| first == bin) {
        command.argv[0] = installed.bin.clone().into_os_string();
    }
    command.timeout = Some(timeout.min(LONGEST_TIMEOUT));
    let mismatch = |what: String, found: Option<&Version>| {
        Fault::new(Code::VersionMismatch, what)
            .hint(format!(
                "install a version of `{bin}` within `{range_text}`, or widen `version_check.range` in {}",
                bundle.path().display()
            ))
            .details(json!({
                "found": found.map(|v| v.to_string()),
                "wanted": range_text,
                "bin": installed.bin.to_string_lossy(),
            }))
    };
    let finished = ctx.run(command).await?;
    if finished.exit.timed_out {
        let what = format!("`{cmd}` did not end within {} ms", timeout.as_millis());
        return Err(mismatch(what, None));
    }
    let mut output = String::from_utf8_lossy(&finished.stdout).into_owned();
    output.push_str(&finished.stderr);
    let regex = regress::Regex::new(pattern).map_err(|e| {
        let what = format!("`parse` is no ECMAScript regular expression: {e}");
        bundle.invalid(pattern_node, &what)
    })?;
    let group = regex
        .find(&output)
        .and_then(|m| m.group(1))
        .and_then(|range| output.get(range));
    let Some(text) = group else {
        return Err(mismatch(format!("`{cmd}` told no version"), None));
    };
    let Some(version) = Version::parse(text) else {
        return Err(mismatch(format!("`{text}` is no version"), None));
    };
    match range.satisfies(&version) {
        true => Ok(version),
        false => Err(mismatch(
            format!("`{bin}` is {version}, and the manifest is for `{range_text}`"),
            Some(&version),
        )),
    }
}
