//! Declared capabilities (AIP-45): compared with the bound ACP.md, with the handshake, and with what
//! the agent does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use serde_json::json;

use crate::arm::Negotiated;
use crate::bundle::Bundle;
use crate::context::Context;
use crate::error::{Code, Error};
use crate::event::{StopReason, StreamEvent};
use crate::observe::Observer;
use agentproto_manifest::views::{AcpProfile, AgentCli, View};
use agentproto_manifest::{Disk, Node, RefRole, Workspace};
use agentproto_text::clip;

/// Maximum number of bytes of a tool name in a warning.
const MAX_NAME: usize = 80;

/// Where a manifest declares that the agent can resume sessions: `capabilities.resumable`, or
/// `session.mode`.
fn resumable<'d>(agent: AgentCli<'d>) -> Option<(&'d Node, &'static str)> {
    let flag = agent.capabilities().and_then(|c| c.node().get("resumable"));
    if let Some(node) = flag.filter(|node| node.is_true()) {
        return Some((node, "`resumable`"));
    }
    let mode = agent.session().and_then(|s| s.node().get("mode"))?;
    (mode.as_str() == Some("resumable")).then_some((mode, "`session.mode: resumable`"))
}

fn multimodal<'d>(agent: AgentCli<'d>) -> Option<&'d Node> {
    let flag = agent
        .capabilities()
        .and_then(|c| c.node().get("multimodal"));
    flag.filter(|node| node.is_true())
}

fn mismatch(bundle: &Bundle, node: &Node, what: &str) -> Error {
    let pointer = bundle.manifest.pointer_of(node).unwrap_or_default();
    bundle
        .error_at(Code::CapabilityMismatch, node, what)
        .hint("fix the manifest or update the agent")
        .details(json!({ "declared": pointer }))
}

/// Checks declared capabilities against the bound ACP.md (A45-CAP-10, A45-SESS-08). Only
/// `resumable` and `multimodal` have a counterpart there. What an ACP.md does not declare is not in
/// it.
pub(crate) fn check_declared(bundle: &Bundle, agent: AgentCli) -> Result<(), Error> {
    let Some(reference) = agent.acp() else {
        return Ok(());
    };
    let node = bundle.root().get("acp").unwrap_or(bundle.root());
    let workspace = Workspace::new(&Disk, "/");
    let found = workspace.resolve(&bundle.manifest, RefRole::Acp, reference);
    let Some(doc) = found.document() else {
        return Err(bundle.invalid(
            node,
            &format!("cannot read the ACP.md `{reference}` (AIP-45, protocol discriminator)"),
        ));
    };
    let Some(View::Acp(acp)) = doc.view() else {
        return Err(bundle.invalid(node, &format!("`{reference}` is not an ACP.md (AIP-44)")));
    };
    let profile = acp.profile();
    if let Some((node, name)) = resumable(agent)
        && let Some(why) = profile.map_or(Some(NO_PROFILE), no_load_session)
    {
        let what = format!("{name} is declared, but {why} (AIP-45, Session model)");
        return Err(mismatch(bundle, node, &what));
    }
    let takes = |kind| {
        let path = ["promptCapabilities", kind];
        profile.and_then(|p| p.agent_capability(&path)) == Some(true)
    };
    if let Some(node) = multimodal(agent)
        && !takes("image")
        && !takes("audio")
    {
        let what = "`multimodal` is declared, but the ACP.md declares neither images nor audio (AIP-45, Capabilities)";
        return Err(mismatch(bundle, node, what));
    }
    Ok(())
}

const NO_PROFILE: &str = "the ACP.md declares no capabilities (`metadata.aip44`)";

/// Why an ACP.md does not declare that sessions can be loaded. An explicit flag overrides the tier.
fn no_load_session(profile: AcpProfile) -> Option<&'static str> {
    match (profile.agent_capability(&["loadSession"]), profile.tier()) {
        (Some(true), _) | (None, Some("governance-aware" | "sandboxed")) => None,
        (Some(false), _) => Some("the ACP.md has `loadSession: false`"),
        (None, _) => Some("the ACP.md does not declare `loadSession`"),
    }
}

