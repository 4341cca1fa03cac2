// Single-key shortcuts. They are inactive while the user types, and they can be disabled, because
// speech input and tremor cause unintended key presses.

/**
 * Milliseconds to ignore keys after the field in which the user typed has disappeared, because the
 * user may still be typing. Each key starts the time anew.
 */
const IGNORE_MS = 1500;

/** A digit answers only here, because elsewhere it may be meant for a text. */
const mayAnswer = () => $("questions").contains(document.activeElement) || document.activeElement === $("transcript");

const keys = {
  on: storage.get("localStorage", "keys") !== "off",
  /** The field in which the user typed last, and when. */
  field: null,
  typedAt: 0,

  begin() {
    document.addEventListener("keydown", event => this.pressed(event));
  },

  set(on) {
    this.on = on;
    storage.set("localStorage", "keys", on ? "" : "off");
  },

  /** Whether this key belongs to a text whose field has disappeared. */
  isStray() {
    const { field } = this;
    if (!field || Date.now() - this.typedAt > IGNORE_MS) return false;
    if (field.isConnected && !field.disabled && field.checkVisibility()) return false;
    this.typedAt = Date.now();
    return true;
  },

  pressed(event) {
    if (event.defaultPrevented || event.isComposing || $("app").hidden) return;
    if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k") {
      event.preventDefault();
      palette.toggle();
      return;
    }
    // Dialogs and the search disappear because the user closes them.
    if (isWriting() && !document.activeElement.closest("dialog, #find")) {
      this.field = document.activeElement;
      this.typedAt = Date.now();
    }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.querySelector("dialog[open]")) return;
    const action = isWriting() ? this.whileWriting(event) : this.chosen(event);
    if (!action) return;
    event.preventDefault();
    action();
  },

  whileWriting(event) {
    if (event.key !== "Escape") {
      // Move from the filter to the list.
      if (document.activeElement === $("filter") && ["ArrowDown", "Enter"].includes(event.key)) return () => list.move(list.order.includes(detail.id) ? 0 : 1);
      return null;
    }
    return () => {
      const box = document.activeElement;
      if (box === $("filter") && box.value) {
        box.value = "";
        box.dispatchEvent(new Event("input"));
      } else if (box.closest("#find")) {
        find.close();
      } else if (box === $("prompt") && questions.open.length) {
        questions.focus();
      } else {
        this.leave();
      }
    };
  },

  /** Moves the focus out of a field, to the selected row, the transcript or the list. */
  leave() {
    const places = [list.rows.get(detail.id), $("transcript"), list.rows.get(list.order[0]), $("list")];
    places.find(place => place?.checkVisibility())?.focus({ preventScroll: true });
  },

  chosen(event) {
    const { key } = event;
    if (this.isStray() || (event.repeat && !/^Arrow|^[jk]$/.test(key))) return null;
    if (key === "Escape") {
      return () => questions.cancel() || detail.interrupt();
    }
    const inTranscript = document.activeElement === $("transcript");
    if ((key === "ArrowDown" || key === "ArrowUp") && !inTranscript) return () => list.move(key === "ArrowDown" ? 1 : -1);
    if (key === "Enter") {
      const onRow = document.activeElement?.dataset?.id === detail.id && detail.id;
      const nowhere = document.activeElement === document.body || inTranscript;
      return (onRow || nowhere) && detail.id ? () => composer.write() : null;
    }
    if (!this.on) return null;
    if (/^[1-9]$/.test(key)) return questions.open.length && mayAnswer() ? () => questions.choose(Number(key)) : null;
    return {
      j: () => list.move(1),
      k: () => list.move(-1),
      "/": () => $("filter").focus(),
      n: () => newSession.open(),
      i: () => detail.interrupt(),
      b: () => board.toggle(),
      f: () => detail.id && find.open(),
      t: () => detail.id && detail.look(detail.view === "talk" ? "raw" : "talk"),
      G: () => detail.pane.toEnd(),
      "?": () => help.open(),
    }[key];
  },
};
