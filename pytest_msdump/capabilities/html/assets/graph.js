// The network as a picture: operators in layers, data from above to below, scopes of modules that open and fold.
const NODE = { width: 190, widest: 330, letter: 7.3, height: 40, across: 18, down: 32, line: 10 };
const MOST_SEEN = 36, MOST_INSIDE = 32, MOST_SCOPES = 12, SWEEPS = 6;
const LEVELS_UP = 2, LEVELS_DOWN = 3, MOST_NODES = 40;
const network = { root: null, open: new Set(), box: null, folds: null };

// The last parts of a name that fit, each whole; of one that alone is too long, its end.
function shortened(text, most) {
  if (text.length <= most) return text;
  const parts = text.split(/(?<=[/.:])/);
  let kept = parts.pop();
  while (parts.length && kept.length + parts[parts.length - 1].length < most) kept = parts.pop() + kept;
  return `…${kept.length < most ? kept : kept.slice(kept.length - most + 1)}`;
}

// -- scopes -------------------------------------------------------------------------------------------------------

// An operator that was not compared is drawn, too: an error may have come through it.
function nodeOf(order) {
  const row = rowOfOrder.get(order);
  if (row !== undefined) return { row, label: nameOf(sides.left.label(row)), type: sides.left.of("op_type", row), verdict: verdictOf(row) };
  const alone = loneOfOrder.get(order);
  return { row: null, label: alone === undefined ? `${t("order")} ${order + 1}` : nameOf(lone.label(alone)), type: alone === undefined ? "" : lone.of("op_type", alone), verdict: "not_run" };
}

function leaf(order, up = null) {
  const { row, label } = nodeOf(order);
  const ratio = row === null ? -1 : ratios[row];
  // The end of a name is often the type alone: the module is named with it.
  return { name: label.split("/").slice(-2).join("/"), label, up, order, members: [], orders: [order], ratio, failing: row !== null && FAILING.has(verdictOf(row)) ? 1 : 0, causes: row !== null && roleOf(row) === "cause" ? 1 : 0 };
}

// Runs that were compared together repeat every name: what tells them apart is the outermost scope.
function scopesOf(order) {
  const { row, label } = nodeOf(order);
  const runs = row === null ? [] : ["rank", "net", "graph", "iteration", "occurrence"].filter((name) => Array.isArray(tensors[name])).map((name) => `${t(name === "graph" ? "graph_word" : name)} ${pooled(tensors[name], row) ?? "–"}`);
  const parts = label.includes("/") ? label.split("/").slice(0, -1).filter(Boolean) : modulesAround(label);
  return [...runs, ...parts.slice(0, MOST_SCOPES)];
}

// "blocks.0.mlp" and "blocks.0 (Gelu)" are in blocks.0, whose number alone says nothing.
function modulesAround(label) {
  const path = label.replace(/ \([^()]*\)$/, "").split(".");
  if (!label.endsWith(")")) path.pop();
  return path.reduce((found, part) => (/^\d+$/.test(part) && found.length ? [...found.slice(0, -1), `${found[found.length - 1]}.${part}`] : [...found, part]), []).filter(Boolean);
}

function scopeTree(orders) {
  const root = { name: "", up: null, order: null, inside: new Map() };
  for (const order of orders) {
    let scope = root;
    for (const name of scopesOf(order)) {
      if (!scope.inside.has(name)) scope.inside.set(name, { name, up: scope, order: null, inside: new Map() });
      scope = scope.inside.get(name);
    }
    scope.inside.set(order, leaf(order, scope));
  }
  return finished(root);
}

