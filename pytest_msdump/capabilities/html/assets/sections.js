// What stands on the page: head, causes, and the three parts below.
const SHADES = { PASS: "is-pass", FAIL: "is-fail", INCOMPLETE: "is-warn" };
const MOST_LISTED = 8, MOST_WITHOUT_CAUSES = 5;

function problems() {
  return report.problems[settings.language] || report.problems.en || [];
}

function percent(share) {
  return `${Math.floor(share * 1000 + 1e-9) / 10} %`;
}

function rolesCounted() {
  const parts = [];
  if (causes.length) parts.push(t("started_by", { n: causes.length }));
  if (accumulated.length) parts.push(t("some_accumulated", { n: accumulated.length }));
  if (inherited.length) parts.push(t("heirs", { n: inherited.length }));
  if (unknown.length) parts.push(causes.length ? t("origin_unknown", { n: unknown.length }) : t("none_is_cause"));
  return parts;
}

function headline() {
  const parts = [];
  const first = causes.length ? causes[0] : failing[0];
  if (!ROWS) parts.push(t("nothing"));
  else if (failing.length) {
    parts.push(t("some_fail", { f: failing.length, n: ROWS }));
    if (report.localised_by === "execution order") parts.push(t("no_graph"));
    else parts.push(...rolesCounted());
  } else if (report.complete) parts.push(t("all_within", { n: ROWS }));
  if (report.counts.warn) parts.push(t("and_warn", { w: report.counts.warn }));
  if (report.counts.not_run) parts.push(t("none_run", { n: report.counts.not_run }));
  if (report.unseen.en) parts.push(`${report.unseen[settings.language] || report.unseen.en}.`);
  const text = [parts.join(" ")];
  if (first !== undefined) {
    for (const [key, row] of first === failing[0] ? [["first_is", first]] : [["cause_is", first], ["first_to_fail", failing[0]]]) {
      const [before, after] = t(key).split("{a}");
      text.push(" ", before, opener(row), after);
    }
  } else if (ROWS && report.complete) text.push(" ", closest());
  return text;
}

// Of tensors that all pass, the one that will fail first when something drifts.
function closest() {
  let nearest = -1;
  for (let row = 0; row < ROWS; row++) if (ratios[row] > 0 && (nearest < 0 || ratios[row] > ratios[nearest])) nearest = row;
  if (nearest < 0) return "";
  const share = ratios[nearest] === Infinity ? "Inf" : ratios[nearest] < 0.0001 ? "< 0.01 %" : `${Number((ratios[nearest] * 100).toPrecision(2))} %`;
  const [before, after] = t("closest", { r: share }).split("{a}");
  return [before, opener(nearest), after];
}

function replayed() {
  const [wrong, right, rest] = ["fail", "pass", "not_replayable"].map((outcome) => (LOCALS.find(([one]) => one === outcome) || [outcome, []])[1].length);
  return t("replayed", { wrong, right, rest });
}

function verdictSection() {
  const word = wordOf(report);
  const counted = VERDICTS.filter((verdict) => report.counts[verdict]);
  const bar = h("div", { class: "counts", "aria-hidden": "true" }, counted.map((verdict) => {
    const part = h("span", { class: `fill-${verdict}` });
    part.style.flexGrow = report.counts[verdict];
    return part;
  }));
  return h("header", {},
    h("div", { class: "verdict" }, h("div", { class: `stamp ${SHADES[word]}`, id: "verdict" }, t(`whole_${word}`)), h("h1", {}, headline()),
      problems().map((problem) => h("div", { class: "problems" }, `${t("coverage_problem")}: ${problem}`))),
    ROWS ? bar : null,
    h("div", { class: "legend" }, counted.map((verdict) => h("span", {}, h("i", { class: `dot fill-${verdict}` }), h("b", {}, report.counts[verdict]), ` ${t(verdict)}`)), LOCALS.length ? h("span", {}, replayed()) : null,
      h("span", {}, `${t("has_partner")} `, h("b", {}, t("matched_of", { p: report.coverage.right_paired ?? 0, t: report.coverage.right_total ?? 0, v: percent(report.coverage.value || 0) }))),
      h("span", {}, `${t("profile")} `, h("b", {}, report.profile))),
    sidesTable(), runFacts(), [...report.permissions[settings.language], ...(report.notes || []).filter((text) => !saidOfSides().has(text))].map((text) => h("p", { class: "soft small" }, text)));
}

