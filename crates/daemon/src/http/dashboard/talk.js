// Shows the transcript as a conversation, from structured events: prompts, thoughts, tool calls,
// replies, and how each turn ended.

/** Maximum number of characters shown of an argument, a result or a detail. */
const MAX_SHOWN = 100000;
/** Limits of one group of stderr lines. */
const GROUP_LINES = 200;
const GROUP_CHARS = 16384;
/** Maximum number of changed lines of a difference that is open at first. */
const SMALL_DIFF = 40;

class TalkWriter {
  #pane;
  #isNews = false;
  #text = null;
  #thought = null;
  #stderr = null;
  #tools = new Map();
  #plan = null;
  #questions = new Map();
  #turn = false;
  #skipErrorLines = false;
  #lastText = "";
  #lastError = "";

  constructor(pane) {
    this.#pane = pane;
  }

  frame(event, data, isNews) {
    this.#isNews = isNews;
    switch (event) {
      case "prompt": return this.#prompt(data);
      case "event": return this.#event(data);
      case "line": return this.#line(data);
      case "status": return this.#status(data);
      case "permission": return data.closed ? this.#closed(data.id, data.answer) : this.#opened(data);
      case "gap": return this.#gap(data);
      default: return undefined;
    }
  }

  #event(data) {
    this.#skipErrorLines = data.type === "error";
    switch (data.type) {
      case "text-delta": return this.#appendText(data.text);
      case "thought": return Array.isArray(data.plan) ? this.#showPlan(data.plan) : this.#think(data.text);
      case "tool-call": return this.#call(data);
      case "tool-result": return this.#result(data);
      case "agent-prompt": return this.#ask(data);
      case "turn-end": return this.#end(data.reason);
      case "error": return this.#error(data);
      default: return undefined;
    }
  }

  /** Ends the current message or thought, because something else follows. */
  #close() {
    if (this.#text) this.#finish(this.#text);
    this.#thought?.prose.end();
    this.#text = this.#thought = this.#stderr = null;
  }

  /** Shows a complete message as Markdown, unless the user is selecting text in it. */
  #finish({ prose, body, pieces }) {
    prose.end();
    if (!prose.whole) return;
    const isWanted = () => pieces.length > 0 && pieces.every(piece => piece.node?.isConnected);
    markdown.parse(prose.whole, isWanted, (nodes, count) => whenNotSelected(body, () => {
      if (!isWanted()) return;
      const weight = 1 + Math.floor(count / 8) + Math.floor(prose.whole.length / CHARS_OF_A_PIECE);
      this.#pane.swap(pieces, el("div", { class: "md" }, ...nodes), weight);
    }));
  }

  #prompt({ prompt, at, cut }) {
    this.#close();
    this.#turn = true;
    this.#lastText = "";
    const body = el("div", { class: "said" });
    const time = at ? el("time", { dateTime: at, title: new Date(at).toLocaleString() }, clock(at)) : null;
    const copy = copyButton("Copy the prompt", () => clean(prompt));
    this.#pane.hold(el("article", { class: "block you", "aria-label": "You" }, body, el("div", { class: "under" }, time, copy)));
    for (const piece of pieces(clean(prompt) + (cut ? " …" : ""))) {
      const node = el("div", { class: "text", dir: "auto" }, piece);
      body.append(node);
      this.#pane.track(node);
    }
  }

  #appendText(text) {
    this.#turn = true;
    if (!this.#text) {
      this.#close();
      const body = el("div", { class: "said" });
      const pieces = [];
      const prose = new Prose(body, piece => pieces.push(this.#pane.track(piece)));
      this.#pane.hold(el("article", { class: "block agent", "aria-label": "Agent" }, body, copyButton("Copy the message", () => prose.whole ?? body.innerText)));
      this.#text = { prose, body, pieces };
    }
    this.#text.prose.take(text);
    this.#lastText = (this.#lastText + text).slice(-400);
  }

  #think(text) {
    this.#turn = true;
    if (!this.#thought) {
      this.#close();
      const preview = el("span", { class: "preview" });
      const body = el("div", { class: "said" });
      const node = el("details", { class: "block thought" }, el("summary", {}, el("span", { class: "kind" }, "Thought"), preview), body);
      this.#pane.hold(node);
      this.#thought = { prose: new Prose(body, piece => this.#pane.track(piece)), preview, begin: "" };
    }
    const thought = this.#thought;
    thought.prose.take(text);
    if (thought.begin.length < 160) {
      thought.begin += text;
      thought.preview.textContent = oneLine(thought.begin).slice(0, 160);
    }
  }

  /** One checklist for each turn, which every new version of the plan updates. */
  #showPlan(entries) {
    this.#turn = true;
    if (!this.#plan?.isConnected) {
      this.#close();
      this.#plan = this.#pane.add(el("section", { class: "block plan", "aria-label": "Plan" }));
    }
    this.#plan.replaceChildren(...planView(entries));
    this.#pane.planned?.(entries);
  }

  #call({ id, name, kind, args }) {
    this.#turn = true;
    this.#close();
    const known = this.#tools.get(id);
    if (known && !known.isDone) {
      // An update of the same call with more data.
      known.rename(name, kind, args);
      return;
    }
    this.#tools.set(id, new ToolCall(this.#pane, name, kind, args));
  }

  #result({ id, ok, content }) {
    this.#close();
    const call = this.#tools.get(id) ?? new ToolCall(this.#pane, "A tool", "", null);
    call.done(ok, content);
    this.#tools.delete(id);
  }

  #ask({ id, message, options, decision }) {
    this.#close();
    const offered = (options || []).map(option => oneLine(option.label || option.id)).join(" · ");
    const node = el("div", { class: "block asked" },
      el("span", { class: "kind" }, "Question"), el("span", { dir: "auto" }, clean(message)),
      offered ? el("span", { class: "offered", dir: "auto" }, offered) : null,
      decision ? el("span", { class: "decision", dir: "auto" }, "Decided by the host: " + oneLine((options || []).find(option => option.id === decision)?.label ?? decision)) : null);
    this.#pane.add(node);
    this.#questions.set(id, node);
  }

  /** While a question is open, it is shown above the prompt with its buttons. */
  #opened({ id, options }) {
    const node = this.#questions.get(id);
    if (!node) return;
    node.classList.add("open");
    node.labels = new Map((options || []).map(option => [option.id, option.label]));
  }

  #closed(id, answer) {
    const node = this.#questions.get(id);
    if (!node) return;
    node.classList.remove("open");
    if (answer !== undefined && answer !== null) {
      node.append(el("span", { class: "decision", dir: "auto" }, "Answer: " + bounded(answerText(answer, node.labels), 300)));
    }
    this.#questions.delete(id);
  }

  #end(reason) {
    this.#close();
    this.#turn = false;
    this.#plan = null;
    for (const id of [...this.#questions.keys()]) this.#closed(id);
    for (const call of this.#tools.values()) call.abandoned();
    this.#tools.clear();
    const text = TURN_ENDS[reason] ?? "Turn ended: " + oneLine(reason);
    this.#pane.add(el("div", { class: "mark turn-end " + (reason === "end_turn" ? "" : "odd"), "data-reason": oneLine(reason) }, text));
    if (this.#isNews) announce(text + ". " + oneLine(this.#lastText));
  }

  #error({ code, message, hint, details }) {
    this.#close();
    this.#lastError = message;
    const more = details && Object.keys(details).length ? lazy("Details", () => pretty(details)) : null;
    this.#pane.add(el("div", { class: "block failure", role: "group", "aria-label": "Error" },
      el("div", { dir: "auto" }, el("strong", {}, sentence(clean(message))), " ", el("code", { class: "quiet" }, clean(code))),
      hint ? el("div", { dir: "auto" }, sentence(clean(hint))) : null, more));
    if (this.#isNews) announce("Error: " + oneLine(message));
    this.#end("error");
  }

  /** stdout lines repeat the structured events and are skipped. stderr appears only as lines. */
  #line({ line, stream }) {
    // After an error, its message and the end of stderr follow as lines, until the end of the turn.
    if (line.startsWith("── turn-end")) this.#skipErrorLines = false;
    if (stream !== "stderr" || this.#skipErrorLines) return;
    if (!this.#stderr || this.#stderr.count >= GROUP_LINES || this.#stderr.chars >= GROUP_CHARS) {
      this.#close();
      const count = el("span", { class: "preview" });
      const body = el("pre", { class: "lines" });
      const node = el("details", { class: "block stderr" }, el("summary", {}, el("span", { class: "kind" }, "stderr"), count), body);
      this.#pane.add(node, GROUP_CHARS);
      this.#stderr = { count: 0, chars: 0, label: count, body };
    }
    const group = this.#stderr;
    group.count += 1;
    const text = bounded(clean(line), GROUP_CHARS);
    group.chars += text.length;
    group.body.append(text + "\n");
    group.label.textContent = (group.count > 1 ? `${group.count} lines, last: ` : "") + text.slice(0, 160);
  }

  #status(data) {
    if (this.#turn && data.busy === false) this.#end(ENDED.has(data.status) ? "gone" : "over");
    if (!ENDED.has(data.status)) return;
    this.#close();
    // The reason is already shown if it is the turn's error.
    const reason = data.reason === this.#lastError ? undefined : data.reason;
    this.#pane.add(el("div", { class: "mark ended " + data.status }, endText({ ...data, reason })));
  }

  #gap(data) {
    this.#close();
    // Tool calls and questions may have ended in the missing part.
    this.#tools.clear();
    this.#pane.add(el("div", { class: "mark gap" }, gapText(data)));
  }
}

