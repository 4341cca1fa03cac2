// All actions and sessions in one list that is filtered by what the user types.

/** Maximum number of entries that are shown. */
const MAX_ENTRIES = 40;

const palette = {
  entries: [],
  at: 0,

  begin() {
    const input = $("palette-input");
    input.addEventListener("input", () => this.render());
    input.addEventListener("keydown", event => {
      if (event.isComposing) return;
      const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[event.key];
      if (step) {
        event.preventDefault();
        this.choose(Math.min(this.entries.length - 1, Math.max(0, this.at + step)));
      } else if (event.key === "Enter") {
        event.preventDefault();
        this.run(this.entries[this.at]);
      } else if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        event.stopPropagation();
        $("palette").close();
      }
    });
    $("palette-list").addEventListener("click", event => {
      const option = event.target.closest("[role=option]");
      if (option) this.run(this.entries[Number(option.dataset.at)]);
    });
    $("palette-open").addEventListener("click", () => this.toggle());
    $("palette").addEventListener("click", event => {
      if (event.target === $("palette")) $("palette").close();
    });
  },

  toggle() {
    if (document.querySelector("dialog[open]")) return;
    $("palette-input").value = "";
    $("palette").showModal();
    this.render();
    $("palette-input").focus();
  },

  actions() {
    const { record } = detail;
    const alive = record && isAlive(record);
    return [
      [true, "New session", "n", () => newSession.open()],
      [true, board.isOpen ? "Close the board" : "Board of all live sessions", "b", () => board.toggle()],
      [alive, "Write a prompt", "Enter", () => composer.write()],
      [alive && record.busy, "Interrupt the turn", "i", () => detail.interrupt()],
      [questions.open.length > 0, "Answer the question", "", () => questions.focus()],
      [record, "Search in the transcript", "f", () => find.open()],
      [record, detail.view === "talk" ? "Show raw lines" : "Show the transcript", "t", () => detail.look(detail.view === "talk" ? "raw" : "talk")],
      [record, "Newest output", "G", () => detail.pane.toEnd()],
      [record, "Read from the start", "", () => detail.fromStart()],
      [record, "Rename the session", "", () => detail.rename()],
      [record, "Export as Markdown", "", () => exporter.run(detail.id, "md")],
      [record, "Export as JSON", "", () => exporter.run(detail.id, "json")],
      [record && !alive && record.resumable, "Resume the session", "", () => detail.resume()],
      [alive, "Kill the session", "", () => detail.kill()],
      [record, "Forget the session", "", () => detail.forget()],
      [true, "Filter the sessions", "/", () => $("filter").focus()],
      [true, "Help and settings", "?", () => help.open()],
      [true, "Sign out", "", () => $("forget-token").click()],
    ].filter(([isThere]) => isThere).map(([, name, key, run]) => ({ name, key, run, text: name.toLowerCase() }));
  },

  render() {
    const words = $("palette-input").value.toLowerCase().split(/\s+/).filter(Boolean);
    const isFound = text => words.every(word => text.includes(word));
    this.entries = this.actions().filter(entry => isFound(entry.text));
    for (const session of [...sessions.all.values()].sort(compare)) {
      if (this.entries.length >= MAX_ENTRIES) break;
      const state = STATES[stateOf(session)];
      const text = [nameOf(session), session.adapterSlug, session.workspaceSlug, session.cwd, session.id, state].join("\n").toLowerCase();
      if (isFound(text)) this.entries.push({ name: nameOf(session), about: `${state} · ${oneLine(session.workspaceSlug)}`, run: () => go(session.id) });
    }
    $("palette-list").replaceChildren(...this.entries.map(({ name, key, about }, at) =>
      el("li", { role: "option", id: "palette-" + at, "data-at": String(at), "aria-selected": "false" },
        el("bdi", {}, name), key ? el("kbd", { "aria-hidden": "true" }, key) : null, about ? el("span", { class: "quiet" }, about) : null)));
    show($("palette-none"), !this.entries.length);
    this.choose(0);
  },

  choose(at) {
    $("palette-" + this.at)?.setAttribute("aria-selected", "false");
    this.at = at;
    const option = $("palette-" + at);
    option?.setAttribute("aria-selected", "true");
    option?.scrollIntoView({ block: "nearest" });
    if (option) $("palette-input").setAttribute("aria-activedescendant", option.id);
    else $("palette-input").removeAttribute("aria-activedescendant");
  },

  run(entry) {
    if (!entry) return;
    $("palette").close();
    entry.run();
  },
};