// What stands below the two sides is not said again.
function saidOfSides() {
  return new Set([...report.left.notes, ...report.right.notes]);
}

function sidesTable() {
  const about = (name) => {
    const side = report[name];
    const known = Object.entries(side.labels).map(([label, value]) => `${label} ${value}`).join(", ");
    const remarks = [...side.notes, ...(side.unexplained.length ? [`${t("files_unexplained", { n: side.unexplained.length })}: ${side.unexplained.slice(0, 5).join(", ")}`] : [])];
    return h("tr", {}, h("th", { scope: "row" }, t(`${name}_side`)), h("td", {}, h("span", { class: "mono" }, side.directory), h("div", { class: "soft small" }, [known, `${t("read_by")} ${side.reader}`, t("ops_tensors", { o: side.operators, t: side.tensors })].filter(Boolean).join("; ")), remarks.map((text) => h("div", { class: "soft small" }, text))));
  };
  return h("table", { class: "plain sides" }, h("tbody", {}, about("left"), about("right")));
}

// When and how the run was made; results of an earlier release do not say.
function runFacts() {
  const run = report.run || {};
  const told = [["date", run.date && run.date.replace("T", " ").replace("Z", " UTC")], ["version", run.version && `pytest-msdump ${run.version}`], ["commit", run.commit && run.commit.slice(0, 12)]]
    .filter(([, value]) => value).map(([key, value]) => h("span", { title: run[key] }, `${t(key)} `, h("b", {}, value)));
  return told.length || run.command ? h("div", { class: "legend run" }, told, run.command ? h("span", {}, `${t("command")} `, h("code", {}, run.command)) : null) : null;
}

function causesSection() {
  if (!failing.length) return null;
  const listed = causes.length ? causes : failing;
  const first = listed[0], more = detailsOf(first);
  const most = causes.length ? MOST_LISTED : MOST_WITHOUT_CAUSES;
  const rows = listed.slice(0, most).map((row) => {
    const heirs = causes.length ? (report.heirs || {})[row] : 0, where = coordinates(row, true).join(", ");
    const diagnosis = (detailsOf(row).diagnosis || [])[0];
    return h("tr", {}, h("td", { class: "number" }, at(tensors.order, row) + 1), h("td", {}, opener(row), where ? h("span", { class: "soft small" }, ` ${where}`) : null,
      h("div", { class: "why" }, withMetrics([whyText(row), diagnosis ? `${t("diagnosis")}: ${looksLike(diagnosis)}` : null, heirs ? t("inherits", { n: heirs }) : null].filter(Boolean).join("; "))),
      causes.length && reasonText(row) && whyText(row) !== translated(detailsOf(row).local) ? h("div", { class: "why" }, reasonText(row)) : null,
      suspiciousText(row) ? h("div", { class: "why" }, suspiciousText(row)) : null),
      h("td", {}, badge(verdictOf(row))));
  });
  return h("section", { class: "first", id: "causes" },
    h("div", {}, h("h2", {}, causes.length ? t("causes") : t("fails_first")),
      h("p", { class: "soft small" }, causes.length ? (report.localised_by ? t("localised_by", { by: foundBy() }) : "") : reasonText(first) || t("cause_unknown")),
      h("table", { class: "causes" }, h("tbody", {}, rows)),
      listed.length > most ? h("p", { class: "soft small" }, t("more_rows", { n: listed.length - most })) : null,
      failing[0] !== first ? h("p", { class: "soft small" }, `${t("fails_first")}: `, opener(failing[0]), ` ${reasonText(failing[0])}`) : null,
      report.loose_limits ? h("p", { class: "soft small" }, report.loose_limits[settings.language] || report.loose_limits.en) : null),
    h("div", {}, h("h2", {}, t("what_to_do")), h("ol", { class: "steps" },
      h("li", {}, opener(first), h("div", { class: "soft" }, t("do_open"))),
      more.source ? h("li", {}, t("do_look"), sourceLine(more.source)) : null,
      h("li", {}, t("do_rerun"), command(rerunCommand(first))))));
}

