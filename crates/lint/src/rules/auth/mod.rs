//! The login surface: where it lives, how it is gained, kept and lost.

mod catalog;
mod duration;
mod literal;

use std::sync::Arc;

pub use catalog::*;

use crate::context::{Context, Draft, Place, Ref};
use crate::edits;
use crate::finding::Safety;
use crate::registry::{Check, Family};
use crate::shape::{self, Violation};
use agentproto_manifest::globs;
use agentproto_manifest::{Doctype, Document, Node, RefRole, Span};
use agentproto_text::short;

pub static FAMILY: Family = Family {
    name: "auth",
    rules: &[
        &AUTH_RECOMMENDED,
        &AUTH_REF_SECRETS_VALID,
        &AUTH_STATE_ENV_UNDECLARED,
        &AUTH_STATE_ENV_NAME,
        &AUTH_STATE_ENV_NOT_PASSED,
        &AUTH_STATE_PATHS_NOT_WHITELISTED,
        &AUTH_STATE_PATHS_DENIED,
        &AUTH_LOGIN_NO_COMPLETES_WHEN,
        &AUTH_INTERACTIVE_NO_TTY,
        &AUTH_CALLBACK_NO_INGRESS,
        &AUTH_REFRESH_EVERY_ISO8601,
        &AUTH_REFRESH_EVERY_MISSING,
        &AUTH_EXPIRY_FORMAT,
        &AUTH_EXPIRY_CODE_UNMAPPED,
        &AUTH_EXPIRY_CODE_AMBIGUOUS,
        &AUTH_CMD_INLINE_SECRET,
        &AUTH_ENV_ISOLATION,
    ],
    checks: &[
        Check {
            doctypes: &[Doctype::Cli, Doctype::AgentCli],
            run: check,
        },
        Check {
            doctypes: &[Doctype::Cli],
            run: check_against_sandbox,
        },
        Check {
            doctypes: &[Doctype::AgentCli],
            run: check_agent,
        },
    ],
};

fn expiry_format<'d>(ctx: &Context<'d>, v: &Violation<'d>) {
    ctx.report(
        Draft::new(
            v.rule,
            v.place.clone(),
            "`auth.expiry.detect` does not name an exit code",
        )
        .help("write `exit_code:` and the number, as in `exit_code:4`"),
    );
}

fn check(ctx: &Context<'_>) {
    let auth = ctx.root.get("auth");
    if let Some(auth) = auth {
        if let Some((reference, secrets)) = secrets_file(ctx) {
            secrets_valid(ctx, reference, secrets);
        }
        state_env(ctx, auth);
        login(ctx, auth);
        refresh(ctx, auth);
    }
    for command in commands(ctx.root, auth) {
        if let Some(what) = command.as_str().and_then(literal::find) {
            ctx.report(
                Draft::new(
                    &AUTH_CMD_INLINE_SECRET,
                    command,
                    format!("this command holds {what}"),
                )
                .help("revoke it if it is real; name a variable that SECRETS.md binds instead"),
            );
        }
    }
}

/// The inventory that `auth.ref` leads to. A file without a list `secrets` is told as such;
/// nothing is held to be missing from it.
pub fn secrets_of<'c, 'd>(ctx: &'c Context<'d>) -> Option<(&'c Ref<'d>, &'c Arc<Document>)> {
    secrets_file(ctx).filter(|(_, doc)| {
        let list = doc.root.as_ref().and_then(|root| root.get("secrets"));
        list.is_some_and(Node::is_seq)
    })
}

/// The SECRETS.md that `auth.ref` leads to.
fn secrets_file<'c, 'd>(ctx: &'c Context<'d>) -> Option<(&'c Ref<'d>, &'c Arc<Document>)> {
    let node = ctx.root.at(&["auth", "ref"])?;
    let reference = ctx
        .refs()
        .iter()
        .find(|r| r.site.role == RefRole::Secrets && std::ptr::eq(r.site.node, node))?;
    let doc = reference.target.document()?;
    let fits = doc.root.is_some() && doc.doctype == Some(Doctype::Secrets);
    fits.then_some((reference, doc))
}

/// Entries of `secrets` in a SECRETS.md.
pub fn secrets_in(doc: &Document) -> &[Node] {
    doc.root
        .as_ref()
        .and_then(|root| root.get("secrets"))
        .map_or(&[], Node::items)
}

