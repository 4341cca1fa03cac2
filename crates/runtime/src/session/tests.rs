//! Tests of sessions with a fake arm.

use super::*;
use crate::arm::permissions::Permissions;
use crate::arm::{ArmFuture, Negotiated, OpenRequest};
use crate::bundle::Bundle;
use crate::context::{ContextOptions, Sandboxing};
use crate::home::Home;
use crate::interact::Headless;
use crate::observe::Silent;
use tokio::sync::Semaphore;

/// Ends each turn as its message says, and keeps a cancel until it is consumed.
struct Fake {
    cancels: watch::Sender<bool>,
    stopping: Arc<Semaphore>,
    stopped: Arc<AtomicBool>,
}

impl Arm for Fake {
    fn handshake(&self) -> ArmFuture<'_, Negotiated> {
        Box::pin(async { Ok(Negotiated::default()) })
    }
    fn open<'a>(&'a self, _: &'a OpenRequest) -> ArmFuture<'a, String> {
        Box::pin(async { Ok("s".to_owned()) })
    }
    fn turn<'a>(&'a self, message: &'a str, _: EventSink) -> ArmFuture<'a, StopReason> {
        Box::pin(async move {
            let mut cancels = self.cancels.subscribe();
            match message {
                "break" => Err(Error::new(Code::ProtocolViolation, "broken")),
                "wait" => {
                    let _ = cancels.wait_for(|cancelled| *cancelled).await;
                    self.cancels.send_replace(false);
                    Ok(StopReason::Cancelled)
                }
                _ if self.cancels.send_replace(false) => Ok(StopReason::Cancelled),
                _ => Ok(StopReason::EndTurn),
            }
        })
    }
    fn cancel(&self) -> ArmFuture<'_, ()> {
        self.cancels.send_replace(true);
        Box::pin(async { Ok(()) })
    }
    fn close(&self) -> ArmFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }
    fn stop(&self) -> Pin<Box<dyn Future<Output = Option<Exit>> + Send + '_>> {
        Box::pin(async {
            let _ = self.stopping.acquire().await;
            self.stopped.store(true, Ordering::Release);
            None
        })
    }
}

struct Stage {
    session: Session,
    stopping: Arc<Semaphore>,
    stopped: Arc<AtomicBool>,
    _dir: tempfile::TempDir,
}

fn stage() -> Stage {
    let dir = tempfile::tempdir().expect("a directory");
    let home = Home::new(dir.path());
    let bundle = Bundle::discover("mock-acp", &[], &home).expect("bundled");
    let options = ContextOptions {
        home,
        cwd: dir.path().to_owned(),
        host_env: Arc::default(),
        sandboxing: Sandboxing::Auto,
        sandbox: Default::default(),
        yes: true,
        observer: Arc::new(Silent),
        interact: Arc::new(Headless),
    };
    let context = Arc::new(Context::new(bundle, options).expect("a context"));
    let (stopping, stopped) = (Arc::new(Semaphore::new(0)), Arc::default());
    let arm = Fake {
        cancels: watch::Sender::new(false),
        stopping: Arc::clone(&stopping),
        stopped: Arc::clone(&stopped),
    };
    let limits = SessionLimits {
        idle: Duration::from_secs(600),
        max_turns: None,
        turn_timeout: None,
    };
    let broker = PermissionBroker::new(Permissions::Deny);
    Stage {
        session: Session::new(context, Box::new(arm), broker, "s".into(), limits),
        stopping,
        stopped,
        _dir: dir,
    }
}

async fn end(turn: &mut Turn) -> StreamEvent {
    let mut last = None;
    while let Some(event) = turn.next().await {
        last = Some(event);
    }
    last.expect("an end")
}

fn ended(reason: StopReason) -> StreamEvent {
    StreamEvent::turn_end(reason)
}

#[tokio::test]
async fn a_cancel_ends_only_its_own_turn() {
    let stage = stage();
    let mut turn = stage.session.send("wait").expect("sent");
    assert!(stage.session.cancel().await.expect("reported"));
    assert_eq!(end(&mut turn).await, ended(StopReason::Cancelled));
    end(&mut stage.session.send("x").expect("sent")).await;
    // A late cancel: the arm has finished the turn, but the session has not.
    stage.session.inner.busy.store(true, Ordering::Release);
    assert!(stage.session.cancel().await.expect("reported"));
    stage.session.inner.busy.store(false, Ordering::Release);
    let mut turn = stage.session.send("x").expect("sent");
    assert_eq!(end(&mut turn).await, ended(StopReason::EndTurn));
}

#[tokio::test]
async fn a_busy_session_is_not_idle_and_an_idle_one_rejects_turns() {
    let Stage { session, .. } = &stage();
    let mut turn = session.send("wait").expect("sent");
    assert!(session.inner.close_if_idle(Duration::ZERO).is_some());
    session.cancel().await.expect("reported");
    end(&mut turn).await;
    assert!(
        session
            .inner
            .close_if_idle(Duration::from_secs(60))
            .is_some()
    );
    assert!(!session.is_closed());
    assert!(session.inner.close_if_idle(Duration::ZERO).is_none());
    let refused = session.send("x").err().expect("closed");
    assert_eq!(refused.code, Code::SessionClosed);
}

#[tokio::test]
async fn after_a_protocol_violation_the_agent_is_stopped_and_the_last_event_sent() {
    let stage = stage();
    let mut turn = stage.session.send("break").expect("sent");
    // `stop` has not returned yet, but the event was sent.
    assert!(matches!(end(&mut turn).await, StreamEvent::Error { .. }));
    assert!(stage.session.is_closed() && !stage.stopped.load(Ordering::Acquire));
    stage.stopping.add_permits(1);
    // The session calls `stop` without a call of `close`.
    while !stage.stopped.load(Ordering::Acquire) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_turn_ends_with_its_last_event_even_if_the_sink_is_still_held() {
    let text = |text: &str| StreamEvent::TextDelta { text: text.into() };
    for secret in [None, Some("hunter22")] {
        let masks = SecretRedactor::default();
        secret.into_iter().for_each(|secret| masks.add(secret));
        let (sink, events) = mpsc::channel(MAX_QUEUED_EVENTS);
        let mut turn = Turn {
            events,
            masked: Masked::new(&masks),
            over: false,
        };
        for event in [text("a hunt"), ended(StopReason::EndTurn), text("late")] {
            sink.send(event).await.expect("room");
        }
        let mut text_so_far = String::new();
        let mut ends = 0;
        while let Some(event) = turn.next().await {
            match event {
                StreamEvent::TextDelta { text } => text_so_far.push_str(&text),
                other => ends += usize::from(other.is_last()),
            }
        }
        assert_eq!((text_so_far.as_str(), ends), ("a hunt", 1));
        assert!(turn.next().await.is_none() && sink.is_closed());
    }
}
