// Several results on one page, and the error of each tensor along them: ranks, or steps of a training.
const STEP = { width: 220, height: 84, left: 8, right: 8, top: 8, bottom: 20 }, MULTIPLES = 12;
const steps = { shown: MULTIPLES };

function showResult(number, row) {
  location.hash = row === undefined ? `#result-${number}` : `#result-${number}-tensor-${row}`;
  location.reload();
}

function resultsSection() {
  if (reports.length < 2) return null;
  const line = (one, number) => [h("button", { type: "button", class: "link", "aria-current": number === current ? "true" : null, onclick: () => showResult(number) }, loaded.names[number]),
    h("span", { class: `badge ${SHADES[wordOf(one)]}` }, t(`whole_${wordOf(one)}`)), one.rows, VERDICTS.filter((verdict) => FAILING.has(verdict)).reduce((sum, verdict) => sum + (one.counts[verdict] || 0), 0)];
  return h("section", { id: "results" }, h("h2", {}, t("results")), table([t("result"), t("verdict"), t("number_of_tensors"), t("failed")], reports.map(line), { numbers: [2, 3] }));
}

// Of each tensor its error in every result; within one result, in every iteration or on every rank.
function seriesOfTensors() {
  const found = new Map(), several = reports.length > 1;
  const along = several ? null : ["iteration", "rank"].find((name) => Array.isArray(tensors[name]));
  if (!several && !along) return { places: [], series: [] };
  const places = several ? loaded.names : [...new Set(tensors[along].map((number) => (number < 0 ? null : pool[number])))].sort((one, other) => one - other);
  reports.forEach((one, result) => {
    const side = one === report ? sides.left : sideOf(one.tensors.left, one.rows, one);
    for (let row = 0; row < one.rows; row++) {
      const ratio = one === report ? ratios[row] : worstOf(row, one).largest;
      const name = side.address(row);
      if (!found.has(name)) found.set(name, []);
      found.get(name).push({ place: several ? result : places.indexOf(pooled(tensors[along], row)), ratio, verdict: verdictOf(row, one), row, result });
    }
  });
  const series = [...found].map(([name, points]) => ({ name, points, worst: points.reduce((worst, point) => (point.ratio > worst.ratio ? point : worst)) }))
    .filter(({ points, worst }) => worst.ratio >= 0 && new Set(points.map((point) => point.place)).size > 1);
  series.sort((one, other) => other.worst.ratio - one.worst.ratio || (one.name < other.name ? -1 : 1));
  return { places: places.map((place) => (several ? place : `${t(along)} ${place ?? "–"}`)), series };
}

function multipleOf({ name, points, worst }, places, low, high) {
  const inner = STEP.height - STEP.top - STEP.bottom;
  const x = (place) => STEP.left + (places.length < 2 ? 0.5 : place / (places.length - 1)) * (STEP.width - STEP.left - STEP.right);
  const y = (ratio) => STEP.top + inner * (1 - Math.min(1, Math.max(0, (Math.log10(Math.max(ratio, 1e-300)) - low) / (high - low))));
  const largest = new Map();
  for (const { place, ratio } of points) if (ratio >= 0) largest.set(place, Math.max(ratio, largest.get(place) ?? 0));
  const curve = [...largest].sort(([one], [other]) => one - other).map(([place, ratio], number) => `${number ? "L" : "M"}${x(place)} ${y(ratio)}`).join("");
  const open = (point) => (point.result === current ? openDrawer(point.row) : showResult(point.result, point.row));
  const said = [...largest].map(([place, ratio]) => `${places[place]} ${ratioText(ratio)}`).join(", ");
  const drawn = s("svg", { viewBox: `0 0 ${STEP.width} ${STEP.height}`, role: "img", "aria-label": `${name}: ${said}` },
    s("line", { class: "limit", x1: STEP.left, x2: STEP.width - STEP.right, y1: y(1), y2: y(1) }), s("path", { class: "edge", d: curve }),
    points.filter((point) => point.ratio >= 0).map((point) => s("circle", { cx: x(point.place), cy: y(point.ratio), r: 3, class: `dot-${COLOURS[point.verdict]}`, onclick: () => open(point) }, s("title", {}, `${places[point.place]}: ${ratioText(point.ratio)}`))),
    note(STEP.left, STEP.height - 5, shortened(places[0], 16), "start"), note(STEP.width - STEP.right, STEP.height - 5, shortened(places[places.length - 1], 16), "end"));
  const label = h("a", { class: "link mono", href: placeOfTensor(worst.row, worst.result), title: name, onclick: (event) => { event.preventDefault(); open(worst); } }, shortPath(name, 30));
  return h("div", { class: "multiple" }, label, drawn);
}

function stepsSection() {
  const { places, series } = seriesOfTensors();
  if (!series.length) return null;
  const known = series.flatMap(({ points }) => points.map((point) => point.ratio)).filter((ratio) => ratio > 0 && Number.isFinite(ratio)).map(Math.log10);
  const [low, high] = known.reduce(([least, most], value) => [Math.min(least, value), Math.max(most, value)], [-1, 1]);
  const box = h("div", { class: "multiples" }, series.slice(0, steps.shown).map((one) => multipleOf(one, places, Math.max(low, high - 12), high)));
  const rest = series.length - steps.shown;
  const more = rest > 0 ? h("button", { type: "button", onclick: () => { steps.shown += 4 * MULTIPLES; draw(); } }, `+ ${rest}`) : null;
  return h("section", { id: "steps" }, h("h2", {}, t("steps")), h("p", { class: "soft small" }, t("steps_intro")), box, more);
}
