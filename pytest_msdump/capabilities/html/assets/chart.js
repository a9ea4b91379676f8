// The strip chart: every tensor in execution order, how large its error is, where the limit lies.
const chart = { from: 0, to: ROWS, cursor: -1, metric: "ratio", drag: null, canvas: null, reading: null };
const MOST_JUMPS = 3;
const MARGIN = { left: 58, right: 10, top: 14, bottom: 20 };

function charted(row) {
  if (chart.metric === "ratio") return ratios[row] < 0 ? null : ratios[row];
  if (chart.metric === "score") return scores[row];
  const value = metricOf(chart.metric, row);
  if (typeof value !== "number") return null;
  return (TITLES.get(chart.metric) || {}).direction === "high" ? Math.abs(1 - value) : Math.abs(value);
}

// What rounding alone does, below the distances.
function baseAt(row) {
  return chart.metric === "relative_euclidean_distance" ? bases[row] : null;
}

// What a replay says of the operator alone is in units of a limit, too, and meets the errors from end to end at 1.
function localAt(row) {
  return chart.metric === "ratio" ? localRatio(row) : null;
}

function scaleOf() {
  let low = chart.metric === "ratio" ? 0.01 : Infinity, high = chart.metric === "ratio" ? 10 : -Infinity;
  for (let row = 0; row < ROWS; row++) {
    const value = charted(row);
    for (const one of [value, baseAt(row), localAt(row)]) if (one > 0 && Number.isFinite(one)) { low = Math.min(low, one); high = Math.max(high, one); }
  }
  if (low > high) [low, high] = [0.1, 10];
  low = Math.floor(Math.log10(low));
  high = Math.ceil(Math.log10(high));
  return { low: Math.max(low, high - 14), high: Math.max(high, low + 1) };
}

function placeOf(value, scale, height) {
  const top = MARGIN.top + 12, bottom = height - MARGIN.bottom - 22;
  if (Number.isNaN(value) || value === Infinity) return MARGIN.top + 1;
  if (value === 0) return height - MARGIN.bottom - 2;
  const share = (Math.log10(value) - scale.low) / (scale.high - scale.low);
  return bottom - Math.min(1, Math.max(0, share)) * (bottom - top);
}

function columnOf(row, width) {
  return MARGIN.left + ((row - chart.from + 0.5) / (chart.to - chart.from)) * (width - MARGIN.left - MARGIN.right);
}

function rowAt(x, width) {
  const share = (x - MARGIN.left) / (width - MARGIN.left - MARGIN.right);
  return Math.floor(chart.from + Math.min(0.999999, Math.max(0, share)) * (chart.to - chart.from));
}

function drawChart() {
  const canvas = chart.canvas;
  if (!canvas || !canvas.isConnected) return;
  const width = canvas.clientWidth, height = canvas.clientHeight, sharp = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * sharp);
  canvas.height = Math.round(height * sharp);
  const pen = canvas.getContext("2d");
  pen.scale(sharp, sharp);
  const scale = scaleOf();
  drawAxes(pen, scale, width, height);
  const size = Math.max(1.6, Math.min(4, 260 / Math.max(1, chart.to - chart.from) + 1.6));
  const order = [];
  for (let row = chart.from; row < chart.to; row++) order.push(row);
  if (LOCALS.length && chart.metric === "ratio") for (const [values, style] of [[charted, colour("faint")], [localAt, colour("accent")]]) curve(pen, values, style, scale, width, height);
  // Failures last, so that no point hides them.
  order.sort((one, other) => SEVERITY[verdictOf(other)] - SEVERITY[verdictOf(one)] || one - other);
  for (const row of order) {
    const value = charted(row), x = columnOf(row, width);
    if (baseAt(row) !== null) line(pen, x - size, placeOf(baseAt(row), scale, height), x + size, placeOf(baseAt(row), scale, height), colour("soft"));
    if (localAt(row) !== null) diamond(pen, x, placeOf(localAt(row), scale, height), size + (localOf(row) === "fail" ? 4 : 0.5));
    pen.fillStyle = colour(COLOURS[verdictOf(row)]);
    if (value === null) {
      pen.fillRect(x - 1, MARGIN.top - 8, 2, 5);
      continue;
    }
    const y = placeOf(value, scale, height);
    pen.beginPath();
    pen.arc(x, y, size, 0, 7);
    pen.fill();
    if (roleOf(row) === "cause") ring(pen, x, y, size + 3.5, colour("fail"));
    else if (jumps.includes(row)) ring(pen, x, y, size + 3.5, colour("accent"));
  }
  if (chart.cursor >= chart.from && chart.cursor < chart.to) drawCursor(pen, scale, width, height, size);
  if (chart.drag && chart.drag.now !== chart.drag.start) {
    pen.fillStyle = colour("accent");
    pen.globalAlpha = 0.16;
    pen.fillRect(chart.drag.start, MARGIN.top, chart.drag.now - chart.drag.start, height - MARGIN.top - MARGIN.bottom);
    pen.globalAlpha = 1;
  }
}

