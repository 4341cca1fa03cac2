// Sessions that are interrupted, killed or forgotten, and their history.

const MARK = ".mark.turn-end";

export default [
  {
    name: "keys interrupt a turn",
    async run({ assert, host, page: open }) {
      const { id } = await host.session("slow");
      const { page } = await open(id);
      for (const [n, key] of ["i", "Escape"].entries()) {
        await page.locator("#composer[data-mode=send]").waitFor();
        await page.locator("#prompt").fill("go");
        await page.keyboard.press("Enter");
        await page.locator(".agent").nth(n).waitFor();
        await page.locator("#interrupt:enabled").waitFor();
        await page.keyboard.press("Escape");
        await page.keyboard.press(key);
        await page.locator(`${MARK}[data-reason=cancelled]`).nth(n).waitFor();
      }
      const { status, turns } = await host.ask("GET", `/sessions/${id}`);
      assert.deepEqual([status, turns], ["running", 2]);
      await host.ask("POST", `/sessions/${id}/kill`);
    },
  },
  {
    name: "kill asks first, then ends the session during its turn",
    async run({ assert, host, page: open }) {
      const { id } = await host.session("slow");
      await host.ask("POST", `/sessions/${id}/prompt`, { prompt: "go" });
      const { page } = await open(id);
      await page.locator(".agent").waitFor();
      await page.getByRole("button", { name: "Kill" }).click();
      const ask = page.getByRole("dialog", { name: /^Kill/ });
      await ask.getByRole("button", { name: "Cancel" }).click();
      assert.equal((await host.ask("GET", `/sessions/${id}`)).status, "running");
      await page.getByRole("button", { name: "Kill" }).click();
      await ask.getByRole("button", { name: "Kill" }).click();
      await page.locator(".mark.ended.killed").waitFor();
      assert.equal(await page.locator(MARK).count(), 1);
      await page.locator("#pill.killed").waitFor();
      assert.equal(await page.getByRole("button", { name: "Kill" }).isVisible(), false);
    },
  },
  {
    name: "forget asks first, then removes the session permanently",
    async run({ assert, host, page: open }) {
      const { id } = await host.session("default", { label: "to be forgotten" });
      const tab = await open(id);
      // The page may still request its status while it is removed.
      tab.expected.push("404");
      const { page } = tab;
      await page.locator(`.row[data-id=${id}]`).waitFor();
      await page.getByRole("button", { name: "Forget" }).click();
      const ask = page.getByRole("dialog", { name: /^Forget “to be forgotten”/ });
      assert.match(await ask.innerText(), /alive and will be killed/);
      await page.keyboard.press("Escape");
      assert.equal((await host.ask("GET", `/sessions/${id}`)).status, "running");
      await page.getByRole("button", { name: "Forget" }).click();
      await ask.getByRole("button", { name: "Forget" }).click();
      await page.locator("#nothing").waitFor();
      await page.locator(`.row[data-id=${id}]`).waitFor({ state: "detached" });
      const { sessions } = await host.ask("GET", "/sessions");
      assert.ok(!sessions.some(session => session.id === id));
    },
  },
  {
    name: "a reload keeps the chosen session and its history",
    async run({ assert, host, page: open }) {
      const { id } = await host.session("default");
      await host.turn(id, "first words");
      await host.turn(id, "use a tool");
      const { page } = await open(id);
      await page.locator(MARK).nth(1).waitFor();
      const before = await page.locator("#transcript").innerText();
      await page.reload();
      await page.locator(MARK).nth(1).waitFor();
      assert.equal(await page.locator("#transcript").innerText(), before);
      assert.deepEqual(await page.locator(".you .text").allTextContents(), ["first words", "use a tool"]);
    },
  },
  {
    name: "a resumable session continues in a new one",
    async run({ assert, host, page: open }) {
      const { id } = await host.session("default");
      await host.turn(id, "remember the pear");
      await host.ask("POST", `/sessions/${id}/kill`);
      const { page } = await open(id);
      await page.getByRole("button", { name: "Resume" }).click();
      await page.waitForFunction(old => !location.hash.includes(old), id);
      await page.locator("#prompt:enabled").fill("what did I say before?");
      await page.keyboard.press("Enter");
      await page.locator(MARK).waitFor();
      assert.match(await page.locator(".agent").last().textContent(), /remember the pear/);
    },
  },
  {
    name: "a session that another client deleted disappears from the page",
    async run({ host, page: open }) {
      const { id } = await host.session("default");
      const tab = await open(id);
      tab.expected.push("404");
      await tab.page.locator(`.row[data-id=${id}]`).waitFor();
      await host.ask("DELETE", `/sessions/${id}`);
      await tab.page.locator("#nothing").waitFor();
      await tab.page.locator(`.row[data-id=${id}]`).waitFor({ state: "detached" });
    },
  },
];