const TURN_ENDS = {
  end_turn: "Turn ended",
  max_tokens: "Turn ended: token limit reached",
  max_turn_requests: "Turn ended: request limit reached",
  refusal: "Turn ended: the agent refused",
  cancelled: "Turn interrupted",
  error: "Turn ended with an error",
  gone: "Turn ended with the session",
  over: "Turn ended",
};

/** Splits a text into parts of a limited size. */
function* pieces(text) {
  for (let at = 0; at < text.length; at += PIECE_CHARS) yield text.slice(at, at + PIECE_CHARS);
}

/** A section whose content is created when it is opened. */
function lazy(title, content, props) {
  const node = el("details", props || { class: "more" }, el("summary", {}, title));
  node.addEventListener("toggle", () => {
    if (node.open && node.childElementCount === 1) {
      node.append(el("pre", { class: "code", dir: "auto" }, bounded(content(), MAX_SHOWN)));
    }
  });
  return node;
}

/** Calls `done` now, or as soon as no text in `node` is selected. */
function whenNotSelected(node, done) {
  const isSelected = () => {
    const selection = document.getSelection();
    return Boolean(selection && !selection.isCollapsed && selection.rangeCount && selection.getRangeAt(0).intersectsNode(node));
  };
  if (!isSelected()) {
    done();
    return;
  }
  const check = () => {
    if (isSelected()) return;
    document.removeEventListener("selectionchange", check);
    done();
  };
  document.addEventListener("selectionchange", check);
}

