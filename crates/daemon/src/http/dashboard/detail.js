// The selected session: its record, its stream and its actions.

/** Facts that are shown without their name. */
const PLAIN = new Set(["Adapter", "Workspace", "Directory"]);

const detail = {
  id: "",
  record: null,
  stream: null,
  view: "talk",
  asking: false,
  askAgain: false,

  begin() {
    this.pane = new Transcript($("transcript"), () => this.fromStart());
    this.pane.planned = entries => board.planned(this.id, entries);
    $("interrupt").addEventListener("click", () => this.interrupt());
    $("kill").addEventListener("click", () => this.kill());
    $("forget").addEventListener("click", () => this.forget());
    $("resume").addEventListener("click", () => this.resume());
    $("back").addEventListener("click", () => go(""));
    this.beginMenu();
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

  /** A button that shows and hides further actions. */
  beginMenu() {
    const set = isOpen => {
      show($("more-menu"), isOpen);
      $("more").setAttribute("aria-expanded", String(isOpen));
    };
    $("more").addEventListener("click", () => set($("more-menu").hidden));
    $("more-menu").addEventListener("click", () => {
      set(false);
      if (document.activeElement === document.body) $("more").focus();
    });
    $("more-box").addEventListener("keydown", event => {
      if (event.key !== "Escape" || $("more-menu").hidden) return;
      event.stopPropagation();
      set(false);
      $("more").focus();
    });
    document.addEventListener("click", event => {
      if (!$("more-box").contains(event.target)) set(false);
    });
    $("rename").addEventListener("click", () => this.rename());
    $("export-md").addEventListener("click", () => exporter.run(this.id, "md"));
    $("export-json").addEventListener("click", () => exporter.run(this.id, "json"));
    $("find-open").addEventListener("click", () => find.open());
  },

  open(id) {
    if (id === this.id) return;
    this.leave();
    this.id = id;
    this.record = sessions.all.get(id) ?? null;
    show($("nothing"), !id && !board.isOpen);
    show($("session"), Boolean(id));
    document.body.classList.toggle("has-session", Boolean(id));
    list.mark();
    find.close();
    composer.open(id);
    if (!id) {
      this.title();
      return;
    }
    this.render();
    this.listen();
    this.refresh();
  },

  leave() {
    this.stream?.close();
    this.stream = null;
    this.id = "";
    this.record = null;
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
    queue.drop(id);
    if (this.id !== id) return;
    go("");
    // The focus must not fall to the page, where the next key would be a shortcut.
    if (document.activeElement === document.body) $("nothing").focus({ preventScroll: true });
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
    composer.render();
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
      ["Permissions", record.permissions && record.permissions !== "ask" ? (record.permissions === "allow" ? "all allowed" : "all denied") : ""],
      ["Tokens", usageText(record.usage)],
      ["Cost", costText(record.cost)],
    ].filter(([, value]) => value);
    const former = record.resumedFrom;
    const text = JSON.stringify([facts, former, former && nameOf(sessions.all.get(former) ?? { adapterSlug: former }), record.context]);
    if (text === this.shownFacts) return;
    this.shownFacts = text;
    $("facts").replaceChildren(...facts.map(([name, value]) =>
      el("div", { "data-fact": name }, el("dt", { class: PLAIN.has(name) ? "unseen" : "" }, name), el("dd", { title: oneLine(value) }, el("bdi", {}, oneLine(value))))));
    const meter = contextMeter(record.context);
    if (meter) $("facts").append(el("div", { "data-fact": "Context" }, el("dt", {}, "Context"), el("dd", {}, meter)));
    if (former) {
      const known = sessions.all.get(former);
      $("facts").append(el("div", { "data-fact": "Continues" }, el("dt", {}, "Continues"),
        el("dd", {}, el("a", { href: "#s=" + encodeURIComponent(former), title: former }, el("bdi", {}, known ? nameOf(known) : former)))));
    }
  },

  /** Runs an action, and shows its error next to the prompt. */
  async act(action) {
    problem($("composer-problem"), null);
    try {
      return await action();
    } catch (error) {
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
    const after = record.resumable && record.agentSessionId ? "The session can be resumed later." : "The agent's memory of the conversation is lost.";
    const text = (record.busy ? "The running turn is canceled. " : "") + after;
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
    queue.hand(id, session.id);
    go(session.id);
    composer.write();
  },

  async rename() {
    const { id, record } = this;
    if (!record) return;
    const label = await ask("Rename", "Label", record.label ?? "");
    if (label === null) return;
    await this.act(async () => {
      sessions.put(await api.rename(id, label.trim() || null));
      announce("Renamed");
    });
  },
};
