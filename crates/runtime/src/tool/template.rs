//! Expands `runner.argv` into arguments (AIP-29, args template). The result goes to `execve`, never
//! to a shell, so that no value can act as shell syntax (A29-CMD-08).
//!
//! A value that begins with `-` must not become an option that the caller chose:
//!
//! - after a literal `--`, or as a part of an argument such as `--title=${input.title}`, any value
//!   is safe;
//! - after a long option of the template it is joined: `--title`, `${input.title}` becomes
//!   `--title=-x`;
//! - anywhere else it is refused, unless the schema lists it (`enum`, `const`) or the template
//!   contains it (`default('-x')`).

use serde_json::{Value, json};

use crate::error::{Code, Error};
use agentproto_manifest::templates::{
    Templates, split_arguments, split_filters, unclosed_template,
};
use agentproto_manifest::{Node, Span};
use agentproto_text::{closest_of, one_of, truncate};

/// Maximum length of one argument, in bytes. Linux allows 128 KiB including the final zero.
const MAX_ARGUMENT: usize = (128 << 10) - 1;
/// Maximum length of all arguments, in bytes.
const MAX_ARGUMENTS: usize = 1 << 20;

const FILTERS: [&str; 4] = ["default", "optional", "flag", "json"];

/// A parsed `runner.argv`.
#[derive(Clone, Debug)]
pub struct ArgvTemplate {
    arguments: Vec<Argument>,
}

#[derive(Clone, Debug)]
enum Argument {
    /// Text without a template.
    Literal(String),
    /// A template and nothing else.
    Input(Reference),
    /// Text with templates in it.
    Mixed(Vec<Part>),
}

#[derive(Clone, Debug)]
enum Part {
    Text(String),
    Input(Reference),
}

/// `input.NAME…` with its filters.
#[derive(Clone, Debug)]
pub struct Reference {
    /// Keys and list indexes below the input.
    path: Vec<String>,
    filters: Vec<Filter>,
}

#[derive(Clone, Debug)]
enum Filter {
    Default(Value),
    Optional(Option<String>),
    Flag(String),
    Json,
}

/// What is wrong with a template, and where.
#[derive(Debug)]
pub struct TemplateError {
    /// Place in the manifest.
    pub span: Span,
    /// What is wrong.
    pub what: String,
}

impl Reference {
    /// The JSON Pointer of the input.
    pub fn pointer(&self) -> String {
        let escaped = self.path.iter();
        let escaped = escaped.map(|key| key.replace('~', "~0").replace('/', "~1"));
        escaped.map(|key| format!("/{key}")).collect()
    }

    /// The name of the input.
    pub fn name(&self) -> &str {
        self.path.first().map_or("", String::as_str)
    }
}

impl ArgvTemplate {
    /// Parses the argument list of a TOOL.md.
    pub fn parse(argv: &Node) -> Result<ArgvTemplate, TemplateError> {
        let fail = |node: &Node, what: String| TemplateError {
            span: node.span,
            what,
        };
        if !argv.is_seq() {
            let what = format!("`runner.argv` must be a list, not {}", argv.type_name());
            return Err(fail(argv, what));
        }
        let mut arguments = Vec::new();
        for node in argv.items() {
            let Some(text) = node.as_str() else {
                let what = format!("an argument must be a string, not {}", node.type_name());
                return Err(fail(node, what));
            };
            arguments.push(argument(text).map_err(|what| fail(node, what))?);
        }
        Ok(ArgvTemplate { arguments })
    }

    /// The plain arguments `words`, for a tool without a template.
    pub fn literal(words: &[String]) -> ArgvTemplate {
        ArgvTemplate {
            arguments: words.iter().cloned().map(Argument::Literal).collect(),
        }
    }

    /// Every input that the template uses.
    pub fn references(&self) -> impl Iterator<Item = &Reference> {
        self.arguments.iter().flat_map(|argument| match argument {
            Argument::Literal(_) => Vec::new(),
            Argument::Input(reference) => vec![reference],
            Argument::Mixed(parts) => parts
                .iter()
                .filter_map(|part| match part {
                    Part::Input(reference) => Some(reference),
                    Part::Text(_) => None,
                })
                .collect(),
        })
    }

