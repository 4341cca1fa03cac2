// Dialogs: confirmation, a line of text, and help with settings.

/** Asks for confirmation. Resolves to true for yes. */
function confirm(title, text, yes) {
  const dialog = $("ask");
  setText($("ask-title"), title);
  setText($("ask-text"), text);
  setText($("ask-yes"), yes);
  dialog.returnValue = "no";
  dialog.showModal();
  // Focus the safe choice, so that an accidental Enter loses nothing.
  $("ask-no").focus();
  return new Promise(resolve => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

/** Asks for one line of text. Resolves to null if the user cancels. */
function ask(title, label, value) {
  const dialog = $("text");
  setText($("text-title"), title);
  setText($("text-label"), label);
  $("text-input").value = value;
  dialog.returnValue = "no";
  dialog.showModal();
  $("text-input").select();
  return new Promise(resolve => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes" ? $("text-input").value : null), { once: true });
  });
}

const KEYS = [
  ["j k or ↓ ↑", "next, previous session"],
  ["Enter", "write to the selected session; in the prompt: send or queue"],
  ["/", "filter"],
  ["n", "new session"],
  ["Ctrl K", "all actions and sessions"],
  ["b", "board of all live sessions"],
  ["f", "search in the transcript"],
  ["1 … 9", "answer the question, with the focus on it or on the transcript"],
  ["Esc", "leave a field; cancel the question, or interrupt the turn"],
  ["↑", "in an empty prompt: edit the last queued prompt"],
  ["i", "interrupt the turn"],
  ["t", "transcript or raw lines"],
  ["G", "newest output"],
  ["?", "this help"],
];

const help = {
  begin() {
    $("help-keys").append(...KEYS.map(([key, what]) => el("div", {}, el("dt", {}, el("kbd", {}, key)), el("dd", {}, what))));
    $("help-open").addEventListener("click", () => this.open());
    $("keys-on").checked = keys.on;
    $("keys-on").addEventListener("change", () => keys.set($("keys-on").checked));
    $("text-cancel").addEventListener("click", () => $("text").close("no"));
    const theme = storage.get("localStorage", "theme");
    $("theme").value = theme;
    this.paint(theme);
    $("theme").addEventListener("change", () => {
      storage.set("localStorage", "theme", $("theme").value);
      this.paint($("theme").value);
    });
  },

  open() {
    if (!$("help").open) $("help").showModal();
  },

  paint(theme) {
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
  },
};
