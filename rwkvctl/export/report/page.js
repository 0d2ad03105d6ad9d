"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const matrix = $("matrix"), runs = $("runs"), box = $("run");
const MARKS = { better: ["▲", "ok"], worse: ["▼", "bad"], "not comparable": ["~", "dim"], "no difference shown": ["=", ""] };
const WORDS = { "no difference shown": "inconclusive" };
const MIRROR = { better: "worse", worse: "better" };

/* Everything that came from elsewhere becomes text, never markup. */
function make(tag, text, role, ...inside) {
  const made = document.createElement(tag);
  if (text) made.textContent = text;
  if (role) made.className = role;
  made.append(...inside);
  return made;
}

/* What comparing two models showed in one column; the pair is stored once, so it may have to be turned round. */
const pairs = new Map();
for (const [a, b, items] of data.pairs) {
  pairs.set(a + " " + b, new Map(items.map((item) => [item[0], item])));
}
function verdict(base, model, key) {
  const straight = pairs.get(base + " " + model)?.get(key);
  if (straight) return straight;
  const found = pairs.get(model + " " + base)?.get(key);
  if (!found) return null;
  const [, a, b, word, gain, difference, digits, p, why] = found;
  const turned = difference && [-difference[0], -difference[2], -difference[1]];
  return [key, b, a, MIRROR[word] || word, -gain, turned, digits, p, why];
}
function signed(number, digits) {
  return (number < 0 ? "-" : "+") + Math.abs(number).toFixed(digits);
}
function inWords([, , , , , difference, digits, p]) {
  const [by, low, high] = difference.map((number) => signed(number, digits));
  return `${by} [${low}, ${high}], p ${p}`;
}
const baseOf = (model) => ($("base").value === "" ? data.models[model][1] : Number($("base").value));

function compare() {
  for (const row of matrix.tBodies[0].rows) {
    const model = Number(row.dataset.model), base = baseOf(model);
    let worst = null, any = false;
    for (const cell of row.querySelectorAll("td[data-job]")) {
      const found = base < 0 || base === model ? null : verdict(base, model, Number(cell.dataset.key));
      const own = found && found[2] === cell.dataset.job;
      const [sign, role] = own ? MARKS[found[3]] : ["", ""];
      const mark = cell.querySelector(".mark");
      mark.textContent = sign || mark.dataset.note;
      mark.className = "mark " + (sign ? role : "warn");
      cell.title = found ? `${found[5] ? inWords(found) : found[8]}, against ${data.models[base][0]}` : "";
      any ||= Boolean(own && found[5]);
      if (own && found[5] && found[4] < 0 && (!worst || found[4] < worst[4])) worst = found;
    }
    const cell = row.cells[2];
    cell.textContent = base < 0 || base === model ? "–" : worst ? `${data.keys[worst[0]]} ${MARKS[worst[3]][0]} ${signed(worst[5][0], worst[6])}` : any ? "nothing worse" : "~ not comparable";
    cell.className = worst ? MARKS[worst[3]][1] : "dim";
    cell.dataset.v = worst ? worst[4] : any ? 0 : "";
  }
}

function has(text, words) {
  const low = text.toLowerCase();
  return words.toLowerCase().split(/\s+/).every((word) => low.includes(word));
}
function narrow() {
  const models = $("models").value.trim(), benchmarks = $("benchmarks").value.trim();
  for (const row of [...matrix.tBodies[0].rows, ...runs.tBodies[0].rows]) {
    row.hidden = !has(row.dataset.name, models) || (row.dataset.title !== undefined && !has(row.dataset.title, benchmarks));
  }
  data.keys.forEach((title, key) => {
    const hidden = !has(matrix.tHead.rows[0].cells[key + 3].dataset.title, benchmarks);
    for (const row of matrix.rows) row.cells[key + 3].hidden = hidden;
  });
  for (const figure of document.querySelectorAll("figure")) figure.hidden = !has(figure.dataset.title, benchmarks);
  const shown = [...matrix.tBodies[0].rows].filter((row) => !row.hidden).length;
  $("shown").textContent = shown === data.models.length ? "" : `${shown} of ${data.models.length} models shown`;
}

/* Numbers before words before nothing; the first press gives the greatest number, or the first word. */
function value(cell) {
  const text = cell.dataset.v ?? cell.textContent;
  return text === "" || text === "–" ? null : isNaN(text) ? text.toLowerCase() : Number(text);
}
function order(a, b) {
  if (a === null || b === null) return (a === null) - (b === null);
  if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
  return a < b ? -1 : a > b ? 1 : 0;
}
function sortable(table) {
  table.tHead.addEventListener("click", (event) => {
    const head = event.target.closest("button")?.closest("th");
    if (!head) return;
    const rows = [...table.tBodies[0].rows], place = head.cellIndex;
    const numbers = rows.some((row) => typeof value(row.cells[place]) === "number");
    const before = head.getAttribute("aria-sort");
    const down = before ? before === "ascending" : numbers;
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const known = new Map(rows.map((row) => [row, value(row.cells[place])]));
    rows.sort((a, b) => {
      const one = known.get(a), other = known.get(b);
      return one === null || other === null ? order(one, other) : (down ? -1 : 1) * order(one, other);
    });
    table.tBodies[0].append(...rows);
  });
}

