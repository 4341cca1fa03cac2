// Searches in the transcript that is loaded. Found text is marked without changing the page.

/** Maximum number of matches. */
const MAX_FOUND = 2000;
/** Delay of the search after a change of the text or of the transcript, in milliseconds. */
const FIND_DELAY = 150;

const find = {
  found: [],
  at: -1,
  timer: 0,

  begin() {
    this.observer = new MutationObserver(() => this.soon());
    $("find-input").addEventListener("input", () => {
      this.at = -1;
      this.soon();
    });
    $("find-input").addEventListener("keydown", event => {
      if (event.key !== "Enter" || event.isComposing) return;
      event.preventDefault();
      if (this.timer) this.search();
      this.move(event.shiftKey ? -1 : 1);
    });
    $("find-next").addEventListener("click", () => this.move(1));
    $("find-before").addEventListener("click", () => this.move(-1));
    $("find-close").addEventListener("click", () => this.close());
    $("find-all").addEventListener("click", () => detail.fromStart());
  },

  open() {
    show($("find"), true);
    $("find-open").setAttribute("aria-expanded", "true");
    $("find-input").focus();
    $("find-input").select();
    this.observer.observe($("transcript"), { childList: true, subtree: true, characterData: true });
    this.search();
  },

  close() {
    if ($("find").hidden) return;
    const hadFocus = $("find").contains(document.activeElement);
    show($("find"), false);
    $("find-open").setAttribute("aria-expanded", "false");
    this.observer.disconnect();
    clearTimeout(this.timer);
    this.found = [];
    this.at = -1;
    this.mark();
    if (hadFocus) $("transcript").focus({ preventScroll: true });
  },

  soon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.search(), FIND_DELAY);
  },

  search() {
    clearTimeout(this.timer);
    this.timer = 0;
    const wanted = $("find-input").value.toLowerCase();
    const current = this.found[this.at];
    this.found = [];
    if (wanted) {
      for (const block of $("transcript").children) {
        if (this.found.length >= MAX_FOUND) break;
        this.inBlock(block, wanted);
      }
    }
    if (current) this.at = this.found.findIndex(range => range.startContainer === current.startContainer && range.startOffset === current.startOffset);
    show($("find-more"), Boolean($("transcript").querySelector(":scope > .earlier button")));
    this.mark();
  },

  /** Finds text that may continue over several elements of a block. */
  inBlock(block, wanted) {
    const nodes = [];
    const starts = [];
    let text = "";
    const walker = document.createTreeWalker(block, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      if (node.parentElement.closest("[hidden], .asked.open, .thought .preview, .stderr .preview")) continue;
      nodes.push(node);
      starts.push(text.length);
      text += node.data;
    }
    const lower = text.toLowerCase();
    // In a few languages, the lower case has another length. Then only the same case is found.
    const where = lower.length === text.length ? lower : text;
    let node = 0;
    const place = offset => {
      while (node + 1 < nodes.length && starts[node + 1] <= offset) node += 1;
      return [nodes[node], offset - starts[node]];
    };
    for (let at = where.indexOf(wanted); at >= 0 && this.found.length < MAX_FOUND; at = where.indexOf(wanted, at + wanted.length)) {
      const range = new Range();
      range.setStart(...place(at));
      const [last, offset] = place(at + wanted.length - 1);
      range.setEnd(last, offset + 1);
      this.found.push(range);
    }
  },

  move(step) {
    if (!this.found.length) {
      announce("Nothing found");
      return;
    }
    const from = this.at < 0 && step < 0 ? 0 : this.at;
    this.at = (from + step + this.found.length) % this.found.length;
    const range = this.found[this.at];
    for (let node = range.startContainer.parentElement; node && node !== $("transcript"); node = node.parentElement) {
      if (node.localName === "details") node.open = true;
    }
    range.startContainer.parentElement.scrollIntoView({ block: "center" });
    this.mark();
    announce($("find-count").textContent);
  },

  mark() {
    const count = this.found.length;
    const many = count >= MAX_FOUND ? "more than " + count : String(count);
    setText($("find-count"), !$("find-input").value ? "" : !count ? "Nothing found" : this.at < 0 ? plural(count, "match", "matches") : `${this.at + 1} of ${many}`);
    for (const id of ["find-next", "find-before"]) $(id).disabled = !count;
    // Without this interface of the browser, the current match is selected instead.
    if (globalThis.Highlight && CSS.highlights) {
      CSS.highlights.set("found", new Highlight(...this.found));
      CSS.highlights.set("current", new Highlight(...(this.at >= 0 ? [this.found[this.at]] : [])));
    } else if (this.at >= 0) {
      const selection = document.getSelection();
      selection.removeAllRanges();
      selection.addRange(this.found[this.at]);
    }
  },
};
