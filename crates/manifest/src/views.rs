//! Typed views of the tree: the fields of each doctype by name and type.
//!
//! A view borrows the tree. It does not copy or repair anything. A field that is absent or has
//! another type is `None` or an empty list. The linter checks what a manifest *should* contain.

use crate::doctype::Doctype;
use crate::document::Document;
use crate::tree::Node;

macro_rules! field {
    (text $field:ident $key:literal) => {
        #[doc = concat!("The string `", $key, "`.")]
        pub fn $field(self) -> Option<&'d str> {
            self.0.get($key)?.as_str()
        }
    };
    (integer $field:ident $key:literal) => {
        #[doc = concat!("The integer `", $key, "`.")]
        pub fn $field(self) -> Option<i64> {
            self.0.get($key)?.as_int()
        }
    };
    (flag $field:ident $key:literal) => {
        #[doc = concat!("The boolean `", $key, "`.")]
        pub fn $field(self) -> Option<bool> {
            self.0.get($key)?.as_bool()
        }
    };
    (texts $field:ident $key:literal) => {
        #[doc = concat!("The strings in `", $key, "`. Items of other types are skipped.")]
        pub fn $field(self) -> impl Iterator<Item = &'d str> {
            let items = self.0.get($key).map_or(&[][..], Node::items);
            items.iter().filter_map(Node::as_str)
        }
    };
    (node $field:ident $key:literal) => {
        #[doc = concat!("The value of `", $key, "`, of any type.")]
        pub fn $field(self) -> Option<&'d Node> {
            self.0.get($key)
        }
    };
    ((one $view:ident) $field:ident $key:literal) => {
        #[doc = concat!("The mapping `", $key, "`.")]
        pub fn $field(self) -> Option<$view<'d>> {
            self.0.get($key).filter(|n| n.is_map()).map($view)
        }
    };
    ((many $view:ident) $field:ident $key:literal) => {
        #[doc = concat!("The mappings in `", $key, "`. Other items are skipped.")]
        pub fn $field(self) -> impl Iterator<Item = $view<'d>> {
            let items = self.0.get($key).map_or(&[][..], Node::items);
            items.iter().filter(|n| n.is_map()).map($view)
        }
    };
}

macro_rules! view {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $kind:tt = $key:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name<'d>(pub &'d Node);

        impl<'d> $name<'d> {
            $(field!($kind $field $key);)*

            /// The mapping itself, for spans and for fields that the view does not have.
            pub fn node(self) -> &'d Node {
                self.0
            }
        }
    };
}

view! {
    /// CLI.md (AIP-29).
    Cli {
        name: text = "name",
        id: text = "id",
        description: text = "description",
        version: text = "version",
        bin: text = "bin",
        bin_args: texts = "bin_args",
        install: (many InstallMethod) = "install",
        version_check: (one VersionCheck) = "version_check",
        setup: (many SetupStep) = "setup",
        auth: (one Auth) = "auth",
        runner: node = "runner",
        sandbox: (one CliSandbox) = "sandbox",
        output: (one Output) = "output",
        commands: node = "commands",
        requires: (one Requires) = "requires",
        tags: texts = "tags",
        metadata: node = "metadata",
    }
}

view! {
    /// AGENT-CLI.md (AIP-45).
    AgentCli {
        name: text = "name",
        id: text = "id",
        description: text = "description",
        version: text = "version",
        bin: text = "bin",
        bin_args: texts = "bin_args",
        install: (many InstallMethod) = "install",
        version_check: (one VersionCheck) = "version_check",
        setup: (many SetupStep) = "setup",
        auth: (one Auth) = "auth",
        sandbox: node = "sandbox",
        runner: node = "runner",
        protocol: text = "protocol",
        acp: text = "acp",
        mcp: (one McpServer) = "mcp",
        adapter: text = "adapter",
        session: (one Session) = "session",
        models: (one Models) = "models",
        capabilities: (one Capabilities) = "capabilities",
        modes: (many Mode) = "modes",
        options: (many AgentOption) = "options",
        continuation: (one Continuation) = "continuation",
        requires: (one Requires) = "requires",
        tags: texts = "tags",
        metadata: node = "metadata",
    }
}

