//! Placeholders in manifest lines: `${value}`, `${input.ID}`, `${secrets.SLUG}` and
//! `${callback_url}`. In plain words, a value stays within its word. A shell gets values in its
//! environment, never as part of its script. A secret never becomes an argument (A45-AUTH-04).

use std::ffi::OsString;

use zeroize::Zeroizing;

use crate::command::CommandLine;

/// A value for a placeholder.
#[derive(Clone)]
pub struct PlaceholderValue {
    /// The text between the braces.
    pub name: String,
    pub value: Zeroizing<String>,
    pub secret: bool,
}

impl PlaceholderValue {
    pub fn new(name: impl Into<String>, value: &str, secret: bool) -> Self {
        PlaceholderValue {
            name: name.into(),
            value: Zeroizing::new(value.to_owned()),
            secret,
        }
    }
}

/// The command to execute.
pub struct FilledCommand {
    pub argv: Vec<OsString>,
    pub env: Vec<(OsString, OsString)>,
}

/// Programs that interpret their arguments as commands.
const INTERPRETERS: [&str; 9] = [
    "sh", "bash", "dash", "zsh", "ksh", "ash", "eval", "xargs", "env",
];
/// Shell built-ins: their words never become arguments of a process.
const BUILT_IN: [&str; 5] = ["printf", "echo", ":", "export", "read"];

/// Words that may precede the program name.
const COMMAND_PREFIXES: [&str; 14] = [
    "if", "elif", "then", "else", "do", "while", "until", "!", "{", "}", "exec", "command",
    "builtin", "time",
];
const PROGRAM_IS_PLACEHOLDER: &str = "the program name must not contain a placeholder";

/// Splits a text at its placeholders: the text before each one with its name, and the rest.
fn split(text: &str) -> (Vec<(&str, &str)>, &str) {
    let mut parts = Vec::new();
    let mut rest = text;
    let mut from = 0;
    while let Some(at) = rest.get(from..).and_then(|tail| tail.find("${")) {
        let start = from + at;
        let inside = rest.get(start + 2..).unwrap_or_default();
        match inside.split_once('}') {
            Some((name, after)) if is_placeholder(name) => {
                parts.push((rest.get(..start).unwrap_or_default(), name));
                rest = after;
                from = 0;
            }
            _ => from = start + 2,
        }
    }
    (parts, rest)
}

/// Whether a name is one of our placeholders. Other `${…}` belong to the shell.
fn is_placeholder(name: &str) -> bool {
    matches!(name, "value" | "callback_url")
        || name.starts_with("input.")
        || name.starts_with("secrets.")
}

/// Names of the placeholders in a text.
pub fn names(text: &str) -> impl Iterator<Item = &str> {
    split(text).0.into_iter().map(|(_, name)| name)
}

fn lookup<'g>(values: &'g [PlaceholderValue], name: &str) -> Result<&'g PlaceholderValue, String> {
    let found = values.iter().find(|g| g.name == name);
    found.ok_or_else(|| format!("no value for `${{{name}}}`"))
}

/// A URL with percent-encoded values.
pub fn url(text: &str, values: &[PlaceholderValue]) -> Result<String, String> {
    let (parts, end) = split(text);
    let mut out = String::new();
    for (before, name) in parts {
        out.push_str(before);
        let value = lookup(values, name)?;
        if value.secret {
            return Err(format!(
                "`${{{name}}}` is a secret and must not appear in a URL"
            ));
        }
        out.push_str(&percent(&value.value));
    }
    out.push_str(end);
    Ok(out)
}

