// The pane with a session's output. Events are queued and rendered once per animation frame. The
// number of elements is limited, and the oldest are removed first. The pane stays scrolled to its
// end, unless the user has scrolled up.

/**
 * Maximum number of pieces (paragraphs, tool calls, marks) in the page. Long pieces count more than
 * once.
 */
const MAX_PIECES = 1000;
const CHARS_OF_A_PIECE = 4096;
/** Maximum number of queued events. Above it, the stream is paused. */
const MAX_WAITING = 4000;
/** Time budget per animation frame, in milliseconds. */
const BUDGET = 10;

class Transcript {
  #root;
  #onEarlier;
  #queue = [];
  #at = 0;
  #scheduled = false;
  #pieces = [];
  #first = 0;
  /** Total weight of all pieces. */
  #weight = 0;
  #writer = null;
  #pinned = true;
  /** Where the pane was scrolled to when it followed its end. */
  #top = 0;
  #drained = [];
  #begun = false;
  #foot = null;

  constructor(root, onEarlier) {
    this.#root = root;
    this.#onEarlier = onEarlier;
    root.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    $("to-end").addEventListener("click", () => this.toEnd());
    new ResizeObserver(() => this.#settle()).observe(root);
  }

  /** Clears the pane for another session or view. `Writer` converts events to elements. */
  begin(Writer) {
    this.#queue = [];
    this.#at = 0;
    this.#pieces = [];
    this.#first = 0;
    this.#weight = 0;
    this.#begun = false;
    this.#pinned = true;
    this.#foot = null;
    this.#root.replaceChildren();
    this.#writer = new Writer(this);
    this.#release();
    show($("to-end"), false);
  }

  /** `isNews`: whether the event is happening now, as opposed to history. */
  take(event, data, isNews = false) {
    this.#queue.push([event, data, isNews]);
    if (this.#scheduled) return;
    this.#scheduled = true;
    // Hidden pages get no animation frames.
    if (document.hidden) setTimeout(() => this.#flush(), 200);
    else requestAnimationFrame(() => this.#flush());
  }

  /** Resolves when the queue has space. */
  room() {
    if (this.#queue.length - this.#at < MAX_WAITING) return undefined;
    return new Promise(resolve => this.#drained.push(resolve));
  }

  toEnd() {
    this.#pinned = true;
    this.#settle();
  }

  /** Does not scroll to the end, because the content is read from its start. */
  stay() {
    this.#pinned = false;
  }

  /** Shows a node after everything else. Replaces the previous one. */
  foot(node) {
    this.#foot?.remove();
    this.#foot = node;
    this.take("foot", null);
  }

  /** For the writer: adds an element at the end. */
  add(node, chars = 0) {
    this.#root.append(node);
    this.track(node, chars);
    return node;
  }

  /** For the writer: adds a container for pieces. It is removed with its last piece. */
  hold(node) {
    this.#root.append(node);
    return node;
  }

  /** For the writer: counts an element. Longer ones count more. */
  track(node, chars = 0) {
    const piece = { node, weight: 1 + Math.floor(chars / CHARS_OF_A_PIECE) };
    this.#pieces.push(piece);
    this.#weight += piece.weight;
    return piece;
  }

  /** Called with each new plan of the agent. */
  planned = null;

  /**
   * For the writer: replaces the pieces of a message by one node. What the user sees stays in place.
   */
  swap(pieces, node, weight) {
    const [first, ...rest] = pieces;
    const view = this.#root.getBoundingClientRect();
    const blocks = [...this.#root.children];
    const anchor = this.#pinned ? null : blocks.find(block => block.getBoundingClientRect().bottom > view.top && !block.contains(first.node));
    const top = anchor?.getBoundingClientRect().top;
    first.node.parentElement.replaceChildren(node);
    this.#weight += weight - pieces.reduce((sum, piece) => sum + piece.weight, 0);
    first.node = node;
    first.weight = weight;
    for (const piece of rest) Object.assign(piece, { node: null, weight: 0 });
    if (anchor) this.#root.scrollTop += anchor.getBoundingClientRect().top - top;
    this.#trim();
    this.#settle();
  }

  #flush() {
    this.#scheduled = false;
    const until = performance.now() + BUDGET;
    while (this.#at < this.#queue.length) {
      const [event, data, isNews] = this.#queue[this.#at++];
      if (!this.#begun) {
        this.#begun = true;
        // A complete history starts with the status `starting`.
        if (!(event === "status" && data.status === "starting") && event !== "gap") this.#earlier();
      }
      this.#writer.frame(event, data, isNews);
      if ((this.#at & 15) === 0 && performance.now() > until) break;
    }
    // Moved here, because it belongs after everything else.
    if (this.#foot && this.#at >= this.#queue.length) this.#root.append(this.#foot);
    this.#trim();
    this.#settle();
    if (this.#at < this.#queue.length) {
      if (this.#at > MAX_WAITING) {
        this.#queue = this.#queue.slice(this.#at);
        this.#at = 0;
      }
      this.#scheduled = true;
      if (document.hidden) setTimeout(() => this.#flush(), 50);
      else requestAnimationFrame(() => this.#flush());
    } else {
      this.#queue = [];
      this.#at = 0;
    }
    if (this.#queue.length - this.#at < MAX_WAITING / 2) this.#release();
  }

  #release() {
    for (const resolve of this.#drained.splice(0)) resolve();
  }

  #trim() {
    // If the user has scrolled up, more pieces are kept, so that the text does not move.
    const max = this.#pinned ? MAX_PIECES : MAX_PIECES * 2;
    if (this.#weight <= max) return;
    this.#earlier();
    while (this.#weight > max && this.#first < this.#pieces.length - 1) {
      const { node, weight } = this.#pieces[this.#first];
      this.#pieces[this.#first++] = null;
      this.#weight -= weight;
      if (!node) continue;
      const holder = node.parentElement;
      node.remove();
      // Also remove a message whose pieces are all gone, unless it is still being written.
      const block = holder?.closest(".block");
      const isOver = block && block !== this.#root.lastElementChild;
      if (isOver && !block.querySelector(".text, .code, .heading, .line, .md")) block.remove();
    }
    if (this.#first > MAX_PIECES * 4) {
      this.#pieces = this.#pieces.slice(this.#first);
      this.#first = 0;
    }
  }

  #earlier() {
    if (this.#root.firstElementChild?.classList.contains("earlier")) return;
    const button = el("button", { type: "button", class: "plain", onclick: () => this.#onEarlier() }, "Read from the start");
    this.#root.prepend(el("div", { class: "earlier" }, "Earlier output is not shown. ", button));
  }

  #scrolled() {
    const { scrollTop, clientHeight, scrollHeight } = this.#root;
    const isAtEnd = scrollTop + clientHeight >= scrollHeight - 48;
    // Only scrolling up leaves the end. The pane may also have become smaller since the last event.
    this.#pinned = isAtEnd || (this.#pinned && scrollTop >= this.#top);
    show($("to-end"), !this.#pinned);
  }

  #settle() {
    if (this.#pinned) {
      this.#root.scrollTop = this.#root.scrollHeight;
      this.#top = this.#root.scrollTop;
    } else {
      show($("to-end"), true);
    }
  }
}

/** Shows the raw lines, as every client of the protocol gets them. */
class LineWriter {
  #pane;
  #block = null;
  #count = 0;

  constructor(pane) {
    this.#pane = pane;
  }

  frame(event, data) {
    if (event === "line") this.#line(data);
    else if (event === "gap") this.#mark(gapText(data), "gap");
    else if (event === "status" && ENDED.has(data.status)) this.#mark(endText(data), "ended " + data.status);
  }

  #line({ line, stream }) {
    if (!this.#block || this.#count >= 200) {
      this.#block = el("div", { class: "block raw" });
      this.#pane.hold(this.#block);
      this.#count = 0;
    }
    this.#count += 1;
    const node = el("div", { class: "line " + (stream === "stderr" ? "stderr" : kindOfLine(line)), dir: "auto" }, clean(line) || "\u00a0");
    this.#block.append(node);
    this.#pane.track(node, line.length);
  }

  #mark(text, kind) {
    this.#block = null;
    this.#pane.add(el("div", { class: "mark " + kind }, text));
  }
}

/** The kind of a line, from its prefix. */
function kindOfLine(line) {
  const prefix = /^(?:\[(thought|tool|tool-error|awaiting input|error)\]|── (turn-end) )/.exec(line);
  return prefix ? "is-" + (prefix[1] || prefix[2]).replace(" ", "-") : "";
}

const ENDED = new Set(["exited", "killed", "error"]);

function gapText({ missed }) {
  return typeof missed === "number" ? plural(missed, "event") + " were missed here" : "Earlier output is missing here";
}

function endText({ status, exitCode, reason }) {
  const how = { exited: "The agent has exited", killed: "The session was killed", error: "The session ended with an error" }[status];
  const code = typeof exitCode === "number" ? ` (exit code ${exitCode})` : "";
  return how + code + (reason ? ": " + oneLine(reason) : "");
}
