//! Variants that look like a defect, but conform: each has a mutant that differs little.

use std::fs;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::sync::Mutex;

use serde_json::Value;

use super::{AoiVariant, kind, send, variant};
use crate::aoi::changes::{Change, Counters, EventFrame, Quirk, RunInfo};
use crate::aoi::habits::{early_meta, slower_watch, without_late_meta};

pub(super) fn variants() -> Vec<AoiVariant> {
    vec![
        variant(
            "quiet-watch",
            "`watch` writes every four seconds, and declares its interval.",
            Change::Args(Box::new(|args| slower_watch(args, "4000"))),
        )
        .and(Change::Document(Box::new(|_, document| {
            of_command(document, "watch", |watch| {
                set(watch, "heartbeat_interval_ms", 20_000);
            })
        }))),
        variant(
            "rare-watch",
            "`watch` writes once a minute, and declares no interval.",
            Change::Args(Box::new(|args| slower_watch(args, "60000"))),
        )
        .and(Change::Document(Box::new(|_, document| {
            of_command(document, "watch", |watch| {
                remove(watch, "heartbeat_interval_ms");
            })
        }))),
        variant(
            "bounded-false",
            "Only `bounded: false` in the capabilities says that `watch` is unbounded.",
            Change::Document(Box::new(|_, document| {
                of_command(document, "watch", |watch| remove(watch, "unbounded"))
            })),
        ),
        variant(
            "count-at-timeout",
            "A run that is ended by `--timeout` does not count its last result.",
            Change::Event(Box::new(count_at_timeout)),
        ),
        variant(
            "created-ids",
            "`get` finds only items that `create` made.",
            Change::Args(Box::new(forget_documents)),
        ),
        variant(
            "absent-id",
            "`get` is tried with an id that does not exist.",
            Change::Args(Box::new(forget_documents)),
        ),
        variant(
            "doctor-checks-login",
            "`doctor` reports a missing login as a failed check.",
            Change::Event(Box::new(login_check)),
        )
        .and(Change::Exit(Box::new(|info, code| {
            let is_missing = info.command == "doctor" && !has_token();
            if is_missing && code == 0 { 1 } else { code }
        }))),
        variant(
            "delete-by-id",
            "`delete` takes no idempotency key, because the id is a documented natural key.",
            Change::Args(Box::new(|args| {
                refuse(args, "--idempotency-key", |args| {
                    args.iter().any(|word| word == "delete")
                })
            })),
        )
        .and(Change::Document(Box::new(|_, document| {
            of_command(document, "delete", |delete| {
                set(delete, "supports_idempotency_key", false);
                set(delete, "natural_key", "id");
            })
        }))),
        variant(
            "upsert",
            "The name is a documented natural key of `create`.",
            Change::Quirk(Quirk::NaturalKey),
        )
        .and(Change::Document(Box::new(|_, document| {
            of_command(document, "create", |create| {
                set(create, "natural_key", "name");
            })
        }))),
        variant(
            "dry-run-without-key",
            "A dry run takes no idempotency key.",
            Change::Args(Box::new(|args| {
                refuse(args, "--idempotency-key", |args| {
                    args.iter().any(|word| word == "--dry-run")
                })
            })),
        ),
        variant(
            "diagnostics-as-data",
            "The documents are about warnings and stack traces.",
            Change::Event(Box::new(diagnostics_as_data)),
        ),
        variant(
            "localized",
            "Titles and messages are in the language of the locale, in UTF-8.",
            Change::Event(Box::new(localized)),
        ),
        variant(
            "early-meta",
            "`rank` writes its meta before it reads its input.",
            Change::Start(Box::new(early_meta)),
        )
        .and(Change::Event(Box::new(without_late_meta))),
        variant(
            "opens-terminal",
            "It opens the controlling terminal, but writes nothing to it.",
            Change::Start(Box::new(|_| {
                let _ = fs::OpenOptions::new().write(true).open("/dev/tty");
                None
            })),
        ),
        variant(
            "discovery-cache",
            "Discovery writes a cache, and opens a socket that it does not use.",
            Change::Start(Box::new(|info| {
                if matches!(info.command.as_str(), "schema" | "capabilities") {
                    let _ = UdpSocket::bind("127.0.0.1:0");
                    if let Some(home) = std::env::var_os("HOME") {
                        let dir = PathBuf::from(home).join(".cache/mock-aoi");
                        let _ = fs::create_dir_all(&dir);
                        let _ = fs::write(dir.join("schema.json"), "{}\n");
                    }
                }
                None
            })),
        ),
        variant(
            "ignored-variable",
            "If `MOCK_AOI_CONFIRM` is set, a refusal says that it has no effect.",
            Change::Event(Box::new(|info, _, mut event| {
                let is_set = std::env::var_os("MOCK_AOI_CONFIRM").is_some();
                if is_set && info.failure == Some("usage") && kind(&event) == "aoi:error" {
                    set(&mut event, "note", "MOCK_AOI_CONFIRM has no effect.");
                }
                send(event)
            })),
        ),
        variant(
            "batches",
            "Results are written five at a time.",
            Change::Line(batches()),
        ),
    ]
}