pub fn percent(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(byte.into());
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// A command line with values.
pub fn line(text: &str, values: &[PlaceholderValue]) -> Result<FilledCommand, String> {
    let (parts, end) = split(text);
    let mut used = Vec::new();
    let mut marked = String::new();
    let stem = unused(text);
    for (before, name) in parts {
        marked.push_str(before);
        marked.push_str(&format!("{stem}{}Z", used.len()));
        used.push(lookup(values, name)?);
    }
    marked.push_str(end);
    let marks: Vec<(String, &PlaceholderValue)> = used
        .into_iter()
        .enumerate()
        .map(|(number, value)| (format!("{stem}{number}Z"), value))
        .collect();
    match CommandLine::parse(&marked)? {
        CommandLine::Words(words) => plain_words(words, &marks),
        CommandLine::Shell(script) => in_shell(&script, &marks),
    }
}

/// A prefix that does not occur in the text.
fn unused(text: &str) -> String {
    let mut stem = "AGENTPROTO_VALUE_".to_owned();
    while text.contains(&stem) {
        stem.push('X');
    }
    stem
}

fn secret_argument_error(value: &PlaceholderValue) -> String {
    format!(
        "`${{{}}}` is a secret and would become an argument, which every process can read \
         (AIP-45 § Auth surface); write `NAME=${{{0}}} tool …` or `printf %s ${{{0}}} | tool …`",
        value.name
    )
}

fn plain_words(
    words: Vec<String>,
    marks: &[(String, &PlaceholderValue)],
) -> Result<FilledCommand, String> {
    let within = |word: &str| {
        let mut used = marks
            .iter()
            .filter(|(mark, _)| word.contains(mark.as_str()));
        // If one of them is a secret, it is returned.
        let first = used.next();
        first
            .filter(|(_, g)| g.secret)
            .or(used.find(|(_, g)| g.secret))
            .or(first)
    };
    let mut out = FilledCommand {
        argv: Vec::new(),
        env: Vec::new(),
    };
    for word in words {
        if out.argv.is_empty() {
            if let Some((name, value)) = assignment(&word) {
                out.env.push((name.into(), fill(value, marks).into()));
                continue;
            }
            if within(&word).is_some() {
                return Err(PROGRAM_IS_PLACEHOLDER.to_owned());
            }
        }
        match within(&word) {
            Some((_, value)) if value.secret => return Err(secret_argument_error(value)),
            _ => out.argv.push(fill(&word, marks).into()),
        }
    }
    match out.argv.is_empty() {
        true => Err("the command is empty".to_owned()),
        false => Ok(out),
    }
}

/// Replaces marks by values in one pass, so that a value that looks like a mark is not replaced.
fn fill(word: &str, marks: &[(String, &PlaceholderValue)]) -> String {
    let mut out = String::new();
    let mut rest = word;
    while let Some(c) = rest.chars().next() {
        let mark = marks.iter().find(|(m, _)| rest.starts_with(m.as_str()));
        let taken = match mark {
            Some((mark, value)) => {
                out.push_str(&value.value);
                mark.len()
            }
            None => {
                out.push(c);
                c.len_utf8()
            }
        };
        rest = rest.get(taken..).unwrap_or_default();
    }
    out
}

/// Splits `NAME=value` before a command.
fn assignment(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    is_variable(name).then_some((name, value))
}

/// Whether a shell accepts it as a variable name.
pub fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Makes the shell read values from its environment, according to the quotes around each.
fn in_shell(script: &str, marks: &[(String, &PlaceholderValue)]) -> Result<FilledCommand, String> {
    if !marks.is_empty() {
        for form in ["`", "$(", "<<", "()", "alias"] {
            if script.contains(form) {
                return Err(format!("a placeholder is not safe in a line with `{form}`"));
            }
        }
        for command in simple_commands(script) {
            check(command, marks)?;
        }
    }
    let mut out = String::new();
    let mut rest = script;
    let mut quote = None;
    while let Some(c) = rest.chars().next() {
        if let Some((mark, _)) = marks.iter().find(|(m, _)| rest.starts_with(m.as_str())) {
            let name = mark.trim_end_matches('Z');
            out.push_str(&match quote {
                None => format!("\"${{{name}}}\""),
                Some('"') => format!("${{{name}}}"),
                _ => format!("'\"${{{name}}}\"'"),
            });
            rest = rest.get(mark.len()..).unwrap_or_default();
            continue;
        }
        let mut taken = c.len_utf8();
        match (quote, c) {
            (None | Some('"'), '\\') => {
                taken += rest.chars().nth(1).map_or(0, char::len_utf8);
            }
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            _ => {}
        }
        let (now, later) = rest.split_at_checked(taken).unwrap_or((rest, ""));
        out.push_str(now);
        rest = later;
    }
    let env = marks.iter().map(|(mark, value)| {
        let name = mark.trim_end_matches('Z');
        (name.into(), value.value.as_str().into())
    });
    Ok(FilledCommand {
        argv: vec!["/bin/sh".into(), "-c".into(), out.into()],
        env: env.collect(),
    })
}

/// Splits a script at `|`, `&`, `;`, parentheses and line breaks outside quotes.
fn simple_commands(script: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut start = 0;
    let mut quote = None;
    let mut chars = script.char_indices();
    while let Some((at, c)) = chars.next() {
        match (quote, c) {
            (None | Some('"'), '\\') => {
                chars.next();
            }
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            (None, '|' | '&' | ';' | '(' | ')' | '\n') => {
                out.extend(script.get(start..at));
                start = at + c.len_utf8();
            }
            _ => {}
        }
    }
    out.extend(script.get(start..));
    out
}

/// Checks that values reach a command in a safe way.
fn check(command: &str, marks: &[(String, &PlaceholderValue)]) -> Result<(), String> {
    if !marks
        .iter()
        .any(|(mark, _)| command.contains(mark.as_str()))
    {
        return Ok(());
    }
    let words =
        shell_words::split(command).map_err(|_| "unclosed quote in the command".to_owned())?;
    let is_before = |w: &&String| COMMAND_PREFIXES.contains(&w.as_str()) || assignment(w).is_some();
    let before = words.iter().take_while(is_before).count();
    let program = words.get(before).map_or("", String::as_str);
    if marks
        .iter()
        .any(|(mark, _)| program.contains(mark.as_str()))
    {
        return Err(PROGRAM_IS_PLACEHOLDER.to_owned());
    }
    let program = program.rsplit('/').next().unwrap_or(program);
    let arguments = words.get(before..).unwrap_or_default();
    for (mark, value) in marks {
        if !arguments.iter().any(|word| word.contains(mark.as_str())) {
            continue;
        }
        if INTERPRETERS.contains(&program) {
            return Err(format!(
                "`{program}` would execute the value of `${{{}}}`",
                value.name
            ));
        }
        if value.secret && !BUILT_IN.contains(&program) {
            return Err(secret_argument_error(value));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> Vec<PlaceholderValue> {
        vec![
            PlaceholderValue::new("value", "a'; \"$(id)\" b", false),
            PlaceholderValue::new("input.region", "eu", false),
            PlaceholderValue::new("secrets.token", "hunter22", true),
        ]
    }

    fn argv(text: &str) -> Result<Vec<String>, String> {
        let ready = line(text, &values())?;
        let text = |word: OsString| word.into_string().expect("text");
        Ok(ready.argv.into_iter().map(text).collect())
    }

    #[test]
    fn a_value_stays_within_its_word() {
        assert_eq!(
            argv("tool set key=${value} ${input.region}"),
            Ok(vec![
                "tool".into(),
                "set".into(),
                "key=a'; \"$(id)\" b".into(),
                "eu".into()
            ])
        );
        let sly = [
            PlaceholderValue::new("value", "AGENTPROTO_VALUE_1Z", false),
            PlaceholderValue::new("secrets.token", "hunter22", true),
        ];
        let ready = line("T=${secrets.token} tool ${value}", &sly).expect("a line");
        assert_eq!(ready.argv, ["tool", "AGENTPROTO_VALUE_1Z"]);
        assert!(argv("${value} x").is_err());
        assert!(argv("tool ${input.unknown}").is_err());
    }

    #[test]
    fn a_shell_reads_values_from_its_environment() {
        let script = |text: &str| argv(text).map(|argv| argv[2].clone());
        assert_eq!(
            script("tool ${value} | cat").expect("a line"),
            "tool \"${AGENTPROTO_VALUE_0}\" | cat"
        );
        assert_eq!(
            script("tool \"x ${value}\" && cat '${input.region}!'").expect("a line"),
            "tool \"x ${AGENTPROTO_VALUE_0}\" && cat ''\"${AGENTPROTO_VALUE_1}\"'!'"
        );
        assert_eq!(
            script("echo $HOME ${PATH}").expect("a line"),
            "echo $HOME ${PATH}"
        );
        for bad in [
            "x=$(tool ${value})",
            "sh -c 'tool ${value}' | cat",
            "eval ${value} ; x",
            "eval ${HOME} ${value}",
            "{ exec /bin/sh -c ${value}; }",
            "true && ${value}",
            "printf() { tool \"$@\"; }; printf ${value}",
            "cat <<E\n${value}\nE",
        ] {
            assert!(argv(bad).is_err(), "{bad}");
        }
    }

    proptest::proptest! {
        /// For any manifest and any answer: no panic, and no secret in an argument.
        #[test]
        fn any_line(
            line in r#"([a-z ]|\$\{value\}|\$\{input\.x\}|[|&;()<>'"`\\{}$=#*~\n]|printf |é){0,24}"#,
            secret in "[A-Z]{6}[ '\"$;|]{0,3}",
        ) {
            let values = [PlaceholderValue::new("value", &secret, true), PlaceholderValue::new("input.x", "x y", false)];
            if let Ok(ready) = super::line(&line, &values) {
                for word in &ready.argv {
                    assert!(!word.to_string_lossy().contains(&secret), "{line:?}: {word:?}");
                }
            }
            let _ = url(&line, &values);
        }
    }

    /// A45-AUTH-04.
    #[test]
    fn a_secret_never_becomes_an_argument() {
        for bad in [
            "tool login ${secrets.token}",
            "tool --token=${secrets.token} | cat",
            "tool ${input.region}${secrets.token}",
            "true && tool \"${secrets.token}\"",
        ] {
            let why = argv(bad).expect_err(bad);
            assert!(
                why.contains("argument") && !why.contains("hunter22"),
                "{why}"
            );
        }
        let ready = line("TOKEN=${secrets.token} tool login", &values()).expect("a line");
        assert_eq!(ready.argv, ["tool", "login"]);
        assert_eq!(ready.env, [("TOKEN".into(), "hunter22".into())]);
        let ready = line("printf %s ${secrets.token} | tool login", &values()).expect("a line");
        assert!(
            ready
                .argv
                .iter()
                .all(|a| !a.to_string_lossy().contains("hunter22"))
        );
        let piped = line("TOKEN=${secrets.token} tool | cat", &values()).expect("a line");
        assert_eq!(piped.argv[2], "TOKEN=\"${AGENTPROTO_VALUE_0}\" tool | cat");
    }

    #[test]
    fn urls_are_encoded_and_contain_no_secret() {
        let got = url("https://x/?r=${input.region}&v=${value}", &values());
        assert_eq!(
            got.expect("a URL"),
            "https://x/?r=eu&v=a%27%3B%20%22%24%28id%29%22%20b"
        );
        assert!(url("https://x/${secrets.token}", &values()).is_err());
    }
}