// Neighbours in execution order are joined; where one has no value there is a gap.
function curve(pen, values, style, scale, width, height) {
  pen.strokeStyle = style;
  pen.lineWidth = 1;
  pen.beginPath();
  for (let row = chart.from; row < chart.to; row++) {
    if (values(row) === null) continue;
    const draw = row > chart.from && values(row - 1) !== null ? "lineTo" : "moveTo";
    pen[draw](columnOf(row, width), placeOf(values(row), scale, height));
  }
  pen.stroke();
}

function diamond(pen, x, y, size) {
  pen.fillStyle = colour("accent");
  pen.beginPath();
  for (const [right, down] of [[0, -1], [1, 0], [0, 1], [-1, 0]]) pen.lineTo(x + right * size, y + down * size);
  pen.fill();
}

function ring(pen, x, y, radius, style) {
  pen.strokeStyle = style;
  pen.lineWidth = 1.5;
  pen.beginPath();
  pen.arc(x, y, radius, 0, 7);
  pen.stroke();
}

function drawAxes(pen, scale, width, height) {
  pen.font = `11px ${getComputedStyle(document.body).fontFamily}`;
  pen.textBaseline = "middle";
  pen.textAlign = "right";
  const step = Math.max(1, Math.ceil((scale.high - scale.low) / 6));
  for (let power = scale.low; power <= scale.high; power += step) {
    const y = placeOf(10 ** power, scale, height);
    line(pen, MARGIN.left, y, width - MARGIN.right, y, colour("line"));
    pen.fillStyle = colour("soft");
    pen.fillText(figure(10 ** power), MARGIN.left - 8, y);
  }
  pen.fillStyle = colour("soft");
  pen.fillText(t("equal_row"), MARGIN.left - 8, height - MARGIN.bottom - 2);
  if (chart.metric === "ratio") {
    const y = placeOf(1, scale, height);
    line(pen, MARGIN.left, y, width - MARGIN.right, y, colour("fail"), [5, 3]);
    pen.fillStyle = colour("fail");
    pen.textAlign = "left";
    pen.fillText(t("limit"), MARGIN.left + 4, y - 8);
  }
  pen.fillStyle = colour("soft");
  pen.textBaseline = "alphabetic";
  pen.textAlign = "left";
  if (chart.to > chart.from) pen.fillText(String(at(tensors.order, chart.from) + 1), MARGIN.left, height - 5);
  pen.textAlign = "right";
  if (chart.to > chart.from) pen.fillText(String(at(tensors.order, chart.to - 1) + 1), width - MARGIN.right, height - 5);
}

function line(pen, x, y, toX, toY, style, dashes = []) {
  pen.strokeStyle = style;
  pen.lineWidth = 1;
  pen.setLineDash(dashes);
  pen.beginPath();
  pen.moveTo(x, Math.round(y) + 0.5);
  pen.lineTo(toX, Math.round(toY) + 0.5);
  pen.stroke();
  pen.setLineDash([]);
}

function drawCursor(pen, scale, width, height, size) {
  const value = charted(chart.cursor), x = Math.round(columnOf(chart.cursor, width)) + 0.5;
  pen.strokeStyle = colour("accent");
  pen.beginPath();
  pen.moveTo(x, MARGIN.top);
  pen.lineTo(x, height - MARGIN.bottom);
  pen.stroke();
  if (value !== null) ring(pen, x, placeOf(value, scale, height), size + 2, colour("accent"));
}

function zoomTo(from, to) {
  const least = Math.min(ROWS, 8);
  const length = Math.max(least, Math.min(ROWS, Math.round(to - from)));
  chart.from = Math.max(0, Math.min(ROWS - length, Math.round(from)));
  chart.to = chart.from + length;
  drawChart();
}

function zoomBy(factor, centre) {
  const length = (chart.to - chart.from) * factor, share = (centre - chart.from) / (chart.to - chart.from);
  zoomTo(centre - share * length, centre - share * length + length);
}

