// Creates and finds elements. Text is always added as text and never parsed as markup.

const $ = id => document.getElementById(id);

/** An element with properties (`class`, `aria-…`, `data-…`, `on…`, DOM properties) and children. */
function el(tag, props, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") node.className = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name.includes("-") || name === "role") node.setAttribute(name, value);
    else node[name] = value;
  }
  node.append(...children.filter(child => child !== undefined && child !== null));
  return node;
}

function show(node, visible) {
  node.hidden = !visible;
}

/** Sets text only if it changes, because screen readers announce every change of a live region. */
function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Announces a text to screen readers. */
function announce(text) {
  const region = $("said");
  // Append a space to a repeated text, so that it is announced again.
  region.textContent = region.textContent === text ? text + "\u00a0" : text;
}

/** Shows an error and its hint in a paragraph of class `problem`, or clears it without an error. */
function problem(node, error) {
  show(node, Boolean(error));
  if (!error) {
    node.replaceChildren();
    return;
  }
  const parts = [el("strong", {}, sentence(clean(error.message)))];
  if (error.hint) parts.push(" ", el("span", {}, sentence(clean(error.hint))));
  node.replaceChildren(...parts);
}

function sentence(text) {
  const first = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?…`)]$/.test(first) ? first : first + ".";
}

/** How long ago, in the largest suitable unit. */
function age(iso, now = Date.now()) {
  const seconds = Math.max(0, Math.round((now - Date.parse(iso)) / 1000));
  if (Number.isNaN(seconds)) return "";
  if (seconds < 60) return seconds + " s";
  if (seconds < 3600) return Math.floor(seconds / 60) + " min";
  if (seconds < 86400) return Math.floor(seconds / 3600) + " h";
  return Math.floor(seconds / 86400) + " d";
}

function clock(iso) {
  const at = new Date(iso);
  return Number.isNaN(at.getTime()) ? "" : at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
}

const plural = (count, one, many = one + "s") => count + " " + (count === 1 ? one : many);

/** Copies a text. Without a secure connection, browsers only offer the old way. */
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const box = el("textarea", { class: "unseen", value: text, readOnly: true, tabIndex: -1, "aria-hidden": "true" });
    const before = document.activeElement;
    (document.querySelector("dialog[open]") ?? document.body).append(box);
    box.select();
    const isDone = document.execCommand("copy");
    box.remove();
    before?.focus?.({ preventScroll: true });
    return isDone;
  }
}

/** A button that copies what `text()` returns. */
function copyButton(label, text) {
  const button = el("button", {
    type: "button",
    class: "copy",
    "aria-label": label,
    title: label,
    onclick: async event => {
      event.preventDefault();
      event.stopPropagation();
      const isDone = await copyText(text());
      button.classList.toggle("done", isDone);
      setTimeout(() => button.classList.remove("done"), 1500);
      announce(isDone ? "Copied" : "The browser does not allow copying");
    },
  });
  return button;
}

/** Offers parts of a text as a file. */
function download(name, type, parts) {
  const address = URL.createObjectURL(new Blob(parts, { type }));
  el("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
}

/** Storage that survives reloads, if the browser allows it. Everything works without it. */
const storage = {
  get(store, name) {
    try {
      return window[store].getItem("agentproto." + name) || "";
    } catch {
      return "";
    }
  },
  set(store, name, value) {
    try {
      if (value) window[store].setItem("agentproto." + name, value);
      else window[store].removeItem("agentproto." + name);
    } catch {
      // Storage may be disabled. The page works without it.
    }
  },
  /** The rest of all names that start with a prefix. */
  names(store, prefix) {
    try {
      const names = Object.keys(window[store]).filter(name => name.startsWith("agentproto." + prefix));
      return names.map(name => name.slice("agentproto.".length + prefix.length));
    } catch {
      return [];
    }
  },
};
