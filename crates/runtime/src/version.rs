//! Version check: asks the program for its version and compares it with the manifest's range. The
//! bundle is available only if it matches (A45-LIFE-03, A29-VER-08).

mod checked;

use std::ffi::OsString;
use std::time::Duration;

use serde_json::{Value, json};

use crate::command::{BundleCommand, CommandLine};
use crate::context::Context;
use crate::error::{Code, Error};
use crate::install::{self, Installed};
use crate::observe::Stage;
use agentproto_manifest::Node;
use agentproto_manifest::range::{Range, Version};
use agentproto_sandbox::helper::{self, matching};
use agentproto_sandbox::policy::StateCreation;
use agentproto_sandbox::spawn;

/// Default of `timeout_ms` (A29-VER-07).
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);
/// Upper limit for `timeout_ms`.
const MAX_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// Maximum number of bytes of output that the regular expression is applied to.
const MAX_MATCHED_BYTES: usize = 32 << 10;
const MAX_PATTERN: usize = 4096;
/// Wall-clock limit. It is above the helper's CPU time limit, because the machine may be busy.
const MATCH_TIMEOUT: Duration = Duration::from_secs(20);

/// Checks that the program's version is in the manifest's range. If it is not, installs once more
/// if that can help (A29-VER-09).
pub async fn ensure(ctx: &Context, installed: &Installed) -> Result<(Version, Installed), Error> {
    ensure_with(ctx, installed, install::InstallOptions::default()).await
}

/// Like `ensure`. `options` are those of the first installation.
pub async fn ensure_with(
    ctx: &Context,
    installed: &Installed,
    options: install::InstallOptions,
) -> Result<(Version, Installed), Error> {
    let first = match check(ctx, installed).await {
        Ok(version) => return Ok((version, installed.clone())),
        Err(error) => error,
    };
    let options = install::InstallOptions {
        reinstall: true,
        ..options
    };
    if first.code != Code::VersionMismatch || !install::can_reinstall(ctx, options) {
        return Err(first);
    }
    let text = format!("{}; installing again", first.message);
    ctx.observer.progress(Stage::VersionCheck, &text);
    let again = match install::ensure(ctx, options).await {
        Ok(again) => again,
        // Tampering is worse than an old version and must be reported.
        Err(error) if error.code == Code::Sha256Mismatch => return Err(error),
        Err(error) => {
            let message = format!("{}; installing it failed: {error}", first.message);
            return Err(Error { message, ..first });
        }
    };
    match check(ctx, &again).await {
        Ok(version) => Ok((version, again)),
        Err(error) => {
            // The installed version is not usable and must not be chosen over a better one.
            install::forget(ctx)?;
            Err(error)
        }
    }
}

/// The `version_check` of the manifest, checked.
struct VersionCheck<'b> {
    cmd: &'b str,
    words: Vec<String>,
    pattern: &'b str,
    pattern_node: &'b Node,
    range_text: &'b str,
    range: Range,
    timeout: Duration,
}

fn read_version_check(ctx: &Context) -> Result<VersionCheck<'_>, Error> {
    let bundle = &ctx.bundle;
    let Some(declared) = bundle.common().version_check() else {
        let what = "`version_check` is missing (AIP-29, Version detection)";
        return Err(bundle.invalid(bundle.root(), what));
    };
    let field = |key: &str| match declared.0.get(key) {
        Some(node) => node
            .as_str()
            .map(|text| (text, node))
            .ok_or_else(|| bundle.invalid(node, &format!("`{key}` must be a string"))),
        None => Err(bundle.invalid(declared.0, &format!("`version_check.{key}` is missing"))),
    };
    let (cmd, cmd_node) = field("cmd")?;
    let (pattern, pattern_node) = field("parse")?;
    let (range_text, range_node) = field("range")?;
    if pattern.len() > MAX_PATTERN || pattern.contains('\0') {
        return Err(bundle.invalid(pattern_node, "`parse` is too long or contains a NUL byte"));
    }
    let range = Range::parse(range_text)
        .map_err(|e| bundle.invalid(range_node, &format!("`range` is not an npm range: {e}")))?;
    let words = match CommandLine::parse(cmd) {
        Ok(CommandLine::Words(words)) => words,
        Ok(CommandLine::Shell(_)) => {
            let what = "`cmd` uses shell syntax, but it runs without a shell";
            return Err(bundle.invalid(cmd_node, what));
        }
        Err(why) => return Err(bundle.invalid(cmd_node, &why)),
    };
    let timeout = match declared.timeout_ms() {
        Some(ms) => Duration::from_millis(u64::try_from(ms).unwrap_or(1).max(1)),
        None => DEFAULT_TIMEOUT,
    };
    Ok(VersionCheck {
        cmd,
        words,
        pattern,
        pattern_node,
        range_text,
        range,
        timeout: timeout.min(MAX_TIMEOUT),
    })
}

