//! The first start of the agent, alone and before any case. It shows whether the agent answers at
//! all, how much time it needs to start, and whether its sessions require a login. Cases that cannot
//! be run then need no process.

use std::time::{Duration, Instant};

use serde_json::json;

use super::RunConfig;
use super::case::{self, CaseOutcome, CaseRunner, NEEDS_LOGIN, NoVerdict, StepResult, Stop};
use super::process::Launcher;
use crate::suite::{Case, CaseNeeds, ClientBehavior, StartState, SuiteProtocol, everything};

/// Exit codes of a shell that cannot start a program: it is not executable, or does not exist.
const NOT_STARTED: [i32; 2] = [126, 127];
/// How often an agent is started that exits before it answers.
const MAX_STARTS: usize = 2;

/// What the first start of an agent showed.
pub struct Trial {
    pub protocol: SuiteProtocol,
    pub state: AgentState,
    /// What the agent sent, and how long it took.
    pub outcome: CaseOutcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentState {
    /// The cases show everything else.
    Running,
    /// Sessions require a login.
    Locked,
    /// It exits, or never sends anything.
    Dead,
    /// Its program cannot be started, so nothing is known about it.
    Absent,
}

impl AgentState {
    /// Whether no case can talk to the agent.
    pub fn is_silent(self) -> bool {
        matches!(self, AgentState::Dead | AgentState::Absent)
    }
}

/// Starts the agent, once for each protocol of the cases that will be run.
pub async fn trials(cases: &[(SuiteProtocol, &Case)], config: &RunConfig) -> Vec<Trial> {
    let mut trials: Vec<Trial> = Vec::new();
    if matches!(config.launcher, Launcher::Host(_)) {
        return trials;
    }
    for (protocol, _) in cases.iter().filter(|(protocol, case)| {
        let speaks = matches!(
            protocol,
            SuiteProtocol::Acp | SuiteProtocol::AcpV2 | SuiteProtocol::Mcp
        );
        speaks && case::missing_precondition(case, *protocol, config).is_none()
    }) {
        if trials.iter().any(|trial| trial.protocol == *protocol) {
            continue;
        }
        let needs_session = |(of, case): &(SuiteProtocol, &Case)| {
            of == protocol && case.begin == StartState::Session
        };
        let opens_session = *protocol != SuiteProtocol::Mcp && cases.iter().any(needs_session);
        trials.push(trial(*protocol, opens_session, config).await);
    }
    trials
}

async fn trial(protocol: SuiteProtocol, opens_session: bool, config: &RunConfig) -> Trial {
    let mut state = AgentState::Dead;
    let mut outcome = CaseOutcome::default();
    for _ in 0..MAX_STARTS {
        (state, outcome) = start(protocol, opens_session, config).await;
        // Waiting a second time for an agent that says nothing would not help.
        if !state.is_silent() || outcome.time_outs.any {
            break;
        }
    }
    if state.is_silent() {
        config.starts.give_up();
    }
    Trial {
        protocol,
        state,
        outcome,
    }
}

async fn start(
    protocol: SuiteProtocol,
    opens_session: bool,
    config: &RunConfig,
) -> (AgentState, CaseOutcome) {
    let case = Case {
        id: "start".to_owned(),
        title: String::new(),
        decides: Vec::new(),
        begin: StartState::Process,
        client: Some(everything(protocol)),
        session: None,
        needs: CaseNeeds::default(),
        answers: ClientBehavior::default(),
        steps: Vec::new(),
        line: 0,
    };
    let Ok(root) = config.workspace.case() else {
        // The cases report this.
        return (AgentState::Running, CaseOutcome::default());
    };
    let mut runner = CaseRunner::new(&case, protocol, config, root.path());
    let state = state_of(&mut runner, opens_session).await;
    runner.end_process(config.grace).await;
    (state, runner.outcome)
}

async fn state_of(runner: &mut CaseRunner<'_>, opens_session: bool) -> AgentState {
    let started = Instant::now();
    let config = runner.config;
    if let Err(stop) = start_process(runner).await {
        // The refusal of a bundle has its own place in the report.
        let Stop::NoVerdict(NoVerdict::NotVerified(why)) = stop else {
            return AgentState::Running;
        };
        if config.launcher.bundle().is_some() {
            return AgentState::Running;
        }
        config.starts.unanswered_because(&why);
        return AgentState::Absent;
    }
    if runner.initialize().await.is_err() {
        let code = runner.connection().ok().and_then(|c| c.exit_code());
        if code.is_some_and(|code| NOT_STARTED.contains(&code)) {
            return AgentState::Absent;
        }
        let is_starved = runner.connection().is_ok_and(|c| c.time_outs.is_starved);
        let is_dead = runner.connection().is_ok_and(|connection| {
            !connection.has_messages() && (connection.is_over() || !connection.has_output())
        });
        return match is_dead && !is_starved {
            true => AgentState::Dead,
            false => AgentState::Running,
        };
    }
    config.learn_start(started.elapsed());
    if opens_session {
        let _ = runner.open_session(&json!({}), "new").await;
    }
    match runner.needs_login {
        true => AgentState::Locked,
        false => AgentState::Running,
    }
}

async fn start_process(runner: &mut CaseRunner<'_>) -> StepResult {
    runner.bind_basics()?;
    runner.start_process().await
}

impl Trial {
    /// Why a case cannot have a verdict, so that no process has to be started for it. `is_first`
    /// marks the case that shows that an agent is dead.
    pub fn excludes(&self, case: &Case, is_first: bool, config: &RunConfig) -> Option<NoVerdict> {
        match self.state {
            AgentState::Absent => {
                let why = "not checked: the agent cannot be started";
                Some(NoVerdict::NotVerified(why.to_owned()))
            }
            AgentState::Dead if !is_first => {
                let why = "not checked: the agent never answered `initialize`";
                Some(NoVerdict::NotVerified(why.to_owned()))
            }
            AgentState::Locked if case.begin == StartState::Session => {
                let initialize = &self.outcome.initialize;
                let missing = case::missing_capability(case, self.protocol, initialize);
                let missing =
                    missing.or_else(|| case::missing_precondition(case, self.protocol, config));
                Some(missing.unwrap_or_else(|| NoVerdict::NotVerified(NEEDS_LOGIN.to_owned())))
            }
            _ => None,
        }
    }
}

impl RunConfig {
    /// Additional time for the first output of a process. A process that is started beside others
    /// needs more time than the first one, which is started alone.
    pub(super) fn start_allowance(&self) -> Duration {
        const FACTOR: u32 = 4;
        const MIN: Duration = Duration::from_secs(1);
        let most = self.timeout * 2;
        if self.starts.never_answers() {
            return Duration::ZERO;
        }
        match self.first_start.get() {
            // Whole seconds, because messages name the limit.
            Some(time) => Duration::from_secs((*time * FACTOR).as_secs() + 1)
                .max(MIN)
                .min(most),
            None => most,
        }
    }

    fn learn_start(&self, time: Duration) {
        let _ = self.first_start.set(time);
    }
}