view! {
    /// An install method (AIP-29).
    InstallMethod {
        method: text = "method",
        package: text = "package",
        url: text = "url",
        path: text = "path",
        extract_bin: text = "extract_bin",
        verify_sha256: text = "verify_sha256",
        global: flag = "global",
        user: flag = "user",
        experimental: flag = "experimental",
    }
}

view! {
    /// The command that prints the version, and the required range (`version_check`).
    VersionCheck {
        cmd: text = "cmd",
        parse: text = "parse",
        range: text = "range",
        timeout_ms: integer = "timeout_ms",
    }
}

view! {
    /// A step of `setup`.
    SetupStep {
        id: text = "id",
        kind: text = "kind",
        description: text = "description",
        cmd: text = "cmd",
        prompt: text = "prompt",
        prompt_type: text = "type",
        default: text = "default",
        options: node = "options",
        secret_slug: text = "secret_slug",
        url: text = "url",
        callback: node = "callback",
        interactive: flag = "interactive",
        timeout_ms: integer = "timeout_ms",
        skip_if: (one CommandCheck) = "skip_if",
        persist: (one Persist) = "persist",
    }
}

view! {
    /// A command and the exit code that means success (`skip_if`, `completes_when`).
    CommandCheck {
        cmd: text = "cmd",
        exit_code: integer = "exit_code",
        timeout_ms: integer = "timeout_ms",
    }
}

view! {
    /// Where the answer to a setup prompt is stored (`persist`).
    Persist {
        env: text = "env",
        secret_slug: text = "secret_slug",
        cmd: text = "cmd",
    }
}

view! {
    /// How the program logs in (`auth`).
    Auth {
        reference: text = "ref",
        state: (one AuthState) = "state",
        login: (one Login) = "login",
        refresh: (one Refresh) = "refresh",
        expiry: (one Expiry) = "expiry",
    }
}

view! {
    /// Files and environment variables that hold the login (`auth.state`).
    AuthState {
        paths: texts = "paths",
        env: texts = "env",
    }
}

view! {
    /// The command that logs in (`auth.login`).
    Login {
        cmd: text = "cmd",
        interactive: flag = "interactive",
        requires_callback_url: flag = "requires_callback_url",
        completes_when: (one CommandCheck) = "completes_when",
    }
}

view! {
    /// The command that renews a login, and how often it runs (`auth.refresh`).
    Refresh {
        cmd: text = "cmd",
        every: text = "every",
    }
}

view! {
    /// How an expired login is detected (`auth.expiry`).
    Expiry {
        detect: text = "detect",
    }
}

view! {
    /// The `sandbox` block of AIP-29.
    CliSandbox {
        network: (one Network) = "network",
        fs: (one FileAccess) = "fs",
        exec: (one Exec) = "exec",
        env: (one SandboxEnv) = "env",
        tty: (one Tty) = "tty",
    }
}

view! {
    /// Allowed network connections (`network`).
    Network {
        egress: texts = "egress",
        ingress: texts = "ingress",
    }
}

view! {
    /// Globs of the files that may be read or written, and of those that may not (`fs`).
    FileAccess {
        read: texts = "read",
        write: texts = "write",
        deny: texts = "deny",
    }
}

view! {
    /// Which programs may be started (`exec`).
    Exec {
        allow: flag = "allow",
        spawn: texts = "spawn",
    }
}

view! {
    /// `env` of both sandbox formats. `pass` and `set` belong to AIP-29, the others to AIP-36.
    SandboxEnv {
        pass: texts = "pass",
        set: node = "set",
        passthrough: texts = "passthrough",
        auth: (one Auth) = "auth",
    }
}

view! {
    /// Whether the program needs a terminal (`tty`).
    Tty {
        required: flag = "required",
    }
}

