//! The official Rust SDK as a client: every conforming variant of the ACP mock agent runs a turn
//! with it. An agent that the SDK cannot use does not conform.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    AuthMethod, AuthenticateRequest, ClientCapabilities, ContentBlock, CreateElicitationRequest,
    CreateElicitationResponse, ElicitationAcceptAction, ElicitationAction, InitializeRequest,
    LoadSessionRequest, NewSessionRequest, PermissionOptionKind, PromptRequest,
    RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse,
    SelectedPermissionOutcome, SessionNotification, SessionUpdate, StopReason, TextContent,
};
use agent_client_protocol::{
    Agent, Client, Error, Lines, on_receive_notification, on_receive_request,
};
use agentproto_mock::AgentKind;
use agentproto_mock::variants::{self, AgentVariant};
use futures::channel::mpsc;
use futures::{SinkExt, StreamExt};
use serde_json::json;

/// Time limit that a turn never reaches, even on a loaded machine.
const LONG: Duration = Duration::from_secs(120);
/// The protocol's error code for a missing login.
const AUTH_REQUIRED: i32 = -32000;

/// What the client saw.
#[derive(Default)]
struct Seen {
    text: Mutex<String>,
    updates: AtomicUsize,
    permissions: AtomicUsize,
}

/// Connects the stdin and stdout of a process to the SDK's transport.
fn start(
    variant: &AgentVariant,
    cwd: &Path,
) -> (
    std::process::Child,
    Lines<
        impl futures::Sink<String, Error = std::io::Error> + Send + 'static,
        impl futures::Stream<Item = std::io::Result<String>> + Send + 'static,
    >,
) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_agentproto"))
        .args(["mock", "acp", "--variant", variant.name])
        .current_dir(cwd)
        .env_remove("MOCK_STATE_DIR")
        .env_remove("MOCK_SCENARIO")
        .env_remove("MOCK_MUTANT")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut stdin = child.stdin.take().expect("stdin");
    let stdout = BufReader::new(child.stdout.take().expect("stdout"));
    let (heard, incoming) = mpsc::unbounded();
    std::thread::spawn(move || {
        for line in stdout.lines() {
            if heard.unbounded_send(line).is_err() {
                return;
            }
        }
    });
    let (outgoing, mut said) = mpsc::unbounded::<String>();
    tokio::spawn(async move {
        while let Some(line) = said.next().await {
            if writeln!(stdin, "{line}").is_err() {
                return;
            }
        }
    });
    let outgoing = outgoing.sink_map_err(std::io::Error::other);
    (child, Lines::new(outgoing, incoming))
}

fn allow(request: &RequestPermissionRequest) -> RequestPermissionOutcome {
    let options = request.options.iter();
    let mut allowing = options.filter(|o| o.kind == PermissionOptionKind::AllowOnce);
    match allowing.next() {
        Some(option) => RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(
            option.option_id.clone(),
        )),
        None => RequestPermissionOutcome::Cancelled,
    }
}

