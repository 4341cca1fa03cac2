//! What check 12 demands.

use crate::model::Check;
use crate::rules::{Level, Rule, Topic};

const fn rule(
    id: &'static str,
    level: Level,
    section: &'static str,
    demands: &'static str,
    why: &'static str,
    hint: &'static str,
    register: &'static [&'static str],
) -> Rule {
    Rule {
        id,
        check: Check::Number(12),
        level,
        section,
        demands,
        why,
        hint,
        topic: Topic::Input,
        register,
    }
}

pub static MODE: Rule = rule(
    "AOI-12.mode",
    Level::Must,
    "§12.2",
    "It is documented whether malformed lines stop the command or are passed over",
    "A caller must know whether half of its lines may have been taken.",
    "Say it in capabilities (input.malformed: fail_fast, tolerant or configurable) and in --help.",
    &["AOI-12.2-01", "AOI-12.2-04", "AOI-18.2-12"],
);
pub static MODE_MANIFEST: Rule = rule(
    "AOI-12.mode-manifest",
    Level::Open,
    "§16.2",
    "capabilities say which input mode a command has, malformed lines included",
    "A program does not read --help.",
    "Add `input` with malformed and default to the command's entry of capabilities.",
    &["AOI-12.2-01", "AOI-12.2-04"],
);
pub static DECLARED_MODE: Rule = rule(
    "AOI-12.declared-mode",
    Level::Must,
    "§12.2",
    "Without words for a mode the command is in the mode that capabilities declare",
    "A caller that reads the manifest relies on it.",
    "Declare the default that the code has.",
    &["AOI-12.2-01", "AOI-18.2-12"],
);
pub static GOOD: Rule = rule(
    "AOI-12.good",
    Level::Must,
    "§12.1",
    "Good lines are taken: exit 0, ok true, no aoi:error",
    "What a tool does with bad lines means something only where good ones work.",
    "Take one JSON object per line from standard input.",
    &[
        "AOI-0-02",
        "AOI-0-03",
        "AOI-12.1-01",
        "AOI-13-01",
        "AOI-13-05",
    ],
);
pub static FAIL_FAST: Rule = rule(
    "AOI-12.fail-fast",
    Level::Must,
    "§12.2",
    "In fail-fast mode one malformed line makes the command fail",
    "Who asked for all or nothing must not get something.",
    "Exit 65 with a summary of ok false at the first line that is wrong.",
    &["AOI-12.2-02", "AOI-18.2-12"],
);
pub static ERROR: Rule = rule(
    "AOI-12.error",
    Level::Must,
    "§12.2",
    "A malformed line leads to an aoi:error",
    "Without it nobody knows what to mend.",
    "Emit aoi:error with category validation and line_number.",
    &["AOI-12.2-02", "AOI-19-04"],
);
pub static CATEGORY: Rule = rule(
    "AOI-12.category",
    Level::Should,
    "§9.1",
    "The aoi:error for a malformed line is of category validation",
    "Portable callers branch on the category.",
    "Use validation for input that is wrong, usage for the command line.",
    &["AOI-9.1-02", "AOI-19-04"],
);
pub static LINE: Rule = rule(
    "AOI-12.line-number",
    Level::Must,
    "§19.4",
    "line_number is the line of the input, counted from 1",
    "A wrong number sends the caller to the wrong line.",
    "Count lines as they are read, blank ones and framework events too, from 1.",
    &["AOI-19-04"],
);
pub static LINE_TOLD: Rule = rule(
    "AOI-12.line-number-told",
    Level::Should,
    "§19.4",
    "The aoi:error for a malformed line has a line_number",
    "In ten thousand lines nobody finds the one.",
    "Put line_number into the error.",
    &["AOI-19-04"],
);
pub static AFTER: Rule = rule(
    "AOI-12.after-bad-line",
    Level::Must,
    "§12.2",
    "In fail-fast mode nothing after the malformed line is done",
    "The command says that it stopped there.",
    "Stop reading at the first malformed line.",
    &["AOI-12.2-02", "AOI-18.2-12"],
);
pub static BEFORE: Rule = rule(
    "AOI-12.before-bad-line",
    Level::Should,
    "§12.2",
    "A mutating command in fail-fast mode fails before it changes anything",
    "Otherwise the caller has to find out how far it came.",
    "Read and check all lines first, then begin.",
    &["AOI-12.2-05"],
);
pub static ONE_EACH: Rule = rule(
    "AOI-12.one-error-each",
    Level::Must,
    "§12.2",
    "In tolerant mode there is exactly one aoi:error for each malformed line",
    "The caller mends and sends again exactly what was refused.",
    "Emit one aoi:error per line that is passed over.",
    &["AOI-12.2-03", "AOI-18.2-12"],
);
pub static GOES_ON: Rule = rule(
    "AOI-12.goes-on",
    Level::Must,
    "§12.2",
    "In tolerant mode every good line is taken, whatever stands around it",
    "That is what the mode is for.",
    "Go on with the next line after an error.",
    &["AOI-12.2-03", "AOI-18.2-12"],
);
pub static PARTIAL: Rule = rule(
    "AOI-12.partial",
    Level::Must,
    "§19.4",
    "A tolerant run with malformed lines says partial true in its summary",
    "The summary alone must tell that not everything was taken.",
    "Set partial to true where a line was passed over.",
    &["AOI-4.1-04", "AOI-19-05"],
);
pub static TOLERANT_OK: Rule = rule(
    "AOI-12.tolerant-ok",
    Level::Open,
    "§19.4",
    "A tolerant run with malformed lines says ok false in its summary",
    "The example of the text says so; §4.1 lets a partial result be a success.",
    "Set ok to false where a line was passed over.",
    &["AOI-4.1-04", "AOI-19-05"],
);
pub static SILENT: Rule = rule(
    "AOI-12.silent-skip",
    Level::Must,
    "§12.2",
    "No malformed line is passed over in silence",
    "What is lost without a word is lost for good.",
    "Count a line that cannot be used as an error, in either mode.",
    &["AOI-12.2-02", "AOI-12.2-03", "AOI-18.2-12"],
);
pub static DEFAULT: Rule = rule(
    "AOI-12.default-mode",
    Level::Open,
    "§12.2",
    "Where both modes can be had, fail-fast is the default",
    "Going on after errors is what a caller asks for, not what happens to it.",
    "Go on only with --continue-on-error.",
    &["AOI-12.2-05", "AOI-12.2-06"],
);
pub static LAST_LINE: Rule = rule(
    "AOI-12.last-line",
    Level::Must,
    "§12.1",
    "A last line without a line feed is a line",
    "Many programs write none at the end.",
    "Take what is left at the end of the input for a line.",
    &["AOI-12.1-01"],
);
pub static CRLF: Rule = rule(
    "AOI-12.crlf",
    Level::Should,
    "§12.1",
    "Lines that end in CR LF are taken",
    "A carriage return is white space to JSON.",
    "Parse the line as it is; do not look for a bare line feed only.",
    &["AOI-12.1-01"],
);
pub static BOM: Rule = rule(
    "AOI-12.bom",
    Level::Must,
    "§12.1",
    "A byte order mark loses no line: the line is taken or refused",
    "The first line of such a file is easily lost.",
    "Drop the mark at the start of the input, or refuse line 1.",
    &["AOI-12.1-01"],
);
pub static LONG: Rule = rule(
    "AOI-12.long-line",
    Level::Open,
    "§12.1",
    "A line of a mebibyte is taken",
    "Texts of documents are long.",
    "Let lines grow, up to a bound that is documented.",
    &["AOI-12.1-01"],
);
pub static ENDS: Rule = rule(
    "AOI-12.ends",
    Level::Must,
    "§12.2",
    "Whatever stands on standard input, the command ends by itself",
    "A crash or an endless wait is no answer to a line that is wrong.",
    "Treat every byte of the input as possible, the end of it too.",
    &["AOI-12.2-02"],
);
pub static UPSTREAM: Rule = rule(
    "AOI-12.upstream",
    Level::Should,
    "§13",
    "aoi:meta and aoi:summary of an upstream are read, and are no data",
    "Tools are joined by pipes: the first line is another tool's aoi:meta.",
    "Tell events of the framework by their aoi: and do not treat them as items.",
    &["AOI-13-02", "AOI-13-01"],
);
pub static UNKNOWN_TYPE: Rule = rule(
    "AOI-12.unknown-type",
    Level::Should,
    "§13",
    "Events of unknown types are ignored",
    "An upstream may learn new events at any time.",
    "Pass over events whose type is not yours, unless told to fail.",
    &["AOI-13-03"],
);
pub static UNKNOWN_FIELD: Rule = rule(
    "AOI-12.unknown-field",
    Level::Should,
    "§10.3",
    "A field that the input does not have is refused",
    "It is a typing mistake, or something that the caller made up.",
    "Let the input schema forbid additional properties, and check it.",
    &["AOI-10.3-02"],
);
pub static BUSY: Rule = rule(
    "AOI-12.busy-wait",
    Level::Should,
    "§13",
    "A command that waits for its input uses no processor time",
    "In a pipeline it waits as long as its upstream works.",
    "Block on reading; do not poll.",
    &["AOI-13-01"],
);
