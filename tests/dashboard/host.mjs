// A daemon with its own home directory, and a second client next to the page.

import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";

/** Time limit that only a hang reaches, in ms. */
export const HANG = 90_000;

export class Host {
  constructor() {
    this.dir = mkdtempSync(path.join(tmpdir(), "dashboard-"));
    this.home = path.join(this.dir, "home");
    this.work = path.join(this.dir, "work");
    mkdirSync(this.work);
  }

  /** Starts the daemon. With `port` 0, it uses a free port. */
  async start({ port = 0, open = false } = {}) {
    const args = ["serve", "--port", String(port), "--output", "jsonl", ...(open ? ["--open"] : [])];
    const bin = path.dirname(process.env.AGENTPROTO);
    const env = { PATH: `${bin}:${process.env.PATH}`, HOME: this.dir, AGENTPROTO_HOME: this.home, LANG: "C.UTF-8" };
    this.child = spawn(process.env.AGENTPROTO, args, { cwd: this.work, env, stdio: ["ignore", "pipe", "inherit"] });
    const listening = await this.#event("listening");
    const { url, token } = JSON.parse(readFileSync(path.join(this.home, "runtime.json"), "utf8"));
    Object.assign(this, { url, token, link: listening.link, port: Number(new URL(url).port) });
    return this;
  }

  #event(type) {
    return new Promise((resolve, reject) => {
      let text = "";
      const failed = why => reject(new Error(`the daemon ${why}: ${text}`));
      const timer = setTimeout(() => failed("did not start"), HANG);
      this.child.once("exit", code => failed(`exited with ${code}`));
      this.child.stdout.on("data", data => {
        text += data;
        for (const line of text.split("\n").slice(0, -1)) {
          const event = JSON.parse(line);
          if (event.type === type) {
            clearTimeout(timer);
            resolve(event);
          }
        }
      });
    });
  }

  async stop(signal = "SIGTERM") {
    if (!this.child || this.child.exitCode !== null || this.child.signalCode) return;
    const gone = new Promise(resolve => this.child.once("exit", resolve));
    this.child.kill(signal);
    await gone;
  }

  async remove() {
    await this.stop();
    rmSync(this.dir, { recursive: true, force: true });
  }

  /** Sends a request as another client. */
  async ask(method, route, body) {
    const answer = await fetch(this.url + route, {
      method,
      headers: { Authorization: `Bearer ${this.token}`, "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const json = await answer.json();
    if (!answer.ok) throw new Error(`${method} ${route}: ${answer.status} ${JSON.stringify(json)}`);
    return json;
  }

  /** Starts a session with a scenario of the mock agent, and waits until it runs. */
  async session(scenario, more = {}) {
    const options = scenario ? { scenario } : undefined;
    const { id } = await this.ask("POST", "/sessions/agent", { adapter: "mock-acp", cwd: this.work, options, ...more });
    return this.until(id, session => session.status !== "starting");
  }

  async until(id, wanted) {
    const end = Date.now() + HANG;
    for (;;) {
      const session = await this.ask("GET", `/sessions/${id}`);
      if (wanted(session)) return session;
      if (Date.now() > end) throw new Error(`still ${JSON.stringify(session)}`);
      await new Promise(resolve => setTimeout(resolve, 50));
    }
  }

  async turn(id, prompt) {
    await this.ask("POST", `/sessions/${id}/prompt`, { prompt });
    return this.until(id, session => !session.busy);
  }

  /** Registers a workspace. The daemon reads the file again for each request. */
  workspace(slug) {
    const directory = path.join(this.dir, slug);
    mkdirSync(directory, { recursive: true });
    const now = new Date().toISOString();
    const workspaces = [{ slug, path: directory, addedAt: now, updatedAt: now }];
    writeFileSync(path.join(this.home, "workspaces.json"), JSON.stringify({ version: 1, active: null, workspaces }));
    return workspaces[0];
  }

  /** Writes a custom scenario for the mock agent to the working directory. */
  scenario(name, yaml) {
    writeFileSync(path.join(this.work, name), `scenario: agentproto.scenario/v1\n${yaml}`);
    return name;
  }
}

/** A TCP proxy between page and daemon that can be disconnected. */
export class Wire {
  #sockets = new Set();
  #server;

  async start(port) {
    this.#server = net.createServer(near => {
      const far = net.connect(port, "127.0.0.1");
      for (const [socket, other] of [[near, far], [far, near]]) {
        this.#sockets.add(socket);
        socket.on("error", () => other.destroy());
        socket.on("close", () => {
          this.#sockets.delete(socket);
          other.destroy();
        });
      }
      near.pipe(far).pipe(near);
    });
    await new Promise(resolve => this.#server.listen(0, "127.0.0.1", resolve));
    this.url = `http://127.0.0.1:${this.#server.address().port}`;
    return this;
  }

  cut() {
    for (const socket of this.#sockets) socket.destroy();
  }

  stop() {
    this.cut();
    this.#server.close();
  }
}
