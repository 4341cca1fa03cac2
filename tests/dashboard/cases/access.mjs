// Keyboard only, screen reader, phone.

const MARK = ".mark.turn-end";
const focused = page => page.evaluate(() => document.activeElement.id || document.activeElement.dataset.id || document.activeElement.localName);

export default [
  {
    name: "the whole page works with the keyboard only",
    async run({ assert, host, tab }) {
      const one = await tab();
      const { page } = one;
      const press = (...keys) => keys.reduce((before, key) => before.then(() => page.keyboard.press(key)), Promise.resolve());
      await page.goto(host.url);
      await page.locator("#login-token:focus").waitFor();
      await page.keyboard.type(host.token);
      await press("Enter");
      await page.locator("#app").waitFor();
      await press("?");
      await page.getByRole("dialog", { name: "Keys" }).waitFor();
      await press("Escape");
      await page.getByRole("dialog", { name: "Keys" }).waitFor({ state: "hidden" });
      const labels = ["walk one", "walk two"];
      for (const label of labels) {
        await press("n");
        await page.locator("#new-adapter:focus").waitFor();
        await page.waitForFunction(() => document.querySelectorAll("#new-adapter option").length > 0);
        await page.keyboard.type("mock-acp");
        await press("Tab", "Tab");
        await page.keyboard.type(label);
        await press("Enter");
        await page.locator("#new").waitFor({ state: "hidden" });
        await page.waitForFunction(name => document.getElementById("title").textContent === name, label);
        // Once the agent is ready, the prompt field has the focus.
        await page.locator("#prompt:focus").waitFor();
        await page.keyboard.type("hello " + label);
        await press("Enter");
        await page.locator(MARK).waitFor();
        await page.locator("#prompt:focus").waitFor();
        await press("Escape");
      }
      await press("/");
      assert.equal(await focused(page), "filter");
      await page.keyboard.type("walk");
      await page.waitForFunction(() => document.querySelectorAll(".row").length === 2);
      await press("Escape", "Escape");
      await press("/");
      await page.keyboard.type("walk");
      await press("Enter");
      await page.waitForFunction(() => document.querySelectorAll(".row").length === 2);
      const title = () => page.locator("#title").textContent();
      const first = await title();
      await press("j");
      const second = await title();
      await press("k");
      assert.equal(await title(), first);
      await press("ArrowDown");
      assert.equal(await title(), second);
      assert.notEqual(first, second);
      assert.deepEqual([first, second].sort(), labels);
      await press("Enter");
      await page.locator("#prompt:focus").waitFor();
      await page.keyboard.type("be slow");
      await press("Enter");
      await page.locator("#interrupt:enabled").waitFor();
      await press("Escape", "i");
      await page.locator(`${MARK}[data-reason=cancelled]`).waitFor();
      // Move the focus from the prompt back to the Kill button.
      await press("Enter");
      await page.locator("#prompt:focus").waitFor();
      for (let n = 0; n < 20 && await focused(page) !== "kill"; n++) await press("Shift+Tab");
      await press("Enter");
      await page.getByRole("dialog", { name: /^Kill/ }).waitFor();
      await press("Tab", "Enter");
      await page.locator("#pill.killed").waitFor();
    },
  },
  {
    name: "keys do nothing while typing, and can be disabled",
    async run({ assert, host, page: open }) {
      const { id } = await host.session("default");
      const { page } = await open(id);
      await page.locator("#prompt:enabled").click();
      await page.keyboard.type("nijk/?1t");
      assert.equal(await page.locator("#prompt").inputValue(), "nijk/?1t");
      assert.equal(await page.locator("dialog[open]").count(), 0);
      await page.keyboard.press("Escape");
      await page.keyboard.press("?");
      await page.getByLabel("Enable single-key shortcuts").uncheck();
      await page.keyboard.press("Escape");
      await page.keyboard.press("n");
      assert.equal(await page.locator("dialog[open]").count(), 0);
      await page.reload();
      await page.locator("#app").waitFor();
      await page.keyboard.press("n");
      assert.equal(await page.locator("dialog[open]").count(), 0);
    },
  },
  {
    name: "typing is not read as shortcuts when another client starts a turn or ends the session",
    async run({ assert, host, page: open }) {
      const { id } = await host.session("slow");
      const { page } = await open(id);
      await page.locator("#prompt:enabled").click();
      await page.keyboard.type("a sentence");
      await host.ask("POST", `/sessions/${id}/prompt`, { prompt: "go" });
      await page.locator("#composer[data-mode=queue]").waitFor();
      await page.keyboard.type(" in 1 go");
      assert.equal(await page.locator("dialog[open]").count(), 0);
      assert.equal((await host.ask("GET", `/sessions/${id}`)).busy, true);
      assert.equal(await page.locator("#prompt").inputValue(), "a sentence in 1 go");
      await host.ask("POST", `/sessions/${id}/kill`);
      // The field disappears while the user types. The rest of the text does nothing.
      await page.keyboard.type("x");
      await page.locator("#composer").waitFor({ state: "hidden" });
      await page.keyboard.type("nnnn?b", { delay: 30 });
      assert.equal(await page.locator("dialog[open]").count(), 0);
      assert.equal(await page.locator("#board").isVisible(), false);
    },
  },
  {
    name: "filter and chips find sessions",
    async run({ assert, host, page: open }) {
      const alive = await host.session("default", { label: "needle alpha" });
      const ended = await host.session("default", { label: "needle beta" });
      await host.ask("POST", `/sessions/${ended.id}/kill`);
      const { page } = await open();
      const rows = wanted => page.waitForFunction(ids => {
        const shown = [...document.querySelectorAll(".row")].map(row => row.dataset.id);
        return shown.length === ids.length && ids.every(id => shown.includes(id));
      }, wanted);
      await page.getByLabel("Filter sessions").fill("needle");
      await rows([alive.id, ended.id]);
      const heads = await page.locator("#list h3").allTextContents();
      assert.deepEqual(heads, ["Live", "Ended"]);
      await page.getByRole("button", { name: /^Live/ }).click();
      await rows([alive.id]);
      await page.getByRole("button", { name: /^Ended/ }).click();
      await rows([ended.id]);
      await page.getByRole("button", { name: /^All/ }).click();
      await page.getByLabel("Filter sessions").fill("needle BETA killed");
      await rows([ended.id]);
      await page.getByLabel("Filter sessions").fill("needle gamma");
      await rows([]);
      assert.match(await page.locator("#list").textContent(), /Nothing matches/);
    },
  },
  {
    name: "ten thousand sessions do not make a long list",
    async run({ assert, page: open }) {
      const { page } = await open();
      const session = n => ({
        id: `ses_${n}`, adapterSlug: "mock-acp", workspaceSlug: "default", cwd: "/", status: n < 5 ? "running" : "exited",
        startedAt: new Date(Date.UTC(2024, 0, 1) - n * 1000).toISOString(), label: `number ${n}`,
      });
      const sessions = Array.from({ length: 10_000 }, (_, n) => session(n));
      await page.route(url => url.pathname === "/sessions", route => {
        const alive = new URL(route.request().url()).searchParams.has("alive");
        return route.fulfill({ json: { sessions: alive ? sessions.slice(0, 5) : sessions } });
      });
      await page.reload();
      await page.waitForFunction(() => document.querySelectorAll(".row").length === 300);
      assert.deepEqual(await page.locator(".row-name").evaluateAll(all => all.slice(0, 6).map(one => one.textContent)), [0, 1, 2, 3, 4, 5].map(n => `number ${n}`));
      await page.getByRole("button", { name: "9700 more" }).click();
      await page.waitForFunction(() => document.querySelectorAll(".row").length === 600);
      await page.getByLabel("Filter sessions").fill("number 9999");
      await page.waitForFunction(() => document.querySelectorAll(".row").length === 1);
    },
  },
  {
    name: "a phone shows the list or the session, and Back works",
    async run({ assert, host, page: open }) {
      const { id } = await host.session("tools", { label: "on the phone" });
      await host.turn(id, "look");
      const { page } = await open("", { viewport: { width: 375, height: 700 }, hasTouch: true, isMobile: true });
      assert.equal(await page.locator("#detail").isVisible(), false);
      const isWide = () => page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
      assert.equal(await isWide(), false);
      await page.locator(`.row[data-id=${id}]`).tap();
      await page.locator(".tool").nth(2).waitFor();
      assert.equal(await page.locator("#list").isVisible(), false);
      assert.equal(await isWide(), false);
      const sizes = await page.locator("#session button:visible").evaluateAll(all => all.map(one => one.getBoundingClientRect().height));
      assert.ok(sizes.every(height => height >= 32), `buttons are too small for touch: ${sizes}`);
      await page.getByRole("button", { name: "Back to the list" }).tap();
      await page.locator("#list").waitFor();
      await page.goBack();
      await page.locator("#session").waitFor();
      await page.goBack();
      await page.locator("#list").waitFor();
    },
  },
  {
    name: "accessibility: names, roles and contrast in light and dark mode",
    async run({ assert, host, page: open }) {
      const worker = await host.session("tools", { label: "for every eye" });
      await host.turn(worker.id, "look");
      const { id } = await host.session("permission");
      await host.ask("POST", `/sessions/${id}/prompt`, { prompt: "go" });
      for (const colorScheme of ["light", "dark"]) {
        const tab = await open(worker.id, { colorScheme });
        const { page } = tab;
        await page.locator(MARK).waitFor();
        assert.deepEqual(await tab.barriers(), [], `${colorScheme}, transcript`);
        await page.locator(`.row[data-id=${id}]`).click();
        await page.locator(".question").waitFor();
        assert.deepEqual(await tab.barriers(), [], `${colorScheme}, question`);
        await page.getByRole("button", { name: "New", exact: true }).click();
        await page.locator("#new").waitFor();
        assert.deepEqual(await tab.barriers(), [], `${colorScheme}, form`);
        await page.keyboard.press("Escape");
        await page.getByRole("button", { name: "Sign out" }).click();
        await page.getByLabel("Token").waitFor();
        assert.deepEqual(await tab.barriers(), [], `${colorScheme}, sign-in page`);
      }
      await host.ask("POST", `/sessions/${id}/kill`);
    },
  },
  {
    name: "a screen reader announces questions and turn ends",
    async run({ assert, host, page: open }) {
      const { id } = await host.session("permission");
      const { page } = await open(id);
      await page.evaluate(() => {
        window.heard = [];
        new MutationObserver(() => window.heard.push(document.getElementById("said").textContent))
          .observe(document.getElementById("said"), { childList: true, characterData: true, subtree: true });
      });
      await page.locator("#prompt").fill("go");
      await page.keyboard.press("Enter");
      await page.locator(".question:not(.fresh)").waitFor();
      await page.keyboard.press("Escape");
      await page.keyboard.press("1");
      await page.locator(MARK).waitFor();
      const heard = (await page.evaluate(() => window.heard)).join("\n");
      assert.match(heard, /The agent asks: .+/);
      assert.match(heard, /Answered: .+/);
      assert.match(heard, /Turn ended\. .+/);
      assert.equal(await page.locator("#transcript").getAttribute("role"), "log");
    },
  },
];
