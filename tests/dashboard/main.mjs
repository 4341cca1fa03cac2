// Runs the cases one after the other, each in a new tab, or with --mutants on pages with a defect.

import { strict as assert } from "node:assert";
import { Host } from "./host.mjs";
import { Tab, launch } from "./browser.mjs";
import { MUTANTS } from "./mutants.mjs";
import signIn from "./cases/sign_in.mjs";
import talk from "./cases/talk.mjs";
import questions from "./cases/questions.mjs";
import life from "./cases/life.mjs";
import connection from "./cases/connection.mjs";
import hostile from "./cases/hostile.mjs";
import access from "./cases/access.mjs";
import looks from "./cases/looks.mjs";
import work from "./cases/work.mjs";
import content from "./cases/content.mjs";
import extras from "./cases/tools.mjs";
import day from "./cases/day.mjs";

const CASES = [...signIn, ...talk, ...questions, ...life, ...connection, ...hostile, ...access, ...work, ...content, ...extras, ...day, ...looks];

/** Runs one case. It shares the daemon with the others, and can open tabs and start its own daemon. */
async function run(browser, host, test, mutate) {
  const opened = [];
  const hosts = [];
  const tools = {
    assert,
    host,
    tab: async (options = {}) => {
      const tab = await Tab.open(browser, { url: host.url, mutate, ...options });
      opened.push(tab);
      return tab;
    },
    ownHost: async options => {
      const own = new Host();
      hosts.push(own);
      return own.start(options);
    },
    /** A signed-in page, with a session selected if there is an id. */
    page: async (id = "", options = {}) => {
      const tab = await tools.tab(options);
      const fragment = id ? `#s=${id}` : "";
      await tab.signIn(options.token ?? host.token, fragment);
      return tab;
    },
  };
  try {
    await test.run(tools);
    for (const tab of opened) {
      const tokens = [host.token, ...hosts.map(own => own.token)];
      assert.deepEqual(tab.verdict(tokens), [], "unexpected events in the tab");
    }
    return null;
  } catch (error) {
    const name = test.name.replaceAll(/\W+/g, "-");
    if (!mutate) await opened[0]?.picture(`failed-${name}`).catch(() => {});
    for (const tab of opened) if (tab.odd.length) error.stack += "\nin the tab: " + tab.odd.join("\n");
    return error;
  } finally {
    for (const tab of opened) await tab.close().catch(() => {});
    for (const own of hosts) await own.remove();
  }
}

async function judge(browser, host, wanted) {
  const chosen = MUTANTS.filter(({ name }) => !wanted.length || wanted.some(part => name.includes(part)));
  let [passed, failed] = [0, chosen.length ? 0 : 1];
  for (const { name, find, put, caught } of chosen) {
    const test = CASES.find(known => known.name === caught);
    assert.ok(test, `unknown case ${caught}`);
    const error = await run(browser, host, test, [find, put]);
    // Without the browser, the case says nothing about the mutant.
    const isCaught = error && browser.isConnected() && !String(error.message).includes("nothing to break");
    if (isCaught) passed += 1;
    else failed += 1;
    const why = error ? String(error.message).split("\n")[0] : "the case passed";
    console.log(`${isCaught ? "caught" : "MISSED"}  ${name} (by “${caught}”: ${why})`);
  }
  return [passed, failed];
}

async function cases(browser, host, wanted) {
  const chosen = CASES.filter(test => !wanted.length || wanted.some(part => test.name.includes(part)));
  let [passed, failed] = [0, chosen.length ? 0 : 1];
  for (const test of chosen) {
    const error = await run(browser, host, test);
    if (error) failed += 1;
    else passed += 1;
    console.log(`${error ? "FAIL" : "ok  "}  ${test.name}`);
    if (error) console.log(String(error.stack).replaceAll(/^/gm, "      "));
  }
  return [passed, failed];
}

const mutants = process.argv.includes("--mutants");
const wanted = process.argv.slice(2).filter(word => word !== "--mutants");
const host = new Host();
let browser;
let counts = [0, 1];
try {
  await host.start();
  browser = await launch();
  counts = mutants ? await judge(browser, host, wanted) : await cases(browser, host, wanted);
} catch (error) {
  console.error(error);
} finally {
  await browser?.close();
  await host.remove();
}
console.log(`${counts[0]} passed, ${counts[1]} failed`);
process.exitCode = counts[1] ? 1 : 0;
