// Puts the parts together, and listens to the keyboard.
const TABS = ["overview", "unmatched", "rules"];
// What capabilities add is drawn already; of several results each has its own.
const ADDED = [...document.querySelectorAll("section.added")];
for (const section of ADDED) section.remove();
ADDED.splice(0, ADDED.length, ...ADDED.filter((section) => Number(section.dataset.result || 0) === current));
let tab = "overview";
let keysBox = null;
const KEYS = [["/", "key_search"], ["↑ ↓", "key_rows"], ["Enter", "key_open"], ["Esc", "key_close"], ["j k", "key_next"], ["n p", "key_failure"], ["t", "key_theme"], ["l", "key_language"], ["?", "key_help"]];

function topBar() {
  const option = (value, text, chosen) => h("option", { value, selected: value === chosen }, text);
  const theme = h("select", { id: "theme", onchange: () => setTheme(theme.value) }, ["auto", "light", "dark"].map((name) => option(name, t(`theme_${name}`), settings.theme)));
  const language = h("select", { id: "language", onchange: () => setLanguage(language.value) }, option("en", "English", settings.language), option("zh", "中文", settings.language));
  return h("div", { class: "bar" }, h("span", { class: "name" }, "msdump"), h("label", {}, t("theme"), theme), h("label", {}, t("language"), language),
    h("button", { type: "button", class: "hide-small", title: "?", onclick: () => showKeys(true) }, t("keys")));
}

function setTheme(name) {
  keep("theme", name);
  applyTheme();
  draw();
}

function setLanguage(name) {
  keep("language", name);
  draw();
}

function showKeys(visible) {
  if (keysBox) keysBox.remove();
  keysBox = null;
  if (!visible) return;
  keysBox = h("div", { class: "keys", role: "dialog", "aria-label": t("keys"), onclick: () => showKeys(false) },
    h("div", {}, h("h2", {}, t("keys")), facts(KEYS.map(([key, word]) => [h("kbd", {}, key), t(word)]))));
  document.body.append(keysBox);
}

function showTab(name) {
  tab = name;
  draw();
}

function tabBar() {
  const counts = { overview: ROWS, unmatched: report.unmatched.all + report.missing.length };
  return h("nav", { role: "tablist" }, TABS.map((name) => h("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-selected": tab === name, tabindex: tab === name ? 0 : -1, onclick: () => showTab(name), onkeydown: (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    showTab(TABS[(TABS.indexOf(tab) + step + TABS.length) % TABS.length]);
    document.getElementById(`tab-${tab}`).focus();
  } }, name in counts ? `${t(name)} ${counts[name]}` : t(name))));
}

function draw() {
  document.documentElement.lang = settings.language === "zh" ? "zh-CN" : "en";
  const open = drawer.row;
  inks.clear();
  const parts = {
    overview: () => (ROWS ? [causesSection(), suspiciousSection(), ...ADDED, chartSection(), stepsSection(), graphSection(), tableSection()] : []),
    unmatched: () => [unmatchedSection()],
    rules: () => [rulesSection()],
  };
  const page = document.getElementById("page");
  drawer.element = h("div", { class: "drawer", role: "dialog", "aria-label": t("operator"), hidden: true, tabindex: -1 });
  drawer.row = -1;
  grid.body = grid.box = null;
  chart.canvas = null;
  page.replaceChildren(...[topBar(), resultsSection(), verdictSection(), tabBar(), ...parts[tab](), drawer.element].filter(Boolean));
  for (const row of document.querySelectorAll(".added tr.marked")) row.closest(".wide").scrollTop = row.offsetTop - 120;
  if (grid.box) refilter();
  if (open >= 0) openDrawer(open);
}

const PAGE_KEYS = {
  "/": () => { if (tab !== "overview") showTab("overview"); document.getElementById("search")?.focus(); },
  "?": () => showKeys(true),
  t: () => setTheme(isDark() ? "light" : "dark"),
  l: () => setLanguage(settings.language === "zh" ? "en" : "zh"),
  j: () => drawer.row >= 0 && turnPage(1),
  k: () => drawer.row >= 0 && turnPage(-1),
  n: () => failing.length && drawer.row < 0 && chart.canvas && CHART_KEYS.n(),
  p: () => failing.length && drawer.row < 0 && chart.canvas && CHART_KEYS.p(),
};

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    if (keysBox) showKeys(false);
    else if (drawer.row >= 0) closeDrawer();
    else document.activeElement?.blur();
    return;
  }
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (typing || event.ctrlKey || event.metaKey || event.altKey || !(event.key in PAGE_KEYS)) return;
  event.preventDefault();
  PAGE_KEYS[event.key]();
});

let wasSmall = window.innerWidth <= 760;
window.addEventListener("resize", () => {
  const small = window.innerWidth <= 760;
  if (small !== wasSmall && grid.box) { redrawTable(); drawRows(true); }
  wasSmall = small;
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (settings.theme === "auto") draw(); });

// On paper nothing scrolls: what fails stands there in full, and as much of the rest as anybody reads.
window.addEventListener("beforeprint", () => {
  if (!grid.body) return;
  const listed = columns().filter((column) => !column.metric);
  const rows = [...failing, ...grid.rows.filter((row) => !FAILING.has(verdictOf(row)))].slice(0, 400);
  grid.box.firstChild.style.minWidth = "";
  grid.box.firstChild.replaceChildren(h("thead", {}, h("tr", {}, listed.map((column) => h("th", {}, columnTitle(column))))),
    h("tbody", {}, rows.map((row) => h("tr", {}, listed.map((column) => h("td", {}, column.cell ? column.cell(row) : column.text(row)))))));
  drawChart();
});
window.addEventListener("afterprint", () => { if (grid.box) { redrawTable(); drawRows(true); } });

applyTheme();
draw();
if (asked[2] && Number(asked[2]) < ROWS) openDrawer(Number(asked[2]));
