//! Building blocks of AOI mutants: a condition on events, and a change.

use serde_json::Value;

use super::tools::{self, Change, Counters, EventFrame, EventFrames, Quirk, RunInfo, SEARCH};
use super::{AoiDefect, AoiMutant, PLAIN, RunCondition};
use crate::model::ExpectedVerdict;

/// Change of an event or a document.
pub(super) trait EventEdit: Fn(&mut Value) + Send + Sync + 'static {}
impl<F: Fn(&mut Value) + Send + Sync + 'static> EventEdit for F {}

/// Condition on a run.
pub(super) trait RunMatcher: Fn(&RunInfo) -> bool + Send + Sync + 'static {}
impl<F: Fn(&RunInfo) -> bool + Send + Sync + 'static> RunMatcher for F {}

/// Creates a mutant that is visible in a search and has no defect yet.
pub(super) fn mutant(id: &'static str, rule: &'static str) -> AoiMutant {
    let data = AoiDefect {
        violates: &[],
        run_args: SEARCH,
        setup: PLAIN,
        changes: Vec::new(),
    };
    AoiMutant::new(id, rule, data)
}

impl AoiMutant {
    /// Names the requirements that it violates, if its rule decides several.
    pub(super) fn violates(mut self, ids: &'static [&'static str]) -> AoiMutant {
        self.data.violates = ids;
        self
    }
}

/// Functions that set the run in which the defect is visible.
impl AoiMutant {
    /// Sets the arguments of the run.
    pub(super) fn run(mut self, args: &'static [&'static str]) -> AoiMutant {
        self.data.run_args = args;
        self
    }
    pub(super) fn expect_not_verified(mut self) -> AoiMutant {
        self.verdict = ExpectedVerdict::NotVerified;
        self
    }
    pub(super) fn input(mut self, input: &'static str) -> AoiMutant {
        self.data.setup.input = Some(input);
        self
    }
    pub(super) fn after(mut self, before: &'static [&'static [&'static str]]) -> AoiMutant {
        self.data.setup.before = before;
        self
    }
    pub(super) fn env(mut self, name: &'static str, value: &'static str) -> AoiMutant {
        self.data.setup.env = Some((name, value));
        self
    }
    pub(super) fn at(mut self, condition: RunCondition) -> AoiMutant {
        self.data.setup.condition = condition;
        self
    }
    pub(super) fn hangs(mut self) -> AoiMutant {
        self.data.setup.hangs = true;
        self
    }
}

/// Functions that add a defect.
impl AoiMutant {
    /// Edits events of one type.
    pub(super) fn event(self, kind: &'static str, edit: impl EventEdit) -> AoiMutant {
        self.event_if(|_| true, kind, edit)
    }

    /// Like `event`, but only in some runs.
    pub(super) fn event_if(
        self,
        runs: impl RunMatcher,
        kind: &'static str,
        edit: impl EventEdit,
    ) -> AoiMutant {
        self.events(move |info, _, event| match runs(info) {
            true => tools::on(kind, event, &edit),
            false => tools::send(event),
        })
    }

    /// Replaces events of one type.
    pub(super) fn instead(
        self,
        kind: &'static str,
        put: impl Fn(Value) -> EventFrames + Send + Sync + 'static,
    ) -> AoiMutant {
        self.events(move |_, _, event| match tools::is(&event, kind) {
            true => put(event),
            false => tools::send(event),
        })
    }

    /// Replaces all events of some runs.
    pub(super) fn instead_if(
        self,
        runs: impl RunMatcher,
        put: impl Fn(Value) -> EventFrames + Send + Sync + 'static,
    ) -> AoiMutant {
        self.events(move |info, _, event| match runs(info) {
            true => put(event),
            false => tools::send(event),
        })
    }

    pub(super) fn drops(self, kind: &'static str) -> AoiMutant {
        self.instead(kind, |_| Vec::new())
    }

    pub(super) fn drops_if(self, runs: impl RunMatcher, kind: &'static str) -> AoiMutant {
        self.events(
            move |info, _, event| match tools::is(&event, kind) && runs(info) {
                true => Vec::new(),
                false => tools::send(event),
            },
        )
    }

    pub(super) fn twice(self, kind: &'static str) -> AoiMutant {
        self.instead(kind, |event| {
            vec![EventFrame::Json(event.clone()), EventFrame::Json(event)]
        })
    }

