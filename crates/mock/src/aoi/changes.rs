//! Points at which mutants and variants change the behavior of the tool.

use std::collections::BTreeMap;

use serde_json::Value;

/// Properties of a run that changes may depend on.
#[derive(Clone, Debug, Default)]
pub struct RunInfo {
    /// Name of the command.
    pub command: String,
    /// Arguments, as the tool reads them.
    pub args: Vec<String>,
    /// Major version of the event schema.
    pub major: u64,
    /// The signal that stopped the run.
    pub signal: Option<i32>,
    /// The category of the error that ended the run.
    pub failure: Option<&'static str>,
    /// Whether the reader of stdout has closed the pipe.
    pub pipe_closed: bool,
    /// Whether stdout could not be written.
    pub write_failed: bool,
}

impl RunInfo {
    pub fn has(&self, word: &str) -> bool {
        self.args.iter().any(|arg| arg == word)
    }

    /// The value of a flag, from the next argument or after `=`.
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

/// Counters that a change keeps from event to event.
pub type Counters = BTreeMap<&'static str, u64>;

/// What is written in place of an event.
pub enum EventFrame {
    Json(Value),
    Raw(Vec<u8>),
    /// Exits the process at once.
    Exit(u8),
}

type ArgsChange = Box<dyn Fn(Vec<String>) -> Vec<String> + Send + Sync>;
type StartChange = Box<dyn Fn(&RunInfo) -> Option<u8> + Send + Sync>;
type EventChange = Box<dyn Fn(&RunInfo, &mut Counters, Value) -> Vec<EventFrame> + Send + Sync>;
type LineChange = Box<dyn Fn(&RunInfo, Vec<u8>) -> Vec<u8> + Send + Sync>;
type DocumentChange = Box<dyn Fn(&RunInfo, Value) -> EventFrame + Send + Sync>;
type PipeChange = Box<dyn Fn(&RunInfo) -> u8 + Send + Sync>;
type ExitChange = Box<dyn Fn(&RunInfo, u8) -> u8 + Send + Sync>;

/// A change of the tool's behavior.
pub enum Change {
    /// Replaces the arguments.
    Args(ArgsChange),
    /// Runs before anything is read. Returns an exit code to stop at once.
    Start(StartChange),
    /// Replaces an event.
    Event(EventChange),
    /// Replaces a line, including its line feed.
    Line(LineChange),
    /// Replaces a discovery document.
    Document(DocumentChange),
    /// Runs when the reader of stdout has closed the pipe. Returns the exit code.
    Pipe(PipeChange),
    /// Replaces the exit code.
    Exit(ExitChange),
    /// A change that none of the other kinds can express.
    Quirk(Quirk),
}

/// Changes inside the implementation, each checked where it takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quirk {
    // Parsing of arguments.
    UnknownFlagsPass,
    UnknownCommandPasses,
    MissingOperandPasses,
    ExtraOperandPasses,
    InvalidLimitPasses,
    InvalidOutputPasses,
    MissingValuePasses,
    QuotesFlagValues,
    QuotesOperands,
    FormatFlag,
    HumanDefault,
    // Output.
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
    DryRunUsesKey,
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
