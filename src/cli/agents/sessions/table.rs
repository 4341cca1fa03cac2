//! Sessions as a table: live ones first, then the others, each newest first.

use std::borrow::Cow;

use serde_json::Value;
use unicode_width::UnicodeWidthStr;

use super::find::{id_of, is_alive};
use agentproto_text::escape_output;

const HEAD: [&str; 7] = [
    "SESSION",
    "STATUS",
    "ADAPTER",
    "WORKSPACE",
    "STARTED",
    "TURNS",
    "LABEL",
];
const WORKSPACE: usize = 3;
const STARTED: usize = 4;
const TURNS: usize = 5;
const LABEL: usize = 6;

/// Maximum number of characters per column of a line. Characters can have no width.
const MAX_CHARS_PER_COLUMN: usize = 8;
/// Minimum length of a shortened id. A new session should not make a known prefix ambiguous.
const MIN_PREFIX: usize = 10;
/// Width that a label gets before other columns are left out.
const LABEL_WIDTH: usize = 24;

/// How to render the table.
pub struct Layout {
    pub color: bool,
    /// Maximum number of columns of a line.
    pub width: usize,
    /// Maximum number of lines.
    pub rows: usize,
    /// Length of a prefix that distinguishes all ids.
    pub prefix: usize,
}

pub fn render(sessions: &[Value], layout: &Layout) -> String {
    if sessions.is_empty() {
        return "no sessions\n".to_owned();
    }
    let mut sorted = sessions.to_vec();
    sort(&mut sorted);
    let max_rows = layout.rows.saturating_sub(1).max(1);
    let hidden = sorted.len().saturating_sub(max_rows);
    let visible = if hidden > 0 {
        max_rows.saturating_sub(1)
    } else {
        max_rows
    };
    let shown: Vec<&Value> = sorted.iter().take(visible).collect();
    let columns = Columns::fitting(&shown, layout);
    let mut out = columns.line(&HEAD.map(str::to_owned), layout.width);
    out.push('\n');
    for session in shown {
        let text = columns.line(&columns.detail.cells(session), layout.width);
        match paint(session).filter(|_| layout.color) {
            Some(paint) => out.push_str(&format!("\x1b[{paint}m{text}\x1b[0m\n")),
            None => out.push_str(&format!("{text}\n")),
        }
    }
    if hidden > 0 {
        out.push_str(&format!("and {} more\n", sorted.len() - visible));
    }
    out
}

/// The length of a prefix that no two sessions share.
pub fn prefix_len(sessions: &[Value]) -> usize {
    let mut ids: Vec<String> = sessions.iter().map(id_of).collect();
    ids.sort_unstable();
    let shared = ids.windows(2).map(|pair| {
        let [a, b] = pair else { return 0 };
        a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count()
    });
    (shared.max().unwrap_or(0) + 1).max(MIN_PREFIX)
}

/// How much of each session is shown.
#[derive(Clone, Copy)]
struct Detail {
    /// Length of the ids.
    id: usize,
    /// Whether times have no year and no seconds, and statuses are one word.
    is_short: bool,
}

/// The columns of a table, with their widths.
struct Columns {
    detail: Detail,
    /// Width of each column. The ones that are left out have none.
    widths: [Option<usize>; 7],
}

impl Columns {
    /// The first of several layouts, from detailed to short, in which the label is visible.
    fn fitting(sessions: &[&Value], layout: &Layout) -> Columns {
        let long = Detail {
            id: usize::MAX,
            is_short: false,
        };
        let short_id = Detail {
            id: layout.prefix,
            is_short: false,
        };
        let short = Detail {
            id: layout.prefix,
            is_short: true,
        };
        let all: &[usize] = &[];
        let steps = [
            (long, all),
            (short_id, all),
            (short, all),
            (short, &[TURNS]),
            (short, &[TURNS, WORKSPACE]),
            (short, &[TURNS, WORKSPACE, STARTED]),
        ];
        let mut last = None;
        for (step, (detail, left_out)) in steps.into_iter().enumerate() {
            let columns = Columns::new(sessions, detail, left_out);
            let label = columns.widths[LABEL].unwrap_or(0);
            // A long label is shortened before columns are left out, but not for the whole id.
            let needed = if step == 0 {
                label
            } else {
                label.min(LABEL_WIDTH)
            };
            if columns.total() - label + needed <= layout.width {
                return columns;
            }
            last = Some(columns);
        }
        last.unwrap_or_else(|| Columns::new(sessions, short, all))
    }

