//! A session: runs turns one after the other on one agent, and then ends it.

mod masked;

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use futures::Stream;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use self::masked::Masked;
use crate::arm::gate::ToolGate;
use crate::arm::permissions::{Answer, PermissionBroker};
use crate::arm::{Arm, EventSink};
use crate::capabilities::CapabilityMonitor;
use crate::context::Context;
use crate::error::{Code, Error};
use crate::event::{StopReason, StreamEvent};
use crate::observe::Stage;
use crate::usage::UsageReport;
use agentproto_sandbox::spawn::Exit;
use agentproto_text::redact::SecretRedactor;

/// Maximum number of events queued for a slow reader. Beyond it, the agent's output waits in its
/// own buffer.
const MAX_QUEUED_EVENTS: usize = 256;

/// Limits of a session, from the manifest and the caller.
#[derive(Clone, Debug)]
pub struct SessionLimits {
    /// Maximum time between two turns. After it, the session is closed.
    pub idle: Duration,
    /// Maximum number of turns, or `None` for no limit.
    pub max_turns: Option<u64>,
    /// Maximum time for one turn, or `None` for no limit.
    pub turn_timeout: Option<Duration>,
}

/// How a session ended.
#[derive(Clone, Copy, Debug)]
pub struct Closed {
    /// The agent's exit, or `None` if no agent process was running.
    pub exit: Option<Exit>,
    /// Why it was closed.
    pub why: CloseReason,
}

/// Why a session was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum CloseReason {
    /// The caller closed it.
    Closed,
    /// No turn started within the idle limit.
    Idle,
    /// The agent exited between turns.
    Left,
    /// The agent is unusable after an error.
    Broken,
    /// Its last client disconnected, and it is ephemeral (A45-SESS-05).
    Disconnected,
}

/// An open session. Dropping it kills the agent and all its children. `close` shuts it down in
/// order.
pub struct Session {
    inner: Arc<Inner>,
}

struct Inner {
    context: Arc<Context>,
    arm: Box<dyn Arm>,
    broker: PermissionBroker,
    id: String,
    limits: SessionLimits,
    turns: AtomicU64,
    busy: AtomicBool,
    closed: AtomicBool,
    /// Time at which a turn last started or ended. The lock is held while a turn is admitted and
    /// while idleness is checked, so that the two exclude each other.
    last_activity: Mutex<Instant>,
    /// The newest turn.
    working: Mutex<Option<Working>>,
    /// Only one task closes the session. Others wait for it.
    closing: tokio::sync::Mutex<()>,
    ended: watch::Sender<Option<Closed>>,
    monitor: Arc<CapabilityMonitor>,
    gate: Arc<ToolGate>,
}

/// A turn's task and its cancel signal. Each turn has its own signal, so that a late cancel does
/// not reach the next turn.
struct Working {
    task: AbortHandle,
    cancel: watch::Sender<bool>,
}

impl Session {
    pub(super) fn new(
        context: Arc<Context>,
        arm: Box<dyn Arm>,
        broker: PermissionBroker,
        id: String,
        mut limits: SessionLimits,
    ) -> Self {
        // A second turn would share the context of the first (A45-SESS-04).
        if !carries_over(&context) {
            limits.max_turns = Some(limits.max_turns.map_or(1, |max| max.min(1)));
        }
        let inner = Arc::new(Inner {
            monitor: CapabilityMonitor::new(&context),
            gate: ToolGate::new(broker.clone(), Arc::clone(&context.observer)),
            context,
            arm,
            broker,
            id,
            limits,
            turns: AtomicU64::new(0),
            busy: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            last_activity: Mutex::new(Instant::now()),
            working: Mutex::new(None),
            closing: tokio::sync::Mutex::default(),
            ended: watch::Sender::new(None),
        });
        tokio::spawn(close_when_idle(Arc::downgrade(&inner), inner.limits.idle));
        tokio::spawn(close_when_agent_exits(
            Arc::downgrade(&inner),
            inner.arm.exited(),
        ));
        Session { inner }
    }

    /// The agent's own id of the session, which a later run can resume.
    pub fn id(&self) -> String {
        self.inner
            .arm
            .session_id()
            .unwrap_or_else(|| self.inner.id.clone())
    }

    /// Whether the session is closed and accepts no more turns.
    pub fn is_closed(&self) -> bool {
        self.inner.closed.load(Ordering::Acquire)
    }

