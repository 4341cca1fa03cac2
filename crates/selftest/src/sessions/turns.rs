//! Defects in turns, in their event streams and in their lines.

use std::time::Duration;

use serde_json::json;

use super::changes::{HostResponse, Route};
use super::frames::Frame;
use super::{HostChanges, Mutant, host_spec, mutant, recommendation, remove};

fn accepted(id: &str) -> HostResponse {
    HostResponse::new(200, json!({"ok": true, "id": id}))
}

pub fn mutants() -> Vec<Mutant> {
    let mut all = prompts();
    all.extend(streams());
    all.extend(lines());
    all
}

fn prompts() -> Vec<Mutant> {
    vec![
        mutant(
            "se-prompt-thin",
            "A46-HTTP-05",
            "The response to a prompt has no `id`.",
            || HostChanges::of(Route::Prompt, |reply| remove(&mut reply.body, "id")),
        ),
        mutant(
            "se-prompt-text",
            "A46-HTTP-05",
            "`ok` is the string `true`.",
            || HostChanges::of(Route::Prompt, |reply| reply.body["ok"] = json!("true")),
        ),
        mutant(
            "se-prompt-waits",
            "A46-HTTP-05",
            "The response to a prompt comes after the end of its turn.",
            || HostChanges {
                delayed_until_turn_end: Some(|incoming| incoming.route == Route::Prompt),
                ..HostChanges::default()
            },
        ),
        mutant(
            "se-first-prompt-lost",
            "A46-SPAWN-04",
            "The prompt of a spawn is dropped.",
            || {
                HostChanges::before(|incoming, _, _| {
                    if incoming.route == Route::Spawn {
                        remove(&mut incoming.body, "prompt");
                    }
                    None
                })
            },
        ),
        mutant(
            "se-one-turn",
            "A46-TURN-01",
            "A session accepts only one prompt.",
            || {
                HostChanges::before(|incoming, state, _| {
                    let is_later =
                        incoming.route == Route::Prompt && state.count("prompt", &incoming.id) > 0;
                    is_later.then(|| HostResponse::error(410, "the session is over"))
                })
            },
        ),
        mutant(
            "se-exits-after-turn",
            "A46-TURN-01",
            "A session has the status `exited` after its turn.",
            || {
                HostChanges::after(|incoming, reply, state| {
                    if incoming.route == Route::Prompt {
                        state.count("prompt", &incoming.id);
                    }
                    if incoming.route == Route::Show && state.has("prompt", &incoming.id) {
                        reply.body["status"] = json!("exited");
                        reply.body["endedAt"] = reply.body["startedAt"].clone();
                    }
                })
            },
        ),
        mutant(
            "se-new-agent",
            "A46-TURN-02",
            "Later prompts go to another process.",
            || HostChanges {
                has_hidden_sessions: true,
                ..HostChanges::default()
            },
        ),
        mutant(
            "se-forgets",
            "A46-TURN-03",
            "The agent does not get the first prompt.",
            || {
                HostChanges::before(|incoming, state, _| {
                    if incoming.route == Route::Prompt && state.count("prompt", &incoming.id) == 0 {
                        incoming.body["prompt"] = json!("hello");
                    }
                    None
                })
            },
        ),
        mutant(
            "se-overlap-taken",
            "A46-TURN-04",
            "A prompt during a turn is accepted and dropped.",
            || {
                HostChanges::after(|incoming, reply, _| {
                    if incoming.route == Route::Prompt && reply.status == 409 {
                        *reply = accepted(&incoming.id);
                    }
                })
            },
        ),
        mutant(
            "se-overlap-400",
            "A46-TURN-04",
            "A prompt during a turn gets the status 400.",
            || {
                HostChanges::after(|incoming, reply, _| {
                    if incoming.route == Route::Prompt && reply.status == 409 {
                        reply.status = 400;
                    }
                })
            },
        ),
        recommendation(
            "se-end-untold",
            "A46-TURN-06",
            "No line marks the end of a turn.",
            || {
                HostChanges::frames(|frame| match frame.is_turn_end() {
                    true => Vec::new(),
                    false => vec![frame],
                })
            },
        ),
        recommendation(
            "se-end-twice",
            "A46-TURN-06",
            "A turn has two end lines.",
            || {
                HostChanges::frames(|frame| match frame.is_turn_end() {
                    true => vec![frame.clone(), frame],
                    false => vec![frame],
                })
            },
        ),
    ]
}

