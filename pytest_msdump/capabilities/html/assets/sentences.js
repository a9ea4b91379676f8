// Sentences that are made from what the results say of a tensor, as the terminal makes them.
const MOST_NAMED = 4;

function named(names, between = "between_names") {
  const text = names.slice(0, MOST_NAMED).join(t(between));
  return names.length > MOST_NAMED ? t("names_and_more", { names: text, n: names.length - MOST_NAMED }) : text;
}

function counted([operator, , before]) {
  const own = nameOf(pool[operator]);
  return before === undefined ? own : t("operators_before", { n: before, operator: own });
}

function described(suspect) {
  const state = pool[suspect[1]], word = `state_${state.replaceAll(" ", "_")}`;
  return t("in_brackets", { text: counted(suspect), aside: word in loaded.words ? t(word) : state });
}

// Sentences of the engine are English in the results; what this page shows of them stands beside them in Chinese.
function translated(sentence) {
  return (settings.language === "zh" && loaded.chinese[sentence]) || sentence;
}

// Why these two were paired.
function pairedText(row) {
  const [by, how] = [pooled(tensors.by, row), pooled(tensors.how, row)];
  if (how === "name") return t("same_name");
  if (how === "mangled") return t("same_name_as", { name: sides.left.label(row).replace(/[/.\\ ]/g, "_") });
  if (how === "scope") return t("same_scope", { scope: by });
  if (how === "graph") return t("same_graph");
  return by || how;
}

// Why an operator has its role. Results of an older release have the English sentence alone.
function reasonText(row) {
  const more = detailsOf(row), why = more.role_why;
  if (!why || !(`why_${why.why}` in loaded.words)) return more.role_reason || "";
  return why.certainty ? t(`certainty_${why.certainty}`, { text: reasonAlone(why, row) }) : reasonAlone(why, row);
}

function reasonAlone(why, row) {
  const suspects = named((why.suspects || []).map(described));
  const growth = why.growth || {};
  const shown = (name) => (growth[name] === undefined ? "?" : figure(amount(growth[name]), 3));
  const grown = { start: shown("start"), end: shown("end"), step: stepText(growth.step), at: growth.at === undefined ? "?" : nameOf(pool[growth.at]), n: growth.operators || 0 };
  const leftOut = (why.left_out || []).map((number) => pool[number]);
  const text = why.region ? regionText(why.region, why.why === "first") : t(`why_${why.why}`, { suspects, ...grown });
  const missing = leftOut.length ? t("left_out", { names: named(leftOut) }) : null;
  if (!["first", "passing", "grew", "jump"].includes(why.why)) return [text, missing].filter(Boolean).join(t("between_clauses"));
  const [given, before] = [why.given || [], why.before || []].map((numbers) => numbers.map((number) => pool[number]));
  return [
    text,
    amount(growth.start) > 0 ? t("grown", grown) : why.growth && why.why !== "passing" ? t("grown_from_equal", grown) : null,
    missing,
    why.suspects && !(why.region && (why.region.operators || []).length)
      ? t("or_before", { operator: nameOf(sides.left.label(row)), suspects: named(why.suspects.map(counted), "between_choices") }) : null,
    given.length ? t("given_unseen", { names: named(given) }) : null,
    before.length ? t("given_before", { names: named(before) }) : null,
  ].filter(Boolean).join(t("between_clauses"));
}

// Where a mistake is that was compared at its borders alone.
function regionText(region, isFirst) {
  const module = `${nameOf(pool[region.module])}.`;
  const inside = (number) => (nameOf(pool[number]).startsWith(module) ? nameOf(pool[number]).slice(module.length) : nameOf(pool[number]));
  const after = region.after.map(inside);
  const end = t(`region_${region.io}`, { end: inside(region.end) });
  const text = after.length ? t("region_after", { after: named(after), text: end }) : end;
  let said = pool[region.module] ? t("region_in", { module: nameOf(pool[region.module]), text }) : text;
  const names = named((region.operators || []).map(inside));
  said = names ? t("region_operators", { text: said, names }) : said;
  said = pool[region.lines] ? t("region_lines", { text: said, lines: pool[region.lines] }) : said;
  return isFirst ? t("region_first", { text: said }) : said;
}

// By how much an error grew.
function stepText(step) {
  if (amount(step) === Infinity) return t("step_from_equal");
  return t("step_times", { factor: step === undefined ? "?" : figure(Number(amount(step).toPrecision(3)), 3) });
}

// Where the edges come from.
function foundBy() {
  const words = { graph: "by_graph", "graph of the right side": "by_right_graph", fusion: "by_fusion", "execution order": "by_order" };
  return report.localised_by.split(" and ").map((part) => (part in words ? t(words[part]) : part)).join(t("between_sources"));
}

// What speaks for two tensors that were not paired.
function fitText(one) {
  if (one.shape === undefined) return one.why || "";
  const shape = t(`shape_${one.shape}`);
  if (one.by) return t(`fits_by_${one.by}`, { shape, apart: figure(one.apart, 2) });
  return one.apart === 0 ? t("fits_equal", { shape }) : t("fits", { shape, apart: one.apart.toExponential(0) });
}

function suspiciousText(row) {
  const found = detailsOf(row).suspicious || [];
  if (!found.length) return "";
  const text = t(`better_${found[0].side}`, { names: found.map((one) => one.address).join(t("between_names")), why: fitText(found[0]) });
  return found[0].doubt ? t("with_doubt", { text, doubt: t(`doubt_${found[0].doubt}`) }) : text;
}

// An entry of a suite file; TOML's strings are JSON's, but that DEL is escaped as well.
function mapEntry(entry) {
  const lines = Object.entries(entry).map(([name, value]) => `${name} = ${JSON.stringify(value).replaceAll("\x7f", "\\u007f")}`);
  return ["[[msdump.map]]", ...lines].join("\n");
}