// Pairs of which another tensor fits far better, and the entries that would set them right.
function suspiciousSection() {
  const rows = failing.filter((row) => (detailsOf(row).suspicious || []).length);
  if (!rows.length) return null;
  const entries = new Map();
  for (const row of rows) for (const one of detailsOf(row).suspicious) if (one.map) entries.set(mapEntry(one.map), row);
  const blocks = [...entries].map(([text, row]) => (pooled(tensors.how, row) === "mapped" && pooled(tensors.by, row) ? `# ${t("in_place_of", { entry: pooled(tensors.by, row) })}\n${text}` : text));
  const listed = rows.slice(0, 20);
  return h("section", { id: "suspicious" }, h("h2", {}, t("suspicious_title")), h("p", { class: "soft small" }, t("suspicious_intro")),
    table([t("order"), t("operator")], listed.map((row) => [at(tensors.order, row) + 1, [opener(row), " ", h("span", { class: "soft small" }, t("paired_with", { right: shortPath(sides.right.address(row)) })), h("div", { class: "small" }, suspiciousText(row))]]), { numbers: [0] }),
    rows.length > listed.length ? h("p", { class: "soft small" }, t("more_rows", { n: rows.length - listed.length })) : null,
    blocks.length ? [h("p", { class: "soft" }, t("do_map_instead")), linesToCopy(blocks.join("\n\n"))] : null);
}

function tableSection() {
  const search = h("input", { type: "search", id: "search", placeholder: t("search"), "aria-label": t("search"), value: grid.text, oninput: () => { grid.text = search.value; refilter(); } });
  const chip = (chosen, word, count, title = t(word)) => h("button", { type: "button", "aria-pressed": chosen.has(word), onclick: (event) => {
    if (!chosen.delete(word)) chosen.add(word);
    event.currentTarget.setAttribute("aria-pressed", chosen.has(word));
    refilter();
  } }, `${title} ${count}`);
  const verdicts = h("span", { class: "chips", role: "group", "aria-label": t("verdict") }, VERDICTS.filter((verdict) => report.counts[verdict]).map((verdict) => chip(grid.verdicts, verdict, report.counts[verdict])));
  const withRole = [["cause", causes], ["accumulated", accumulated], ["inherited", inherited], ["unknown", unknown]].filter(([, rows]) => rows.length);
  const roles = withRole.length ? h("span", { class: "chips", role: "group", "aria-label": t("role") }, withRole.map(([role, rows]) => chip(grid.roles, role, rows.length))) : null;
  const locals = LOCALS.length ? h("span", { class: "chips", role: "group", "aria-label": t("local") }, LOCALS.map(([outcome, rows]) => chip(grid.locals, outcome, rows.length, t(`by_itself_${outcome}`)))) : null;
  const boxes = COLUMNS.filter((column) => column.id !== "operator" && !(column.when && !column.when())).map((column) => h("label", {}, h("input", { type: "checkbox", checked: chosenColumns.has(column.id), onchange: (event) => {
    if (event.currentTarget.checked) chosenColumns.add(column.id);
    else chosenColumns.delete(column.id);
    redrawTable();
    drawRows(true);
  } }), ` ${columnTitle(column)}`));
  const copy = h("button", { type: "button", class: "hide-small", onclick: () => copyText(csvText(), copy) }, t("copy_csv"));
  grid.count = h("span", { class: "soft small" });
  grid.box = h("div", { class: "grid", tabindex: 0, role: "region", "aria-label": t("overview"), onscroll: () => drawRows(false), onkeydown: (event) => {
    if (!(event.key in GRID_KEYS) || event.target !== grid.box) return;
    event.preventDefault();
    GRID_KEYS[event.key]();
  } }, h("table", { "aria-label": t("overview") }));
  redrawTable();
  return h("section", {}, h("div", { class: "filters" }, search, verdicts, roles, locals, grid.count, h("details", { class: "hide-small" }, h("summary", {}, t("columns")), h("div", {}, boxes)), copy), grid.box);
}

function unmatchedSection() {
  const listed = report.unmatched, counts = report.counts;
  const missing = report.missing.length ? [h("h2", {}, t("missing_title")), table([t("left_word"), t("right_word"), t("reason"), t("candidates")], report.missing.map((one) => [one.left, one.right, translated(one.reason), one.candidates.join(", ")].map((text) => h("span", { class: "small" }, text))))] : null;
  if (!listed.all) return h("section", {}, missing, h("p", {}, t("all_matched")));
  const groups = new Map();
  for (let row = 0; row < listed.rows; row++) {
    const key = `${pooled(listed.side, row)}\n${pooled(listed.reason, row)}`;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(row);
  }
  const sorted = [...groups].sort(([, one], [, other]) => other.length - one.length);
  return h("section", { id: "unmatched" }, missing, h("p", {}, t("unmatched_intro", { l: counts.unmatched_left, r: counts.unmatched_right })),
    listed.all > listed.rows ? h("p", { class: "soft small" }, t("list_cut", { n: listed.rows })) : null,
    sorted.map(([key, rows], place) => groupOf(key.split("\n"), rows, place === 0)));
}

