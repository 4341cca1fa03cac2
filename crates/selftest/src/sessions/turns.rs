//! Defects in turns, in their event streams and in their lines.

use std::time::Duration;

use serde_json::json;

use super::frames::Frame;
use super::tamper::{Reply, Route};
use super::{Mutant, Tamper, advice, made, remove, wrong};

fn taken(id: &str) -> Reply {
    Reply::new(200, json!({"ok": true, "id": id}))
}

pub fn mutants() -> Vec<Mutant> {
    let mut all = prompts();
    all.extend(streams());
    all.extend(lines());
    all
}

fn prompts() -> Vec<Mutant> {
    vec![
        wrong(
            "se-prompt-thin",
            "A46-HTTP-05",
            "The response to a prompt has no `id`.",
            || Tamper::of(Route::Prompt, |reply| remove(&mut reply.body, "id")),
        ),
        wrong(
            "se-prompt-text",
            "A46-HTTP-05",
            "`ok` is the string `true`.",
            || Tamper::of(Route::Prompt, |reply| reply.body["ok"] = json!("true")),
        ),
        wrong(
            "se-prompt-waits",
            "A46-HTTP-05",
            "The response to a prompt comes after the end of its turn.",
            || Tamper {
                waits: Some(|asked| asked.route == Route::Prompt),
                ..Tamper::default()
            },
        ),
        wrong(
            "se-first-prompt-lost",
            "A46-SPAWN-04",
            "The prompt of a spawn is dropped.",
            || {
                Tamper::before(|asked, _, _| {
                    if asked.route == Route::Spawn {
                        remove(&mut asked.body, "prompt");
                    }
                    None
                })
            },
        ),
        wrong(
            "se-one-turn",
            "A46-TURN-01",
            "A session accepts only one prompt.",
            || {
                Tamper::before(|asked, memory, _| {
                    let is_later =
                        asked.route == Route::Prompt && memory.count("prompt", &asked.id) > 0;
                    is_later.then(|| Reply::error(410, "the session is over"))
                })
            },
        ),
        wrong(
            "se-exits-after-turn",
            "A46-TURN-01",
            "A session has the status `exited` after its turn.",
            || {
                Tamper::after(|asked, reply, memory| {
                    if asked.route == Route::Prompt {
                        memory.count("prompt", &asked.id);
                    }
                    if asked.route == Route::Show && memory.has("prompt", &asked.id) {
                        reply.body["status"] = json!("exited");
                        reply.body["endedAt"] = reply.body["startedAt"].clone();
                    }
                })
            },
        ),
        wrong(
            "se-new-agent",
            "A46-TURN-02",
            "Later prompts go to another process.",
            || Tamper {
                has_twins: true,
                ..Tamper::default()
            },
        ),
        wrong(
            "se-forgets",
            "A46-TURN-03",
            "The agent does not get the first prompt.",
            || {
                Tamper::before(|asked, memory, _| {
                    if asked.route == Route::Prompt && memory.count("prompt", &asked.id) == 0 {
                        asked.body["prompt"] = json!("hello");
                    }
                    None
                })
            },
        ),
        wrong(
            "se-overlap-taken",
            "A46-TURN-04",
            "A prompt during a turn is accepted and dropped.",
            || {
                Tamper::after(|asked, reply, _| {
                    if asked.route == Route::Prompt && reply.status == 409 {
                        *reply = taken(&asked.id);
                    }
                })
            },
        ),
        wrong(
            "se-overlap-400",
            "A46-TURN-04",
            "A prompt during a turn gets the status 400.",
            || {
                Tamper::after(|asked, reply, _| {
                    if asked.route == Route::Prompt && reply.status == 409 {
                        reply.status = 400;
                    }
                })
            },
        ),
        advice(
            "se-end-untold",
            "A46-TURN-06",
            "No line marks the end of a turn.",
            || {
                Tamper::frames(|frame| match frame.is_turn_end() {
                    true => Vec::new(),
                    false => vec![frame],
                })
            },
        ),
        advice(
            "se-end-twice",
            "A46-TURN-06",
            "A turn has two end lines.",
            || {
                Tamper::frames(|frame| match frame.is_turn_end() {
                    true => vec![frame.clone(), frame],
                    false => vec![frame],
                })
            },
        ),
    ]
}

