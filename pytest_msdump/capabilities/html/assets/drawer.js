// The drawer: everything that is known of one tensor.
const drawer = { row: -1, element: null, before: null };

function openDrawer(row) {
  if (drawer.row < 0) drawer.before = document.activeElement;
  drawer.row = row;
  const element = drawer.element;
  element.replaceChildren(...drawerParts(row).flat(Infinity).filter(Boolean));
  element.hidden = false;
  element.scrollTop = 0;
  element.querySelector("button").focus();
  if (grid.box && grid.box.isConnected) choose(row);
  history.replaceState(null, "", placeOfTensor(row));
}

function closeDrawer() {
  if (drawer.row < 0) return;
  drawer.row = -1;
  drawer.element.hidden = true;
  history.replaceState(null, "", location.pathname + location.search + (reports.length > 1 ? `#result-${current}` : ""));
  if (drawer.before && drawer.before.isConnected) drawer.before.focus({ preventScroll: true });
}

// Next and previous are those of the table: filtered and sorted as it is.
function turnPage(steps) {
  const rows = grid.rows.includes(drawer.row) ? grid.rows : Array.from({ length: ROWS }, (_, row) => row);
  const next = rows[rows.indexOf(drawer.row) + steps];
  if (next !== undefined) openDrawer(next);
}

function drawerParts(row) {
  const more = detailsOf(row);
  return [
    h("div", { class: "top" },
      h("span", { class: "place" }, t(report.left.by_name ? "op_of_names" : "op_of", { i: at(tensors.order, row) + 1, n: report.left.operators })),
      h("button", { type: "button", onclick: () => turnPage(-1), title: "k" }, "↑ ", h("span", { class: "hide-small" }, t("previous"))),
      h("button", { type: "button", onclick: () => turnPage(1), title: "j" }, "↓ ", h("span", { class: "hide-small" }, t("next"))),
      h("button", { type: "button", onclick: closeDrawer, title: "Esc", id: "close" }, t("close"))),
    h("h2", { class: "mono" }, titleOf(row)),
    titleOf(row) === sides.left.address(row) ? null : h("p", { class: "mono soft small" }, sides.left.address(row)),
    h("p", {}, badge(verdictOf(row)), " ", roleMark(row), " ", h("span", { class: "soft" }, withMetrics(whyText(row)))),
    h("p", { class: "soft small" }, [pairedText(row), ...coordinates(row)].filter(Boolean).join("; ")),
    more.local && translated(more.local) !== whyText(row) ? h("p", {}, translated(more.local)) : null,
    diagnosisParts(more),
    inheritedParts(row, more),
    suspiciousParts(row, more),
    more.source ? [h("h3", {}, t("origin")), sourceLine(more.source)] : null,
    more.right_source ? [h("h3", {}, `${t("origin")} (${t("right_word")})`), sourceLine(more.right_source)] : null,
    limitsPart(row),
    worstPart(row, more),
    saysPart(row, more),
    wouldPass(more),
    [h("h3", {}, t("compare_again")), command(rerunCommand(row))],
    sidesPart(row, more),
    spreadDrawings(more.spread),
    otherNumbers(row, more),
    argumentsPart(more),
    more.statistics ? [h("h3", {}, t("statistics")), statisticsTable(more.statistics)] : null,
    neighbours(row),
  ];
}

// All of a row, or those by which rows differ.
function coordinates(row, differing = false) {
  return ["rank", "net", "graph", "iteration", "occurrence"]
    .filter((name) => !differing || Array.isArray(tensors[name]))
    .map((name) => [name, pooled(tensors[name], row)])
    .filter(([name, value]) => value !== null && (name !== "occurrence" || value))
    .map(([name, value]) => `${name} ${value}`);
}

function diagnosisParts(more) {
  if (!Array.isArray(more.diagnosis) || !more.diagnosis.length) return null;
  return [h("h3", {}, t("diagnosis")), more.diagnosis.map((one) => h("p", {},
    h("b", {}, looksLike(one)), one.confidence ? ` (${t(`how_sure_${one.confidence}`)})` : "",
    one.evidence ? `: ${translated(one.evidence)}` : ""))];
}

