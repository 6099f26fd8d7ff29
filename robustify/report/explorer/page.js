// The page: filters, a list of which only the rows in sight are drawn, and the item that is open.
// All text becomes a text node; the page's policy lets no text become markup.

const at = (id) => document.getElementById(id);
const list = at("list"), rows = at("rows"), article = at("item"), query = at("query");
const MOST_VALUES = 8;
const unfolded = new Set();
let state = fromAddress(location.hash);
let found = [];
let active = 0;

function el(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null) made.setAttribute(name, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== ""));
  return made;
}

const unseen = (text) => el("span", {class: "unseen"}, text);

function sized(node, share) {
  node.style.setProperty("--share", share.toFixed(4));
  return node;
}

// Changes of the state

function change(changes, {pushed = false} = {}) {
  const before = state;
  state = {...state, ...changes};
  const address = location.pathname + location.search + toAddress(state);
  if (pushed) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
  draw(before);
}

function draw(before) {
  const filtered = !before || Object.keys(state).some((name) => name !== "item" && state[name] !== before[name]);
  if (filtered) {
    found = left(state);
    drawCount();
    drawChips();
    drawBar();
    drawFacets();
    drawSorts();
  }
  const open = byId.get(state.item) ?? null;
  const here = found.indexOf(open);
  if (here >= 0) active = here;
  else if (filtered) active = 0;
  drawItem(open);
  if (filtered && here < 0) list.scrollTop = 0;
  else into(active);
  drawRows();
}

function drawCount() {
  const all = Object.values(data.counts).reduce((a, b) => a + b, 0);
  const of = found.length === items.length ? "" : ` of ${whole(items.length)}`;
  at("count").textContent = `${whole(found.length)}${of} item${found.length === 1 && !of ? "" : "s"}`
    + (all > items.length ? ` (the run has ${whole(all)}; robust ones beyond ${whole(items.length)} are left out)` : "");
}

function drawChips() {
  const set = FACETS.filter((facet) => state[facet.name] !== null);
  at("chips").replaceChildren(
    ...set.map((facet) => el("button", {type: "button", onclick: () => change({[facet.name]: null})},
      `${facet.label}: ${facet.reads(state[facet.name])}`, el("span", {class: "cross", "aria-hidden": "true"}, "\u00d7"),
      unseen("remove"))),
    ...(set.length > 1 || (set.length && state.q)
      ? [el("button", {type: "button", class: "plain", onclick: () => change({...start(), sort: state.sort, item: state.item})},
        "Clear all")] : []),
  );
}

// The filter by verdict, in the order and colours of the report: as wide as the run has items, with those that the other
// filters leave.
function drawBar() {
  const now = new Map(counts(FACETS[0], state));
  at("bar").replaceChildren(...["robust", "shortcut", "undecided"].filter((word) => data.counts[word]).map((word) => {
    const on = state.verdict === word;
    const part = el("button", {type: "button", class: word, "aria-pressed": String(on),
      onclick: () => change({verdict: on ? null : word})}, el("strong", {class: "n"}, whole(now.get(word) ?? 0)),
      now.get(word) === data.counts[word] ? ` ${word}` : ` of ${whole(data.counts[word])} ${word}`);
    return sized(part, data.counts[word]);
  }));
}

function drawFacets() {
  at("facets").replaceChildren(...FACETS.filter((facet) => facet.name !== "verdict").map((facet) => {
    const all = counts(facet, state);
    const most = Math.max(1, ...all.map(([, n]) => n));
    const some = unfolded.has(facet.name) ? all : all.filter(([value], i) => i < MOST_VALUES || value === state[facet.name]);
    return el("section", {"aria-labelledby": `of-${facet.name}`},
      el("h2", {id: `of-${facet.name}`}, facet.label),
      el("ul", null, some.map(([value, n]) => {
        const on = state[facet.name] === value;
        return el("li", null, sized(el("button", {type: "button", "aria-pressed": String(on), disabled: !n && !on,
          title: facet.name === "voters" ? voterWords(value) : null,
          onclick: () => change({[facet.name]: on ? null : value})},
        el("span", null, facet.reads(value)), el("span", {class: "n"}, whole(n))), n / most));
      })),
      some.length < all.length ? el("button", {type: "button", class: "plain", onclick: () => {
        unfolded.add(facet.name);
        drawFacets();
      }}, `all ${whole(all.length)}`) : null);
  }));
}

const voterWords = (pattern) => data.voters
  .map((voter, i) => `${voter}: ${{1: "right", 0: "wrong", "-": "no pick"}[pattern[i]]}`).join("\n");

