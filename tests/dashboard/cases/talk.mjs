// Sessions from start to response.

const MARK = ".mark.turn-end";

export default [
  {
    name: "a session starts from the form and responds to its first prompt",
    async run({ assert, host, page: open }) {
      const { page } = await open();
      await page.getByRole("button", { name: "New", exact: true }).click();
      const form = page.getByRole("dialog", { name: "New session" });
      await page.waitForFunction(() => document.querySelectorAll("#new-adapter option").length > 2);
      const offered = await page.locator("#new-adapter option").evaluateAll(all => all.map(one => one.value));
      assert.ok(offered.includes("mock-acp"), String(offered));
      await form.getByLabel("Adapter").selectOption("mock-acp");
      await form.getByLabel("Directory").fill(host.work);
      await form.getByLabel("Label").fill("first of all");
      await form.getByLabel("First prompt").fill("hello from the form");
      await form.getByRole("button", { name: "Start" }).click();
      await page.locator(MARK).waitFor();
      assert.equal(await page.locator("#title").textContent(), "first of all");
      assert.match(await page.locator(".you").textContent(), /hello from the form/);
      assert.match(await page.locator(".agent").textContent(), /hello from the form/);
      const row = page.locator(".row[aria-current]");
      assert.match(await row.textContent(), /first of all.*mock-acp/s);
      assert.match(await page.locator("#facts").textContent(), new RegExp(host.work));
    },
  },
  {
    name: "a workspace is selected in the form and groups its sessions",
    async run({ assert, host, page: open }) {
      const { path } = host.workspace("shop");
      const { page } = await open();
      await page.getByRole("button", { name: "New", exact: true }).click();
      const form = page.getByRole("dialog", { name: "New session" });
      await form.getByLabel("Adapter").selectOption("mock-acp");
      await page.locator("#new-workspace option[value=shop]").waitFor({ state: "attached" });
      await form.getByLabel("Workspace", { exact: true }).selectOption("shop");
      await form.getByText("Options of the adapter").click();
      await form.getByLabel(/^scenario/).fill("thought");
      await form.getByLabel(/^patience/).fill("4");
      await form.getByLabel("First prompt").fill("where am I?");
      await form.getByRole("button", { name: "Start" }).click();
      await page.locator(".thought").waitFor();
      const section = page.locator("#list section", { hasText: "shop" });
      assert.equal(await section.locator(".row").count(), 1);
      assert.match(await page.locator("#facts").textContent(), new RegExp(path));
    },
  },
  {
    name: "a failed start is shown in the form with a hint",
    async run({ assert, host, page: open }) {
      const tab = await open();
      tab.expected.push("404", "422");
      const { page } = tab;
      // An adapter that is removed while the form is open.
      await page.route("**/adapters", async route => {
        const answer = await route.fetch();
        const json = await answer.json();
        await route.fulfill({ response: answer, json: { ...json, adapters: ["nobody", ...json.adapters] } });
      });
      await page.keyboard.press("n");
      const form = page.getByRole("dialog", { name: "New session" });
      await form.getByLabel("Adapter").selectOption("nobody");
      await form.getByRole("button", { name: "Start" }).click();
      const problem = form.locator("#new-problem");
      await problem.waitFor();
      assert.match(await problem.textContent(), /nobody/);
      await form.getByLabel("Adapter").selectOption("mock-acp");
      await form.getByLabel("Directory").fill("/nowhere/at/all");
      await form.getByRole("button", { name: "Start" }).click();
      await page.waitForFunction(() => document.getElementById("new-problem").textContent.includes("/nowhere"));
      assert.ok((await problem.locator("span").textContent()).length > 5, "the hint is missing");
      const { sessions } = await host.ask("GET", "/sessions");
      assert.ok(!sessions.some(session => session.cwd === "/nowhere/at/all"));
    },
  },
  {
    name: "prompts: Enter sends, Shift+Enter does not, and the field stays enabled during a turn",
    async run({ assert, host, page: open }) {
      const { id } = await host.session("default");
      const { page } = await open(id);
      const box = page.getByLabel("Prompt", { exact: true });
      await box.fill("one");
      await page.keyboard.press("Shift+Enter");
      await page.keyboard.type("two");
      await page.keyboard.press("Enter");
      await page.locator(MARK).waitFor();
      assert.match(await page.locator(".you .text").textContent(), /^one\ntwo$/);
      assert.equal(await box.inputValue(), "");
      await page.waitForFunction(() => document.activeElement.id === "prompt");
      await page.keyboard.type("be slow");
      await page.keyboard.press("Enter");
      await page.locator(".agent", { hasText: "slow" }).or(page.locator(".agent").nth(1)).first().waitFor();
      await page.locator("#composer[data-mode=queue]").waitFor();
      assert.equal(await page.locator("#pill").textContent(), "working");
      assert.equal(await page.locator("#send").textContent(), "Queue");
      assert.equal(await box.isEnabled(), true);
      assert.equal(await page.evaluate(() => document.activeElement.id), "prompt");
      await page.getByRole("button", { name: "Interrupt" }).click();
      await page.locator(`${MARK}[data-reason=cancelled]`).waitFor();
      await page.locator("#composer[data-mode=send]").waitFor();
      assert.equal(await page.locator("#pill").textContent(), "ready");
    },
  },
  {
    name: "an overlapping prompt is queued and not lost",
    async run({ assert, host, page: open }) {
      const { id } = await host.session("default");
      const tab = await open(id);
      tab.expected.push("409");
      const { page } = tab;
      // Another client sends its prompt just before.
      await page.route("**/prompt", async route => {
        await host.ask("POST", `/sessions/${id}/prompt`, { prompt: "be slow" });
        await route.continue();
      });
      await page.getByLabel("Prompt", { exact: true }).fill("me too");
      await page.keyboard.press("Enter");
      await page.locator("#queue-list li", { hasText: "me too" }).waitFor();
      await page.unroute("**/prompt");
      await host.ask("POST", `/sessions/${id}/interrupt`);
      await page.locator("#queue.paused").waitFor();
      await page.getByRole("button", { name: "Continue" }).click();
      await page.locator(".you", { hasText: "me too" }).waitFor();
      assert.equal(await page.locator("#queue").isVisible(), false);
      await host.ask("POST", `/sessions/${id}/kill`);
    },
  },
  {
    name: "a refused prompt comes back to the field with the error",
    async run({ assert, host, page: open }) {
      const { id } = await host.session("default");
      const tab = await open(id);
      tab.expected.push("507");
      const { page } = tab;
      await page.route("**/prompt", route => route.fulfill({ status: 507, json: { error: { code: "state_unwritable", message: "the disk is full", hint: "make room" } } }));
      await page.getByLabel("Prompt", { exact: true }).fill("keep me");
      await page.keyboard.press("Enter");
      await page.locator("#composer-problem").waitFor();
      assert.match(await page.locator("#composer-problem").textContent(), /The disk is full\. Make room\./);
      assert.equal(await page.locator("#prompt").inputValue(), "keep me");
      assert.equal(await page.locator("#queue").isVisible(), false);
    },
  },
  {
    name: "thoughts are collapsed, tool calls show arguments, results and failures",
    async run({ assert, host, page: open }) {
      const thinker = await host.session("thought");
      await host.turn(thinker.id, "a riddle");
      const { page } = await open(thinker.id);
      const thought = page.locator(".thought");
      await thought.waitFor();
      assert.equal(await thought.locator(".said").isVisible(), false);
      assert.match(await thought.locator("summary").textContent(), /Let me think about it\./);
      await thought.locator("summary").click();
      assert.match(await thought.locator(".said").innerText(), /Let me think about it\./);
      assert.match(await page.locator(".agent").textContent(), /I thought about: a riddle/);

      const worker = await host.session("tools");
      await host.turn(worker.id, "look");
      await page.locator(`.row[data-id=${worker.id}]`).click();
      await page.locator(MARK).waitFor();
      await page.locator(".tool").nth(2).waitFor();
      const states = await page.locator(".tool").evaluateAll(all => all.map(one => one.className.split(" ").pop()));
      assert.deepEqual(states, ["ok", "failed", "ok"]);
      const [read, search] = [page.locator(".tool").nth(0), page.locator(".tool").nth(1)];
      await read.locator("summary").click();
      await read.locator(".parts pre").nth(1).waitFor();
      assert.match(await read.locator(".parts").innerText(), /Arguments\s+\{\s+"path": "notes\.txt"\s+\}\s+Result\s+\{\s+"lines": 1/);
      assert.match(await search.locator("summary").innerText(), /Search the web[\s\S]*there is no network/);
      const texts = await page.locator(".agent").allInnerTexts();
      assert.deepEqual(texts.map(text => text.trim()), ["I look around.", "One note; no weather."]);
    },
  },
  {
    name: "an agent crash is shown with its error and exit code",
    async run({ assert, host, page: open }) {
      const { id } = await host.session("crash");
      const { page } = await open(id);
      await page.getByLabel("Prompt", { exact: true }).fill("go");
      await page.keyboard.press("Enter");
      await page.locator(".mark.ended.error").waitFor();
      assert.match(await page.locator(".failure").textContent(), /exited.*3/);
      assert.match(await page.locator(".mark.ended").textContent(), /exit code 3/);
      assert.equal(await page.locator(MARK).count(), 1);
      assert.equal(await page.locator(".stderr").count(), 0, "the error is shown twice");
      await page.locator("#pill.error").waitFor();
      assert.equal(await page.locator("#composer").isVisible(), false);
    },
  },
  {
    name: "raw lines match the output of the session",
    async run({ assert, host, page: open }) {
      const { id } = await host.session("tools");
      await host.turn(id, "look");
      const { page } = await open(id);
      await page.getByRole("tab", { name: "Raw lines" }).click();
      await page.locator(".is-turn-end").waitFor();
      const shown = await page.locator(".line").allTextContents();
      const { lines } = await host.ask("GET", `/sessions/${id}/output`);
      assert.deepEqual(shown, lines);
      await page.keyboard.press("t");
      await page.locator(".tool").first().waitFor();
      assert.equal(await page.locator(".line").count(), 0);
    },
  },
];
