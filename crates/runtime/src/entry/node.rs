//! The entry module of a bundle, `cli.mjs` or `cli.ts`, in Node.
//!
//! It is loaded in a sandbox without network, files and other programs, where also the hooks run
//! that only compute (A29-DEFCLI-14, A29-DEFCLI-16). Hooks that log in and refresh run in another
//! process, in the sandbox of the bundle (A29-DEFCLI-15). The module is copied next to the host
//! script, so a sandbox shows nothing else of the bundle.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::Hooks;
use super::define::{
    DetectExpiryArgs, LoginArgs, LoginFailure, LoginResult, ParseOutputArgs, ParseOutputResult,
    RefreshArgs, RefreshFailure, RefreshResult,
};
use super::process::{self, Answer, ModuleProcess};
use crate::command::Launch;
use crate::context::Context;
use crate::error::{Code, Error};
use crate::home;
use crate::setup::tool::BundleTool;
use agentproto_sandbox::policy::{ENTRY_FILES, StateCreation};

const HOST: &str = include_str!("host.mjs");
const RUNTIME: &str = include_str!("cli_runtime.mjs");
const RUNTIME_MANIFEST: &str = r#"{ "name": "@agentproto/cli-runtime", "version": "1.0.0", "type": "module", "exports": "./index.mjs" }
"#;
/// Maximum size of a module, in bytes.
const MAX_MODULE: u64 = 4 << 20;

/// A loaded module.
pub(super) struct Module {
    file: PathBuf,
    /// The host script next to the copy of the module.
    host: PathBuf,
    pub(super) hooks: Hooks,
    /// The process for hooks that only compute.
    process: ModuleProcess,
}

/// The module of the bundle, if it has one.
pub(super) fn file(ctx: &Context) -> Option<PathBuf> {
    let files = ENTRY_FILES
        .into_iter()
        .map(|name| ctx.bundle.dir.join(name));
    files.into_iter().find(|file| file.is_file())
}

impl Module {
    /// Loads a module, and returns the fields of its definition with the names of the CLI.md.
    /// Without a Node that can load it, it is not used, because a bundle must work with its
    /// manifest alone.
    pub(super) async fn load(
        ctx: &Context,
        file: &Path,
    ) -> Result<Option<(Module, Map<String, Value>)>, Error> {
        let Ok(node) = ctx.host_context(&[]).find("node".as_ref()) else {
            return Ok(not_used(ctx, file, "Node is not installed"));
        };
        let host = stage(ctx, file, &node)?;
        let launch = ctx.prepare_pure(&[host.clone().into_os_string()])?;
        let mut process = ModuleProcess::start(ctx, file, launch).await?;
        let Some((mut fields, names)) = loaded(ctx, file, &mut process).await? else {
            return Ok(None);
        };
        if let Some(check) = fields.remove("versionCheck") {
            fields.insert("version_check".to_owned(), check);
        }
        let has = |name: &str| names.iter().any(|known| known == name);
        let module = Module {
            file: file.to_owned(),
            host,
            hooks: Hooks {
                login: has("login"),
                refresh: has("refresh"),
                parse_output: has("parseOutput"),
                detect_expiry: has("detectExpiry"),
            },
            process,
        };
        Ok(Some((module, fields)))
    }

    /// Logs in, in the sandbox of the bundle.
    pub(super) async fn login(&self, ctx: &Context, args: LoginArgs) -> Result<LoginResult, Error> {
        let ctx = ctx.creating(StateCreation::Login);
        let answer: HookAnswer<LoginFailure> = self.run(&ctx, "login", args).await?;
        match (answer.ok, answer.reason) {
            (true, _) => Ok(LoginResult::Ok),
            (false, Some(reason)) => Ok(LoginResult::Failed {
                reason,
                message: answer.message,
            }),
            (false, None) => Err(self.wrong_shape(&ctx, "login", "`reason` is missing")),
        }
    }

