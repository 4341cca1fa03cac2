// Shows the text of a message as it streams in: paragraphs, headings and code. Renders a small part
// of Markdown, line by line. Everything else is shown as written.

/** Limits of one piece, so that no element grows without bound. */
const PIECE_LINES = 40;
const PIECE_CHARS = 4096;
const INLINE = /(`[^`\n]+`|\*\*[^*\n]+\*\*)/;

class Prose {
  #root;
  #made;
  #cleaner = new Cleaner();
  #open = "";
  #tail = document.createTextNode("");
  #piece = null;
  #kind = "";
  #lines = 0;
  #chars = 0;
  #fence = "";
  /** The whole text, or null if it is too long to be shown as Markdown. */
  #whole = "";

  /** `made(piece)` is called for every new piece, to limit their number. */
  constructor(root, made) {
    this.#root = root;
    this.#made = made;
  }

  /** The text as the agent wrote it, if it is not too long. */
  get whole() {
    return this.#whole;
  }

  take(text) {
    this.#add(this.#cleaner.take(text));
  }

  /** Called when the message is complete. */
  end() {
    this.#add(this.#cleaner.rest());
    if (this.#open) this.#line(this.#open, "");
    this.#open = "";
    this.#tail.remove();
  }

  #add(text) {
    if (this.#whole !== null) this.#whole = this.#whole.length + text.length > MAX_MARKDOWN ? null : this.#whole + text;
    const lines = (this.#open + text).split("\n");
    this.#open = lines.pop();
    for (const line of lines) this.#line(line, "\n");
    while (this.#open.length > PIECE_CHARS) {
      this.#line(this.#open.slice(0, PIECE_CHARS), "");
      this.#open = this.#open.slice(PIECE_CHARS);
    }
    if (this.#open) {
      // An incomplete line is shown as plain text, and is formatted when it is complete.
      this.#into(this.#fence ? "code" : "text").append(this.#tail);
      this.#tail.data = this.#open;
    } else {
      this.#tail.remove();
    }
  }

  #line(line, end) {
    this.#tail.remove();
    const fence = /^\s{0,3}(```+|~~~+)/.exec(line);
    if (this.#fence) {
      if (fence && fence[1].startsWith(this.#fence)) {
        this.#fence = "";
        this.#piece = null;
      } else {
        this.#put(this.#into("code"), document.createTextNode(line + end), line.length);
      }
      return;
    }
    if (fence) {
      this.#fence = fence[1];
      this.#piece = null;
      return;
    }
    if (!line.trim()) {
      this.#piece = null;
      return;
    }
    const heading = /^#{1,6}\s+(.*)$/.exec(line);
    if (heading) {
      this.#piece = null;
      this.#put(this.#into("heading"), inline(heading[1]), line.length);
      this.#piece = null;
      return;
    }
    this.#put(this.#into("text"), inline(line + end), line.length);
  }

  #put(piece, content, chars) {
    piece.append(content);
    this.#lines += 1;
    this.#chars += chars;
  }

  #into(kind) {
    const full = this.#lines >= PIECE_LINES || this.#chars >= PIECE_CHARS;
    if (this.#piece && this.#kind === kind && !full && this.#piece.isConnected) return this.#piece;
    const joins = this.#piece && this.#kind === kind;
    this.#piece = el(kind === "code" ? "pre" : "div", { class: kind + (joins ? " joins" : ""), dir: "auto" });
    this.#kind = kind;
    this.#lines = 0;
    this.#chars = 0;
    this.#root.append(this.#piece);
    this.#made(this.#piece);
    return this.#piece;
  }
}

function inline(text) {
  const whole = document.createDocumentFragment();
  for (const part of text.split(INLINE)) {
    if (part.length > 2 && part.startsWith("`") && part.endsWith("`")) whole.append(el("code", {}, part.slice(1, -1)));
    else if (part.length > 4 && part.startsWith("**")) whole.append(el("strong", {}, part.slice(2, -2)));
    else if (part) whole.append(part);
  }
  return whole;
}
