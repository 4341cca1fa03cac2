//! `agentproto mock llm`: serves a mock model until it is stopped.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use crate::cli::agents::mistakes::misread;
use crate::cli::agents::mock::Mock;
use crate::cli::args::Output;
use crate::cli::{Failure, Outcome, io_failure, signals};
use crate::exit;
use agentproto_mock::llm::{self, Asked, Script, Server};
use agentproto_report::aoi::{Emitter, object};
use agentproto_report::event::Event;

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
    pub fn given(&self) -> Option<&'static str> {
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
    if let Some((flag, _)) = other.iter().find(|(_, given)| *given) {
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
    let voice = match args.output == Output::Jsonl {
        true => Voice::Machine(Emitter::new(out, env!("CARGO_PKG_VERSION"))),
        false => Voice::Plain(out),
    };
    runtime.block_on(serve(script, &args.model, voice))
}

fn read(path: &Path) -> Result<Script, Failure> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::new(exit::NO_INPUT, format!("{name} cannot be read: {error}")))?;
    llm::parse(&text).map_err(|mistakes| misread("model-script", &name, &mistakes))
}

/// Where the output goes: to the script that started the model, or to a reader of events.
enum Voice<'o> {
    Plain(&'o mut dyn Write),
    Machine(Emitter<'o>),
}

impl Voice<'_> {
    fn begin(&mut self, url: &str) -> io::Result<()> {
        match self {
            Voice::Plain(out) => say(out, &json!({ "url": url })),
            Voice::Machine(emitter) => {
                emitter.meta("mock")?;
                emitter.event(Event::Model, &object(json!({ "url": url })))
            }
        }
    }

    fn asked(&mut self, asked: &Asked) -> io::Result<()> {
        match self {
            Voice::Plain(out) => say(out, &json!({ "asked": line(asked) })),
            Voice::Machine(emitter) => emitter.event(Event::Asked, &object(line(asked))),
        }
    }

    /// Returns when a signal arrives, but only if events are written. Otherwise the signal ends the
    /// process.
    async fn stopped(&self) -> Failure {
        loop {
            tokio::time::sleep(signals::NAP).await;
            if let (Voice::Machine(_), Some(code)) = (self, signals::interrupted()) {
                return Failure::interrupted(code);
            }
        }
    }
}

async fn serve(script: Script, model: &Model, mut voice: Voice<'_>) -> Outcome {
    let port = model.port.unwrap_or(0);
    let server = Server::start_at(script, port).await.map_err(|error| {
        let message = format!("the mock model cannot listen on 127.0.0.1:{port}: {error}");
        Failure::new(exit::UNAVAILABLE, message).hint("use --port 0 for any free port")
    })?;
    voice.begin(&server.url()).map_err(io_failure)?;
    let mut changes = server.log().subscribe();
    let mut told = 0;
    loop {
        // The server holds the other end, so that waiting for a change never fails.
        tokio::select! {
            _ = changes.changed() => {}
            stopped = voice.stopped() => return Err(stopped),
        }
        if !model.log_requests {
            continue;
        }
        let all = server.log().all();
        let over = |asked: &&Asked| asked.finished || asked.dropped;
        for asked in all.iter().skip(told).take_while(over) {
            voice.asked(asked).map_err(io_failure)?;
            told += 1;
        }
    }
}

fn say(out: &mut dyn Write, line: &Value) -> io::Result<()> {
    writeln!(out, "{line}")?;
    out.flush()
}

fn line(asked: &Asked) -> Value {
    let messages = asked.messages.iter();
    let messages = messages.map(|said| json!({"role": said.role.as_str(), "text": said.text}));
    json!({
        "dialect": asked.dialect.as_str(),
        "model": asked.model,
        "messages": messages.collect::<Vec<Value>>(),
        "tools": &*asked.tools,
        "streamed": asked.streamed,
        "status": asked.status,
        "dropped": asked.dropped,
        "finished": asked.finished,
    })
}