function drawSorts() {
  const by = state.sort.replace(/^-/, ""), down = state.sort.startsWith("-");
  at("sorts").replaceChildren(unsorted(), ...Object.entries(SORTS).map(([name, [label]]) => {
    const on = name === by;
    const next = on ? (down ? name : `-${name}`) : ["shortcut", "weight", "right"].includes(name) ? `-${name}` : name;
    return el("button", {type: "button", "aria-pressed": String(on), onclick: () => change({sort: next})},
      label, on ? el("span", {"aria-hidden": "true"}, down ? " \u2193" : " \u2191") : null,
      on ? unseen(down ? ", most first" : ", least first") : null);
  }));
}

const unsorted = () => el("span", {"aria-hidden": "true"}, "Sort");

// The list

const rowHeight = () => parseFloat(getComputedStyle(list).getPropertyValue("--row"));

function drawRows(all = false) {
  const height = rowHeight();
  const first = all ? 0 : Math.max(0, Math.floor(list.scrollTop / height) - 5);
  const last = all ? found.length : Math.min(found.length, Math.ceil((list.scrollTop + list.clientHeight) / height) + 5);
  rows.style.height = `${found.length * height}px`;
  rows.replaceChildren(...found.slice(first, last).map((item, i) => drawnRow(item, first + i, height)));
  const shown = found.length && active >= first && active < last;
  if (shown) list.setAttribute("aria-activedescendant", `row-${active}`);
  else list.removeAttribute("aria-activedescendant");
  if (!found.length) rows.replaceChildren(el("p", {class: "none"}, "No item is left by these filters."));
}

function drawnRow(item, place, height) {
  const row = el("div", {
    role: "option", id: `row-${place}`, class: `row ${item.verdict}${place === active ? " active" : ""}`,
    "aria-selected": String(item.id === state.item), "aria-posinset": place + 1, "aria-setsize": found.length,
    onclick: () => { active = place; change({item: item.id}, {pushed: !state.item}); },
  },
  el("span", {class: "id"}, item.id), unseen(`, ${item.verdict}. `),
  el("span", {class: "stem"}, item.stem),
  el("span", {class: "cue"}, item.cue && item.cue !== "none" ? data.labels.cue[item.cue] : ""),
  item.shortcut === null ? el("span", {class: "p"})
    : sized(el("span", {class: "p", title: SORTS.shortcut[0]}, el("span", null, likely(item.shortcut, "limit"))), item.shortcut / 1000),
  el("span", {class: "votes", title: voterWords(item.pattern)}, dots(item)));
  row.style.transform = `translateY(${place * height}px)`;
  return row;
}

const dots = (item) => [...item.pattern].map((vote) =>
  el("i", {class: {1: "right", 0: "wrong", "-": "silent"}[vote], "aria-hidden": "true"}));

function into(place) {
  const height = rowHeight(), top = place * height;
  if (top < list.scrollTop) list.scrollTop = top;
  else if (top + height > list.scrollTop + list.clientHeight) list.scrollTop = top + height - list.clientHeight;
}

function move(place) {
  if (!found.length) return;
  active = Math.max(0, Math.min(found.length - 1, place));
  // With an item open beside the list, moving reads on.
  if (state.item) change({item: found[active].id});
  else {
    into(active);
    drawRows();
  }
}

// The item that is open

function drawItem(item) {
  document.body.classList.toggle("open", item !== null);
  article.hidden = item === null;
  if (item === null || article.dataset.id === item.id) return;
  article.dataset.id = item.id;
  article.scrollTop = 0;
  article.replaceChildren(
    el("header", null,
      el("p", {class: "over"}, el("span", {class: `verdict ${item.verdict}`}, item.verdict),
        item.topic ? el("span", null, item.topic) : null),
      el("h2", null, item.id),
      el("div", {class: "buttons"},
        el("button", {type: "button", "aria-label": "Item before", onclick: () => move(active - 1)}, "\u2191"),
        el("button", {type: "button", "aria-label": "Next item", onclick: () => move(active + 1)}, "\u2193"),
        el("button", {type: "button", "aria-label": "Close", onclick: close}, "\u00d7"))),
    el("p", {class: "stem"}, item.stem),
    drawnOptions(item),
    ...silent(item),
    drawnPick(item),
    drawnMends(item),
    drawnRest(item),
  );
}

function drawnOptions(item) {
  return el("ol", {class: "options"}, item.choices.map((choice, place) => {
    const voters = data.voters.filter((_, i) => item.votes[i] === place);
    return el("li", {class: place === item.key ? "key" : null},
      el("span", {class: "letter"}, letter(place)), el("span", {class: "text"}, choice),
      el("span", {class: "marks"},
        place === item.key ? el("b", {class: "is-key"}, "key") : null,
        place === item.pick ? el("b", {class: "scorer", title: "picked by a scorer that sees options alone"}, "scorer") : null,
        voters.map((voter) => el("b", null, voter))));
  }));
}

