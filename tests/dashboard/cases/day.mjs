// Two agents for a day: prompts in a queue, a permission with a difference, an interrupt, search,
// export, and the same on a phone. With screenshots for manual review.

import { readFileSync } from "node:fs";

const MARK = ".mark.turn-end";
const OPEN = ".question:not(.fresh)";

const DAY = `name: day
turns:
  - when: { contains: long }
    steps:
      - repeat: { times: 300, steps: [{ text: "still working … " }, { delay_ms: 100 }] }
  - when: { contains: rename }
    steps:
      - text: "I will rename the variable."
      - tool_call: { id: e, title: "Edit src/clock.rs", kind: edit, input: { file_path: src/clock.rs, old_string: "fn day() {\\n    let t = now();\\n    t.day()\\n}\\n", new_string: "fn day() {\\n    let time = now_utc();\\n    time.day()\\n}\\n" } }
      - permission:
          id: e
          title: "Edit src/clock.rs"
          on_allow: [{ tool_update: { id: e, status: completed, text: "2 lines changed" } }, { text: "Renamed." }]
          on_reject: [{ text: "Not renamed." }]
  - when: any
    steps:
      - thought: "Let me look at the table."
      - text: "## Findings\\n\\n| file | problem |\\n|---|---|\\n| \`clock.rs\` | wrong **zone** |\\n| \`main.rs\` | none |\\n\\n- [x] read the files\\n- [ ] fix them\\n\\nSee https://example.org/zones.\\n\\n\`\`\`python\\ndef day(t):  # local\\n    return \\"day\\" if t else None\\n\`\`\`\\n"
      - repeat: { times: 10, steps: [{ text: "and more … " }, { delay_ms: 100 }] }
`;

export default [
  {
    name: "a day of work",
    async run({ assert, ownHost, tab: newTab }) {
      const host = await ownHost();
      const scenario = host.scenario("day.yaml", DAY);
      const first = await host.session(scenario, { label: "Clock" });
      const second = await host.session(scenario, { label: "Docs" });
      const tab = await newTab({ url: host.url, colorScheme: "light" });
      await tab.signIn(host.token, `#s=${first.id}`);
      const { page } = tab;
      const say = async text => {
        await page.locator("#prompt").fill(text);
        await page.keyboard.press("Enter");
      };
      // The first agent works, and three more prompts wait.
      await say("What is wrong with the clock?");
      await page.locator("#composer[data-mode=queue]").waitFor();
      await say("Please rename the variable.");
      await say("Then do something long.");
      await page.keyboard.type("And after that, I think");
      await page.locator("#queue-list li").nth(1).waitFor();
      await page.locator(".agent .heading").first().waitFor();
      await tab.picture("day-queue");
      assert.deepEqual(await tab.barriers(), [], "queue");
      // Meanwhile the second one.
      await page.locator(`.row[data-id=${second.id}]`).click();
      await page.waitForFunction(() => document.getElementById("title").textContent === "Docs");
      assert.equal(await page.locator("#prompt").inputValue(), "");
      await say("Look at the docs.");
      await page.locator(MARK).waitFor();
      await page.locator(".md table").waitFor();
      await tab.picture("day-markdown");
      assert.deepEqual(await tab.barriers(), [], "Markdown");
      // The first one asks, which the board shows.
      await page.locator(`.row.asks[data-id=${first.id}]`).waitFor();
      await page.locator("#transcript").focus();
      await page.keyboard.press("b");
      await page.locator(".card.asks .card-asks button").first().waitFor();
      await tab.picture("day-board");
      assert.deepEqual(await tab.barriers(), [], "board");
      await page.locator(`.card[data-id=${first.id}]`).getByRole("link", { name: "Details" }).click();
      await page.locator(OPEN).waitFor();
      assert.equal(await page.locator("#prompt").inputValue(), "And after that, I think");
      assert.match(await page.locator(".question .diff").innerText(), /- {5}let t = now\(\);[\s\S]*\+ {5}let time = now_utc\(\);/);
      await tab.picture("day-question");
      assert.deepEqual(await tab.barriers(), [], "question with a difference");
      await page.locator(".question:focus").waitFor();
      await page.keyboard.press("1");
      // The third prompt follows on its own. It is interrupted.
      await page.locator(".you", { hasText: "something long" }).waitFor();
      await page.locator(".tool.ok .diff").first().waitFor();
      assert.match(await page.locator(".asked .decision").innerText(), /^Answer: Allow$/);
      await page.locator("#prompt").focus();
      await page.keyboard.press("End");
      await page.keyboard.type(" in");
      await page.keyboard.press("Enter");
      await page.locator("#interrupt:enabled").click();
      await page.locator("#queue.paused").waitFor();
      await tab.picture("day-paused");
      assert.deepEqual(await tab.barriers(), [], "paused queue");
      await page.getByRole("button", { name: "Remove queued prompt 1" }).click();
      // Search and export.
      await page.locator("#transcript").focus();
      await page.keyboard.press("f");
      await page.keyboard.type("zone");
      await page.waitForFunction(() => /matches/.test(document.getElementById("find-count").textContent));
      await page.keyboard.press("Enter");
      await tab.picture("day-search");
      assert.deepEqual(await tab.barriers(), [], "search");
      await page.keyboard.press("Escape");
      await page.keyboard.press("Control+k");
      await page.keyboard.type("export mark");
      await tab.picture("day-palette");
      assert.deepEqual(await tab.barriers(), [], "palette");
      const [file] = await Promise.all([page.waitForEvent("download"), page.keyboard.press("Enter")]);
      const text = readFileSync(await file.path(), "utf8");
      assert.match(text, /```diff\n--- src\/clock\.rs[\s\S]*-    let t = now\(\);/);
      assert.match(text, /Turn interrupted/);
      await page.keyboard.press("n");
      await page.getByText("Options of the adapter").click();
      await page.locator("#new-fields label").first().waitFor();
      await tab.picture("day-form");
      assert.deepEqual(await tab.barriers(), [], "form");
      await page.keyboard.press("Escape");
      await page.keyboard.press("?");
      await page.locator("#help").waitFor();
      await tab.picture("day-help");
      assert.deepEqual(await tab.barriers(), [], "help");
      // The same on a phone, in the dark.
      const phone = await newTab({ url: host.url, viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true, deviceScaleFactor: 2, colorScheme: "dark" });
      await phone.signIn(host.token, `#s=${first.id}`);
      await phone.page.locator("#prompt").fill("rename it again");
      await phone.page.getByRole("button", { name: "Send" }).tap();
      await phone.page.locator(OPEN).waitFor();
      const isWide = () => phone.page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
      assert.equal(await isWide(), false);
      await phone.picture("day-phone-question");
      assert.deepEqual(await phone.barriers(), [], "phone, question");
      await phone.page.locator(".question .reject").first().tap();
      await phone.page.locator(MARK).last().waitFor();
      await phone.page.goto(`${host.url}/#s=${second.id}`);
      await phone.page.locator(".md table").waitFor();
      await phone.picture("day-phone-markdown");
      assert.deepEqual(await phone.barriers(), [], "phone, Markdown");
      assert.equal(await isWide(), false);
      await phone.page.goto(`${host.url}/#board`);
      await phone.page.locator(".card").first().waitFor();
      await phone.picture("day-phone-board");
      assert.deepEqual(await phone.barriers(), [], "phone, board");
      assert.equal(await isWide(), false);
    },
  },
];