/// Where to point in a SECRETS.md when something is not in it.
pub fn secrets_place(doc: &Document) -> Span {
    doc.root
        .as_ref()
        .and_then(|root| root.entry("secrets"))
        .map_or(Span::default(), |entry| entry.key_span)
}

fn secrets_valid<'d>(ctx: &Context<'d>, reference: &Ref<'d>, secrets: &Arc<Document>) {
    // Its own findings stand there when it is part of the run.
    if ctx.is_linted(&secrets.path) {
        return;
    }
    let Some(root) = &secrets.root else {
        return;
    };
    let name = short(reference.site.text, 60);
    if let Some(slots) = root.entry("slots").filter(|_| !root.has("secrets")) {
        let message = format!("`{name}` lists its secrets as `slots`, which AIP-19 does not have");
        ctx.report(
            Draft::new(&AUTH_REF_SECRETS_VALID, reference.site.node, message)
                .help("lint that file with `--fix` to turn `slots` into `secrets`")
                .related(secrets, slots.key_span, "the old form"),
        );
        return;
    }
    let open = secrets.front.map_or(Span::default(), |front| front.open);
    let found = shape::violations(
        shape::shapes_for(Doctype::Secrets),
        root,
        Place::Bytes(open),
    );
    let Some(first) = found.first() else {
        return;
    };
    let span = match first.place {
        Place::Value(node) => node.span,
        Place::Key(entry) => entry.key_span,
        Place::Part(_, span) | Place::Bytes(span) => span,
    };
    let what = match (&first.missing, first.entry) {
        (Some(name), _) => format!("`{name}` is missing"),
        (None, Some(entry)) => format!("`{}` may not stand here", entry.key),
        _ => "this value does not fit AIP-19".to_owned(),
    };
    let count = match found.len() {
        1 => "one mistake".to_owned(),
        n => format!("{n} mistakes"),
    };
    ctx.report(
        Draft::new(
            &AUTH_REF_SECRETS_VALID,
            reference.site.node,
            format!("`{name}` has {count} against AIP-19"),
        )
        .help("lint that file as well to see them all")
        .related(secrets, span, what),
    );
}

fn state_env<'d>(ctx: &Context<'d>, auth: &'d Node) {
    let Some(env) = auth.at(&["state", "env"]) else {
        return;
    };
    for (name, node) in env.strings() {
        if !is_env_name(name) {
            ctx.report(
                Draft::new(
                    &AUTH_STATE_ENV_NAME,
                    node,
                    format!(
                        "`{}` is not the name of an environment variable",
                        short(name, 40)
                    ),
                )
                .help("use capital letters, digits and `_`, as in `FORGE_TOKEN`"),
            );
            continue;
        }
        if let Some((reference, secrets)) = secrets_of(ctx)
            && !secrets_in(secrets).iter().any(|s| reaches(s, name))
        {
            let slug = name.to_ascii_lowercase().replace('_', "-");
            ctx.report(
                Draft::new(
                    &AUTH_STATE_ENV_UNDECLARED,
                    node,
                    format!(
                        "no secret of `{}` reaches the variable `{name}`",
                        short(reference.site.text, 60)
                    ),
                )
                .help(format!(
                    "declare a secret with slug `{}`, or expose one as `{name}`",
                    slug.trim_matches('-')
                ))
                .related(
                    secrets,
                    secrets_place(secrets),
                    "the secrets that are declared",
                ),
            );
        }
    }
}

fn is_env_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase() || c == '_')
        && name
            .bytes()
            .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

/// Whether a declared secret arrives as a variable: by the naming convention (its group is
/// optional), by an exposure, or by name in its metadata.
fn reaches(secret: &Node, variable: &str) -> bool {
    let by_name = |slug: &str| {
        slug.len() == variable.len()
            && slug.bytes().zip(variable.bytes()).all(|(s, v)| match s {
                b'-' | b'/' => v == b'_',
                s => s.to_ascii_uppercase() == v,
            })
    };
    let slug = secret.str_at(&["slug"]).unwrap_or("");
    by_name(slug)
        || slug.split_once('/').is_some_and(|(_, own)| by_name(own))
        || secret
            .get("exposures")
            .map_or(&[][..], Node::items)
            .iter()
            .any(|e| {
                // A placeholder arrives as a variable too; the host fills it in on the way out.
                let name = match e.str_at(&["kind"]) {
                    Some("env") => e.str_at(&["name"]),
                    Some("egress-substitute") => e.str_at(&["placeholderName"]),
                    _ => None,
                };
                name == Some(variable)
            })
        || secret
            .at(&["metadata", "bindings", "env"])
            .is_some_and(|env| {
                env.as_str() == Some(variable) || env.strings().any(|(n, _)| n == variable)
            })
}

