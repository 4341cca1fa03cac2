// Questions of the agent: one card for each open question. Keys answer the first one.

/** Milliseconds during which a new card ignores input, because it was meant for something else. */
const NEW_CARD_DELAY = 400;

const questions = {
  id: "",
  open: [],
  seen: new Set(),

  show(id, open) {
    const known = this.id === id ? this.open.map(question => question.id) : [];
    const isSame = this.id === id && known.length === open.length && open.every((question, n) => question.id === known[n]);
    this.id = id;
    this.open = open;
    if (isSame) return;
    const root = $("questions");
    const hadFocus = root.contains(document.activeElement);
    show(root, open.length > 0);
    root.replaceChildren(...open.map((question, at) => this.card(question, at)));
    if (!open.length) {
      if (hadFocus) $("transcript").focus({ preventScroll: true });
      return;
    }
    const news = open.filter(question => !known.includes(question.id));
    if (news.length) announce("The agent asks: " + oneLine(news[0].message));
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
        el("span", { class: "kind" }, count > 1 ? `Question ${at + 1} of ${count}` : "Question"),
        el("span", { class: "question-text", dir: "auto" }, bounded(clean(question.message), 4000))),
      el("div", { class: "question-buttons" }, ...buttons),
      el("p", { class: "problem", role: "alert", hidden: true }));
    if (!this.seen.has(question.id)) {
      this.seen.add(question.id);
      card.classList.add("fresh");
      setTimeout(() => card.classList.remove("fresh"), NEW_CARD_DELAY);
    }
    return card;
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
    const card = [...$("questions").children].find(node => node.dataset.question === question.id);
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

function isWriting() {
  const node = document.activeElement;
  return Boolean(node?.matches?.("textarea:not(:disabled), input:not([type=checkbox]), select"));
}
