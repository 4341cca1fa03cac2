// Numbers about a session: how full its context is, its tokens and its cost.

/** A number of tokens in a short form. */
function tokenText(count) {
  if (count < 1000) return String(count);
  return count < 1e6 ? (count / 1000).toFixed(count < 1e4 ? 1 : 0) + "k" : (count / 1e6).toFixed(1) + "M";
}

const isCount = value => typeof value === "number" && Number.isFinite(value) && value >= 0;

/** An amount in its currency, with more digits for small amounts. */
function costText(cost) {
  if (!isCount(cost?.amount)) return "";
  const digits = cost.amount > 0 && cost.amount < 0.1 ? 4 : 2;
  try {
    return new Intl.NumberFormat("en", { style: "currency", currency: cost.currency, minimumFractionDigits: digits, maximumFractionDigits: digits }).format(cost.amount);
  } catch {
    return cost.amount.toFixed(digits) + " " + oneLine(cost.currency ?? "").slice(0, 12);
  }
}

/** How full the context is, as a meter with its text, or null if it is unknown. */
function contextMeter(context) {
  if (!isCount(context?.used) || !isCount(context?.size) || !context.size) return null;
  const percent = Math.min(100, Math.round((context.used / context.size) * 100));
  const text = `${tokenText(context.used)} of ${tokenText(context.size)} (${percent} %)`;
  const bar = el("span", { class: "bar" + (percent >= 90 ? " full" : percent >= 70 ? " high" : "") });
  bar.style.width = percent + "%";
  return el("span", { class: "context" },
    el("span", {
      class: "meter", role: "meter", "aria-label": "Context", "aria-valuemin": "0", "aria-valuemax": String(context.size),
      "aria-valuenow": String(Math.min(context.used, context.size)), "aria-valuetext": text + " of the context is used",
    }, bar), text);
}

/** The tokens of all turns. */
function usageText(usage) {
  if (!isCount(usage?.totalTokens) || !usage.totalTokens) return "";
  const parts = [["in", usage.inputTokens], ["out", usage.outputTokens]].filter(([, count]) => isCount(count) && count);
  return tokenText(usage.totalTokens) + (parts.length ? ` (${parts.map(([name, count]) => tokenText(count) + " " + name).join(", ")})` : "");
}
