"use strict";
// A document is a section, a sentence a row. A row says which sentences were read in the attributes
// data-source and data-target, "sentence:weight …", and in data-…-rest, "sentences:weight".
// A recalled word says in data-from which of the known pairs listed below its sentence it came from,
// [[number, weight, the word there if it is another one], …], and in data-gate how much recall counted.
const sides = ["source", "target"];
const panel = document.getElementById("panel");
const told = document.getElementById("recall");

const element = (name, text = "", kind = "") => {
  const made = document.createElement(name);
  made.textContent = text;
  made.className = kind;
  return made;
};

const pairs = (text) => (text ? text.split(" ").map((pair) => pair.split(":")) : []);
const rowsOf = (section) => [...section.querySelectorAll(".text tbody tr")];
const shown = (row) => !row.hidden;

function clear() {
  for (const row of document.querySelectorAll("tr.chosen, tr.source-read, tr.target-read")) {
    row.classList.remove("chosen", "source-read", "target-read");
  }
  for (const mark of document.querySelectorAll(".map .row")) mark.setAttribute("visibility", "hidden");
  panel.hidden = true;
  stopTelling();
}

// The translation that was read: of the update before the last, or of the last where sentences
// were translated in turn and this one came earlier.
function translation(section, rows, other, reader) {
  const last = Number(section.dataset.last);
  const update = section.dataset.order === "sequential" && other < reader ? last : last - 1;
  const cell = update > 0 ? `.final [data-update="${update}"]` : ".first [data-update]";
  return rows[other].querySelector(cell);
}

function list(section, rows, reader, side) {
  const part = element("div");
  part.append(element("h4", `read in the ${side} memory`, side));
  const table = element("table");
  for (const [number, weight] of pairs(rows[reader].dataset[side])) {
    const other = Number(number) - 1;
    const text = side === "source"
      ? rows[other].querySelector("td.source") : translation(section, rows, other, reader);
    const row = table.insertRow();
    row.append(element("td", weight), element("td"), element("td", text ? text.textContent : ""));
    const link = element("a", number);
    link.href = `#${rows[other].id}`;
    row.cells[1].append(link);
    row.cells[2].dir = "auto";
  }
  const [count, rest] = rows[reader].dataset[`${side}Rest`].split(":");
  if (Number(count) > 0) {
    const row = table.insertRow();
    row.append(element("td", rest), element("td", "all"), element("td", `${count} others together`));
  }
  if (!table.rows.length) part.append(element("p", "nothing"));
  part.append(table);
  return part;
}

function choose(row) {
  const section = row.closest("section");
  const rows = rowsOf(section);
  const reader = rows.indexOf(row);
  clear();
  row.classList.add("chosen");
  const read = sides.filter((side) => side in row.dataset);
  for (const side of read) {
    const found = pairs(row.dataset[side]);
    for (const [number, weight] of found) {
      const other = rows[Number(number) - 1];
      other.classList.add(`${side}-read`);
      other.style.setProperty(`--${side}-share`, weight / found[0][1]);
    }
  }
  for (const map of section.querySelectorAll(".map")) {
    const mark = map.querySelector(".row");
    mark.setAttribute("y", Math.floor(reader / map.querySelector("svg").dataset.block));
    mark.setAttribute("visibility", "visible");
  }
  if (!read.length) return;
  const title = element("h3", `Sentence ${reader + 1}`);
  const close = element("button", "close");
  close.type = "button";
  close.addEventListener("click", clear);
  title.append(close);
  panel.replaceChildren(title, ...read.map((side) => list(section, rows, reader, side)));
  panel.hidden = false;
  panel.scrollTop = 0;
  row.scrollIntoView({ block: "nearest" });  // the panel covers the lower part of the page
}

function step(row, forward) {
  const rows = rowsOf(row.closest("section")).filter(shown);
  const next = rows[rows.indexOf(row) + (forward ? 1 : -1)];
  if (next) next.querySelector("button").focus();
}

// Where a word stands in a text: between letters of other words only where it stands nowhere else.
function placesOf(word, text) {
  const places = [];
  const letter = /[\p{L}\p{M}\p{N}]/u;
  for (let at = text.indexOf(word); word && at >= 0; at = text.indexOf(word, at + word.length)) {
    const inside = letter.test(text[at - 1] || "") && letter.test(word[0]);
    const goesOn = letter.test(text[at + word.length] || "") && letter.test(word[word.length - 1]);
    if (!inside && !goesOn) places.push(at);
  }
  return places.length || !text.includes(word) || !word ? places : [text.indexOf(word)];
}

function markWord(made, word) {
  const text = made.textContent;
  let end = 0;
  made.replaceChildren();
  for (const at of placesOf(word, text)) {
    made.append(text.slice(end, at), element("mark", word));
    end = at + word.length;
  }
  made.append(text.slice(end));
}

