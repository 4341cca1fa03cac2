// The form with the fields of an adapter, search, export, rename, palette, board, notifications.

import { readFileSync } from "node:fs";
import { stream } from "./content.mjs";

const MARK = ".mark.turn-end";
const OPEN = ".question:not(.fresh)";

const DETAILS = {
  modes: [{ id: "plan", description: "Only plans." }, { id: "code" }],
  options: [
    { id: "verbose", type: "boolean", default: false, description: "Say more." },
    { id: "effort", type: "enum", values: ["low", "high"], default: "low" },
    { id: "steps", type: "integer", min: 1, max: 9 },
    { id: "note", type: "string" },
  ],
  models: { default: "small", allowed: ["small", "large"] },
};

export default [
  {
    name: "modes, options and models of an adapter are fields",
    async run({ assert, page: open }) {
      const { page } = await open();
      await page.route("**/adapters", route => route.fulfill({ json: { adapters: ["coder", "plain"], details: { coder: DETAILS } } }));
      const sent = [];
      await page.route("**/sessions/agent", route => {
        sent.push(route.request().postDataJSON());
        return route.fulfill({ status: 201, json: { id: "ses_none", adapterSlug: "coder", workspaceSlug: "default", cwd: "/", status: "running", startedAt: new Date().toISOString() } });
      });
      await page.route("**/sessions/ses_none**", route => route.fulfill({ json: { id: "ses_none", adapterSlug: "coder", workspaceSlug: "default", cwd: "/", status: "running", startedAt: new Date().toISOString(), turns: 0 } }));
      await page.keyboard.press("n");
      const form = page.getByRole("dialog", { name: "New session" });
      await form.getByLabel("Adapter", { exact: true }).selectOption("plain");
      await form.getByText("Options of the adapter").click();
      await form.getByLabel("name=value").waitFor();
      await form.getByLabel("Adapter", { exact: true }).selectOption("coder");
      assert.equal(await form.getByLabel("name=value").isVisible(), false);
      assert.equal(await form.getByLabel("verbose").getAttribute("type"), "checkbox");
      assert.equal(await form.getByLabel("steps").getAttribute("max"), "9");
      await form.getByLabel("Mode", { exact: true }).selectOption("plan");
      await form.getByLabel("Model", { exact: true }).selectOption("large");
      await form.getByLabel("verbose").check();
      await form.getByLabel("effort").selectOption("high");
      await form.getByLabel("steps").fill("3");
      await form.getByLabel("When the agent asks").selectOption("deny");
      await form.getByLabel("First prompt").fill("go");
      await page.keyboard.press("Control+Enter");
      await form.waitFor({ state: "hidden" });
      assert.deepEqual(sent, [{ adapter: "coder", prompt: "go", mode: "plan", model: "large", permissions: "deny", options: { verbose: true, effort: "high", steps: 3 } }]);
    },
  },
  {
    name: "search finds text over several elements, counts it and moves to it",
    async run({ assert, host, page: open }) {
      const { id } = await host.session("default");
      const { page } = await open();
      const filler = Array.from({ length: 200 }, (_, n) => `filler ${n}`).join("\n\n");
      await stream(page, [["event", { type: "text-delta", text: `the **Needle** in bold\n\n${filler}\n\nneedle two and NEEDLE three` }], ["event", { type: "turn-end", reason: "end_turn" }],
        ["event", { type: "thought", text: "a hidden needle in bold" }], ["event", { type: "turn-end", reason: "end_turn" }]]);
      await page.locator(`.row[data-id=${id}]`).click();
      await page.locator(".agent .md").waitFor();
      await page.locator("#transcript").focus();
      await page.keyboard.press("f");
      const count = page.locator("#find-count");
      await page.keyboard.type("needle");
      await page.waitForFunction(() => document.getElementById("find-count").textContent === "4 matches");
      await page.keyboard.press("Enter");
      assert.equal(await count.textContent(), "1 of 4");
      const isSeen = () => page.locator(".agent strong").evaluate(node => {
        const [box, pane] = [node.getBoundingClientRect(), document.getElementById("transcript").getBoundingClientRect()];
        return box.top >= pane.top && box.bottom <= pane.bottom;
      });
      assert.ok(await isSeen());
      await page.keyboard.press("Shift+Enter");
      assert.equal(await count.textContent(), "4 of 4");
      assert.equal(await page.locator(".thought").evaluate(node => node.open), true);
      await page.locator("#find-input").fill("needle in bold");
      await page.waitForFunction(() => document.getElementById("find-count").textContent === "2 matches");
      assert.match(await page.locator("#find-more").innerText(), /not loaded.*Load the whole history/s);
      await page.locator("#find-input").fill("absent");
      await page.waitForFunction(() => document.getElementById("find-count").textContent === "Nothing found");
      await page.keyboard.press("Escape");
      assert.equal(await page.locator("#find").isVisible(), false);
      assert.equal(await page.evaluate(() => document.activeElement.id), "transcript");
    },
  },
  {
    name: "a session is exported as Markdown and as JSON",
    async run({ assert, host, page: open }) {
      const { id } = await host.session("tools", { label: "Export <me>/now" });
      await host.turn(id, "look ```here");
      const { page } = await open(id);
      await page.locator(MARK).waitFor();
      const save = async name => {
        await page.getByRole("button", { name: "More" }).click();
        const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name }).click()]);
        return [file.suggestedFilename(), readFileSync(await file.path(), "utf8")];
      };
      const [mdName, md] = await save("Export as Markdown");
      assert.equal(mdName, `Export-me-now-${id.slice(-6)}.md`);
      assert.match(md, /^# Export <me>\/now\n/);
      for (const part of ["## You\n\nlook ```here", "## Agent\n\nI look around.", "**Tool:** Search the web", "there is no network", "*Turn ended*"]) assert.ok(md.includes(part), `${part} in ${md}`);
      const [jsonName, text] = await save("Export as JSON");
      assert.equal(jsonName, `Export-me-now-${id.slice(-6)}.json`);
      const json = JSON.parse(text);
      assert.equal(json.session.id, id);
      assert.equal(json.complete, true);
      const { events } = await host.ask("GET", `/sessions/${id}/events?limit=1000`);
      assert.deepEqual(json.events, events);
    },
  },
  {
    name: "a session is renamed, also after its end",
    async run({ assert, host, page: open }) {
      const { id } = await host.session("default", { label: "old name" });
      await host.ask("POST", `/sessions/${id}/kill`);
      const { page } = await open(id);
      await page.getByRole("button", { name: "More" }).click();
      await page.getByRole("button", { name: "Rename" }).click();
      const box = page.getByRole("dialog", { name: "Rename" }).getByLabel("Label");
      assert.equal(await box.inputValue(), "old name");
      await box.fill("new name");
      await page.keyboard.press("Enter");
      await page.locator(`.row[data-id=${id}]`, { hasText: "new name" }).waitFor();
      assert.equal((await host.ask("GET", `/sessions/${id}`)).label, "new name");
      assert.equal(await page.locator("#title").textContent(), "new name");
    },
  },
  {
    name: "the palette has all actions and sessions",
    async run({ assert, host, page: open }) {
      const first = await host.session("default", { label: "palette alpha" });
      const second = await host.session("default", { label: "palette beta" });
      const { page } = await open(first.id);
      // It also opens while the user types.
      await page.locator("#prompt").fill("a draft");
      await page.keyboard.press("Control+k");
      const box = page.getByRole("combobox", { name: "Action or session" });
      await page.locator("#palette-input:focus").waitFor();
      const names = await page.getByRole("option").allTextContents();
      for (const name of ["New session", "Rename the session", "Export as JSON", "Kill the session", "Board of all live sessions", "Help and settings"]) assert.ok(names.some(text => text.startsWith(name)), `${name}: ${names}`);
      await page.keyboard.type("palette");
      await page.keyboard.press("ArrowDown");
      assert.equal(await box.getAttribute("aria-activedescendant"), await page.locator("[role=option][aria-selected=true]").getAttribute("id"));
      await box.fill("palette beta");
      assert.equal(await page.getByRole("option").count(), 1);
      await page.keyboard.press("Enter");
      await page.waitForFunction(id => location.hash.includes(id), second.id);
      await page.keyboard.press("Control+k");
      await box.fill("help and");
      await page.keyboard.press("Enter");
      await page.getByRole("dialog", { name: "Keys" }).waitFor();
    },
  },
  {
    name: "the board shows all live sessions and answers their questions",
    async run({ assert, host, page: open }) {
      const { id } = await host.session("permission", { label: "board asks" });
      const quiet = await host.session("default", { label: "board quiet" });
      await host.turn(quiet.id, "words for the card");
      const { page } = await open();
      await host.ask("POST", `/sessions/${id}/prompt`, { prompt: "go" });
      await page.keyboard.press("b");
      const card = page.locator(`.card[data-id=${id}]`);
      await card.locator(".card-asks button").first().waitFor();
      assert.match(await card.innerText(), /board asks[\s\S]*needs an answer/);
      await page.locator(`.card[data-id=${quiet.id}] .card-text`, { hasText: "words for the card" }).waitFor();
      await card.getByRole("button", { name: "Allow", exact: true }).click();
      await host.until(id, session => !session.busy);
      await page.locator(`.card.ready[data-id=${id}]`).waitFor();
      assert.equal(await card.locator(".card-asks button").count(), 0);
      await host.ask("POST", `/sessions/${quiet.id}/kill`);
      await page.locator(`.card[data-id=${quiet.id}]`).waitFor({ state: "detached" });
      await card.getByRole("link", { name: "board asks" }).click();
      await page.waitForFunction(id => document.getElementById("session-id").textContent === id, id);
      assert.equal(await page.locator("#board").isVisible(), false);
      await page.goBack();
      await card.waitFor();
    },
  },
  {
    name: "notifications are sent only if the user wants them and the page is hidden",
    async run({ assert, host, tab: newTab }) {
      const tab = await newTab();
      const { page, context } = tab;
      await context.grantPermissions(["notifications"]);
      await page.addInitScript(() => {
        window.notes = [];
        window.isHidden = false;
        Object.defineProperty(document, "hidden", { get: () => window.isHidden });
        window.Notification = class {
          static permission = "granted";
          static requestPermission = () => Promise.resolve("granted");
          constructor(title, options) { window.notes.push([title, options.body]); }
        };
      });
      const { id } = await host.session("permission", { label: "notes" });
      await tab.signIn(host.token);
      const notes = () => page.evaluate(() => window.notes);
      const hide = isHidden => page.evaluate(value => { window.isHidden = value; document.dispatchEvent(new Event("visibilitychange")); }, isHidden);
      const asked = async () => {
        await host.ask("POST", `/sessions/${id}/prompt`, { prompt: "go" });
        await host.until(id, session => session.pendingPermissions?.length);
        await page.locator(`.row.asks[data-id=${id}]`).waitFor();
      };
      const answer = async () => {
        const { pendingPermissions: [question] } = await host.ask("GET", `/sessions/${id}`);
        await host.ask("POST", `/sessions/${id}/permissions/${question.id}`, { cancelled: true });
        await page.locator(`.row.ready[data-id=${id}]`).waitFor();
      };
      await asked();
      await hide(true);
      await answer();
      assert.deepEqual(await notes(), []);
      await hide(false);
      await page.keyboard.press("?");
      await page.getByLabel("Notify me").check();
      await page.keyboard.press("Escape");
      await asked();
      assert.deepEqual(await notes(), [], "the page is visible");
      await answer();
      await hide(true);
      await asked();
      await answer();
      const sent = await notes();
      assert.equal(sent[0][0], "notes: needs an answer");
      assert.match(sent[0][1], /permission/);
      assert.deepEqual(sent[1], ["notes: turn ended", ""]);
      assert.equal(sent.length, 2);
    },
  },
  {
    name: "a resumed session links to the former one, and kill says that it can be resumed",
    async run({ assert, host, page: open }) {
      const { id } = await host.session("default", { label: "former" });
      await host.turn(id, "remember");
      const { page } = await open(id);
      await page.getByRole("button", { name: "Kill" }).click();
      const ask = page.getByRole("dialog", { name: /^Kill/ });
      assert.match(await ask.innerText(), /can be resumed later/);
      await ask.getByRole("button", { name: "Kill" }).click();
      await page.getByRole("button", { name: "Resume" }).click();
      const link = page.locator("#facts a");
      await link.waitFor();
      assert.equal(await link.textContent(), "former");
      await link.click();
      await page.waitForFunction(id => document.getElementById("session-id").textContent === id, id);
    },
  },
  {
    name: "on a phone a question leaves room for the newest rows and can be folded",
    async run({ assert, host, page: open }) {
      const { id } = await host.session("permission");
      const { page } = await open("", { viewport: { width: 390, height: 700 }, hasTouch: true, isMobile: true });
      // A question with a long text and a long tool call.
      const long = question => ({ ...question, message: "Really? ".repeat(100), tool: { name: "Edit", input: { text: Array(100).fill("line") } } });
      await page.route(url => url.pathname === `/sessions/${id}`, async route => {
        const answer = await route.fetch();
        const json = await answer.json();
        await route.fulfill({ response: answer, json: { ...json, pendingPermissions: json.pendingPermissions?.map(long) } });
      });
      await page.locator(`.row[data-id=${id}]`).tap();
      await host.ask("POST", `/sessions/${id}/prompt`, { prompt: "go" });
      await page.locator(OPEN).waitFor();
      const height = selector => page.locator(selector).evaluate(node => node.getBoundingClientRect().height);
      const before = await height("#transcript");
      assert.ok(before >= 120, `the transcript has ${before} pixels`);
      const isLastSeen = await page.evaluate(() => {
        const [last, pane] = [document.querySelector("#transcript").lastElementChild.previousElementSibling.getBoundingClientRect(), document.getElementById("transcript").getBoundingClientRect()];
        return last.bottom <= pane.bottom + 1;
      });
      assert.ok(isLastSeen, "the newest row is hidden");
      const toggle = page.getByRole("button", { name: "Hide" });
      await toggle.tap();
      assert.equal(await page.locator(".question").isVisible(), false);
      assert.ok(await height("#transcript") > before + 50);
      await page.getByRole("button", { name: "Show" }).tap();
      await page.locator(".question .allow").first().tap();
      await page.locator(MARK).waitFor();
    },
  },
];
