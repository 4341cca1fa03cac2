// Tabs of a real browser that record everything a page must not do.

import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import path from "node:path";
import { HANG } from "./host.mjs";

/** Timeout for a mutant, in ms: its case may wait for something that never happens. */
const IN_VAIN = 45_000;

const tools = process.env.DASHBOARD_TOOLS;
const require = createRequire(path.join(tools, "index.js"));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

/** The page from its source files, in the order of `page.rs`, to test changes without a build. */
function sources() {
  const daemon = new URL("../../crates/daemon/src/http/", import.meta.url);
  const read = name => readFileSync(new URL(name, daemon), "utf8");
  const names = [...read("page.rs").matchAll(/include_str!\("(dashboard\/\w+\.js)"\)/g)].map(found => found[1]);
  const script = `"use strict";\n(() => {\n${names.map(read).join("\n")}})();\n`;
  return read("dashboard/index.html")
    .replace("/*style*/", () => read("dashboard/style.css"))
    .replace("/*script*/", () => script);
}

export const launch = () => chromium.launch({
  executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});

/** One tab with its own storage, and a list of everything unexpected that happened in it. */
export class Tab {
  odd = [];
  urls = [];
  /** Parts of console messages that the case expects, such as status codes of refused requests. */
  expected = [];

  static async open(browser, { url, mutate, viewport = { width: 1280, height: 800 }, ...options }) {
    const tab = new Tab();
    tab.url = url;
    tab.context = await browser.newContext({ viewport, ...options });
    tab.page = await tab.context.newPage();
    tab.page.setDefaultTimeout(mutate ? IN_VAIN : HANG);
    await tab.#watch();
    if (mutate || process.env.DASHBOARD_SOURCES) await tab.#replace(mutate);
    return tab;
  }

  async #watch() {
    const { page } = this;
    page.on("request", request => this.urls.push(request.url()));
    page.on("framenavigated", frame => this.urls.push(frame.url()));
    page.on("pageerror", error => this.odd.push(`error: ${error.stack}`));
    page.on("console", message => {
      if (message.type() !== "error" && message.type() !== "warning") return;
      const text = message.text();
      if (!this.expected.some(known => text.includes(known))) this.odd.push(`console: ${text}`);
    });
    page.on("dialog", dialog => {
      this.odd.push(`browser dialog: ${dialog.message()}`);
      dialog.dismiss().catch(() => {});
    });
    page.on("popup", () => this.odd.push("a window was opened"));
    await page.addInitScript(() => {
      document.addEventListener("securitypolicyviolation", event => console.error("policy: " + event.violatedDirective));
    });
  }

  /**
   * Serves the page with one defect, or from its current sources. There is no content security
   * policy, because its hashes would not match.
   */
  async #replace([find, put] = []) {
    let body = process.env.DASHBOARD_SOURCES ? sources() : await (await fetch(this.url)).text();
    if (find && !body.includes(find)) throw new Error(`nothing to break: ${find}`);
    if (find) body = body.replaceAll(find, () => put);
    const { origin } = new URL(this.url);
    await this.context.route(url => url.origin === origin && url.pathname === "/", route =>
      route.fulfill({ contentType: "text/html; charset=utf-8", body }));
  }

  async signIn(token, fragment = "") {
    await this.page.goto(`${this.url}/${fragment}`);
    await this.page.getByLabel("Token").fill(token);
    await this.page.keyboard.press("Enter");
    await this.page.locator("#app").waitFor();
    return this;
  }

  /** Checks for the end of every case. Returns everything unexpected. */
  verdict(tokens) {
    const origin = new URL(this.url).origin;
    for (const url of this.urls) {
      const isOwn = url.startsWith(origin + "/") || url === origin || url.startsWith("data:image/") || url === "about:blank";
      if (!isOwn) this.odd.push(`request to another origin: ${url}`);
      if (tokens.some(token => url.includes(token))) this.odd.push(`the token is in ${url}`);
    }
    return this.odd;
  }

  /** Serious accessibility violations, found by axe. */
  async barriers() {
    await this.page.evaluate(axe);
    const { violations } = await this.page.evaluate(() => window.axe.run(document));
    return violations
      .filter(found => ["serious", "critical"].includes(found.impact))
      .map(found => `${found.id}: ${found.nodes.map(node => node.html.slice(0, 160)).slice(0, 3).join(" | ")}`);
  }

  picture(name) {
    return this.page.screenshot({ path: path.join(tools, `${name}.png`) });
  }

  async close() {
    // Requests that a case answers itself may be under way.
    await this.page.unrouteAll({ behavior: "ignoreErrors" });
    await this.context.close();
  }
}
