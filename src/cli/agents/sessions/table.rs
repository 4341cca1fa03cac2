//! Sessions as a table: live ones first, then the others, each newest first.

use serde_json::Value;

use agentproto_text::{clip, escape_line};

const HEAD: [&str; 7] = [
    "SESSION",
    "STATUS",
    "ADAPTER",
    "WORKSPACE",
    "STARTED",
    "TURNS",
    "LABEL",
];

/// Renders at most `rows` lines of at most `width` columns.
pub fn render(sessions: &[Value], color: bool, width: usize, rows: usize) -> String {
    if sessions.is_empty() {
        return "no sessions\n".to_owned();
    }
    let mut sorted = sessions.to_vec();
    sort(&mut sorted);
    let max_rows = rows.saturating_sub(1).max(1);
    let hidden = sorted.len().saturating_sub(max_rows);
    let visible = if hidden > 0 {
        max_rows.saturating_sub(1)
    } else {
        max_rows
    };
    let cells: Vec<[String; 7]> = sorted.iter().take(visible).map(row).collect();
    let mut widths = HEAD.map(str::len);
    for cells in &cells {
        for (width, cell) in widths.iter_mut().zip(cells) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &[String; 7]| {
        let padded: Vec<String> = cells
            .iter()
            .zip(widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        clip(padded.join("  ").trim_end(), width).into_owned()
    };
    let mut out = line(&HEAD.map(str::to_owned));
    out.push('\n');
    for (cells, session) in cells.iter().zip(&sorted) {
        let text = line(cells);
        match paint(session).filter(|_| color) {
            Some(paint) => out.push_str(&format!("\x1b[{paint}m{text}\x1b[0m\n")),
            None => out.push_str(&format!("{text}\n")),
        }
    }
    if hidden > 0 {
        out.push_str(&format!("and {} more\n", sorted.len() - visible));
    }
    out
}

/// Live sessions first, then the others, each newest first.
pub fn sort(sessions: &mut [Value]) {
    let started = |s: &Value| s["startedAt"].as_str().unwrap_or_default().to_owned();
    sessions.sort_by_key(|s| (is_alive(s), started(s)));
    sessions.reverse();
}

fn is_alive(session: &Value) -> bool {
    matches!(session["status"].as_str(), Some("starting" | "running"))
}

fn row(session: &Value) -> [String; 7] {
    let text = |name: &str| escape_line(session[name].as_str().unwrap_or_default()).into_owned();
    let questions = session["pendingPermissions"].as_array().map_or(0, Vec::len);
    let status = match (questions, session["busy"].as_bool()) {
        (0, Some(true)) => format!("{}, busy", text("status")),
        (0, _) => text("status"),
        _ => format!("{}, waiting for an answer", text("status")),
    };
    // Cut to seconds; the time zone is always the same.
    let started = text("startedAt").replace('T', " ");
    [
        text("id"),
        status,
        text("adapterSlug"),
        text("workspaceSlug"),
        started.chars().take(19).collect(),
        session["turns"]
            .as_u64()
            .map(|n| n.to_string())
            .unwrap_or_default(),
        text("label"),
    ]
}

fn paint(session: &Value) -> Option<&'static str> {
    let questions = session["pendingPermissions"]
        .as_array()
        .is_some_and(|p| !p.is_empty());
    match session["status"].as_str()? {
        _ if questions => Some("33"),
        "error" => Some("31"),
        "exited" | "killed" => Some("2"),
        "running" if session["busy"] == true => Some("36"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn live_sessions_come_first_and_escapes_are_not_printed() {
        let sessions = [
            json!({ "id": "ses_1", "status": "killed", "startedAt": "2026-01-02T00:00:00.000Z", "new": 1 }),
            json!({ "id": "ses_2", "status": "running", "busy": true, "startedAt": "2026-01-01T00:00:00Z",
                    "adapterSlug": "a", "label": "x\u{1b}[2J" }),
            json!({ "id": "ses_3", "status": "error", "startedAt": "2026-01-03T00:00:00Z" }),
        ];
        let table = render(&sessions, false, 100, usize::MAX);
        let ids: Vec<&str> = table
            .lines()
            .map(|l| l.split(' ').next().unwrap_or(""))
            .collect();
        assert_eq!(ids, ["SESSION", "ses_2", "ses_3", "ses_1"]);
        assert!(
            table.contains("running, busy") && table.contains("x\\u{1b}[2J"),
            "{table}"
        );
        assert!(!table.contains('\u{1b}'));
        assert!(render(&sessions, true, 100, usize::MAX).contains("\x1b[31mses_3"));
        let short = render(&sessions, false, 40, 3);
        assert_eq!(short.lines().count(), 3, "{short}");
        assert!(
            short.ends_with("and 2 more\n") && short.lines().all(|l| l.len() <= 40),
            "{short}"
        );
        assert_eq!(render(&[], false, 80, 10), "no sessions\n");
    }
}