fn streams() -> Vec<Mutant> {
    vec![
        wrong(
            "se-stream-plain",
            "A46-HTTP-08",
            "The stream has the media type text/plain.",
            || {
                Tamper::after(|asked, reply, _| {
                    if asked.route == Route::Stream {
                        reply.media = "text/plain";
                    }
                })
            },
        ),
        wrong(
            "se-stream-missing",
            "A46-HTTP-08",
            "The stream route does not exist.",
            || {
                Tamper::before(|asked, _, _| {
                    (asked.route == Route::Stream).then(|| Reply::error(404, "not found"))
                })
            },
        ),
        wrong(
            "se-data-text",
            "A46-SSE-01",
            "The data of a `line` event is the text, not JSON.",
            || {
                Tamper::frames(|frame| {
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
        wrong(
            "se-data-two",
            "A46-SSE-01",
            "The data of a `line` event contains two JSON values.",
            || {
                Tamper::frames(|frame| {
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
        wrong(
            "se-event-name",
            "A46-SSE-02",
            "Output has the event name `output`.",
            || {
                Tamper::frames(|frame| {
                    vec![match frame.line() {
                        Some(line) => Frame::new("output", &line),
                        None => frame,
                    }]
                })
            },
        ),
        wrong(
            "se-event-nameless",
            "A46-SSE-02",
            "Output has no event name.",
            || {
                Tamper::frames(|frame| {
                    vec![match frame.line() {
                        Some(line) => Frame::Comment(format!("data: {line}")),
                        None => frame,
                    }]
                })
            },
        ),
        wrong(
            "se-line-member",
            "A46-SSE-02",
            "The text of a line is in `text`.",
            || {
                Tamper::lines(|data| {
                    *data = json!({"text": data["line"], "stream": data["stream"]})
                })
            },
        ),
        wrong(
            "se-stream-untold",
            "A46-SSE-03",
            "A line has no `stream`.",
            || Tamper::lines(|data| remove(data, "stream")),
        ),
        wrong(
            "se-stream-number",
            "A46-SSE-03",
            "`stream` is a number.",
            || Tamper::lines(|data| data["stream"] = json!(1)),
        ),
        Mutant {
            made: super::Made {
                patience: Some(Duration::from_secs(32)),
                ..made(|| Tamper {
                    is_mute: true,
                    ..Tamper::default()
                })
            },
            ..advice(
                "se-no-keep-alive",
                "A46-SSE-06",
                "A silent stream sends no keep-alive comments.",
                Tamper::default,
            )
        },
    ]
}

fn lines() -> Vec<Mutant> {
    vec![
        advice(
            "se-lines-hidden",
            "A46-PROJ-01",
            "Only the end of a turn is reported.",
            || {
                Tamper::frames(
                    |frame| match frame.line().is_some() && !frame.is_turn_end() {
                        true => Vec::new(),
                        false => vec![frame],
                    },
                )
            },
        ),
        advice(
            "se-lines-glued",
            "A46-PROJ-02",
            "A line contains several lines.",
            || {
                Tamper::lines(|data| {
                    let text = data["line"].as_str().unwrap_or_default();
                    if text.contains("turn-end") {
                        return;
                    }
                    data["line"] = json!(text.replace(' ', "\n"));
                })
            },
        ),
        advice(
            "se-thought-plain",
            "A46-PROJ-03",
            "A thought looks like text.",
            || unprefixed("[thought] "),
        ),
        advice(
            "se-tool-plain",
            "A46-PROJ-04",
            "A tool call looks like text.",
            || unprefixed("[tool] "),
        ),
        advice(
            "se-question-plain",
            "A46-PROJ-06",
            "A question looks like text.",
            || unprefixed("[awaiting input] "),
        ),
        advice(
            "se-end-unreasoned",
            "A46-PROJ-07",
            "The end of a turn has no reason.",
            || {
                Tamper::lines(|data| {
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

fn unprefixed(prefix: &'static str) -> Tamper {
    Tamper {
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
        ..Tamper::default()
    }
}
