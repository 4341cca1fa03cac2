// The dialog that starts a session. Its fields come from the manifest of the chosen adapter.

const newSession = {
  details: {},

  begin() {
    $("new-form").addEventListener("submit", event => {
      event.preventDefault();
      this.start();
    });
    $("new-cancel").addEventListener("click", () => $("new").close());
    $("new-form").addEventListener("keydown", event => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      $("new-form").requestSubmit();
    });
    $("new-adapter").addEventListener("change", () => this.fields());
    for (const id of ["new-open", "nothing-new"]) $(id).addEventListener("click", () => this.open());
  },

  async open() {
    if ($("new").open) return;
    problem($("new-problem"), null);
    $("new").showModal();
    $("new-adapter").focus();
    try {
      const [{ adapters, details }, registry] = await Promise.all([api.adapters(), api.workspaces()]);
      this.details = details ?? {};
      const before = $("new-adapter").value || storage.get("localStorage", "adapter");
      $("new-adapter").replaceChildren(...adapters.map(slug => el("option", { value: slug }, oneLine(slug))));
      if (adapters.includes(before)) $("new-adapter").value = before;
      if (!adapters.length) {
        problem($("new-problem"), { message: "No adapter is installed on this host.", hint: "Install one with `agentproto install`" });
      }
      this.fields();
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

  /** Shows the modes, models and options of the chosen adapter. */
  fields() {
    const slug = $("new-adapter").value;
    if (this.shownFor === slug && $("new-fields").childElementCount) return;
    this.shownFor = slug;
    const known = this.details[slug];
    const { modes = [], options = [], models = {} } = known ?? {};
    this.options = options.map(option => ({ ...option, input: optionInput(option) }));
    const fields = [];
    if (modes.length) {
      fields.push(field("new-mode", "Mode", select([["", "default of the agent"], ...modes.map(({ id, label }) => [id, label || id])]), describeModes(modes)));
    }
    const model = models.default ? `default: ${oneLine(models.default)}` : "default of the agent";
    if (models.allowed?.length) fields.push(field("new-model", "Model", select([["", model], ...models.allowed.map(id => [id, id])])));
    else if (known) fields.push(field("new-model", "Model", el("input", { placeholder: model, spellcheck: false, autocapitalize: "off" }), "", true));
    for (const [at, { id, input, description }] of this.options.entries()) {
      fields.push(field("new-option-" + at, id, input, description, true));
    }
    $("new-fields").replaceChildren(...fields);
    // Without a manifest, options are written as text.
    show($("new-plain"), !known);
  },

  request() {
    const request = { adapter: $("new-adapter").value.trim() };
    const names = [["workspaceSlug", "new-workspace"], ["cwd", "new-cwd"], ["label", "new-label"], ["prompt", "new-prompt"],
      ["mode", "new-mode"], ["model", "new-model"], ["permissions", "new-permissions"]];
    for (const [name, id] of names) {
      const value = $(id)?.value.trim();
      if (value) request[name] = value;
    }
    const options = {};
    for (const { id, input, ...option } of this.options ?? []) {
      const value = valueOf(option, input);
      if (value !== undefined) options[id] = value;
    }
    for (const line of $("new-options").value.split("\n").map(line => line.trim()).filter(Boolean)) {
      if ($("new-plain").hidden) break;
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
      composer.write();
    } catch (error) {
      problem($("new-problem"), error);
    } finally {
      this.isStarting = false;
      $("new-start").disabled = false;
    }
  },
};

/** A labeled field with its description. */
function field(id, name, input, description = "", isOptional = false) {
  input.id = id;
  const about = description ? el("small", { id: id + "-about", dir: "auto" }, bounded(clean(description), 1000)) : null;
  if (about) input.setAttribute("aria-describedby", about.id);
  const isBox = input.type === "checkbox";
  const label = el("label", { htmlFor: id, class: isBox ? "check" : "" }, isBox ? input : null, el("bdi", {}, oneLine(name)),
    isOptional && !isBox ? el("span", { class: "quiet" }, " optional") : null);
  return el("div", {}, label, isBox ? null : input, about);
}

const select = pairs => el("select", {}, ...pairs.map(([value, text]) => el("option", { value }, bounded(oneLine(text), 200))));

const describeModes = modes => modes.filter(mode => mode.description).map(({ id, label, description }) => `${label || id}: ${description}`).join("\n");

function optionInput({ type, values, default: standard, min, max }) {
  const hint = standard === undefined ? "default of the agent" : "default: " + oneLine(String(standard));
  if (type === "boolean") return el("input", { type: "checkbox", checked: standard === true });
  if (type === "enum") return select([["", hint], ...(values ?? []).map(value => [value, value])]);
  const isNumber = type === "integer" || type === "number";
  const input = el("input", { type: isNumber ? "number" : "text", placeholder: hint, spellcheck: false, autocapitalize: "off", autocomplete: "off" });
  if (isNumber) {
    input.step = type === "integer" ? "1" : "any";
    if (Number.isFinite(min)) input.min = String(min);
    if (Number.isFinite(max)) input.max = String(max);
  }
  return input;
}

/** The value of an option, or undefined if it is the manifest's own. */
function valueOf({ type, default: standard }, input) {
  if (type === "boolean") return input.checked === (standard === true) ? undefined : input.checked;
  if (input.value === "") return undefined;
  return input.type === "number" ? Number(input.value) : input.value;
}

/** Converts numbers, true and false. Everything else stays text. */
function optionValue(text) {
  if (text === "true" || text === "false") return text === "true";
  return /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text;
}
