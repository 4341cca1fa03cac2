//! The routes that the dashboard uses in addition to those of AIP-46: Markdown, labels, and what
//! adapters offer.

use super::served::{Answer, Served};
use serde_json::{Value, json};

fn patch(host: &Served, path: &str, body: &Value) -> Answer {
    let headers = format!("{}Content-Type: application/json\r\n", host.bearer());
    host.ask("PATCH", path, &headers, &body.to_string())
}

#[test]
fn markdown_becomes_trees_without_html() {
    let host = Served::new();
    let body = json!({ "texts": ["**a** <b>", "[x](javascript:alert(1))", ""] });
    let answer = host.post("/markdown", &body);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(
        answer.json()["trees"],
        json!([
            [{ "tag": "p", "children": [{ "tag": "strong", "children": ["a"] }, " <b>"] }],
            [{ "tag": "p", "children": [{ "tag": "a", "children": ["x"] }] }],
            [],
        ])
    );
    let headers = "Content-Type: application/json\r\n";
    let refused = host.ask("POST", "/markdown", headers, &body.to_string());
    assert_eq!(refused.refusal(401), "unauthorized");
}

#[test]
fn huge_and_deep_markdown_is_refused_or_bounded() {
    let host = Served::new();
    let many = host.post("/markdown", &json!({ "texts": vec!["x"; 65] }));
    assert_eq!(many.refusal(400), "bad_request");
    let deep = format!("{}end", "> ".repeat(1000));
    let deeper = "> ".repeat(100_000);
    let marks = "*a **b ".repeat(30_000);
    let long = "x".repeat((256 << 10) + 1);
    let answer = host.post(
        "/markdown",
        &json!({ "texts": [deep, marks, long, "ok", deeper] }),
    );
    assert_eq!(answer.status, 200, "{answer:?}");
    let trees = answer.json()["trees"].clone();
    assert!(trees[0].to_string().contains("end"), "{trees}");
    assert!(trees[0].to_string().matches("blockquote").count() < 40);
    for large in [1, 2, 4] {
        assert_eq!(trees[large], Value::Null, "{large}");
    }
    assert_eq!(trees[3], json!([{ "tag": "p", "children": ["ok"] }]));
}

#[test]
fn labels_change_and_are_kept_also_after_the_end() {
    let host = Served::new();
    let id = host.running("default");
    let path = format!("/sessions/{id}");
    let renamed = patch(&host, &path, &json!({ "label": "one" }));
    assert_eq!(
        (renamed.status, &renamed.json()["label"]),
        (200, &json!("one"))
    );
    host.post(&format!("{path}/kill"), &json!({}));
    let renamed = patch(&host, &path, &json!({ "label": "two" }));
    assert_eq!(renamed.json()["label"], "two");
    assert_eq!(host.get(&path).json()["label"], "two");
    let (_, _, dir) = host.stop();
    let host = Served::on(dir, &[]);
    assert_eq!(host.get(&path).json()["label"], "two");
    let removed = patch(&host, &path, &json!({ "label": null }));
    assert_eq!(removed.status, 200);
    assert!(host.get(&path).json().get("label").is_none());
    for bad in [
        json!({}),
        json!({ "label": 1 }),
        json!({ "label": "x".repeat(1025) }),
    ] {
        assert_eq!(
            patch(&host, &path, &bad).refusal(400),
            "bad_request",
            "{bad}"
        );
    }
    let unknown = patch(&host, "/sessions/ses_0", &json!({ "label": "x" }));
    assert_eq!(unknown.refusal(404), "session_not_found");
}

#[test]
fn adapters_are_listed_with_what_they_offer() {
    let host = Served::new();
    let adapters = host.home().join("adapters");
    let write = |name: &str, text: &str| {
        std::fs::create_dir_all(adapters.join(name)).expect("a directory");
        std::fs::write(adapters.join(name).join("AGENT-CLI.md"), text).expect("written");
    };
    let manifest = |model: &str| {
        format!(
            "---\nschema: agentproto/agent-cli/v1\nid: coder\nname: coder\nversion: 1.0.0\nbin: x\nprotocol: acp\n\
             models: {{ default: {model}, allowed: [{model}, large] }}\n\
             modes:\n  - {{ id: plan, description: Only plans. }}\n\
             options:\n  - {{ id: steps, type: integer, default: 3, min: 1, max: 9 }}\n---\n"
        )
    };
    write("coder", &manifest("small"));
    write("broken", "no manifest");
    let listed = host.get("/adapters").json();
    let slugs = listed["adapters"].as_array().expect("slugs");
    assert!(
        slugs.contains(&json!("coder")) && slugs.contains(&json!("broken")),
        "{listed}"
    );
    assert!(listed["details"].get("broken").is_none(), "{listed}");
    assert_eq!(
        listed["details"]["coder"],
        json!({
            "modes": [{ "id": "plan", "description": "Only plans." }],
            "options": [{ "id": "steps", "type": "integer", "default": 3, "min": 1, "max": 9 }],
            "models": { "default": "small", "allowed": ["small", "large"] },
        })
    );
    assert_eq!(listed["details"]["mock-acp"]["defaultMode"], "default");
    // A changed manifest is read again.
    write("coder", &manifest("other"));
    let listed = host.get("/adapters").json();
    assert_eq!(listed["details"]["coder"]["models"]["default"], "other");
}