fn set(value: &mut Value, name: &str, to: impl Into<Value>) {
    if let Value::Object(fields) = value {
        fields.insert(name.to_owned(), to.into());
    }
}

fn remove(value: &mut Value, name: &str) {
    if let Value::Object(fields) = value {
        fields.shift_remove(name);
    }
}

/// Edits one command in the capabilities.
fn of_command(mut document: Value, name: &str, edit: impl Fn(&mut Value)) -> EventFrame {
    let commands = document.get_mut("commands").and_then(Value::as_array_mut);
    let named = commands.into_iter().flatten();
    let mut named = named.filter(|command| command.get("name").is_some_and(|known| known == name));
    if let Some(command) = named.next() {
        edit(command);
    }
    EventFrame::Json(document)
}

fn count_at_timeout(info: &RunInfo, _: &mut Counters, mut event: Value) -> Vec<EventFrame> {
    if info.failure == Some("timeout") && kind(&event) == "aoi:summary" {
        let count = event.get("count").and_then(Value::as_u64);
        set(&mut event, "count", count.unwrap_or(0).saturating_sub(1));
    }
    send(event)
}

/// Lets `get` know no documents.
fn forget_documents(args: Vec<String>) -> Vec<String> {
    let is_get = args.iter().any(|word| word == "get");
    let forget = |word: String| match is_get && word.starts_with("doc-") {
        true => "absent".to_owned(),
        false => word,
    };
    args.into_iter().map(forget).collect()
}

fn has_token() -> bool {
    std::env::var_os("MOCK_AOI_TOKEN").is_some_and(|token| !token.is_empty())
}

/// The check of the credentials fails without a token, and so does `doctor`.
fn login_check(info: &RunInfo, _: &mut Counters, mut event: Value) -> Vec<EventFrame> {
    if info.command != "doctor" || has_token() || info.failure.is_some() || info.signal.is_some() {
        return send(event);
    }
    match kind(&event) {
        "aoi:check" if event.get("name") == Some(&Value::from("credentials")) => {
            set(&mut event, "ok", false);
            set(&mut event, "severity", "error");
            set(&mut event, "detail", "not logged in");
        }
        "aoi:summary" => {
            set(&mut event, "ok", false);
            set(&mut event, "error_count", 1);
        }
        _ => {}
    }
    send(event)
}

/// Renames a flag in some runs, so that the tool rejects it as unknown.
fn refuse(mut args: Vec<String>, flag: &str, runs: impl Fn(&[String]) -> bool) -> Vec<String> {
    if runs(&args) {
        for word in args.iter_mut() {
            let name = word.split('=').next().unwrap_or_default();
            if name == flag {
                *word = format!("--not-offered{}", word.trim_start_matches('-'));
            }
        }
    }
    args
}

fn diagnostics_as_data(_: &RunInfo, _: &mut Counters, mut event: Value) -> Vec<EventFrame> {
    for name in ["snippet", "text"] {
        if kind(&event) == "hit" && event.get(name).is_some() {
            let data =
                "Warning: wet paint\nTraceback (most recent call last):\n  File \"a.py\", line 1";
            set(&mut event, name, data);
        }
    }
    send(event)
}

fn localized(_: &RunInfo, _: &mut Counters, mut event: Value) -> Vec<EventFrame> {
    let locale = std::env::var("LC_ALL").unwrap_or_default();
    if locale.starts_with("de") {
        for name in ["title", "message"] {
            if event.get(name).is_some() {
                set(&mut event, name, "Auf Deutsch – übersetzt");
            }
        }
    }
    send(event)
}

type LineChange = Box<dyn Fn(&RunInfo, Vec<u8>) -> Vec<u8> + Send + Sync>;

/// Writes five hits with one call.
fn batches() -> LineChange {
    let held = Mutex::new(Vec::new());
    Box::new(move |_, line| {
        let Ok(mut held) = held.lock() else {
            return line;
        };
        let is_hit = memchr::memmem::find(&line, b"\"hit\"").is_some();
        held.push(line);
        match is_hit && held.len() < 5 {
            true => Vec::new(),
            false => std::mem::take(&mut *held).concat(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_are_written_in_fives() {
        let write = batches();
        let info = RunInfo::default();
        let hit = || b"{\"type\":\"hit\"}".to_vec();
        let lengths: Vec<usize> = (0..6).map(|_| write(&info, hit()).len()).collect();
        let five = 5 * hit().len();
        assert_eq!(lengths, [0, 0, 0, 0, five, 0]);
        let end = write(&info, b"end".to_vec());
        assert_eq!(end.len(), hit().len() + 3);
    }
}