// Scopes with one member become one with it; where there are too many members, those that follow each other become one.
function finished(scope) {
  if (scope.order !== null) return scope;
  scope.members = [...scope.inside.values()].map(finished).sort((one, other) => one.orders[0] - other.orders[0]);
  const [only] = scope.members;
  if (scope.members.length === 1 && only.order === null) {
    return Object.assign(only, { name: [scope.name, only.name].filter(Boolean).join("/"), up: scope.up });
  }
  while (scope.members.length > MOST_INSIDE) {
    const size = Math.ceil(scope.members.length / MOST_INSIDE), runs = [];
    for (let start = 0; start < scope.members.length; start += size) {
      const members = scope.members.slice(start, start + size);
      runs.push(members.length === 1 ? members[0] : summed({ name: fromTo(members[0].name, members[members.length - 1].name), order: null, members }));
    }
    scope.members = runs;
  }
  return summed(scope);
}

// "0 … 24-ResidualBlock": what both names end with is said once.
function fromTo(first, last) {
  let same = 0;
  while (same < first.length - 1 && same < last.length - 1 && first[first.length - 1 - same] === last[last.length - 1 - same]) same += 1;
  return `${first.slice(0, first.length - same)} … ${last}`;
}

function summed(scope) {
  scope.orders = scope.members.flatMap((one) => one.orders).sort((one, other) => one - other);
  scope.ratio = Math.max(...scope.members.map((one) => one.ratio));
  scope.failing = scope.members.reduce((sum, one) => sum + one.failing, 0);
  scope.causes = scope.members.reduce((sum, one) => sum + one.causes, 0);
  for (const one of scope.members) one.up = scope;
  return scope;
}

function seenNodes() {
  const found = [], waiting = [network.root];
  while (waiting.length) {
    const node = waiting.pop();
    if (network.open.has(node)) waiting.push(...node.members);
    else found.push(node);
  }
  return found.sort((one, other) => one.orders[0] - other.orders[0]);
}

// What is open at first: scopes with causes, then with failures, then large ones, as long as there is room.
function openUsual() {
  network.open = new Set([network.root]);
  for (;;) {
    const seen = seenNodes();
    const fits = seen.filter((node) => node.order === null && seen.length + node.members.length - 1 <= MOST_SEEN);
    if (!fits.length) return;
    fits.sort((one, other) => other.causes - one.causes || other.failing - one.failing || other.orders.length - one.orders.length);
    network.open.add(fits[0]);
  }
}

function reveal(order) {
  let scope = network.root;
  while (scope.order === null) {
    network.open.add(scope);
    scope = scope.members.find((one) => one.orders.includes(order));
  }
  drawNetwork((node) => node.order === order);
}

// -- layers -------------------------------------------------------------------------------------------------------

// Edges between what is seen; those within one scope are not.
function edgesBetween(nodes) {
  const owner = new Map(nodes.flatMap((node) => node.orders.map((order) => [order, node])));
  const found = new Map();
  for (const [order, from] of owner) {
    for (const other of consumers.get(order) || []) {
      const to = owner.get(other);
      if (!to || to === from) continue;
      if (!found.has(from)) found.set(from, new Map());
      const bad = FAILING.has(nodeOf(order).verdict) && FAILING.has(nodeOf(other).verdict);
      found.get(from).set(to, found.get(from).get(to) || bad);
    }
  }
  return [...found].flatMap(([from, all]) => [...all].map(([to, bad]) => ({ from, to, bad })));
}

// Returns the nodes, each after those that feed it. Scopes may feed each other in a circle: there, the one that ran first.
function inFlow(nodes, edges) {
  const feeds = new Map(nodes.map((node) => [node, new Set()]));
  for (const { from, to } of edges) feeds.get(to).add(from);
  const found = [], left = new Set(nodes);
  while (left.size) {
    let next = null;
    for (const node of left) if (!feeds.get(node).size) { next = node; break; }
    [next] = next ? [next] : left;
    left.delete(next);
    found.push(next);
    for (const set of feeds.values()) set.delete(next);
  }
  return found;
}

// As wide as its name, within bounds.
function wideOf(node) {
  return Math.round(Math.min(NODE.widest, Math.max(NODE.width, node.name.length * NODE.letter + 30)));
}