fn login<'d>(ctx: &Context<'d>, auth: &'d Node) {
    if let Some(entry) = auth.entry("login")
        && entry.value.is_map()
        && !entry.value.has("completes_when")
    {
        ctx.report(
            Draft::new(
                &AUTH_LOGIN_NO_COMPLETES_WHEN,
                entry,
                "`auth.login` does not say how to see that the login is done",
            )
            .help("add `completes_when` with a command that ends with 0 once logged in"),
        );
    }
}

fn refresh<'d>(ctx: &Context<'d>, auth: &'d Node) {
    let Some(entry) = auth.entry("refresh").filter(|e| e.value.is_map()) else {
        return;
    };
    let Some(every) = entry.value.get("every") else {
        ctx.report(
            Draft::new(
                &AUTH_REFRESH_EVERY_MISSING,
                entry,
                "`auth.refresh` does not say how often",
            )
            .help("add `every` with an ISO-8601 duration, as in `every: PT24H`"),
        );
        return;
    };
    let Some(text) = every.as_str() else {
        return;
    };
    if let Some(fault) = duration::fault(text) {
        let help = match duration::suggestion(text) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => "write a duration such as `PT24H`, `P7D` or `P1W`".to_owned(),
        };
        ctx.report(
            Draft::new(
                &AUTH_REFRESH_EVERY_ISO8601,
                every,
                format!("`{}` is not an ISO-8601 duration: {fault}", short(text, 40)),
            )
            .help(help),
        );
    }
}

/// Command lines of the login and of the first-run steps.
fn commands<'d>(root: &'d Node, auth: Option<&'d Node>) -> impl Iterator<Item = &'d Node> {
    let login = [
        auth.and_then(|a| a.at(&["login", "cmd"])),
        auth.and_then(|a| a.at(&["login", "completes_when", "cmd"])),
        auth.and_then(|a| a.at(&["refresh", "cmd"])),
    ];
    let steps = root.get("setup").map_or(&[][..], Node::items).iter();
    let steps = steps.flat_map(|step| {
        [
            step.get("cmd"),
            step.at(&["skip_if", "cmd"]),
            step.at(&["persist", "cmd"]),
        ]
    });
    login.into_iter().chain(steps).flatten()
}

/// What only an AIP-29 manifest has: a sandbox with lists, an exit code table, a terminal.
fn check_against_sandbox(ctx: &Context<'_>) {
    let Some(auth) = ctx.root.get("auth") else {
        return;
    };
    if let Some(sandbox) = ctx.root.get("sandbox") {
        env_passed(ctx, auth, sandbox);
        paths_reachable(ctx, auth, sandbox);
        terminal_and_callback(ctx, auth, sandbox);
    }
    expiry_code(ctx, auth);
}

fn env_passed<'d>(ctx: &Context<'d>, auth: &'d Node, sandbox: &'d Node) {
    let (Some(names), Some(env)) = (auth.at(&["state", "env"]), sandbox.entry("env")) else {
        return;
    };
    if !env.value.is_map() {
        return;
    }
    let pass = env.value.get("pass");
    if pass.is_some_and(|p| !p.is_seq()) {
        return;
    }
    for (name, node) in names.strings() {
        let passed = pass.is_some_and(|list| {
            list.strings()
                .any(|(p, _)| p == name || (p.contains('*') && globs::matches(p, name)))
        });
        let set = env.value.get("set").is_some_and(|set| set.has(name));
        // An impossible name is said once.
        if passed || set || !is_env_name(name) {
            continue;
        }
        let edits = match pass {
            Some(list) => edits::append_item(ctx.doc, list, name),
            None => edits::add_entry(
                ctx.doc,
                &env.value,
                "pass",
                &format!("[{}]", edits::string(name)),
            ),
        };
        ctx.report(
            Draft::new(
                &AUTH_STATE_ENV_NOT_PASSED,
                node,
                format!(
                    "`sandbox.env.pass` keeps `{}` from the binary",
                    short(name, 40)
                ),
            )
            .help("add it to `sandbox.env.pass`")
            .nearby(
                pass.map_or(env.key_span, |list| list.span),
                "variables outside this list do not reach the binary",
            )
            .fix_if(Safety::Safe, "Pass the variable", edits),
        );
    }
}

