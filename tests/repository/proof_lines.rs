//! Finds the `proves!` lines of all tests.
//!
//! It reads lines instead of parsing Rust, which is enough for code that `cargo fmt` has formatted.
//! It follows `mod` declarations from the crate roots, so a file that is not compiled proves
//! nothing. A `proves!` that is not the first statement of a test that runs is a mistake.

use std::path::{Path, PathBuf};

/// Conditions that hold wherever the tests run.
const ALWAYS: [&str; 5] = [
    "#[cfg(test)]",
    "#[cfg(unix)]",
    "#[cfg(target_os = \"linux\")]",
    "#[cfg(agents)]",
    "#[cfg(feature = \"full\")]",
];

/// Start of a call. Not written as one word, so that this file does not contain it.
const CALL: &str = concat!("proves", "!(");

/// Requirement ids and the test that proves them.
#[derive(Debug, PartialEq, Eq)]
pub struct Line {
    pub ids: Vec<String>,
    /// `FILE::TEST`, with the file relative to the repository.
    pub test: String,
}

/// All `proves!` lines below the repository root, and all mistakes.
pub fn find(root: &Path) -> (Vec<Line>, Vec<String>) {
    let mut found = (Vec::new(), Vec::new());
    for path in crate_roots(root) {
        let target = target_name(&path);
        let has_runner = runs_ignored_tests(root, &target);
        follow(root, &path, has_runner, &mut found);
    }
    found
}

/// Files from which rustc starts: libraries, programs and test targets.
fn crate_roots(root: &Path) -> Vec<PathBuf> {
    let mut packages = vec![root.to_owned(), root.join("suites"), root.join("schemas")];
    packages.extend(entries(&root.join("crates")));
    let mut roots = Vec::new();
    for package in packages {
        roots.extend(["src/lib.rs", "src/main.rs", "lib.rs"].map(|name| package.join(name)));
        for entry in entries(&package.join("tests")) {
            let is_file = entry.extension().is_some_and(|e| e == "rs");
            roots.push(if is_file {
                entry
            } else {
                entry.join("main.rs")
            });
        }
    }
    roots.retain(|path| path.is_file());
    roots
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// `npm` for `tests/npm/main.rs` and for `tests/npm.rs`.
fn target_name(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let dir = path.parent().and_then(Path::file_name).unwrap_or_default();
    match &*stem {
        "main" => dir.to_string_lossy().into_owned(),
        _ => stem.into_owned(),
    }
}

/// Whether a script `tests/NAME/run` runs the ignored tests of a target.
fn runs_ignored_tests(root: &Path, target: &str) -> bool {
    entries(&root.join("tests")).iter().any(|dir| {
        let script = std::fs::read_to_string(dir.join("run")).unwrap_or_default();
        let runs =
            |line: &str| line.contains(&format!("--test {target} ")) && line.contains("--ignored");
        script.lines().any(runs)
    })
}

/// Reads a file and the files of its modules.
fn follow(root: &Path, path: &Path, has_runner: bool, found: &mut (Vec<Line>, Vec<String>)) {
    let Ok(text) = std::fs::read_to_string(path) else {
        found.1.push(format!("{}: cannot be read", path.display()));
        return;
    };
    let name = path.strip_prefix(root).unwrap_or(path).to_string_lossy();
    let file = scan(&name, &text, has_runner);
    found.0.extend(file.lines);
    found.1.extend(file.mistakes);
    let dir = path.parent().unwrap_or(root);
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let own_dir = match &*stem {
        "main" | "lib" | "mod" => dir.to_owned(),
        stem => dir.join(stem),
    };
    for module in file.modules {
        let candidates = match module.path {
            Some(path) => vec![dir.join(path)],
            None => vec![
                own_dir.join(format!("{}.rs", module.name)),
                own_dir.join(&module.name).join("mod.rs"),
                // Modules of a test target that is one file.
                dir.join(format!("{}.rs", module.name)),
                dir.join(&module.name).join("mod.rs"),
            ],
        };
        if let Some(path) = candidates.iter().find(|path| path.is_file()) {
            follow(root, path, has_runner, found);
        }
    }
}

/// `mod name;` that is compiled.
#[derive(Debug, PartialEq, Eq)]
struct Module {
    name: String,
    path: Option<String>,
}

#[derive(Debug, Default)]
struct File {
    lines: Vec<Line>,
    modules: Vec<Module>,
    mistakes: Vec<String>,
}

/// The function whose first statement has not been reached yet.
struct Function {
    name: String,
    attributes: Vec<String>,
    has_body: bool,
}

fn scan(name: &str, text: &str, has_runner: bool) -> File {
    let mut file = File::default();
    let mut attributes: Vec<String> = Vec::new();
    // Inline modules that are open: their indentation and their attributes.
    let mut inside: Vec<(usize, Vec<String>)> = Vec::new();
    let mut function: Option<Function> = None;
    let mut whole_file: Vec<String> = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let code = line.trim();
        let indent = line.len() - line.trim_start().len();
        if code.is_empty() || code.starts_with("//") {
            continue;
        }
        if let Some(inner) = code.strip_prefix("#![") {
            whole_file.push(format!("#[{inner}"));
            continue;
        }
        if code.starts_with("#[") {
            attributes.push(code.to_owned());
            continue;
        }
        let place = format!("{name}:{}", number + 1);
        if code.contains(CALL) {
            let mut call = code.to_owned();
            while !call.contains(");") {
                let Some((_, more)) = lines.next() else { break };
                call.push_str(more.trim());
            }
            let outer = inside.iter().flat_map(|(_, attributes)| attributes);
            let outer: Vec<&String> = outer.chain(&whole_file).collect();
            let test = function.take().filter(|function| function.has_body);
            match proof(&call, test, &outer, has_runner) {
                Ok((ids, test)) => file.lines.push(Line {
                    ids,
                    test: format!("{name}::{test}"),
                }),
                Err(mistake) => file.mistakes.push(format!("{place}: {mistake}")),
            }
            attributes.clear();
            continue;
        }
        if let Some(open) = &mut function {
            if !open.has_body {
                // The signature goes on over several lines.
                open.has_body = code.ends_with('{');
                attributes.clear();
                continue;
            }
            function = None;
        }
        while code == "}" && inside.last().is_some_and(|(at, _)| *at >= indent) {
            inside.pop();
        }
        let words = code
            .trim_start_matches("pub ")
            .trim_start_matches("pub(crate) ");
        if let Some(module) = words.strip_prefix("mod ") {
            let outer = inside.iter().flat_map(|(_, attributes)| attributes);
            let compiled = outer
                .chain(&attributes)
                .chain(&whole_file)
                .all(|a| always_holds(a));
            match (module.strip_suffix(';'), module.strip_suffix(" {")) {
                (Some(name), _) if compiled => file.modules.push(Module {
                    name: name.to_owned(),
                    path: attributes.iter().find_map(|a| quoted(a, "#[path")),
                }),
                (_, Some(_)) => inside.push((indent, attributes.clone())),
                _ => {}
            }
        }
        let words = words
            .trim_start_matches("async ")
            .trim_start_matches("const ");
        if let Some(rest) = words.strip_prefix("fn ") {
            let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_'));
            let is_over = code.ends_with(';') || code.ends_with('}');
            function = (!is_over).then(|| Function {
                name: rest[..end.unwrap_or(rest.len())].to_owned(),
                attributes: std::mem::take(&mut attributes),
                has_body: code.ends_with('{'),
            });
        }
        attributes.clear();
    }
    file
}

