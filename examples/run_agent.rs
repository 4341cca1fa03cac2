//! Runs one turn of an agent and prints what it says.
//!
//! ```sh
//! cargo run --example run_agent -- mock-acp "use a tool"
//! ```

use std::io::Write;

use agentproto::{Agent, StreamEvent};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // First, before any thread starts: the sandbox starts this program again as its helper.
    agentproto::init();
    let mut args = std::env::args().skip(1);
    let target = args.next().unwrap_or_else(|| "mock-acp".to_owned());
    let prompt = args.next().unwrap_or_else(|| "hello".to_owned());
    tokio::runtime::Runtime::new()?.block_on(run(target, prompt))
}

async fn run(target: String, prompt: String) -> Result<(), Box<dyn std::error::Error>> {
    let session = Agent::open(target)?.start().await?;
    let mut turn = session.send(prompt)?;
    while let Some(event) = turn.next().await {
        match event {
            StreamEvent::TextDelta { text } => {
                print!("{text}");
                std::io::stdout().flush()?;
            }
            StreamEvent::ToolCall { name, .. } => println!("[calls {name}]"),
            StreamEvent::TurnEnd { reason, .. } => println!("\n[{reason:?}]"),
            _ => {}
        }
    }
    session.close().await?;
    Ok(())
}