function silent(item) {
  const voters = data.voters.filter((_, i) => item.votes[i] === null);
  return voters.length ? [el("p", {class: "quiet"}, filled("silent", {voters: voters.join(", ")}))] : [];
}

function drawnMends(item) {
  if (!item.mends.length) return el("p", {class: "quiet"}, filled("no_mend"));
  return el("section", {class: "mend"}, el("h3", null, filled("mend").replace(/:$/, "")),
    el("ul", null, item.mends.map((mend) => el("li", null, mend))));
}

function drawnPick(item) {
  const numbers = Object.fromEntries(TENTHS.map((name) => [name, item[name] === null ? "" : percent(item[name])]));
  return el("section", null,
    el("h3", null, "What gives it away"),
    el("p", null, filled(item.said, {option: item.pick === null ? "" : letter(item.pick)})),
    item.shortcut === null ? null
      : sized(el("p", {class: "sure"}, filled("p_shortcut", {p: likely(item.shortcut, "at_limit")})), item.shortcut / 1000),
    item.pick === null ? null : el("p", {class: "quiet"}, filled(item.cues.length ? "cues" : "no_cue")),
    drawnAdds(item.cues.map(({cue, adds, says}) => [adds, data.labels.cue[cue], says])),
    item.features.length ? el("details", null, el("summary", null, filled("features").replace(/:$/, "")),
      drawnAdds(item.features.map(({name, adds}) => [adds, name, ""]))) : null,
    item.posterior === null ? null : el("p", {class: "quiet"}, filled("scorer", numbers)));
}

function drawnAdds(all) {
  if (!all.length) return "";
  const most = Math.max(...all.map(([adds]) => Math.abs(adds)), 1);
  return el("ul", {class: "adds"}, all.map(([adds, label, says]) => {
    const line = el("li", {class: adds < 0 ? "against" : says ? "named" : null},
      el("span", {class: "number"}, signed(adds)), el("span", {class: "reach", "aria-hidden": "true"}),
      el("span", {class: "says"}, el("b", null, label), says ? `: ${says}` : ""));
    return sized(line, Math.abs(adds) / most);
  }));
}

function drawnRest(item) {
  const others = alike(item);
  return el("section", null,
    el("h3", null, "About the item"),
    el("p", null, `${item.verdict}: ${item.reason}`),
    el("p", null, ...(others.length ? linked(others) : [filled("alone")])),
    el("p", null, item.cloze ? filled("no_cloze", {why: data.labels.cloze[item.cloze]}) : filled("cloze")));
}

function linked(others) {
  const [before, after] = data.templates.alike.split("{items}");
  const links = others.slice(0, 50).flatMap((other, i) => [
    i ? ", " : "", el("a", {href: toAddress({...state, item: other.id}), onclick: (event) => {
      event.preventDefault();
      change({item: other.id}, {pushed: true});
    }}, other.id)]);
  return [before, ...links, others.length > 50 ? `, ${whole(others.length - 50)} more` : "", after];
}

function close() {
  change({item: ""});
  list.focus();
}

// What the reader does

list.addEventListener("scroll", () => drawRows());
list.addEventListener("keydown", (event) => {
  const page = Math.max(1, Math.floor(list.clientHeight / rowHeight()) - 1);
  const to = {ArrowDown: active + 1, j: active + 1, ArrowUp: active - 1, k: active - 1, PageDown: active + page,
    PageUp: active - page, Home: 0, End: found.length - 1}[event.key];
  if (to !== undefined && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    move(to);
  } else if ((event.key === "Enter" || event.key === " ") && found.length) {
    event.preventDefault();
    change({item: found[active].id}, {pushed: !state.item});
    article.focus();
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && event.target !== query) {
    event.preventDefault();
    query.focus();
  } else if (event.key === "Escape" && state.item) close();
  else if (event.key === "Escape" && event.target === query) list.focus();
});
query.addEventListener("input", () => change({q: query.value}));
at("narrow").addEventListener("click", () => {
  const on = document.body.classList.toggle("narrowing");
  at("narrow").setAttribute("aria-expanded", String(on));
});
function arrive() {
  state = fromAddress(location.hash);
  query.value = state.q;
  draw(null);
}
addEventListener("popstate", arrive);
addEventListener("resize", () => drawRows());
addEventListener("beforeprint", () => drawRows(true));
addEventListener("afterprint", () => drawRows());
arrive();
