// The selected session: its record, its stream and its actions.

/** Facts that are shown without their name. */
const PLAIN = new Set(["Adapter", "Workspace", "Directory"]);

const detail = {
  id: "",
  record: null,
  stream: null,
  view: "talk",
  /** Unsent prompt text by session. */
  drafts: new Map(),
  asking: false,
  askAgain: false,
  sentAt: 0,

  begin() {
    this.pane = new Transcript($("transcript"), () => this.fromStart());
    $("composer").addEventListener("submit", event => {
      event.preventDefault();
      this.send();
    });
    $("prompt").addEventListener("keydown", event => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        this.send();
      }
    });
    $("prompt").addEventListener("input", () => {
      this.drafts.set(this.id, $("prompt").value);
      this.grow();
    });
    $("interrupt").addEventListener("click", () => this.interrupt());
    $("kill").addEventListener("click", () => this.kill());
    $("forget").addEventListener("click", () => this.forget());
    $("resume").addEventListener("click", () => this.resume());
    $("back").addEventListener("click", () => go(""));
    for (const [tab, view] of [["tab-talk", "talk"], ["tab-raw", "raw"]]) {
      $(tab).addEventListener("click", () => this.look(view));
      $(tab).addEventListener("keydown", event => {
        if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
        event.stopPropagation();
        this.look(this.view === "talk" ? "raw" : "talk");
        $("tab-" + this.view).focus();
      });
    }
    sessions.changed.on(() => {
      const known = sessions.all.get(this.id);
      if (known && known !== this.record) this.got(known);
      else if (!known && this.record && sessions.isLoaded) this.gone();
      else this.title();
    });
    setInterval(() => this.facts(), 10000);
  },

  open(id) {
    if (id === this.id) return;
    this.leave();
    this.id = id;
    this.record = sessions.all.get(id) ?? null;
    show($("nothing"), !id);
    show($("session"), Boolean(id));
    document.body.classList.toggle("has-session", Boolean(id));
    list.mark();
    if (!id) {
      this.title();
      return;
    }
    $("prompt").value = this.drafts.get(id) ?? "";
    problem($("composer-problem"), null);
    this.grow();
    this.render();
    this.listen();
    this.refresh();
  },

  leave() {
    this.stream?.close();
    this.stream = null;
    this.id = "";
    this.record = null;
    this.wasWriting = false;
    questions.show("", []);
  },

  /** Starts streaming with the oldest buffered event. */
  listen() {
    this.stream?.close();
    const { id } = this;
    const begin = () => this.pane.begin(this.view === "raw" ? LineWriter : TalkWriter);
    begin();
    const on = (event, data) => {
      if (this.id !== id) return;
      // After a gap of unknown size, the stream repeats everything that it has.
      if (event === "gap" && data.missed === null) begin();
      this.handle(event, data);
    };
    // Wait briefly, so that moving through the list does not open a stream for every session.
    clearTimeout(this.starting);
    this.starting = setTimeout(() => {
      if (this.id === id) this.stream = new Stream(id, on, () => this.pane.room());
    }, 60);
  },

  handle(event, data) {
    switch (event) {
      case "connecting": return setText($("stream-state"), "Connecting …");
      case "live": return setText($("stream-state"), "Live");
      case "refused":
        setText($("stream-state"), "");
        if (data.status === 404) this.refresh();
        else this.pane.take("event", { type: "error", code: data.code, message: data.message, hint: data.hint });
        return undefined;
      case "over":
        setText($("stream-state"), "Ended");
        return this.refresh();
      case "status":
      case "permission":
        // The record is authoritative, because the stream may be replaying history.
        this.refresh();
        return this.pane.take(event, data);
      // If the record says busy, the event belongs to the current turn.
      default: return this.pane.take(event, data, Boolean(this.record?.busy));
    }
  },

  /** Loads the whole history page by page, without new events. */
  async fromStart() {
    const { id } = this;
    this.stream?.close();
    this.stream = null;
    this.pane.begin(this.view === "raw" ? LineWriter : TalkWriter);
    setText($("stream-state"), "History");
    const back = el("button", { type: "button", class: "plain", onclick: () => this.listen() }, "Back to now");
    let after = "";
    const more = async () => {
      const query = "?limit=1000" + (after ? "&after=" + encodeURIComponent(after) : "");
      const page = await api.ask("GET", of(id) + "/events" + query);
      if (this.id !== id || this.stream) return;
      for (const { event, data } of page.events) this.pane.take(event, data);
      after = page.next;
      const on = after ? el("button", { type: "button", class: "plain", onclick: event => { event.target.disabled = true; more().catch(failed); } }, "Load more") : null;
      this.pane.foot(el("div", { class: "earlier" }, after ? "There is more. " : "End of the history. ", on, " ", back));
    };
    const failed = error => this.pane.foot(el("div", { class: "earlier" }, oneLine(error.message) + ". ", back));
    this.pane.stay();
    await more().catch(failed);
  },

  look(view) {
    if (this.view === view) return;
    this.view = view;
    for (const name of ["talk", "raw"]) {
      $("tab-" + name).setAttribute("aria-selected", String(name === view));
      $("tab-" + name).tabIndex = name === view ? 0 : -1;
    }
    $("transcript").setAttribute("aria-labelledby", "tab-" + view);
    if (this.id) this.listen();
  },

  /**
   * Reloads the record. Only one request runs at a time, plus one more if something changed
   * meanwhile.
   */
  async refresh() {
    if (this.asking) {
      this.askAgain = true;
      return;
    }
    const { id } = this;
    if (!id || !api.token) return;
    this.asking = true;
    try {
      const record = await api.session(id);
      // Ignore a session that was left or forgotten in the meantime.
      if (this.id === id) sessions.put(record);
    } catch (error) {
      if (error.status === 404 && this.id === id) this.gone();
    } finally {
      this.asking = false;
      if (this.askAgain) {
        this.askAgain = false;
        this.refresh();
      }
    }
  },

  got(record) {
    const before = this.record;
    this.record = record;
    this.render();
    if (before && isAlive(before) && !isAlive(record)) announce("Session " + nameOf(record) + ": " + STATES[stateOf(record)]);
  },

  gone() {
    const { id } = this;
    sessions.drop(id);
    if (this.id === id) go("");
  },

  render() {
    const { record } = this;
    if (!record) {
      setText($("title"), "");
      return;
    }
    const state = stateOf(record);
    setText($("title"), nameOf(record));
    setText($("session-id"), record.id);
    setText($("pill"), STATES[state]);
    $("pill").className = "pill " + state;
    const alive = isAlive(record);
    show($("interrupt"), alive);
    $("interrupt").disabled = !record.busy;
    show($("kill"), alive);
    show($("resume"), !alive && Boolean(record.resumable));
    this.facts();
    const warnings = (record.warnings ?? []).map(warning => el("p", { dir: "auto" }, clean(warning.message)));
    show($("warnings"), warnings.length > 0);
    $("warnings").replaceChildren(...warnings);
    this.composer(alive, state);
    questions.show(record.id, alive ? record.pendingPermissions ?? [] : []);
    this.title();
  },

  title() {
    const asking = [...sessions.all.values()].filter(waits).length;
    const name = this.record ? nameOf(this.record) + " · agentproto" : "agentproto";
    const title = (asking ? `(${asking}) ` : "") + name;
    if (document.title !== title) document.title = title;
  },

  facts() {
    const { record } = this;
    if (!record) return;
    const facts = [
      ["Adapter", record.adapterSlug],
      ["Workspace", record.workspaceSlug],
      ["Directory", record.cwd],
      ["Started", age(record.startedAt) + " ago"],
      record.endedAt ? ["Ended", age(record.endedAt) + " ago"] : ["Last output", record.lastOutputAt ? age(record.lastOutputAt) + " ago" : "none yet"],
      ["Turns", String(record.turns ?? 0)],
    ];
    const text = JSON.stringify(facts);
    if (text === this.shownFacts) return;
    this.shownFacts = text;
    $("facts").replaceChildren(...facts.map(([name, value]) =>
      el("div", { "data-fact": name }, el("dt", { class: PLAIN.has(name) ? "unseen" : "" }, name), el("dd", { title: oneLine(value) }, el("bdi", {}, oneLine(value))))));
  },

  composer(alive, state) {
    const box = $("prompt");
    const open = alive && !this.record.busy && !this.isSending;
    const before = box.disabled;
    if (!open && !before && document.activeElement === box) {
      this.wasWriting = true;
      // A user who has just sent a prompt expects the box to be disabled.
      if (Date.now() - this.sentAt > IGNORE_MS) keys.ignoreKeys();
    }
    box.disabled = !open;
    $("send").disabled = !open;
    show($("composer"), alive);
    box.placeholder = open ? "Message to the agent" : state === "starting" ? "The agent is starting …" : state === "asks" ? "The agent is waiting for your answer" : "The agent is working …";
    setText($("composer-hint"), open ? "Enter sends, Shift+Enter starts a new line" : state === "asks" ? "A number key answers, Esc cancels the question, i interrupts the turn" : "i or Esc interrupts the turn");
    if (open && before) {
      // An earlier error about a running turn no longer applies.
      problem($("composer-problem"), null);
      const free = [document.body, $("transcript"), $("title")].includes(document.activeElement);
      if (this.wasWriting && free && !document.querySelector("dialog[open]")) box.focus({ preventScroll: true });
      this.wasWriting = false;
    }
  },

  /** Focuses the prompt as soon as it is enabled. */
  write() {
    this.wasWriting = $("prompt").disabled;
    (this.wasWriting ? $("title") : $("prompt")).focus({ preventScroll: true });
  },

  grow() {
    const box = $("prompt");
    box.style.height = "auto";
    box.style.height = Math.min(box.scrollHeight + 2, window.innerHeight * 0.35) + "px";
  },

  async send() {
    const { id } = this;
    const text = $("prompt").value;
    if (!text.trim() || this.isSending || !id) return;
    this.isSending = true;
    this.sentAt = Date.now();
    problem($("composer-problem"), null);
    this.pane.toEnd();
    this.render();
    try {
      await api.prompt(id, text);
      this.drafts.delete(id);
      if (this.id === id) {
        $("prompt").value = "";
        this.grow();
        this.record = { ...this.record, busy: true };
      }
    } catch (error) {
      this.isSending = false;
      if (this.id !== id) return;
      this.render();
      problem($("composer-problem"), error);
    }
    this.isSending = false;
    this.refresh();
  },

  /** Runs an action, and shows its error next to the prompt. */
  async act(action) {
    problem($("composer-problem"), null);
    try {
      return await action();
    } catch (error) {
      show($("composer"), true);
      problem($("composer-problem"), error);
      return undefined;
    } finally {
      if (this.record) this.refresh();
    }
  },

  async interrupt() {
    if (!this.record?.busy) return;
    const { id } = this;
    const done = await this.act(() => api.interrupt(id));
    if (done) announce(done.wasBusy ? "Interrupted" : "No turn was running");
  },

  async kill() {
    const { id, record } = this;
    if (!record || !isAlive(record)) return;
    const text = record.busy ? "The running turn is canceled, and the agent's memory of the conversation is lost." : "The agent's memory of the conversation is lost.";
    if (await confirm(`Kill “${nameOf(record)}”?`, text, "Kill")) await this.act(() => api.kill(id));
  },

  async forget() {
    const { id, record } = this;
    if (!record) return;
    const text = (isAlive(record) ? "It is alive and will be killed. " : "") + "Its history is permanently removed.";
    if (!await confirm(`Forget “${nameOf(record)}”?`, text, "Forget")) return;
    await this.act(async () => {
      await api.forget(id);
      announce("Forgotten");
      if (this.id === id) this.gone();
      else sessions.drop(id);
    });
  },

  async resume() {
    const { id } = this;
    const session = await this.act(() => api.resume(id));
    if (!session) return;
    sessions.put(session);
    go(session.id);
  },
};
