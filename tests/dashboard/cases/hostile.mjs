// Untrusted output is always shown as text, whatever it contains and however long it is.

const MARK = ".mark.turn-end";

const TEXT = String.raw`<script>document.title='owned'</script><img src=x onerror="document.title='owned'"> `
  + String.raw`\e[31mred\e[0m \e]0;title\a\e[2J\b\0 \u202Egnp.exe\u202C [x](javascript:alert(1)) https://elsewhere.example/ end of it`;

export default [
  {
    name: "markup, escape sequences and bidirectional text are shown as plain text",
    async run({ assert, host, page: open }) {
      const name = host.scenario("hostile.yaml", `name: hostile
turns:
  - when: any
    steps:
      - thought: ["${TEXT.replaceAll('"', '\\"')}"]
      - tool_call: { id: t, title: "${TEXT.replaceAll('"', '\\"')}", kind: read, input: { path: "<b>bold</b>" } }
      - tool_update: { id: t, status: completed, text: "<iframe src='https://elsewhere.example'></iframe>" }
      - text: ["${TEXT.replaceAll('"', '\\"')}", " cut \\e[3", "1mhere\\e[0m"]
`);
      const label = "<b onmouseover=alert(1)>label</b> \u202Eabc";
      const { id } = await host.session(name, { label });
      await host.turn(id, "<i>prompt</i>");
      const { page } = await open(id);
      await page.locator(MARK).waitFor();
      for (const summary of await page.locator("#transcript summary").all()) await summary.click();
      const made = await page.evaluate(() => [...document.querySelectorAll("#app *")].map(node => node.localName));
      for (const tag of ["script", "img", "iframe", "b", "i"]) assert.ok(!made.includes(tag), tag);
      assert.match(await page.title(), /agentproto$/);
      const said = await page.locator(".agent").textContent();
      assert.ok(said.includes("<script>document.title='owned'</script><img src=x"), said);
      assert.ok(said.includes("red ␀") || said.includes("red ␈␀"), said);
      assert.ok(said.includes("cut here"), said);
      assert.ok(said.includes("⟨U+202E⟩gnp.exe"), said);
      const whole = await page.locator("body").innerText();
      assert.doesNotMatch(whole, /[\u001b\u0007\u202e]/);
      assert.ok((await page.locator("#title").textContent()).startsWith("<b onmouseover=alert(1)>"));
      assert.match(await page.locator(".tool .parts").innerText(), /<b>bold<\/b>[\s\S]*<iframe/);
      assert.equal(await page.locator(".you .text").textContent(), "<i>prompt</i>");
      await page.keyboard.press("t");
      await page.locator(".is-turn-end").waitFor();
      assert.doesNotMatch(await page.locator("#transcript").innerText(), /[\u001b\u0007\u202e]/);
    },
  },
  {
    name: "the page stays small and fast with a hundred thousand lines",
    async run({ assert, host, page: open }) {
      const lines = Array.from({ length: 100 }, (_, n) => `line {round}.${n}`).join("\\n");
      const name = host.scenario("lines.yaml", `name: lines
turns:
  - when: any
    steps:
      - repeat: { times: 1000, steps: [{ text: "${lines}\\n" }] }
      - text: the very last line
`);
      const { id } = await host.session(name);
      const { page } = await open(id);
      await page.locator("#prompt").fill("go");
      await page.keyboard.press("Enter");
      await page.locator(MARK).waitFor();
      await page.locator(".agent", { hasText: "the very last line" }).waitFor();
      const { nodes, isAtEnd, text } = await page.evaluate(() => {
        const pane = document.getElementById("transcript");
        return {
          nodes: pane.querySelectorAll("*").length,
          isAtEnd: pane.scrollTop + pane.clientHeight >= pane.scrollHeight - 2,
          text: pane.textContent,
        };
      });
      assert.ok(nodes < 4000, `${nodes} elements`);
      assert.ok(isAtEnd, "the transcript must follow its end");
      assert.ok(text.includes("line 1000.99") || text.includes("line 999.99"), "the newest lines are missing");
      assert.ok(!/line 1\.0\b/.test(text), "the oldest lines must be dropped");
      assert.match(text, /Earlier output is not shown/);
      await page.getByRole("button", { name: "Read from the start" }).click();
      await page.waitForFunction(() => /line [01]\.0\b/.test(document.getElementById("transcript").textContent));
      await page.getByRole("button", { name: "Back to now" }).click();
      await page.locator(MARK).waitFor();
    },
  },
  {
    name: "a flood of small events is shown completely",
    async run({ assert, host, page: open }) {
      const { id } = await host.session("flood");
      const { page } = await open(id);
      await page.locator("#prompt").fill("go");
      await page.keyboard.press("Enter");
      await page.locator(MARK).waitFor();
      const nodes = await page.evaluate(() => document.querySelectorAll("#transcript *").length);
      assert.ok(nodes < 4000, `${nodes} elements`);
      await page.locator("#prompt:enabled").waitFor();
    },
  },
  {
    name: "the scroll position is kept after scrolling up",
    async run({ assert, host, page: open }) {
      const { id } = await host.session("slow");
      await host.ask("POST", `/sessions/${id}/prompt`, { prompt: "word ".repeat(3000) });
      const { page } = await open(id);
      await page.locator(".agent", { hasText: "tick 2 " }).waitFor();
      const atEnd = () => page.evaluate(() => {
        const pane = document.getElementById("transcript");
        return pane.scrollTop + pane.clientHeight >= pane.scrollHeight - 2;
      });
      assert.ok(await atEnd());
      await page.locator("#transcript").hover();
      await page.mouse.wheel(0, -600);
      await page.locator("#to-end").waitFor();
      const top = () => page.evaluate(() => document.getElementById("transcript").scrollTop);
      const before = await top();
      const last = (await page.locator(".agent").textContent()).match(/tick (\d+)/g).length;
      await page.locator(".agent", { hasText: `tick ${last + 3} ` }).waitFor();
      assert.equal(await top(), before);
      await page.locator("#to-end").click();
      await page.locator("#to-end").waitFor({ state: "hidden" });
      assert.ok(await atEnd());
      await host.ask("POST", `/sessions/${id}/kill`);
    },
  },
];