/// Result of one version check.
pub struct VersionProbe {
    /// The version, or why it could not be determined.
    pub found: Result<Version, String>,
    /// The manifest's version range.
    pub range: String,
    /// Whether a version was found that is in the range.
    pub fits: bool,
    /// Whether the command succeeded and wrote only to stderr.
    pub on_stderr: bool,
}

impl VersionProbe {
    /// The version that was found, or the reason why there is none, as text.
    pub fn text(&self) -> String {
        match &self.found {
            Ok(version) => version.to_string(),
            Err(why) => why.clone(),
        }
    }

    /// The error if the bundle is not available (A29-VER-10).
    pub fn error(&self, ctx: &Context, installed: &Installed) -> Option<Error> {
        let (bin, range) = (installed.bin.display(), &self.range);
        let message = match &self.found {
            Ok(_) if self.fits => return None,
            Ok(version) => {
                format!("`{bin}` has version {version}, but the manifest requires `{range}`")
            }
            Err(why) => why.clone(),
        };
        let details = json!({
            "found": self.found.as_ref().ok().map(|v| v.to_string()),
            "wanted": range,
            "bin": bin.to_string(),
        });
        let hint = format!(
            "put a version in the range `{range}` on PATH, or fix `version_check` in {}; `agentproto install TARGET --reinstall` installs it again",
            ctx.bundle.path().display()
        );
        let error = Error::new(Code::VersionMismatch, ctx.masks.mask(&message));
        Some(error.hint(hint).details(details))
    }
}

/// Checks the version once, and returns an error if it is outside the range (A29-VER-06).
pub async fn check(ctx: &Context, installed: &Installed) -> Result<Version, Error> {
    let (manifest, bin) = (&ctx.bundle.manifest, &installed.bin);
    if let Some(version) = checked::find(manifest, bin) {
        ctx.observer
            .stage(Stage::VersionCheck, "checked shortly before");
        return Ok(version);
    }
    // Read before the program runs, so that a program that is replaced meanwhile is checked again.
    let file = checked::FileIdentity::read(bin);
    let probe = probe(ctx, installed).await?;
    let entry = json!({ "found": probe.text(), "wanted": probe.range, "ok": probe.fits });
    ctx.audit.record("version.checked", entry)?;
    match (probe.error(ctx, installed), probe.found) {
        (None, Ok(version)) => {
            if let Some(file) = file {
                checked::remember(manifest, bin, file, &version);
            }
            Ok(version)
        }
        (Some(error), _) => Err(error),
        (None, Err(why)) => Err(Error::new(Code::VersionMismatch, why)),
    }
}

/// Asks the program for its version, without an error if it is outside the range.
pub async fn probe(ctx: &Context, installed: &Installed) -> Result<VersionProbe, Error> {
    let check = read_version_check(ctx)?;
    ctx.observer.stage(Stage::VersionCheck, check.cmd);
    let mut on_stderr = false;
    let found = run_version_command(ctx, installed, &check, &mut on_stderr).await?;
    Ok(VersionProbe {
        fits: matches!(&found, Ok(version) if check.range.satisfies(version)),
        found,
        range: check.range_text.to_owned(),
        on_stderr,
    })
}

