// Screenshots for manual review, with realistic sessions.

const MARK = ".mark.turn-end";

const REVIEW = `name: review
turns:
  - when: { contains: deploy }
    steps:
      - text: "The tests pass. Before I deploy, I need your approval."
      - tool_call: { id: deploy, title: "Run ./deploy.sh staging", kind: execute, input: { command: "./deploy.sh staging" } }
      - permission:
          id: deploy
          title: "Run ./deploy.sh staging"
          on_allow: [{ text: Deployed. }]
          on_reject: [{ text: Not deployed. }]
  - when: any
    steps:
      - thought: ["The failing test compares times. ", "Probably the time zone; let me look at how the clock is read."]
      - text: "I will look at the failing test first."
      - tool_call: { id: read, title: "Read tests/clock_test.rs", kind: read, input: { path: tests/clock_test.rs }, path: tests/clock_test.rs }
      - tool_update: { id: read, status: completed, text: "42 lines" }
      - tool_call: { id: grep, title: "Search for SystemTime", kind: search, input: { pattern: SystemTime } }
      - tool_update: { id: grep, status: failed, text: "rg: command not found" }
      - tool_call: { id: edit, title: "Edit src/clock.rs", kind: edit, input: { path: src/clock.rs, lines: 4 }, path: src/clock.rs }
      - tool_update: { id: edit, status: completed, text: "4 lines changed" }
      - text: "## What was wrong\\n\\nThe test used the **local** time zone, \`Clock::now\` uses UTC. Now both use the same clock:\\n\\n\`\`\`rust\\nlet now = clock.now_utc();\\nassert_eq!(report.day(), now.day());\\n\`\`\`\\n\\nAll 214 tests pass."
`;

async function sessionsToSee(host) {
  const name = host.scenario("review.yaml", REVIEW);
  const more = { adapter: "mock-acp" };
  const review = await host.session(name, { ...more, label: "Fix the clock test" });
  await host.turn(review.id, "The clock test has been failing since Monday. Please find out why and fix it.");
  const deploy = await host.session(name, { ...more, label: "Release 2.4" });
  await host.turn(deploy.id, "Look at the failing test.");
  await host.ask("POST", `/sessions/${deploy.id}/prompt`, { prompt: "Thank you. Now deploy to staging." });
  await host.until(deploy.id, session => session.pendingPermissions?.length);
  const slow = await host.session("slow", { label: "Nightly docs" });
  await host.ask("POST", `/sessions/${slow.id}/prompt`, { prompt: "Write the docs." });
  const ended = await host.session("default", { label: "Old idea" });
  await host.ask("POST", `/sessions/${ended.id}/kill`);
  const failed = await host.session("crash", { label: "Import script" });
  await host.ask("POST", `/sessions/${failed.id}/prompt`, { prompt: "go" });
  await host.until(failed.id, session => session.status === "error");
  return { review, deploy, failed };
}

export default [
  {
    name: "pictures",
    async run({ assert, ownHost, tab: newTab }) {
      const host = await ownHost();
      const { review, deploy, failed } = await sessionsToSee(host);
      const phone = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true, deviceScaleFactor: 2 };
      const open = async (id, options) => (await newTab({ url: host.url, ...options })).signIn(host.token, id ? `#s=${id}` : "");
      for (const [name, options] of [["desktop-light", { colorScheme: "light" }], ["desktop-dark", { colorScheme: "dark" }], ["phone", phone]]) {
        const tab = await open(review.id, options);
        await tab.page.locator(MARK).waitFor();
        await tab.page.waitForFunction(() => document.fonts.status === "loaded");
        await tab.picture(name);
        await tab.page.goto(`${host.url}/#s=${deploy.id}`);
        await tab.page.locator(".question").waitFor();
        await tab.page.locator(".tool.running").waitFor();
        await tab.picture(`question-${name}`);
        if (name === "phone") {
          await tab.page.getByRole("button", { name: "Back to the list" }).tap();
          await tab.picture("phone-list");
        } else {
          await tab.page.getByRole("button", { name: "New", exact: true }).click();
          await tab.page.locator("#new").waitFor();
          await tab.picture(`form-${name}`);
        }
        await tab.close();
      }
      const more = await open(failed.id, { colorScheme: "dark" });
      await more.page.locator(".failure").waitFor();
      await more.picture("failed-session");
      await more.page.goto(`${host.url}/#s=${review.id}`);
      await more.page.getByRole("tab", { name: "Raw lines" }).click();
      await more.page.locator(".is-turn-end").waitFor();
      await more.picture("raw-lines");
      await more.page.keyboard.press("?");
      await more.picture("help");
      const door = await newTab({ url: host.url });
      await door.page.goto(host.url);
      await door.page.getByLabel("Token").waitFor();
      assert.ok((await door.picture("sign-in")).length > 1000);
    },
  },
];
