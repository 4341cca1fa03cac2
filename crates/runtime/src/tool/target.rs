//! Finds the bundle that a caller names: by slug, directory, CLI.md, or one of its TOOL.md files.

use std::path::{Path, PathBuf};

use crate::bundle::{Bundle, TargetKind};
use crate::error::{Code, Error};
use crate::home::Home;
use agentproto_manifest::{Disk, Doctype, Workspace};
use agentproto_sandbox::policy::SandboxManifest;

/// A bundle, and the TOOL.md if the caller named one.
pub struct Target {
    /// The bundle.
    pub bundle: Bundle,
    /// The TOOL.md that was named.
    pub tool: Option<PathBuf>,
}

impl Target {
    /// Finds a target like [`Bundle::discover`]. It must be a CLI.md, or a TOOL.md of one.
    pub fn discover(target: &str, adapters: &[PathBuf], home: &Home) -> Result<Target, Error> {
        if let Some(tool) = tool_file(Path::new(target)) {
            let manifest = SandboxManifest::load(&tool)?;
            let cli = manifest.bundle().unwrap_or(&tool);
            return Ok(Target {
                bundle: Bundle::load(cli)?,
                tool: Some(tool),
            });
        }
        let mut bundle = Bundle::discover_kind(target, TargetKind::Tool, adapters, home)?;
        // A directory may describe both an agent and a tool.
        let beside = bundle.dir.join("CLI.md");
        if !is_cli(&bundle) && beside.is_file() {
            bundle = Bundle::load(&beside)?;
        }
        match is_cli(&bundle) {
            true => Ok(Target { bundle, tool: None }),
            false => Err(not_a_tool(&bundle)),
        }
    }
}

fn is_cli(bundle: &Bundle) -> bool {
    bundle.manifest.doctype == Some(Doctype::Cli)
}

/// The error for a manifest that describes an agent.
pub fn not_a_tool(bundle: &Bundle) -> Error {
    let what = format!(
        "{}: this AGENT-CLI.md describes an agent, not a command-line tool (AIP-29, AIP-45)",
        bundle.path().display()
    );
    Error::new(Code::ManifestInvalid, what)
        .hint("name a CLI.md, or run the agent with `agentproto run`")
}

/// The path, if it is a TOOL.md.
fn tool_file(path: &Path) -> Option<PathBuf> {
    if path.extension().is_none_or(|extension| extension != "md") || !path.is_file() {
        return None;
    }
    let path = std::path::absolute(path).ok()?;
    let doc = Workspace::new(&Disk, "/").load(&path).ok()?;
    (doc.doctype == Some(Doctype::Tool)).then_some(path)
}
