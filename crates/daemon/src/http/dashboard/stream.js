// One session's server-sent events, read with `fetch` and not with `EventSource`: so the token
// travels in a header (no ticket in an address), a refusal is readable, and there is one way in.
// A lost connection is taken up again after the last event that was seen.

/** Longer than two keep-alives: a connection without any is dead, whatever TCP thinks. */
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
   * `on(event, data)` gets every frame; `connecting`, `live`, `refused`, `over` are ours.
   * `room()` holds the reading up while there is none: the daemon waits for nobody.
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

  /** The daemon is back: at once, and not when the wait is over. */
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
        // Anything else will not be better in a second; the list tells when it is.
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
      // Cut, or never there: both are the same from here.
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
      // While the daemon is gone one probe is enough; `again` comes with its answer.
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

/** Fields and lines of server-sent events, from pieces that may be cut anywhere. */
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
