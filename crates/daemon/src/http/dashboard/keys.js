// Single-key shortcuts. They are inactive while the user types, and they can be disabled, because
// speech input and tremor cause unintended key presses.

/**
 * Milliseconds to ignore keys after the prompt was disabled, because the user may still be typing.
 */
const IGNORE_MS = 1500;

const keys = {
  on: storage.get("localStorage", "keys") !== "off",
  ignoreUntil: 0,

  begin() {
    document.addEventListener("keydown", event => this.pressed(event));
  },

  set(on) {
    this.on = on;
    storage.set("localStorage", "keys", on ? "" : "off");
  },

  /** Called when the prompt is disabled while the user types. */
  ignoreKeys() {
    this.ignoreUntil = Date.now() + IGNORE_MS;
  },

  pressed(event) {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if ($("app").hidden || document.querySelector("dialog[open]")) return;
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
      } else {
        (list.rows.get(detail.id) ?? $("transcript")).focus({ preventScroll: true });
      }
    };
  },

  chosen(event) {
    const { key } = event;
    if (key === "Escape") {
      return () => questions.cancel() || detail.interrupt();
    }
    const inTranscript = document.activeElement === $("transcript");
    if ((key === "ArrowDown" || key === "ArrowUp") && !inTranscript) return () => list.move(key === "ArrowDown" ? 1 : -1);
    if (key === "Enter") {
      const onRow = document.activeElement?.dataset?.id === detail.id && detail.id;
      const nowhere = document.activeElement === document.body || inTranscript;
      return (onRow || nowhere) && !$("prompt").disabled && detail.id ? () => $("prompt").focus() : null;
    }
    if (!this.on || Date.now() < this.ignoreUntil) return null;
    if (/^[1-9]$/.test(key) && questions.open.length) return () => questions.choose(Number(key));
    return {
      j: () => list.move(1),
      k: () => list.move(-1),
      "/": () => $("filter").focus(),
      n: () => newSession.open(),
      i: () => detail.interrupt(),
      t: () => detail.id && detail.look(detail.view === "talk" ? "raw" : "talk"),
      G: () => detail.pane.toEnd(),
      "?": () => help.open(),
    }[key];
  },
};