/** An answer in words: the label of an option, or the content of a form. */
function answerText(answer, labels) {
  if (typeof answer === "string") return oneLine(labels?.get(answer) ?? answer);
  if (answer.cancelled || answer.declined) return "canceled";
  if (answer.content === true) return "form sent";
  if (typeof answer.option === "string") return oneLine(answer.label ?? labels?.get(answer.option) ?? answer.option);
  return oneLine(pretty(answer.content ?? answer));
}

const PLAN_STATES = { completed: ["☑", "done"], in_progress: ["▸", "in progress"], pending: ["☐", "open"] };

/** A plan as a checklist. */
function planView(entries) {
  const shown = entries.slice(0, 200).filter(entry => entry && typeof entry === "object");
  const items = shown.map(({ content, status, priority }) => {
    const [sign, name] = PLAN_STATES[status] ?? PLAN_STATES.pending;
    return el("li", { class: "step " + name.replace(" ", "-") },
      el("span", { class: "box", role: "img", "aria-label": name }, sign),
      el("span", { dir: "auto" }, bounded(oneLine(content), 500)),
      priority === "high" ? el("span", { class: "kind" }, "high priority") : null);
  });
  return [el("h3", {}, "Plan ", el("span", { class: "quiet" }, planText(entries))), el("ol", {}, ...items)];
}

