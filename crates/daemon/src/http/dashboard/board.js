// An overview of all live sessions as cards, with their questions.

/** Maximum number of cards. The list has all sessions. */
const MAX_CARDS = 60;
/** Number of last lines from which a card takes its text, and of requests at a time. */
const CARD_LINES = 12;
const CARD_REQUESTS = 4;

const board = {
  isOpen: false,
  /** The newest plan of each session, as far as this page has seen it. */
  plans: new Map(),
  /** The last line of each session, and the output time for which it was requested. */
  lines: new Map(),
  cards: new Map(),
  asking: 0,

  begin() {
    $("board-open").addEventListener("click", () => this.toggle());
    $("board-back").addEventListener("click", () => go(""));
    $("board-new").addEventListener("click", () => newSession.open());
    sessions.changed.on(() => this.soon());
    setInterval(() => this.soon(), 10000);
  },

  toggle() {
    if (this.isOpen) go("");
    else goBoard();
  },

  open(isOpen) {
    this.isOpen = isOpen;
    show($("board"), isOpen);
    $("board-open").setAttribute("aria-pressed", String(isOpen));
    document.body.classList.toggle("has-board", isOpen);
    if (isOpen) {
      show($("nothing"), false);
      this.render();
      $("board-title").focus({ preventScroll: true });
    }
  },

  planned(id, entries) {
    this.plans.delete(id);
    this.plans.set(id, entries);
    if (this.plans.size > 200) this.plans.delete(this.plans.keys().next().value);
  },

  soon() {
    if (!this.isOpen || this.isPlanned) return;
    this.isPlanned = true;
    setTimeout(() => {
      this.isPlanned = false;
      if (this.isOpen) this.render();
    }, 50);
  },

  render() {
    const alive = [...sessions.all.values()].filter(isAlive).sort(compare);
    const shown = alive.slice(0, MAX_CARDS);
    setText($("board-count"), !sessions.isLoaded ? "Loading …" : alive.length ? plural(alive.length, "live session") + (alive.length > MAX_CARDS ? `, the first ${MAX_CARDS} are shown` : "") : "No live sessions.");
    const wanted = new Set(shown.map(session => session.id));
    for (const [id, card] of this.cards) {
      if (wanted.has(id)) continue;
      card.node.remove();
      this.cards.delete(id);
    }
    let last = null;
    for (const session of shown) {
      const card = this.cards.get(session.id) ?? this.make(session.id);
      this.fill(card, session);
      // Cards are moved only if the order changed, because moving loses the focus.
      const place = last ? last.nextElementSibling : $("board-cards").firstElementChild;
      if (place !== card.node) $("board-cards").insertBefore(card.node, place);
      last = card.node;
    }
    this.ask(shown);
  },

  make(id) {
    const part = (tag, name) => el(tag, { class: name });
    const card = { name: el("a", { href: "#s=" + encodeURIComponent(id) }), pill: part("span", "pill"), about: part("p", "quiet"), text: part("p", "card-text"), asks: part("div", "card-asks"), foot: part("div", "card-foot") };
    card.node = el("li", { class: "card", "data-id": id }, el("h3", {}, card.name), card.pill, card.about, card.text, card.asks, card.foot);
    card.text.dir = "auto";
    this.cards.set(id, card);
    return card;
  },

  fill(card, session) {
    const state = stateOf(session);
    card.node.className = "card " + state;
    setText(card.name, nameOf(session));
    setText(card.pill, STATES[state]);
    card.pill.className = "pill " + state;
    setText(card.about, [session.label ? session.adapterSlug : "", session.workspaceSlug, age(session.lastOutputAt ?? session.startedAt) + " ago"].filter(Boolean).map(oneLine).join(" · "));
    const line = this.lines.get(session.id);
    setText(card.text, oneLine(line?.text ?? ""));
    const questionsKey = JSON.stringify((session.pendingPermissions ?? []).map(({ id }) => id));
    if (card.questionsKey !== questionsKey) {
      card.questionsKey = questionsKey;
      card.asks.replaceChildren(...(session.pendingPermissions ?? []).map(question => this.question(session, question)));
    }
    const plan = this.plans.get(session.id);
    const progress = plan ? "Plan: " + planText(plan) : line?.plan ?? "";
    const waiting = queue.all.get(session.id)?.items.length ?? 0;
    const foot = JSON.stringify([progress, session.cost, session.context, waiting]);
    if (card.footKey === foot) return;
    card.footKey = foot;
    const parts = [progress, costText(session.cost), waiting ? plural(waiting, "queued prompt") : ""].filter(Boolean).map(text => el("span", {}, text));
    const meter = contextMeter(session.context);
    card.foot.replaceChildren(...parts, ...(meter ? [meter] : []));
  },

  question(session, question) {
    const diffs = [...diffsIn(question.tool?.input), ...diffsIn(question.tool?.content)];
    const changes = diffs.slice(0, 5).map(diff => el("p", { class: "quiet" }, el("bdi", {}, oneLine(diff.path)), " " + countText(difference(diff))));
    const trouble = el("p", { class: "problem", role: "alert", hidden: true });
    const answer = async (value, label) => {
      for (const button of node.querySelectorAll("button")) button.disabled = true;
      try {
        await api.answer(session.id, question.id, value);
        announce("Answered: " + oneLine(label));
      } catch (error) {
        if (error.status !== 404) problem(trouble, error);
        for (const button of node.querySelectorAll("button")) button.disabled = false;
      }
      sessions.refresh();
    };
    const isForm = Boolean(question.schema) && !(question.options ?? []).length;
    const buttons = (question.options ?? []).slice(0, 9).map(option => el("button", {
      type: "button",
      class: (option.kind || "").startsWith("allow") ? "allow" : (option.kind || "").startsWith("reject") ? "reject" : "",
      onclick: () => answer({ optionId: option.id }, option.label || option.id),
    }, el("bdi", {}, oneLine(option.label || option.id))));
    const node = el("div", { role: "group", "aria-label": "Question" },
      el("p", { class: "question-text", dir: "auto" }, bounded(clean(question.message), 600)), ...changes,
      el("div", { class: "question-buttons" }, ...buttons,
        el("a", { href: "#s=" + encodeURIComponent(session.id) }, isForm ? "Open to answer" : "Details")), trouble);
    return node;
  },

  /** Requests the last lines of sessions with new output, a few at a time. */
  ask(shown) {
    for (const session of shown) {
      if (this.asking >= CARD_REQUESTS) return;
      const at = session.lastOutputAt ?? "";
      const known = this.lines.get(session.id);
      if (!at || known?.at === at || known?.isAsking) continue;
      this.lines.set(session.id, { ...known, isAsking: true });
      this.asking += 1;
      this.load(session.id, at).finally(() => {
        this.asking -= 1;
        this.soon();
      });
    }
  },

  async load(id, at) {
    try {
      const { lines } = await api.ask("GET", of(id) + "/output?lastN=" + CARD_LINES);
      const isText = line => line.trim() && !/^(?:── turn-end|\[awaiting input\]|\[thought\] \[[ x-]\])/.test(line);
      const steps = lines.flatMap(line => /^\[thought\] \[([ x-])\] /.exec(line)?.[1] ?? []);
      const plan = steps.length ? `Plan: ${steps.filter(mark => mark === "x").length} of ${steps.length} done` : "";
      this.lines.set(id, { at, text: (lines.findLast(isText) ?? "").slice(0, 300), plan });
    } catch (error) {
      this.lines.set(id, { at, text: "" });
      if (!(error instanceof ApiError) && !(error instanceof Unreachable)) throw error;
    }
    if (this.lines.size > 500) this.lines.delete(this.lines.keys().next().value);
  },
};
