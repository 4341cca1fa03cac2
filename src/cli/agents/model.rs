//! `agentproto mock llm`: serves a mock model until it is stopped.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use crate::cli::agents::file_errors::{invalid_file, unreadable};
use crate::cli::agents::mock::Mock;
use crate::cli::args::Output;
use crate::cli::{Failure, Outcome, io_failure, signals};
use crate::exit;
use agentproto_mock::llm::{self, LoggedRequest, ModelServer, Script};
use agentproto_report::aoi::{Emitter, object};
use agentproto_report::event::EventType;

#[derive(Args, Debug)]
pub struct Model {
    /// Port of the mock model on 127.0.0.1; 0 picks a free port [default: 0]
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Read the mock model's script from a YAML file [default: one for the prompts of `certify`]
    #[arg(long, value_name = "FILE")]
    pub script: Option<PathBuf>,
    /// Print each request to the mock model as a line of JSON when its response is complete
    #[arg(long)]
    pub log_requests: bool,
}

impl Model {
    /// The first given flag that only the model has.
    pub fn first_flag(&self) -> Option<&'static str> {
        let port = self.port.is_some().then_some("--port");
        let script = self.script.is_some().then_some("--script");
        port.or(script)
            .or(self.log_requests.then_some("--log-requests"))
    }
}

pub fn run(args: &Mock, out: &mut dyn Write) -> Outcome {
    let other = [
        ("--scenario", args.scenario.is_some()),
        ("--mutant", args.mutant.is_some()),
        ("--variant", args.variant.is_some()),
        ("--state", args.state.is_some()),
    ];
    if let Some((flag, _)) = other.iter().find(|(_, is_set)| *is_set) {
        let message = format!("`{flag}` applies only to the mock agents, not to the mock model");
        return Err(
            Failure::new(exit::USAGE, message).hint("use --script FILE to choose its responses")
        );
    }
    let script = match &args.model.script {
        Some(path) => read(path)?,
        None => Script::certify(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(io_failure)?;
    let output = match args.output == Output::Jsonl {
        true => ModelOutput::Machine(Emitter::new(out, env!("CARGO_PKG_VERSION"))),
        false => ModelOutput::Plain(out),
    };
    runtime.block_on(serve(script, &args.model, output))
}

fn read(path: &Path) -> Result<Script, Failure> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
    llm::parse(&text).map_err(|errors| invalid_file("model-script", &name, &errors))
}

/// Where the output goes: to the script that started the model, or to a reader of events.
enum ModelOutput<'o> {
    Plain(&'o mut dyn Write),
    Machine(Emitter<'o>),
}

impl ModelOutput<'_> {
    fn start(&mut self, url: &str) -> io::Result<()> {
        match self {
            ModelOutput::Plain(out) => write_line(out, &json!({ "url": url })),
            ModelOutput::Machine(emitter) => {
                emitter.meta("mock")?;
                emitter.event(EventType::Model, &object(json!({ "url": url })))
            }
        }
    }

    fn request(&mut self, request: &LoggedRequest) -> io::Result<()> {
        match self {
            ModelOutput::Plain(out) => write_line(out, &json!({ "asked": request.to_json() })),
            ModelOutput::Machine(emitter) => {
                emitter.event(EventType::Asked, &object(request.to_json()))
            }
        }
    }

    /// Returns when a signal arrives, but only if events are written. Otherwise the signal ends the
    /// process.
    async fn stopped(&self) -> Failure {
        loop {
            tokio::time::sleep(signals::POLL_INTERVAL).await;
            if let (ModelOutput::Machine(_), Some(code)) = (self, signals::interrupted()) {
                return Failure::interrupted(code);
            }
        }
    }
}

async fn serve(script: Script, model: &Model, mut output: ModelOutput<'_>) -> Outcome {
    let port = model.port.unwrap_or(0);
    let server = ModelServer::start_at(script, port).await.map_err(|error| {
        let message = format!("the mock model cannot listen on 127.0.0.1:{port}: {error}");
        Failure::new(exit::UNAVAILABLE, message).hint("use --port 0 for any free port")
    })?;
    output.start(&server.url()).map_err(io_failure)?;
    let mut changes = server.log().subscribe();
    let mut printed = 0;
    loop {
        // The server holds the other end, so that waiting for a change never fails.
        tokio::select! {
            _ = changes.changed() => {}
            stopped = output.stopped() => return Err(stopped),
        }
        if !model.log_requests {
            continue;
        }
        let all = server.log().all();
        let is_over = |request: &&LoggedRequest| request.finished || request.dropped;
        for request in all.iter().skip(printed).take_while(is_over) {
            output.request(request).map_err(io_failure)?;
            printed += 1;
        }
    }
}

fn write_line(out: &mut dyn Write, line: &Value) -> io::Result<()> {
    writeln!(out, "{line}")?;
    out.flush()
}