    /// Renews the login, in the sandbox of the bundle.
    pub(super) async fn refresh(
        &self,
        ctx: &Context,
        args: RefreshArgs,
    ) -> Result<RefreshResult, Error> {
        let answer: HookAnswer<RefreshFailure> = self.run(ctx, "refresh", args).await?;
        match (answer.ok, answer.reason) {
            (true, _) => Ok(RefreshResult::Ok {
                next_refresh_at: answer.next_refresh_at,
            }),
            (false, Some(reason)) => Ok(RefreshResult::Failed {
                reason,
                message: answer.message,
            }),
            (false, None) => Err(self.wrong_shape(ctx, "refresh", "`reason` is missing")),
        }
    }

    pub(super) async fn parse_output(
        &mut self,
        args: &ParseOutputArgs,
    ) -> Result<ParseOutputResult, Error> {
        let format: &str = args.expected.format.into();
        let args = json!({
            "exitCode": args.exit_code,
            "stdout": args.stdout,
            "stderr": args.stderr,
            "expected": { "format": format },
        });
        let value = self.process.compute("parseOutput", &args).await?;
        self.read("parseOutput", value)
    }

    pub(super) async fn detect_expiry(&mut self, args: &DetectExpiryArgs) -> Result<bool, Error> {
        let args = json!({
            "exitCode": args.exit_code,
            "stdout": args.stdout,
            "stderr": args.stderr,
        });
        let value = self.process.compute("detectExpiry", &args).await?;
        self.read("detectExpiry", value)
    }

    fn read<T: DeserializeOwned>(&self, hook: &str, value: Value) -> Result<T, Error> {
        serde_json::from_value(value).map_err(|e| {
            let what = format!("returned a value of the wrong form: {e}");
            self.process.error(hook, &what)
        })
    }

    fn wrong_shape(&self, ctx: &Context, hook: &str, what: &str) -> Error {
        let what = format!("returned a value of the wrong form: {what}");
        process::error(ctx, &self.file, hook, &what)
    }

    /// Runs a hook in the sandbox of the bundle. The module is loaded again there: it has already
    /// shown that loading it needs nothing.
    async fn run<T: DeserializeOwned>(
        &self,
        ctx: &Context,
        hook: &str,
        args: LoginArgs,
    ) -> Result<T, Error> {
        let LoginArgs { context, signal } = args;
        let (ctx, launch) = self.declared(ctx, &context)?;
        let mut process = ModuleProcess::start(&ctx, &self.file, launch).await?;
        if loaded(&ctx, &self.file, &mut process).await?.is_none() {
            return Err(process.error("load", "cannot be loaded again"));
        }
        let fields = json!({
            "bundle": context.bundle,
            "surface": context.surface,
            "user": context.user,
            "cwd": context.cwd.to_string_lossy(),
            "bin": context.bin.to_string_lossy(),
            "callbackUrl": context.callback_url,
            "capabilities": {
                "interactive": context.surface == "terminal",
                "callback": context.callback_url.is_some(),
            },
        });
        let command = json!({ "op": "run", "hook": hook, "context": fields });
        process.send(&command).await;
        let has_callback = context.callback_url.is_some();
        let callback = context.callback();
        tokio::pin!(callback);
        let (mut is_awaited, mut is_aborted) = (has_callback, false);
        loop {
            tokio::select! {
                biased;
                () = signal.cancelled(), if !is_aborted => {
                    is_aborted = true;
                    process.send(&json!({ "op": "abort" })).await;
                }
                query = &mut callback, if is_awaited => {
                    is_awaited = false;
                    let command = match query {
                        Ok(query) => {
                            let query: Map<String, Value> = query
                                .into_iter()
                                .map(|(name, value)| (name, value.into()))
                                .collect();
                            json!({ "op": "callback", "query": query })
                        }
                        Err(why) => json!({ "op": "callback", "error": why.to_string() }),
                    };
                    process.send(&command).await;
                }
                answer = process.answer(hook) => match answer? {
                    Answer::Show { text } => context.show(&text),
                    Answer::Result { value } => return self.read(hook, value),
                    _ => return Err(process.error(hook, "gave an unexpected answer")),
                },
            }
        }
    }

