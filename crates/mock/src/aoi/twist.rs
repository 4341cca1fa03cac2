//! Where the tool can be bent: what mutants break and variants do in another way.

use std::collections::BTreeMap;

use serde_json::Value;

/// What a run is about, for those who bend it.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    pub command: String,
    /// The words of the command line, as the tool reads them.
    pub args: Vec<String>,
    /// The major version of the event schema.
    pub major: u64,
    pub is_machine: bool,
    /// The signal that stopped the run.
    pub signal: Option<i32>,
    /// The category of the error that ended the run.
    pub failure: Option<&'static str>,
    /// The reader of stdout has gone.
    pub gone: bool,
    /// Stdout could not be written.
    pub unwritten: bool,
}

impl Facts {
    pub fn has(&self, word: &str) -> bool {
        self.args.iter().any(|arg| arg == word)
    }

    /// What stands behind a flag, as the next word or behind `=`.
    pub fn value(&self, flag: &str) -> Option<&str> {
        let mut words = self.args.iter();
        while let Some(word) = words.next() {
            if word == flag {
                return words.next().map(String::as_str);
            }
            let inline = word.strip_prefix(flag).and_then(|w| w.strip_prefix('='));
            if inline.is_some() {
                return inline;
            }
        }
        None
    }
}

/// What one who bends a run remembers from event to event.
pub type Notes = BTreeMap<&'static str, u64>;

/// What is written in place of an event.
pub enum Frame {
    Json(Value),
    Raw(Vec<u8>),
    /// The process ends here and now.
    Exit(u8),
}

type ArgsTwist = Box<dyn Fn(Vec<String>) -> Vec<String> + Send + Sync>;
type StartTwist = Box<dyn Fn(&Facts) -> Option<u8> + Send + Sync>;
type EventTwist = Box<dyn Fn(&Facts, &mut Notes, Value) -> Vec<Frame> + Send + Sync>;
type LineTwist = Box<dyn Fn(&Facts, Vec<u8>) -> Vec<u8> + Send + Sync>;
type DocumentTwist = Box<dyn Fn(&Facts, Value) -> Frame + Send + Sync>;
type PipeTwist = Box<dyn Fn(&Facts) -> u8 + Send + Sync>;
type ExitTwist = Box<dyn Fn(&Facts, u8) -> u8 + Send + Sync>;

/// A place where the tool is bent.
pub enum Twist {
    /// The words that it reads in place of those that were given.
    Args(ArgsTwist),
    /// Before anything is read; an exit code if that is all.
    Start(StartTwist),
    /// What is written in place of an event.
    Event(EventTwist),
    /// What is written in place of a line, its end included.
    Line(LineTwist),
    /// What is printed in place of a document of discovery.
    Document(DocumentTwist),
    /// What happens when the reader of stdout has gone; the exit code.
    Pipe(PipeTwist),
    /// The exit code in place of another.
    Exit(ExitTwist),
    /// What no place above reaches.
    Quirk(Quirk),
}

/// Deeper habits, each looked up where it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quirk {
    // How it reads its words.
    UnknownFlagsPass,
    UnknownCommandPasses,
    MissingOperandPasses,
    ExtraOperandPasses,
    OddLimitPasses,
    OddOutputPasses,
    MissingValuePasses,
    QuotesFlagValues,
    QuotesOperands,
    FormatFlag,
    HumanDefault,
    // How it writes.
    Spaced,
    Sorted,
    Reversed,
    Escaped,
    SummaryWithoutPatience,
    WritesIntoClosedPipe,
    BuffersAll,
    // Signals.
    IgnoresInterrupt,
    IgnoresTerminate,
    DiesBySignal,
    // Pages.
    LimitPlusOne,
    LimitZeroIsAll,
    LimitNegativeIsAll,
    NoDefaultBound,
    CursorStartsAgain,
    CursorSkipsOne,
    CursorRepeatsOne,
    CursorUnchecked,
    CursorAfterTheEnd,
    CursorStays,
    NewOrderOnLaterPages,
    TruncatedWhenExact,
    // Effects.
    DeletesBeforeRefusal,
    ConfirmDoesNothing,
    DryRunActs,
    CountUnchecked,
    KeyReplaysNewId,
    KeyIsNeverNew,
    KeyConflictPasses,
    KeyReplayFails,
    KeyReplayIsMute,
    KeyDoublesQuietly,
    NaturalKey,
    // Input.
    BadLinesVanish,
    AppliesBeforeTheBadLine,
    AppliesAfterTheBadLine,
    StopsAtTheFirstBadLine,
    NonObjectsPass,
    UnknownFieldsPass,
    FieldTypesPass,
    LastLineNeedsItsEnd,
    LineFeedsOnly,
    LongLinesFail,
    FrameworkIsData,
    UnknownTypesFail,
    QuotesInput,
    UpstreamErrorPasses,
    UpstreamCutPasses,
    OnlyTheFirstLineIsChecked,
    // Versions.
    UnknownVersionIsDefault,
    OtherSchemaNamePasses,
    ShortVersionFails,
    EventsOfVersionTwo,
    EventsOfVersionOne,
    OneVersion,
    UnknownVersionAfterData,
    // Time.
    TimeoutIgnored,
}
