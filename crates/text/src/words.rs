//! Wording helpers: closest match, lists in a sentence, shortened text.

/// Maximum length in bytes of words that are compared, because the time of a comparison is the
/// product of both lengths.
const MAX_WORD_LEN: usize = 100;
/// Maximum number of candidates that are compared.
const MAX_CANDIDATES: usize = 500;

/// The candidate that a mistyped word most probably means.
pub fn closest_of<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    if word.len() > MAX_WORD_LEN {
        return None;
    }
    let lower = word.to_lowercase();
    let length = word.chars().count();
    candidates
        .into_iter()
        .take(MAX_CANDIDATES)
        .filter(|candidate| candidate.len() <= MAX_WORD_LEN)
        .filter_map(|candidate| {
            let other = candidate.chars().count();
            // A third of the letters may differ, and at least one.
            let most = length.max(other).max(3) / 3;
            if length.abs_diff(other) > most {
                return None;
            }
            let distance = strsim::damerau_levenshtein(&lower, &candidate.to_lowercase());
            (distance <= most).then_some((distance, candidate))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Joins words to "`a`", "`a` or `b`", "`a`, `b` or `c`".
pub fn one_of<S: AsRef<str>>(words: &[S]) -> String {
    let quoted: Vec<String> = words.iter().map(|w| format!("`{}`", w.as_ref())).collect();
    match quoted.split_last() {
        None => String::new(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}

/// The text with its first letter in lower case, unless it starts with an acronym.
pub fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some(first), second) if !second.is_some_and(char::is_uppercase) => {
            let tail = &text[first.len_utf8()..];
            first.to_lowercase().chain(tail.chars()).collect()
        }
        _ => text.to_owned(),
    }
}

/// The text with its first letter in upper case.
pub fn upper_first(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => String::new(),
    }
}

/// File name of a program, without quotes and directories.
pub fn base_name(program: &str) -> &str {
    let program = program.trim_matches(['"', '\'']);
    program.rsplit(['/', '\\']).next().unwrap_or(program)
}

/// Bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Shortens text to at most `most` characters, with `…` at the end if something was cut off.
pub fn truncate(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let head: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{head}…")
}

/// Quotes words as a command line for a shell.
pub fn shell(words: &[impl AsRef<str>]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| quote(word.as_ref())).collect();
    quoted.join(" ")
}

fn quote(word: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    match !word.is_empty() && word.chars().all(safe) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_letter_changes_its_case() {
        assert_eq!(lower_first("Path of"), "path of");
        assert_eq!(lower_first("MCP endpoint"), "MCP endpoint");
        assert_eq!(lower_first("A"), "a");
        assert_eq!(lower_first("`x`"), "`x`");
        assert_eq!(upper_first("did you"), "Did you");
        assert_eq!((lower_first(""), upper_first("")), Default::default());
    }

    #[test]
    fn typos_are_matched_to_the_closest_word() {
        let words = ["darwin", "linux", "windows"];
        assert_eq!(closest_of("linus", words), Some("linux"));
        assert_eq!(closest_of("Darwin", words), Some("darwin"));
        assert_eq!(closest_of("solaris", words), None);
        assert_eq!(closest_of("x", ["ab"]), None);
        assert_eq!(closest_of(&"x".repeat(101), ["x"]), None);
    }

    #[test]
    fn lists_read_as_sentences() {
        assert_eq!(one_of(&["a"]), "`a`");
        assert_eq!(one_of(&["a", "b", "c"]), "`a`, `b` or `c`");
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        let words = ["a b", "it's", "", "--x=1", "$HOME", "`id`"];
        assert_eq!(shell(&words), r"'a b' 'it'\''s' '' --x=1 '$HOME' '`id`'");
    }
}