/// Runs the version command. The inner error says why no version was found.
async fn run_version_command(
    ctx: &Context,
    installed: &Installed,
    check: &VersionCheck<'_>,
    on_stderr: &mut bool,
) -> Result<Result<Version, String>, Error> {
    let cmd = check.cmd;
    let bin = ctx.bundle.text("bin")?;
    let mut words = check.words.iter();
    let first = words.next().map(|first| match first == bin {
        true => installed.bin.clone().into_os_string(),
        false => OsString::from(first),
    });
    let mut command = BundleCommand::new(first.into_iter().chain(words.map(OsString::from)));
    command.timeout = Some(check.timeout);
    // A version check creates no paths of `auth.state`.
    let ctx = &ctx.creating(StateCreation::Nothing);
    let finished = match ctx.run(command).await {
        Ok(finished) => finished,
        // The program may be damaged or built for another platform: installing again may help.
        Err(error) if matches!(error.code, Code::SpawnFailed | Code::ProgramNotFound) => {
            return Ok(Err(format!("cannot run `{cmd}`: {error}")));
        }
        Err(error) => return Err(error),
    };
    if finished.exit.timed_out {
        let ms = check.timeout.as_millis();
        return Ok(Err(format!("`{cmd}` did not exit within {ms} ms")));
    }
    // Some tools print their version to stderr.
    let mut output = String::from_utf8_lossy(&finished.stdout).into_owned();
    output.push_str(&finished.stderr);
    let status = finished.exit.status;
    let blank = finished.stdout.iter().all(u8::is_ascii_whitespace);
    *on_stderr = status.success() && blank && !finished.stderr.trim().is_empty();
    let Some(group) = first_group(ctx, check, &output).await? else {
        let first_line = output.trim().lines().next().unwrap_or_default();
        return Ok(Err(match status.success() {
            true => {
                format!(
                    "`version_check.parse` found no version in the output of `{cmd}`: {first_line}"
                )
            }
            false => format!("`{cmd}` failed with {status}: {first_line}"),
        }));
    };
    if !status.success() {
        // A29-VER-02: the command should exit with 0, but its version is used anyway.
        let text = format!("`{cmd}` printed a version, but failed with {status}");
        ctx.observer.warning("version_check_exit", &text);
    }
    if let Some(version) = Version::parse(&group) {
        return Ok(Ok(version));
    }
    let Some(version) = parse_lenient(&group) else {
        return Ok(Err(format!(
            "`{cmd}` printed `{group}`, which is not a version such as 1.2.3"
        )));
    };
    let text = format!("`{cmd}` printed `{group}`, which is read as {version}");
    ctx.observer.warning("version_not_semver", &text);
    Ok(Ok(version))
}

/// Parses versions such as `6.1` or `2024.01.02`, which some tools use. Missing numbers are zero.
/// Leading zeros and everything after the third number are ignored.
fn parse_lenient(text: &str) -> Option<Version> {
    let text = text.trim();
    let numbers = text.strip_prefix('v').unwrap_or(text);
    let mut parts = numbers.split('.').map(|part| {
        let digits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| part.parse::<u64>().ok()).flatten()
    });
    let mut out = [0; 3];
    for (place, part) in out.iter_mut().zip(&mut parts) {
        *place = part?;
    }
    parts.all(|rest| rest.is_some()).then_some(())?;
    let [major, minor, patch] = out;
    // Parsed once more to check its limits.
    Version::parse(&format!("{major}.{minor}.{patch}"))
}

/// The text of the first group. A helper process with a time limit does the matching.
async fn first_group(
    ctx: &Context,
    check: &VersionCheck<'_>,
    output: &str,
) -> Result<Option<String>, Error> {
    let mut end = output.len().min(MAX_MATCHED_BYTES);
    while !output.is_char_boundary(end) {
        end -= 1;
    }
    let text = output
        .get(..end)
        .unwrap_or_default()
        .replace('\0', "\u{fffd}");
    let binary = helper::binary().map_err(|e| Error::new(Code::SpawnFailed, e.to_string()))?;
    let argv = [
        binary.as_os_str().to_owned(),
        helper::NAME.into(),
        matching::MODE.into(),
    ];
    let env = [
        (matching::PATTERN.into(), check.pattern.into()),
        (matching::TEXT.into(), text.into()),
    ];
    let options = spawn::SpawnOptions {
        timeout: Some(MATCH_TIMEOUT),
        ..spawn::SpawnOptions::default()
    };
    let finished = ctx.run_host(&argv, &env, &ctx.cwd, options).await?;
    let invalid = |what: &str| ctx.bundle.invalid(check.pattern_node, what);
    if !finished.exit.status.success() {
        return Err(invalid(
            "matching `parse` took too long: it has nested repetitions",
        ));
    }
    let answer: Value = serde_json::from_slice(&finished.stdout).unwrap_or_default();
    if let Some(error) = answer.get("error").and_then(Value::as_str) {
        let what = format!("`parse` is not an ECMAScript regular expression: {error}");
        return Err(invalid(&what));
    }
    if answer.get("no_group").is_some() {
        return Err(invalid(
            "`parse` matched, but has no capture group for the version",
        ));
    }
    let group = answer.get("group").and_then(Value::as_str);
    Ok(group.map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_are_not_quite_semver() {
        let read = |text: &str| parse_lenient(text).map(|v| v.to_string());
        for (text, version) in [
            ("6.1", "6.1.0"),
            ("7", "7.0.0"),
            ("v2024.01.02", "2024.1.2"),
            ("1.2.3.4", "1.2.3"),
        ] {
            assert_eq!(read(text).as_deref(), Some(version), "{text}");
        }
        for text in [
            "",
            "unknown",
            "1.x",
            "1..2",
            "1.2.3.x",
            "-1",
            "99999999999999999999",
            "9007199254740993",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
