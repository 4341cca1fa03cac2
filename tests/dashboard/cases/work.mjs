// The draft, the queue of prompts, and keys while the user types.

const MARK = ".mark.turn-end";
const queued = page => page.locator("#queue-list li");
const add = async (page, text) => {
  await page.locator("#prompt").fill(text);
  await page.keyboard.press("Enter");
};

/** A session whose turns take about a second, or fail. */
async function worker(host) {
  const name = host.scenario("worker.yaml", `name: worker
turns:
  - when: { contains: fail }
    steps: [{ exit: 3 }]
  - when: { contains: long }
    steps:
      - repeat: { times: 200, steps: [{ text: "tick " }, { delay_ms: 100 }] }
  - when: any
    steps:
      - repeat: { times: 8, steps: [{ text: "tick " }, { delay_ms: 100 }] }
      - text: "Done: {prompt}"
`);
  return host.session(name);
}

export default [
  {
    name: "prompts are queued while the agent works, and sent one per turn",
    async run({ assert, host, page: open }) {
      const { id } = await worker(host);
      const { page } = await open(id);
      await add(page, "one");
      await page.locator(".agent").first().waitFor();
      await add(page, "two");
      await add(page, "three");
      await queued(page).nth(1).waitFor();
      assert.match(await page.locator("#queue").innerText(), /2 queued prompts\s+Sent one per turn\./);
      assert.equal(await page.evaluate(() => document.activeElement.id), "prompt");
      await page.locator(MARK).nth(2).waitFor();
      assert.deepEqual(await page.locator(".you .text").allTextContents(), ["one", "two", "three"]);
      await page.locator("#queue").waitFor({ state: "hidden" });
      assert.equal((await host.ask("GET", `/sessions/${id}`)).turns, 3);
    },
  },
  {
    name: "a queued prompt is edited, moved and removed",
    async run({ assert, host, page: open }) {
      const { id } = await worker(host);
      const { page } = await open(id);
      await add(page, "long");
      await page.locator("#composer[data-mode=queue]").waitFor();
      for (const text of ["first", "second", "third"]) await add(page, text);
      await page.getByRole("button", { name: "Remove queued prompt 1" }).click();
      await page.getByRole("button", { name: "Send earlier: queued prompt 2" }).click();
      assert.deepEqual(await page.locator(".queued").allTextContents(), ["third", "second"]);
      // The arrow key edits the last one.
      await page.locator("#prompt").focus();
      await page.keyboard.press("ArrowUp");
      await page.locator("#queue-list textarea:focus").waitFor();
      await page.keyboard.type(" (edited)");
      await page.keyboard.press("Enter");
      assert.deepEqual(await page.locator(".queued").allTextContents(), ["third", "second (edited)"]);
      assert.equal(await page.evaluate(() => document.activeElement.id), "prompt");
      await host.ask("POST", `/sessions/${id}/kill`);
    },
  },
  {
    name: "the queue pauses after an interrupted turn and says so",
    async run({ assert, host, page: open }) {
      const { id } = await worker(host);
      const { page } = await open(id);
      await add(page, "long");
      await page.locator("#composer[data-mode=queue]").waitFor();
      await add(page, "after it");
      await page.getByRole("button", { name: "Interrupt" }).click();
      await page.locator("#queue.paused").waitFor();
      assert.match(await page.locator("#queue").innerText(), /Paused: the turn was interrupted\./);
      // The user can say something else first.
      await add(page, "wait");
      await page.locator(MARK).nth(1).waitFor();
      await page.waitForTimeout(2500);
      assert.deepEqual(await page.locator(".you .text").allTextContents(), ["long", "wait"]);
      await page.getByRole("button", { name: "Continue" }).click();
      await page.locator(MARK).nth(2).waitFor();
      assert.deepEqual(await page.locator(".you .text").allTextContents(), ["long", "wait", "after it"]);
    },
  },
  {
    name: "draft and queue survive a reload and belong to their session",
    async run({ assert, host, page: open }) {
      const { id } = await worker(host);
      const other = await worker(host);
      const { page } = await open(id);
      await add(page, "long");
      await page.locator("#composer[data-mode=queue]").waitFor();
      await add(page, "next");
      await page.keyboard.type("half a thou");
      await page.reload();
      await queued(page).first().waitFor();
      assert.equal(await page.locator("#prompt").inputValue(), "half a thou");
      await page.locator(`.row[data-id=${other.id}]`).click();
      await page.waitForFunction(() => document.getElementById("prompt").value === "");
      assert.equal(await page.locator("#queue").isVisible(), false);
      // The queue of a session that is not shown is sent too.
      await host.ask("POST", `/sessions/${id}/interrupt`);
      await page.locator(`.row.ready[data-id=${id}]`).waitFor();
      await page.locator(`.row[data-id=${id}]`).click();
      await page.locator("#queue.paused").waitFor();
      await page.getByRole("button", { name: "Continue" }).click();
      await page.locator(`.row[data-id=${other.id}]`).click();
      await host.until(id, session => session.turns === 2 && !session.busy);
      await page.getByRole("button", { name: "Sign out" }).click();
      const kept = await page.evaluate(() => JSON.stringify({ ...sessionStorage }));
      assert.ok(!kept.includes("half a thou"), kept);
    },
  },
  {
    name: "a lost response does not send a queued prompt twice",
    async run({ assert, host, page: open }) {
      const { id } = await worker(host);
      const tab = await open(id);
      tab.expected.push("ERR_");
      const { page } = tab;
      await add(page, "one");
      await page.locator("#composer[data-mode=queue]").waitFor();
      let sent = 0;
      await page.route("**/prompt", async route => {
        sent += 1;
        await route.fetch();
        await route.abort();
      });
      await add(page, "two");
      await page.locator(MARK).nth(1).waitFor();
      await page.locator("#queue").waitFor({ state: "hidden" });
      await page.waitForTimeout(3000);
      assert.equal(sent, 1);
      assert.deepEqual(await page.locator(".you .text").allTextContents(), ["one", "two"]);
    },
  },
  {
    name: "a duplicated tab does not send the queue again",
    async run({ assert, host, page: open }) {
      const { id } = await worker(host);
      const { page, context } = await open(id);
      await add(page, "long");
      await page.locator("#composer[data-mode=queue]").waitFor();
      await add(page, "only once");
      await page.waitForTimeout(500);
      const stored = await page.evaluate(() => ({ ...sessionStorage }));
      const copy = await context.newPage();
      await copy.addInitScript(all => Object.entries(all).forEach(([name, value]) => sessionStorage.setItem(name, value)), stored);
      await copy.goto(page.url());
      await copy.locator("#queue.paused").waitFor();
      assert.match(await copy.locator("#queue").innerText(), /another tab has the same queue/);
      assert.equal(await page.locator("#queue.paused").count(), 0);
      await host.ask("POST", `/sessions/${id}/kill`);
    },
  },
  {
    name: "digits answer only on the question and the transcript, and not in a draft",
    async run({ assert, host, page: open }) {
      const { id } = await host.session("permission");
      const { page } = await open(id);
      const sent = [];
      page.on("request", request => request.url().includes("/permissions/") && sent.push(request.postData()));
      await add(page, "go");
      await page.locator(".question:not(.fresh)").waitFor();
      assert.equal(await page.evaluate(() => document.activeElement.id), "prompt");
      await page.keyboard.type("1 more thing, 2 in fact");
      assert.equal(await page.locator("#prompt").inputValue(), "1 more thing, 2 in fact");
      await page.locator(`.row[data-id=${id}]`).focus();
      await page.keyboard.press("1");
      await page.locator("#kill").focus();
      await page.keyboard.press("1");
      assert.deepEqual(sent, []);
      await page.locator("#transcript").focus();
      await page.keyboard.press("1");
      await page.locator(MARK).waitFor();
      assert.equal(sent.length, 1);
      assert.equal(await page.locator("#prompt").inputValue(), "1 more thing, 2 in fact");
    },
  },
  {
    name: "Escape leaves the filter also when it is empty and no session is selected",
    async run({ assert, page: open }) {
      const { page } = await open();
      await page.keyboard.press("/");
      assert.equal(await page.evaluate(() => document.activeElement.id), "filter");
      await page.keyboard.press("Escape");
      assert.notEqual(await page.evaluate(() => document.activeElement.id), "filter");
      await page.keyboard.press("?");
      await page.getByRole("dialog", { name: "Keys" }).waitFor();
    },
  },
];
