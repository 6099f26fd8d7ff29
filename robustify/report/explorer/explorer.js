"use strict";
// Filters, the list of items, and the open item. The address stores the state of the page.
// All texts become text nodes. The content security policy forbids markup from text.

const at = (id) => document.getElementById(id);
const {items, voters, labels, counts: inRun} = JSON.parse(at("island").textContent);
const form = at("filters"), list = at("list"), article = at("item"), query = at("query");
const CHUNK = 200;
const whole = (n) => n.toLocaleString("en");
const letter = (position) => String.fromCharCode(65 + position);

for (const [order, item] of items.entries()) {
  item.order = order;
  item.right = item.votes.filter((vote) => vote === item.key).length;
}
const byId = new Map(items.map((item) => [item.id, item]));

// Filters and sort orders: the name in the address, the label, the value of an item, and the text of a value.

const VERDICTS = ["flagged", "undecided", "kept"];
const FACETS = Object.entries({
  verdict: ["Verdict", (item) => item.verdict, (value) => value],
  cue: ["First cue", (item) => item.cue || "no pick", (value) => labels[value] ?? value],
  inferred: ["Question inferred", (item) => ({true: "yes", false: "no"})[item.inferred] ?? "not asked", (value) => value],
  topic: ["Topic", (item) => item.topic || "no topic", (value) => value],
  key: ["The key", (item) => item.marked || "like the others", (value) => value],
}).filter(([, [, of]]) => new Set(items.map(of)).size > 1);
const SORTS = {
  // Items shown as about 100 % are sorted by the scorer's confidence.
  shortcut: ["Shortcut probability", (item) => -Math.min(item.shortcut ?? -1, 0.9995) - 1e-6 * (item.p_pick ?? 0)],
  order: ["Original order", (item) => item.order],
  verdict: ["Verdict", (item) => VERDICTS.indexOf(item.verdict)],
  right: ["Voters right", (item) => -item.right],
};
const START = {q: "", item: "", only: "", sort: "shortcut", ...Object.fromEntries(FACETS.map(([name]) => [name, ""]))};

let state = START, found = [], active = 0, limit = CHUNK;

// The address may also name items by their ids, or values of a filter to leave out: only=i1,i2 or cue=-length,form.
const matches = (value, wanted) => !wanted || (wanted.startsWith("-") ? !wanted.slice(1).split(",").includes(value) : value === wanted);

function left(but) {
  const only = state.only && new Set(state.only.split(",").map(decodeURIComponent));
  const words = state.q.toLowerCase().split(/\s+/).filter(Boolean);
  const read = (item) => item.haystack ??= [item.id, item.stem, ...item.choices].join("\n").toLowerCase();
  return items.filter((item) => words.every((word) => read(item).includes(word))
    && (!only || only.has(item.id)) && FACETS.every(([name, [, of]]) => name === but || matches(of(item), state[name])));
}

function sorted(all) {
  const [, value] = SORTS[state.sort];
  return all.sort((a, b) => value(a) - value(b) || a.order - b.order);
}

// Drawing

function el(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name === "onclick") made.addEventListener("click", value);
    else if (value !== false && value !== null) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== ""));
  return made;
}

function change(changes, pushed = false) {
  const before = state;
  state = {...state, ...changes};
  const said = Object.entries(state).filter(([name, value]) => value !== START[name]);
  const address = `${location.pathname}${location.search}#${said.map((pair) => pair.map(encodeURIComponent).join("=")).join("&")}`;
  history[pushed ? "pushState" : "replaceState"](null, "", address);
  draw(before);
}

function draw(before) {
  const filtered = Object.keys(START).some((name) => name !== "item" && state[name] !== before?.[name]);
  if (filtered) {
    found = sorted(left());
    drawFilters();
    drawCount();
    limit = CHUNK;
    at("copy").textContent = "Copy as CSV";
  }
  const open = byId.get(state.item) ?? null, here = found.indexOf(open);
  active = here >= 0 ? here : filtered ? 0 : active;
  drawItem(open);
  drawRows();
  if (here >= 0) list.children[here].scrollIntoView({block: "nearest"});
  else if (filtered) list.scrollTop = 0;
}

