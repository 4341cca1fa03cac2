// Dialogs: confirmation, new session and help.

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

const newSession = {
  begin() {
    $("new-form").addEventListener("submit", event => {
      event.preventDefault();
      this.start();
    });
    $("new-cancel").addEventListener("click", () => $("new").close());
    $("new-prompt").addEventListener("keydown", event => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) $("new-form").requestSubmit();
    });
    for (const id of ["new-open", "nothing-new"]) $(id).addEventListener("click", () => this.open());
  },

  async open() {
    if ($("new").open) return;
    problem($("new-problem"), null);
    $("new").showModal();
    $("new-adapter").focus();
    try {
      const [{ adapters }, registry] = await Promise.all([api.adapters(), api.workspaces()]);
      $("adapters").replaceChildren(...adapters.map(slug => el("option", { value: slug })));
      if (!$("new-adapter").value && adapters.length) {
        $("new-adapter").value = storage.get("localStorage", "adapter") || adapters[0];
        $("new-adapter").select();
      }
      if (!adapters.length) {
        problem($("new-problem"), { message: "No adapter is installed on this host.", hint: "Install one with `agentproto install`" });
      }
      this.workspaces(registry);
    } catch (error) {
      problem($("new-problem"), error);
    }
  },

  workspaces({ workspaces, active }) {
    const select = $("new-workspace");
    const before = select.value;
    const none = el("option", { value: "" }, active ? `${oneLine(active)} (active)` : "none");
    select.replaceChildren(none, ...workspaces.map(({ slug, path }) => el("option", { value: slug, title: oneLine(path) }, oneLine(slug))));
    select.value = workspaces.some(({ slug }) => slug === before) ? before : "";
  },

  request() {
    const request = { adapter: $("new-adapter").value.trim() };
    const fields = [["workspaceSlug", "new-workspace"], ["cwd", "new-cwd"], ["label", "new-label"], ["prompt", "new-prompt"]];
    for (const [name, id] of fields) {
      const value = $(id).value.trim();
      if (value) request[name] = value;
    }
    const options = {};
    for (const line of $("new-options").value.split("\n").map(line => line.trim()).filter(Boolean)) {
      const [, name, value] = /^([^=\s]+)\s*=\s*(.*)$/.exec(line) ?? [];
      if (!name) throw new ApiError(0, { message: `“${line}” is not an option.`, hint: "Write name=value" });
      options[name] = optionValue(value);
    }
    if (Object.keys(options).length) request.options = options;
    return request;
  },

  async start() {
    if (this.isStarting) return;
    this.isStarting = true;
    $("new-start").disabled = true;
    problem($("new-problem"), null);
    try {
      const request = this.request();
      const session = await api.spawn(request);
      storage.set("localStorage", "adapter", request.adapter);
      $("new").close();
      for (const id of ["new-label", "new-prompt"]) $(id).value = "";
      sessions.put(session);
      go(session.id);
      announce("Session started");
      detail.write();
    } catch (error) {
      problem($("new-problem"), error);
    } finally {
      this.isStarting = false;
      $("new-start").disabled = false;
    }
  },
};

/** Converts numbers, true and false. Everything else stays text. */
function optionValue(text) {
  if (text === "true" || text === "false") return text === "true";
  return /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text;
}

const KEYS = [
  ["j k or ↓ ↑", "next, previous session"],
  ["Enter", "write to the selected session"],
  ["/", "filter"],
  ["n", "new session"],
  ["1 … 9", "answer the question"],
  ["Esc", "cancel the question, or interrupt the turn"],
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
