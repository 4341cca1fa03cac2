// Saves the whole history of a session as a file, as Markdown or as JSON.

/** Maximum number of characters of an export, which the page holds in memory. */
const MAX_EXPORT = 200e6;

const exporter = {
  isBusy: false,

  async run(id, format) {
    const record = sessions.all.get(id);
    if (!record || this.isBusy) return;
    this.isBusy = true;
    announce("Exporting");
    setText($("stream-state"), "Exporting …");
    try {
      const name = fileName(record);
      if (format === "json") download(name + ".json", "application/json", await this.json(id, record));
      else download(name + ".md", "text/markdown", await this.markdown(id, record));
      announce("Exported");
    } catch (error) {
      problem($("composer-problem"), error);
    } finally {
      this.isBusy = false;
      setText($("stream-state"), detail.stream ? "Live" : "");
    }
  },

  /** Calls `on` with each page of events. Returns whether that was all. */
  async pages(id, on) {
    let after = "";
    let chars = 0;
    do {
      const page = await api.ask("GET", of(id) + "/events?limit=1000" + (after ? "&after=" + encodeURIComponent(after) : ""));
      chars += on(page.events);
      after = page.next;
    } while (after && chars < MAX_EXPORT);
    return !after;
  },

  async json(id, record) {
    const parts = [`{"session":${JSON.stringify(record)},"events":[`];
    let comma = "";
    const isAll = await this.pages(id, events => {
      const text = events.map(event => JSON.stringify(event)).join(",\n");
      if (text) parts.push(comma + "\n" + text);
      if (text) comma = ",";
      return text.length;
    });
    parts.push(`\n],"complete":${isAll}}\n`);
    return parts;
  },

  async markdown(id, record) {
    const writer = new MarkdownWriter(record);
    const parts = [];
    const isAll = await this.pages(id, events => {
      for (const { event, data } of events) writer.frame(event, data);
      const text = writer.take();
      parts.push(text);
      return text.length;
    });
    parts.push(writer.end(isAll));
    return parts;
  },
};

/** A file name from the name of a session. */
function fileName(record) {
  const name = nameOf(record).replace(/[^\p{L}\p{N}._-]+/gu, "-").replace(/^[-.]+|-+$/g, "").slice(0, 60);
  return (name || "session") + "-" + record.id.slice(-6);
}

/** A text in a fence that is longer than every fence in it. */
function fenced(text, lang = "") {
  const longest = Math.max(2, ...[...text.matchAll(/`{3,}/g)].map(([run]) => run.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}${lang}\n${text.replace(/\n$/, "")}\n${fence}\n`;
}

/** A difference in the usual form of patches. */
function patchText(diff) {
  const { old, now, edits } = difference(diff);
  const lines = ["--- " + oneLine(diff.path), "+++ " + oneLine(diff.path)];
  for (const [from, to] of hunks(edits)) {
    const part = edits.slice(from, to);
    const [, a, b] = part[0];
    const count = mark => part.filter(([is]) => is !== mark).length;
    lines.push(`@@ -${a + 1},${count("+")} +${b + 1},${count("-")} @@`);
    for (const [mark, oldAt, newAt] of part) lines.push(mark + (mark === "+" ? now[newAt] : old[oldAt]));
  }
  return lines.join("\n");
}

class MarkdownWriter {
  #out = [];
  #open = "";
  #cleaner = new Cleaner();

  constructor(record) {
    const facts = [["Adapter", record.adapterSlug], ["Directory", record.cwd], ["Started", record.startedAt], ["Ended", record.endedAt], ["Id", record.id]];
    this.#out.push(`# ${nameOf(record)}\n\n`, ...facts.filter(([, value]) => value).map(([name, value]) => `- ${name}: ${oneLine(value)}\n`));
  }

  frame(event, data) {
    if (event === "prompt") this.#block(`\n## You\n\n${clean(data.prompt)}${data.cut ? " …" : ""}\n`);
    else if (event === "gap") this.#block(`\n*${gapText(data)}*\n`);
    else if (event === "status" && ENDED.has(data.status)) this.#block(`\n*${endText(data)}*\n`);
    else if (event === "event") this.#event(data);
    else if (event === "permission" && data.closed && data.answer) this.#block(`\nAnswer: ${answerText(data.answer)}\n`);
  }

  #event(data) {
    switch (data.type) {
      case "text-delta": return this.#text("text", "\n## Agent\n\n", data.text);
      case "thought":
        if (Array.isArray(data.plan)) return this.#block(`\n**Plan**\n\n${data.plan.map(step => `- [${step?.status === "completed" ? "x" : " "}] ${oneLine(step?.content)}\n`).join("")}`);
        return this.#text("thought", "\n*Thought:*\n\n", data.text);
      case "tool-call": return this.#block(`\n**Tool:** ${oneLine(data.name)}\n\n` + this.#values(data.args));
      case "tool-result": return this.#block(`\n**Result${data.ok ? "" : " (failed)"}:**\n\n` + this.#values(data.content));
      case "agent-prompt": return this.#block(`\n**Question:** ${clean(data.message)}\n${data.decision ? `\nDecided by the host: ${oneLine(data.decision)}\n` : ""}`);
      case "error": return this.#block(`\n**Error:** ${oneLine(data.message)} (${oneLine(data.code)})\n`);
      case "turn-end": return this.#block(`\n*${TURN_ENDS[data.reason] ?? "Turn ended: " + oneLine(data.reason)}*\n\n---\n`);
      default: return undefined;
    }
  }

  #values(value) {
    const diffs = diffsIn(value);
    const rest = diffs.length ? withoutDiffs(value) : value;
    const text = rest === null || rest === undefined ? "" : contentText(rest);
    return diffs.map(diff => fenced(patchText(diff), "diff")).join("\n") + (text ? fenced(text) : "");
  }

  #text(kind, head, text) {
    if (this.#open !== kind) {
      this.#block(head);
      this.#open = kind;
    }
    this.#out.push(this.#cleaner.take(text));
  }

  #block(text) {
    if (this.#open) this.#out.push(this.#cleaner.rest(), "\n");
    this.#open = "";
    this.#out.push(text);
  }

  take() {
    return this.#out.splice(0).join("");
  }

  end(isAll) {
    this.#block(isAll ? "" : "\n*The rest is not exported, because the history is too large.*\n");
    return this.take();
  }
}