/// Checks declared capabilities against what the agent reported in the handshake.
pub(crate) fn check_negotiated(bundle: &Bundle, negotiated: &Negotiated) -> Result<(), Error> {
    let Some(agent) = bundle.agent() else {
        return Ok(());
    };
    if let Some((node, name)) = resumable(agent)
        && negotiated.resumable == Some(false)
    {
        let what = format!(
            "the manifest declares {name}, but the running agent offers neither session/load nor session/resume (AIP-45, Session model)"
        );
        return Err(mismatch(bundle, node, &what));
    }
    if let Some(node) = multimodal(agent)
        && negotiated.multimodal == Some(false)
    {
        let what = "the manifest declares `multimodal`, but the running agent accepts only text (AIP-45, Capabilities)";
        return Err(mismatch(bundle, node, what));
    }
    Ok(())
}

/// A declared flag, and whether a contradiction was reported.
struct Flag {
    name: &'static str,
    declared: Option<bool>,
    reported: AtomicBool,
}

/// Compares the declared capabilities with the events of a session. Reports each contradiction once
/// (A45-CAP-02 and following).
///
/// `resumable` and `multimodal` are compared in the handshake. `sub_agents` cannot be seen in the
/// events.
pub struct CapabilityMonitor {
    observer: Arc<dyn Observer>,
    streaming: Flag,
    tool_calls: Flag,
    file_io: Flag,
    bidirectional: Flag,
    /// Number of text deltas in the current turn.
    deltas: AtomicU32,
    /// Whether the current turn has produced anything.
    has_output: AtomicBool,
}

impl CapabilityMonitor {
    pub(crate) fn new(context: &Context) -> Arc<Self> {
        let agent = context.bundle.agent();
        let declared = agent.and_then(|agent| agent.capabilities());
        let flag = |name| Flag {
            name,
            declared: declared.and_then(|c| c.node().get(name)?.as_bool()),
            reported: AtomicBool::new(false),
        };
        Arc::new(CapabilityMonitor {
            observer: Arc::clone(&context.observer),
            streaming: flag("streaming"),
            tool_calls: flag("tool_calls"),
            file_io: flag("file_io"),
            bidirectional: flag("bidirectional"),
            deltas: AtomicU32::new(0),
            has_output: AtomicBool::new(false),
        })
    }

    fn contradict(&self, flag: &Flag, declared: bool, does: impl FnOnce() -> String) {
        if flag.declared != Some(declared) || flag.reported.swap(true, Ordering::Relaxed) {
            return;
        }
        let what = format!(
            "the manifest declares `capabilities.{}: {declared}`, but {} (AIP-45, Capabilities)",
            flag.name,
            does()
        );
        self.observer.warning("capability_contradicted", &what);
    }

    /// A turn starts.
    pub(crate) fn begin_turn(&self) {
        self.deltas.store(0, Ordering::Relaxed);
        self.has_output.store(false, Ordering::Relaxed);
    }

    /// The agent sent an event.
    pub(crate) fn event(&self, event: &StreamEvent) {
        self.has_output.store(true, Ordering::Relaxed);
        match event {
            StreamEvent::TextDelta { .. } => {
                let is_second = self.deltas.fetch_add(1, Ordering::Relaxed) == 1;
                if is_second {
                    let does = || "the agent sends its text in pieces".to_owned();
                    self.contradict(&self.streaming, false, does);
                }
            }
            StreamEvent::ToolCall { name, kind, .. } => {
                let does = || format!("the agent called the tool `{}`", clip(name, MAX_NAME));
                self.contradict(&self.tool_calls, false, does);
                if matches!(kind.as_deref(), Some("read" | "edit" | "delete" | "move")) {
                    self.file_access();
                }
            }
            StreamEvent::AgentPrompt { .. } => {
                let does = || "the agent asked a question".to_owned();
                self.contradict(&self.bidirectional, false, does);
            }
            _ => {}
        }
    }

    /// The agent read or wrote a file through the host.
    pub(crate) fn file_access(&self) {
        let does = || "the agent accesses files".to_owned();
        self.contradict(&self.file_io, false, does);
    }

    /// A turn ended.
    pub(crate) fn end_turn(&self, reason: &StopReason) {
        if *reason == StopReason::EndTurn && !self.has_output.load(Ordering::Relaxed) {
            let does = || "a turn ended without any output".to_owned();
            self.contradict(&self.streaming, true, does);
        }
    }
}
