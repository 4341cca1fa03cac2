// How messages, differences, plans and numbers are shown.

const MARK = ".mark.turn-end";

/** Serves a made-up stream, for events that no mock agent sends. */
export async function stream(page, frames) {
  const text = frames.map(([event, data], at) => `id: 1-${at}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`).join("");
  await page.route("**/stream", route => route.fulfill({ contentType: "text/event-stream", body: text + `event: end\ndata: {"status":"running"}\n\n` }));
}

const MESSAGE = [
  "# Result", "", "See [the guide](https://example.org/guide) and https://example.org/plain, *not* [this](javascript:alert(1)).", "",
  "| file | lines |", "|:--|--:|", "| a.rs | 12 |", "", "- [x] read", "- [ ] write", "", "> quoted <b>text</b>", "",
  "![a chart](https://example.org/x.png)", "", "1. one", "2. two", "", "```rust", "// why", 'let name = "x";', "fn main() { call(42); }", "```", "", "The end ~~not~~.",
].join("\n");

export default [
  {
    name: "a finished message is shown as Markdown, without any markup of its own",
    async run({ assert, host, page: open }) {
      const { id } = await host.session("default");
      const { page } = await open();
      await stream(page, [["status", { status: "starting", busy: false }], ["event", { type: "text-delta", text: MESSAGE }], ["event", { type: "turn-end", reason: "end_turn" }]]);
      await page.locator(`.row[data-id=${id}]`).click();
      const md = page.locator(".agent .md");
      await md.waitFor();
      assert.equal(await md.getByRole("heading", { name: "Result" }).count(), 1);
      const links = await md.locator("a").evaluateAll(all => all.map(one => [one.textContent, one.getAttribute("href"), one.rel]));
      const rel = "noopener noreferrer";
      assert.deepEqual(links, [["the guide", "https://example.org/guide", rel], ["https://example.org/plain", "https://example.org/plain", rel], ["a chart", "https://example.org/x.png", rel]]);
      assert.deepEqual(await md.locator("td").allTextContents(), ["a.rs", "12"]);
      assert.deepEqual(await md.locator(".task .box").evaluateAll(all => all.map(one => one.getAttribute("aria-label"))), ["done", "open"]);
      assert.match(await md.locator("blockquote").innerText(), /quoted <b>text<\/b>/);
      assert.equal(await md.locator("b, img, script").count(), 0);
      assert.equal(await md.locator("ol li").count(), 2);
      assert.equal(await md.locator("del").textContent(), "not");
      for (const [kind, text] of [["comment", "// why"], ["string", '"x"'], ["keyword", "fn"], ["number", "42"], ["call", "call"]]) {
        assert.ok((await md.locator(`.hl-${kind}`).allTextContents()).includes(text), kind);
      }
    },
  },
  {
    name: "hostile Markdown stays text and does not stop the page",
    async run({ assert, host, page: open }) {
      const { id } = await host.session("default");
      const { page } = await open();
      const texts = ["&lt;script&gt; &#x202E;gnp.exe &#27;[31m [a](data:text/html,x) <https://a.example/\u202e> end one", "> ".repeat(3000) + "deep end", "```js\n" + "'".repeat(20000) + "`".repeat(2) + "\n/* end two", "*a ".repeat(60000) + "end three"];
      const frames = texts.flatMap(text => [["event", { type: "text-delta", text }], ["event", { type: "turn-end", reason: "end_turn" }]]);
      await stream(page, [["status", { status: "starting", busy: false }], ...frames]);
      await page.locator(`.row[data-id=${id}]`).click();
      await page.locator(".agent .md").nth(2).waitFor();
      const text = await page.locator("#transcript").innerText();
      assert.match(text, /<script> ⟨U\+202E⟩gnp\.exe {1,2}a/);
      for (const part of ["end one", "deep end", "end two", "end three"]) assert.ok(text.includes(part), part);
      const depth = await page.evaluate(() => {
        const level = node => 1 + Math.max(0, ...[...node.children].map(level));
        return level(document.querySelectorAll(".agent .md")[1]);
      });
      assert.ok(depth < 40, String(depth));
      const links = await page.locator(".agent a").evaluateAll(all => all.map(one => one.getAttribute("href")));
      assert.ok(links.every(link => link.startsWith("https://a.example/")), String(links));
      assert.ok(links.every(link => !link.includes("\u202e")), "hidden characters in an address");
    },
  },
  {
    name: "the scroll position and the selection are kept when a message becomes Markdown",
    async run({ assert, host, page: open }) {
      const { id } = await host.session("default");
      const { page } = await open();
      let release;
      const held = new Promise(resolve => { release = resolve; });
      await page.route("**/markdown", async route => {
        await held;
        await route.continue();
      });
      const text = Array.from({ length: 60 }, (_, n) => `**line ${n}**\n`).join("\n");
      await stream(page, [["status", { status: "starting", busy: false }], ["event", { type: "text-delta", text }], ["event", { type: "turn-end", reason: "end_turn" }],
        ["prompt", { prompt: "the second prompt\n".repeat(40) }], ["event", { type: "text-delta", text: "*short*" }], ["event", { type: "turn-end", reason: "end_turn" }]]);
      await page.locator(`.row[data-id=${id}]`).click();
      await page.locator(MARK).nth(1).waitFor();
      await page.locator("#transcript").hover();
      await page.mouse.wheel(0, -500);
      await page.locator("#to-end").waitFor();
      const top = () => page.locator(".you").evaluate(node => Math.round(node.getBoundingClientRect().top));
      await page.locator(".agent").nth(1).evaluate(node => getSelection().selectAllChildren(node.querySelector(".said")));
      const before = await top();
      release();
      await page.locator(".agent").nth(0).locator(".md").waitFor();
      assert.ok(Math.abs(await top() - before) <= 1, `${before} became ${await top()}`);
      assert.equal(await page.evaluate(() => getSelection().toString()), "*short*");
      assert.equal(await page.locator(".agent").nth(1).locator(".md").count(), 0);
      await page.evaluate(() => getSelection().removeAllRanges());
      await page.locator(".agent").nth(1).locator(".md em").waitFor();
    },
  },
  {
    name: "differences are shown line by line, in results and in questions",
    async run({ assert, host, page: open }) {
      const old = Array.from({ length: 40 }, (_, n) => `line ${n}`).join("\n") + "\n";
      const now = old.replace("line 5\n", "line five\n").replace("line 30\n", "").replace("line 39\n", "line 39\nline 40\n");
      const diff = { type: "diff", path: "src/a.rs", oldText: old, newText: now };
      const { id } = await host.session("default");
      const { page } = await open();
      await stream(page, [["status", { status: "starting", busy: false }],
        ["event", { type: "tool-call", id: "t", name: "Edit", kind: "edit", args: { path: "src/a.rs" } }],
        ["event", { type: "tool-result", id: "t", ok: true, content: [diff] }],
        ["event", { type: "turn-end", reason: "end_turn" }]]);
      const question = { id: "q", message: "May I edit?", options: [{ id: "y", label: "Yes" }], tool: { id: "t", name: "Edit", kind: "edit", input: {}, content: [{ ...diff, oldText: undefined, newText: "new\nfile\n", path: "b.rs" }], locations: [{ path: "c.rs", line: 7 }] } };
      await page.route(url => url.pathname === `/sessions/${id}`, async route => {
        const answer = await route.fetch();
        await route.fulfill({ response: answer, json: { ...await answer.json(), busy: true, pendingPermissions: [question] } });
      });
      await page.locator(`.row[data-id=${id}]`).click();
      const shown = page.locator(".tool .diff");
      await shown.waitFor();
      assert.equal(await page.locator(".tool .preview").textContent(), "+2 −2");
      assert.equal(await shown.getAttribute("aria-label"), "src/a.rs: 2 lines added, 2 removed");
      const rows = await shown.locator(".d-row:not(.same)").evaluateAll(all => all.map(one => [one.className, one.textContent]));
      assert.deepEqual(rows, [["d-row removed", "- line 5"], ["d-row added", "+ line five"], ["d-row removed", "- line 30"], ["d-row added", "+ line 40"]]);
      assert.equal(await shown.locator(".d-row").count(), 4 + 6 + 6 + 3, "three lines of context");
      assert.deepEqual(await shown.locator("ins").allTextContents(), ["five"]);
      const asked = page.locator(".question-tool");
      assert.match(await asked.innerText(), /c\.rs:7/);
      assert.deepEqual(await asked.locator(".d-row.added").allTextContents(), ["+ new", "+ file"]);
      assert.match(await asked.locator("figcaption").innerText(), /b\.rs[\s\S]*new file/);
    },
  },
  {
    name: "a difference of huge files is bounded",
    async run({ assert, host, page: open }) {
      const lines = (word, count) => Array.from({ length: count }, (_, n) => `${word} ${n}`).join("\n");
      const { id } = await host.session("default");
      const { page } = await open();
      await stream(page, [["status", { status: "starting", busy: false }],
        ["event", { type: "tool-call", id: "t", name: "Edit", kind: "edit", args: null }],
        ["event", { type: "tool-result", id: "t", ok: true, content: [{ type: "diff", path: "big", oldText: lines("old", 30000), newText: lines("new", 30000) }] }],
        ["event", { type: "turn-end", reason: "end_turn" }]]);
      await page.locator(`.row[data-id=${id}]`).click();
      await page.locator(".tool summary").click();
      await page.locator(".d-row").first().waitFor();
      assert.ok(await page.locator("#transcript *").count() < 4000);
      assert.match(await page.locator(".diff").innerText(), /more changes are not shown/);
    },
  },
  {
    name: "a plan is a checklist that is updated in place",
    async run({ assert, host, page: open }) {
      const { id } = await host.session("default");
      const { page } = await open();
      const plan = (...states) => ["event", { type: "thought", text: "[x] a", plan: states.map((status, n) => ({ content: `step ${n}`, status, priority: n ? "low" : "high" })) }];
      await stream(page, [["status", { status: "starting", busy: false }], plan("in_progress", "pending"), ["event", { type: "text-delta", text: "working" }], plan("completed", "in_progress"), ["event", { type: "turn-end", reason: "end_turn" }]]);
      await page.locator(`.row[data-id=${id}]`).click();
      await page.locator(MARK).waitFor();
      assert.equal(await page.locator(".plan").count(), 1);
      assert.equal(await page.locator(".thought").count(), 0);
      assert.match(await page.locator(".plan h3").textContent(), /1 of 2 done/);
      assert.deepEqual(await page.locator(".step .box").evaluateAll(all => all.map(one => one.getAttribute("aria-label"))), ["done", "in progress"]);
    },
  },
  {
    name: "tokens, cost and context are shown with a meter",
    async run({ assert, host, page: open }) {
      const { id } = await host.session("default");
      const { page } = await open();
      await page.route(url => url.pathname === `/sessions/${id}`, async route => {
        const answer = await route.fetch();
        const more = { usage: { inputTokens: 12000, outputTokens: 345, totalTokens: 12345 }, cost: { amount: 0.0421, currency: "USD" }, context: { used: 53000, size: 200000 } };
        await route.fulfill({ response: answer, json: { ...await answer.json(), ...more } });
      });
      await page.locator(`.row[data-id=${id}]`).click();
      const meter = page.getByRole("meter", { name: "Context" });
      await meter.waitFor();
      assert.equal(await meter.getAttribute("aria-valuenow"), "53000");
      assert.match(await meter.getAttribute("aria-valuetext"), /53k of 200k \(27 %\)/);
      const facts = await page.locator("#facts").innerText();
      assert.match(facts, /\$0\.0421/);
      assert.match(facts, /12k \(12k in, 345 out\)/);
    },
  },
  {
    name: "messages and code are copied as they were written",
    async run({ assert, host, page: open }) {
      const { id } = await host.session("default");
      const tab = await open();
      const { page } = tab;
      await tab.context.grantPermissions(["clipboard-read", "clipboard-write"]);
      await stream(page, [["status", { status: "starting", busy: false }], ["prompt", { prompt: "a *prompt*" }], ["event", { type: "text-delta", text: MESSAGE }], ["event", { type: "turn-end", reason: "end_turn" }]]);
      await page.locator(`.row[data-id=${id}]`).click();
      await page.locator(".agent .md").waitFor();
      const copied = async name => {
        await page.getByRole("button", { name, exact: true }).click();
        await page.waitForFunction(() => document.getElementById("said").textContent.startsWith("Copied"));
        return page.evaluate(() => navigator.clipboard.readText());
      };
      assert.equal(await copied("Copy the code"), '// why\nlet name = "x";\nfn main() { call(42); }');
      assert.equal(await copied("Copy the message"), MESSAGE);
      assert.equal(await copied("Copy the prompt"), "a *prompt*");
    },
  },
];