    /// Waits until the session has ended, whether a caller closed it, it was idle, or the agent
    /// exited.
    pub fn ended(&self) -> impl Future<Output = Option<Closed>> + Send + 'static {
        let mut ended = self.inner.ended.subscribe();
        async move {
            let ended = ended.wait_for(Option::is_some).await;
            ended.ok().and_then(|closed| *closed)
        }
    }

    /// Whether it has used all its turns, and the last one has ended.
    pub fn has_used_all_turns(&self) -> bool {
        let taken = self.inner.turns.load(Ordering::Acquire);
        let max = self.inner.limits.max_turns;
        max.is_some_and(|max| taken >= max) && !self.inner.busy.load(Ordering::Acquire)
    }

    /// Starts a turn. Returns an error if another turn is running (`session_busy`), or if
    /// `max_turns` is reached.
    pub fn send(&self, message: impl Into<String>) -> Result<Turn, Error> {
        let inner = &self.inner;
        let mut last_activity = inner.last_activity.lock();
        if self.is_closed() {
            return Err(Error::new(Code::SessionClosed, "the session is closed"));
        }
        if inner.busy.swap(true, Ordering::AcqRel) {
            return Err(
                Error::new(Code::SessionBusy, "the previous turn is still running")
                    .hint("wait until it ends, or cancel it"),
            );
        }
        let taken = inner.turns.load(Ordering::Acquire);
        if inner.limits.max_turns.is_some_and(|max| taken >= max) {
            inner.busy.store(false, Ordering::Release);
            let key = match carries_over(&inner.context) {
                true => "session.max_turns",
                false => "session.context_carryover: false",
            };
            return Err(Error::new(
                Code::TurnsSpent,
                format!("the session has used all its turns ({taken}, `{key}`, AIP-45)"),
            )
            .hint("start a new session"));
        }
        inner.turns.store(taken + 1, Ordering::Release);
        *last_activity = Instant::now();
        drop(last_activity);
        let (sink, events) = mpsc::channel(MAX_QUEUED_EVENTS);
        let (cancel, cancelled) = watch::channel(false);
        let worker = Arc::clone(inner);
        let message = message.into();
        let task =
            tokio::spawn(async move { worker.turn(message, sink, cancelled, taken + 1).await });
        let task = task.abort_handle();
        *inner.working.lock() = Some(Working { task, cancel });
        Ok(Turn {
            events,
            masked: Masked::new(&inner.context.masks),
            over: false,
        })
    }

    /// Cancels the running turn, if there is one. It ends with `cancelled` within a second.
    pub async fn cancel(&self) -> Result<bool, Error> {
        let busy = self.inner.busy.load(Ordering::Acquire);
        if busy {
            self.inner
                .context
                .audit
                .record("turn.cancel", json!({ "session": self.inner.id }))?;
            let working = &self.inner.working;
            let working = working.lock();
            if let Some(working) = &*working {
                working.cancel.send_replace(true);
            }
        }
        Ok(busy)
    }

    /// Masks the secrets of this session in foreign text.
    pub fn masked<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.inner.context.masks.mask(text)
    }

    /// Answers a question that came as `agent-prompt`. Returns false if no question with that id is
    /// open, or if the answer does not fit it.
    pub fn answer(&self, id: &str, answer: Answer) -> bool {
        self.respond(id, answer).is_ok()
    }

    /// Like `answer`, but returns why the answer was not used. A question whose answer does not fit
    /// stays open.
    pub fn respond(&self, id: &str, answer: Answer) -> Result<(), Error> {
        self.inner.broker.answer(id, answer)
    }

    /// Whether a question is waiting for `answer`. Others are already decided.
    pub fn has_open_question(&self, id: &str) -> bool {
        self.inner.broker.is_open(id)
    }

    /// The sessions that the agent knows about.
    pub async fn list(&self) -> Result<serde_json::Value, Error> {
        self.inner.arm.list().await
    }

    /// Closes the session and ends the agent: the protocol's close, end of stdin, SIGTERM, five
    /// seconds, SIGKILL.
    pub async fn close(&self) -> Result<Closed, Error> {
        self.inner.close(CloseReason::Closed).await
    }

    /// Like `close`, for an ephemeral session whose last client has disconnected.
    pub async fn close_disconnected(&self) -> Result<Closed, Error> {
        self.inner.close(CloseReason::Disconnected).await
    }

    /// Maximum time between two turns.
    pub fn idle_limit(&self) -> Duration {
        self.inner.limits.idle
    }
}

impl Drop for Session {
    /// Aborts the turn's task. After that nothing references the agent, and it is killed.
    fn drop(&mut self) {
        let working = self.inner.working.lock().take();
        if let Some(working) = working {
            working.task.abort();
        }
    }
}

