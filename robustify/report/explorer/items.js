"use strict";
// The items of the island, which of them the filters leave and in which order, and the address that says so.
// Nothing here touches the page.

const data = JSON.parse(document.getElementById("island").textContent);
const TENTHS = ["weight", "chance", "posterior", "shortcut"];
const POOLED = ["verdict", "topic", "reason", "cloze", "said", "group"];

function unpacked(row, order) {
  const item = Object.fromEntries(data.fields.map((name, at) => [name, row[at]]));
  for (const name of POOLED) item[name] = data.pools[name][item[name]] ?? "";
  Object.assign(item, item.question);
  item.order = order;
  item.cues = item.cues.map(([cue, adds, text]) => (
    {cue: data.pools.cue[cue], adds, says: data.pools.text[text] ?? ""}));
  item.features = item.features.map(([name, adds]) => ({name: data.pools.feature[name], adds}));
  item.mends = item.mends.map((text) => data.pools.text[text]);
  // Cues that are named stand first and say something.
  item.cue = item.pick === null ? "" : item.cues[0]?.says ? item.cues[0].cue : "none";
  item.pattern = item.votes.map((vote) => (vote === null ? "-" : vote === item.key ? "1" : "0")).join("");
  item.right = item.pattern.split("1").length - 1;
  item.band = band(item.shortcut);
  item.haystack = [item.id, item.stem, ...item.choices].join("\n").toLowerCase();
  return item;
}

function band(tenths) {
  if (tenths === null) return "none";
  return tenths >= 900 ? "90" : tenths >= 500 ? "50" : "0";
}

const items = data.rows.map(unpacked);
const byId = new Map(items.map((item) => [item.id, item]));
const groups = new Map(items.map((item) => [item.group, []]));
for (const item of items) groups.get(item.group).push(item);

function alike(item) {
  return item.group === "" ? [] : groups.get(item.group).filter((other) => other !== item);
}

// Filters: the part of the address, its heading, an item's value, and how a value reads.

const BANDS = {90: "90 % or more", 50: "50 to 90 %", 0: "under 50 %", none: "key not picked"};
const VERDICTS = ["shortcut", "undecided", "robust"];
const FACETS = [
  {name: "verdict", label: "Verdict", of: (item) => item.verdict, reads: (value) => value, order: VERDICTS},
  {name: "cue", label: "First cue", of: (item) => item.cue, reads: (value) => data.labels.cue[value] ?? "no pick"},
  {name: "confidence", label: "Shortcut probability", of: (item) => item.band, reads: (value) => BANDS[value],
    order: ["90", "50", "0", "none"]},
  {name: "voters", label: "Voters right", of: (item) => item.pattern, reads: readsPattern},
  {name: "topic", label: "Topic", of: (item) => item.topic, reads: (value) => value || "no topic"},
].filter((facet) => items.some((item) => facet.of(item)) && (facet.name !== "voters" || data.voters.length));

function readsPattern(pattern) {
  const named = data.voters.filter((_, at) => pattern[at] === "1");
  if (!named.length) return "none";
  return named.length === data.voters.length ? (named.length > 1 ? `all ${named.length}` : named[0]) : named.join(", ");
}

const SORTS = {
  order: ["Own order", (item) => item.order],
  verdict: ["Verdict", (item) => VERDICTS.indexOf(item.verdict)],
  shortcut: ["Shortcut probability", (item) => item.shortcut ?? -1],
  weight: ["Confidence", (item) => item.weight ?? -1],
  right: ["Voters right", (item) => item.right],
  cue: ["First cue", (item) => item.cue],
  topic: ["Topic", (item) => item.topic],
};
const FIRST_SORT = "-shortcut";

const start = () => ({q: "", sort: FIRST_SORT, item: "", ...Object.fromEntries(FACETS.map((f) => [f.name, null]))});

function fromAddress(hash) {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const state = start();
  for (const name of Object.keys(state)) if (given.has(name)) state[name] = given.get(name);
  if (!(state.sort.replace(/^-/, "") in SORTS)) state.sort = FIRST_SORT;
  return state;
}

function toAddress(state) {
  const usual = start();
  const said = Object.entries(state).filter(([name, value]) => value !== null && value !== usual[name]);
  // As others write it: a space is %20 and the address can be read.
  return "#" + said.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&");
}

function passes(item, state, words, but) {
  return FACETS.every((facet) => facet.name === but || state[facet.name] === null || facet.of(item) === state[facet.name])
    && words.every((word) => item.haystack.includes(word));
}

const wordsOf = (state) => state.q.toLowerCase().split(/\s+/).filter(Boolean);

function left(state) {
  const words = wordsOf(state);
  const down = state.sort.startsWith("-");
  const value = SORTS[state.sort.replace(/^-/, "")][1];
  const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0) * (down ? -1 : 1);
  return items.filter((item) => passes(item, state, words))
    .sort((a, b) => compare(value(a), value(b)) || a.order - b.order);
}

// How many items each value of a filter would leave, the other filters as they are: most first.
function counts(facet, state) {
  const words = wordsOf(state);
  const found = new Map(items.map((item) => [facet.of(item), 0]));
  for (const item of items) if (passes(item, state, words, facet.name)) found.set(facet.of(item), found.get(facet.of(item)) + 1);
  const place = (value) => facet.order?.indexOf(value) ?? 0;
  return [...found].sort(([a, m], [b, n]) => place(a) - place(b) || n - m);
}

// Numbers as a terminal writes them.

const minus = (text) => text.replace("-", "\u2212");
const percent = (tenths) => `${minus((tenths / 10).toFixed(1))} %`;
const signed = (hundredths) => `${hundredths > 0 ? "+" : ""}${minus((hundredths / 100).toFixed(2))}`;
const letter = (place) => String.fromCharCode(65 + place);
const whole = (n) => n.toLocaleString("en");
const filled = (name, words = {}) => data.templates[name].replace(/\{(\w+)\}/g, (_, word) => words[word]);
// At the limit all items of such a confidence are hits, and more cannot be measured.
const likely = (tenths, limit) => (tenths >= 1000 ? filled(limit) : percent(tenths));
