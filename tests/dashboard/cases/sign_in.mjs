// The token: pasted, from a link, removed on sign-out, and never in an address.

const stored = page => page.evaluate(() => JSON.stringify([{ ...sessionStorage }, { ...localStorage }]));

export default [
  {
    name: "a wrong token is refused with a hint, the right one is accepted",
    async run({ assert, host, tab }) {
      const { page, expected } = await tab().then(one => (one.expected.push("401"), one));
      await page.goto(host.url);
      await page.getByLabel("Token").fill("not-the-token");
      await page.getByRole("button", { name: "Open" }).click();
      const problem = page.locator("#login-error");
      await problem.waitFor();
      assert.match(await problem.textContent(), /missing or wrong.*runtime\.json/i);
      assert.equal(await page.locator("#app").isVisible(), false);
      assert.doesNotMatch(await stored(page), /not-the-token/);
      await page.getByLabel("Token").fill(`  ${host.token} `);
      await page.keyboard.press("Enter");
      await page.locator("#app").waitFor();
      assert.equal(await page.getByLabel("Token").isVisible(), false);
      assert.equal(expected.length, 1);
    },
  },
  {
    name: "a reload stays signed in, another tab is not, and signing out removes the token",
    async run({ assert, host, page: open, tab }) {
      const { page, context } = await open();
      await page.reload();
      await page.locator("#app").waitFor();
      const other = await context.newPage();
      await other.goto(host.url);
      await other.getByLabel("Token").waitFor();
      await other.close();
      assert.ok((await stored(page)).includes(host.token));
      await page.getByRole("button", { name: "Sign out" }).click();
      await page.getByLabel("Token").waitFor();
      assert.ok(!(await stored(page)).includes(host.token));
      await page.reload();
      await page.getByLabel("Token").waitFor();
      assert.ok(tab);
    },
  },
  {
    name: "the serve --open link signs in once and is removed from the address",
    async run({ assert, ownHost, tab }) {
      const host = await ownHost({ open: true });
      const first = await tab({ url: host.url });
      await first.page.goto(host.link);
      await first.page.locator("#app").waitFor();
      assert.equal(first.page.url(), `${host.url}/`);
      const code = host.link.split("code=")[1];
      assert.ok(code.length > 20);
      const sent = first.urls.filter(url => url.includes(code) && url !== host.link);
      assert.deepEqual(sent, [], "the code is in another address");
      const second = await tab({ url: host.url });
      second.expected.push("401");
      await second.page.goto(host.link);
      const problem = second.page.locator("#login-error");
      await problem.waitFor();
      assert.match(await problem.textContent(), /already used or has expired.*runtime\.json/i);
    },
  },
];
