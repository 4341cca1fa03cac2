//! `agentproto doctor`: what this machine can do for us.

use std::io::Write;
use std::time::Instant;

use serde_json::json;

use super::args::{Global, Listing};
use super::{Outcome, io_failure, terminal};
use crate::exit;
use crate::report::aoi::{Emitter, Fields, object};
use crate::report::text::plain;
use crate::runtime::sandbox::probe::{self, Line};

pub fn run(args: &Listing, global: &Global, out: &mut dyn Write) -> Outcome {
    let started = Instant::now();
    let probe = probe::probe();
    let mut lines = probe.lines();
    lines.push(probe::bubblewrap_line());
    let able = probe.native().is_ok() || probe::bubblewrap().is_ok();
    match args.output.as_str() {
        "json" => writeln!(
            out,
            "{:#}",
            json!({
                "schema": "agentproto.doctor/v1",
                "kernel": probe.kernel,
                "root": probe.root,
                "sandbox": { "enforceable": able, "items": lines },
            })
        ),
        "jsonl" => events(&lines, able, started, out),
        _ => human(&lines, able, &probe.kernel, terminal::color(global), out),
    }
    .map_err(io_failure)?;
    Ok(match able {
        true => exit::CLEAN,
        false => exit::FINDINGS,
    })
}

fn events(
    lines: &[Line],
    able: bool,
    started: Instant,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
    emitter.meta("doctor")?;
    for line in lines {
        let fields = object(json!({
            "name": format!("sandbox: {}", line.item),
            "ok": line.available,
            "severity": if line.available { "info" } else { "warning" },
            "detail": match &line.help {
                Some(help) => format!("{}; {help}", line.text),
                None => line.text.clone(),
            },
        }));
        emitter.event("check", &fields)?;
    }
    emitter.summary(able, started.elapsed(), Fields::new())
}

fn human(
    lines: &[Line],
    able: bool,
    kernel: &str,
    color: bool,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let (green, yellow, off) = match color {
        true => ("\x1b[32m", "\x1b[33m", "\x1b[0m"),
        false => ("", "", ""),
    };
    writeln!(out, "Sandbox on Linux {}", plain(kernel))?;
    let width = lines.iter().map(|l| l.item.len()).max().unwrap_or(0);
    for line in lines {
        let (mark, colour) = match line.available {
            true => ("✓", green),
            false => ("✗", yellow),
        };
        let text = plain(&line.text);
        writeln!(out, "  {colour}{mark}{off} {:<width$}  {text}", line.item)?;
        if let (false, Some(help)) = (line.available, &line.help) {
            writeln!(out, "    {:<width$}  {}", "", plain(help))?;
        }
    }
    match able {
        true => writeln!(out, "Declared sandboxes can be enforced here."),
        false => writeln!(
            out,
            "Declared sandboxes cannot be enforced here: every confined spawn is refused."
        ),
    }
}
