//! Building blocks of AOI mutants: a condition on events, and a change.

use serde_json::Value;

use super::tools::{self, Facts, Frame, Frames, Notes, Quirk, SEARCH, Twist};
use super::{Broken, Mutant, PLAIN, Place};
use crate::model::Verdict;

/// Change of an event or a document.
pub(super) trait Edit: Fn(&mut Value) + Send + Sync + 'static {}
impl<F: Fn(&mut Value) + Send + Sync + 'static> Edit for F {}

/// Condition on a run.
pub(super) trait Runs: Fn(&Facts) -> bool + Send + Sync + 'static {}
impl<F: Fn(&Facts) -> bool + Send + Sync + 'static> Runs for F {}

/// Creates a mutant that is visible in a search and has no defect yet.
pub(super) fn wrong(id: &'static str, rule: &'static str) -> Mutant {
    let made = Broken {
        shows: SEARCH,
        scene: PLAIN,
        twists: Vec::new(),
    };
    Mutant::new(id, rule, made)
}

/// Functions that set the run in which the defect is visible.
impl Mutant {
    /// Sets the arguments of the run.
    pub(super) fn run(mut self, args: &'static [&'static str]) -> Mutant {
        self.made.shows = args;
        self
    }
    pub(super) fn proves_nothing(mut self) -> Mutant {
        self.verdict = Verdict::NotVerified;
        self
    }
    pub(super) fn input(mut self, input: &'static str) -> Mutant {
        self.made.scene.input = Some(input);
        self
    }
    pub(super) fn after(mut self, before: &'static [&'static [&'static str]]) -> Mutant {
        self.made.scene.before = before;
        self
    }
    pub(super) fn env(mut self, name: &'static str, value: &'static str) -> Mutant {
        self.made.scene.env = Some((name, value));
        self
    }
    pub(super) fn at(mut self, place: Place) -> Mutant {
        self.made.scene.place = place;
        self
    }
    pub(super) fn hangs(mut self) -> Mutant {
        self.made.scene.hangs = true;
        self
    }
}

/// Functions that add a defect.
impl Mutant {
    /// Edits events of one type.
    pub(super) fn event(self, kind: &'static str, edit: impl Edit) -> Mutant {
        self.event_if(|_| true, kind, edit)
    }

    /// Like `event`, but only in some runs.
    pub(super) fn event_if(self, runs: impl Runs, kind: &'static str, edit: impl Edit) -> Mutant {
        self.events(move |facts, _, event| match runs(facts) {
            true => tools::on(kind, event, &edit),
            false => tools::send(event),
        })
    }

    /// Replaces events of one type.
    pub(super) fn instead(
        self,
        kind: &'static str,
        put: impl Fn(Value) -> Frames + Send + Sync + 'static,
    ) -> Mutant {
        self.events(move |_, _, event| match tools::is(&event, kind) {
            true => put(event),
            false => tools::send(event),
        })
    }

    /// Replaces all events of some runs.
    pub(super) fn instead_if(
        self,
        runs: impl Runs,
        put: impl Fn(Value) -> Frames + Send + Sync + 'static,
    ) -> Mutant {
        self.events(move |facts, _, event| match runs(facts) {
            true => put(event),
            false => tools::send(event),
        })
    }

    pub(super) fn drops(self, kind: &'static str) -> Mutant {
        self.instead(kind, |_| Vec::new())
    }

    pub(super) fn drops_if(self, runs: impl Runs, kind: &'static str) -> Mutant {
        self.events(
            move |facts, _, event| match tools::is(&event, kind) && runs(facts) {
                true => Vec::new(),
                false => tools::send(event),
            },
        )
    }

    pub(super) fn twice(self, kind: &'static str) -> Mutant {
        self.instead(kind, |event| {
            vec![Frame::Json(event.clone()), Frame::Json(event)]
        })
    }

    /// Writes text before the first event of one type.
    pub(super) fn before(self, kind: &'static str, words: &'static str) -> Mutant {
        self.events(move |_, notes, event| tools::before(kind, words, notes, event))
    }