fn paths_reachable<'d>(ctx: &Context<'d>, auth: &'d Node, sandbox: &'d Node) {
    let (Some(paths), Some(fs)) = (auth.at(&["state", "paths"]), sandbox.entry("fs")) else {
        return;
    };
    if !fs.value.is_map() {
        return;
    }
    let list = |key: &str| fs.value.get(key);
    let opens = |key: &str, path: &str| {
        list(key).and_then(|l| l.strings().find(|(glob, _)| takes_in(glob, path)))
    };
    for (path, node) in paths.strings() {
        if let Some((glob, denied)) = opens("deny", path) {
            ctx.report(
                Draft::new(
                    &AUTH_STATE_PATHS_DENIED,
                    node,
                    format!(
                        "`sandbox.fs.deny` closes `{}` to the binary",
                        short(path, 60)
                    ),
                )
                .help("take the login out of the denied paths; a denial beats every grant")
                .nearby(denied.span, format!("`{}` takes it in", short(glob, 60))),
            );
        } else if opens("read", path).is_none() && opens("write", path).is_none() {
            let grant = grant_for(path);
            // The login is read, and written when it is renewed.
            let edits = ["read", "write"]
                .into_iter()
                .filter_map(list)
                .map(|l| edits::append_item(ctx.doc, l, &grant))
                .collect::<Option<Vec<_>>>()
                .map(|edits| edits.concat());
            ctx.report(
                Draft::new(
                    &AUTH_STATE_PATHS_NOT_WHITELISTED,
                    node,
                    format!(
                        "neither `sandbox.fs.read` nor `sandbox.fs.write` takes in `{}`",
                        short(path, 60)
                    ),
                )
                .help(format!("add `{}` to both lists", short(&grant, 60)))
                .nearby(fs.key_span, "paths outside these lists are closed")
                .fix_if(Safety::Safe, "Open the path", edits),
            );
        }
    }
}

/// The glob that opens a state path: a name with an ending is a file, any other a directory.
fn grant_for(path: &str) -> String {
    let path = path.trim_end_matches('/');
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_file = name.char_indices().any(|(at, c)| c == '.' && at > 0);
    if is_file || globs::has_wildcard(path) {
        path.to_owned()
    } else {
        format!("{path}/**")
    }
}

/// A state path may be a file or a directory; for the latter all that is in it counts.
fn takes_in(glob: &str, path: &str) -> bool {
    globs::covers(glob, path)
        || (glob.ends_with("/*")
            && globs::covers(glob, &format!("{}/*", path.trim_end_matches('/'))))
}

fn terminal_and_callback<'d>(ctx: &Context<'d>, auth: &'d Node, sandbox: &'d Node) {
    let flag = |key| {
        auth.at(&["login", key])
            .filter(|node| node.as_bool() == Some(true))
    };
    if let Some(node) = flag("interactive")
        && let Some(tty) = sandbox.at(&["tty", "required"])
        && tty.as_bool() == Some(false)
    {
        ctx.report(
            Draft::new(
                &AUTH_INTERACTIVE_NO_TTY,
                node,
                "the login is interactive, but the sandbox promises no terminal",
            )
            .help("set `sandbox.tty.required: true`, unless the login only opens a browser")
            .nearby(tty.span, "no terminal here"),
        );
    }
    if let Some(node) = flag("requires_callback_url")
        && let Some(network) = sandbox.entry("network")
        && network.value.is_map()
    {
        let ingress = network.value.get("ingress");
        if ingress.is_none_or(|list| list.is_seq() && list.items().is_empty()) {
            ctx.report(
                Draft::new(
                    &AUTH_CALLBACK_NO_INGRESS,
                    node,
                    "the login waits for a callback, but `sandbox.network.ingress` lets nothing in",
                )
                .help("add the callback's address to `sandbox.network.ingress`")
                .nearby(
                    ingress.map_or(network.key_span, |list| list.span),
                    "nothing may come in",
                ),
            );
        }
    }
}