// Each node stands below all that feed it, but for an edge that closes a circle. An edge that passes a layer has a place
// of its own there.
function layered(nodes, edges) {
  const items = new Map(inFlow(nodes, edges).map((node, place) => [node, { node, place, layer: 0, wide: wideOf(node), ups: [], downs: [], x: 0 }]));
  const forward = edges.filter(({ from, to }) => items.get(from).place < items.get(to).place);
  forward.sort((one, other) => items.get(one.to).place - items.get(other.to).place);
  for (const { from, to } of forward) items.get(to).layer = Math.max(items.get(to).layer, items.get(from).layer + 1);
  // A weight stands right above what it is given to.
  const fed = new Set(forward.map((edge) => edge.to)), above = new Map();
  for (const { from, to } of forward) if (!fed.has(from)) above.set(from, Math.min(above.get(from) ?? Infinity, items.get(to).layer - 1));
  for (const [node, layer] of above) items.get(node).layer = layer;
  const layers = [];
  const put = (item) => (layers[item.layer] ||= []).push(item);
  for (const item of items.values()) put(item);
  const ways = new Map();
  for (const edge of forward) {
    const end = items.get(edge.to), way = [items.get(edge.from)];
    for (let layer = way[0].layer + 1; layer <= end.layer; layer++) {
      const item = layer === end.layer ? end : { node: null, layer, wide: NODE.line, ups: [], downs: [], x: 0 };
      if (item.node === null) put(item);
      way[way.length - 1].downs.push(item);
      item.ups.push(way[way.length - 1]);
      way.push(item);
    }
    ways.set(edge, way);
  }
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const isDown = sweep % 2 === 0;
    for (const layer of isDown ? layers : [...layers].reverse()) spreadOut(layer, isDown ? "ups" : "downs");
  }
  const left = Math.min(...layers.flat().map((item) => item.x - item.wide / 2));
  for (const item of layers.flat()) {
    item.x += NODE.across - left;
    item.y = 14 + item.layer * (NODE.height + NODE.down);
  }
  const width = Math.max(...layers.flat().map((item) => item.x + item.wide / 2)) + NODE.across;
  return { items, ways, width, height: 28 + layers.length * (NODE.height + NODE.down) - NODE.down };
}

// Puts each item of a layer where its neighbours are, side by side.
function spreadOut(layer, side) {
  const middle = (item) => (item[side].length ? item[side].reduce((sum, one) => sum + one.x, 0) / item[side].length : item.x);
  const wanted = new Map(layer.map((item) => [item, middle(item)]));
  layer.sort((one, other) => wanted.get(one) - wanted.get(other));
  let right = -Infinity, moved = 0;
  for (const item of layer) {
    item.x = Math.max(wanted.get(item), right + NODE.across + item.wide / 2);
    right = item.x + item.wide / 2;
    moved += item.x - wanted.get(item);
  }
  for (const item of layer) item.x -= moved / layer.length;
}

// -- drawing ------------------------------------------------------------------------------------------------------

const HEATS = [[0.1, "h0"], [1, "h1"], [10, "h2"], [1000, "h3"], [Infinity, "h4"]];

function heatOf(ratio) {
  return ratio < 0 ? "none" : HEATS.find(([most]) => ratio <= most)[1];
}

function lineOf(points) {
  return points.map(([x, y], place) => {
    if (!place) return `M${x} ${y}`;
    const [fromX, fromY] = points[place - 1], half = (y - fromY) / 2;
    return `C${fromX} ${fromY + half} ${x} ${y - half} ${x} ${y}`;
  }).join("");
}

function pathOf(edge, way, items) {
  const down = (item) => item.y + NODE.height;
  if (!way) return lineOf([[items.get(edge.from).x, down(items.get(edge.from))], [items.get(edge.to).x, items.get(edge.to).y]]);
  return lineOf(way.flatMap((item, place) => [place ? [item.x, item.y] : null, place < way.length - 1 ? [item.x, down(item)] : null]).filter(Boolean));
}