    /// Fills the template from a validated input (A29-CMD-06). `is_listed` is true for a value that
    /// the schema of the input lists.
    pub fn expand(
        &self,
        input: &Value,
        is_listed: &dyn Fn(&Reference, &str) -> bool,
    ) -> Result<Expanded, Error> {
        let mut out = Expanded::default();
        for argument in &self.arguments {
            match argument {
                Argument::Literal(text) => out.literal(text),
                Argument::Input(reference) => out.input(reference, input, is_listed)?,
                Argument::Mixed(parts) => out.mixed(parts, input, is_listed)?,
            }
        }
        out.option = None;
        let length: usize = out.words.iter().map(|word| word.len() + 1).sum();
        match length > MAX_ARGUMENTS {
            true => Err(invalid("", "the arguments are longer than 1 MiB in total")),
            false => Ok(out),
        }
    }
}

/// The arguments of one call.
#[derive(Debug, Default)]
pub struct Expanded {
    /// The arguments.
    pub words: Vec<String>,
    /// Index of the literal `--`, after which everything is an operand.
    pub end_of_options: Option<usize>,
    /// The option of the template right before this place.
    option: Option<String>,
}

/// A value for one place.
struct Filled {
    text: String,
    /// Whether the author of the manifest chose the value.
    is_trusted: bool,
}

impl Expanded {
    fn literal(&mut self, text: &str) {
        if text == "--" && self.end_of_options.is_none() {
            self.end_of_options = Some(self.words.len());
        }
        let is_option = self.end_of_options.is_none()
            && text.len() > 1
            && text.starts_with('-')
            && !text.contains('=');
        self.option = is_option.then(|| text.to_owned());
        self.words.push(text.to_owned());
    }

    fn input(
        &mut self,
        reference: &Reference,
        input: &Value,
        is_listed: &dyn Fn(&Reference, &str) -> bool,
    ) -> Result<(), Error> {
        let option = self.option.take();
        match reference.resolve(input, is_listed) {
            Resolved::Absent => self.drop_option(option.as_deref()),
            Resolved::Nothing => {}
            Resolved::Flag(flag) => self.words.push(flag),
            Resolved::Values {
                option: own,
                values,
            } => {
                let mut is_first = own.is_none();
                let option = own.or(option);
                for value in values {
                    // An option of the template is repeated for each item of a list.
                    if let (false, Some(option)) = (is_first, &option) {
                        self.words.push(option.clone());
                    }
                    is_first = false;
                    self.push(reference, value, option.as_deref())?;
                }
            }
        }
        Ok(())
    }

    /// An argument such as `--base=${input.base}` or `v${input.major}.${input.minor}`. It is
    /// repeated for each item of a list, and dropped if an input is absent.
    fn mixed(
        &mut self,
        parts: &[Part],
        input: &Value,
        is_listed: &dyn Fn(&Reference, &str) -> bool,
    ) -> Result<(), Error> {
        let option = self.option.take();
        let mut texts = vec![(String::new(), true)];
        let mut first = None;
        for part in parts {
            let reference = match part {
                Part::Text(text) => {
                    texts.iter_mut().for_each(|(start, _)| start.push_str(text));
                    continue;
                }
                Part::Input(reference) => reference,
            };
            first = first.or(Some(reference));
            let values = match reference.resolve(input, is_listed) {
                Resolved::Absent => {
                    self.drop_option(option.as_deref());
                    return Ok(());
                }
                Resolved::Nothing => Vec::new(),
                Resolved::Flag(flag) => vec![Filled {
                    text: flag,
                    is_trusted: true,
                }],
                Resolved::Values { values, .. } => values,
            };
            if texts.len() > 1 && values.len() > 1 {
                let what = "two lists in one argument; one of them must have a single item";
                return Err(invalid(&reference.pointer(), what));
            }
            texts = match values.as_slice() {
                [] => texts,
                values => texts
                    .iter()
                    .flat_map(|(start, is_trusted)| {
                        values.iter().map(move |value| {
                            // Only the first character decides whether it is an option.
                            let is_trusted = *is_trusted && (!start.is_empty() || value.is_trusted);
                            (format!("{start}{}", value.text), is_trusted)
                        })
                    })
                    .collect(),
            };
        }
        let Some(reference) = first else {
            return Ok(());
        };
        for (index, (text, is_trusted)) in texts.into_iter().enumerate() {
            if let (true, Some(option)) = (index > 0, &option) {
                self.words.push(option.clone());
            }
            self.push(reference, Filled { text, is_trusted }, option.as_deref())?;
        }
        Ok(())
    }

