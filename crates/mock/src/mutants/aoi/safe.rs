//! Check 6: nothing is destroyed without a confirmation, and a dry run changes nothing.

use std::io::{BufRead, Read, Write};

use super::tools::*;

const DELETE: &[&str] = &["delete", "item-0001"];
const DELETE_CONFIRMED: &[&str] = &["delete", "item-0001", "--confirm"];
const DELETE_DRY: &[&str] = &["delete", "item-0001", "--dry-run"];

pub fn mutants() -> Vec<AoiMutant> {
    vec![
        mutant("aoi-06-deletes-without-confirm", "AOI-06.refuses")
            .describe("`delete` requires no confirmation.")
            .violates(&["AOI-14.3-01", "AOI-16.1-10", "AOI-16.3-06"])
            .run(DELETE)
            .args(|args| with(args, "delete", "--confirm"))
            .after(ONE_ITEM),
        mutant("aoi-06-purges-without-confirm", "AOI-06.refuses")
            .describe("`purge` requires no confirmation.")
            .violates(&["AOI-14.3-02"])
            .run(&["purge", "--confirm-count", "1"])
            .args(|args| with(args, "purge", "--confirm"))
            .after(ONE_ITEM),
        mutant("aoi-06-deletes-then-refuses", "AOI-06.no-effect")
            .describe("`delete` removes the item before it asks for a confirmation.")
            .run(DELETE)
            .quirk(Quirk::DeletesBeforeRefusal)
            .after(ONE_ITEM),
        mutant("aoi-06-asks-on-stdin", "AOI-06.piped-yes")
            .describe("A `y` on stdin is accepted as a confirmation.")
            .violates(&["AOI-14.3-01", "AOI-16.1-10"])
            .run(DELETE)
            .args(
                |args| match lacks_confirm(&args) && says_yes(std::io::stdin()) {
                    true => with(args, "delete", "--confirm"),
                    false => args,
                },
            )
            .input("y\n")
            .after(ONE_ITEM),
        mutant("aoi-06-ci-is-yes", "AOI-06.environment")
            .describe("If `CI` is set, no confirmation is required.")
            .violates(&["AOI-14.3-01", "AOI-16.1-10"])
            .run(DELETE)
            .args(|args| match is_set("CI") {
                true => with(args, "delete", "--confirm"),
                false => args,
            })
            .env("CI", "1")
            .after(ONE_ITEM),
        mutant("aoi-06-yes-variable", "AOI-06.environment")
            .describe("If `YES` is set, no confirmation is required.")
            .violates(&["AOI-14.3-01", "AOI-16.1-10"])
            .run(DELETE)
            .args(|args| match is_set("YES") {
                true => with(args, "delete", "--confirm"),
                false => args,
            })
            .env("YES", "1")
            .after(ONE_ITEM),
        mutant("aoi-06-asks-on-terminal", "AOI-06.prompt")
            .describe("If there is a terminal, `delete` asks there and waits.")
            .violates(&["AOI-1.3-01", "AOI-1.3-03"])
            .run(DELETE)
            .args(|args| {
                let tty = std::fs::OpenOptions::new()
                    .read(true)
                    .write(true)
                    .open("/dev/tty");
                let Ok(mut tty) = tty else {
                    return args;
                };
                if !lacks_confirm(&args) {
                    return args;
                }
                let _ = tty.write_all(b"Really? [y/N] ");
                match says_yes(tty) {
                    true => with(args, "delete", "--confirm"),
                    false => args,
                }
            })
            .at(RunCondition::Terminal)
            .hangs()
            .after(ONE_ITEM),
        mutant("aoi-06-waits-for-a-person", "AOI-06.prompt")
            .describe("Without a confirmation, `delete` waits forever.")
            .violates(&["AOI-1.3-03"])
            .run(DELETE)
            .args(|args| match lacks_confirm(&args) {
                true => hang(),
                false => args,
            })
            .hangs()
            .after(ONE_ITEM),
        mutant("aoi-06-refusal-exits-zero", "AOI-06.refuses")
            .describe("A rejected `delete` exits with code 0.")
            .violates(&["AOI-14.3-01"])
            .run(DELETE)
            .exit(
                |info, code| match info.command == "delete" && !info.has("--confirm") {
                    true => 0,
                    false => code,
                },
            )
            .after(ONE_ITEM),
        mutant("aoi-06-refusal-is-ok", "AOI-06.refuses")
            .describe("The summary of a rejected `delete` reports a success.")
            .violates(&["AOI-14.3-01"])
            .run(DELETE)
            .event_if(
                |info| info.command == "delete" && info.failure == Some("usage"),
                "aoi:summary",
                sets("ok", true),
            )
            .after(ONE_ITEM),
        mutant("aoi-06-dry-run-deletes", "AOI-06.dry-run-effect")
            .describe("A dry run of `delete` deletes the item.")
            .violates(&["AOI-16.1-08"])
            .run(DELETE_DRY)
            .quirk(Quirk::DryRunActs)
            .after(ONE_ITEM),
        mutant("aoi-06-dry-run-creates", "AOI-06.dry-run-effect")
            .describe("A dry run of `create` creates an item.")
            .violates(&["AOI-16.1-08"])
            .run(&["create", "a", "--dry-run"])
            .args(|args| match args.iter().any(|word| word == "create") {
                true => without(args, "--dry-run", false),
                false => args,
            }),
        mutant("aoi-06-dry-run-without-plan", "AOI-06.dry-run-plan")
            .describe("A dry run has no plan.")
            .violates(&["AOI-8.3-07", "AOI-14.2-02"])
            .run(DELETE_DRY)
            .drops("aoi:plan")
            .after(ONE_ITEM),
        mutant("aoi-06-dry-run-fails", "AOI-06.dry-run-plan")
            .describe("A dry run exits with code 1.")
            .violates(&["AOI-16.1-08"])
            .run(DELETE_DRY)
            .exit(|info, code| if info.has("--dry-run") { 1 } else { code })
            .after(ONE_ITEM),
        mutant("aoi-06-dry-run-unknown", "AOI-06.dry-run-plan")
            .describe("`--dry-run` is advertised but unknown.")
            .violates(&["AOI-14.2-01"])
            .run(DELETE_DRY)
            .args(|mut args| {
                let flag = args.iter_mut().find(|word| *word == "--dry-run");
                if let Some(word) = flag {
                    word.push_str("-please");
                }
                args
            })
            .after(ONE_ITEM),
        mutant("aoi-06-confirm-does-nothing", "AOI-06.confirmed")
            .describe("`delete` reports a deletion but does not delete.")
            .run(DELETE_CONFIRMED)
            .quirk(Quirk::ConfirmDoesNothing)
            .after(ONE_ITEM)
            .expect_not_verified(),
        mutant("aoi-06-login-opens-browser", "AOI-06.browser")
            .describe("Without credentials, `fetch` opens a browser.")
            .run(&["fetch"])
            .start(|info| {
                if info.command == "fetch" && !is_set("MOCK_AOI_TOKEN") {
                    run_as_browser();
                }
                None
            })
            .at(RunCondition::Browser),
        mutant("aoi-06-login-waits", "AOI-06.prompt")
            .describe("Without credentials, `fetch` waits for a login.")
            .violates(&["AOI-1.3-01"])
            .run(&["fetch"])
            .start(
                |info| match info.command == "fetch" && !is_set("MOCK_AOI_TOKEN") {
                    true => {
                        stderr("Password: ");
                        hang()
                    }
                    false => None,
                },
            )
            .hangs(),
        mutant("aoi-06-login-error-unnamed", "AOI-06.interactive-required")
            .describe("Without credentials, `fetch` fails without mentioning a login.")
            .run(&["fetch"])
            .event_if(of_command("fetch"), "aoi:error", |e| {
                set(e, "category", "internal");
                set(e, "code", "FAILED");
                set(e, "message", "It did not work.");
                remove(e, "hint");
            }),
        mutant("aoi-advisory-login-retryable", "AOI-adv.interactive-fields")
            .describe("`fetch` reports a missing login as retryable.")
            .run(&["fetch"])
            .event_if(of_command("fetch"), "aoi:error", sets("retryable", true))
            .expect_warning(),
        mutant("aoi-06-login-error-of-authz", "AOI-06.auth-category")
            .describe("`fetch` reports a missing login as missing permissions.")
            .run(&["fetch"])
            .event_if(of_command("fetch"), "aoi:error", |e| {
                set(e, "category", "authz");
                set(e, "code", "INTERACTIVE_REQUIRED");
            }),
    ]
}

fn lacks_confirm(args: &[String]) -> bool {
    let has = |word: &str| args.iter().any(|arg| arg == word);
    has("delete") && !has("--confirm") && !has("--dry-run")
}

fn says_yes(answers: impl Read) -> bool {
    let mut line = String::new();
    let answers = std::io::BufReader::new(answers.take(1024));
    let mut answers = answers;
    answers.read_line(&mut line).is_ok() && line.trim() == "y"
}

/// Replaces the process with a browser, if one is installed.
fn run_as_browser() {
    let words = [
        c"xdg-open".as_ptr(),
        c"https://login.example.com/".as_ptr(),
        std::ptr::null(),
    ];
    // SAFETY: the strings and the list are null-terminated. On failure nothing happens.
    unsafe {
        libc::execvp(c"xdg-open".as_ptr(), words.as_ptr());
    }
}
