// What the user has written but not sent: a draft and a queue of prompts for each session. Both
// survive a reload of the tab. The daemon runs one turn at a time, so the queue waits here.

/** Limits of the queue of one session. */
const MAX_QUEUED = 50;
const MAX_QUEUED_CHARS = 1 << 20;
/** Delay before a changed draft is stored, in milliseconds. */
const SAVE_DELAY = 200;
/** Number of last lines in which the end of the last turn is looked for. */
const LINES_OF_END = 200;
/** Minimum time between two attempts to send a prompt of one session, in milliseconds. */
const RETRY = 1000;
/** Time after which a lock counts as that of another tab, in milliseconds. */
const LOCK_WAIT = 3000;

const PAUSES = {
  cancelled: "the turn was interrupted",
  error: "the turn ended with an error",
  max_tokens: "the token limit was reached",
  max_turn_requests: "the request limit was reached",
  refusal: "the agent refused",
};

const queue = {
  all: new Map(),
  changed: new Signal(),

  /** Whether this tab may send. A duplicated tab has a copy of the queues of another one. */
  isMine: false,

  begin() {
    for (const id of storage.names("sessionStorage", "work.")) this.of(id);
    this.claim();
    sessions.changed.on(() => this.look());
    window.addEventListener("pagehide", () => {
      for (const id of this.all.keys()) this.store(id);
    });
  },

  /** Locks the queues of this tab. A lock that another tab has means that this one is a copy. */
  async claim() {
    const tab = storage.get("sessionStorage", "tab") || Math.random().toString(36).slice(2);
    storage.set("sessionStorage", "tab", tab);
    const { locks } = navigator;
    // A page that is being reloaded may still have its lock.
    const signal = AbortSignal.timeout(LOCK_WAIT);
    const held = () => {
      this.isMine = true;
      this.look();
      return new Promise(() => {});
    };
    // Without a secure connection, browsers have no locks.
    if (!locks) held();
    else locks.request("agentproto." + tab, { signal }, held).catch(() => {
      if (signal.aborted) this.duplicated();
    });
  },

  duplicated() {
    storage.set("sessionStorage", "tab", "");
    for (const [id, work] of this.all) {
      if (work.items.length) this.pause(id, "another tab has the same queue");
    }
    this.claim();
  },

  /** The work of one session. `items` are `{text, sentAt?}`. */
  of(id) {
    const known = this.all.get(id);
    if (known) return known;
    const work = { draft: "", items: [], paused: "", isPosting: false, isChecked: false, editing: null, triedAt: 0, timer: 0 };
    try {
      const { draft, items, paused } = JSON.parse(storage.get("sessionStorage", "work." + id) || "{}");
      work.draft = typeof draft === "string" ? draft : "";
      work.items = (Array.isArray(items) ? items : []).filter(item => typeof item?.text === "string");
      work.paused = typeof paused === "string" ? paused : "";
    } catch {
      // Text that is not JSON is not ours.
    }
    this.all.set(id, work);
    return work;
  },

  /** Stores the work soon, because a long draft changes with every key. */
  save(id) {
    const work = this.of(id);
    clearTimeout(work.timer);
    work.timer = setTimeout(() => this.store(id), SAVE_DELAY);
  },

  store(id) {
    const { draft, items, paused, timer } = this.of(id);
    clearTimeout(timer);
    const isEmpty = !draft && !items.length;
    storage.set("sessionStorage", "work." + id, isEmpty ? "" : JSON.stringify({ draft, items, paused }));
  },

  drop(id) {
    clearTimeout(this.all.get(id)?.timer);
    this.all.delete(id);
    storage.set("sessionStorage", "work." + id, "");
  },

  /** Removes everything, when the user signs out. */
  clear() {
    for (const id of [...this.all.keys()]) this.drop(id);
  },

  setDraft(id, text) {
    this.of(id).draft = text;
    this.save(id);
  },

  /** Adds a prompt at the end. Returns an error, or null. */
  add(id, text) {
    const work = this.of(id);
    const chars = work.items.reduce((sum, item) => sum + item.text.length, text.length);
    if (work.items.length >= MAX_QUEUED) return { message: `The queue is full: it has ${MAX_QUEUED} prompts`, hint: "Remove one, or wait" };
    if (chars > MAX_QUEUED_CHARS) return { message: "The queue is full: its prompts are too long", hint: "Wait until they are sent" };
    work.items.push({ text });
    this.update(id);
    this.look();
    return null;
  },

  remove(id, item) {
    const work = this.of(id);
    work.items = work.items.filter(other => other !== item);
    if (work.editing === item) work.editing = null;
    if (!work.items.length) work.paused = "";
    this.update(id);
    this.look();
  },

  moveUp(id, item) {
    const { items } = this.of(id);
    const at = items.indexOf(item);
    if (at < 1 || items[at - 1].sentAt !== undefined) return;
    [items[at - 1], items[at]] = [items[at], items[at - 1]];
    this.update(id);
  },

  pause(id, why) {
    this.of(id).paused = why;
    announce("The queue is paused: " + why);
    this.update(id);
  },

  /** Resumes a paused queue, whatever has paused it. */
  proceed(id) {
    const work = this.of(id);
    work.paused = "";
    work.isChecked = true;
    this.update(id);
    this.look();
  },

  /** Moves the work to the session that continues this one. */
  hand(from, to) {
    const work = this.of(from);
    Object.assign(this.of(to), { draft: work.draft, items: work.items, paused: work.items.length ? "the session was resumed" : "" });
    this.drop(from);
    this.update(to);
  },

  update(id) {
    this.save(id);
    this.changed.fire(id);
  },

  /** Whether a new prompt has to wait. */
  mustWait(record) {
    const work = this.of(record.id);
    return Boolean(record.busy) || record.status === "starting" || work.isPosting || (work.items.length > 0 && !work.paused);
  },

  /** Looks for sessions that are ready for their next prompt. */
  look() {
    if (!this.isMine) return;
    for (const [id, work] of this.all) {
      const record = sessions.all.get(id);
      if (!record) {
        if (sessions.isLoaded && id !== detail.id) this.drop(id);
        continue;
      }
      if (!work.items.length) continue;
      if (!isAlive(record)) {
        if (!work.paused) this.pause(id, "the session has ended");
      } else if (record.status === "running" && !record.busy && this.isReady(work)) {
        this.next(id).catch(error => this.pause(id, oneLine(error.message)));
      }
    }
  },

  isReady(work) {
    return !work.paused && !work.isPosting && work.editing !== work.items[0] && Date.now() - work.triedAt > RETRY;
  },

  /** Sends the first prompt, if the last turn ended normally. */
  async next(id) {
    const work = this.of(id);
    work.triedAt = Date.now();
    work.isPosting = true;
    let isSent = false;
    try {
      // The list may be older than the last turn.
      const record = await api.session(id);
      const [item] = work.items;
      if (!item || work.paused) return;
      if (item.sentAt !== undefined && record.turns > item.sentAt) {
        // It was accepted, but the response was lost.
        work.items.shift();
        this.update(id);
        return;
      }
      delete item.sentAt;
      if (record.busy || record.status !== "running") return;
      if (record.turns > 0 && !work.isChecked) {
        const reason = await this.lastEnd(id);
        if (reason !== "end_turn") {
          this.pause(id, PAUSES[reason] ?? (reason ? `the turn ended with “${oneLine(reason)}”` : "the end of the last turn is unknown"));
          return;
        }
      }
      if (work.items[0] !== item || work.editing === item || work.paused) return;
      isSent = await this.post(id, item, record.turns);
    } catch (error) {
      if (error instanceof Unreachable || error.status === 401) return;
      throw error;
    } finally {
      work.isPosting = false;
      if (isSent) this.update(id);
      setTimeout(() => this.look(), RETRY + 50);
    }
  },

  /** How the last turn ended. A line of the agent cannot start like the line that says it. */
  async lastEnd(id) {
    const { lines } = await api.ask("GET", of(id) + "/output?lastN=" + LINES_OF_END);
    for (const line of lines.reverse()) {
      const end = /^── turn-end \((.*)\) ──$/.exec(line);
      if (end) return end[1];
    }
    return "";
  },

  /** Sends one prompt. Returns whether it was accepted. Another turn may have started before. */
  async post(id, item, turns) {
    const work = this.of(id);
    item.sentAt = turns;
    this.store(id);
    try {
      await api.prompt(id, item.text);
    } catch (error) {
      // Without a response, it is unknown whether the prompt was accepted. `next` finds out.
      if (error instanceof Unreachable) throw error;
      delete item.sentAt;
      if (error.code === "session_busy") return false;
      throw error;
    }
    work.items = work.items.filter(other => other !== item);
    work.isChecked = false;
    const record = sessions.all.get(id);
    if (record) sessions.put({ ...record, busy: true });
    return true;
  },

  /** Sends a prompt that does not wait for others. Returns an error, or null. */
  async send(id, text) {
    const work = this.of(id);
    const turns = sessions.all.get(id)?.turns ?? 0;
    const item = { text, sentAt: turns };
    work.items.unshift(item);
    work.isPosting = true;
    const { paused } = work;
    this.update(id);
    try {
      const isSent = await this.post(id, item, turns);
      if (!isSent) announce("Queued, because another turn is running");
      return null;
    } catch (error) {
      if (error instanceof Unreachable) return error;
      work.items = work.items.filter(other => other !== item);
      if (work.draft) {
        work.items.unshift(item);
        work.paused = oneLine(error.message);
      } else {
        work.draft = text;
        work.paused = paused;
      }
      return error;
    } finally {
      work.isPosting = false;
      work.triedAt = Date.now();
      this.update(id);
    }
  },
};
