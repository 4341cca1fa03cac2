// Differences between two texts, line by line, with a few lines of context.

/** Limits of one difference: characters of each text, edits that are searched for, rows shown. */
const DIFF_CHARS = 1 << 20;
const DIFF_EDITS = 1000;
const DIFF_ROWS = 1000;
const DIFF_CONTEXT = 3;
/** Maximum number of differences of one tool call, and of levels in which they are looked for. */
const MAX_DIFFS = 20;
const DIFF_LEVELS = 5;

/**
 * All differences in a value, in the forms that agents use: `path`, `oldText` and `newText` of ACP,
 * and `file_path`, `old_string` and `new_string` of tools that edit files.
 */
function diffsIn(value, found = [], level = 0) {
  if (!value || typeof value !== "object" || level > DIFF_LEVELS || found.length >= MAX_DIFFS) return found;
  if (Array.isArray(value)) {
    for (const item of value.slice(0, 200)) diffsIn(item, found, level + 1);
    return found;
  }
  const text = name => (typeof value[name] === "string" ? value[name] : undefined);
  const path = text("path") ?? text("file_path") ?? text("filePath");
  if (value.type === "diff" && text("newText") !== undefined) {
    found.push({ path: path ?? "", before: text("oldText") ?? "", after: value.newText, isNew: text("oldText") === undefined });
  } else if (path !== undefined && text("old_string") !== undefined && text("new_string") !== undefined) {
    found.push({ path, before: value.old_string, after: value.new_string });
  } else {
    for (const name of ["content", "edits", "changes"]) {
      const inner = value[name];
      if (Array.isArray(inner)) diffsIn(inner.map(one => (one && typeof one === "object" ? { path, ...one } : one)), found, level + 1);
      else diffsIn(inner, found, level + 1);
    }
  }
  return found;
}

/** The same value without its differences, which are shown separately. */
function withoutDiffs(value) {
  if (!Array.isArray(value)) return diffsIn(value).length ? null : value;
  return value.filter(item => !diffsIn(item).length);
}