impl Inner {
    fn touch(&self) {
        *self.last_activity.lock() = Instant::now();
    }

    async fn turn(
        &self,
        message: String,
        sink: mpsc::Sender<StreamEvent>,
        cancelled: watch::Receiver<bool>,
        number: u64,
    ) {
        self.context
            .observer
            .stage(Stage::Turn, &number.to_string());
        let events = EventSink::new(sink.clone(), Arc::clone(&self.context.audit))
            .monitored(Arc::clone(&self.monitor))
            .gated(Arc::clone(&self.gate));
        self.monitor.begin_turn();
        let recorded = self.context.audit.record(
            "turn.begin",
            json!({ "session": self.id, "turn": number, "bytes": message.len(), "state": "running" }),
        );
        let ended = match recorded {
            Ok(()) => self.bounded(&message, events.clone(), cancelled).await,
            Err(error) => Err(error),
        };
        if let Ok(reason) = &ended {
            self.monitor.end_turn(reason);
        }
        let ended = match events.finish_calls() {
            Ok(()) => ended,
            Err(error) => ended.and(Err(error)),
        };
        let mut entry = json!({ "session": self.id, "turn": number });
        // The states of an operator (A44-OP-10).
        let state = match &ended {
            Ok(StopReason::Cancelled) | Err(_) => "interrupted",
            Ok(_) => "completed",
        };
        entry["state"] = state.into();
        match &ended {
            Ok(reason) => entry["reason"] = json!(reason),
            Err(error) => entry["error"] = error.code.as_str().into(),
        }
        // A turn whose end cannot be audited ends with an error.
        let audit = &self.context.audit;
        let flushed = audit.flush();
        let ended = ended.and_then(|reason| {
            flushed?;
            audit.record("turn.end", entry.clone()).map(|()| reason)
        });
        let mut broken = false;
        let last = match ended {
            Ok(reason) => {
                let UsageReport {
                    usage,
                    cost,
                    context,
                } = events.take_usage();
                StreamEvent::TurnEnd {
                    reason,
                    usage,
                    cost,
                    context,
                }
            }
            Err(error) => {
                let _ = self.context.audit.record("turn.end", entry);
                broken = matches!(error.code, Code::AgentExited | Code::ProtocolViolation);
                if broken {
                    self.closed.store(true, Ordering::Release);
                }
                error_event(&error, &self.context.masks)
            }
        };
        self.touch();
        self.busy.store(false, Ordering::Release);
        if !broken {
            let _ = sink.send(last).await;
            return;
        }
        // The agent is unusable, so it must not keep running. Sending the last event and closing do
        // not wait for each other.
        let _ = tokio::join!(sink.send(last), self.close(CloseReason::Broken));
    }