    /// The process in the sandbox of the bundle. It finds the bundle's program by its name.
    fn declared(
        &self,
        ctx: &Context,
        context: &super::CliContext,
    ) -> Result<(Context, Launch), Error> {
        let ctx = BundleTool::new(ctx, &context.bin).into_context();
        let launch = ctx.prepare(&[self.host.clone().into_os_string()], &context.env)?;
        Ok((ctx, launch))
    }
}

/// What login and refresh hooks return.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HookAnswer<R> {
    ok: bool,
    reason: Option<R>,
    message: Option<String>,
    next_refresh_at: Option<String>,
}

type Loaded = (Map<String, Value>, Vec<String>);

/// Waits until the module is loaded. `None` if this Node cannot load it.
async fn loaded(
    ctx: &Context,
    file: &Path,
    process: &mut ModuleProcess,
) -> Result<Option<Loaded>, Error> {
    let answer = tokio::time::timeout(process::SHORT_LIMIT, process.answer("load")).await;
    match answer {
        Ok(Ok(Answer::Loaded { fields, hooks })) => Ok(Some((fields, hooks))),
        Ok(Ok(Answer::Unsupported { message })) => Ok(not_used(ctx, file, &message)),
        Ok(Ok(_)) => Err(process.error("load", "gave an unexpected answer")),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(process.too_slow("load")),
    }
}

/// Warns that the module is not used.
fn not_used<T>(ctx: &Context, file: &Path, why: &str) -> Option<T> {
    let what = format!(
        "{}: the module is not used, only the CLI.md: {why}. Install Node 22.18 or newer, or compile the module to `cli.mjs`",
        file.display()
    );
    ctx.observer.warning("entry_unavailable", &what);
    None
}

/// Copies the module next to the host script, in a directory for exactly this text. The script is
/// written last, so a directory that has it is complete.
fn stage(ctx: &Context, file: &Path, node: &Path) -> Result<PathBuf, Error> {
    let refused =
        |what: String| Error::new(Code::EntryFailed, format!("{}: {what}", file.display()));
    let size = std::fs::metadata(file).map_or(0, |meta| meta.len());
    if size > MAX_MODULE {
        let what = format!("the module has {size} bytes, at most {MAX_MODULE} are allowed");
        return Err(refused(what).hint("leave out what the hooks do not need"));
    }
    let source =
        std::fs::read(file).map_err(|e| refused(format!("cannot read the module: {e}")))?;
    let script = format!("#!{}\n{HOST}", node.display());
    let is_typed = file.extension().is_some_and(|extension| extension == "ts");
    let mut hasher = Sha256::new();
    for part in [
        script.as_bytes(),
        RUNTIME.as_bytes(),
        &source,
        &[u8::from(is_typed)],
    ] {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    let hash = agentproto_text::hex(&hasher.finalize());
    let dir = PathBuf::from("entry").join(hash.get(..32).unwrap_or(&hash));
    let host = ctx.home.path(dir.join("host.mjs"));
    if host.is_file() {
        return Ok(host);
    }
    let runtime = dir.join("node_modules/@agentproto/cli-runtime");
    let package = b"{ \"private\": true, \"type\": \"module\" }\n";
    ctx.home.write(dir.join("package.json"), package)?;
    ctx.home
        .write(runtime.join("package.json"), RUNTIME_MANIFEST.as_bytes())?;
    ctx.home
        .write(runtime.join("index.mjs"), RUNTIME.as_bytes())?;
    ctx.home.write(dir.join("cli.mjs"), &source)?;
    if is_typed {
        ctx.home.write(dir.join("cli.ts"), &source)?;
    }
    home::write_with_mode(&host, script.as_bytes(), 0o700).map_err(|e| {
        let what = format!("cannot write `{}`: {e}", host.display());
        Error::new(Code::StateUnwritable, what)
    })?;
    Ok(host)
}
