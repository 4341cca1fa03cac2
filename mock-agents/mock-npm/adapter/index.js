// Mock agent with the AgentCliClient interface: no subprocess, no model, no network.
//
// `send` returns the events of its turn. `events` returns the events of all turns, for hosts that
// read them in one place. Each turn ends with exactly one `turn-end` or `error`.

const PAUSE_MS = 200;
const TICKS = 50;

// Event queue for one reader, which uses `for await`.
class Stream {
  #events = [];
  #waiting = null;
  #closed = false;

  push(event) {
    this.#events.push(event);
    this.#wake();
  }

  close() {
    this.#closed = true;
    this.#wake();
  }

  #wake() {
    this.#waiting?.();
    this.#waiting = null;
  }

  async *[Symbol.asyncIterator]() {
    for (;;) {
      while (this.#events.length > 0) yield this.#events.shift();
      if (this.#closed) return;
      await new Promise((resume) => (this.#waiting = resume));
    }
  }
}

class Cancelled extends Error {}

class MockClient {
  #env = {};
  #cwd = "";
  #prompts = [];
  #all = new Stream();
  #turn = null;
  #questions = new Map();

  async connect(options = {}) {
    options.abortSignal?.throwIfAborted();
    this.#env = options.env ?? process.env;
    this.#cwd = options.cwd ?? process.cwd();
    return { sessionId: null };
  }

  // Hosts call `send(message)` or `send(turnId, message)`.
  send(first, second) {
    const message = second ?? first;
    const prompt = typeof message === "string" ? message : String(message?.text ?? "");
    const stream = new Stream();
    if (this.#turn !== null) {
      stream.push({ type: "error", code: "busy", message: "a turn is under way" });
      stream.close();
      return stream;
    }
    const turn = { cancelled: false, wake: null };
    const say = (event) => {
      stream.push(event);
      this.#all.push(event);
    };
    this.#turn = turn;
    this.#play(prompt, turn, say)
      .then(
        () => say({ type: "turn-end", reason: "end_turn" }),
        (problem) =>
          problem instanceof Cancelled
            ? say({ type: "turn-end", reason: "cancelled" })
            : say({ type: "error", code: "mock_failed", message: problem.message }),
      )
      .finally(() => {
        this.#turn = null;
        stream.close();
      });
    return stream;
  }

  events() {
    return this.#all;
  }

  // The answer to an `agent-prompt`.
  async answer(id, answer) {
    this.#questions.get(id)?.(answer);
    this.#questions.delete(id);
  }

  async cancel() {
    if (this.#turn === null) return;
    this.#turn.cancelled = true;
    this.#turn.wake?.();
  }

  async close() {
    await this.cancel();
    this.#all.close();
  }

  // Waits until `arm` resolves, or rejects if the turn is cancelled first.
  #wait(turn, arm) {
    return new Promise((resolve, reject) => {
      const stop = () => reject(new Cancelled());
      if (turn.cancelled) return stop();
      turn.wake = stop;
      arm(resolve);
    });
  }

  #pause(turn, ms) {
    let timer;
    const waiting = this.#wait(turn, (resolve) => (timer = setTimeout(resolve, ms)));
    return waiting.finally(() => clearTimeout(timer));
  }

  async #play(prompt, turn, say) {
    const before = this.#prompts.join(" | ");
    this.#prompts.push(prompt);
    const number = this.#prompts.length;
    const text = (words) => say({ type: "text-delta", text: words });
    const shown = /^show env ([A-Za-z_][A-Za-z0-9_]*)$/.exec(prompt);
    // Send no event before the host can listen.
    await this.#pause(turn, 0);
    if (shown) {
      const [, name] = shown;
      const value = this.#env[name];
      text(value === undefined ? `${name} is not set` : `${name}=${value}`);
    } else if (prompt === "show cwd") {
      text(this.#cwd);
    } else if (prompt === "what did I say before?") {
      text(`Turn ${number}. Before: ${before}`);
    } else if (prompt.includes("permission")) {
      const id = `question-${number}`;
      const options = ["allow", "reject"];
      const answered = this.#wait(turn, (resolve) => this.#questions.set(id, resolve));
      say({ type: "agent-prompt", id, message: "May I edit the notes?", options });
      const answer = await answered;
      const word = typeof answer === "string" ? answer : answer?.optionId;
      text(word === "allow" ? "You allowed it." : "You did not allow it.");
    } else if (prompt.includes("tool")) {
      text("I look it up.");
      const id = `call-${number}`;
      say({ type: "tool-call", id, name: "Search the notes", args: { query: "notes" } });
      say({ type: "tool-result", id, ok: true, content: "one note" });
      text("There is one note.");
    } else if (prompt.includes("thought")) {
      say({ type: "thought", text: "Let me think." });
      text("I thought about it.");
    } else if (prompt.includes("slow")) {
      for (let tick = 1; tick <= TICKS; tick += 1) {
        text(`tick ${tick} `);
        await this.#pause(turn, PAUSE_MS);
      }
    } else if (prompt === "fail") {
      throw new Error("the mock was asked to fail");
    } else {
      const words = `${this.#env.MOCK_GREETING ?? "You said: "}${prompt}`;
      const characters = Array.from(words);
      const size = Math.max(1, Math.ceil(characters.length / 3));
      for (let from = 0; from < characters.length; from += size) {
        text(characters.slice(from, from + size).join(""));
      }
    }
  }
}

export function createAgentCliClient(_definition) {
  return new MockClient();
}

export default { createAgentCliClient };
