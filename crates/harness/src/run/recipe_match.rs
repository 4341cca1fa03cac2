//! Finds the recipe for an agent from its command line and from the name that it reports.

use std::path::Path;

use serde_json::Value;

use super::recipe::{self, Recipe};

/// Programs that run other programs. Their name says nothing about the agent.
const RUNNERS: [&str; 9] = [
    "node", "npx", "bun", "bunx", "deno", "python", "python3", "uv", "uvx",
];

/// The name of the built-in recipe for an agent, given its command line and its response to
/// `initialize`.
pub fn known_recipe(command: &[String], initialize: &Value) -> Option<&'static str> {
    recipe::names().find(|name| {
        let recipe = recipe::built_in(name).ok();
        let recipe = recipe.and_then(|text| recipe::parse(text).ok());
        recipe.is_some_and(|recipe| fits(&recipe, command, initialize))
    })
}

fn fits(recipe: &Recipe, command: &[String], initialize: &Value) -> bool {
    let info = ["agentInfo", "info"].map(|key| initialize.get(key));
    let name = info.into_iter().flatten().next();
    let name = name.and_then(|info| info.get("name")?.as_str());
    if name == Some(recipe.package.name.as_str()) {
        return true;
    }
    let program = file_name(command.first());
    let is_runner = |program: &str| RUNNERS.contains(&program);
    if let Some(program) = program.filter(|program| !is_runner(program)) {
        return Some(program) == file_name(recipe.command.first());
    }
    // `npx @scope/agent@1.2`, or the path of a script of the package.
    let package = recipe.package.name.as_str();
    command.iter().skip(1).any(|word| {
        let version = word.get(1..).and_then(|rest| rest.rfind('@'));
        let name = version.and_then(|at| word.get(..=at)).unwrap_or(word);
        name == package || word.contains(&format!("node_modules/{package}/"))
    })
}

fn file_name(word: Option<&String>) -> Option<&str> {
    Path::new(word?).file_name()?.to_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_agent_is_known_by_its_command_or_its_name() {
        let of = |words: &[&str], name: &str| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            known_recipe(&words, &json!({"agentInfo": {"name": name}}))
        };
        let gemini = Some("gemini-cli");
        assert_eq!(of(&["/usr/bin/gemini", "--acp"], "x"), gemini);
        assert_eq!(of(&["npx", "-y", "@google/gemini-cli@0.61.0"], "x"), gemini);
        assert_eq!(of(&["npx", "@google/gemini-cli"], "x"), gemini);
        let script = "/a/node_modules/@google/gemini-cli/dist/index.js";
        assert_eq!(of(&["/usr/bin/node", script], "x"), gemini);
        assert_eq!(of(&["./wrapper"], "@google/gemini-cli"), gemini);
        assert_eq!(of(&["node", "server.js"], "x"), None);
        assert_eq!(of(&["my-agent"], "x"), None);
        assert_eq!(known_recipe(&[], &json!({})), None);
    }
}