    /// Changes the text of the lines that contain hits.
    pub(super) fn hit_lines(
        self,
        change: impl Fn(String) -> String + Send + Sync + 'static,
    ) -> Mutant {
        self.lines(move |_, line| tools::hits(line, &change))
    }

    /// Edits the documents of the discovery commands.
    pub(super) fn document(self, edit: impl Edit) -> Mutant {
        self.documents(move |_, mut document| {
            edit(&mut document);
            Frame::Json(document)
        })
    }

    /// Edits one command in the capabilities.
    pub(super) fn command(self, name: &'static str, edit: impl Edit) -> Mutant {
        self.each_command(move |command| {
            if tools::text(command, "name") == name {
                edit(command);
            }
        })
    }

    /// Edits every command in the capabilities.
    pub(super) fn each_command(self, edit: impl Edit) -> Mutant {
        self.document(move |document| {
            let commands = document.get_mut("commands").and_then(Value::as_array_mut);
            commands.into_iter().flatten().for_each(&edit);
        })
    }

    /// Ignores a flag and its value, if it has one.
    pub(super) fn without(self, flag: &'static str, has_value: bool) -> Mutant {
        self.args(move |args| tools::without(args, flag, has_value))
    }

    /// Replaces one argument with another.
    pub(super) fn word(self, word: &'static str, other: &'static str) -> Mutant {
        self.args(move |mut args| {
            for arg in args.iter_mut().filter(|arg| *arg == word) {
                *arg = other.to_owned();
            }
            args
        })
    }

    pub(super) fn quirk(self, quirk: Quirk) -> Mutant {
        self.twist(Twist::Quirk(quirk))
    }
    pub(super) fn args(
        self,
        read: impl Fn(Vec<String>) -> Vec<String> + Send + Sync + 'static,
    ) -> Mutant {
        self.twist(Twist::Args(Box::new(read)))
    }
    pub(super) fn start(
        self,
        start: impl Fn(&Facts) -> Option<u8> + Send + Sync + 'static,
    ) -> Mutant {
        self.twist(Twist::Start(Box::new(start)))
    }
    pub(super) fn events(
        self,
        put: impl Fn(&Facts, &mut Notes, Value) -> Frames + Send + Sync + 'static,
    ) -> Mutant {
        self.twist(Twist::Event(Box::new(put)))
    }
    pub(super) fn lines(
        self,
        put: impl Fn(&Facts, Vec<u8>) -> Vec<u8> + Send + Sync + 'static,
    ) -> Mutant {
        self.twist(Twist::Line(Box::new(put)))
    }
    pub(super) fn documents(
        self,
        put: impl Fn(&Facts, Value) -> Frame + Send + Sync + 'static,
    ) -> Mutant {
        self.twist(Twist::Document(Box::new(put)))
    }
    pub(super) fn pipe(self, end: impl Fn(&Facts) -> u8 + Send + Sync + 'static) -> Mutant {
        self.twist(Twist::Pipe(Box::new(end)))
    }
    pub(super) fn exit(self, end: impl Fn(&Facts, u8) -> u8 + Send + Sync + 'static) -> Mutant {
        self.twist(Twist::Exit(Box::new(end)))
    }

    fn twist(mut self, twist: Twist) -> Mutant {
        self.made.twists.push(twist);
        self
    }
}

pub(super) fn sets(name: &'static str, value: impl Into<Value>) -> impl Edit {
    let value = value.into();
    move |event: &mut Value| tools::set(event, name, value.clone())
}

pub(super) fn removes(name: &'static str) -> impl Edit {
    move |event: &mut Value| tools::remove(event, name)
}

/// Runs of a command.
pub(super) fn of(command: &'static str) -> impl Runs {
    move |facts: &Facts| facts.command == command
}

/// Runs with this argument.
pub(super) fn given(word: &'static str) -> impl Runs {
    move |facts: &Facts| facts.has(word)
}

/// Runs that ended with an error of this category.
pub(super) fn failed(category: &'static str) -> impl Runs {
    move |facts: &Facts| facts.failure == Some(category)
}

/// Runs that were stopped by a signal.
pub(super) fn stopped(facts: &Facts) -> bool {
    facts.signal.is_some()
}