// Show each filter value with the number of matching items under the other filters.
function drawFilters() {
  for (const [name, [, of, reads]] of FACETS) {
    const counts = new Map(items.map((item) => [of(item), 0]));
    for (const item of left(name)) counts.set(of(item), counts.get(of(item)) + 1);
    const values = [...counts].sort(([, m], [, n]) => n - m);
    if (state[name] && !counts.has(state[name])) {
      values.push([state[name], left(name).filter((item) => matches(of(item), state[name])).length]);
    }
    form.elements[name].replaceChildren(el("option", {value: ""}, "all"), ...values.map(([value, n]) =>
      el("option", {value, disabled: !n && state[name] !== value}, `${value.startsWith("-") ? "others" : reads(value)} (${whole(n)})`)));
  }
  for (const name of ["sort", ...FACETS.map(([facet]) => facet)]) form.elements[name].value = state[name];
  form.querySelector("[type=reset]").hidden = !state.q && !state.only && !FACETS.some(([name]) => state[name]);
}

function drawCount() {
  const all = VERDICTS.reduce((sum, word) => sum + inRun[word], 0);
  const of = found.length === items.length ? "" : ` of ${whole(items.length)}`;
  at("count").textContent = `${whole(found.length)}${of} item${found.length === 1 && !of ? "" : "s"}`
    + (all > items.length ? ` (the first ${whole(items.length)} of the run's ${whole(all)}, flagged items before others; `
      + "verdicts.csv lists all, and robustify explain shows each)" : "");
}

function drawRows() {
  limit = Math.max(limit, active + CHUNK);
  list.replaceChildren(...found.slice(0, limit).map(drawnRow));
  list.setAttribute("aria-activedescendant", found.length ? `row-${active}` : "");
  if (!found.length) list.append(el("p", {class: "quiet"}, "No item matches these filters."));
}

function drawnRow(item, position) {
  return el("div", {
    role: "option", id: `row-${position}`, class: `row ${item.verdict}${position === active ? " active" : ""}`,
    "aria-selected": String(item.id === state.item), "aria-posinset": position + 1, "aria-setsize": found.length,
    onclick: () => change({item: item.id}, !state.item),
  },
  el("span", {class: "id"}, item.id), el("span", {class: "word"}, item.verdict),
  el("span", {class: "stem"}, item.stem),
  el("span", {class: "cue"}, item.cue && item.cue !== "none" ? labels[item.cue] : ""),
  el("span", {class: "p", "data-head": item.likely && "shortcut"}, item.likely),
  el("span", {class: "votes"}, voters.length ? `${item.right} of ${voters.length}` : ""),
  el("span", {class: "mends"}, item.mends[0] ?? ""));
}

function drawItem(item) {
  document.body.classList.toggle("open", item !== null);
  article.hidden = item === null;
  if (item === null || article.dataset.id === item.id) return;
  article.dataset.id = item.id;
  article.scrollTop = 0;
  const button = (label, sign, onclick) => el("button", {type: "button", "aria-label": label, onclick}, sign);
  article.replaceChildren(
    el("header", null, el("h2", null, item.id),
      button("Previous item", "\u2191", () => move(active - 1)), button("Next item", "\u2193", () => move(active + 1)),
      button("Close", "\u00d7", close)),
    el("p", {class: "over"}, el("span", {class: `verdict ${item.verdict}`}, item.verdict),
      el("span", null, item.reason), el("span", null, item.topic)),
    el("p", {class: "stem"}, item.stem),
    el("ol", {class: "options"}, item.choices.map((choice, position) => drawnOption(item, choice, position))),
    item.mends.length ? el("section", {class: "mend"}, el("h3", null, "Suggested edits"),
      el("ul", null, item.mends.map((mend) => el("li", null, mend)))) : el("p", {class: "quiet"}, "No edit is suggested."),
    el("section", {class: "says"}, el("h3", null, "What gives it away"),
      item.says.map((line) => el("p", {class: line.startsWith("  ") ? "entry" : null}, line.trim()))),
  );
}