/// A login if one is required, a session, two turns, and the session loaded again.
async fn talk(variant: &AgentVariant, seen: Arc<Seen>) -> Result<(), Error> {
    let home = tempfile::tempdir().expect("a directory");
    let cwd = home.path().canonicalize().expect("a path");
    let (mut child, transport) = start(variant, &cwd);
    let (updates, asked) = (Arc::clone(&seen), Arc::clone(&seen));
    let fails = variant.scenario == "error";
    let done = Client
        .v1()
        .on_receive_notification(
            async move |note: SessionNotification, _| {
                updates.updates.fetch_add(1, Ordering::Relaxed);
                if let SessionUpdate::AgentMessageChunk(chunk) = note.update
                    && let ContentBlock::Text(text) = chunk.content
                {
                    updates.text.lock().expect("whole").push_str(&text.text);
                }
                Ok(())
            },
            on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, _| {
                asked.permissions.fetch_add(1, Ordering::Relaxed);
                responder.respond(RequestPermissionResponse::new(allow(&request)))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |_: CreateElicitationRequest, responder, _| {
                let accept = ElicitationAction::Accept(ElicitationAcceptAction::new());
                responder.respond(CreateElicitationResponse::new(accept))
            },
            on_receive_request!(),
        )
        .connect_with(transport, async move |agent: ConnectionTo<Agent>| {
            let capabilities = json!({
                "session": { "notices": {}, "compaction": {}, "configOptions": { "boolean": {} } },
                "elicitation": { "form": {}, "url": {} },
            });
            let capabilities: ClientCapabilities =
                serde_json::from_value(capabilities).expect("capabilities");
            let hello = InitializeRequest::new(ProtocolVersion::V1);
            let hello = agent.send_request(hello.client_capabilities(capabilities));
            let hello = hello.block_task().await?;
            assert_eq!(hello.protocol_version, ProtocolVersion::V1);
            let new = || agent.send_request(NewSessionRequest::new(cwd.clone()));
            let session = match new().block_task().await {
                Err(error) if i32::from(error.code) == AUTH_REQUIRED => {
                    let method = hello.auth_methods.first().map(AuthMethod::id);
                    let method = method.expect("a way to log in").clone();
                    let login = agent.send_request(AuthenticateRequest::new(method));
                    login.block_task().await?;
                    new().block_task().await?
                }
                opened => opened?,
            };
            // Two requests at the same time: the responses may arrive in any order.
            let (one, two) = futures::join!(new().block_task(), new().block_task());
            assert_ne!(one?.session_id, two?.session_id);
            for prompt in ["hello", "ask for permission"] {
                let text = ContentBlock::Text(TextContent::new(prompt));
                let turn = PromptRequest::new(session.session_id.clone(), vec![text]);
                match agent.send_request(turn).block_task().await {
                    Ok(end) => assert_eq!(end.stop_reason, StopReason::EndTurn),
                    Err(_) if fails => {}
                    Err(error) => return Err(error),
                }
            }
            // It loads a session only after it was closed.
            if hello.agent_capabilities.load_session && variant.name != "reopens-only-closed" {
                let again = LoadSessionRequest::new(session.session_id.clone(), cwd.clone());
                agent.send_request(again).block_task().await?;
            }
            Ok(())
        })
        .await;
    let _ = child.kill();
    let _ = child.wait();
    done
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_variant_runs_a_turn_with_the_official_sdk() {
    let all = variants::of(AgentKind::Acp);
    // Its sessions need a program that is not installed.
    let all = all.filter(|variant| variant.name != "program-missing");
    let all: Vec<&'static AgentVariant> = all.collect();
    assert!(all.len() >= 20);
    let next = Arc::new(AtomicUsize::new(0));
    let mut workers = Vec::new();
    for _ in 0..4 {
        let (all, next) = (all.clone(), Arc::clone(&next));
        workers.push(tokio::spawn(async move {
            let mut wrong = Vec::new();
            while let Some(variant) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                let seen = Arc::new(Seen::default());
                let talk = tokio::time::timeout(LONG, talk(variant, Arc::clone(&seen)));
                match talk.await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => wrong.push(format!("{}: {error:?}", variant.name)),
                    Err(_) => wrong.push(format!("{} did not finish", variant.name)),
                }
                let said = seen.text.lock().expect("whole").len();
                let is_silent = variant.scenario == "error" || variant.name == "plans-only";
                if said == 0 && !is_silent {
                    wrong.push(format!("{} said nothing", variant.name));
                }
                let asks = ["default", "permission-twice"].contains(&variant.scenario);
                if asks && seen.permissions.load(Ordering::Relaxed) == 0 {
                    wrong.push(format!("{} did not ask for permission", variant.name));
                }
            }
            wrong
        }));
    }
    let mut wrong = Vec::new();
    for worker in workers {
        wrong.extend(worker.await.expect("no panic"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
