//! Stream readers: replay, gaps, and many readers (A46-SSE-01 to 04, A46-PROJ-01).

use super::host::{Host, all, parse};
use agentproto_daemon::SessionStatus;
use agentproto_daemon::ring::{Cursor, FollowFrom};

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_resumes_where_it_stopped() {
    let host = Host::new();
    let session = host.running("default").await;
    host.turn(&session.id, "one").await;
    host.registry.kill(&session.id).await.expect("there");
    let whole = host
        .registry
        .events(&session.id, None, 1000)
        .await
        .expect("there");
    assert!(whole.next.is_none());
    let ids: Vec<String> = whole.items.iter().map(|item| item.id()).collect();
    assert!(ids.len() > 6, "{ids:?}");
    for (n, id) in ids.iter().enumerate() {
        let cursor = Cursor::parse(id).expect("ours");
        let rest = host
            .registry
            .follow(&session.id, FollowFrom::After(cursor))
            .await
            .expect("there");
        assert_eq!(all(rest).await.len(), ids.len() - n - 1);
        let page = host
            .registry
            .events(&session.id, Some(id), 2)
            .await
            .expect("there");
        let got: Vec<String> = page.items.iter().map(|item| item.id()).collect();
        assert_eq!(
            got,
            ids.iter().skip(n + 1).take(2).cloned().collect::<Vec<_>>()
        );
        assert_eq!(page.next.is_some(), ids.len() - n - 1 > 2);
    }
    for odd in [
        "",
        "x",
        "1",
        "-",
        "ffffffffffffffffff-1",
        "0-0",
        "1-99999999999999999999",
    ] {
        let Some(cursor) = Cursor::parse(odd) else {
            continue;
        };
        let rest = host
            .registry
            .follow(&session.id, FollowFrom::After(cursor))
            .await
            .expect("there");
        assert_eq!(all(rest).await.first().expect("some").0, "gap", "{odd}");
    }
    let refused = host
        .registry
        .events(&session.id, Some("0-0"), 2)
        .await
        .expect_err("not ours");
    assert_eq!(refused.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_readers_get_every_event_of_a_flood() {
    let host = Host::new();
    let session = host.running("flood").await;
    let mut slow = host
        .registry
        .follow(&session.id, FollowFrom::Start)
        .await
        .expect("there");
    let first = slow.next().await.expect("something");
    host.turn(&session.id, "flood").await;
    let after = host.registry.get(&session.id).expect("there");
    assert_eq!(after.status, SessionStatus::Running);
    host.registry.kill(&session.id).await.expect("there");
    // The log has every event that the ring buffer dropped.
    let mut seen: Vec<_> = first.iter().map(|frame| parse(frame)).collect();
    seen.extend(all(slow).await);
    assert!(seen.len() > 5000, "{}", seen.len());
    assert!(!seen.iter().any(|(kind, _)| kind == "gap"));
    let fast = host
        .registry
        .follow(&session.id, FollowFrom::Start)
        .await
        .expect("there");
    assert!(!all(fast).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_readers_see_the_same_events() {
    let host = Host::new();
    let session = host.running("default").await;
    let mut readers = Vec::new();
    for _ in 0..1000 {
        let follower = host
            .registry
            .follow(&session.id, FollowFrom::Start)
            .await
            .expect("there");
        readers.push(tokio::spawn(all(follower)));
    }
    host.turn(&session.id, "hello").await;
    host.registry.kill(&session.id).await.expect("there");
    let whole = host
        .registry
        .events(&session.id, None, 1000)
        .await
        .expect("there");
    for reader in readers {
        assert_eq!(reader.await.expect("no panic").len(), whole.items.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_precedes_its_answer_redacted_and_limited() {
    let mut host = Host::new();
    host.with_secret("hunter22-of-the-test");
    let session = host.spawn(host.request("keyed")).await.expect("spawned");
    let id = &session.id;
    host.until(id, |s| s.status == SessionStatus::Running).await;
    host.turn(id, "say hunter22-of-the-test").await;
    host.turn(id, &"ä".repeat(100_000)).await;
    host.registry.kill(id).await.expect("there");
    let seen = all(host
        .registry
        .follow(id, FollowFrom::Start)
        .await
        .expect("there"))
    .await;
    let place = |from: usize, kind: &str| {
        let rest = seen.iter().skip(from);
        from + rest.map(|(k, _)| k).take_while(|k| *k != kind).count()
    };
    let first = place(0, "prompt");
    assert_eq!(seen[first].1["prompt"], "say [secret]", "{seen:?}");
    assert!(seen[first].1["at"].is_string() && seen[first].1.get("cut").is_none());
    assert!(
        first < place(0, "event"),
        "the prompt comes before its answer"
    );
    let second = &seen[place(first + 1, "prompt")].1;
    let shown = second["prompt"].as_str().expect("text");
    assert_eq!(shown, "ä".repeat(16 << 10));
    assert_eq!(second["cut"], true);
}