function pointAt(row) {
  chart.cursor = row;
  if (row >= 0 && (row < chart.from || row >= chart.to)) zoomTo(row - (chart.to - chart.from) / 2, row + (chart.to - chart.from) / 2);
  else drawChart();
  if (!chart.reading) return;
  chart.reading.replaceChildren();
  if (row < 0) {
    chart.reading.append(t("chart_help"));
    return;
  }
  const title = ["ratio", "score"].includes(chart.metric) ? t(chart.metric) : chart.metric;
  const value = chart.metric === "ratio" ? ratioText(ratios[row]) : chart.metric === "score" ? figure(scores[row], 3) : metricText(chart.metric, row, figure(metricOf(chart.metric, row)) + (baseAt(row) === null ? "" : ` (${t("rounding")} ${figure(baseAt(row), 3)})`));
  const local = localOf(row) ? `${t("local")} ${localText(row)}  ` : "";
  chart.reading.append(`${at(tensors.order, row) + 1}  `, h("b", { class: "mono" }, titleOf(row)), `  ${title} ${value}  ${local}`, badge(verdictOf(row)), " ", roleMark(row) || "");
}

function nextFailing(from, step) {
  for (let row = from + step; row >= 0 && row < ROWS; row += step) if (FAILING.has(verdictOf(row))) return row;
  return from;
}

const CHART_KEYS = {
  ArrowRight: () => pointAt(Math.min(ROWS - 1, chart.cursor + 1)),
  ArrowLeft: () => pointAt(Math.max(0, chart.cursor - 1)),
  Home: () => pointAt(0),
  End: () => pointAt(ROWS - 1),
  n: () => pointAt(nextFailing(chart.cursor, 1)),
  p: () => pointAt(nextFailing(chart.cursor, -1)),
  "+": () => zoomBy(0.5, Math.max(chart.cursor, chart.from)),
  "-": () => zoomBy(2, Math.max(chart.cursor, chart.from)),
  0: () => zoomTo(0, ROWS),
  Enter: () => chart.cursor >= 0 && openDrawer(chart.cursor),
};

function chartSection() {
  const canvas = h("canvas", { tabindex: 0, role: "application", "aria-label": `${t("chart")}. ${t("chart_help")}`, id: "chart" });
  const choice = h("select", { "aria-label": t("chart_of"), onchange: () => { chart.metric = choice.value; drawChart(); pointAt(chart.cursor); } },
    h("option", { value: "ratio" }, t("ratio")), scores.some((score) => score !== null) ? h("option", { value: "score" }, t("score")) : null,
    report.metrics.filter(([, , direction]) => direction !== "none").map(([name, , direction]) => h("option", { value: name }, direction === "high" ? t("one_less", { m: name }) : name)));
  choice.value = chart.metric;
  chart.canvas = canvas;
  chart.reading = h("div", { class: "reading", role: "status", "aria-live": "polite" });
  listen(canvas);
  new ResizeObserver(drawChart).observe(canvas);
  pointAt(chart.cursor);
  return h("section", { "aria-label": t("chart") },
    h("div", { class: "row" }, h("h2", {}, t("chart")),
      h("label", { class: "soft small" }, `${t("chart_of")} `, choice),
      failing.length ? h("button", { type: "button", onclick: () => { pointAt(failing[0]); zoomTo(failing[0] - 20, failing[0] + 20); } }, t("zoom_failing")) : null,
      h("button", { type: "button", onclick: () => zoomTo(0, ROWS) }, t("reset_zoom"))),
    h("div", { class: "chart" }, canvas),
    LOCALS.length ? h("div", { class: "legend" }, h("span", {}, h("i", { class: "dot fill-not_run" }), t("end_to_end_curve")), h("span", {}, h("i", { class: "dot is-local" }), t("local_curve"))) : null, chart.reading,
    jumps.slice(0, MOST_JUMPS).map(jumpLine));
}

// Where an error jumped within its limit; the chart has a ring there.
function jumpLine(row) {
  const [before, after] = t("grew_within", { step: stepText(detailsOf(row).role_why.growth.step) }).split("{operator}");
  return h("p", { class: "soft small" }, before, opener(row), after);
}

function listen(canvas) {
  const x = (event) => event.clientX - canvas.getBoundingClientRect().left;
  canvas.addEventListener("pointerdown", (event) => {
    chart.drag = { start: x(event), now: x(event) };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (chart.drag) chart.drag.now = x(event);
    pointAt(rowAt(x(event), canvas.clientWidth));
  });
  canvas.addEventListener("pointerup", (event) => {
    const drag = chart.drag;
    chart.drag = null;
    if (!drag) return;
    const rows = [rowAt(drag.start, canvas.clientWidth), rowAt(x(event), canvas.clientWidth)].sort((one, other) => one - other);
    if (Math.abs(x(event) - drag.start) > 5) zoomTo(rows[0], rows[1] + 1);
    else openDrawer(rows[1]);
  });
  canvas.addEventListener("dblclick", () => zoomTo(0, ROWS));
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && document.activeElement !== canvas) return;
    event.preventDefault();
    zoomBy(event.deltaY > 0 ? 1.25 : 0.8, rowAt(x(event), canvas.clientWidth));
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    if (!(event.key in CHART_KEYS) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    CHART_KEYS[event.key]();
  });
}