function aboutNode(node) {
  if (node.order === null) return node.failing ? t("scope_fails", { n: node.orders.length, f: node.failing }) : t("scope_of", { n: node.orders.length });
  const { row, type } = nodeOf(node.order);
  return [shortened(type || "", 14), row === null ? t("without_row") : ratioText(ratios[row])].filter(Boolean).join("  ");
}

function stateOf(node) {
  const states = [node.order === null ? aboutNode(node) : nodeOf(node.order).row === null ? t("without_row") : t(nodeOf(node.order).verdict)];
  if (node.causes) states.push(node.order === null ? t("scope_causes", { n: node.causes }) : t("cause"));
  return states.join(", ");
}

function nodeShape({ node, x, y, wide: width }, centre, act) {
  const { height } = NODE, isScope = node.order === null;
  const verdict = isScope ? (node.failing ? "fail" : node.ratio < 0 ? "not_run" : "pass") : nodeOf(node.order).verdict;
  const box = (extra) => s("rect", { width, height, rx: 5, ...extra });
  return s("g", { transform: `translate(${x - width / 2} ${y})`, tabindex: -1, role: "button", class: `node of-${COLOURS[verdict]}${node.order === centre && !isScope ? " is-centre" : ""}`, "data-order": node.order, "data-scope": isScope ? node.name : null, "aria-expanded": isScope ? false : null, onclick: () => act(node) },
    s("title", {}, `${isScope ? node.name : node.label}\n${stateOf(node)}`),
    node.causes ? s("rect", { class: "ringed", x: -4, y: -4, width: width + 8, height: height + 8, rx: 8 }) : null,
    isScope ? box({ class: "back", x: 4, y: 4 }) : null, box({ class: "back" }), s("rect", { class: `heat ${heatOf(node.ratio)}`, width: 6, height, rx: 3 }),
    // An inner drawing cuts what is too wide.
    s("svg", { x: 13, width: width - 18, height }, s("text", { y: 17, class: "label" }, shortened(node.name, Math.floor((width - 24) / NODE.letter))), s("text", { y: 32, class: "about" }, aboutNode(node))));
}

// Returns the drawing and its nodes by what they show. Arrows move among them, as one of them alone is reached by Tab.
function drawing(nodes, centre, act) {
  const edges = edgesBetween(nodes);
  const { items, ways, width, height } = layered(nodes, edges);
  const lines = edges.map((edge) => s("path", { class: edge.bad ? "edge is-bad" : "edge", d: pathOf(edge, ways.get(edge), items) }));
  const shapes = new Map(nodes.map((node) => [node, nodeShape(items.get(node), centre, act)]));
  const move = (event) => {
    const from = nodes.find((node) => shapes.get(node) === event.target);
    if (!from || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" || event.key === " ") act(from);
    else if (event.key === "Backspace" && from.up && network.open.has(from.up)) fold(from.up);
    else if (event.key in ARROWS) (shapes.get(nextTo(from, items, ARROWS[event.key])) || event.target).focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const drawn = s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": t("graph"), onkeydown: move,
    onfocusin: (event) => shapes.forEach((shape) => shape.setAttribute("tabindex", shape === event.target ? 0 : -1)) }, lines, [...shapes.values()]);
  [...shapes.values()][0]?.setAttribute("tabindex", 0);
  return { drawn, shapes, items };
}

const ARROWS = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };

function nextTo(from, items, [right, down]) {
  const here = items.get(from);
  let best = null, least = Infinity;
  for (const item of items.values()) {
    const [x, y] = [item.x - here.x, item.y - here.y], along = x * right + y * down, across = Math.abs(x * down) + Math.abs(y * right);
    if (along > 0 && along + 2 * across < least) [best, least] = [item.node, along + 2 * across];
  }
  return best;
}

