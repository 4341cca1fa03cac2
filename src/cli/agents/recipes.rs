//! `agentproto certify --recipe`: certifies a known agent with the settings that it needs.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};

use crate::cli::agents::certify::Certify;
use crate::cli::agents::file_errors::{invalid_file, unreadable};
use crate::cli::{Failure, Outcome, io_failure};
use crate::exit;
use agentproto_harness::render::Format;
use agentproto_harness::run::recipe::{self, Recipe};
use agentproto_report::aoi::{Emitter, Fields, object};
use agentproto_report::event::EventType;

/// Loads a built-in recipe, or a file if the name is a path to one.
pub(super) fn load(name: &str) -> Result<Recipe, Failure> {
    let is_path = name.ends_with(".yaml") || name.ends_with(".yml");
    let owned;
    let text = match recipe::built_in(name) {
        Ok(text) => text,
        Err(_) if is_path => {
            let path = Path::new(name);
            owned = std::fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
            &owned
        }
        Err(closest) => {
            let failure = Failure::new(exit::USAGE, format!("unknown recipe `{name}`"));
            return Err(failure.hint(match closest {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => "`agentproto certify --list-recipes` lists them; to use a file, give a path that ends in .yaml".to_owned(),
            }));
        }
    };
    recipe::parse(text).map_err(|errors| invalid_file("recipe", name, &errors))
}

/// The options with those of the recipe. What the command line sets takes precedence.
pub(super) fn apply(recipe: &Recipe, args: &Certify, workspace: &Path) -> Result<Certify, Failure> {
    let mut args = args.clone();
    if args.command.is_empty() {
        let here = std::env::current_dir().map_err(io_failure)?;
        let put = |word: &String| OsString::from(word.replace("{cwd}", &here.to_string_lossy()));
        args.command = recipe.command.iter().map(put).collect();
    }
    args.mock_llm |= recipe.uses_mock_model;
    let own = std::mem::take(&mut args.env);
    let env = recipe.env.iter();
    args.env = env.map(|(name, value)| format!("{name}={value}")).collect();
    args.env.extend(own);
    if args.home.is_none() && !recipe.home.is_empty() {
        let home = workspace.join("recipe-home");
        for (path, text) in &recipe.home {
            let path = home.join(path);
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent).map_err(io_failure)?;
            }
            std::fs::write(&path, text).map_err(io_failure)?;
        }
        args.home = Some(home);
    }
    if args.auth_method.is_none() {
        args.auth_method.clone_from(&recipe.auth_method);
    }
    Ok(args)
}

/// Lists all recipes.
pub(super) fn list(output: Format, out: &mut dyn Write) -> Outcome {
    let started = Instant::now();
    let mut recipes = Vec::new();
    for name in recipe::names() {
        recipes.push((name, load(name)?));
    }
    let entries = recipes.iter().map(|(name, recipe)| entry(name, recipe));
    let written = match output {
        Format::Json => {
            let document = json!({ "recipes": entries.collect::<Vec<Value>>() });
            writeln!(out, "{document:#}")
        }
        Format::Jsonl => list_jsonl(entries, started, out),
        Format::Human => list_text(&recipes, out),
        other => {
            let message = format!("--list-recipes has no output format `{other}`");
            return Err(Failure::new(exit::USAGE, message).hint("use human, json or jsonl"));
        }
    };
    written.map_err(io_failure)?;
    Ok(exit::CLEAN)
}

fn entry(name: &str, recipe: &Recipe) -> Value {
    json!({
        "name": name,
        "title": recipe.title,
        "registry": recipe.package.registry,
        "package": recipe.package.name,
        "version": recipe.package.version,
        "with": recipe.package.with,
        "install": recipe.package.install(),
        "command": recipe.command,
        "model": if recipe.uses_mock_model { "mock" } else { "none" },
        "env": mapping(&recipe.env),
        "home": mapping(&recipe.home),
        "auth": recipe.auth_method,
        "prompts": recipe.prompts,
        "note": recipe.note,
    })
}

fn mapping(pairs: &[(String, String)]) -> Value {
    let pairs = pairs.iter();
    let entries = pairs.map(|(name, value)| (name.clone(), json!(value)));
    Value::Object(entries.collect())
}

fn list_jsonl(
    entries: impl Iterator<Item = Value>,
    started: Instant,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut emitter = Emitter::new(out, env!("CARGO_PKG_VERSION"));
    emitter.meta("certify")?;
    for entry in entries {
        emitter.event(EventType::Recipe, &object(entry))?;
    }
    emitter.summary(true, started.elapsed(), Fields::new())
}

fn list_text(recipes: &[(&str, Recipe)], out: &mut dyn Write) -> io::Result<()> {
    let rows = recipes.iter().map(|(name, recipe)| {
        let model = if recipe.uses_mock_model {
            "mock"
        } else {
            "none"
        };
        [*name, model]
            .map(str::to_owned)
            .into_iter()
            .chain([recipe.package.install()])
    });
    let head = ["RECIPE", "MODEL", "INSTALL"].map(str::to_owned);
    let rows: Vec<Vec<String>> = std::iter::once(head.to_vec())
        .chain(rows.map(Iterator::collect))
        .collect();
    let width = |at: usize| rows.iter().map(|row| row[at].len()).max().unwrap_or(0);
    let (first, second) = (width(0), width(1));
    for row in &rows {
        writeln!(out, "{:first$}  {:second$}  {}", row[0], row[1], row[2])?;
    }
    writeln!(
        out,
        "\nTo certify an installed agent: `agentproto certify --recipe NAME`. If its program is not on \
         PATH, add `-- COMMAND`."
    )
}