fn streams() -> Vec<Mutant> {
    vec![
        mutant(
            "se-stream-plain",
            "A46-HTTP-08",
            "The stream has the media type text/plain.",
            || {
                HostChanges::after(|incoming, reply, _| {
                    if incoming.route == Route::Stream {
                        reply.media = "text/plain";
                    }
                })
            },
        ),
        mutant(
            "se-stream-missing",
            "A46-HTTP-08",
            "The stream route does not exist.",
            || {
                HostChanges::before(|incoming, _, _| {
                    (incoming.route == Route::Stream).then(|| HostResponse::error(404, "not found"))
                })
            },
        ),
        mutant(
            "se-data-text",
            "A46-SSE-01",
            "The data of a `line` event is the text, not JSON.",
            || {
                HostChanges::frames(|frame| {
                    vec![match frame.line() {
                        Some(line) => Frame::Event {
                            name: "line".to_owned(),
                            data: line["line"].as_str().unwrap_or_default().to_owned(),
                        },
                        None => frame,
                    }]
                })
            },
        ),
        mutant(
            "se-data-two",
            "A46-SSE-01",
            "The data of a `line` event contains two JSON values.",
            || {
                HostChanges::frames(|frame| {
                    vec![match frame.line() {
                        Some(line) => Frame::Event {
                            name: "line".to_owned(),
                            data: format!("{line} {line}"),
                        },
                        None => frame,
                    }]
                })
            },
        ),
        mutant(
            "se-event-name",
            "A46-SSE-02",
            "Output has the event name `output`.",
            || {
                HostChanges::frames(|frame| {
                    vec![match frame.line() {
                        Some(line) => Frame::new("output", &line),
                        None => frame,
                    }]
                })
            },
        ),
        mutant(
            "se-event-nameless",
            "A46-SSE-02",
            "Output has no event name.",
            || {
                HostChanges::frames(|frame| {
                    vec![match frame.line() {
                        Some(line) => Frame::Comment(format!("data: {line}")),
                        None => frame,
                    }]
                })
            },
        ),
        mutant(
            "se-line-member",
            "A46-SSE-02",
            "The text of a line is in `text`.",
            || {
                HostChanges::lines(|data| {
                    *data = json!({"text": data["line"], "stream": data["stream"]})
                })
            },
        ),
        mutant(
            "se-stream-untold",
            "A46-SSE-03",
            "A line has no `stream`.",
            || HostChanges::lines(|data| remove(data, "stream")),
        ),
        mutant(
            "se-stream-number",
            "A46-SSE-03",
            "`stream` is a number.",
            || HostChanges::lines(|data| data["stream"] = json!(1)),
        ),
        Mutant {
            data: super::HostSpec {
                timeout: Some(Duration::from_secs(32)),
                ..host_spec(|| HostChanges {
                    no_keep_alive: true,
                    ..HostChanges::default()
                })
            },
            ..recommendation(
                "se-no-keep-alive",
                "A46-SSE-06",
                "A silent stream sends no keep-alive comments.",
                HostChanges::default,
            )
        },
    ]
}

fn lines() -> Vec<Mutant> {
    vec![
        recommendation(
            "se-lines-hidden",
            "A46-PROJ-01",
            "Only the end of a turn is reported.",
            || {
                HostChanges::frames(
                    |frame| match frame.line().is_some() && !frame.is_turn_end() {
                        true => Vec::new(),
                        false => vec![frame],
                    },
                )
            },
        ),
        recommendation(
            "se-lines-glued",
            "A46-PROJ-02",
            "A line contains several lines.",
            || {
                HostChanges::lines(|data| {
                    let text = data["line"].as_str().unwrap_or_default();
                    if text.contains("turn-end") {
                        return;
                    }
                    data["line"] = json!(text.replace(' ', "\n"));
                })
            },
        ),
        recommendation(
            "se-thought-plain",
            "A46-PROJ-03",
            "A thought looks like text.",
            || unprefixed("[thought] "),
        ),
        recommendation(
            "se-tool-plain",
            "A46-PROJ-04",
            "A tool call looks like text.",
            || unprefixed("[tool] "),
        ),
        recommendation(
            "se-question-plain",
            "A46-PROJ-06",
            "A question looks like text.",
            || unprefixed("[awaiting input] "),
        ),
        recommendation(
            "se-end-unreasoned",
            "A46-PROJ-07",
            "The end of a turn has no reason.",
            || {
                HostChanges::lines(|data| {
                    if data["line"]
                        .as_str()
                        .unwrap_or_default()
                        .contains("turn-end")
                    {
                        data["line"] = json!("── turn-end ──");
                    }
                })
            },
        ),
    ]
}

fn unprefixed(prefix: &'static str) -> HostChanges {
    HostChanges {
        frame: Some(Box::new(move |frame, _| {
            vec![match frame.line() {
                Some(mut data) => {
                    let text = data["line"].as_str().unwrap_or_default().to_owned();
                    data["line"] = json!(text.strip_prefix(prefix).unwrap_or(&text));
                    Frame::new("line", &data)
                }
                None => frame,
            }]
        })),
        ..HostChanges::default()
    }
}
