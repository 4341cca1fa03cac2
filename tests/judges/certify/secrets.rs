//! Values that the user passes to an agent are secret: no report contains them.

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::certify::certify;

/// An agent that prints every value it knows, everywhere it can.
const CHATTERBOX: &str = r#"
slashed=$(printf '%s' "$GIVEN" | sed 's#/#\\/#g')
while read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    echo "heard with $GIVEN, $SAMPLE_API_KEY, $LOGIN_WORD, $MODE" >&2
    printf '\377 %s\n' "$GIVEN" >&2
    printf '%-74s%s\n' "$MODE" "$GIVEN"
    case "$line" in
    *'"initialize"'*)
        printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":1,' "$id"
        printf '"agentInfo":{"name":"%s","version":"%s"},' "$slashed" "$MODE"
        printf '"agentCapabilities":{"%s":true},' "$GIVEN"
        printf '"authMethods":[{"id":"word","name":"Word","vars":[{"name":"LOGIN_WORD"}]}]}}\n'
        ;;
    *)
        printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,' "$id"
        printf '"message":"%s, %s and %s in %s"}}\n' "$GIVEN" "$SAMPLE_API_KEY" "$LOGIN_WORD" "$MODE"
        ;;
    esac
done
echo "the last words are $GIVEN in $MODE" >&2
exit 3
"#;

const GIVEN: &str = "tok/5ecret-Value-991";
const INHERITED: &str = "inherited-key-4711";
const OF_LOGIN: &str = "open sesame, please";

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files(&path, found),
            false => found.push(path),
        }
    }
}

/// The text of a report, with its base64 lines decoded.
fn readable(bytes: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(bytes).into_owned();
    for line in text.clone().lines() {
        let value: Value = serde_json::from_str(line).unwrap_or_default();
        if let Some(encoded) = value["base64"].as_str() {
            text.push_str(&String::from_utf8_lossy(&STANDARD.decode(encoded).unwrap()));
        }
    }
    text
}

#[test]
fn no_report_contains_the_secrets_of_the_agent() {
    let dir = tempfile::tempdir().unwrap();
    let agent = dir.path().join("agent.sh");
    std::fs::write(&agent, CHATTERBOX).unwrap();
    let reports = dir.path().join("reports");
    let given = format!("GIVEN={GIVEN}");
    let mut texts = Vec::new();
    for output in ["human", "json", "jsonl"] {
        let args = [
            "--only",
            "IN-01,SE-01,TR-11,TR-12",
            "--timeout",
            "5",
            "-o",
            output,
        ];
        let mut command = certify(&args);
        command.args(["--env", &given, "--env", "MODE=plain", "--report-dir"]);
        command.arg(&reports).args(["--", "sh"]).arg(&agent);
        command.args(["--key", GIVEN]);
        command
            .env("SAMPLE_API_KEY", INHERITED)
            .env("LOGIN_WORD", OF_LOGIN);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        texts.push(("stdout".to_owned(), readable(&output.stdout)));
        texts.push(("stderr".to_owned(), readable(&output.stderr)));
    }
    let mut written = Vec::new();
    files(&reports, &mut written);
    for path in written {
        let name = path.to_string_lossy().into_owned();
        texts.push((name, readable(&std::fs::read(&path).unwrap())));
    }
    // The secrets in full, in escaped form, and truncated.
    let secrets = [
        GIVEN,
        r"tok\/5ecret",
        "tok/5e",
        "5ecret",
        INHERITED,
        OF_LOGIN,
    ];
    for (name, text) in &texts {
        for secret in secrets {
            assert!(!text.contains(secret), "{secret} in {name}:\n{text}");
        }
    }
    // The agent did print them, in every report.
    let with = |words: &str| {
        texts
            .iter()
            .filter(|(_, text)| text.contains(words))
            .count()
    };
    assert!(with("[secret]") > 8, "{texts:#?}");
    assert!(with("plain") > 8, "a word of five letters is not a secret");
    let report = texts.iter().find(|(name, _)| name.ends_with("report.json"));
    let report: Value = serde_json::from_str(&report.unwrap().1).unwrap();
    assert_eq!(report["target"]["info"]["name"], "[secret]");
    assert_eq!(report["target"]["info"]["version"], "plain");
    let rows = report["results"].as_array().unwrap();
    let count = |words: &str| {
        let texts = rows.iter().map(|row| row.to_string());
        texts.filter(|row| row.contains(words)).count()
    };
    assert!(
        count("the last words are [secret] in plain") > 0,
        "{report:#}"
    );
    assert!(with("heard with [secret], [secret], [secret], plain") > 0);
    assert!(count("[secret]…") > 0, "{report:#}");
}

/// `{home}` is replaced in a value, and the result is not redacted.
#[test]
fn a_value_with_a_path_is_not_a_secret() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    std::fs::create_dir(&home).unwrap();
    let agent = dir.path().join("agent.sh");
    std::fs::write(&agent, CHATTERBOX).unwrap();
    let mut command = certify(&["--only", "IN-01", "--timeout", "5", "-o", "json", "--home"]);
    command.arg(&home).args(["--env", "MODE={home}/.settings"]);
    command.args(["--env", "GIVEN=something-else", "--", "sh"]);
    let output = command.arg(&agent).output().unwrap();
    let report = String::from_utf8(output.stdout).unwrap();
    assert!(report.contains("/home/.settings"), "{report}");
    assert!(!report.contains("{home}"), "{report}");
    assert!(!report.contains("something-else"), "{report}");
}
