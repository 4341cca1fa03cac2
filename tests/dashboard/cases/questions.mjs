// Questions of the agent, such as permission requests.

const MARK = ".mark.turn-end";

/** A card that accepts answers. A card that has just appeared does not. */
const OPEN = ".question:not(.fresh)";

async function asked(host, open, scenario = "permission") {
  const { id } = await host.session(scenario);
  const tab = await open(id);
  await tab.page.getByLabel("Prompt", { exact: true }).fill("go");
  await tab.page.keyboard.press("Enter");
  await tab.page.locator(OPEN).waitFor();
  // The focus stays in the prompt. Escape moves it to the question.
  await tab.page.keyboard.press("Escape");
  await tab.page.locator(".question:focus").waitFor();
  return { id, ...tab, tab };
}

export default [
  {
    name: "a question is answered with a click",
    async run({ assert, host, page: open }) {
      const { page, id } = await asked(host, open);
      assert.equal(await page.locator("#pill").textContent(), "needs an answer");
      assert.match(await page.title(), /^\(\d+\)/);
      const { pendingPermissions: [question] } = await host.ask("GET", `/sessions/${id}`);
      assert.match(await page.locator(".question-text").textContent(), new RegExp(question.message));
      const labels = await page.locator(".question bdi").allTextContents();
      assert.deepEqual(labels, question.options.map(option => option.label));
      await page.locator(".question .allow").first().click();
      await page.locator(MARK).waitFor();
      await page.locator(".tool.ok").waitFor();
      assert.equal(await page.locator("#questions").isVisible(), false);
    },
  },
  {
    name: "a stray Enter or a key pressed as the question appears allows nothing",
    async run({ assert, host, page: open }) {
      const { id } = await host.session("permission");
      const { page } = await open(id);
      const sent = [];
      page.on("request", request => request.url().includes("/permissions/") && sent.push(request.postData()));
      // Press keys at the moment the card appears.
      await page.evaluate(() => {
        const root = document.getElementById("cards");
        new MutationObserver(() => {
          if (!root.childElementCount) return;
          document.dispatchEvent(new KeyboardEvent("keydown", { key: "1", bubbles: true }));
          root.querySelector("button").click();
        }).observe(root, { childList: true });
      });
      await page.locator("#transcript").focus();
      await host.ask("POST", `/sessions/${id}/prompt`, { prompt: "go" });
      await page.locator(OPEN).waitFor();
      await page.locator(".question:focus").waitFor();
      await page.keyboard.press("Enter");
      await page.keyboard.press("Space");
      assert.deepEqual(sent, []);
      await page.keyboard.press("Escape");
      await page.locator(MARK).waitFor();
      assert.deepEqual(sent, ['{"cancelled":true}']);
    },
  },
  {
    name: "two questions in a turn are answered with keys",
    async run({ assert, host, page: open }) {
      const { page, id } = await asked(host, open, "permission-twice");
      const first = await page.locator(".question").getAttribute("data-question");
      await page.keyboard.press("9");
      assert.equal(await page.locator(".question").count(), 1, "key 9 must not answer, because there is no ninth option");
      await page.keyboard.press("1");
      await page.waitForFunction(old => {
        const card = document.querySelector(".question:not(.fresh)");
        return card && card.dataset.question !== old;
      }, first);
      const { pendingPermissions: [question] } = await host.ask("GET", `/sessions/${id}`);
      const no = question.options.findIndex(option => option.kind.startsWith("reject"));
      await page.keyboard.press(String(no + 1));
      await page.locator(MARK).waitFor();
      assert.match(await page.locator(".agent").last().textContent(), /You did not allow it/);
    },
  },
  {
    name: "Escape cancels the question, not the session",
    async run({ assert, host, page: open }) {
      const { page, id } = await asked(host, open);
      const sent = page.waitForRequest(request => request.url().includes("/permissions/"));
      await page.keyboard.press("Escape");
      assert.deepEqual(JSON.parse((await sent).postData()), { cancelled: true });
      await page.locator(MARK).waitFor();
      const { status, pendingPermissions } = await host.ask("GET", `/sessions/${id}`);
      assert.equal(status, "running");
      assert.equal(pendingPermissions, undefined);
    },
  },
  {
    name: "several open questions are shown together, and keys answer the first",
    async run({ assert, host, page: open }) {
      const { id } = await host.session("permission");
      const tab = await open(id);
      const { page } = tab;
      // No mock agent asks two questions at once, so the session record is changed to say so.
      const extra = { id: "other", message: "May I do this as well?", options: [{ id: "y", label: "Yes, this" }] };
      const answered = [];
      const more = session => session.pendingPermissions && !answered.includes("other") ? { ...session, pendingPermissions: [...session.pendingPermissions, extra] } : session;
      await page.route(url => /^\/sessions(\/[^/]+)?$/.test(url.pathname), async route => {
        const answer = await route.fetch();
        const json = await answer.json();
        const body = json.sessions ? { sessions: json.sessions.map(more) } : more(json);
        await route.fulfill({ response: answer, json: body });
      });
      await page.route("**/permissions/other", route => {
        answered.push("other");
        return route.fulfill({ json: { ok: true, id } });
      });
      await page.getByLabel("Prompt", { exact: true }).fill("go");
      await page.keyboard.press("Enter");
      await page.locator(OPEN).nth(1).waitFor();
      assert.match(await page.locator(".question").nth(0).innerText(), /Question 1 of 2/);
      assert.equal(await page.locator(".question").nth(1).locator("kbd").count(), 0);
      await page.getByRole("button", { name: "Yes, this" }).click();
      await page.waitForFunction(() => document.querySelectorAll(".question").length === 1);
      await page.locator("#transcript").focus();
      await page.keyboard.press("1");
      await page.locator(MARK).waitFor();
      assert.deepEqual(answered, ["other"]);
    },
  },
  {
    name: "a question of another session is shown in the list",
    async run({ assert, host, page: open }) {
      const { id } = await host.session("permission", { label: "asks elsewhere" });
      const { page } = await open();
      await host.ask("POST", `/sessions/${id}/prompt`, { prompt: "go" });
      await page.locator(`.row.asks[data-id=${id}]`).waitFor();
      assert.match(await page.locator("#chips .calls").textContent(), /Asks\s*[1-9]/);
      await page.locator(`.row[data-id=${id}]`).click();
      await page.locator(`${OPEN} .reject`).first().click();
      await page.locator(MARK).waitFor();
    },
  },
  {
    name: "a question with fields is answered with a form",
    async run({ assert, host, page: open }) {
      const { page, id } = await asked(host, open, "elicitation");
      const sent = [];
      page.on("request", request => request.url().includes("/permissions/") && sent.push(request.postDataJSON()));
      const form = page.locator(".question-form");
      const labels = await form.locator("label span").allTextContents();
      assert.deepEqual(labels.map(label => label.replace(" (optional)", "")).sort(), ["color", "number"]);
      const number = form.getByLabel(/^number/);
      assert.equal(await number.getAttribute("type"), "number");
      await form.getByLabel(/^color/).fill("blue");
      await number.fill("3");
      await form.getByRole("button", { name: "Send the answer" }).click();
      await page.locator(MARK).waitFor();
      assert.deepEqual(sent, [{ content: { color: "blue", number: 3 } }]);
      assert.match(await page.locator("#transcript").innerText(), /3 in blue\./);
      assert.equal(await page.locator("#questions").isVisible(), false);
      const { pendingPermissions = [] } = await host.ask("GET", `/sessions/${id}`);
      assert.equal(pendingPermissions.length, 0);
    },
  },
];
