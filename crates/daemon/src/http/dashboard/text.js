// Cleans untrusted text of agents. Removes or replaces what could mislead a reader: terminal escape
// sequences, control characters, and characters that change the text direction.

const ESCAPES = new RegExp(
  "\\x1b(?:\\[[0-?]*[ -/]*[@-~]" + // CSI: colors, cursor
  "|\\][^\\x07\\x1b]*(?:\\x07|\\x1b\\\\)" + // OSC: titles, links
  "|[PX^_][^\\x1b]*\\x1b\\\\" + // DCS, SOS, PM, APC
  "|[ -/]*[0-Z\\\\^-~])" + // two-character sequences
  "|\\x9b[0-?]*[ -/]*[@-~]", "g");
/** The start of an escape sequence whose rest may still arrive. */
const OPEN_ESCAPE = /\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]{0,2000}\x1b?|[PX^_][^\x1b]{0,2000}\x1b?)?$/;
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;
const TURNING = /[\u202a-\u202e\u2066-\u2069]/g;

const visible = char => {
  const code = char.charCodeAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  return code === 0x7f ? "\u2421" : "\ufffd";
};
const named = char => "⟨U+" + char.charCodeAt(0).toString(16).toUpperCase() + "⟩";

/** Cleans a complete text. */
function clean(value) {
  const text = typeof value === "string" ? value : String(value ?? "");
  return text
    .replace(ESCAPES, "")
    .replace(/\r\n?/g, "\n")
    .replace(CONTROLS, visible)
    .replace(TURNING, named);
}

const oneLine = value => clean(value).replace(/\s*\n\s*/g, " ");

/** Cleans a text that arrives in pieces. An escape sequence may be split between two pieces. */
class Cleaner {
  #held = "";

  take(piece) {
    let text = this.#held + (typeof piece === "string" ? piece : String(piece ?? ""));
    this.#held = "";
    const open = OPEN_ESCAPE.exec(text) || /\r$/.exec(text);
    if (open) {
      this.#held = text.slice(open.index);
      text = text.slice(0, open.index);
    }
    return clean(text);
  }

  rest() {
    const text = clean(this.#held);
    this.#held = "";
    return text;
  }
}

/** Formats a value as indented JSON. Strings are shown as they are. */
function pretty(value) {
  if (typeof value === "string") return clean(value);
  try {
    return clean(JSON.stringify(value, null, 2) ?? "");
  } catch {
    return clean(String(value));
  }
}

/** Cuts a long text for display, and appends the number of omitted characters. */
function bounded(text, max) {
  return text.length <= max ? text : text.slice(0, max) + `\n… ${text.length - max} more characters`;
}

/** The text in a tool's content, in any of the shapes that protocols use. */
function contentText(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "string") return clean(value);
  if (Array.isArray(value)) {
    const parts = value.map(contentText).filter(part => part !== "");
    return parts.join("\n");
  }
  if (typeof value.text === "string") return clean(value.text);
  if (value.type === "content" && value.content) return contentText(value.content);
  if (value.type === "diff" && typeof value.path === "string") return clean(value.path);
  return pretty(value);
}