function groupOf([side, reason], rows, open) {
  const listed = report.unmatched;
  const body = h("div");
  const fill = (from) => {
    const to = Math.min(rows.length, from + 200);
    const lines = rows.slice(from, to).map((row) => [h("span", { class: "mono" }, lone.address(row)), [lone.of("op_type", row), lone.of("dtype", row), lone.of("shape", row) ? shapeText(lone.of("shape", row)) : null].filter(Boolean).join(" "), candidates(row)]);
    body.append(table(from ? [] : [t("address"), t("op_type"), t("candidates")], lines));
    if (to < rows.length) {
      const button = h("button", { type: "button", onclick: () => { button.remove(); fill(to); } }, `+ ${rows.length - to}`);
      body.append(button);
    }
  };
  const group = h("details", { open, ontoggle: () => { if (group.open && !body.firstChild) fill(0); } }, h("summary", {}, h("b", {}, rows.length), ` ${t(`${side}_word`)}: ${translated(reason)}`), body);
  if (open) fill(0);
  return group;
}

function candidates(row) {
  const suggested = pooled(report.unmatched.suggestions || { all: -1 }, row) || [];
  const near = pooled(report.unmatched.candidates, row) || [];
  return [suggested.map((one) => h("div", { class: "small" }, `${t("suggested")}: `, h("span", { class: "mono" }, one.address),
    h("div", { class: "soft" }, `${t(`is_${one.confidence}`)}: ${fitText(one)}`))), near.length ? h("div", { class: "mono small soft" }, near.join(", ")) : null];
}

function rulesSection() {
  const found = new Map();
  for (let row = 0; row < ROWS; row++) {
    const mine = new Map();
    for (const check of checksOf(row)) {
      const name = check.rule || "–";
      if (!mine.has(name)) mine.set(name, { bad: false, warned: false, metrics: [] });
      const one = mine.get(name);
      one.bad ||= check.outcome === "fail" || check.outcome === "undefined";
      one.warned ||= check.outcome === "warn";
      one.metrics.push(`${check.metric} ${(TITLES.get(check.metric) || {}).direction === "high" ? "≥" : "≤"} ${figure(check.limit, 6)}${check.level === "warn" ? ` (${t("warn")})` : ""}`);
    }
    for (const [name, one] of mine) {
      if (!found.has(name)) found.set(name, { rows: 0, bad: 0, warned: 0, metrics: new Set() });
      const sum = found.get(name);
      sum.rows += 1;
      sum.bad += one.bad ? 1 : 0;
      sum.warned += one.warned ? 1 : 0;
      one.metrics.forEach((text) => sum.metrics.add(text));
    }
  }
  const listed = [...found].sort(([, one], [, other]) => other.rows - one.rows);
  const never = (report.limits.rules || []).filter((label) => !found.has(label));
  const drifts = new Map();
  for (let row = 0; row < ROWS; row++) {
    const reason = pooled(tensors.known_drift, row);
    if (reason) drifts.set(reason, (drifts.get(reason) || 0) + 1);
  }
  const set = (sum) => h("span", { class: "small soft" }, withMetrics([...sum.metrics].slice(0, 12).join(", ")));
  return h("section", { id: "rules" }, h("p", { class: "soft" }, t("rules_intro")),
    table([t("rule"), t("judged"), t("failed"), t("warn"), t("metrics_set")], listed.map(([name, sum]) => [h("button", { class: "link", type: "button", onclick: () => showRule(name) }, name), sum.rows, sum.bad, sum.warned, set(sum)]), { numbers: [1, 2, 3] }),
    drifts.size ? [h("h2", {}, t("known_drift")), table([t("reason"), t("number_of_tensors")], [...drifts], { numbers: [1] })] : null,
    never.length ? [h("h2", {}, t("never")), h("p", { class: "soft small" }, t("never_intro")), table([], never.map((label) => [h("span", { class: "mono" }, label)]))] : null,
    h("p", { class: "soft small" }, `${t("nan_policy")}: ${report.limits.nan ?? "match"}; ${t("profile")}: ${report.profile}`));
}

function showRule(name) {
  grid.text = name;
  showTab("overview");
  grid.box.scrollIntoView({ block: "center" });
}
