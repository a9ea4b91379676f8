// Small arrays of one pair as drawings: how large its errors are, for which values, in which places.
const PLOT = { width: 560, height: 150, left: 46, bottom: 34, top: 8 };

function plotOf(title, bars, label) {
  const drawn = s("svg", { viewBox: `0 0 ${PLOT.width} ${PLOT.height}`, width: "100%", role: "img", "aria-label": label || title }, bars);
  return [h("h3", {}, title), drawn];
}

function note(x, y, text, anchor = "middle") {
  return s("text", { x, y, "font-size": 11, "text-anchor": anchor, fill: colour("soft") }, text);
}

function barPlot(title, values, marks, unit) {
  const highest = Math.max(...values, 0) || 1, wide = (PLOT.width - PLOT.left) / values.length, floor = PLOT.height - PLOT.bottom;
  const bars = values.map((value, place) => {
    const high = (value / highest) * (floor - PLOT.top);
    return s("rect", { x: PLOT.left + place * wide + 0.5, y: floor - high, width: Math.max(0.6, wide - 1), height: high, fill: colour("accent") }, s("title", {}, `${marks(place)}: ${figure(value)}`));
  });
  const every = Math.max(1, Math.ceil(values.length / 8));
  const ticks = values.map((_, place) => (place % every ? null : note(PLOT.left + (place + 0.5) * wide, floor + 14, marks(place))));
  return plotOf(title, [bars, ticks, note(PLOT.left - 6, PLOT.top + 8, figure(highest), "end"), note(PLOT.left - 6, floor, "0", "end"), note(PLOT.width / 2, PLOT.height - 4, unit)]);
}

// Both sides' values as steps, one over the other.
function valuePlot({ low, high, left, right }) {
  const highest = Math.max(...left, ...right, 1), wide = (PLOT.width - PLOT.left) / left.length, floor = PLOT.height - PLOT.bottom;
  const stepsOf = (counts) => counts.map((count, place) => `${place ? "L" : "M"}${PLOT.left + place * wide} ${floor - (count / highest) * (floor - PLOT.top)}h${wide}`).join("");
  const line = (counts, side, ink) => s("path", { d: stepsOf(counts), fill: "none", stroke: colour(ink), "stroke-width": 1.8 }, s("title", {}, t(`${side}_word`)));
  return plotOf(t("values"), [line(right, "right", "accent"), line(left, "left", "fail"),
    note(PLOT.left, floor + 14, figure(low), "start"), note(PLOT.width, floor + 14, figure(high), "end"), note(PLOT.left - 6, PLOT.top + 8, figure(highest), "end"), note(PLOT.left - 6, floor, "0", "end"),
    s("text", { x: PLOT.width / 2, y: PLOT.height - 4, "font-size": 11, "text-anchor": "middle" }, s("tspan", { fill: colour("fail") }, `— ${t("left_word")}  `), s("tspan", { fill: colour("accent") }, `— ${t("right_word")}`))]);
}

function curvePlot(title, curves, marks, unit) {
  const known = curves.flatMap((curve) => curve.values).map(amount).filter((value) => value > 0 && Number.isFinite(value));
  if (!known.length) return [];
  const low = Math.floor(Math.log10(Math.min(...known))), high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...known))));
  const floor = PLOT.height - PLOT.bottom, count = curves[0].values.length, wide = (PLOT.width - PLOT.left) / count;
  const y = (value) => floor - ((Math.log10(value) - low) / (high - low)) * (floor - PLOT.top);
  const drawn = curves.map((curve) => curve.values.map((value, place) => (amount(value) > 0 && Number.isFinite(amount(value))
    ? s("circle", { cx: PLOT.left + (place + 0.5) * wide, cy: y(amount(value)), r: curve.size, fill: colour(curve.ink) }, s("title", {}, `${marks(place)}, ${curve.name}: ${figure(value)}`)) : null)));
  const every = Math.max(1, Math.ceil(count / 8));
  const ticks = Array.from({ length: count }, (_, place) => (place % every ? null : note(PLOT.left + (place + 0.5) * wide, floor + 14, marks(place))));
  return plotOf(title, [drawn, ticks, note(PLOT.left - 6, PLOT.top + 8, `1e${high}`, "end"), note(PLOT.left - 6, floor, `1e${low}`, "end"), note(PLOT.width / 2, PLOT.height - 4, unit)]);
}

function heatMap(title, rows) {
  const known = rows.flat().map(amount).filter((value) => Number.isFinite(value));
  const highest = Math.max(...known, 0) || 1, size = Math.min(22, 520 / Math.max(1, rows[0].length));
  const cells = rows.flatMap((row, down) => row.map((value, across) => s("rect", { x: across * size, y: down * size, width: size - 1, height: size - 1, fill: colour(Number.isFinite(amount(value)) ? "fail" : "error"),
    "fill-opacity": Number.isFinite(amount(value)) ? 0.06 + 0.94 * (amount(value) / highest) : 1 }, s("title", {}, `${down}, ${across}: ${figure(value)}`))));
  const width = rows[0].length * size, height = rows.length * size;
  return [h("h3", {}, title), s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": title }, cells)];
}

// `spread` of a record; each part is drawn where it is there.
function spreadDrawings(data) {
  if (!data) return [];
  const drawings = [];
  const { histogram, magnitude, axis, heat, values } = data;
  if (histogram) drawings.push(barPlot(t("histogram"), histogram.counts, (place) => `1e${histogram.low + place}`, `|l − r|, ${t("count")}`));
  if (magnitude) {
    drawings.push(curvePlot(t("error_by_magnitude"), [{ name: t("typical"), values: magnitude.mean, size: 3, ink: "accent" }, { name: t("largest"), values: magnitude.largest, size: 2.4, ink: "fail" }],
      (place) => `1e${magnitude.low + place}`, t("magnitude")));
  }
  if (axis) drawings.push(barPlot(t("by_channel", { a: axis.axis }), axis.values.map((value) => Math.min(amount(value) || 0, Number.MAX_VALUE)), (place) => String(place * axis.step), t("index")));
  if (heat && heat.length) drawings.push(heatMap((data.heat_axes || []).length > 1 ? t("heat_map_over", { r: data.heat_axes[0], c: data.heat_axes[1] }) : t("heat_map"), heat));
  if (values) drawings.push(valuePlot(values));
  return drawings.flat();
}