    /// Removes the option whose value is absent.
    fn drop_option(&mut self, option: Option<&str>) {
        if option.is_some() {
            self.words.pop();
        }
    }

    fn push(
        &mut self,
        reference: &Reference,
        value: Filled,
        option: Option<&str>,
    ) -> Result<(), Error> {
        let Filled { text, is_trusted } = value;
        let pointer = reference.pointer();
        if text.contains('\0') {
            let what = "contains a zero character, which an argument cannot contain";
            return Err(invalid(&pointer, what));
        }
        let looks_like_option = text.len() > 1 && text.starts_with('-');
        let is_safe = is_trusted || self.end_of_options.is_some() || !looks_like_option;
        let word = match (is_safe, option) {
            (true, _) => text,
            // The value stays with its option, whatever it looks like.
            (false, Some(long)) if long.starts_with("--") => {
                self.words.pop();
                format!("{long}={text}")
            }
            (false, _) => {
                let what = "begins with `-`, so the tool would read it as an option";
                return Err(invalid(&pointer, what).hint(
                    "choose another value; the author of the TOOL.md can allow it: put `--` before the template, or use a long option",
                ));
            }
        };
        if word.len() > MAX_ARGUMENT {
            let what = format!(
                "is too long for an argument: {} bytes, but at most {MAX_ARGUMENT} are possible",
                word.len()
            );
            return Err(invalid(&pointer, &what));
        }
        self.words.push(word);
        Ok(())
    }
}

/// The result of a reference and its filters.
enum Resolved {
    /// The input is absent: the argument and the option before it are dropped.
    Absent,
    /// A `flag` that is not set, or an `optional` input that is absent.
    Nothing,
    /// A `flag` that is set.
    Flag(String),
    Values {
        /// The option that `optional` adds.
        option: Option<String>,
        values: Vec<Filled>,
    },
}

impl Reference {
    fn resolve(&self, input: &Value, is_listed: &dyn Fn(&Reference, &str) -> bool) -> Resolved {
        let found = self.path.iter().try_fold(input, |value, key| match value {
            Value::Object(fields) => fields.get(key),
            Value::Array(items) => items.get(key.parse::<usize>().ok()?),
            _ => None,
        });
        let mut value = found.filter(|value| !is_absent(value)).cloned();
        let mut is_trusted = false;
        let mut option = None;
        for filter in &self.filters {
            match filter {
                Filter::Default(default) => {
                    if value.is_none() {
                        value = Some(default.clone());
                        is_trusted = true;
                    }
                }
                Filter::Json => {
                    value = value.map(|value| Value::String(value.to_string()));
                }
                Filter::Flag(flag) => {
                    return match value.as_ref().is_some_and(is_truthy) {
                        true => Resolved::Flag(flag.clone()),
                        false => Resolved::Nothing,
                    };
                }
                Filter::Optional(flag) => {
                    if value.is_none() && flag.is_some() {
                        return Resolved::Nothing;
                    }
                    option.clone_from(flag);
                }
            }
        }
        let Some(value) = value else {
            return Resolved::Absent;
        };
        let items = match value {
            Value::Array(items) => items,
            single => vec![single],
        };
        let values = items.iter().map(|item| {
            let text = argument_text(item);
            Filled {
                is_trusted: is_trusted || is_listed(self, &text),
                text,
            }
        });
        Resolved::Values {
            option,
            values: values.collect(),
        }
    }
}

/// Null and an empty list are as if the input was left out.
fn is_absent(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(set) => *set,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(_) | Value::Object(_) => true,
    }
}

/// A value as one argument: a string as it is, anything else as JSON.
pub fn argument_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The error for an input that cannot be passed on. `pointer` names the input.
pub fn invalid(pointer: &str, what: &str) -> Error {
    let message = match pointer {
        "" => what.to_owned(),
        pointer => format!("input `{pointer}` {what}"),
    };
    Error::new(Code::InputInvalid, message).details(json!({ "pointer": pointer }))
}

