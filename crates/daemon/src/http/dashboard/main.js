// Start-up: gets the token, then loads the list. The URL fragment names the selected session.

/** Selects a session, or none. The URL contains it, so that Back and reload work. */
function go(id, replace = false) {
  const hash = id ? "#s=" + encodeURIComponent(id) : "";
  if (location.hash === hash) return;
  if (replace && location.hash) history.replaceState(null, "", location.pathname + hash);
  else history.pushState(null, "", location.pathname + hash);
  follow();
}

function fragment(name) {
  return new URLSearchParams(location.hash.slice(1)).get(name) || "";
}

function goBoard() {
  if (location.hash !== "#board") history.pushState(null, "", location.pathname + "#board");
  follow();
}

function follow() {
  const isBoard = location.hash === "#board";
  if (isBoard !== board.isOpen) {
    detail.open("");
    board.open(isBoard);
    show($("nothing"), !isBoard && !fragment("s"));
  }
  detail.open(fragment("s"));
}

/** Removes the one-time code from the URL before anything else happens. */
function takeCode() {
  const code = fragment("code");
  if (code) history.replaceState(null, "", location.pathname);
  return code;
}

function askForToken(why, error) {
  sessions.stop();
  show($("app"), false);
  show($("login"), true);
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
  if (why) setText($("login-why"), why);
  problem($("login-error"), error);
  $("login-token").focus();
}

async function tryToken(token) {
  const before = api.token;
  api.setToken(token);
  try {
    await sessions.load(true);
  } catch (error) {
    api.setToken(error.status === 401 ? "" : before);
    askForToken("", error);
    return;
  }
  enter();
}

function enter() {
  $("login-token").value = "";
  problem($("login-error"), null);
  show($("login"), false);
  show($("app"), true);
  sessions.start();
  detail.stream?.again();
  follow();
}

function signOut(why) {
  api.setToken("");
  askForToken(why, null);
}

function banner() {
  const isDown = !connection.up;
  show($("banner"), isDown);
  setText($("link-state"), isDown ? "Not connected" : "Connected");
  $("link-state").className = isDown ? "down" : "up";
  if (!isDown) {
    announce("The daemon is back");
    if (api.token && !$("app").hidden) sessions.refresh(true);
    detail.stream?.again();
    detail.refresh();
    return;
  }
  const seconds = Math.max(1, Math.round((connection.nextTry - Date.now()) / 1000));
  setText($("banner-text"), `The daemon does not answer. Next try in ${seconds} s.`);
}

async function main() {
  const code = takeCode();
  keys.begin();
  help.begin();
  list.begin();
  detail.begin();
  queue.begin();
  composer.begin();
  questions.begin();
  find.begin();
  board.begin();
  palette.begin();
  notify.begin();
  newSession.begin();
  $("login-form").addEventListener("submit", event => {
    event.preventDefault();
    tryToken($("login-token").value.trim());
  });
  $("forget-token").addEventListener("click", () => {
    detail.leave();
    queue.clear();
    sessions.all.clear();
    sessions.isLoaded = false;
    signOut("You are signed out.");
  });
  $("skip").addEventListener("click", event => {
    event.preventDefault();
    $("transcript").focus();
  });
  $("banner-retry").addEventListener("click", () => connection.probe());
  connection.changed.on(banner);
  signedOut.on(used => {
    // A response to a request with an older token says nothing about the current one.
    if (used === "Bearer " + api.token && api.token && $("login").hidden) {
      signOut("The daemon no longer accepts this token. It may have been restarted.");
    }
  });
  window.addEventListener("popstate", follow);
  window.addEventListener("hashchange", async () => {
    const again = takeCode();
    if (again) await redeem(again);
    else follow();
  });
  setText($("link-state"), "Connected");
  if (code) await redeem(code);
  else if (api.token) await tryToken(api.token);
  else askForToken("", null);
}

async function redeem(code) {
  try {
    await tryToken(await api.login(code));
  } catch (error) {
    if (api.token) await tryToken(api.token);
    else askForToken("", error);
  }
}

main();