view! {
    /// Output formats and exit codes of a tool (`output`).
    Output {
        default_format: text = "default_format",
        json_flag: text = "json_flag",
        json_flag_args: texts = "json_flag_args",
        exit_codes: node = "exit_codes",
        stream: text = "stream",
        error_stream: text = "error_stream",
    }
}

view! {
    /// Requirements on the machine (`requires`). Sizes are in MB.
    Requires {
        os: texts = "os",
        arch: texts = "arch",
        min_disk_mb: integer = "min_disk_mb",
        min_memory_mb: integer = "min_memory_mb",
    }
}

view! {
    /// How to start or reach an MCP server (`mcp`).
    McpServer {
        command: text = "command",
        args: texts = "args",
        transport: text = "transport",
        url: text = "url",
    }
}

view! {
    /// Session mode and limits (`session`).
    Session {
        mode: text = "mode",
        idle_timeout_ms: integer = "idle_timeout_ms",
        max_turns: integer = "max_turns",
        context_carryover: flag = "context_carryover",
    }
}

view! {
    /// Default and allowed models (`models`).
    Models {
        default: text = "default",
        allowed: texts = "allowed",
        env: node = "env",
    }
}

view! {
    /// Declared capabilities (AIP-45).
    Capabilities {
        streaming: flag = "streaming",
        tool_calls: flag = "tool_calls",
        sub_agents: flag = "sub_agents",
        file_io: flag = "file_io",
        multimodal: flag = "multimodal",
        resumable: flag = "resumable",
        bidirectional: flag = "bidirectional",
    }
}

view! {
    /// A mode of the agent: an item of `modes`.
    Mode {
        id: text = "id",
        description: text = "description",
        bin_args_append: texts = "bin_args_append",
        env: node = "env",
    }
}

view! {
    /// An option of the agent: an item of `options`.
    AgentOption {
        id: text = "id",
        kind: text = "type",
        description: text = "description",
        values: texts = "enum",
        default: node = "default",
        min: integer = "min",
        max: integer = "max",
        bin_args_template: texts = "bin_args_template",
        bin_args_append_when_true: texts = "bin_args_append_when_true",
        env: node = "env",
    }
}

view! {
    /// Strategies to continue a session (`continuation`).
    Continuation {
        default: text = "default",
        supported: texts = "supported",
        pinned_session: (one PinnedSession) = "pinned_session",
    }
}

view! {
    /// Settings of the pinned-session strategy (`continuation.pinned_session`).
    PinnedSession {
        idle_timeout_ms: integer = "idle_timeout_ms",
        key_scope: texts = "key_scope",
    }
}

view! {
    /// SANDBOX.md, and the inline block of AIP-36.
    Sandbox {
        id: text = "id",
        version: text = "version",
        provider: text = "provider",
        config: node = "config",
        limits: (one Limits) = "limits",
        env: (one SandboxEnv) = "env",
        network: (one Network) = "network",
        mounts: (many Mount) = "mounts",
        lifecycle: node = "lifecycle",
        read_only: flag = "read_only",
    }
}

view! {
    /// Resource limits (AIP-36 and AIP-17).
    Limits {
        timeout_ms: integer = "timeout_ms",
        memory_mb: integer = "memory_mb",
        cpu_ms: integer = "cpu_ms",
    }
}

view! {
    /// An item of `mounts`.
    Mount {
        source: node = "source",
        at: text = "at",
        mode: text = "mode",
    }
}

view! {
    /// ACP.md (AIP-44).
    Acp {
        name: text = "name",
        id: text = "id",
        version: text = "version",
        kind: text = "kind",
        transport: node = "transport",
        metadata: node = "metadata",
    }
}

impl<'d> Acp<'d> {
    /// `metadata.aip44`, which contains the fields of the AIP-44 profile.
    pub fn profile(self) -> Option<AcpProfile<'d>> {
        self.0
            .at(&["metadata", "aip44"])
            .filter(|n| n.is_map())
            .map(AcpProfile)
    }
}

