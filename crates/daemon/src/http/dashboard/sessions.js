// The records of all sessions. Live sessions are requested often. Ended ones are requested rarely,
// because there may be thousands and they do not change.

const EVERY = 2000;
const EVERY_HIDDEN = 10000;
const WHOLE_EVERY = 30000;

const sessions = {
  all: new Map(),
  isLoaded: false,
  changed: new Signal(),
  timer: 0,
  wholeAt: 0,

  start() {
    this.stop();
    this.wholeAt = 0;
    this.refresh();
  },

  stop() {
    clearTimeout(this.timer);
  },

  /** Requests the sessions now, and again after an interval. */
  async refresh(whole = false) {
    clearTimeout(this.timer);
    try {
      await this.load(whole || Date.now() - this.wholeAt > WHOLE_EVERY);
    } catch (error) {
      if (!(error instanceof ApiError) && !(error instanceof Unreachable)) throw error;
      if (error.status === 401) return;
    } finally {
      clearTimeout(this.timer);
      if (api.token) this.timer = setTimeout(() => this.refresh(), document.hidden ? EVERY_HIDDEN : EVERY);
    }
  },

  async load(whole) {
    const { sessions: got } = await api.sessions(!whole);
    if (whole) {
      this.wholeAt = Date.now();
      this.all = new Map(got.map(session => [session.id, session]));
      this.isLoaded = true;
      this.changed.fire();
      return;
    }
    const alive = new Set(got.map(session => session.id));
    const isGone = [...this.all.values()].some(session => isAlive(session) && !alive.has(session.id));
    if (isGone) return this.load(true);
    for (const session of got) this.all.set(session.id, session);
    this.changed.fire();
    return undefined;
  },

  /** Stores the newest record of one session. */
  put(session) {
    this.all.set(session.id, session);
    this.changed.fire();
  },

  drop(id) {
    if (this.all.delete(id)) this.changed.fire();
  },
};
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && api.token) sessions.refresh();
});

const isAlive = session => session.status === "starting" || session.status === "running";
const waits = session => session.pendingPermissions?.length > 0;

/** The state of a session in one word, for display and sorting. */
function stateOf(session) {
  if (waits(session)) return "asks";
  if (session.status === "running") return session.busy ? "working" : "ready";
  return session.status;
}

const STATES = {
  asks: "needs an answer",
  working: "working",
  starting: "starting",
  ready: "ready",
  error: "error",
  exited: "exited",
  killed: "killed",
};
const ORDER = Object.keys(STATES);

const nameOf = session => oneLine(session.label || "") || session.adapterSlug;