fn argument(text: &str) -> Result<Argument, String> {
    if let Some(open) = unclosed_template(text) {
        let name = open.split(['|', ' ', '}']).next().unwrap_or("");
        return Err(format!("unclosed template `${{{}`", truncate(name, 40)));
    }
    let mut parts = Vec::new();
    let mut from = 0;
    let mut text_before = |parts: &mut Vec<Part>, to: usize, next: usize| {
        let literal = text.get(from..to).unwrap_or_default();
        if !literal.is_empty() {
            parts.push(Part::Text(literal.to_owned()));
        }
        from = next;
    };
    for template in Templates::of(text) {
        text_before(&mut parts, template.range.start, template.range.end);
        parts.push(Part::Input(reference(template.inner)?));
    }
    text_before(&mut parts, text.len(), text.len());
    Ok(match parts.as_slice() {
        [] => Argument::Literal(String::new()),
        [Part::Text(only)] => Argument::Literal(only.clone()),
        [Part::Input(only)] => Argument::Input(only.clone()),
        _ => Argument::Mixed(parts),
    })
}

fn reference(inner: &str) -> Result<Reference, String> {
    let mut parts = split_filters(inner);
    let text = parts.next().unwrap_or("").trim();
    let path = input_path(text)?;
    let name = path.first().cloned().unwrap_or_default();
    let filters = parts.map(|part| filter(part.trim(), &name));
    Ok(Reference {
        path,
        filters: filters.collect::<Result<_, _>>()?,
    })
}

/// The path of `input.a.b[0]`.
fn input_path(text: &str) -> Result<Vec<String>, String> {
    let unknown = || {
        // A secret must not be on a command line, where other processes can read it.
        format!(
            "unknown template `${{{}}}`; only inputs can be used: `${{input.NAME}}`",
            truncate(text, 40)
        )
    };
    let rest = text.strip_prefix("input.").ok_or_else(unknown)?;
    let mut path = Vec::new();
    for step in rest.split('.') {
        let (key, indexes) = step.split_once('[').unwrap_or((step, ""));
        let is_word = !key.is_empty() && !key.contains(char::is_whitespace);
        if !is_word {
            return Err(unknown());
        }
        path.push(key.to_owned());
        for index in indexes.split('[').filter(|index| !index.is_empty()) {
            let index = index.strip_suffix(']').ok_or_else(unknown)?;
            index.parse::<usize>().map_err(|_| unknown())?;
            path.push(index.to_owned());
        }
    }
    Ok(path)
}

fn filter(text: &str, input: &str) -> Result<Filter, String> {
    let (name, rest) = text.split_once('(').unwrap_or((text, ")"));
    let name = name.trim();
    let Some(inside) = rest.trim_end().strip_suffix(')') else {
        let what = format!(
            "the parenthesis of the filter `{}` is not closed",
            truncate(name, 40)
        );
        return Err(what);
    };
    let mut arguments = split_arguments(inside)
        .map(str::trim)
        .filter(|argument| !argument.is_empty());
    let first = arguments.next();
    match name {
        "default" => match first {
            Some(value) => Ok(Filter::Default(literal(value))),
            None => Err("the filter `default` needs a value: `default('…')`".to_owned()),
        },
        "flag" => Ok(Filter::Flag(match first {
            Some(flag) => argument_text(&literal(flag)),
            None => format!("--{input}"),
        })),
        "optional" => Ok(Filter::Optional(
            first.map(|flag| argument_text(&literal(flag))),
        )),
        "json" => Ok(Filter::Json),
        _ => {
            let meant = match closest_of(name, FILTERS) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("expected {}", one_of(&FILTERS)),
            };
            Err(format!("unknown filter `{}`; {meant}", truncate(name, 40)))
        }
    }
}

/// A quoted string, or a JSON value, or plain text.
fn literal(text: &str) -> Value {
    for quote in ['\'', '"'] {
        let inside = text
            .strip_prefix(quote)
            .and_then(|rest| rest.strip_suffix(quote));
        if let Some(inside) = inside {
            return Value::String(inside.to_owned());
        }
    }
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

#[cfg(test)]
mod tests;
