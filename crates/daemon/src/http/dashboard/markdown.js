// Shows finished messages as Markdown. The daemon parses it to a tree of known elements, because a
// parser in the page would have to be written again. Text is only ever added as text.

/** Limits of one request: texts, and characters of all texts. The daemon has larger ones. */
const BATCH_TEXTS = 32;
const BATCH_CHARS = 512 * 1024;
/** Maximum number of characters of a message that is shown as Markdown. The daemon counts bytes. */
const MAX_MARKDOWN = 80 * 1024;
/** Maximum number of characters of all texts whose trees are kept. */
const KEPT_CHARS = 1 << 20;
/** Texts without any of this look the same without Markdown. */
const LOOKS_MARKED = /[*_~`|<[\]\\&]|^\s{0,3}(?:#{1,6}\s|>|[-+]\s|\d{1,9}[.)]\s|-{3,}|={3,})|https?:\/\/|^(?: {4}|\t)/m;

const TAGS = new Set("p h1 h2 h3 h4 h5 h6 blockquote pre ul ol li table thead tr th td em strong del code a br hr".split(" "));
const SAFE_ADDRESS = /^(?:https?:\/\/|mailto:)[^\s\u0000-\u001f]+$/i;

const markdown = {
  waiting: [],
  kept: new Map(),
  keptChars: 0,
  timer: 0,
  isOff: false,
  isBusy: false,

  /** Calls `done(nodes, count)` when a text is parsed, unless `isWanted()` is false by then. */
  parse(text, isWanted, done) {
    if (this.isOff || text.length > MAX_MARKDOWN || !LOOKS_MARKED.test(text)) return;
    this.waiting.push({ text, isWanted, done });
    if (!this.timer) this.timer = setTimeout(() => this.flush(), 20);
  },

  async flush() {
    this.timer = 0;
    if (this.isBusy) return;
    const batch = [];
    let chars = 0;
    while (this.waiting.length && batch.length < BATCH_TEXTS && chars < BATCH_CHARS) {
      // The newest first, because the older ones may be removed meanwhile.
      const next = this.waiting.pop();
      if (!next.isWanted()) continue;
      const known = this.kept.get(next.text);
      if (known) this.finish(next, known);
      else {
        batch.push(next);
        chars += next.text.length;
      }
    }
    if (!batch.length) return;
    this.isBusy = true;
    try {
      const { trees } = await api.ask("POST", "/markdown", { texts: batch.map(({ text }) => text) });
      trees.forEach((tree, at) => {
        if (!tree) return;
        this.keep(batch[at].text, tree);
        this.finish(batch[at], tree);
      });
    } catch (error) {
      // The text is already readable. A daemon of an older version does not know this route.
      if (error.status === 404 || error.status === 405) this.isOff = true;
      else if (!(error instanceof ApiError) && !(error instanceof Unreachable)) throw error;
    } finally {
      this.isBusy = false;
      if (this.waiting.length) this.timer = setTimeout(() => this.flush(), 0);
    }
  },

  finish({ isWanted, done }, tree) {
    if (!isWanted()) return;
    const counter = { count: 0 };
    done(treeNodes(tree, counter), counter.count);
  },

  keep(text, tree) {
    this.kept.set(text, tree);
    this.keptChars += text.length;
    for (const old of this.kept.keys()) {
      if (this.keptChars <= KEPT_CHARS) break;
      this.kept.delete(old);
      this.keptChars -= old.length;
    }
  },
};

/** Nodes for a list of trees. Everything unknown is left out, but its text is kept. */
function treeNodes(children, counter, depth = 0) {
  const nodes = [];
  if (depth > 40) return nodes;
  for (const child of Array.isArray(children) ? children : []) {
    counter.count += 1;
    if (typeof child === "string") nodes.push(clean(child));
    else if (child && TAGS.has(child.tag)) nodes.push(treeNode(child, counter, depth));
    else nodes.push(...treeNodes(child?.children, counter, depth + 1));
  }
  return nodes;
}

function treeNode({ tag, children, href, lang, start, align, checked }, counter, depth) {
  if (tag === "pre") return codeBlock((children ?? []).filter(child => typeof child === "string").map(clean).join(""), lang);
  const inner = treeNodes(children, counter, depth + 1);
  if (tag === "a") {
    if (!SAFE_ADDRESS.test(href ?? "")) return el("span", {}, ...inner);
    return el("a", { href, target: "_blank", rel: "noopener noreferrer", title: clean(href), dir: "auto" }, ...(inner.length ? inner : [clean(href)]));
  }
  // The headings of a message are below those of the page.
  if (/^h[1-6]$/.test(tag)) return el("div", { class: "heading " + tag, role: "heading", "aria-level": String(Math.min(6, Number(tag[1]) + 2)), dir: "auto" }, ...inner);
  if (tag === "table") return el("div", { class: "table", tabIndex: 0, role: "group", "aria-label": "Table" }, el("table", {}, ...inner));
  if (tag === "li" && typeof checked === "boolean") {
    return el("li", { class: "task" }, el("span", { class: "box", role: "img", "aria-label": checked ? "done" : "open" }, checked ? "☑" : "☐"), ...inner);
  }
  const node = el(tag, { dir: tag === "p" || tag === "li" || tag === "td" || tag === "th" ? "auto" : null, scope: tag === "th" ? "col" : null }, ...inner);
  if (tag === "ol" && Number.isSafeInteger(start)) node.start = start;
  if (["left", "center", "right"].includes(align)) node.classList.add("to-" + align);
  return node;
}

function codeBlock(code, lang) {
  const text = code.endsWith("\n") ? code.slice(0, -1) : code;
  return el("figure", { class: "codeblock" },
    el("figcaption", {}, el("span", {}, oneLine(lang ?? "")), copyButton("Copy the code", () => text)),
    el("pre", { class: "code", dir: "auto" }, highlighted(text, lang ?? "")));
}