function inheritedParts(row, more) {
  const found = [];
  if (more.causes && more.causes.length) {
    // Operators of all iterations have the same addresses.
    const byAddress = new Map(causes.filter((other) => partOf(other) === partOf(row)).map((other) => [sides.left.address(other), other]));
    found.push(h("h3", {}, t("inherited_from")), more.causes.map((number) => {
      const cause = byAddress.get(pool[number]);
      return h("p", {}, cause === undefined ? h("span", { class: "mono" }, nameOf(String(pool[number]))) : opener(cause));
    }));
  }
  const reason = reasonText(row);
  // A reason names them.
  if (reason) found.push(h("h3", {}, t("role")), h("p", { class: "soft" }, reason));
  else if (more.suspects && more.suspects.length) found.push(h("h3", {}, t("suspects")), more.suspects.slice(0, 20).map((number) => h("div", { class: "mono" }, nameOf(String(pool[number])))));
  // Where the reason says by how much it grew, this would say so again.
  if (!(more.role_why || {}).growth && more.amplification !== undefined && typeof amount(more.amplification) === "number") found.push(h("p", { class: "soft" }, `${t("amplifies")}: ${figure(more.amplification)}×`));
  return found;
}

function suspiciousParts(row, more) {
  if (!more.suspicious || !more.suspicious.length) return null;
  const entries = more.suspicious.filter((one) => one.map).map((one) => mapEntry(one.map));
  return [h("h3", {}, t("suspicious_one")), h("p", {}, suspiciousText(row)),
    entries.length ? [h("p", { class: "soft" }, t("do_map_instead")), linesToCopy(entries.join("\n\n"))] : null];
}

function sidesPart(row, more) {
  const described = (name) => {
    const side = sides[name];
    const logical = side.of("logical_shape", row);
    return [t(`${name}_word`), h("div", {}, h("div", { class: "mono" }, side.address(row)),
      h("div", { class: "mono soft" }, joined(report[name].directory, side.file(row))),
      h("div", {}, [side.of("dtype", row), shapeText(side.of("shape", row)), side.of("memory_format", row), logical ? `→ ${shapeText(logical)}` : null, side.of("op_type", row)].filter(Boolean).join("  ")))];
  };
  const moved = Object.entries(more.transform || {}).map(([name, value]) => `${name} ${Array.isArray(value) ? indexText(value) : value}`);
  return [h("h3", {}, t("files")), facts([described("left"), described("right")]), moved.length ? h("p", { class: "soft small" }, moved.join("; ")) : null];
}

function joined(root, file) {
  if (!root || file.startsWith("/") || root === file || root.endsWith(`/${file}`)) return root.endsWith(file) ? root : file;
  return `${root.replace(/\/$/, "")}/${file}`;
}

function limitsPart(row) {
  const order = { fail: 0, undefined: 1, warn: 2, ok: 3 };
  const checks = checksOf(row).sort((one, other) => (order[one.outcome] ?? 4) - (order[other.outcome] ?? 4));
  if (!checks.length) return null;
  const where = detailsOf(row).where || {};
  return [h("h3", {}, t("limits_of")), table([t("metric"), t("value"), t("limit"), t("outcome"), t("rule")], checks.map((check) => {
    const [value, limit] = besides(check.value, check.limit, check.metric);
    const sign = (TITLES.get(check.metric) || {}).direction === "high" ? "≥" : "≤";
    return [[withMetrics(check.metric), where[check.metric] ? h("span", { class: "soft" }, ` ${t("at_index", { i: indexText(where[check.metric]) })}`) : null, h("div", { class: "show-small soft small" }, check.rule || "")], metricText(check.metric, row, value), `${sign} ${limit}`, h("span", { class: `badge is-${check.outcome}` }, t(check.outcome)), h("span", { class: "soft small" }, check.rule || "")];
  }), { numbers: [1, 2], class: "narrow-less" })];
}

function worstPart(row, more) {
  if (!more.worst) return report.details.left_out.includes(row) ? h("p", { class: "soft small" }, t("no_room")) : null;
  const counted = t("worst_of", { d: at(tensors.differing, row), n: at(tensors.elements, row) });
  // Of ids: how far they are apart says nothing.
  if (more.worst.length && more.worst[0].length < 4) {
    return [h("h3", {}, t("differing_ids")), h("p", { class: "soft small" }, counted),
      table([t("index"), t("left_word"), t("right_word")], more.worst.map(([index, left, right]) => [h("span", { class: "mono" }, indexText(index)), String(left), String(right)]), { numbers: [1, 2] })];
  }
  const allowed = `|l − r| ≤ ${figure(pooled(tensors.atol, row))} + ${figure(pooled(tensors.rtol, row))} · |r|`;
  return [h("h3", {}, t("worst")), h("p", { class: "soft small" }, `${counted} ${allowed}`),
    table([t("index"), t("left_word"), t("right_word"), t("error_over_allowed")], more.worst.map(([index, left, right, ratio]) => [h("span", { class: "mono" }, indexText(index)), figure(left, 6), figure(right, 6), figure(ratio, 3)]), { numbers: [1, 2, 3] })];
}

