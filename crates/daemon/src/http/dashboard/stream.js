// Reads the server-sent events of one session with `fetch` instead of `EventSource`. So the token
// is sent in a header, without a ticket in a URL, and error responses can be read. A lost
// connection resumes after the last event that was received.

/**
 * Milliseconds without data after which a connection counts as dead. Longer than two keep-alives.
 */
const SILENCE = 70000;

class Stream {
  #id;
  #on;
  #room;
  #abort = new AbortController();
  #lastId = "";
  #tries = 0;
  #timer = 0;
  #over = false;

  /**
   * `on(event, data)` receives every frame, and the own events `connecting`, `live`, `refused` and
   * `over`. `room()` pauses reading while the display has too many frames queued.
   */
  constructor(id, on, room) {
    this.#id = id;
    this.#on = on;
    this.#room = room;
    this.#open();
  }

  close() {
    this.#over = true;
    clearTimeout(this.#timer);
    this.#abort.abort();
  }

  /** Reconnects at once when the daemon is back, instead of waiting for the timer. */
  again() {
    if (this.#over || !this.#timer) return;
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.#open();
  }

  async #open() {
    this.#abort = new AbortController();
    const { signal } = this.#abort;
    this.#on("connecting");
    const headers = api.headers({ Accept: "text/event-stream" });
    if (this.#lastId) headers["Last-Event-ID"] = this.#lastId;
    try {
      const options = { headers, signal, cache: "no-store", credentials: "omit" };
      const answer = await reach(of(this.#id) + "/stream", options);
      if (!answer.ok) {
        const error = await refusal(answer);
        // Other errors will not disappear within a second. The list shows when they do.
        if (answer.status !== 429 && answer.status !== 503) {
          this.#over = answer.status !== 401;
          this.#on("refused", error);
          if (answer.status === 401) this.#later();
          return;
        }
        throw error;
      }
      this.#on("live");
      await this.#read(answer.body.getReader());
    } catch {
      // The connection was cut or never existed. Both are handled the same way.
    }
    this.#later();
  }

  #later() {
    if (this.#over) return;
    this.#on("connecting");
    const delay = Math.min(10000, 250 * 2 ** this.#tries);
    this.#tries += 1;
    this.#timer = setTimeout(() => {
      this.#timer = 0;
      // While the daemon is gone, one probe is enough. `again` is called when it responds.
      if (connection.up && api.token) this.#open();
      else this.#later();
    }, delay);
  }

  async #read(reader) {
    const decoder = new TextDecoder();
    const parser = new FrameParser((event, data, id) => this.#frame(event, data, id));
    let silence = 0;
    const alarm = () => {
      clearTimeout(silence);
      silence = setTimeout(() => this.#abort.abort(), SILENCE);
    };
    try {
      for (;;) {
        alarm();
        const { done, value } = await reader.read();
        if (done || this.#over) return;
        parser.take(decoder.decode(value, { stream: true }));
        clearTimeout(silence);
        await this.#room();
      }
    } finally {
      clearTimeout(silence);
      reader.cancel().catch(() => {});
    }
  }

  #frame(event, data, id) {
    if (this.#over) return;
    this.#tries = 0;
    if (id) this.#lastId = id;
    let value;
    try {
      value = JSON.parse(data);
    } catch {
      return;
    }
    if (event === "end") {
      this.#over = true;
      this.#on("over", value);
      return;
    }
    this.#on(event, value);
  }
}

/** Parses server-sent events from pieces that may be cut anywhere. */
class FrameParser {
  #rest = "";
  #event = "";
  #data = [];
  #id = "";
  #frame;

  constructor(frame) {
    this.#frame = frame;
  }

  take(piece) {
    const lines = (this.#rest + piece).split("\n");
    this.#rest = lines.pop();
    for (const line of lines) this.#line(line.endsWith("\r") ? line.slice(0, -1) : line);
  }

  #line(line) {
    if (line === "") {
      if (this.#data.length) this.#frame(this.#event || "message", this.#data.join("\n"), this.#id);
      this.#event = "";
      this.#data = [];
      this.#id = "";
      return;
    }
    const colon = line.indexOf(":");
    if (colon === 0) return;
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + (line[colon + 1] === " " ? 2 : 1));
    if (name === "event") this.#event = value;
    else if (name === "data") this.#data.push(value);
    else if (name === "id") this.#id = value;
  }
}
