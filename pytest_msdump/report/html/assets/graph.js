// The operators around one: those it takes from above, those it gives to below.
const LEVELS_UP = 2, LEVELS_DOWN = 3, MOST_NODES = 40;
const NODE = { width: 172, height: 38, across: 16, down: 44 };

// Every node is drawn on the level on which it was met first.
function around(centre) {
  const level = new Map([[centre, 0]]);
  let more = 0;
  for (const [next, sign, most] of [[producers, -1, LEVELS_UP], [consumers, 1, LEVELS_DOWN]]) {
    let edge = [centre];
    for (let step = 1; step <= most; step++) {
      const found = [];
      for (const order of edge) {
        for (const other of next.get(order) || []) {
          if (level.has(other)) continue;
          if (level.size >= MOST_NODES) { more += 1; continue; }
          level.set(other, sign * step);
          found.push(other);
        }
      }
      edge = found;
    }
  }
  return { level, more };
}

function laidOut(level) {
  const rows = new Map();
  for (const [order, step] of level) {
    if (!rows.has(step)) rows.set(step, []);
    rows.get(step).push(order);
  }
  const steps = [...rows.keys()].sort((one, other) => one - other);
  const widest = Math.max(...[...rows.values()].map((listed) => listed.length));
  const width = widest * (NODE.width + NODE.across) + NODE.across;
  const places = new Map();
  steps.forEach((step, number) => {
    const listed = rows.get(step).sort((one, other) => one - other);
    const start = (width - listed.length * (NODE.width + NODE.across) + NODE.across) / 2;
    listed.forEach((order, place) => places.set(order, { x: start + place * (NODE.width + NODE.across), y: 12 + number * (NODE.height + NODE.down) }));
  });
  return { places, width, height: 24 + steps.length * (NODE.height + NODE.down) - NODE.down };
}

function shortened(text, most) {
  return text.length <= most ? text : `…${text.slice(text.length - most + 1)}`;
}

// An operator that was not compared is drawn, too: an error may have come through it.
function nodeOf(order) {
  const row = rowOfOrder.get(order);
  if (row !== undefined) return { row, label: sides.left.label(row), type: sides.left.of("op_type", row), verdict: verdictOf(row), detail: `${ratioText(ratios[row])}${roleOf(row) === "cause" ? `  ${t("cause")}` : ""}` };
  const alone = loneOfOrder.get(order);
  return { row: null, label: alone === undefined ? `${t("order")} ${order + 1}` : lone.label(alone), type: alone === undefined ? "" : lone.of("op_type", alone), verdict: "not_run", detail: t("not_compared") };
}

function graphNode(order, place, centre) {
  const { row, label, type, verdict, detail } = nodeOf(order);
  const open = () => row !== null && openDrawer(row);
  return s("g", { transform: `translate(${place.x} ${place.y})`, tabindex: row === null ? null : 0, role: row === null ? "img" : "button", "aria-label": `${label}, ${row === null ? detail : t(verdict)}`, onclick: open, cursor: row === null ? null : "pointer", "data-order": order,
    onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); open(); } } },
    s("title", {}, `${label}\n${row === null ? detail : t(verdict)}${row !== null && roleOf(row) ? `, ${t(roleOf(row))}` : ""}`),
    s("rect", { width: NODE.width, height: NODE.height, rx: 5, fill: colour(`${COLOURS[verdict]}-back`), stroke: colour(COLOURS[verdict]), "stroke-width": order === centre ? 2.5 : 1, "stroke-dasharray": FAILING.has(verdict) ? null : "3 2" }),
    s("text", { x: 9, y: 16, "font-size": 12, fill: colour("ink") }, shortened(label.slice(label.lastIndexOf("/") + 1), 25)),
    s("text", { x: 9, y: 31, "font-size": 11, fill: colour("soft") }, `${shortened(type || "", 14)}  ${detail}`));
}

function graphOf(centre) {
  const { level, more } = around(centre);
  const { places, width, height } = laidOut(level);
  const lines = [];
  for (const [order, from] of places) {
    for (const other of consumers.get(order) || []) {
      const to = places.get(other);
      if (!to) continue;
      const [x, y, toX, toY] = [from.x + NODE.width / 2, from.y + NODE.height, to.x + NODE.width / 2, to.y];
      const bad = FAILING.has(nodeOf(order).verdict) && FAILING.has(nodeOf(other).verdict);
      lines.push(s("path", { d: `M${x} ${y}C${x} ${y + 22} ${toX} ${toY - 22} ${toX} ${toY - 1}`, fill: "none", stroke: colour(bad ? "fail" : "faint"), "stroke-width": bad ? 1.6 : 1 }));
    }
  }
  const drawn = s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": t("graph") }, lines, [...places].map(([order, place]) => graphNode(order, place, centre)));
  return [h("div", { class: "network" }, drawn), more ? h("p", { class: "soft small" }, t("graph_more", { n: more })) : null];
}

function graphSection() {
  const has = (row) => producers.has(at(tensors.order, row)) || consumers.has(at(tensors.order, row));
  const listed = (causes.length ? causes : failing).slice(0, 50).filter(has);
  if (!listed.length) return null;
  const box = h("div");
  const show = (row) => box.replaceChildren(...graphOf(at(tensors.order, row)).filter(Boolean));
  const choice = h("select", { "aria-label": t("graph"), onchange: () => show(Number(choice.value)) }, listed.map((row) => h("option", { value: row }, shortened(sides.left.address(row), 60))));
  show(listed[0]);
  return h("section", { id: "graph" }, h("div", { class: "row" }, h("h2", {}, t("graph")), choice), box, h("p", { class: "soft small" }, t("graph_help")));
}
