// Elements and words. Text is only ever set as text: a name from a dump can be anything.
const SVG = "http://www.w3.org/2000/svg";
const settings = { language: "en", theme: "auto" };
try {
  settings.language = localStorage.getItem("msdump-language") || "";
  settings.theme = localStorage.getItem("msdump-theme") || "auto";
} catch {
  settings.language = "";
}
if (!["en", "zh"].includes(settings.language)) settings.language = /^zh\b/i.test(navigator.language) ? "zh" : "en";

function keep(name, value) {
  settings[name] = value;
  try {
    localStorage.setItem(`msdump-${name}`, value);
  } catch {
    // A page that may not store anything forgets the choice, and no more.
  }
}

function t(key, fill) {
  const found = (fill !== undefined && fill.n === 1 && loaded.words[`${key}_one`]) || loaded.words[key];
  const text = found === undefined ? key : found[settings.language === "zh" ? 1 : 0];
  return fill === undefined ? text : text.replace(/\{(\w+)\}/g, (whole, name) => (name in fill ? String(fill[name]) : whole));
}

function fillIn(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    // States of ARIA are words: an empty `aria-selected` is no state, and a missing one is another.
    const isState = name.startsWith("aria-") && typeof value === "boolean";
    if (value === undefined || value === null || (value === false && !isState)) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true && !isState ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

function h(tag, attributes, ...children) {
  return fillIn(document.createElement(tag), attributes, children);
}

function s(tag, attributes, ...children) {
  return fillIn(document.createElementNS(SVG, tag), attributes, children);
}

// Asking the style for each of five thousand points would be slow; forgotten when the theme changes.
const inks = new Map();

function colour(name) {
  if (!inks.has(name)) inks.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
  return inks.get(name);
}

const COLOURS = { pass: "pass", warn: "warn", fail: "fail", undefined: "fail", error: "error", not_run: "idle" };

function isDark() {
  return settings.theme === "dark" || (settings.theme === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
}

function applyTheme() {
  inks.clear();
  if (settings.theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = settings.theme;
}