// The operators around one: those it takes from above, those it gives to below.
function graphOf(centre) {
  const found = new Set([centre]);
  let more = 0;
  for (const [next, levels] of [[producers, LEVELS_UP], [consumers, LEVELS_DOWN]]) {
    let edge = [centre];
    for (let level = 0; level < levels; level++) {
      const others = new Set(edge.flatMap((order) => next.get(order) || []).filter((order) => !found.has(order)));
      edge = [...others].slice(0, Math.max(0, MOST_NODES - found.size));
      more += others.size - edge.length;
      edge.forEach((order) => found.add(order));
    }
  }
  const nodes = [...found].sort((one, other) => one - other).map((order) => leaf(order));
  const { drawn } = drawing(nodes, centre, (node) => rowOfOrder.has(node.order) && openDrawer(rowOfOrder.get(node.order)));
  return [h("div", { class: "network" }, drawn), more ? h("p", { class: "soft small" }, t("graph_more", { n: more })) : null];
}

function fold(scope) {
  network.open.delete(scope);
  drawNetwork((node) => node === scope);
}

// `chosen` picks the node that the keyboard is at afterwards.
function drawNetwork(chosen) {
  const nodes = seenNodes();
  const { drawn, shapes, items } = drawing(nodes, null, (node) => {
    if (node.order !== null) return rowOfOrder.has(node.order) && openDrawer(rowOfOrder.get(node.order));
    network.open.add(node);
    return drawNetwork((other) => node.orders.includes(other.orders[0]));
  });
  network.box.replaceChildren(drawn);
  const opened = [...network.open].filter((scope) => scope !== network.root && isSeen(scope)).sort((one, other) => one.orders[0] - other.orders[0]);
  network.folds.hidden = !opened.length;
  network.folds.replaceChildren(h("summary", {}, t("open_scopes", { n: opened.length })), h("div", { class: "chips" },
    opened.map((scope) => h("button", { type: "button", "aria-expanded": true, title: t("fold"), onclick: () => fold(scope) }, `− ${shortened(scope.name, 30)}`))));
  const at = nodes.find(chosen || ((node) => node.causes || node.failing)) || nodes[0];
  const place = items.get(at), box = network.box;
  box.scrollTo({ left: place.x - box.clientWidth / 2, top: place.y - box.clientHeight / 2 });
  drawn.querySelectorAll("[tabindex='0']").forEach((shape) => shape.setAttribute("tabindex", -1));
  shapes.get(at).setAttribute("tabindex", 0);
  if (chosen) shapes.get(at).focus({ preventScroll: true });
}

function isSeen(scope) {
  for (let up = scope.up; up; up = up.up) if (!network.open.has(up)) return false;
  return true;
}

function graphSection() {
  const orders = [...new Set(report.edges || [])].sort((one, other) => one - other);
  if (!orders.length) return null;
  if (!network.root) {
    network.root = scopeTree(orders);
    openUsual();
  }
  const listed = (causes.length ? causes : failing).slice(0, 50).filter((row) => producers.has(at(tensors.order, row)) || consumers.has(at(tensors.order, row)));
  const choice = h("select", { "aria-label": t("go_to"), onchange: () => choice.value && reveal(Number(choice.value)) }, h("option", { value: "" }, t("go_to")),
    listed.map((row) => h("option", { value: at(tensors.order, row) }, shortened(titleOf(row), 60))));
  network.box = h("div", { class: "network is-whole" });
  network.folds = h("details", { class: "folds", open: network.folds && network.folds.open });
  const heats = ["≤ 0.1", "≤ 1", "≤ 10", "≤ 1000", "> 1000"].map((text, place) => h("span", {}, h("i", { class: `swatch h${place}` }), text));
  // The place to scroll to is known when the box stands on the page.
  requestAnimationFrame(() => network.box.isConnected && drawNetwork());
  return h("section", { id: "graph" }, h("div", { class: "row" }, h("h2", {}, t("graph")), listed.length ? choice : null, h("button", { type: "button", onclick: () => { openUsual(); drawNetwork(); } }, t("reset_scopes"))),
    network.folds, network.box, h("div", { class: "legend" }, h("span", {}, t("ratio")), heats, h("span", {}, h("i", { class: "swatch ringed" }), t("cause"))), h("p", { class: "soft small" }, t("graph_help")));
}
