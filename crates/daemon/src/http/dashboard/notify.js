// Notifications of the browser, if the user wants them: when an agent asks or a turn ends while the
// page is hidden. They contain nothing that the page does not show.

const MAX_NOTE = 200;

const notify = {
  on: false,
  /** What was known about live sessions: whether they are busy, and their questions. */
  known: null,

  begin() {
    this.on = storage.get("localStorage", "notify") === "on" && this.state() === "granted";
    $("notify").addEventListener("change", () => this.set($("notify").checked));
    sessions.changed.on(() => this.look());
    this.paint();
  },

  /** What the browser allows: granted, denied, default, or nothing if it has no notifications. */
  state: () => globalThis.Notification?.permission ?? "",

  async set(on) {
    if (on && this.state() === "default") await Notification.requestPermission();
    this.on = on && this.state() === "granted";
    storage.set("localStorage", "notify", this.on ? "on" : "");
    this.paint();
  },

  paint() {
    const state = this.state();
    $("notify").checked = this.on;
    $("notify").disabled = !state || state === "denied";
    setText($("notify-about"), !state ? "This browser has no notifications, or only with HTTPS."
      : state === "denied" ? "This browser does not allow notifications for this page. Change it in the settings of the browser."
      : "Only while this page is in the background. The notification shows the name of the session and the question.");
  },

  look() {
    const now = new Map();
    for (const session of sessions.all.values()) {
      if (isAlive(session)) now.set(session.id, { busy: Boolean(session.busy), asks: (session.pendingPermissions ?? []).map(({ id }) => id) });
    }
    const earlier = this.known;
    if (sessions.isLoaded) this.known = now;
    if (!earlier || !this.on || !document.hidden) return;
    for (const [id, was] of earlier) {
      const session = sessions.all.get(id);
      const is = now.get(id);
      if (!session) continue;
      const question = is && session.pendingPermissions?.find(({ id }) => !was.asks.includes(id));
      if (question) this.send(session, "needs an answer", question.message);
      else if (was.busy && !is?.busy) this.send(session, is ? "turn ended" : STATES[stateOf(session)], "");
    }
    for (const [id, is] of now) {
      const session = sessions.all.get(id);
      if (!earlier.has(id) && is.asks.length) this.send(session, "needs an answer", session.pendingPermissions[0].message);
    }
  },

  send(session, what, text) {
    try {
      // One for each session: a newer one replaces it, also that of another tab.
      const note = new Notification(`${nameOf(session)}: ${what}`, { body: oneLine(text).slice(0, MAX_NOTE), tag: session.id });
      note.onclick = () => {
        window.focus();
        go(session.id);
        note.close();
      };
    } catch {
      // Some phones only allow notifications of service workers.
    }
  },
};
