//! Explains the errors of the YAML library to the authors of a file.

use crate::document::{Problem, ProblemKind};
use crate::tree::Span;

/// The problem for an error of the library. `subject` is the file or the part of it that was
/// parsed, and `bracket` is the place of a bracket that is never closed.
pub fn problem(subject: &str, error: &str, span: Span, bracket: Option<Span>) -> Problem {
    let invalid = |span, what: &str| {
        let message = format!("{subject} is not valid YAML: {what}");
        Problem::new(ProblemKind::Syntax, span, message)
    };
    let may_be_the_bracket = AFTER_A_BRACKET.iter().any(|part| error.contains(part));
    if let Some(bracket) = bracket
        && may_be_the_bracket
    {
        return invalid(bracket, "this bracket is never closed")
            .help("close it, or quote the value if the bracket is part of the text")
            .related(span, "the YAML parser failed here");
    }
    match CAUSES.iter().find(|cause| error.contains(cause.pattern)) {
        Some(cause) => invalid(span, cause.what).help(cause.help),
        None => invalid(span, error),
    }
}

/// Parts of the errors that the library reports after a bracket that is never closed. It fails
/// much later, but the bracket is the place to fix.
const AFTER_A_BRACKET: &[&str] = &[
    "flow",
    "bracket",
    "eof",
    "illegal placement of ':'",
    "did not find expected node content",
];

/// An explanation of a parser error for the authors of manifests.
struct Cause {
    pattern: &'static str,
    what: &'static str,
    help: &'static str,
}

/// The first cause whose `pattern` is in the parser's message applies.
const CAUSES: &[Cause] = &[
    Cause {
        pattern: "mapping values are not allowed",
        what: "`: ` is not allowed here: the value contains it, the line is indented too far, or the line above has no colon",
        help: "put a value that contains `: ` in quotes, or indent the line like the line above",
    },
    Cause {
        pattern: "trailing content after double-quoted scalar",
        what: "there is text after the closing quote",
        help: "put the whole value in quotes; write `''` for an apostrophe in single quotes, and \
               `\\\"` for a quote in double quotes",
    },
    Cause {
        pattern: "illegal placement of ':'",
        what: "a bracket or a comma is missing before this `:`",
        help: "close the bracket before this key, or separate the items with commas",
    },
    Cause {
        pattern: "':' may not precede",
        what: "a space is missing after the colon",
        help: "write `key: value`, with a space after the colon",
    },
    Cause {
        pattern: "must be followed by a valid YAML whitespace",
        what: "a tab is used where YAML allows only spaces",
        help: "write a space instead of the tab",
    },
    Cause {
        pattern: "tab",
        what: "a tab is used where YAML allows only spaces",
        help: "indent with spaces",
    },
    Cause {
        pattern: "unknown escape character",
        what: "a string in double quotes contains an unknown escape sequence",
        help: "write patterns in single quotes, where a backslash has no special meaning: '(\\d+)'",
    },
    Cause {
        pattern: "anchor",
        what: "a value starts with `*` or `&`, which YAML uses for aliases and anchors",
        help: "quote the value",
    },
    Cause {
        pattern: "unexpected character",
        what: "a value starts with a character that YAML reserves",
        help: "quote a value that starts with `@`, `%` or a backtick",
    },
    Cause {
        pattern: "quoted scalar, found unexpected end",
        what: "a quoted string is not closed",
        help: "close the quote on the same line",
    },
    Cause {
        pattern: "invalid indentation in quoted scalar",
        what: "a quoted string continues into the next field",
        help: "close the quote on the same line",
    },
    Cause {
        pattern: "block sequence entries are not allowed",
        what: "a list starts on the line of its key",
        help: "put the items on their own lines, below the key",
    },
    Cause {
        pattern: "misplaced bracket",
        what: "this bracket was never opened",
        help: "remove it, or quote the value if the bracket is part of the text",
    },
    Cause {
        pattern: "did not find expected node content",
        what: "a value is missing here",
        help: "write a value, and quote it if it starts with a bracket or a comma",
    },
    Cause {
        pattern: "tag",
        what: "a value starts with `!`, which YAML uses for tags",
        help: "quote the value",
    },
    Cause {
        pattern: "did not find expected key",
        what: "this line is not indented like its neighbors",
        help: "start the keys of a mapping, and the items of a list, in the same column",
    },
    Cause {
        pattern: "expected '-' indicator",
        what: "a line between the items of a list is not an item",
        help: "start the items of a list with `- ` in the same column",
    },
    Cause {
        pattern: "indent",
        what: "the indentation is inconsistent",
        help: "indent this line like its neighbors",
    },
    Cause {
        pattern: "':'",
        what: "a key has no colon, here or on the line above",
        help: "write `key: value`, with a space after the colon",
    },
];
