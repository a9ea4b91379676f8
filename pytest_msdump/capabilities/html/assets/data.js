// The report as its columns hold it; see content.py for what is where. Of several, the page is about one at a time.
const loaded = JSON.parse(document.getElementById("data").textContent);
const reports = [loaded.report, ...loaded.others];
const asked = /^#(?:result-(\d+))?-?(?:tensor-(\d+))?$/.exec(location.hash) || [];
// Of several results, one that fails is shown first.
const wordOf = (one) => (one.counts.fail || one.counts.undefined || one.counts.error || (one.problems.en || []).length ? "FAIL" : one.complete ? "PASS" : "INCOMPLETE");
const current = asked[1] ? Math.min(Number(asked[1]), reports.length - 1) : Math.max(0, reports.findIndex((one) => wordOf(one) === "FAIL"));
const report = reports[current];
const pool = report.pool;
const tensors = report.tensors;
const ROWS = report.rows;
const FAILING = new Set(["fail", "undefined", "error"]);
const VERDICTS = ["pass", "warn", "fail", "undefined", "error", "not_run"];
const SEVERITY = { error: 0, fail: 1, undefined: 2, warn: 3, not_run: 4, pass: 5 };
const TITLES = new Map(report.metrics.map(([name, title, direction]) => [name, { title, direction }]));
// Longest first: a name may begin like another one.
const METRIC_NAMES = new RegExp(`(?<![\\w.])(${[...TITLES.keys()].sort((one, other) => other.length - one.length).map((name) => name.replace(/[^\w]/g, "\\$&")).join("|") || "(?!)"})(?!\\w)`);

function at(column, row) {
  return Array.isArray(column) ? column[row] : column.all;
}

function pooled(column, row, one = report) {
  const number = at(column, row);
  return number < 0 ? null : one.pool[number];
}

function texts(coded, rows) {
  const found = new Array(rows);
  let before = "";
  for (let row = 0; row < rows; row++) {
    before = before.slice(0, at(coded.shared, row)) + at(coded.rest, row);
    found[row] = before;
  }
  return found;
}

function fileNames(columns, labels, rows) {
  const found = new Array(rows);
  let time = 0, task = 0;
  for (let row = 0; row < rows; row++) {
    let base = pooled(columns.template, row);
    if (base.includes("\u0002")) {
      time += at(columns.time, row);
      base = base.replace("\u0002", String(time));
    }
    if (base.includes("\u0003")) {
      task += at(columns.task, row);
      base = base.replace("\u0003", String(task));
    }
    const name = labels[row].replaceAll("/", "_");
    found[row] = pooled(columns.folder, row) + base.replace("\u0001", () => name);
  }
  return found;
}

// The name under which an operator, or a tensor of it, is shown: its module, where its own is a number.
const shown = new Map(Object.entries(report.left.shown || {}));

function nameOf(own) {
  const [, label, slot] = /^([^]*?)(:(?:input|output):\d+)?$/.exec(own);
  return (shown.get(label) || label) + (slot || "");
}

function titleOf(row) {
  return nameOf(sides.left.label(row)) + pooled(tensors.left.slot, row);
}

function sideOf(columns, rows, one = report) {
  const labels = texts(columns.label, rows);
  const files = one === report ? fileNames(columns, labels, rows) : null;
  return {
    label: (row) => labels[row],
    address: (row) => labels[row] + pooled(columns.slot, row, one),
    file: (row) => files[row],
    of: (key, row) => pooled(columns[key], row),
  };
}

const sides = { left: sideOf(tensors.left, ROWS), right: sideOf(tensors.right, ROWS) };
const lone = sideOf(report.unmatched, report.unmatched.rows);

// NaN and Inf are texts, as in results.json.
function amount(value) {
  return value === "NaN" ? NaN : value === "Infinity" ? Infinity : value === "-Infinity" ? -Infinity : value;
}

function metricOf(name, row, one = report) {
  const values = one.tensors.values[name];
  return values === undefined ? null : amount(at(values, row));
}

function verdictOf(row, one = report) {
  return pooled(one.tensors.verdict, row, one);
}

function roleOf(row) {
  return pooled(tensors.role, row);
}

function detailsOf(row) {
  return report.details.of[row] || {};
}

// A metric as text, with a sign where sketches gave it.
function metricText(name, row, text = ofOne(name, metricOf(name, row), figure(metricOf(name, row)))) {
  return at(tensors.estimated, row) && metricOf(name, row) !== null ? `≈ ${text}` : text;
}

// Limits of a record, each with its number and what came of it.
function checksOf(row, one = report) {
  const outcomes = pooled(one.tensors.outcomes, row, one) || [];
  return (pooled(one.tensors.limits, row, one) || []).map(([metric, limit, level, rule, base], place) => ({
    metric, limit: amount(limit), level, rule, base, outcome: outcomes[place], value: metricOf(metric, row, one),
  }));
}