/// Whether an attribute does not keep code out of the build.
fn always_holds(attribute: &str) -> bool {
    !attribute.starts_with("#[cfg") || ALWAYS.contains(&attribute)
}

fn quoted(attribute: &str, start: &str) -> Option<String> {
    let rest = attribute.strip_prefix(start)?;
    rest.split('"').nth(1).map(str::to_owned)
}

/// The ids of a call and the name of its test, or the reason why it does not count.
fn proof(
    call: &str,
    function: Option<Function>,
    outer: &[&String],
    has_runner: bool,
) -> Result<(Vec<String>, String), String> {
    let call = call.strip_prefix("agentproto_suites::").unwrap_or(call);
    let arguments = call.strip_prefix(CALL).and_then(|c| c.strip_suffix(");"));
    let Some((arguments, function)) = arguments.zip(function) else {
        return Err("`proves!` is not the first statement of a test".to_owned());
    };
    let name = function.name;
    let own = function.attributes.iter();
    let is_test = |a: &&String| **a == "#[test]" || a.starts_with("#[tokio::test");
    if !own.clone().any(|a| is_test(&a)) {
        return Err(format!("`{name}` is not a test"));
    }
    if own.clone().any(|a| a.starts_with("#[ignore")) && !has_runner {
        return Err(format!("`{name}` is ignored, and no tests/*/run runs it"));
    }
    let conditional = own.chain(outer.iter().copied()).find(|a| !always_holds(a));
    if let Some(condition) = conditional {
        return Err(format!("`{name}` is compiled only with {condition}"));
    }
    let ids: Vec<String> = arguments
        .split('"')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect();
    match ids.is_empty() {
        true => Err(format!("`{name}` names no requirement")),
        false => Ok((ids, name)),
    }
}

