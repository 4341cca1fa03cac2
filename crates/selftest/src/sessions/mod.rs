//! Self-test of the sessions suite: this project's daemon with one defect each, and conforming
//! hosts with unusual features. The daemon itself is not changed. A layer between it and the
//! client makes the changes.

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

/// A host with one defect.
pub type Mutant = model::Mutant<Made>;
/// A conforming host that differs from this project's daemon.
pub type Variant = model::Variant<Made>;

/// How a host is generated from the daemon.
pub struct Made {
    pub(super) tamper: fn() -> Tamper,
    /// Response timeout, if the default is too short to detect silence.
    pub(super) patience: Option<Duration>,
    /// Interval between comments on a silent stream.
    pub(super) keep_alive: Option<Duration>,
    /// Whether the client has no token.
    pub(super) is_open: bool,
}

/// All mutants.
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

/// A mutant that violates a recommendation, or something that the spec does not mention.
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

    /// Changes the successful responses of one route.
    fn of(route: Route, change: fn(&mut Reply)) -> Tamper {
        Tamper::after(move |asked, reply, _| {
            if asked.route == route && reply.status < 300 {
                change(reply);
            }
        })
    }

    /// Changes the record of a session in every response.
    fn record(change: fn(&mut Value)) -> Tamper {
        Tamper::after(move |asked, reply, _| each_record(asked, reply, &change))
    }

    /// Changes every frame of a stream.
    fn frames(change: fn(Frame) -> Vec<Frame>) -> Tamper {
        Tamper {
            frame: Some(Box::new(move |frame, _| change(frame))),
            ..Tamper::default()
        }
    }

    /// Changes the data of every `line` event.
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

    /// Changes the result of an MCP tool.
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

/// Changes the value of a tool result, in both places that contain it. Errors are not changed.
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
