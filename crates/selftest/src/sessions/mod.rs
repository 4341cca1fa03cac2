//! Self-test of the sessions suite: this project's daemon with one defect each, and conforming
//! hosts with unusual features. The daemon itself is not changed. A layer between it and the
//! client makes the changes.

mod access;
mod bench;
mod changes;
mod door;
mod frames;
mod life;
mod records;
mod tools;
mod turns;
mod variants;

use std::time::Duration;

use serde_json::Value;

use agentproto_daemon::Registry;
use agentproto_mock::model;
pub use bench::HostBench;
pub use changes::HostChanges;
use changes::{ClientRequest, HostResponse, HostState, Route};
use frames::Frame;
pub use variants::variants;

/// A host with one defect.
pub type Mutant = model::Mutant<HostSpec>;
/// A conforming host that differs from this project's daemon.
pub type Variant = model::Variant<HostSpec>;

/// How a host is generated from the daemon.
pub struct HostSpec {
    pub(super) changes: fn() -> HostChanges,
    /// Response timeout, if the default is too short to detect silence.
    pub(super) timeout: Option<Duration>,
    /// Interval between comments on a silent stream.
    pub(super) keep_alive: Option<Duration>,
    /// Whether the client has no token.
    pub(super) without_token: bool,
    /// Whether clients use the MCP server over stdio, and how what it writes is changed.
    pub(super) door: Option<door::LineChange>,
}

/// All mutants.
pub fn mutants() -> Vec<Mutant> {
    let mut all = records::mutants();
    all.extend(life::mutants());
    all.extend(turns::mutants());
    all.extend(tools::mutants());
    all.extend(access::mutants());
    all.extend(door::mutants());
    all
}

fn host_spec(changes: fn() -> HostChanges) -> HostSpec {
    HostSpec {
        changes,
        timeout: None,
        keep_alive: None,
        without_token: false,
        door: None,
    }
}

fn mutant(
    id: &'static str,
    requirement: &'static str,
    defect: &'static str,
    changes: fn() -> HostChanges,
) -> Mutant {
    Mutant::new(id, requirement, host_spec(changes)).describe(defect)
}

/// A mutant that violates a recommendation, or something that the spec does not mention.
fn recommendation(
    id: &'static str,
    requirement: &'static str,
    what: &'static str,
    changes: fn() -> HostChanges,
) -> Mutant {
    mutant(id, requirement, what, changes).expect_warning()
}

impl HostChanges {
    fn before(
        change: impl Fn(&mut ClientRequest, &mut HostState, &Registry) -> Option<HostResponse>
        + Send
        + Sync
        + 'static,
    ) -> HostChanges {
        HostChanges {
            before: Some(Box::new(change)),
            ..HostChanges::default()
        }
    }

    fn after(
        change: impl Fn(&ClientRequest, &mut HostResponse, &mut HostState) + Send + Sync + 'static,
    ) -> HostChanges {
        HostChanges {
            after: Some(Box::new(change)),
            ..HostChanges::default()
        }
    }

    /// Changes the successful responses of one route.
    fn of(route: Route, change: fn(&mut HostResponse)) -> HostChanges {
        HostChanges::after(move |incoming, reply, _| {
            if incoming.route == route && reply.status < 300 {
                change(reply);
            }
        })
    }

    /// Changes the record of a session in every response.
    fn record(change: fn(&mut Value)) -> HostChanges {
        HostChanges::after(move |incoming, reply, _| each_record(incoming, reply, &change))
    }

    /// Changes every frame of a stream.
    fn frames(change: fn(Frame) -> Vec<Frame>) -> HostChanges {
        HostChanges {
            frame: Some(Box::new(move |frame, _| change(frame))),
            ..HostChanges::default()
        }
    }

    /// Changes the data of every `line` event.
    fn lines(change: fn(&mut Value)) -> HostChanges {
        HostChanges {
            frame: Some(Box::new(move |frame, _| {
                vec![match frame.line() {
                    Some(mut data) => {
                        change(&mut data);
                        Frame::new("line", &data)
                    }
                    None => frame,
                }]
            })),
            ..HostChanges::default()
        }
    }

    /// Changes the result of an MCP tool.
    fn tool(name: &'static str, change: fn(&ClientRequest, &mut Value)) -> HostChanges {
        HostChanges::after(move |incoming, reply, _| {
            if incoming.tool() == name {
                of_tool(reply, |value| change(incoming, value));
            }
        })
    }
}

fn each_record(incoming: &ClientRequest, reply: &mut HostResponse, change: &impl Fn(&mut Value)) {
    let each = |list: &mut Value| {
        for record in list.as_array_mut().into_iter().flatten() {
            change(record);
        }
    };
    match (incoming.route, incoming.tool()) {
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
fn of_tool(reply: &mut HostResponse, change: impl Fn(&mut Value)) {
    of_tool_result(&mut reply.body["result"], change);
}

fn of_tool_result(result: &mut Value, change: impl Fn(&mut Value)) {
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