/// Codes whose meaning AIP-29 reserves.
const RESERVED: [(u64, &str); 6] = [
    (0, "ok"),
    (1, "error"),
    (2, "usage_error"),
    (4, "auth_required"),
    (124, "timeout"),
    (137, "killed"),
];

fn expiry_code<'d>(ctx: &Context<'d>, auth: &'d Node) {
    let Some(detect) = auth.at(&["expiry", "detect"]) else {
        return;
    };
    let Some(code) = detect
        .as_str()
        .and_then(|text| text.strip_prefix("exit_code:"))
        .and_then(|code| code.parse::<u64>().ok())
    else {
        return;
    };
    let table = ctx.root.at(&["output", "exit_codes"]);
    if table.is_some_and(|t| !t.is_map()) {
        return;
    }
    let mapped = table.and_then(|table| {
        table
            .entries()
            .iter()
            .find(|e| e.key.parse::<u64>() == Ok(code))
    });
    let reserved = RESERVED.iter().find(|(n, _)| *n == code).map(|(_, m)| *m);
    let meaning = match mapped {
        Some(entry) => entry.value.as_str(),
        None => reserved,
    };
    match (meaning, mapped) {
        (Some("auth_required"), Some(_)) => {}
        // A manifest without a table relies on the reserved meanings.
        (Some("auth_required"), None) if table.is_none() => {}
        (Some(other), _) if other != "auth_required" => {
            let draft = Draft::new(
                &AUTH_EXPIRY_CODE_AMBIGUOUS,
                detect,
                format!(
                    "exit code {code} means `{}`, not that the login is gone",
                    short(other, 40)
                ),
            )
            .help(
                "find the code that the binary uses for this alone, and map it to `auth_required`",
            );
            ctx.report(match mapped {
                Some(entry) => draft.nearby(entry.span(), "mapped here"),
                None => draft,
            });
        }
        (_, Some(_)) => {}
        (_, None) => {
            let draft = Draft::new(
                &AUTH_EXPIRY_CODE_UNMAPPED,
                detect,
                format!("`output.exit_codes` does not map exit code {code} to `auth_required`"),
            )
            .help(format!(
                "add `{code}: auth_required` to `output.exit_codes`"
            ));
            ctx.report(match table {
                Some(table) => draft
                    .nearby(table.span, "the codes that are mapped")
                    .fix_if(
                        Safety::Safe,
                        "Map the code",
                        edits::add_entry(ctx.doc, table, &code.to_string(), "auth_required"),
                    ),
                None => draft,
            });
        }
    }
}

/// What only an AIP-45 manifest has.
fn check_agent(ctx: &Context<'_>) {
    let Some(auth) = ctx.root.entry("auth") else {
        let open = ctx.doc.front.map_or(Span::default(), |front| front.open);
        ctx.report(
            Draft::new(
                &AUTH_RECOMMENDED,
                Place::Bytes(open),
                "the manifest does not say how the agent logs in (`auth`)",
            )
            .help("add `auth` with a `ref` to a SECRETS.md that lists what the agent needs"),
        );
        return;
    };
    let Some(sandbox) = ctx.root.get("sandbox") else {
        return;
    };
    let message =
        "the provider `local` does not keep the agent's environment from the commands it runs";
    let help = "use a provider that isolates child processes, or leave `auth` out";
    if let Some(provider) = sandbox.get("provider") {
        if provider.as_str() == Some("local") {
            ctx.report(
                Draft::new(&AUTH_ENV_ISOLATION, provider, message)
                    .help(help)
                    .nearby(auth.key_span, "secrets reach the agent by its environment"),
            );
        }
    } else if sandbox.as_str().is_some()
        && let Some((reference, doc)) = ctx.bound(RefRole::Sandbox)
        && let Some(provider) = doc.root.as_ref().and_then(|root| root.get("provider"))
        && provider.as_str() == Some("local")
    {
        ctx.report(
            Draft::new(&AUTH_ENV_ISOLATION, reference.site.node, message)
                .help(help)
                .nearby(auth.key_span, "secrets reach the agent by its environment")
                .related(doc, provider.span, "the provider is chosen here"),
        );
    }
}
