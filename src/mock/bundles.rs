//! The bundles of the mock agents, inside the binary.

/// A directory with a manifest: path, content and whether it is a program, per file.
#[derive(Debug)]
pub struct Bundle {
    pub name: &'static str,
    pub files: &'static [(&'static str, &'static [u8], bool)],
}

macro_rules! bundle {
    ($name:literal: $($path:literal),* $(,)?) => {
        Bundle {
            name: $name,
            files: &[$((
                $path,
                include_bytes!(concat!("../../mock-agents/", $name, "/", $path)),
                false,
            )),*],
        }
    };
}

static BUNDLES: &[Bundle] = &[
    bundle!("mock-acp": "AGENT-CLI.md", "ACP.md", "OPERATOR.md", "SANDBOX.md", "scenario.yaml"),
    bundle!("mock-mcp": "AGENT-CLI.md", "SANDBOX.md", "scenario.yaml"),
    bundle!("mock-repl": "AGENT-CLI.md", "SANDBOX.md", "scenario.yaml"),
    bundle!("mock-npm": "AGENT-CLI.md", "SANDBOX.md", "adapter/package.json", "adapter/index.js"),
];

/// Every bundled agent.
pub fn bundles() -> &'static [Bundle] {
    BUNDLES
}