    fn new(sessions: &[&Value], detail: Detail, left_out: &[usize]) -> Columns {
        let mut widths = HEAD.map(|head| Some(head.width()));
        for session in sessions {
            for (width, cell) in widths.iter_mut().zip(detail.cells(session)) {
                *width = width.map(|width| width.max(cell.width()));
            }
        }
        for column in left_out {
            widths[*column] = None;
        }
        Columns { detail, widths }
    }

    /// Width of a line, with two spaces between columns.
    fn total(&self) -> usize {
        let widths = self.widths.iter().flatten();
        widths.map(|width| width + 2).sum::<usize>() - 2
    }

    fn line(&self, cells: &[String; 7], max: usize) -> String {
        let mut line = String::new();
        for (cell, width) in cells.iter().zip(self.widths) {
            let Some(width) = width else { continue };
            line.push_str(cell);
            let padding = width.saturating_sub(cell.width()) + 2;
            line.extend(std::iter::repeat_n(' ', padding));
        }
        fit(line.trim_end(), max).into_owned()
    }
}

impl Detail {
    fn cells(self, session: &Value) -> [String; 7] {
        let text = |name: &str| cell(session[name].as_str().unwrap_or_default());
        let questions = session["pendingPermissions"]
            .as_array()
            .is_some_and(|questions| !questions.is_empty());
        let busy = session["busy"] == true;
        let status = match (questions, busy, self.is_short) {
            (true, _, false) => format!("{}, waiting for an answer", text("status")),
            (true, _, true) => "waiting".to_owned(),
            (false, true, false) => format!("{}, busy", text("status")),
            (false, true, true) => "busy".to_owned(),
            (false, false, _) => text("status"),
        };
        // Without fractions of seconds; the time zone is always the same.
        let started = text("startedAt").replace('T', " ");
        let (skipped, length) = if self.is_short { (5, 11) } else { (0, 19) };
        [
            text("id").chars().take(self.id).collect(),
            status,
            text("adapterSlug"),
            text("workspaceSlug"),
            started.chars().skip(skipped).take(length).collect(),
            session["turns"]
                .as_u64()
                .map(|n| n.to_string())
                .unwrap_or_default(),
            text("label"),
        ]
    }
}

/// Text for one cell: one line, without control characters.
fn cell(text: &str) -> String {
    escape_output(text).replace(['\n', '\t'], " ")
}

/// Shortens text to `max` columns, with an ellipsis at its end if something was cut off.
fn fit(text: &str, max: usize) -> Cow<'_, str> {
    // Characters without a width could fill the terminal.
    let end = text
        .char_indices()
        .nth(max.saturating_mul(MAX_CHARS_PER_COLUMN));
    let start = end.map_or(text, |(end, _)| &text[..end]);
    if start.len() == text.len() && text.width() <= max {
        return Cow::Borrowed(text);
    }
    // The width of a text is not the sum of its characters: an emoji can consist of several.
    let ends = start.char_indices().map(|(at, _)| at);
    let fitting = ends.take_while(|end| start[..*end].width() < max);
    let kept = &start[..fitting.last().unwrap_or(0)];
    let kept = kept.trim_end_matches('\u{200d}').trim_end();
    Cow::Owned(format!("{kept}…"))
}

/// Live sessions first, then the others, each newest first.
fn sort(sessions: &mut [Value]) {
    sessions.sort_by_key(|s| (is_alive(s), age(s)));
    sessions.reverse();
}