    /// Passes a cancel to the arm only while its turn is running. After that the arm would keep the
    /// cancel for the next turn.
    async fn bounded(
        &self,
        message: &str,
        events: EventSink,
        mut cancelled: watch::Receiver<bool>,
    ) -> Result<StopReason, Error> {
        if *cancelled.borrow() {
            return Ok(StopReason::Cancelled);
        }
        let late = async {
            match self.limits.turn_timeout {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        let cancel_requested = async {
            if cancelled.wait_for(|cancelled| *cancelled).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let mut turn = self.arm.turn(message, events);
        tokio::pin!(late, cancel_requested);
        tokio::select! {
            biased;
            ended = &mut turn => return ended,
            () = &mut cancel_requested => {
                let cancelling = async {
                    let _ = self.arm.cancel().await;
                    std::future::pending::<()>().await;
                };
                tokio::select! {
                    biased;
                    () = cancelling => {}
                    ended = &mut turn => return ended,
                    () = &mut late => {}
                }
            }
            () = &mut late => {
                let _ = self.arm.cancel().await;
            }
        }
        let _ = turn.await;
        let limit = self.limits.turn_timeout.unwrap_or_default();
        Err(Error::new(
            Code::TurnTimeout,
            format!(
                "the turn took longer than {} s and was canceled",
                limit.as_secs_f64()
            ),
        )
        .hint("use a higher `--turn-timeout` or `runner.limits.timeout_ms`"))
    }

    /// Returns when to check again, or `None` if the session was idle and accepts no more turns.
    fn close_if_idle(&self, limit: Duration) -> Option<Instant> {
        let last_activity = self.last_activity.lock();
        let now = Instant::now();
        let due = *last_activity + limit;
        if self.busy.load(Ordering::Acquire) {
            return Some(now + limit);
        }
        if due > now {
            return Some(due);
        }
        self.closed.store(true, Ordering::Release);
        None
    }

    async fn close(&self, why: CloseReason) -> Result<Closed, Error> {
        let _closing = self.closing.lock().await;
        if let Some(closed) = *self.ended.borrow() {
            return Ok(closed);
        }
        self.closed.store(true, Ordering::Release);
        self.touch();
        let observer = &self.context.observer;
        observer.stage(Stage::Close, &self.id);
        if self.busy.load(Ordering::Acquire) {
            let _ = self.arm.cancel().await;
        }
        let _ = self.arm.close().await;
        let text: &str = why.into();
        observer.stage(Stage::Teardown, text);
        let exit = self.arm.stop().await;
        let closed = Closed { exit, why };
        self.ended.send_replace(Some(closed));
        let survivors = exit.map(|e| e.usage.survivors);
        self.context.audit.flush()?;
        self.context.audit.record(
            "session.close",
            json!({ "session": self.id, "why": text, "exit_code": exit.and_then(|e| e.status.code()), "killed_with_it": survivors }),
        )?;
        Ok(closed)
    }
}

/// Whether turns may share context. True unless the manifest sets `context_carryover: false`.
pub(super) fn carries_over(context: &Context) -> bool {
    let session = context.bundle.agent().and_then(|agent| agent.session());
    session.and_then(|session| session.context_carryover()) != Some(false)
}

/// Closes an unused session (A45-SESS-02). Holds a weak reference, so that the timer does not keep
/// a dropped session alive.
async fn close_when_idle(session: Weak<Inner>, limit: Duration) {
    let mut wake = Instant::now() + limit;
    loop {
        tokio::time::sleep_until(wake).await;
        let Some(inner) = session.upgrade() else {
            return;
        };
        if inner.closed.load(Ordering::Acquire) {
            return;
        }
        if let Some(later) = inner.close_if_idle(limit) {
            wake = later;
        } else {
            let observer = &inner.context.observer;
            let what = format!(
                "closing the session: it was idle for {} s",
                limit.as_secs_f64()
            );
            observer.warning("session_idle", &what);
            let _ = inner.close(CloseReason::Idle).await;
            return;
        }
    }
}

/// Closes a session whose agent exited between turns. During a turn, the turn itself notices it.
async fn close_when_agent_exits(session: Weak<Inner>, exited: impl Future<Output = ()>) {
    exited.await;
    let Some(inner) = session.upgrade() else {
        return;
    };
    let between = {
        let _held = inner.last_activity.lock();
        let between = !inner.busy.load(Ordering::Acquire);
        if between {
            inner.closed.store(true, Ordering::Release);
        }
        between
    };
    if between {
        let _ = inner.close(CloseReason::Left).await;
    }
}

/// Converts an error to the last event of a turn.
pub fn error_event(error: &Error, masks: &SecretRedactor) -> StreamEvent {
    let mut details = error.details.clone();
    masks.mask_value(&mut details);
    StreamEvent::Error {
        code: error.code.as_str().to_owned(),
        message: masks.mask(&error.message).into_owned(),
        hint: error
            .hint
            .as_ref()
            .map(|hint| masks.mask(hint).into_owned()),
        details: *details,
    }
}

/// The events of one turn, in order, with secrets masked. The last event is its end.
pub struct Turn {
    events: mpsc::Receiver<StreamEvent>,
    masked: Masked,
    /// Set after the last event was returned. Later events from other holders of the sink are
    /// ignored.
    over: bool,
}

impl Turn {
    /// The next event, or `None` after the last one.
    pub async fn next(&mut self) -> Option<StreamEvent> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Closes the channel after the last event, so that no sender waits for space in it.
    fn note_end(&mut self, event: StreamEvent) -> StreamEvent {
        if event.is_last() {
            self.over = true;
            self.events.close();
        }
        event
    }
}

impl Stream for Turn {
    type Item = StreamEvent;

    fn poll_next(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Option<StreamEvent>> {
        let this = self.get_mut();
        if this.over {
            return Poll::Ready(None);
        }
        loop {
            if let Some(event) = this.masked.ready.pop_front() {
                return Poll::Ready(Some(this.note_end(event)));
            }
            match this.events.poll_recv(cx) {
                Poll::Ready(Some(event)) => {
                    if let Some(event) = this.masked.take(event) {
                        return Poll::Ready(Some(this.note_end(event)));
                    }
                }
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

#[cfg(test)]
mod tests;
