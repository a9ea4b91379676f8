// The table: only the rows that can be seen are there.
const ROW_PIXELS = 31;
const grid = { text: "", verdicts: new Set(), roles: new Set(), locals: new Set(), sort: "verdict", down: false, rows: [], chosen: -1, shown: null, body: null, box: null, count: null, extra: null };
let searched = null;

// Causes, then what fails, then the rest; the table begins with this order.
function urgency(row) {
  return roleOf(row) === "cause" ? -1 : FAILING.has(verdictOf(row)) ? 0 : SEVERITY[verdictOf(row)];
}

// What a replay says of an operator by itself: its error over its limit, marked where that is wrong.
function localText(row) {
  if (localRatio(row) === null) return localOf(row) ? t(`by_itself_${localOf(row)}`) : "–";
  return `${localOf(row) === "fail" ? "✗ " : ""}${ratioText(localRatio(row))}`;
}

const COLUMNS = [
  { id: "verdict", width: 108, key: urgency, cell: (row) => (window.innerWidth <= 760 && roleOf(row) === "cause" ? roleMark(row) : badge(verdictOf(row))), text: verdictOf },
  { id: "role", width: 124, small: true, key: (row) => ({ cause: 0, unknown: 1, accumulated: 2, inherited: 3 })[roleOf(row)] ?? 4, cell: (row) => roleMark(row), text: (row) => roleOf(row) || "", when: () => failing.some((row) => roleOf(row)) },
  { id: "order", width: 64, number: true, small: true, key: (row) => at(tensors.order, row), text: (row) => String(at(tensors.order, row) + 1) },
  { id: "operator", width: 0, key: titleOf, cell: (row) => pathText(titleOf(row)), text: titleOf },
  { id: "right", word: "right_tensor", width: 190, small: true, key: (row) => sides.right.address(row), cell: (row) => pathText(sides.right.address(row)), text: (row) => sides.right.address(row) },
  { id: "op_type", width: 110, small: true, key: (row) => sides.left.of("op_type", row) || "", text: (row) => sides.left.of("op_type", row) || "–" },
  { id: "dtype", width: 84, small: true, key: (row) => sides.left.of("dtype", row) || "", text: (row) => sides.left.of("dtype", row) || "–" },
  { id: "shape", width: 120, small: true, key: (row) => (sides.left.of("shape", row) || []).reduce((product, length) => product * length, 1), text: (row) => shapeText(sides.left.of("shape", row)) },
  { id: "iteration", width: 80, number: true, small: true, key: (row) => pooled(tensors.iteration, row) ?? -1, text: (row) => figure(pooled(tensors.iteration, row)), when: () => Array.isArray(tensors.iteration) },
  { id: "rank", width: 60, number: true, small: true, key: (row) => pooled(tensors.rank, row) ?? -1, text: (row) => figure(pooled(tensors.rank, row)), when: () => Array.isArray(tensors.rank) },
  { id: "ratio", width: 96, number: true, key: (row) => ratios[row], text: (row) => ratioText(ratios[row]) },
  { id: "local", width: 110, number: true, small: true, key: (row) => sortable(localRatio(row), "low"), text: localText, when: () => LOCALS.length },
  ...report.metrics.map(([name, title, direction, chinese]) => ({
    id: name, title: { en: title, zh: chinese }, width: 112, number: true, small: true, metric: true,
    key: (row) => sortable(metricOf(name, row), direction), text: (row) => metricText(name, row),
  })),
  { id: "rule", width: 210, small: true, key: (row) => worstRules[row] || "", text: (row) => worstRules[row] || "–" },
];
const chosenColumns = new Set(["verdict", "role", "order", "operator", "op_type", "dtype", "shape", "iteration", "rank", "ratio", "local", "cosine_similarity", "max_absolute_error", "relative_euclidean_distance"]);

// What cannot be compared stands at the worse end.
function sortable(value, direction) {
  if (typeof value !== "number") return direction === "high" ? Infinity : -Infinity;
  return Number.isNaN(value) ? (direction === "high" ? -Infinity : Infinity) : value;
}

function columnTitle(column) {
  return column.metric ? column.title[settings.language] : t(column.word || column.id);
}

function columns() {
  const small = window.innerWidth <= 760;
  return COLUMNS.filter((column) => chosenColumns.has(column.id) && !(column.when && !column.when()) && !(small && column.small));
}

function searchedTexts() {
  searched ??= Array.from({ length: ROWS }, (_, row) => [titleOf(row), sides.left.address(row), sides.right.address(row), sides.left.file(row), sides.right.file(row),
    sides.left.of("op_type", row), sides.left.of("dtype", row), pooled(tensors.by, row), ...new Set(checksOf(row).map((check) => check.rule)), roleOf(row), (detailsOf(row).source || [])[2]].join("\n").toLowerCase());
  return searched;
}

function refilter() {
  const words = grid.text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = [];
  const inText = words.length ? searchedTexts() : null;
  for (let row = 0; row < ROWS; row++) {
    if (grid.verdicts.size && !grid.verdicts.has(verdictOf(row))) continue;
    if (grid.roles.size && !grid.roles.has(roleOf(row))) continue;
    if (grid.locals.size && !grid.locals.has(localOf(row))) continue;
    if (inText && !words.every((word) => inText[row].includes(word))) continue;
    found.push(row);
  }
  grid.rows = found;
  resort();
}

