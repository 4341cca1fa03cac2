//! Our own daemon, wrong in exactly one way, and right in odd ones: the judge is judged by them.
//! The daemon itself knows nothing of it; whatever is wrong is done between it and the client.

mod access;
mod frames;
mod life;
mod records;
mod tamper;
mod tools;
mod trial;
mod turns;
mod variants;

use std::time::Duration;

use serde_json::Value;

use agentproto_daemon::Registry;
use agentproto_mock::model;
use frames::Frame;
pub use tamper::Tamper;
use tamper::{Asked, Memory, Reply, Route};
pub use trial::Stage;
pub use variants::variants;

pub type Mutant = model::Mutant<Made>;
/// A host that conforms, and does not look like ours.
pub type Variant = model::Variant<Made>;

/// How a host is made out of our daemon.
pub struct Made {
    pub(super) tamper: fn() -> Tamper,
    /// Long enough to hear that nothing comes.
    pub(super) patience: Option<Duration>,
    /// Between two comments of a silent stream.
    pub(super) keep_alive: Option<Duration>,
    /// The caller has no token.
    pub(super) is_open: bool,
}

pub fn mutants() -> Vec<Mutant> {
    let mut all = records::mutants();
    all.extend(life::mutants());
    all.extend(turns::mutants());
    all.extend(tools::mutants());
    all.extend(access::mutants());
    all
}

fn made(tamper: fn() -> Tamper) -> Made {
    Made {
        tamper,
        patience: None,
        keep_alive: None,
        is_open: false,
    }
}

fn wrong(
    id: &'static str,
    requirement: &'static str,
    wrong: &'static str,
    tamper: fn() -> Tamper,
) -> Mutant {
    Mutant::new(id, requirement, made(tamper)).says(wrong)
}

/// Against something that the text only advises, or says nothing of.
fn advice(
    id: &'static str,
    requirement: &'static str,
    what: &'static str,
    tamper: fn() -> Tamper,
) -> Mutant {
    wrong(id, requirement, what, tamper).warns()
}

impl Tamper {
    fn before(
        change: impl Fn(&mut Asked, &mut Memory, &Registry) -> Option<Reply> + Send + Sync + 'static,
    ) -> Tamper {
        Tamper {
            before: Some(Box::new(change)),
            ..Tamper::default()
        }
    }

    fn after(change: impl Fn(&Asked, &mut Reply, &mut Memory) + Send + Sync + 'static) -> Tamper {
        Tamper {
            after: Some(Box::new(change)),
            ..Tamper::default()
        }
    }

    /// Answers of one route that are no refusals.
    fn of(route: Route, change: fn(&mut Reply)) -> Tamper {
        Tamper::after(move |asked, reply, _| {
            if asked.route == route && reply.status < 300 {
                change(reply);
            }
        })
    }

    /// The record of a session, wherever it is told.
    fn record(change: fn(&mut Value)) -> Tamper {
        Tamper::after(move |asked, reply, _| each_record(asked, reply, &change))
    }

    /// Every frame of a stream.
    fn frames(change: fn(Frame) -> Vec<Frame>) -> Tamper {
        Tamper {
            frame: Some(Box::new(move |frame, _| change(frame))),
            ..Tamper::default()
        }
    }

    /// The data of every `line`.
    fn lines(change: fn(&mut Value)) -> Tamper {
        Tamper {
            frame: Some(Box::new(move |frame, _| {
                vec![match frame.line() {
                    Some(mut data) => {
                        change(&mut data);
                        Frame::new("line", &data)
                    }
                    None => frame,
                }]
            })),
            ..Tamper::default()
        }
    }

    /// What a tool gives.
    fn tool(name: &'static str, change: fn(&Asked, &mut Value)) -> Tamper {
        Tamper::after(move |asked, reply, _| {
            if asked.tool() == name {
                of_tool(reply, |value| change(asked, value));
            }
        })
    }
}

fn each_record(asked: &Asked, reply: &mut Reply, change: &impl Fn(&mut Value)) {
    let each = |list: &mut Value| {
        for record in list.as_array_mut().into_iter().flatten() {
            change(record);
        }
    };
    match (asked.route, asked.tool()) {
        _ if reply.status >= 300 => {}
        (Route::Spawn | Route::Show, _) => change(&mut reply.body),
        (Route::List, _) => each(&mut reply.body["sessions"]),
        (Route::Mcp, "start_agent_session") => of_tool(reply, change),
        (Route::Mcp, "list_agent_sessions") => {
            of_tool(reply, |value| each(&mut value["sessions"]));
        }
        _ => {}
    }
}

/// The value that a tool gives, in both places where it stands. An error is left as it is.
fn of_tool(reply: &mut Reply, change: impl Fn(&mut Value)) {
    let result = &mut reply.body["result"];
    if !result.is_object() || result["isError"] == true {
        return;
    }
    let mut value = result["structuredContent"].clone();
    change(&mut value);
    result["content"] = serde_json::json!([{"type": "text", "text": value.to_string()}]);
    result["structuredContent"] = value;
}

fn remove(value: &mut Value, name: &str) {
    if let Some(members) = value.as_object_mut() {
        members.remove(name);
    }
}
