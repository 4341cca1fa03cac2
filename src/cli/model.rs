//! `agentproto mock llm`: the model behind an agent, until it is stopped.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::args::Mock;
use super::mistakes::misread;
use super::{Failure, Outcome, io_failure};
use crate::exit;
use crate::mock::llm::{self, Asked, Script, Server};

#[derive(Args, Debug)]
pub struct Model {
    /// Port of 127.0.0.1 for the mock model; 0 is any [default: 0]
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// What the mock model says, a YAML file [default: the prompts of a certification]
    #[arg(long, value_name = "FILE")]
    pub script: Option<PathBuf>,
    /// Print what the mock model was asked, one JSON object per line, when each answer is over
    #[arg(long)]
    pub log: bool,
}

impl Model {
    /// A flag that only the model knows.
    pub fn given(&self) -> Option<&'static str> {
        let port = self.port.is_some().then_some("--port");
        let script = self.script.is_some().then_some("--script");
        port.or(script).or(self.log.then_some("--log"))
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
        let message = format!("`{flag}` is for the mock agents, not for the mock model");
        return Err(Failure::new(exit::USAGE, message).hint("--script FILE says what it does"));
    }
    let script = match &args.model.script {
        Some(path) => read(path)?,
        None => Script::certify(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(io_failure)?;
    runtime.block_on(serve(script, &args.model, out))
}

fn read(path: &Path) -> Result<Script, Failure> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::new(exit::NO_INPUT, format!("{name} cannot be read: {error}")))?;
    llm::parse(&text).map_err(|mistakes| misread("model-script", &name, &mistakes))
}

async fn serve(script: Script, model: &Model, out: &mut dyn Write) -> Outcome {
    let port = model.port.unwrap_or(0);
    let server = Server::start_at(script, port).await.map_err(|error| {
        let message = format!("the mock model cannot listen on 127.0.0.1:{port}: {error}");
        Failure::new(exit::UNAVAILABLE, message).hint("--port 0 takes any free port")
    })?;
    say(out, &json!({"url": server.url()})).map_err(io_failure)?;
    let mut changes = server.log().subscribe();
    let mut told = 0;
    loop {
        // The server holds the other end, so that this never fails.
        let _ = changes.changed().await;
        if !model.log {
            continue;
        }
        let all = server.log().all();
        let over = |asked: &&Asked| asked.finished || asked.dropped;
        for asked in all.iter().skip(told).take_while(over) {
            say(out, &line(asked)).map_err(io_failure)?;
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
        "asked": {
            "dialect": asked.dialect.as_str(),
            "model": asked.model,
            "messages": messages.collect::<Vec<Value>>(),
            "tools": &*asked.tools,
            "streamed": asked.streamed,
            "status": asked.status,
            "dropped": asked.dropped,
            "finished": asked.finished,
        }
    })
}