function source(cell, word, [number, weight, other]) {
  const pair = [...cell.querySelectorAll(".known li")].find((item) => item.value === number);
  const part = element("div");
  part.append(...[...pair.children].map((child) => child.cloneNode(true)));
  markWord(part.querySelector(".trg"), other === undefined ? word.textContent : other);
  part.querySelector("small").append(`; weight ${weight.toFixed(2)}`);
  return part;
}

function tell(word) {
  stopTelling();
  const share = Math.round(100 * word.style.getPropertyValue("--share"));
  const head = element("p");
  const name = element("b", word.textContent);
  name.dir = "auto";
  head.append(name, ` ${share} % recalled, λ = ${word.dataset.gate}`);
  const sources = JSON.parse(word.dataset.from);
  told.replaceChildren(head, ...sources.map((each) => source(word.closest("td"), word, each)));
  word.classList.add("told");
  word.setAttribute("aria-describedby", told.id);
  told.hidden = false;
  const place = word.getBoundingClientRect();
  const room = document.documentElement.clientWidth - told.offsetWidth - 8;
  told.style.left = `${window.scrollX + Math.max(8, Math.min(place.left, room))}px`;
  const above = place.top - told.offsetHeight - 6;
  const below = place.bottom + told.offsetHeight + 6 <= window.innerHeight || above < 0;
  told.style.top = `${window.scrollY + (below ? place.bottom + 6 : above)}px`;
}

function stopTelling() {
  for (const word of document.querySelectorAll(".recalled.told")) {
    word.classList.remove("told");
    word.removeAttribute("aria-describedby");
  }
  told.hidden = true;
}

// The focus goes along the recalled words of a sentence, its number before them.
function stepWord(row, key) {
  const stops = [row.querySelector("button"), ...row.querySelectorAll(".recalled")];
  const leftwards = getComputedStyle(row.querySelector("td.final")).direction === "rtl";
  const forward = (key === "ArrowRight") !== leftwards;
  stops[stops.indexOf(document.activeElement) + (forward ? 1 : -1)]?.focus();
}

function chooseFromMap(event, section, map) {
  const svg = map.querySelector("svg");
  const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(
    svg.getScreenCTM().inverse());
  const row = rowsOf(section)[Math.floor(point.y) * svg.dataset.block];
  if (point.y >= 0 && row) choose(row);
}

function compare(section, update) {
  for (const text of section.querySelectorAll("[data-update]")) {
    text.hidden = text.dataset.update !== update;
  }
  section.dataset.shown = update;
  const title = update === section.dataset.last ? "final" : `update ${update}`;
  section.querySelector("th.final").textContent = title;
  for (const cell of section.querySelectorAll("td.final")) cell.dataset.title = title;
  hideUnchanged(section);
}

function hideUnchanged(section) {
  const only = section.querySelector(".changed-only");
  const update = section.dataset.shown || section.dataset.last;
  for (const row of rowsOf(section)) {
    const changed = row.dataset.changed.split(" ").includes(update);
    row.classList.toggle("changed", changed);
    row.hidden = only.checked && !changed;
  }
}

for (const section of document.querySelectorAll("section")) {
  for (const row of rowsOf(section)) {
    row.addEventListener("click", () => choose(row));
    row.addEventListener("focusin", () => choose(row));
    row.addEventListener("keydown", (event) => {
      if (!event.key.startsWith("Arrow")) return;
      event.preventDefault();
      if (event.key === "ArrowDown" || event.key === "ArrowUp") step(row, event.key === "ArrowDown");
      else stepWord(row, event.key);
    });
    for (const word of row.querySelectorAll(".recalled")) {
      word.removeAttribute("title");  // it is for browsers without this script
      word.addEventListener("mouseenter", () => tell(word));
      word.addEventListener("mouseleave", () => {
        if (document.activeElement !== word) stopTelling();
      });
      word.tabIndex = -1;
      for (const what of ["focus", "click"]) {
        word.addEventListener(what, () => setTimeout(() => tell(word)));  // when the row is chosen
      }
      word.addEventListener("blur", stopTelling);
    }
  }
  for (const map of section.querySelectorAll(".map")) {
    map.addEventListener("click", (event) => chooseFromMap(event, section, map));
  }
  section.querySelector(".choice")?.addEventListener(
    "change", (event) => compare(section, event.target.value));
  section.querySelector(".changed-only")?.addEventListener("change", () => hideUnchanged(section));
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") clear();
});

const chooser = document.getElementById("chooser");
if (chooser) {
  const open = () => {
    clear();
    for (const section of document.querySelectorAll("section")) {
      section.hidden = section.id !== chooser.value;
    }
  };
  chooser.addEventListener("change", open);
  open();
}
