// Questions of the agent: one card for each open question. Keys answer the first one.

/** Milliseconds during which a new card ignores input, because it was meant for something else. */
const NEW_CARD_DELAY = 400;

const questions = {
  id: "",
  open: [],
  seen: new Set(),

  begin() {
    $("questions-toggle").addEventListener("click", () => this.fold(!$("questions").classList.contains("folded")));
  },

  /** Shows only the first line of the panel, so that more of the transcript is visible. */
  fold(isFolded) {
    $("questions").classList.toggle("folded", isFolded);
    $("questions-toggle").setAttribute("aria-expanded", String(!isFolded));
    setText($("questions-toggle"), isFolded ? "Show" : "Hide");
  },

  show(id, open) {
    const known = this.id === id ? this.open.map(question => question.id) : [];
    const isSame = this.id === id && known.length === open.length && open.every((question, n) => question.id === known[n]);
    this.id = id;
    this.open = open;
    if (isSame) return;
    const root = $("cards");
    const hadFocus = $("questions").contains(document.activeElement);
    show($("questions"), open.length > 0);
    setText($("questions-count"), open.length > 1 ? plural(open.length, "question") : "Question");
    root.replaceChildren(...open.map((question, at) => this.card(question, at)));
    if (!open.length) {
      if (hadFocus) $("transcript").focus({ preventScroll: true });
      return;
    }
    const news = open.filter(question => !known.includes(question.id));
    if (news.length) announce("The agent asks: " + oneLine(news[0].message));
    if (news.length) this.fold(false);
    // Do not take the focus from a user who types. Focus the card and not a button, so that an
    // accidental Enter allows nothing.
    if (!isWriting() && !document.querySelector("dialog[open]")) root.firstElementChild.focus({ preventScroll: true });
  },

  card(question, at) {
    const titleId = "question-" + at;
    const count = this.open.length;
    const options = question.options || [];
    const buttons = options.map((option, n) => el("button", {
      type: "button",
      class: (option.kind || "").startsWith("allow") ? "allow" : (option.kind || "").startsWith("reject") ? "reject" : "",
      onclick: () => this.answer(question, { optionId: option.id }, option.label),
    }, at === 0 && n < 9 ? el("kbd", { "aria-hidden": "true" }, String(n + 1)) : null, el("bdi", {}, oneLine(option.label || option.id))));
    buttons.push(el("button", { type: "button", class: "plain", onclick: () => this.cancel(question) },
      at === 0 ? el("kbd", { "aria-hidden": "true" }, "Esc") : null, "Cancel the question"));
    const card = el("div", { class: "question", role: "alertdialog", tabIndex: -1, "aria-labelledby": titleId, "data-question": question.id },
      el("p", { class: "question-title", id: titleId },
        count > 1 ? el("span", { class: "kind" }, `Question ${at + 1} of ${count}`) : null,
        el("span", { class: "question-text", dir: "auto" }, bounded(clean(question.message), 4000))),
      this.tool(question),
      this.form(question),
      el("div", { class: "question-buttons" }, ...buttons),
      el("p", { class: "problem", role: "alert", hidden: true }));
    if (!this.seen.has(question.id)) {
      this.seen.add(question.id);
      card.classList.add("fresh");
      setTimeout(() => card.classList.remove("fresh"), NEW_CARD_DELAY);
    }
    return card;
  },

  /** The tool call that the agent asks about: files, differences and arguments. */
  tool({ tool, message }) {
    if (!tool || typeof tool !== "object") return null;
    const places = (Array.isArray(tool.locations) ? tool.locations : []).slice(0, 20)
      .map(place => oneLine(place?.path ?? "") + (Number.isInteger(place?.line) ? ":" + place.line : "")).filter(Boolean);
    const { parts, diffs } = toolParts(tool.input, tool.content);
    const name = oneLine(tool.name ?? "");
    const known = diffs.map(diff => oneLine(diff.path));
    const rest = places.filter(place => !known.includes(place));
    const line = [name && name !== oneLine(message) ? name : "", oneLine(tool.kind ?? "")].filter(Boolean).join(" · ");
    if (!line && !rest.length && !parts.length) return null;
    return el("div", { class: "question-tool", tabIndex: 0, role: "group", "aria-label": "The tool call" },
      line ? el("p", { class: "kind", dir: "auto" }, line) : null,
      rest.length ? el("p", { class: "places" }, ...rest.map(place => el("code", {}, el("bdi", {}, place)))) : null,
      ...parts);
  },

  /** A form for the fields of the question's schema, or null if its options have every answer. */
  form(question) {
    const schema = question.schema;
    if (!schema) return null;
    const isObject = schema.properties || (schema.type ?? "object") === "object";
    const fields = isObject ? Object.entries(schema.properties || {}) : [["", schema]];
    const isChoice = fields.length === 1 && isObject && formWords(fields[0][1]);
    if (!fields.length || isChoice) return null;
    const required = new Set(isObject ? schema.required || [] : [""]);
    const inputs = fields.map(([name, property]) => [name, property, formInput(property, required.has(name))]);
    const labels = inputs.map(([name, property, input]) => el("label", {},
      el("span", { dir: "auto" }, bounded(oneLine(property.title || name || "Answer"), 200) + (required.has(name) ? "" : " (optional)")),
      input,
      property.description ? el("small", { dir: "auto" }, bounded(clean(property.description), 1000)) : null));
    return el("form", {
      class: "question-form",
      onsubmit: event => {
        event.preventDefault();
        const content = {};
        for (const [name, property, input] of inputs) {
          const value = formValue(property, input);
          if (value !== undefined) content[name] = value;
        }
        this.answer(question, { content: isObject ? content : content[""] ?? "" }, "form sent");
      },
    }, ...labels, el("button", { type: "submit", class: "allow" }, "Send the answer"));
  },

  /** Moves the focus to the first question. */
  focus() {
    this.fold(false);
    $("cards").firstElementChild?.focus({ preventScroll: true });
  },

  /** Answers with the keys 1 to 9. */
  choose(n) {
    const question = this.open[0];
    const option = question?.options?.[n - 1];
    if (!option) return false;
    this.answer(question, { optionId: option.id }, option.label);
    return true;
  },

  cancel(question = this.open[0]) {
    if (!question) return false;
    this.answer(question, { cancelled: true }, "cancelled");
    return true;
  },

  async answer(question, answer, label) {
    const { id } = this;
    const card = [...$("cards").children].find(node => node.dataset.question === question.id);
    const buttons = [...(card?.querySelectorAll("button") ?? [])];
    if (card?.classList.contains("fresh") || buttons.some(button => button.disabled)) return;
    for (const button of buttons) button.disabled = true;
    try {
      await api.answer(id, question.id, answer);
      announce("Answered: " + oneLine(label || ""));
    } catch (error) {
      // Another client answered first. The next record shows it.
      if (error.status !== 404 && card) problem(card.querySelector(".problem"), error);
      for (const button of buttons) button.disabled = false;
    }
    detail.refresh();
  },
};

