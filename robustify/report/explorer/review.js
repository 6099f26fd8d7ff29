"use strict";
// One candidate at a time. All texts become text nodes. The content security policy forbids markup from text.

const at = (id) => document.getElementById(id);
const {items, verdicts, sheet} = JSON.parse(at("island").textContent);
const rows = items.flatMap((item) => item.choices.map((text, i) => ({item, text, code: item.codes[i]})).filter((row) => row.code));
const kept = `robustify-review-${sheet}`;
let said = {}, active = 0;

// Some browsers keep nothing for a page that was opened from a file.
try { said = JSON.parse(localStorage.getItem(kept)) ?? {}; } catch { said = {}; }

function el(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function draw() {
  const {item, text, code} = rows[active];
  const others = item.choices.filter((one, i) => i !== item.key && one !== text);
  const parts = [["Question", item.stem, ""], ["Right answer", item.choices[item.key], ""], ["Candidate", text, "candidate"]];
  if (others.length) parts.push(["Other options", others.join("\n"), "quiet"]);
  at("item").replaceChildren(el("p", {class: "quiet"}, `${active + 1} of ${rows.length}, ${item.id}`),
    el("dl", {}, ...parts.flatMap(([name, words, kind]) => [el("dt", {}, name), el("dd", {class: kind}, words)])));
  for (const [i, button] of [...at("verdicts").children].entries()) button.setAttribute("aria-pressed", String(said[code] === verdicts[i]));
  at("done").textContent = `${rows.filter((row) => said[row.code]).length} of ${rows.length} done`;
  at("save").download = `review-${at("rater").value.trim().replace(/[^\p{L}\p{N}_-]+/gu, "-") || "rater"}.csv`;
  at("save").href = `data:text/csv;charset=utf-8,${encodeURIComponent(csv())}`;
}

// An apostrophe keeps a spreadsheet from evaluating a cell.
function csv() {
  const cell = (value) => `"${String(value).replace(/^[=+\-@\t\r]/, "'$&").replaceAll('"', '""')}"`;
  const done = rows.filter((row) => said[row.code]).map((row) => [row.item.id, row.code, said[row.code], at("rater").value.trim()]);
  return [["item", "code", "verdict", "rater"], ...done].map((row) => row.map(cell).join(",") + "\r\n").join("");
}

function decide(verdict) {
  said[rows[active].code] = verdict;
  try { localStorage.setItem(kept, JSON.stringify(said)); } catch { /* The verdicts stay on the page. */ }
  move(1);
}

function move(by) {
  active = Math.max(0, Math.min(rows.length - 1, active + by));
  draw();
}

for (const [i, verdict] of verdicts.entries()) {
  const button = el("button", {type: "button"}, `${i + 1} ${verdict}`);
  button.addEventListener("click", () => decide(verdict));
  at("verdicts").append(button);
}
at("rater").addEventListener("input", draw);
document.addEventListener("keydown", (event) => {
  if (event.target === at("rater") || event.ctrlKey || event.metaKey || event.altKey) return;
  const verdict = verdicts[Number(event.key) - 1], by = {ArrowLeft: -1, ArrowRight: 1}[event.key];
  if (verdict) decide(verdict);
  else if (by) move(by);
  else return;
  event.preventDefault();
});
draw();
