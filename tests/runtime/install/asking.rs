//! Confirmation of installations, tested through the library.

use std::sync::{Arc, Mutex};

use agentproto_runtime::bundle::Bundle;
use agentproto_runtime::context::{Context, ContextOptions, Sandboxing};
use agentproto_runtime::error::Code;
use agentproto_runtime::home::Home;
use agentproto_runtime::install::{self, InstallOptions};
use agentproto_runtime::interact::{AnswerFuture, Interact, Question};
use agentproto_runtime::observe::Silent;
use agentproto_runtime::version;
use agentproto_sandbox::helper;

use crate::install::support::World;

struct Person {
    answer: &'static str,
    asked: Mutex<Vec<String>>,
}

impl Interact for Person {
    fn is_headless(&self) -> bool {
        false
    }
    fn ask<'a>(&'a self, question: &'a Question) -> AnswerFuture<'a> {
        let mut asked = self.asked.lock().expect("whole");
        asked.push(question.message.clone());
        Box::pin(std::future::ready(Ok(self.answer.to_owned())))
    }
    fn show(&self, _: &str) {}
}

fn context(world: &World, answer: &'static str, yes: bool) -> (Context, Arc<Person>) {
    helper::use_binary(env!("CARGO_BIN_EXE_agentproto"));
    let person = Arc::new(Person {
        answer,
        asked: Mutex::default(),
    });
    let path = format!("{0}/path:{0}/helpers", world.root().display());
    let setting = ContextOptions {
        home: Home::new(world.home()),
        cwd: world.root().to_owned(),
        host_env: Arc::new(vec![
            ("PATH".into(), path.into()),
            ("HOME".into(), world.root().join("user").into()),
        ]),
        sandboxing: Sandboxing::Auto,
        sandbox: Default::default(),
        yes,
        observer: Arc::new(Silent),
        interact: person.clone(),
    };
    let bundle = Bundle::load(&world.bundle().join("CLI.md")).expect("a bundle");
    let ctx = Context::new(bundle, setting).expect("a context");
    (ctx, person)
}

const TWO: &str = "  - { method: cargo, package: tool }\n  - { method: npm, package: tool }";

fn world() -> World {
    let world = World::new();
    world.script("path/cargo", "#!/bin/sh\nexit 1\n");
    world.manager("npm");
    world.manifest(TWO);
    world
}

#[tokio::test]
async fn several_methods_need_one_confirmation() {
    let world = world();
    let (ctx, person) = context(&world, "true", false);
    let installed = install::ensure(&ctx, InstallOptions::default())
        .await
        .expect("installed");
    assert_eq!(installed.method.as_deref(), Some("npm"));
    let (version, same) = version::ensure(&ctx, &installed).await.expect("fits");
    assert_eq!(version.to_string(), "1.2.3");
    assert_eq!(same, installed);
    let asked = person.asked.lock().expect("whole").clone();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(
        asked[0].contains("demo-tool") && asked[0].contains("cargo: tool"),
        "{asked:?}"
    );
}

#[tokio::test]
async fn declining_installs_nothing() {
    let world = world();
    let (ctx, _) = context(&world, "false", false);
    let fault = install::ensure(&ctx, InstallOptions::default())
        .await
        .expect_err("declined");
    assert_eq!(fault.code, Code::Declined);
    assert!(world.calls().is_empty() && world.tools().is_empty());
}

#[tokio::test]
async fn yes_skips_the_question_and_vendored_files_need_none() {
    let world = world();
    let (ctx, person) = context(&world, "false", true);
    install::ensure(&ctx, InstallOptions::default())
        .await
        .expect("installed");
    assert!(person.asked.lock().expect("whole").is_empty());

    let world = World::new();
    world.script("bundle/tool", "#!/bin/sh\necho demo-tool 1.0.0\n");
    world.manifest("  - { method: vendored, path: ./tool }");
    let (ctx, person) = context(&world, "false", false);
    install::ensure(&ctx, InstallOptions::default())
        .await
        .expect("there");
    assert!(person.asked.lock().expect("whole").is_empty());
}

/// A path in `bin` is relative to the manifest, whatever the working directory is.
#[tokio::test]
async fn a_path_is_relative_to_the_manifest() {
    let world = World::new();
    let tool = world.script("bundle/bin/demo-tool", "#!/bin/sh\necho demo-tool 1.0.0\n");
    world.manifest(TWO);
    let path = world.bundle().join("CLI.md");
    let text = std::fs::read_to_string(&path).expect("read");
    let text = text
        .replace("bin: demo-tool", "bin: ./bin/demo-tool")
        .replace("cmd: demo-tool", "cmd: ./bin/demo-tool");
    std::fs::write(&path, text).expect("written");
    let (ctx, _) = context(&world, "false", false);
    let installed = install::ensure(&ctx, InstallOptions::default())
        .await
        .expect("there");
    assert_eq!(installed.bin.canonicalize().ok(), tool.canonicalize().ok());
    assert_eq!(installed.method, None);
    version::ensure(&ctx, &installed).await.expect("fits");
}

/// The program that `run` gets for a bundle whose program is this binary.
#[tokio::test]
async fn an_embedded_bundle_runs_this_binary() {
    let world = World::new();
    world.manifest(TWO);
    let path = world.bundle().join("CLI.md");
    let text = std::fs::read_to_string(&path).expect("read");
    std::fs::write(&path, text.replace("bin: demo-tool", "bin: agentproto")).expect("written");
    let (mut ctx, _) = context(&world, "false", false);
    ctx.bundle.built_in = true;
    let installed = install::ensure(&ctx, InstallOptions::default())
        .await
        .expect("there");
    let own = agentproto_sandbox::helper::own_path();
    assert_eq!(Some(installed.bin), own.ok());
}
