// The prompt field and the list of queued prompts above it. The field is always enabled while the
// session is alive, so that the focus stays where the user types.

const composer = {
  id: "",

  begin() {
    const box = $("prompt");
    $("composer").addEventListener("submit", event => {
      event.preventDefault();
      this.send();
    });
    box.addEventListener("keydown", event => {
      if (event.isComposing) return;
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        this.send();
      } else if (event.key === "ArrowUp" && !box.value) {
        const last = queue.of(this.id).items.findLast(item => item.sentAt === undefined);
        if (!last) return;
        event.preventDefault();
        this.edit(last);
      }
    });
    box.addEventListener("input", () => {
      queue.setDraft(this.id, box.value);
      this.grow();
    });
    $("queue-go").addEventListener("click", () => {
      queue.proceed(this.id);
      $("prompt").focus({ preventScroll: true });
    });
    queue.changed.on(id => {
      if (id === this.id) this.render();
    });
  },

  open(id) {
    this.id = id;
    this.shown = "";
    $("prompt").value = id ? queue.of(id).draft : "";
    problem($("composer-problem"), null);
    this.grow();
  },

  render() {
    const record = detail.record;
    if (!record || record.id !== this.id) return;
    const alive = isAlive(record);
    const work = queue.of(this.id);
    const box = $("prompt");
    const hadFocus = document.activeElement === box;
    show($("composer"), alive);
    show($("queue"), work.items.some(item => item.sentAt === undefined));
    if (!alive && hadFocus) $("title").focus({ preventScroll: true });
    const state = stateOf(record);
    const isWaiting = queue.mustWait(record);
    setText($("send"), isWaiting ? "Queue" : "Send");
    $("composer").dataset.mode = isWaiting ? "queue" : "send";
    box.placeholder = !isWaiting ? "Message to the agent"
      : state === "starting" ? "First prompt (the agent is starting)"
      : state === "asks" ? "Next prompt (the agent asks)" : "Next prompt (the agent works)";
    const enter = isWaiting ? "Enter adds to the queue" : "Enter sends, Shift+Enter starts a new line";
    setText($("composer-hint"), state === "asks" ? enter + " · Esc goes to the question" : record.busy ? enter + " · Esc leaves the field, then Esc or i interrupts" : enter);
    if (work.draft && work.draft !== box.value && !box.value) {
      // A prompt that was refused comes back.
      box.value = work.draft;
      this.grow();
    }
    this.list(work);
  },

  list(work) {
    const items = work.items.filter(item => item.sentAt === undefined);
    setText($("queue-title"), plural(items.length, "queued prompt"));
    setText($("queue-state"), work.paused ? "Paused: " + work.paused + "." : work.editing ? "Waits while you edit." : "Sent one per turn.");
    $("queue").classList.toggle("paused", Boolean(work.paused));
    show($("queue-go"), Boolean(work.paused) && Boolean(detail.record && isAlive(detail.record)));
    // Rows are kept while nothing changes, because the user may be editing one.
    const shown = JSON.stringify([this.id, items.map(item => item.text), items.indexOf(work.editing)]);
    if (shown === this.shown || (work.editing && shown.length && this.isEditing())) return;
    this.shown = shown;
    $("queue-list").replaceChildren(...items.map((item, at) => this.row(item, at, work)));
  },

  isEditing() {
    return $("queue-list").contains(document.activeElement) && document.activeElement.localName === "textarea";
  },

  row(item, at, work) {
    const { id } = this;
    const act = (label, text, action) => el("button", { type: "button", class: "plain", "aria-label": `${label} queued prompt ${at + 1}`, onclick: action }, text);
    if (work.editing === item) {
      const box = el("textarea", {
        rows: Math.min(6, item.text.split("\n").length),
        value: item.text,
        "aria-label": `Queued prompt ${at + 1}`,
        oninput: () => {
          item.text = box.value;
          queue.save(id);
        },
        onkeydown: event => {
          const isDone = event.key === "Escape" || (event.key === "Enter" && !event.shiftKey && !event.isComposing);
          if (!isDone) return;
          event.preventDefault();
          event.stopPropagation();
          this.done(item);
        },
      });
      return el("li", {}, box, act("Save", "Done", () => this.done(item)));
    }
    return el("li", {}, el("span", { class: "queued", dir: "auto" }, bounded(clean(item.text), 400)),
      at > 0 ? act("Send earlier:", "↑", () => queue.moveUp(id, item)) : null,
      act("Edit", "Edit", () => this.edit(item)),
      act("Remove", "Remove", () => {
        queue.remove(id, item);
        announce("Removed");
        $("prompt").focus({ preventScroll: true });
      }));
  },

  edit(item) {
    const work = queue.of(this.id);
    work.editing = item;
    this.shown = "";
    $("prompt").focus({ preventScroll: true });
    this.list(work);
    const box = $("queue-list").querySelector("textarea");
    box?.focus();
    box?.setSelectionRange(box.value.length, box.value.length);
  },

  done(item) {
    const work = queue.of(this.id);
    work.editing = null;
    $("prompt").focus({ preventScroll: true });
    this.shown = "";
    if (item.text.trim()) queue.update(this.id);
    else queue.remove(this.id, item);
    queue.look();
  },

  /** Focuses the prompt. */
  write() {
    if (!$("composer").hidden) $("prompt").focus({ preventScroll: true });
  },

  grow() {
    const box = $("prompt");
    box.style.height = "auto";
    box.style.height = Math.min(box.scrollHeight + 2, window.innerHeight * 0.35) + "px";
  },

  async send() {
    const { id } = this;
    const { record } = detail;
    const text = $("prompt").value;
    if (!text.trim() || !record || !isAlive(record)) return;
    problem($("composer-problem"), null);
    if (queue.mustWait(record)) {
      const refused = queue.add(id, text);
      problem($("composer-problem"), refused);
      if (refused) return;
      announce("Queued");
      this.empty();
      return;
    }
    detail.pane.toEnd();
    this.empty();
    const error = await queue.send(id, text);
    if (this.id === id) problem($("composer-problem"), error);
    detail.refresh();
  },

  empty() {
    $("prompt").value = "";
    queue.setDraft(this.id, "");
    this.grow();
    this.render();
  },
};