function drawn([columns, rows]) {
  const table = make("table"), head = table.createTHead().insertRow(), body = table.createTBody();
  columns.forEach(([title, right]) => head.append(make("th", title, right ? "right" : "")));
  for (const row of rows) {
    const line = body.insertRow();
    row.forEach(([text, role], place) => line.append(make("td", text, `${role} ${columns[place][1] ? "right" : ""}`.trim())));
  }
  return table;
}
function sampled(sample, number) {
  const [row, repeat, worth, reason, expected, extracted, detail, stages] = sample;
  const [sign, role] = worth === null ? ["!", "warn"] : worth >= 1 ? ["✓", "ok"] : worth <= 0 ? ["✗", "bad"] : [String(worth), "warn"];
  const answer = extracted === null ? "nothing" : extracted;
  const summary = make("summary", "", "", make("span", `${sign} ${reason}`, role),
    ` row ${row}${repeat ? " repeat " + repeat : ""} · expected ${expected || "–"} · answered ${answer}`);
  const one = make("details", "", "sample", summary);
  if (detail) one.append(make("p", detail, "dim"));
  for (const [stage, prompt, completion, stop] of stages) {
    one.append(make("small", `prompt, ${stage}`), make("pre", prompt), make("small", `completion, ended by ${stop || "?"}`), make("pre", completion));
  }
  const others = elsewhere(number.job, number.key, row, repeat);
  if (others.length) one.append(make("p", "the same row: ", "", ...others));
  one.id = `${number.job}/${row}/${repeat}`;
  return one;
}
function elsewhere(job, key, row, repeat) {
  const found = [];
  for (const [name, other] of Object.entries(data.runs)) {
    if (name === job || other.key !== key) continue;
    const same = other.samples.find((sample) => sample[0] === row && sample[1] === repeat);
    if (!same) continue;
    const link = make("a", `${same[2] >= 1 ? "✓" : "✗"} ${data.models[other.model][0]}`, "info");
    link.href = `#${name}/${row}/${repeat}`;
    found.push(link, " ");
  }
  return found;
}
function narrowSamples() {
  let shown = 0;
  for (const one of box.querySelectorAll(".sample")) {
    one.hidden = !has(one.textContent, $("text").value.trim()) || ($("wrong").checked && Boolean(one.querySelector("summary .ok")));
    shown += !one.hidden;
  }
  $("found").textContent = `${shown} shown`;
}
function open() {
  const [job, row, repeat] = decodeURIComponent(location.hash.slice(1)).split("/");
  const run = Object.hasOwn(data.runs, job) ? data.runs[job] : null;
  if (!run) return box.open && box.close();
  if (box.dataset.job !== job) fill(job, run);
  if (!box.open) box.showModal();
  const one = row === undefined ? null : document.getElementById(`${job}/${row}/${repeat}`);
  if (one) { one.hidden = false; one.open = true; one.scrollIntoView(); } else box.scrollTop = 0;
}
function fill(job, run) {
  box.dataset.job = job;
  $("title").textContent = `${data.models[run.model][0]} · ${data.keys[run.key]}`;
  $("under").textContent = `${job} · ${run.said}`;
  const base = baseOf(run.model);
  const found = base < 0 ? null : verdict(base, run.model, run.key);
  $("against").textContent = !found || base === run.model ? "" : found[5]
    ? `${MARKS[found[3]][0]} ${WORDS[found[3]] || found[3]}: ${inWords(found)}, against ${data.models[base][0]} (${found[1]})${found[8] ? "; " + found[8] : ""}`
    : `~ not comparable with ${data.models[base][0]}: ${found[8]}`;
  const [metrics, ...others] = run.tables.map(drawn);
  $("metrics").replaceChildren(metrics);
  $("facts").replaceChildren(...others);
  $("note").textContent = run.note;
  $("left").textContent = run.left;
  $("text").value = "";
  $("wrong").checked = false;
  $("samples").replaceChildren(...run.samples.map((sample) => sampled(sample, { job, key: run.key })));
  narrowSamples();
}

[matrix, runs].forEach(sortable);
for (const name of ["models", "benchmarks"]) $(name).addEventListener("input", narrow);
for (const name of ["text", "wrong"]) $(name).addEventListener("input", narrowSamples);
$("base").addEventListener("change", compare);
$("half").addEventListener("change", () => matrix.classList.toggle("short", !$("half").checked));
$("shut").addEventListener("click", () => box.close());
box.addEventListener("close", () => { if (location.hash) history.replaceState(null, "", location.pathname + location.search); });
addEventListener("hashchange", open);
compare();
open();