function drawnOption(item, choice, position) {
  const by = voters.filter((_, i) => item.votes[i] === position);
  const marks = [position === item.key ? "key" : "", position === item.pick ? "scorer" : "", ...by].filter(Boolean);
  return el("li", {class: position === item.key ? "key" : null},
    el("span", {class: "quiet"}, letter(position)), el("span", {class: "text"}, choice),
    el("span", {class: "marks"}, marks.map((mark) => el("b", null, mark))));
}

// Actions

function move(position) {
  if (!found.length) return;
  active = Math.max(0, Math.min(found.length - 1, position));
  // If an item is open, open the next one.
  if (state.item) change({item: found[active].id});
  else {
    drawRows();
    list.children[active].scrollIntoView({block: "nearest"});
  }
}

// Copy the filtered items as CSV. An apostrophe keeps a spreadsheet from evaluating a cell.
async function copy(event) {
  const cell = (value) => `"${String(value ?? "").replace(/^[=+\-@\t\r]/, "'$&").replaceAll('"', '""')}"`;
  const rows = found.map((item) => [item.id, item.verdict, item.topic, item.shortcut, item.p_pick, item.cue, item.mends[0]]);
  const lines = [["item", "verdict", "topic", "p_shortcut", "p_pick", "cue", "mend"], ...rows].map((row) => row.map(cell).join(","));
  const button = event.target;
  await navigator.clipboard.writeText(lines.join("\r\n")).then(
    () => { button.textContent = `${whole(rows.length)} copied`; },
    () => { button.textContent = "Not allowed. Use robustify explain --csv."; });
}

function close() {
  change({item: ""});
  list.focus();
}

function arrive() {
  const given = new URLSearchParams(location.hash.slice(1));
  state = Object.fromEntries(Object.entries(START).map(([name, usual]) => [name, given.get(name) ?? usual]));
  if (!(state.sort in SORTS)) state.sort = START.sort;
  query.value = state.q;
  draw(null);
}

for (const [name, [label]] of [...FACETS, ["sort", ["Sort by"]]]) {
  const options = name === "sort" ? Object.entries(SORTS).map(([value, [words]]) => el("option", {value}, words)) : [];
  form.querySelector("[type=reset]").before(el("label", null, `${label} `, el("select", {name}, options)));
}
form.addEventListener("input", (event) => change({[event.target.name]: event.target.value}));
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("reset", (event) => {
  event.preventDefault();
  query.value = "";
  change({...START, sort: state.sort, item: state.item});
});
list.addEventListener("scroll", () => {
  if (list.scrollTop + 2 * list.clientHeight < list.scrollHeight || limit >= found.length) return;
  list.append(...found.slice(limit, limit + CHUNK).map((item, i) => drawnRow(item, limit + i)));
  limit += CHUNK;
});
// Keys work wherever they do nothing else: not in a form or a link, and arrows not in an open item, which they scroll.
function press(event) {
  const to = {ArrowDown: active + 1, j: active + 1, ArrowUp: active - 1, k: active - 1, PageDown: active + 10,
    PageUp: active - 10, Home: 0, End: found.length - 1}[event.key];
  if (event.ctrlKey || event.metaKey || event.altKey || !found.length || event.target.closest("form, select, button, a")) return;
  if (to !== undefined && (event.key.length === 1 || !article.contains(event.target))) move(to);
  else if ((event.key === "Enter" || event.key === " ") && !article.contains(event.target)) {
    change({item: found[active].id}, !state.item);
    article.focus();
  } else return;
  event.preventDefault();
}
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && event.target !== query) {
    event.preventDefault();
    query.focus();
  } else if (event.key === "Escape" && event.target === query) list.focus();
  else if (event.key === "Escape" && state.item) close();
  else press(event);
});
at("copy").addEventListener("click", copy);
addEventListener("popstate", arrive);
for (const part of [form, at("items")]) part.hidden = false;
arrive();