// How large an error is in units of its limit; above 1 is beyond it. A cosine's error is what it lacks of 1.
function overLimit(check) {
  const direction = (TITLES.get(check.metric) || {}).direction;
  const limit = check.limit;
  if (check.value === null || typeof check.value !== "number" || typeof limit !== "number" || check.level === "warn") {
    return null;
  }
  const [error, bound] = direction === "high" ? [1 - check.value, 1 - limit] : [Math.abs(check.value), limit];
  if (Number.isNaN(error)) return NaN;
  if (bound > 0) return Math.max(error, 0) / bound;
  return error <= bound ? 0 : Infinity;
}

// −1: nothing was measured, or nothing has a limit.
function worstOf(row, one = report) {
  let largest = -1, rule = null, bad = 0;
  for (const check of checksOf(row, one)) {
    const ratio = overLimit(check);
    const fails = check.outcome === "fail" || check.outcome === "undefined";
    if (fails && !bad) { bad = 1; rule = check.rule; }
    if (ratio === null) continue;
    if (Number.isNaN(ratio) || ratio > largest) {
      largest = Number.isNaN(ratio) ? Infinity : ratio;
      if (!bad || fails) rule = check.rule;
    }
  }
  return { largest, rule };
}

// What rounding does to a tensor, by a limits file: as a relative distance, and the largest error in units of it.
const bases = new Array(ROWS).fill(null), scores = new Array(ROWS).fill(null);
for (let row = 0; row < ROWS; row++) {
  for (const { metric, base, value } of checksOf(row)) {
    if (!base) continue;
    if (metric === "relative_euclidean_distance") bases[row] = base;
    if (typeof value === "number") scores[row] = Math.max(scores[row] ?? 0, value / base);
  }
}

// What a replay says of a tensor: its own error over its limit, and pass, fail or not_replayable; null where none judged.
const localRatio = (row) => amount(at(tensors.local_ratio, row));
const localOf = (row) => pooled(tensors.local, row);

const ratios = new Float64Array(ROWS);
const worstRules = new Array(ROWS);
for (let row = 0; row < ROWS; row++) ({ largest: ratios[row], rule: worstRules[row] } = worstOf(row));

const failing = [];
for (let row = 0; row < ROWS; row++) if (FAILING.has(verdictOf(row))) failing.push(row);
// A cause may pass: its error jumped within its limit, and what follows fails.
const causes = [], jumps = [];
for (let row = 0; row < ROWS; row++) {
  if (roleOf(row) === "cause") causes.push(row);
  else if (!roleOf(row) && (detailsOf(row).role_why || {}).why === "jump") jumps.push(row);
}
jumps.sort((one, other) => amount(detailsOf(other).role_why.growth.step) - amount(detailsOf(one).role_why.growth.step) || one - other);
const accumulated = failing.filter((row) => roleOf(row) === "accumulated");
const inherited = failing.filter((row) => roleOf(row) === "inherited");
const unknown = failing.filter((row) => roleOf(row) === "unknown");
const LOCALS = ["fail", "pass", "not_replayable"].map((outcome) => [outcome, Array.from(ratios.keys()).filter((row) => localOf(row) === outcome)]).filter(([, rows]) => rows.length);

// Edges name operators by their order; an operator has a record for each of its tensors, or none.
const producers = new Map();
const consumers = new Map();
for (let place = 0; report.edges && place < report.edges.length; place += 2) {
  const [from, to] = [report.edges[place], report.edges[place + 1]];
  if (!producers.has(to)) producers.set(to, []);
  if (!consumers.has(from)) consumers.set(from, []);
  producers.get(to).push(from);
  consumers.get(from).push(to);
}
const rowOfOrder = new Map();
for (let row = 0; row < ROWS; row++) {
  const order = at(tensors.order, row), before = rowOfOrder.get(order);
  if (before === undefined || SEVERITY[verdictOf(row)] < SEVERITY[verdictOf(before)]) rowOfOrder.set(order, row);
}
const loneOfOrder = new Map();
for (let row = 0; report.edges && row < report.unmatched.rows; row++) {
  const order = pooled(report.unmatched.order, row);
  if (order !== null && !loneOfOrder.has(order)) loneOfOrder.set(order, row);
}

function partOf(row) {
  return ["rank", "net", "graph", "iteration"].map((name) => at(tensors[name], row)).join();
}

function rerunCommand(row) {
  const select = sides.left.label(row).replace(/[[*?]/g, "[$&]");
  const parts = ["msdump", "compare", ...(report.rerun || [report.left.directory, report.right.directory])];
  parts.push(`--select=${select}`);
  return parts.map(quoted).join(" ");
}

function quoted(word) {
  if (/^[A-Za-z0-9@%+=:,./_-]+$/.test(word)) return word;
  if (!UNPRINTABLE.test(word)) return `'${word.replaceAll("'", "'\"'\"'")}'`;
  const bytes = (char) => [...new TextEncoder().encode(char)].map((byte) => `\\x${byte.toString(16).padStart(2, "0")}`).join("");
  const inside = (char) => (UNPRINTABLE.test(char) ? bytes(char) : /['\\]/.test(char) ? `\\${char}` : char);
  return `$'${[...word].map(inside).join("")}'`;
}

const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]/u;
