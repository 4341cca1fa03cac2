//! Runs that tempt a tool to color its output, to encode it differently or to address a human.

use futures::future::join_all;

use crate::probe::ProbeCommand;
use crate::run::StdoutTarget;
use crate::session::{LintSession, RunOptions, with_options};

/// Runs each harmless command with forced color, on a terminal, in other locales, and with
/// `--debug`.
pub async fn run_variants(session: &LintSession) {
    let env = |pairs: &[(&str, &str)]| {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect()
    };
    let forced = [
        ("TERM", "xterm-256color"),
        ("CLICOLOR_FORCE", "1"),
        ("FORCE_COLOR", "3"),
    ];
    let tempted = |command: &&ProbeCommand| {
        crate::checks::is_harmless(session, command) && !command.unbounded
    };
    let runs = session
        .commands()
        .iter()
        .filter(tempted)
        .map(|command| async move {
            let (words, how) = crate::checks::ok_run(session, command);
            let colored = RunOptions {
                env: env(&forced),
                ..how.clone()
            };
            let terminal = RunOptions {
                env: env(&forced[..1]),
                output: StdoutTarget::Terminal,
                ..how.clone()
            };
            // A tool must print UTF-8 even if the locale has another encoding.
            let locale = |name: &str| RunOptions {
                env: env(&[("LC_ALL", name), ("LANG", name)]),
                ..how.clone()
            };
            let debug = with_options(&words, &["--debug".to_owned()]);
            tokio::join!(
                session.run(&command.name, "forced color", &words, colored),
                session.run(&command.name, "on a terminal", &words, terminal),
                session.run(&command.name, "LC_ALL=C", &words, locale("C")),
                session.run(
                    &command.name,
                    "LC_ALL=de_DE.ISO-8859-1",
                    &words,
                    locale("de_DE.ISO-8859-1")
                ),
                async {
                    if crate::checks::is_read_only(session, command) {
                        session
                            .run(&command.name, "with --debug", &debug, how)
                            .await;
                    }
                }
            );
        });
    join_all(runs).await;
}
