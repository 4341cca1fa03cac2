// The daemon's HTTP interface, with the token of this tab. The token is sent only as a header and
// never appears in a URL.

class ApiError extends Error {
  constructor(status, { code, message, hint } = {}) {
    super(message || "the daemon responded with " + status);
    Object.assign(this, { status, code: code || "", hint: hint || "" });
  }
}

const api = {
  token: storage.get("sessionStorage", "token"),

  setToken(token) {
    this.token = token;
    storage.set("sessionStorage", "token", token);
  },

  headers(more) {
    return { Authorization: "Bearer " + this.token, ...more };
  },

  /**
   * Sends a request and parses the JSON. Throws an `ApiError` for an error response, and
   * `Unreachable` without a response.
   */
  async ask(method, path, body) {
    const options = { method, headers: this.headers(), cache: "no-store", credentials: "omit" };
    if (body !== undefined) {
      options.headers["Content-Type"] = "application/json";
      options.body = JSON.stringify(body);
    }
    const answer = await reach(path, options);
    if (!answer.ok) throw await refusal(answer);
    return answer.json();
  },

  sessions: alive => api.ask("GET", alive ? "/sessions?alive=true" : "/sessions"),
  session: id => api.ask("GET", of(id)),
  adapters: () => api.ask("GET", "/adapters"),
  workspaces: () => api.ask("GET", "/workspaces"),
  spawn: request => api.ask("POST", "/sessions/agent", request),
  prompt: (id, prompt) => api.ask("POST", of(id) + "/prompt", { prompt }),
  interrupt: id => api.ask("POST", of(id) + "/interrupt"),
  kill: id => api.ask("POST", of(id) + "/kill"),
  resume: id => api.ask("POST", of(id) + "/resume"),
  forget: id => api.ask("DELETE", of(id)),
  rename: (id, label) => api.ask("PATCH", of(id), { label }),
  answer: (id, question, answer) =>
    api.ask("POST", of(id) + "/permissions/" + encodeURIComponent(question), answer),

  /** Exchanges the code of a one-time link for the token. */
  async login(code) {
    const answer = await reach("/login", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ code }),
    });
    if (!answer.ok) throw await refusal(answer);
    return (await answer.json()).token;
  },
};

const of = id => "/sessions/" + encodeURIComponent(id);

class Unreachable extends Error {}

/** Calls `fetch`. No response at all means that the daemon is gone. */
async function reach(path, options) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    connection.lost();
    throw new Unreachable("the daemon does not answer");
  }
  if (answer.status === 401 && path !== "/login" && options.headers?.Authorization) {
    signedOut.fire(options.headers.Authorization);
  }
  return answer;
}

async function refusal(answer) {
  try {
    return new ApiError(answer.status, (await answer.json()).error);
  } catch {
    return new ApiError(answer.status);
  }
}

/** Listeners of one event. */
class Signal {
  #listeners = [];

  on(listener) {
    this.#listeners.push(listener);
  }

  fire(...what) {
    for (const listener of this.#listeners) listener(...what);
  }
}

/** Fired when the daemon rejects the token. */
const signedOut = new Signal();

/**
 * Whether the daemon responds. While it does not, a single probe retries with increasing delays.
 */
const connection = {
  up: true,
  changed: new Signal(),
  tries: 0,
  timer: 0,
  nextTry: 0,

  lost() {
    if (!this.up) return;
    this.up = false;
    this.tries = 0;
    this.wait();
    this.changed.fire();
  },

  wait() {
    const max = Math.min(15000, 500 * 2 ** this.tries);
    const delay = max * (0.75 + Math.random() / 4);
    this.tries += 1;
    this.nextTry = Date.now() + delay;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.probe(), delay);
  },

  async probe() {
    if (this.up) return;
    clearTimeout(this.timer);
    try {
      const answer = await fetch("/healthz", { cache: "no-store", signal: AbortSignal.timeout(5000) });
      if (!answer.ok) throw new Error("not well");
    } catch {
      this.wait();
      this.changed.fire();
      return;
    }
    this.up = true;
    this.changed.fire();
  },
};
window.addEventListener("online", () => connection.probe());
