(() => {
  const all = (query, from = document) => [...from.querySelectorAll(query)];
  const tools = document.getElementById("tools");
  const rows = all(".row").map((row) => ({ row, words: row.textContent.toLowerCase() }));
  const sections = all(".section");
  const search = document.getElementById("search");
  const level = document.getElementById("level");
  const section = document.getElementById("section");
  const shown = document.getElementById("shown");
  const verdicts = all("input[name=verdict]");
  const empty = document.getElementById("empty");

  const filter = () => {
    const wanted = new Set(verdicts.filter((box) => box.checked).map((box) => box.value));
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const { row, words: text } of rows) {
      const fits = wanted.has(row.dataset.verdict)
        && (!level.value || row.dataset.level === level.value)
        && (!section.value || row.dataset.section === section.value)
        && words.every((word) => text.includes(word));
      row.hidden = !fits;
      count += fits ? 1 : 0;
    }
    for (const part of sections) part.hidden = !part.querySelector(".row:not([hidden])");
    shown.textContent = `${count} of ${rows.length} rows`;
    empty.hidden = count > 0;
  };
  const clear = () => {
    for (const box of verdicts) box.checked = true;
    search.value = level.value = section.value = "";
    filter();
  };

  // A link to a row opens the row, even if the filter hides it.
  const open = () => {
    let id = location.hash.slice(1);
    try { id = decodeURIComponent(id); } catch { return; }
    const row = id && document.getElementById(id);
    if (!row || !row.classList.contains("row")) return;
    if (row.hidden) clear();
    row.open = true;
    row.scrollIntoView({ block: "start" });
    row.querySelector("summary").focus({ preventScroll: true });
  };

  const copy = async (text, button) => {
    const label = button.textContent;
    let done = true;
    try { await navigator.clipboard.writeText(text); } catch {
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      done = document.execCommand("copy");
      area.remove();
    }
    button.textContent = done ? "Copied" : "Not copied";
    setTimeout(() => { button.textContent = label; }, 1200);
  };
  const act = (label, title, run) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = label;
    button.setAttribute("aria-label", title);
    button.addEventListener("click", () => run(button));
    return button;
  };
  // The buttons of a row are created when it is first opened.
  const equip = (row) => {
    if (row.dataset.equipped) return;
    row.dataset.equipped = "yes";
    for (const line of all(".wire li", row)) {
      const pre = line.querySelector("pre");
      const raw = pre.textContent;
      const place = line.querySelector(".act");
      let value;
      try { value = JSON.parse(raw); } catch { value = undefined; }
      if (value !== null && typeof value === "object") {
        const button = act("Pretty", "Show this line as indented JSON", () => {
          const pretty = pre.textContent === raw;
          pre.textContent = pretty ? JSON.stringify(value, null, 2) : raw;
          button.textContent = pretty ? "Raw" : "Pretty";
          button.setAttribute("aria-pressed", String(pretty));
        });
        button.setAttribute("aria-pressed", "false");
        place.append(button);
      }
      place.append(act("Copy", "Copy this line", (button) => copy(raw, button)));
    }
  };
  for (const paste of all(".paste")) {
    const text = paste.querySelector("pre").textContent;
    paste.querySelector(".act").append(act("Copy", "Copy the prompts file", (button) => copy(text, button)));
  }
  document.addEventListener("toggle", (event) => {
    if (event.target.classList.contains("row") && event.target.open) equip(event.target);
  }, true);

  document.getElementById("fold").addEventListener("click", (event) => {
    const opening = event.target.getAttribute("aria-pressed") !== "true";
    for (const { row } of rows) if (!row.hidden) row.open = opening;
    event.target.setAttribute("aria-pressed", String(opening));
    event.target.textContent = opening ? "Collapse all" : "Expand all";
  });
  document.getElementById("clear").addEventListener("click", clear);
  for (const control of [search, level, section, ...verdicts]) control.addEventListener("input", filter);
  document.addEventListener("keydown", (event) => {
    const typing = /^(input|select|textarea)$/i.test(event.target.tagName || "");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      search.focus();
    } else if (event.key === "Escape" && event.target === search) {
      clear();
    }
  });
  addEventListener("hashchange", open);
  addEventListener("beforeprint", () => {
    for (const { row } of rows) if (!row.hidden && /^(fail|warn|error)$/.test(row.dataset.verdict)) row.open = true;
  });
  tools.hidden = false;
  filter();
  open();
})();
