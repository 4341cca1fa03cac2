//! A host for several agents: each session has its own task, working directory and permissions, and
//! the host sees what happens in all of them.
//!
//! ```sh
//! cargo run --example embed_host
//! ```

use agentproto::{Agent, Error, Observer, Permissions, Session, Stage, StreamEvent};
use tokio::task::JoinSet;

/// Prints the stages that an agent goes through before its first turn, and its warnings.
struct Log(&'static str);

impl Observer for Log {
    fn stage(&self, stage: Stage, detail: &str) {
        println!("{}: {} {detail}", self.0, stage.as_str());
    }

    fn progress(&self, _: Stage, text: &str) {
        println!("{}: {text}", self.0);
    }

    fn warning(&self, code: &str, message: &str) {
        println!("{}: warning {code}: {message}", self.0);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    agentproto::init();
    tokio::runtime::Runtime::new()?.block_on(host())
}

async fn host() -> Result<(), Box<dyn std::error::Error>> {
    let mut sessions = JoinSet::new();
    for (name, target, prompt) in [
        ("reader", "mock-acp", "hello"),
        ("writer", "mock-acp", "ask for permission"),
        ("server", "mock-mcp", "hello"),
    ] {
        let workspace = tempfile::tempdir()?;
        let agent = Agent::builder(target)
            .cwd(workspace.path())
            .permissions(Permissions::Allow)
            .observer(Log(name))
            .open()?;
        sessions.spawn(async move {
            let session = agent.start().await?;
            let said = turn(&session, prompt).await;
            // Also ends the process if the turn failed.
            session.close().await?;
            drop(workspace);
            said.map(|said| (name, said))
        });
    }
    while let Some(ended) = sessions.join_next().await {
        let (name, said) = ended??;
        println!("{name} said: {said}");
    }
    Ok(())
}

/// Sends one prompt and returns the text of the answer.
async fn turn(session: &Session, prompt: &str) -> Result<String, Error> {
    let mut turn = session.send(prompt)?;
    let mut said = String::new();
    while let Some(event) = turn.next().await {
        if let StreamEvent::TextDelta { text } = event {
            said.push_str(&text);
        }
    }
    Ok(said)
}