function saysPart(row, more) {
  const listed = [...(more.findings || []).map(([, sentence]) => sentence).filter((sentence) => sentence !== more.local), ...Object.entries(more.undefined_in || {}).map(([name, reason]) => `${name}: ${translated(reason)}`), ...(more.overflows || []), ...(more.notes || [])];
  // What the head of the drawer says already is not said again.
  const said = [...new Set(listed.map((sentence) => translated(String(sentence))))].filter((sentence) => sentence !== whyText(row));
  return said.length ? [h("h3", {}, t("says")), said.map((sentence) => h("p", {}, sentence))] : null;
}

function wouldPass(more) {
  const bounds = Object.entries(more.would_pass || {});
  return bounds.length ? [h("h3", {}, t("would_pass_with")), h("p", { class: "mono" }, withMetrics(bounds.map(([name, bound]) => `${name} = ${bound}`).join(", ")))] : null;
}

function otherNumbers(row, more) {
  const limited = new Set(checksOf(row).map((check) => check.metric));
  const rows = report.metrics.filter(([name]) => !limited.has(name) && metricOf(name, row) !== null)
    .map(([name]) => [withMetrics(name), metricText(name, row), (more.where || {})[name] ? h("span", { class: "mono" }, indexText(more.where[name])) : ""]);
  if (more.moments) rows.push([t("left_word"), `${figure(more.moments[0])} ± ${figure(more.moments[1])}`, "mean ± deviation"], [t("right_word"), `${figure(more.moments[2])} ± ${figure(more.moments[3])}`, ""]);
  rows.push(...Object.entries(more.nonfinite || {}).map(([name, count]) => [name, figure(count), ""]));
  rows.push(...Object.entries(more.custom || {}).map(([name, result]) => [name, String(result.value), String(result.message || "")]));
  return rows.length ? [h("h3", {}, t("other_numbers")), table([], rows, { numbers: [1] })] : null;
}

function argumentsPart(more) {
  const differing = (more.differing_arguments || []).map((one) => [`${one.kind} ${one.name}`, one.left ?? "–", one.right ?? "–"]);
  const saved = Object.entries(more.kernel_args || {}).map(([side, one]) => [t(`${side}_word`), one.note || Object.entries(one.values || {}).map(([name, value]) => `${name} ${value}`).join(", ")]);
  if (!differing.length && !saved.length) return null;
  return [h("h3", {}, t("kernel_arguments")), differing.length ? table([t("argument"), t("left_word"), t("right_word")], differing) : null, saved.length ? facts(saved) : null];
}

function statisticsTable(saved) {
  const names = [...new Set([...Object.keys(saved.left || {}), ...Object.keys(saved.right || {})])];
  return table([t("metric"), t("left_word"), t("right_word")], names.map((name) => [name, figure((saved.left || {})[name], 6), figure((saved.right || {})[name], 6)]), { numbers: [1, 2] });
}

function neighbours(row) {
  const listed = (rows) => rows.map((other) => h("div", {}, badge(verdictOf(other)), " ", opener(other)));
  const named = (orders) => orders.map((order) => (rowOfOrder.has(order) ? listed([rowOfOrder.get(order)]) : h("div", { class: "soft" }, `${nodeOf(order).label}, ${t("without_row")}`)));
  const order = at(tensors.order, row);
  if (producers.has(order) || consumers.has(order)) {
    return [h("h3", {}, t("neighbours")), facts([[t("producers"), named(producers.get(order) || [])], [t("consumers"), named(consumers.get(order) || [])]].filter(([, found]) => found.length)), graphOf(order)];
  }
  const near = [row - 1, row + 1].filter((other) => other >= 0 && other < ROWS);
  return near.length ? [h("h3", {}, t("before_after")), listed(near)] : null;
}