    /// Writes text before the first event of one type.
    pub(super) fn before(self, kind: &'static str, words: &'static str) -> AoiMutant {
        self.events(move |_, counters, event| tools::before(kind, words, counters, event))
    }

    /// Changes the text of the lines that contain hits.
    pub(super) fn hit_lines(
        self,
        change: impl Fn(String) -> String + Send + Sync + 'static,
    ) -> AoiMutant {
        self.lines(move |_, line| tools::hits(line, &change))
    }

    /// Edits the documents of the discovery commands.
    pub(super) fn document(self, edit: impl EventEdit) -> AoiMutant {
        self.documents(move |_, mut document| {
            edit(&mut document);
            EventFrame::Json(document)
        })
    }

    /// Edits one command in the capabilities.
    pub(super) fn command(self, name: &'static str, edit: impl EventEdit) -> AoiMutant {
        self.each_command(move |command| {
            if tools::text(command, "name") == name {
                edit(command);
            }
        })
    }

    /// Edits every command in the capabilities.
    pub(super) fn each_command(self, edit: impl EventEdit) -> AoiMutant {
        self.document(move |document| {
            let commands = document.get_mut("commands").and_then(Value::as_array_mut);
            commands.into_iter().flatten().for_each(&edit);
        })
    }

    /// Ignores a flag and its value, if it has one.
    pub(super) fn without(self, flag: &'static str, has_value: bool) -> AoiMutant {
        self.args(move |args| tools::without(args, flag, has_value))
    }

    /// Replaces one argument with another.
    pub(super) fn word(self, word: &'static str, other: &'static str) -> AoiMutant {
        self.args(move |mut args| {
            for arg in args.iter_mut().filter(|arg| *arg == word) {
                *arg = other.to_owned();
            }
            args
        })
    }

    pub(super) fn quirk(self, quirk: Quirk) -> AoiMutant {
        self.change(Change::Quirk(quirk))
    }
    pub(super) fn args(
        self,
        read: impl Fn(Vec<String>) -> Vec<String> + Send + Sync + 'static,
    ) -> AoiMutant {
        self.change(Change::Args(Box::new(read)))
    }
    pub(super) fn start(
        self,
        start: impl Fn(&RunInfo) -> Option<u8> + Send + Sync + 'static,
    ) -> AoiMutant {
        self.change(Change::Start(Box::new(start)))
    }
    pub(super) fn events(
        self,
        put: impl Fn(&RunInfo, &mut Counters, Value) -> EventFrames + Send + Sync + 'static,
    ) -> AoiMutant {
        self.change(Change::Event(Box::new(put)))
    }
    pub(super) fn lines(
        self,
        put: impl Fn(&RunInfo, Vec<u8>) -> Vec<u8> + Send + Sync + 'static,
    ) -> AoiMutant {
        self.change(Change::Line(Box::new(put)))
    }
    pub(super) fn documents(
        self,
        put: impl Fn(&RunInfo, Value) -> EventFrame + Send + Sync + 'static,
    ) -> AoiMutant {
        self.change(Change::Document(Box::new(put)))
    }
    pub(super) fn pipe(self, end: impl Fn(&RunInfo) -> u8 + Send + Sync + 'static) -> AoiMutant {
        self.change(Change::Pipe(Box::new(end)))
    }
    pub(super) fn exit(
        self,
        end: impl Fn(&RunInfo, u8) -> u8 + Send + Sync + 'static,
    ) -> AoiMutant {
        self.change(Change::Exit(Box::new(end)))
    }

    fn change(mut self, change: Change) -> AoiMutant {
        self.data.changes.push(change);
        self
    }
}

pub(super) fn sets(name: &'static str, value: impl Into<Value>) -> impl EventEdit {
    let value = value.into();
    move |event: &mut Value| tools::set(event, name, value.clone())
}

pub(super) fn removes(name: &'static str) -> impl EventEdit {
    move |event: &mut Value| tools::remove(event, name)
}

/// Runs of a command.
pub(super) fn of_command(command: &'static str) -> impl RunMatcher {
    move |info: &RunInfo| info.command == command
}

/// Runs with this argument.
pub(super) fn with_argument(word: &'static str) -> impl RunMatcher {
    move |info: &RunInfo| info.has(word)
}

/// Runs that ended with an error of this category.
pub(super) fn failed(category: &'static str) -> impl RunMatcher {
    move |info: &RunInfo| info.failure == Some(category)
}

/// Runs that were stopped by a signal.
pub(super) fn was_signaled(info: &RunInfo) -> bool {
    info.signal.is_some()
}