/// A key that is larger for a session that was started later.
pub fn age(session: &Value) -> [String; 2] {
    ["startedAt", "id"].map(|name| session[name].as_str().unwrap_or_default().to_owned())
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

    fn layout(width: usize) -> Layout {
        Layout {
            color: false,
            width,
            rows: usize::MAX,
            prefix: MIN_PREFIX,
        }
    }

    #[test]
    fn live_sessions_come_first_and_escapes_are_not_printed() {
        let sessions = [
            json!({ "id": "ses_1", "status": "killed", "startedAt": "2026-01-02T00:00:00.000Z", "new": 1 }),
            json!({ "id": "ses_2", "status": "running", "busy": true, "startedAt": "2026-01-01T00:00:00Z",
                    "adapterSlug": "a", "label": "x\u{1b}[2J\ny" }),
            json!({ "id": "ses_3", "status": "error", "startedAt": "2026-01-03T00:00:00Z" }),
        ];
        let table = render(&sessions, &layout(100));
        let ids: Vec<&str> = table
            .lines()
            .map(|l| l.split(' ').next().unwrap_or(""))
            .collect();
        assert_eq!(ids, ["SESSION", "ses_2", "ses_3", "ses_1"]);
        assert!(
            table.contains("running, busy") && table.contains("x\\u{1b}[2J y"),
            "{table}"
        );
        assert!(!table.contains('\u{1b}'));
        let colored = Layout {
            color: true,
            ..layout(100)
        };
        assert!(render(&sessions, &colored).contains("\x1b[31mses_3"));
        let small = Layout {
            rows: 3,
            ..layout(40)
        };
        let short = render(&sessions, &small);
        assert_eq!(short.lines().count(), 3, "{short}");
        assert!(
            short.ends_with("and 2 more\n") && short.lines().all(|l| l.width() <= 40),
            "{short}"
        );
        assert_eq!(render(&[], &layout(80)), "no sessions\n");
    }

    fn session(id: &str, label: &str) -> Value {
        json!({
            "id": id, "status": "running", "busy": true, "startedAt": "2026-01-01T09:08:07.123Z",
            "adapterSlug": "mock-acp", "workspaceSlug": "default", "turns": 12, "label": label,
            "pendingPermissions": [{}],
        })
    }

    const IDS: [&str; 2] = [
        "ses_0123456789abcdef01234567",
        "ses_0123457789abcdef01234567",
    ];

    #[test]
    fn the_label_is_visible_at_every_width() {
        let sessions = [
            session(IDS[0], "review the parser"),
            session(IDS[1], &"long ".repeat(100)),
        ];
        let prefix = prefix_len(&sessions);
        for width in [40, 60, 80, 100, 120, 160] {
            let table = render(
                &sessions,
                &Layout {
                    prefix,
                    ..layout(width)
                },
            );
            assert!(table.lines().all(|line| line.width() <= width), "{table}");
            assert!(table.contains(IDS[0].get(..11).expect("ASCII")), "{table}");
            let shown = if width < 60 {
                "revi"
            } else {
                "review the parser"
            };
            assert!(table.contains(shown), "{width}: {table}");
        }
        let at_80 = render(
            &sessions,
            &Layout {
                prefix,
                ..layout(80)
            },
        );
        assert!(!at_80.contains(IDS[0]), "{at_80}");
        // What is not a terminal gets everything.
        let whole = render(&sessions, &layout(usize::MAX));
        assert!(
            whole.contains(IDS[0]) && whole.contains("2026-01-01 09:08:07"),
            "{whole}"
        );
        assert!(whole.contains("running, waiting for an answer"), "{whole}");
        assert!(!whole.contains('…'), "{whole}");
    }

    #[test]
    fn a_prefix_distinguishes_all_sessions() {
        let sessions = |ids: &[&str]| ids.iter().map(|id| session(id, "")).collect::<Vec<_>>();
        assert_eq!(prefix_len(&sessions(&IDS)), 11);
        assert_eq!(prefix_len(&sessions(&["ses_a", "ses_b"])), MIN_PREFIX);
        assert_eq!(prefix_len(&[]), MIN_PREFIX);
        let equal = sessions(&["ses_0123456789", "ses_01234567890"]);
        assert_eq!(prefix_len(&equal), 15);
    }

    /// A column starts at the same place in every row, whatever is before it.
    #[test]
    fn wide_and_combining_characters_are_aligned() {
        let named = |adapter: &str| {
            let mut session = session("ses_1", "LABEL-1");
            session["adapterSlug"] = adapter.into();
            session
        };
        let sessions = [
            "plain",
            "日本語",
            "🦀 crab",
            "e\u{301}te\u{301}",
            "👩\u{200d}💻",
        ]
        .map(named);
        let table = render(&sessions, &layout(usize::MAX));
        let starts: Vec<usize> = table
            .lines()
            .skip(1)
            .map(|line| line.split("LABEL-1").next().unwrap_or_default().width())
            .collect();
        assert_eq!(starts.len(), 5, "{table}");
        assert!(
            starts.iter().all(|start| *start == starts[0]),
            "{starts:?}\n{table}"
        );
        assert_eq!(fit("日本語日本", 6), "日本…");
        let marks = format!("a{}b", "\u{301}".repeat(1000));
        assert_eq!(fit(&marks, 10).chars().count(), 80);
        assert_eq!(fit(&marks, usize::MAX), marks);
        assert_eq!(fit("日本語", 6), "日本語");
        assert_eq!(fit("ab👩\u{200d}💻c", 4), "ab…");
    }
}