function resort() {
  const column = COLUMNS.find((one) => one.id === grid.sort);
  const keys = new Array(ROWS);
  for (const row of grid.rows) keys[row] = column.key(row);
  const sign = grid.down ? -1 : 1;
  grid.rows.sort((one, other) => (keys[one] < keys[other] ? -sign : keys[one] > keys[other] ? sign : one - other));
  if (grid.box) grid.box.scrollTop = 0;
  drawRows(true);
}

function drawRows(anew) {
  if (!grid.body) return;
  const first = Math.max(0, Math.floor(grid.box.scrollTop / ROW_PIXELS) - 8);
  const last = Math.min(grid.rows.length, first + Math.ceil(Math.max(grid.box.clientHeight, 560) / ROW_PIXELS) + 16);
  if (!anew && grid.shown && grid.shown[0] === first && grid.shown[1] === last) return;
  grid.shown = [first, last];
  const listed = columns();
  const rows = grid.rows.slice(first, last).map((row, place) => h("tr", { "data-row": row, "aria-rowindex": first + place + 2, "aria-selected": row === grid.chosen, onclick: () => { choose(row); openDrawer(row); } },
    listed.map((column) => h("td", { class: column.number ? "number" : undefined, title: column.cell ? undefined : column.text(row) }, column.cell ? column.cell(row) : column.text(row)))));
  const none = h("tr", { class: "no-rows" }, h("td", { colspan: listed.length }, t("no_rows")));
  grid.body.replaceChildren(gap(first, listed), ...(rows.length ? rows : [none]), gap(grid.rows.length - last, listed));
  grid.count.textContent = t("shown_of", { s: grid.rows.length, n: ROWS });
  grid.box.firstChild.setAttribute("aria-rowcount", grid.rows.length + 1);
}

function gap(rows, listed) {
  const cell = h("td", { colspan: listed.length });
  cell.style.height = `${rows * ROW_PIXELS}px`;
  const element = h("tr", { class: "gap", "aria-hidden": "true" }, cell);
  element.hidden = rows === 0;
  return element;
}

function choose(row) {
  grid.chosen = row;
  const place = grid.rows.indexOf(row);
  if (place < 0 || !grid.box) return;
  const top = place * ROW_PIXELS, seen = grid.box.clientHeight - ROW_PIXELS - 4;
  if (top < grid.box.scrollTop) grid.box.scrollTop = top;
  else if (top + ROW_PIXELS > grid.box.scrollTop + seen) grid.box.scrollTop = top + ROW_PIXELS - seen;
  drawRows(true);
}

function move(steps) {
  const place = grid.rows.indexOf(grid.chosen);
  const next = Math.max(0, Math.min(grid.rows.length - 1, place < 0 ? 0 : place + steps));
  if (grid.rows.length) choose(grid.rows[next]);
}

const GRID_KEYS = {
  ArrowDown: () => move(1), ArrowUp: () => move(-1), PageDown: () => move(15), PageUp: () => move(-15),
  Home: () => move(-ROWS), End: () => move(ROWS), Enter: () => grid.chosen >= 0 && openDrawer(grid.chosen),
};

function heads() {
  const listed = columns();
  return [
    h("colgroup", {}, listed.map((column) => {
      const element = h("col");
      if (column.width) element.style.width = `${window.innerWidth > 760 ? column.width : Math.min(84, column.width)}px`;
      return element;
    })),
    h("thead", {}, h("tr", {}, listed.map((column) => h("th", { scope: "col", class: column.number ? "number" : undefined, "aria-sort": grid.sort === column.id ? (grid.down ? "descending" : "ascending") : undefined },
      h("button", { type: "button", title: column.metric ? column.id : undefined, "data-sort": column.id, onclick: () => sortBy(column) }, columnTitle(column), grid.sort === column.id ? (grid.down ? " ↓" : " ↑") : ""))))),
  ];
}

function sortBy(column) {
  // Numbers are looked at from their worse end first.
  grid.down = grid.sort === column.id ? !grid.down : Boolean(column.number) && column.id !== "order" && (TITLES.get(column.id) || {}).direction !== "high";
  grid.sort = column.id;
  redrawTable();
  resort();
  grid.box.querySelector(`[data-sort="${CSS.escape(column.id)}"]`)?.focus();
}

function redrawTable() {
  const listed = columns();
  const element = grid.box.firstChild;
  const least = listed.reduce((sum, column) => sum + (column.width || 330), 0);
  element.style.minWidth = window.innerWidth > 760 ? `${least}px` : "";
  grid.body = h("tbody");
  element.replaceChildren(...heads(), grid.body);
  grid.shown = null;
}

function csvText() {
  const cell = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  // A cell that a spreadsheet would take for a formula begins with a quote.
  const safe = (text) => cell(/^[=+\-@\t＝＋－＠]/.test(text) && !/^-?[\d.]+(e-?\d+)?$/i.test(text) ? `'${text}` : text);
  const listed = COLUMNS.filter((column) => chosenColumns.has(column.id) && !(column.when && !column.when()));
  return [listed.map((column) => column.id).join(","), ...grid.rows.map((row) => listed.map((column) => safe(String(column.text(row)))).join(","))].join("\n") + "\n";
}
