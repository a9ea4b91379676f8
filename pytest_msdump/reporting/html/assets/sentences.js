// Sentences that are made from what the results say of a tensor, as the terminal makes them.
const MOST_NAMED = 4;

function named(names) {
  const text = names.slice(0, MOST_NAMED).join(t("between_names"));
  return names.length > MOST_NAMED ? t("names_and_more", { names: text, n: names.length - MOST_NAMED }) : text;
}

function described([operator, state, before]) {
  const name = before === undefined ? pool[operator] : t("operators_before", { n: before, operator: pool[operator] });
  const word = `state_${pool[state].replaceAll(" ", "_")}`;
  return t("in_brackets", { text: name, aside: word in loaded.words ? t(word) : pool[state] });
}

// Sentences of the engine are English in the results; they are known again by their forms, and said from their parts.
const { forms, kinds, words: placeWords } = loaded.sentences;
let patterns = null;

function patternOf(english) {
  const parts = english.split(/(\{\w+\})/).map((part) => {
    if (!/^\{\w+\}$/.test(part)) return part.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
    const name = part.slice(1, -1);
    return `(?<${name}>${kinds[name] || ".+?"})`;
  });
  return new RegExp(`^${parts.join("")}$`, "s");
}

function retold(sentence, depth = 0) {
  if (settings.language !== "zh" || typeof sentence !== "string" || sentence.length > 2000) return sentence;
  patterns ||= forms.map(([english, chinese]) => [patternOf(english), chinese]);
  for (const [pattern, chinese] of patterns) {
    const found = pattern.exec(sentence);
    if (found) return chinese.replace(/\{(\w+)\}/g, (_, name) => partOf(name, found.groups[name], depth));
  }
  return sentence;
}

function partOf(name, text, depth) {
  if ((name === "why" || name === "whys") && depth < 3) {
    return (name === "whys" ? text.split(", ") : [text]).map((part) => retold(part, depth + 1)).join("、");
  }
  if (name.endsWith("_elements")) return text.split(" ")[0];
  return ["side", "other", "io"].includes(name) ? placeWords[text] : text;
}

// Why an operator has its role. Results of an older release have the English sentence alone.
function reasonText(more) {
  const why = more.role_why;
  if (!why || !(`why_${why.why}` in loaded.words)) return more.role_reason || "";
  const suspects = named((why.suspects || []).map(described));
  const text = t(`why_${why.why}`, { suspects });
  if (!["first", "passing"].includes(why.why)) return text;
  const [given, before] = [why.given || [], why.before || []].map((numbers) => numbers.map((number) => pool[number]));
  return [
    text,
    suspects ? t("or_before", { suspects }) : null,
    given.length ? t("given_unseen", { names: named(given) }) : null,
    before.length ? t("given_before", { names: named(before) }) : null,
  ].filter(Boolean).join(t("between_clauses"));
}

// What told who feeds whom.
function toldBy() {
  const words = { graph: "by_graph", fusion: "by_fusion", "execution order": "by_order" };
  return report.localised_by.split(" and ").map((part) => (part in words ? t(words[part]) : part)).join(t("between_sources"));
}

// What speaks for two tensors that were not paired.
function fitText(one) {
  if (one.shape === undefined) return one.why || "";
  const shape = t(`shape_${one.shape}`);
  if (one.by === "names alone") return t("fits_by_name", { shape, apart: figure(one.apart, 2) });
  const text = one.apart === 0 ? t("fits_equal", { shape }) : t("fits", { shape, apart: one.apart.toExponential(0) });
  return one.by ? [text, t(`decided_${one.by}`)].join(t("between_clauses")) : text;
}

function suspiciousText(row) {
  const found = detailsOf(row).suspicious || [];
  if (!found.length) return "";
  const text = t(`better_${found[0].side}`, { names: found.map((one) => one.address).join(t("between_names")), why: fitText(found[0]) });
  return found[0].doubt ? t("ambiguous", { text, doubt: t(`doubt_${found[0].doubt}`) }) : text;
}

// An entry of a suite file; TOML's strings are JSON's, but that DEL is escaped as well.
function mapEntry(entry) {
  const lines = Object.entries(entry).map(([name, value]) => `${name} = ${JSON.stringify(value).replaceAll("\x7f", "\\u007f")}`);
  return ["[[msdump.map]]", ...lines].join("\n");
}