function planText(entries) {
  const isDone = entry => entry?.status === "completed";
  return `${entries.filter(isDone).length} of ${entries.length} done`;
}

/** The parts of a tool call, for the transcript and for questions: differences, arguments, result. */
function toolParts(args, content) {
  const diffs = [...diffsIn(args), ...diffsIn(content)].slice(0, MAX_DIFFS);
  const part = (title, text) => [el("h3", {}, title), codeText(bounded(text, MAX_SHOWN))];
  const parts = [];
  if (diffs.length) parts.push(el("h3", {}, "Changes"), ...diffs.map(diffView));
  if (args !== null && args !== undefined) {
    const text = () => pretty(args);
    if (diffsIn(args).length) parts.push(lazy("Arguments", text));
    else parts.push(...part("Arguments", text()));
  }
  const rest = withoutDiffs(content);
  const result = rest === undefined || rest === null ? "" : contentText(rest);
  if (result) parts.push(...part("Result", result));
  return { parts, diffs };
}

/** A block of text in a fixed width, with a button to copy it. */
function codeText(text) {
  return el("div", { class: "copyable" }, el("pre", { class: "code", dir: "auto" }, text), copyButton("Copy", () => text));
}

class ToolCall {
  #node;
  #mark = el("span", { class: "state", role: "img", "aria-label": "running" });
  #name = el("span", { class: "name", dir: "auto" });
  #kind = el("span", { class: "kind" });
  #preview = el("span", { class: "preview", dir: "auto" });
  #body = el("div", { class: "parts" });
  #args;
  #content;
  #wasOpened = false;
  isDone = false;

  constructor(pane, name, kind, args) {
    const summary = el("summary", {}, this.#mark, this.#name, this.#kind, this.#preview);
    this.#node = el("details", { class: "block tool running" }, summary, this.#body);
    this.#node.addEventListener("toggle", () => this.#fill());
    this.rename(name, kind, args);
    pane.add(this.#node);
  }

  rename(name, kind, args) {
    this.#name.textContent = oneLine(name) || "A tool";
    this.#kind.textContent = oneLine(kind ?? "");
    this.#args = args;
    this.#count();
    this.#fill();
  }

  done(ok, content) {
    this.isDone = true;
    this.#content = content;
    this.#state(ok ? "ok" : "failed", ok ? "done" : "failed");
    const rest = withoutDiffs(content);
    this.#preview.textContent = rest === null || rest === undefined ? "" : oneLine(contentText(rest)).slice(0, 160);
    this.#count();
    this.#fill();
  }

  /** Shows how many lines changed, and opens a small difference. */
  #count() {
    const diffs = [...diffsIn(this.#args), ...diffsIn(this.#content)];
    if (!diffs.length) return;
    const sums = diffs.map(difference).reduce((sum, one) => ({ added: sum.added + one.added, removed: sum.removed + one.removed }));
    this.#preview.textContent = countText(sums);
    if (sums.added + sums.removed <= SMALL_DIFF && !this.#wasOpened) this.#node.open = true;
    this.#wasOpened = true;
  }

  /** Called if the turn ended without a result. */
  abandoned() {
    this.#state("none", "no result");
  }

  #state(name, label) {
    this.#node.className = "block tool " + name;
    this.#mark.setAttribute("aria-label", label);
  }

  #fill() {
    if (!this.#node?.open) return;
    const { parts } = toolParts(this.#args, this.isDone ? this.#content : null);
    if (!parts.length) parts.push(el("p", { class: "quiet" }, this.isDone ? "No arguments, no result." : "No arguments."));
    this.#body.replaceChildren(...parts);
  }
}