/** Lines of a text. A line break at the end does not start another line. */
function linesOf(text) {
  if (!text) return [];
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

/**
 * The edits from one list of lines to another: triples of mark (" ", "-" or "+"), old and new line
 * number. Myers' algorithm, which finds the smallest number of edits. Above a limit, all lines in
 * question count as replaced.
 */
function lineEdits(before, after) {
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start += 1;
  let [endA, endB] = [before.length, after.length];
  while (endA > start && endB > start && before[endA - 1] === after[endB - 1]) {
    endA -= 1;
    endB -= 1;
  }
  const edits = [];
  for (let n = 0; n < start; n++) edits.push([" ", n, n]);
  edits.push(...shortest(before, after, start, endA, endB) ?? replaced(start, endA, endB));
  for (let n = 0; endA + n < before.length; n++) edits.push([" ", endA + n, endB + n]);
  return edits;
}

function replaced(start, endA, endB) {
  const edits = [];
  for (let a = start; a < endA; a++) edits.push(["-", a, start]);
  for (let b = start; b < endB; b++) edits.push(["+", endA, b]);
  return edits;
}

function shortest(before, after, start, endA, endB) {
  const [n, m] = [endA - start, endB - start];
  if (!n || !m) return null;
  const max = Math.min(n + m, DIFF_EDITS);
  const reach = new Int32Array(2 * max + 3);
  const trace = [];
  for (let d = 0; d <= max; d++) {
    trace.push(reach.slice(max - d, max + d + 3));
    for (let k = -d; k <= d; k += 2) {
      const isDown = k === -d || (k !== d && reach[max + k] < reach[max + k + 2]);
      let a = isDown ? reach[max + k + 2] : reach[max + k] + 1;
      let b = a - k;
      while (a < n && b < m && before[start + a] === after[start + b]) {
        a += 1;
        b += 1;
      }
      reach[max + k + 1] = a;
      if (a >= n && b >= m) return editPath(trace, d, n, m, start);
    }
  }
  return null;
}

/** Walks back from the end through what each round of `shortest` has reached. */
function editPath(trace, rounds, n, m, start) {
  const edits = [];
  let [a, b] = [n, m];
  for (let d = rounds; d > 0; d--) {
    const known = trace[d];
    // Index of diagonal k in the copy of round d.
    const at = k => known[k + d + 1];
    const k = a - b;
    const isDown = k === -d || (k !== d && at(k - 1) < at(k + 1));
    const beforeK = isDown ? k + 1 : k - 1;
    const beforeA = at(beforeK);
    const beforeB = beforeA - beforeK;
    while (a > beforeA && b > beforeB) {
      a -= 1;
      b -= 1;
      edits.push([" ", start + a, start + b]);
    }
    if (isDown) {
      b -= 1;
      edits.push(["+", start + a, start + b]);
    } else {
      a -= 1;
      edits.push(["-", start + a, start + b]);
    }
  }
  while (a > 0 && b > 0) {
    a -= 1;
    b -= 1;
    edits.push([" ", start + a, start + b]);
  }
  return edits.reverse();
}

/** A computed difference: rows to show, and the number of added and removed lines. */
function difference({ before, after }) {
  const isCut = before.length > DIFF_CHARS || after.length > DIFF_CHARS;
  const [old, now] = [before, after].map(text => linesOf(clean(text.slice(0, DIFF_CHARS))));
  const edits = lineEdits(old, now);
  let [added, removed] = [0, 0];
  for (const [mark] of edits) {
    if (mark === "+") added += 1;
    if (mark === "-") removed += 1;
  }
  return { old, now, edits, added, removed, isCut };
}

/** Ranges of edits that contain changes and their context. */
function hunks(edits) {
  const ranges = [];
  edits.forEach(([mark], at) => {
    if (mark === " ") return;
    const last = ranges.at(-1);
    if (last && at - DIFF_CONTEXT <= last[1]) last[1] = Math.min(edits.length, at + DIFF_CONTEXT + 1);
    else ranges.push([Math.max(0, at - DIFF_CONTEXT), Math.min(edits.length, at + DIFF_CONTEXT + 1)]);
  });
  return ranges;
}

/** Marks what differs in a line that replaces another: everything between equal ends. */
function partOf(line, other, mark) {
  if (other === undefined) return [line];
  let start = 0;
  while (start < line.length && start < other.length && line[start] === other[start]) start += 1;
  let end = 0;
  while (end < line.length - start && end < other.length - start && line[line.length - 1 - end] === other[other.length - 1 - end]) end += 1;
  const changed = line.slice(start, line.length - end);
  // A mark over nearly the whole line says nothing.
  if (!changed || start + end < line.length / 4) return [line];
  return [line.slice(0, start), el(mark === "+" ? "ins" : "del", {}, changed), line.slice(line.length - end)];
}

const countText = ({ added, removed }) => `+${added} −${removed}`;

/** A difference as an element. The marks are text, so that color is not needed. */
function diffView(one) {
  const result = difference(one);
  const { old, now, edits, added, removed } = result;
  const body = el("div", { class: "diff-lines", role: "group", tabIndex: 0, "aria-label": "Changed lines" });
  let rows = 0;
  const isFull = () => rows >= DIFF_ROWS;
  for (const [from, to] of hunks(edits)) {
    if (isFull()) break;
    const [, a, b] = edits[from];
    body.append(el("div", { class: "d-hunk" }, `@@ line ${b + 1}${a === b ? "" : `, before ${a + 1}`} @@`));
    const part = edits.slice(from, to);
    for (let at = 0; at < part.length && !isFull(); at++) {
      const [mark, oldAt, newAt] = part[at];
      rows += 1;
      const line = mark === "+" ? now[newAt] : old[oldAt];
      body.append(el("div", { class: "d-row " + { " ": "same", "-": "removed", "+": "added" }[mark], "data-n": String((mark === "-" ? oldAt : newAt) + 1) },
        mark + " ", ...(line.length > 2000 ? [bounded(line, 2000)] : partOf(line, partner(part, at, old, now), mark))));
    }
  }
  if (isFull()) body.append(el("div", { class: "d-hunk" }, "… more changes are not shown"));
  if (!rows) body.append(el("div", { class: "d-hunk" }, "No lines differ."));
  if (result.isCut) body.append(el("div", { class: "d-hunk" }, "Only the beginning of this file is compared, because it is large."));
  const what = `${oneLine(one.path) || "a text"}: ${plural(added, "line")} added, ${removed} removed`;
  return el("figure", { class: "diff", "aria-label": what },
    el("figcaption", {}, el("bdi", { class: "path" }, oneLine(one.path)), one.isNew ? el("span", { class: "quiet" }, "new file") : null,
      el("span", { class: "counts" }, el("span", { class: "plus" }, "+" + added), " ", el("span", { class: "minus" }, "−" + removed)),
      copyButton("Copy the new text", () => one.after)),
    body);
}

/** The line that a changed line replaces, or that replaces it: at the same place of its run. */
function partner(part, at, old, now) {
  const [mark] = part[at];
  if (mark === " ") return undefined;
  let first = at;
  while (first > 0 && part[first - 1][0] === mark) first -= 1;
  let end = at;
  while (end < part.length && part[end][0] === mark) end += 1;
  const size = end - first;
  const otherMark = mark === "+" ? "-" : "+";
  const from = mark === "+" ? first - size : end;
  const run = part.slice(Math.max(0, from), Math.max(0, from + size));
  if (run.length !== size || run.some(([other]) => other !== otherMark)) return undefined;
  const [, oldAt, newAt] = run[at - first];
  return mark === "+" ? old[oldAt] : now[newAt];
}