view! {
    /// Fields of the AIP-44 profile (`metadata.aip44`).
    AcpProfile {
        acp_rev: text = "acp_rev",
        tier: text = "tier",
        capabilities: node = "capabilities",
        operator: text = "operator",
        governance: text = "governance",
        sandbox: text = "sandbox",
        audit: node = "audit",
    }
}

impl<'d> AcpProfile<'d> {
    /// A flag of the agent's capabilities at a path such as `["promptCapabilities", "image"]`.
    pub fn agent_capability(self, path: &[&str]) -> Option<bool> {
        self.0.at(&["capabilities", "agent"])?.at(path)?.as_bool()
    }
}

view! {
    /// SECRETS.md (AIP-19).
    Secrets {
        secrets: (many Secret) = "secrets",
    }
}

view! {
    /// A declared secret: an item of `secrets`.
    Secret {
        slug: text = "slug",
        name: text = "name",
        description: text = "description",
        kind: text = "kind",
        backend: text = "backend",
        access: node = "access",
        exposures: node = "exposures",
    }
}

view! {
    /// RUNNER.md and inline `runner` blocks (AIP-17).
    Runner {
        engine: text = "engine",
        image: text = "image",
        needs: node = "needs",
        limits: (one Limits) = "limits",
    }
}

view! {
    /// TOOL.md (AIP-14), with the fields that AIP-29 adds inside a CLI bundle.
    Tool {
        name: text = "name",
        id: text = "id",
        version: text = "version",
        inputs: node = "inputs",
        outputs: node = "outputs",
        runner: (one ToolRunner) = "runner",
        sandbox: (one CliSandbox) = "sandbox",
    }
}

view! {
    /// The CLI and the arguments that run a tool (`runner`).
    ToolRunner {
        cli: text = "cli",
        argv: texts = "argv",
    }
}

view! {
    /// OPERATOR.md (AIP-9).
    Operator {
        name: text = "name",
        id: text = "id",
        version: text = "version",
        runtime: (one RuntimeBinding) = "runtime",
    }
}

view! {
    /// The runtime of an operator (`runtime`).
    RuntimeBinding {
        kind: text = "kind",
        reference: text = "ref",
        session: (one Session) = "session",
        config: (one RuntimeConfig) = "config",
    }
}

view! {
    /// Mode, options and continuation of the runtime (`runtime.config`).
    RuntimeConfig {
        mode: text = "mode",
        options: node = "options",
        continuation: text = "continuation",
    }
}

/// The typed view of a document.
#[derive(Clone, Copy, Debug)]
pub enum View<'d> {
    /// CLI.md.
    Cli(Cli<'d>),
    /// AGENT-CLI.md.
    AgentCli(AgentCli<'d>),
    /// ACP.md.
    Acp(Acp<'d>),
    /// SANDBOX.md.
    Sandbox(Sandbox<'d>),
    /// SECRETS.md.
    Secrets(Secrets<'d>),
    /// RUNNER.md.
    Runner(Runner<'d>),
    /// TOOL.md.
    Tool(Tool<'d>),
    /// OPERATOR.md.
    Operator(Operator<'d>),
}

impl Document {
    /// The typed view of the frontmatter, or `None` without a frontmatter or a doctype.
    pub fn view(&self) -> Option<View<'_>> {
        let root = self.root.as_ref()?;
        Some(match self.doctype? {
            Doctype::Cli => View::Cli(Cli(root)),
            Doctype::AgentCli => View::AgentCli(AgentCli(root)),
            Doctype::Acp => View::Acp(Acp(root)),
            Doctype::Sandbox => View::Sandbox(Sandbox(root)),
            Doctype::Secrets => View::Secrets(Secrets(root)),
            // The file contains the block itself, or the block under the key `runner`.
            Doctype::Runner => View::Runner(Runner(root.get("runner").unwrap_or(root))),
            Doctype::Tool => View::Tool(Tool(root)),
            Doctype::Operator => View::Operator(Operator(root)),
        })
    }
}