/** The words that a field may have, as pairs of value and title. */
function formWords(property) {
  const titled = property.oneOf || property.anyOf;
  if (Array.isArray(property.enum)) return property.enum.map((value, n) => [value, property.enumNames?.[n] || value]);
  return Array.isArray(titled) ? titled.map(one => [one.const, one.title || one.const]) : null;
}

function formInput(property, isRequired) {
  const many = property.type === "array" && formWords(property.items || {});
  const words = many || formWords(property);
  if (words) {
    const chosen = [].concat(property.default ?? []);
    const options = words.map(([value, title]) => el("option", { value: String(value), selected: chosen.includes(value) }, bounded(oneLine(String(title)), 200)));
    if (!many && !chosen.length) options.unshift(el("option", { value: "" }, ""));
    return el("select", { multiple: Boolean(many), required: isRequired }, ...options);
  }
  if (property.type === "boolean") return el("input", { type: "checkbox", checked: property.default === true });
  const isNumber = property.type === "integer" || property.type === "number";
  const types = { email: "email", uri: "url", date: "date" };
  const input = el("input", { type: isNumber ? "number" : types[property.format] || "text", required: isRequired, autocomplete: "off" });
  if (isNumber) input.step = property.type === "integer" ? "1" : "any";
  if (property.default !== undefined) input.value = String(property.default);
  return input;
}

/** The value of a field, or undefined if it is left empty. The host checks it. */
function formValue(property, input) {
  if (input.type === "checkbox") return input.checked;
  if (input.multiple) return [...input.selectedOptions].map(option => option.value);
  if (input.value === "") return undefined;
  return input.type === "number" ? Number(input.value) : input.value;
}

function isWriting() {
  const node = document.activeElement;
  return Boolean(node?.matches?.("textarea:not(:disabled), input:not([type=checkbox]), select"));
}