/// Test text in which `CLAIMS` stands for the macro, so that the scanner does not find it here.
#[cfg(test)]
fn scanned(text: &str) -> (Vec<String>, Vec<String>) {
    let text = text.replace("CLAIMS", "agentproto_suites::proves!");
    let file = scan("t.rs", &text, false);
    let lines = file.lines.into_iter();
    let lines = lines.map(|line| format!("{} {}", line.test, line.ids.join(" ")));
    (lines.collect(), file.mistakes)
}

#[test]
fn calls_in_tests_are_found() {
    let (lines, mistakes) = scanned(
        "#[test]\nfn one() {\n    CLAIMS(\"A-1\", \"A-2\");\n    go();\n}\n\n\
         #[tokio::test(flavor = \"multi_thread\")]\nasync fn two() {\n    // Why.\n    CLAIMS(\n        \
         \"A-3\",\n        \"A-4\",\n    );\n}\n\n\
         #[cfg(test)]\nmod tests {\n    #[test]\n    fn three() {\n        CLAIMS(\"A-5\");\n    }\n}\n",
    );
    assert_eq!(
        lines,
        ["t.rs::one A-1 A-2", "t.rs::two A-3 A-4", "t.rs::three A-5"]
    );
    assert!(mistakes.is_empty(), "{mistakes:?}");
}

#[test]
fn calls_that_prove_nothing_are_mistakes() {
    for (text, expected) in [
        (
            "fn one() {\n    CLAIMS(\"A-1\");\n}\n",
            "`one` is not a test",
        ),
        (
            "#[test]\n#[ignore = \"slow\"]\nfn one() {\n    CLAIMS(\"A-1\");\n}\n",
            "`one` is ignored, and no tests/*/run runs it",
        ),
        (
            "#[test]\nfn one() {\n    go();\n    CLAIMS(\"A-1\");\n}\n",
            "`proves!` is not the first statement of a test",
        ),
        (
            "#[cfg(windows)]\n#[test]\nfn one() {\n    CLAIMS(\"A-1\");\n}\n",
            "`one` is compiled only with #[cfg(windows)]",
        ),
        (
            "#[cfg(not(unix))]\nmod far {\n    #[test]\n    fn one() {\n        CLAIMS(\"A-1\");\n    }\n}\n",
            "`one` is compiled only with #[cfg(not(unix))]",
        ),
        (
            "#![cfg(windows)]\n#[test]\nfn one() {\n    CLAIMS(\"A-1\");\n}\n",
            "`one` is compiled only with #[cfg(windows)]",
        ),
        (
            "#[test]\nfn one() {\n    CLAIMS(ID);\n}\n",
            "`one` names no requirement",
        ),
    ] {
        let (lines, mistakes) = scanned(text);
        assert!(lines.is_empty(), "{text}: {lines:?}");
        assert!(
            mistakes.len() == 1 && mistakes[0].ends_with(expected),
            "{mistakes:?}"
        );
    }
}

#[test]
fn a_condition_ends_with_its_module() {
    let (lines, mistakes) = scanned(
        "#[cfg(windows)]\nmod far {\n    fn go() {}\n}\n\n#[test]\nfn one() {\n    CLAIMS(\"A-1\");\n}\n",
    );
    assert_eq!(lines, ["t.rs::one A-1"]);
    assert!(mistakes.is_empty(), "{mistakes:?}");
}

#[test]
fn only_compiled_modules_are_followed() {
    let file = scan(
        "main.rs",
        "mod near;\npub mod open;\n#[cfg(windows)]\nmod far;\n#[path = \"../x/y.rs\"]\nmod other;\n",
        false,
    );
    let names: Vec<&str> = file.modules.iter().map(|m| m.name.as_str()).collect();
    assert_eq!(names, ["near", "open", "other"]);
    assert_eq!(file.modules[2].path.as_deref(), Some("../x/y.rs"));
}

/// Every file with a `proves!` line is part of a test target.
#[test]
fn no_call_is_in_a_file_that_is_not_compiled() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (lines, mistakes) = find(root);
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
    let mut pending = vec![root.join("tests"), root.join("crates"), root.join("src")];
    while let Some(path) = pending.pop() {
        if path.is_dir() {
            pending.extend(entries(&path));
            continue;
        }
        let is_code = path.extension().is_some_and(|e| e == "rs");
        if !is_code {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("readable");
        let calls = text
            .lines()
            .filter(|line| line.contains(CALL) && !line.trim_start().starts_with("//"));
        let calls = calls.count();
        let name = path
            .strip_prefix(root)
            .expect("below the root")
            .to_string_lossy();
        let own = format!("{name}::");
        let known = lines
            .iter()
            .filter(|line| line.test.starts_with(&own))
            .count();
        assert_eq!(
            known, calls,
            "{name}: some `proves!` are not compiled into a test target"
        );
    }
}
