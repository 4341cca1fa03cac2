// The list of sessions, grouped by workspace. Live sessions come before ended ones, and those that
// need an answer come first.

/** Maximum number of rows in the page. A filter finds the others. */
const MAX_ROWS = 300;

const CHIPS = [
  ["all", "All", () => true],
  ["live", "Live", isAlive],
  ["busy", "Busy", session => Boolean(session.busy) && isAlive(session)],
  ["asks", "Asks", waits],
  ["ended", "Ended", session => !isAlive(session)],
];

const list = {
  chip: "all",
  words: [],
  /** The ids in display order, for moving by keys. */
  order: [],
  rows: new Map(),
  limit: MAX_ROWS,
  /** What is shown, to detect changes. */
  shape: "",

  begin() {
    for (const [name, label] of CHIPS) {
      $("chips").append(el("button", { type: "button", "data-chip": name, onclick: () => this.choose(name) }, label, " ", el("span", { class: "count" })));
    }
    $("filter").addEventListener("input", () => {
      this.words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
      this.limit = MAX_ROWS;
      this.render();
    });
    sessions.changed.on(() => this.soon());
    setInterval(() => this.ages(), 10000);
  },

  choose(name) {
    this.chip = name;
    this.limit = MAX_ROWS;
    this.render();
  },

  /** Renders at most once per animation frame. */
  soon() {
    if (this.isPlanned) return;
    this.isPlanned = true;
    const render = () => {
      this.isPlanned = false;
      this.render();
    };
    if (document.hidden) setTimeout(render, 200);
    else requestAnimationFrame(render);
  },

  matches(session) {
    if (!this.words.length) return true;
    const text = [nameOf(session), session.adapterSlug, session.workspaceSlug, session.cwd, session.id, STATES[stateOf(session)]]
      .join("\n").toLowerCase();
    return this.words.every(word => text.includes(word));
  },

  render() {
    const found = [...sessions.all.values()].filter(session => this.matches(session));
    this.chips(found);
    const [, , isChosen] = CHIPS.find(([name]) => name === this.chip);
    const shown = found.filter(isChosen).sort(compare);
    const rest = shown.length - this.limit;
    // Unchanged rows are kept, because replacing a row during a click would lose the click.
    const shape = JSON.stringify([sessions.isLoaded, sessions.all.size === 0, found.length > 0, rest, shown.slice(0, this.limit)
      .map(session => [session.id, stateOf(session), nameOf(session), session.workspaceSlug])]);
    if (shape === this.shape) {
      this.mark();
      return;
    }
    this.shape = shape;
    const parts = [];
    this.order = [];
    const rows = new Map();
    for (const [workspace, group] of groups(shown.slice(0, this.limit))) {
      const id = "ws-" + parts.length;
      const section = el("section", { "aria-labelledby": id }, el("h2", { id }, el("bdi", {}, oneLine(workspace)), el("span", { class: "count" }, String(group.length))));
      for (const [title, members] of [["Live", group.filter(isAlive)], ["Ended", group.filter(session => !isAlive(session))]]) {
        if (!members.length) continue;
        section.append(el("h3", {}, title));
        const items = members.map(session => {
          const row = this.row(session);
          rows.set(session.id, row);
          this.order.push(session.id);
          return el("li", {}, row);
        });
        section.append(el("ul", {}, ...items));
      }
      parts.push(section);
    }
    this.rows = rows;
    if (rest > 0) {
      parts.push(el("button", { type: "button", class: "plain more-rows", onclick: () => { this.limit += MAX_ROWS; this.render(); } }, `${rest} more`));
    }
    if (!parts.length) parts.push(el("p", { class: "quiet none" }, this.emptyText(found.length)));
    this.swap(parts);
    this.mark();
  },

  emptyText(found) {
    if (!sessions.isLoaded) return "Loading …";
    if (!sessions.all.size) return "No sessions yet.";
    return found ? "No sessions in this group." : "Nothing matches the filter.";
  },

  /** Replaces the rows, and keeps focus and scroll position. */
  swap(parts) {
    const root = $("list");
    const focused = root.contains(document.activeElement) ? document.activeElement.dataset.id : undefined;
    const top = root.scrollTop;
    root.replaceChildren(...parts);
    root.scrollTop = top;
    if (focused) this.rows.get(focused)?.focus({ preventScroll: true });
  },

  row(session) {
    const state = stateOf(session);
    const text = [session.label ? session.adapterSlug : "", STATES[state], lastPart(session.cwd), session.label ? "" : "…" + session.id.slice(-4)];
    return el("a", { class: "row " + state, href: "#s=" + encodeURIComponent(session.id), "data-id": session.id },
      el("span", { class: "dot", "aria-hidden": "true" }),
      el("bdi", { class: "row-name" }, nameOf(session)),
      el("time", { class: "row-age", dateTime: session.startedAt, title: "started " + new Date(session.startedAt).toLocaleString() }, age(session.startedAt)),
      el("span", { class: "row-text" }, el("bdi", {}, oneLine(text.filter(Boolean).join(" · ")))));
  },

  chips(found) {
    for (const [name, , isChosen] of CHIPS) {
      const chip = $("chips").querySelector(`[data-chip=${name}]`);
      chip.setAttribute("aria-pressed", String(this.chip === name));
      const count = found.reduce((sum, session) => sum + (isChosen(session) ? 1 : 0), 0);
      setText(chip.querySelector(".count"), count ? String(count) : "");
      chip.classList.toggle("calls", name === "asks" && count > 0);
    }
  },

  mark() {
    for (const [id, row] of this.rows) {
      if (id === detail.id) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
    }
  },

  ages() {
    for (const node of $("list").querySelectorAll("time")) setText(node, age(node.dateTime));
  },

  /** Selects the session `step` rows away from the selected one. */
  move(step) {
    if (!this.order.length) return;
    const at = this.order.indexOf(detail.id);
    const next = at < 0 ? (step > 0 ? 0 : this.order.length - 1) : at + step;
    const id = this.order[Math.min(this.order.length - 1, Math.max(0, next))];
    const row = this.rows.get(id);
    row.focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
    go(id, true);
  },
};

function compare(a, b) {
  return Number(isAlive(b)) - Number(isAlive(a))
    || (isAlive(a) ? ORDER.indexOf(stateOf(a)) - ORDER.indexOf(stateOf(b)) : 0)
    || b.startedAt.localeCompare(a.startedAt);
}

/** Groups sessions by workspace, sorted by name, with `default` last. */
function groups(all) {
  const by = new Map();
  for (const session of all) {
    const name = session.workspaceSlug;
    if (!by.has(name)) by.set(name, []);
    by.get(name).push(session);
  }
  return [...by].sort(([a], [b]) => Number(a === "default") - Number(b === "default") || a.localeCompare(b));
}

const lastPart = path => path.split("/").filter(Boolean).pop() || "/";
