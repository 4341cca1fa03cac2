//! Rules about `input-schema` (§12.1).

use serde_json::Value;

use crate::model::{CheckId, TOOL};
use crate::probe::{JsonlInput, ProbeCommand};
use crate::rules::{Level, Rule, Topic};
use crate::session::{LintSession, RunOptions};

pub(super) static INPUT_SCHEMA: Rule = Rule {
    id: "AOI-adv.input-schema",
    check: CheckId::Advisory,
    level: Level::Should,
    section: "§12.1",
    requirement: "`input-schema --output json --command NAME` prints the JSON Schema of the input of \
              a command",
    why: "Callers must know which input lines are valid.",
    hint: "Print the schema that the command uses to validate its input.",
    topic: Topic::Input,
    requirement_ids: &["AOI-12.1-02", "AOI-16.2-02"],
};

pub(super) static INPUT_OPEN: Rule = Rule {
    id: "AOI-adv.input-schema-open",
    check: CheckId::Advisory,
    level: Level::Should,
    section: "§10.3",
    requirement: "The input schema forbids unknown fields",
    why: "If a misspelled field is accepted, its value is lost.",
    hint: "Set `additionalProperties: false`.",
    topic: Topic::Input,
    requirement_ids: &["AOI-10.3-02"],
};

pub(super) static INPUT_DIFFERS: Rule = Rule {
    id: "AOI-adv.input-schema-differs",
    check: CheckId::Advisory,
    level: Level::Should,
    section: "§12.1",
    requirement: "The input schema describes what the command accepts: it accepts the `good` lines \
                  of the probe file, and not all `bad` ones",
    why: "A caller that validates its input against the schema sends lines that the command rejects, \
          or never sends lines that it accepts.",
    hint: "Print the schema that the command uses to validate its input.",
    topic: Topic::Input,
    requirement_ids: &["AOI-12.1-02", "AOI-16.2-02"],
};

pub(super) async fn check(session: &LintSession, command: &ProbeCommand, input: &JsonlInput) {
    let reporter = session.reporter(&command.name);
    let has_format = session.probe.machine_args.iter().any(|w| w == "--format");
    let output = if has_format { "--format" } else { "--output" };
    let line = ["input-schema", output, "json", "--command", &command.name];
    let line = line.map(str::to_owned);
    let how = RunOptions {
        no_machine_args: true,
        ..RunOptions::default()
    };
    let run = session.run(TOOL, "input-schema", &line, how).await;
    let document = serde_json::from_slice::<Value>(&run.stdout).ok();
    let document = document.filter(|document| run.end.is_success() && document.is_object());
    let Some(document) = document else {
        let message = format!(
            "`input-schema --command {}` prints no JSON object: {}",
            command.name,
            run.end.describe()
        );
        reporter.violation(&INPUT_SCHEMA, message, &run);
        for rule in [&INPUT_OPEN, &INPUT_DIFFERS] {
            reporter.not_applicable(rule, "the command has no input schema");
        }
        return;
    };
    let violation = jsonschema::meta::validate(&document)
        .err()
        .map(|error| format!("not a valid JSON Schema: {error}"));
    reporter.decide(
        &INPUT_SCHEMA,
        "the output is a JSON Schema",
        violation,
        &run,
    );
    match jsonschema::validator_for(&document) {
        Ok(validator) => {
            let accepts = |line: &Value| validator.is_valid(line);
            let violation = difference(session, input, accepts);
            let proof = "the schema accepts the good lines and rejects bad ones";
            reporter.decide(&INPUT_DIFFERS, proof, violation, &run);
        }
        Err(_) => reporter.not_verified(&INPUT_DIFFERS, "the schema cannot be used to validate"),
    }
    let closes = |key: &str| document.get(key) == Some(&Value::Bool(false));
    let is_closed = closes("additionalProperties") || closes("unevaluatedProperties");
    // A combined schema may close each of its parts.
    let branches = ["oneOf", "anyOf", "allOf", "if", "$ref"];
    if !is_closed && branches.iter().any(|key| document.get(*key).is_some()) {
        let why = "the schema combines several schemas, each of which may forbid unknown fields";
        return reporter.not_applicable(&INPUT_OPEN, why);
    }
    let violation = (!is_closed).then(|| "`additionalProperties` is not false".to_owned());
    reporter.decide(&INPUT_OPEN, "unknown fields are rejected", violation, &run);
}

/// The first line of the probe file that the schema judges differently. Lines that are not JSON say
/// nothing about a schema.
fn difference(
    session: &LintSession,
    input: &JsonlInput,
    accepts: impl Fn(&Value) -> bool + Copy,
) -> Option<String> {
    let parsed = |lines: &[String]| -> Vec<Value> {
        let lines = session.fill(lines, &[], session.shared_dirs());
        let lines = lines.iter().map(|line| serde_json::from_str(line));
        lines.filter_map(Result::ok).collect()
    };
    let shown = |line: &Value| crate::schema::shorten(&line.to_string());
    let good = parsed(&input.good);
    if let Some(line) = good.iter().find(|line| !accepts(line)) {
        return Some(format!(
            "the schema rejects the good line `{}`",
            shown(line)
        ));
    }
    // A command may reject single lines for reasons that no schema can express.
    let bad = parsed(&input.bad);
    let first = bad.first().filter(|_| bad.iter().all(accepts))?;
    Some(format!(
        "the schema accepts every bad line, such as `{}`",
        shown(first)
    ))
}
