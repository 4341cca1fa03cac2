// Lost connections: no event is lost or duplicated, and the page reports it.

import { Host, Wire } from "../host.mjs";

const MARK = ".mark.turn-end";

/** The tick numbers in the transcript, in order. */
const ticks = page => page.locator(".agent").allTextContents()
  .then(texts => [...texts.join("").matchAll(/tick (\d+)/g)].map(found => Number(found[1])));

export default [
  {
    name: "a broken connection resumes without gaps or duplicates",
    async run({ assert, host, page: open }) {
      const wire = await new Wire().start(host.port);
      try {
        const { id } = await host.session("slow");
        const tab = await open(id, { url: wire.url });
        tab.expected.push("ERR_", "Failed to load");
        const { page } = tab;
        await page.locator("#prompt").fill("go");
        await page.keyboard.press("Enter");
        for (const tick of [3, 8, 13]) {
          await page.locator(".agent", { hasText: `tick ${tick} ` }).waitFor();
          const again = page.waitForRequest(request => request.url().includes("/stream"));
          wire.cut();
          assert.ok((await again).headers()["last-event-id"], "the request has no Last-Event-ID");
        }
        await page.locator(".agent", { hasText: "tick 18 " }).waitFor();
        await page.getByRole("button", { name: "Interrupt" }).click();
        await page.locator(MARK).waitFor();
        const seen = await ticks(page);
        assert.deepEqual(seen, seen.map((_, n) => seen[0] + n));
        assert.equal(await page.locator(".mark.gap").count(), 0);
        await host.ask("POST", `/sessions/${id}/kill`);
      } finally {
        wire.stop();
      }
    },
  },
  {
    name: "a stopped daemon: a banner, then a new token, then everything is restored",
    async run({ assert, tab: newTab }) {
      const host = await new Host().start();
      try {
        const { id } = await host.session("default", { label: "before the end" });
        await host.turn(id, "said before");
        const tab = await newTab({ url: host.url });
        tab.expected.push("ERR_", "401", "503");
        await tab.signIn(host.token, `#s=${id}`);
        const { page } = tab;
        await page.locator(MARK).waitFor();
        await host.stop();
        await page.locator("#banner").waitFor();
        assert.match(await page.locator("#banner").innerText(), /does not answer.*Next try in \d+ s/s);
        await host.start({ port: host.port });
        await page.getByRole("button", { name: "Try now" }).click().catch(() => {});
        // The daemon has a new token after every start.
        await page.getByLabel("Token").waitFor();
        assert.match(await page.locator("#login-why").textContent(), /restarted/);
        assert.equal(await page.locator("#banner").isVisible(), false);
        await page.getByLabel("Token").fill(host.token);
        await page.keyboard.press("Enter");
        await page.locator(".mark.ended.killed").waitFor();
        await page.locator("#pill.killed").waitFor();
        assert.deepEqual(await page.locator(".you .text").allTextContents(), ["said before"]);
        assert.equal(await page.locator(MARK).count(), 1, "duplicate turn end");
        assert.deepEqual(tab.verdict([host.token]), []);
      } finally {
        await host.remove();
      }
    },
  },
  {
    name: "missed events are shown",
    async run({ assert, host, page: open }) {
      const { id } = await host.session("default");
      await host.turn(id, "hello");
      const tab = await open();
      const frame = (event, data, at) => `${at ? `id: ${at}\n` : ""}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
      const body = frame("status", { status: "starting", busy: false }, "1-0")
        + frame("event", { type: "text-delta", text: "before" }, "1-1")
        + frame("gap", { missed: 12 })
        + frame("event", { type: "text-delta", text: "after" }, "1-14")
        + frame("unheard-of", { text: "new" }, "1-15")
        + frame("end", { id, status: "running" });
      await tab.page.route("**/stream", route => route.fulfill({ contentType: "text/event-stream", body }));
      await tab.page.locator(`.row[data-id=${id}]`).click();
      await tab.page.locator(".mark.gap").waitFor();
      assert.equal(await tab.page.locator(".mark.gap").textContent(), "12 events were missed here");
      assert.deepEqual(await tab.page.locator(".agent").allTextContents(), ["before", "after"]);
    },
  },
  {
    name: "after an unknown cursor the transcript starts again",
    async run({ assert, host, page: open }) {
      const { id } = await host.session("default");
      await host.turn(id, "only once");
      const tab = await open();
      let streams = 0;
      await tab.page.route("**/stream", async route => {
        streams += 1;
        // The first response has an unknown event id and ends early.
        if (streams === 1) {
          const data = JSON.stringify({ type: "text-delta", text: "of another world" });
          return route.fulfill({ contentType: "text/event-stream", body: `id: abc-99\nevent: event\ndata: ${data}\n\n` });
        }
        return route.continue();
      });
      await tab.page.locator(`.row[data-id=${id}]`).click();
      await tab.page.locator(MARK).waitFor();
      assert.deepEqual(await tab.page.locator(".you .text").allTextContents(), ["only once"]);
      assert.equal(await tab.page.locator(".mark.gap").count(), 1);
      assert.ok(!(await tab.page.locator("#transcript").innerText()).includes("another world"));
    },
  },
];
