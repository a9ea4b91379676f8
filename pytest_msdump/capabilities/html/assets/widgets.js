// Small pieces that several parts of the page show.
function figure(value, digits = 4) {
  const number = amount(value);
  if (number === null || number === undefined) return "–";
  if (Array.isArray(number)) return number.map((part) => figure(part, digits)).join("; ");
  if (typeof number !== "number") return String(number);
  if (Number.isNaN(number)) return "NaN";
  if (!Number.isFinite(number)) return number > 0 ? "Inf" : "−Inf";
  if (Number.isInteger(number) && Math.abs(number) < 1e7) return String(number);
  const magnitude = Math.abs(number);
  const text = magnitude >= 1e5 || magnitude < 1e-3 ? number.toExponential(digits - 1).replace(/\.?0+e/, "e") : String(Number(number.toPrecision(digits)));
  return text.replace("e+", "e");
}

// A number close to its limit needs more digits than four to be distinguished from it.
function besides(value, limit, metric) {
  if (typeof value !== "number" || typeof limit !== "number") return [figure(value), figure(limit)];
  const digits = value !== limit && figure(value) === figure(limit) ? 6 : 4;
  return [ofOne(metric, value, figure(value, digits)), figure(limit, 6)];
}

// Of a cosine that is nearly 1, what it lacks of that says more.
function ofOne(metric, value, text) {
  return metric === "cosine_similarity" && value > 0.999 && value < 1 ? `1 − ${figure(1 - value, 3)}` : text;
}

function shapeText(shape) {
  return shape === null || shape === undefined ? "–" : shape.length ? shape.join("×") : "()";
}

function indexText(index) {
  return `[${index.join(", ")}]`;
}

function badge(verdict) {
  return h("span", { class: `badge is-${verdict}` }, t(verdict));
}

function roleMark(row) {
  const role = roleOf(row);
  return role ? h("span", { class: `role is-${role}` }, t(role)) : null;
}

// The end of a name distinguishes operators, and the module before it says which one is meant.
const MOST_OF_CELL = 44;

function pathText(text) {
  const fitting = shortened(text, MOST_OF_CELL), cut = fitting.lastIndexOf("/") + 1;
  return h("span", { class: "path mono", title: text },
    cut ? h("span", { class: "head" }, fitting.slice(0, cut)) : null, h("span", { class: "tail" }, fitting.slice(cut)));
}

// The last parts of a long name; the whole of it is a title away.
function shortPath(text, most = 64) {
  if (text.length <= most) return text;
  const parts = text.split("/");
  let kept = parts.pop();
  while (parts.length && kept.length + parts[parts.length - 1].length + 3 <= most) kept = `${parts.pop()}/${kept}`;
  return parts.length ? `…/${kept}` : shortened(kept, most);
}

function placeOfTensor(row, result = current) {
  return `${location.pathname.split("/").pop()}${location.search}#${reports.length > 1 ? `result-${result}-` : ""}tensor-${row}`;
}

function opener(row, text) {
  const open = (event) => {
    event.preventDefault();
    openDrawer(row);
  };
  return h("a", { class: "link", href: placeOfTensor(row), title: sides.left.address(row), onclick: open }, text === undefined ? shortPath(titleOf(row)) : text);
}

async function copyText(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = h("textarea", {}, text);
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  const said = button.textContent;
  button.textContent = t("copied");
  setTimeout(() => { button.textContent = said; }, 1200);
}

function command(text) {
  const button = h("button", { type: "button", onclick: () => copyText(text, button) }, t("copy"));
  return h("div", { class: "command" }, h("code", {}, text.split(" ").flatMap((word) => [h("span", {}, word), " "])), button);
}

// Lines to be pasted into a file.
function linesToCopy(text) {
  const button = h("button", { type: "button", onclick: () => copyText(text, button) }, t("copy"));
  return h("div", { class: "command" }, h("pre", {}, text), button);
}

function sourceLine([file, line, text]) {
  return h("div", { class: "source mono" }, `${pool[file]}:${line}`, text ? [h("br"), text] : null);
}

function ratioText(ratio) {
  if (ratio < 0) return "–";
  if (ratio === Infinity) return "Inf";
  return ratio > 0 && ratio < 0.001 ? "< 0.001" : ratio >= 1e6 ? ratio.toExponential(1).replace("e+", "e") : String(Number(ratio.toPrecision(3)));
}

function looksLike(one) {
  const text = `looks_${one.id}` in loaded.words ? t(`looks_${one.id}`) : String(one.id).replaceAll("_", " ");
  return one.id === "unrelated" ? text + t("wrong_pair") : text;
}

// A long name of a metric breaks at its underscores alone.
function withMetrics(text) {
  return text.split(METRIC_NAMES).map((part, place) => (place % 2 ? h("span", { class: "metric" }, part.split("_").flatMap((word, number) => (number ? [h("wbr"), `_${word}`] : [word]))) : part));
}

function whyText(row) {
  // An estimate may be within a limit that its interval is not.
  const wrong = at(tensors.estimated, row) ? ["fail", "undefined"] : ["fail", "undefined", "warn"];
  const beyond = checksOf(row).filter((check) => wrong.includes(check.outcome));
  beyond.sort((one, other) => (overLimit(other) ?? 0) - (overLimit(one) ?? 0));
  if (beyond.length) {
    const [value, limit] = besides(beyond[0].value, beyond[0].limit, beyond[0].metric);
    const sign = (TITLES.get(beyond[0].metric) || {}).direction === "high" ? "<" : ">";
    const reason = (detailsOf(row).undefined_in || {})[beyond[0].metric];
    return beyond[0].value === null ? `${beyond[0].metric}: ${translated(reason) || t("undefined")}` : `${beyond[0].metric} ${metricText(beyond[0].metric, row, value)} ${sign} ${limit}`;
  }
  const findings = detailsOf(row).findings || [];
  return findings.length ? translated(findings[0][1]) : "";
}

function table(heads, rows, attributes) {
  const numbers = new Set((attributes || {}).numbers || []);
  const kind = (place) => (numbers.has(place) ? { class: "number" } : {});
  return h("div", { class: "wide" }, h("table", { class: (attributes || {}).class },
    heads.length ? h("thead", {}, h("tr", {}, heads.map((head, place) => h("th", { scope: "col", ...kind(place) }, head)))) : null,
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, place) => h("td", kind(place), cell)))))));
}

function facts(pairs) {
  return h("table", { class: "plain" }, h("tbody", {}, pairs.filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, value)))));
}
