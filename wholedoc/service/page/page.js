"use strict";
// The page of `wholedoc serve`: a document beside its translation, to be watched, corrected, approved.

const $ = (id) => document.getElementById(id);
const TINTED = 0.1; // the smallest share of a word that is marked
const LONG = 500; // sentences, of which only those in sight are drawn when there are more
const state = { id: null, sentences: [], ready: false, open: null, saved: true, work: Promise.resolve(), waiting: 0 };
const given = new URLSearchParams(location.hash.slice(1));
const token = given.get("token");

/* Talking to the service. */

function address(path) {
  return token ? `${path}${path.includes("?") ? "&" : "?"}token=${encodeURIComponent(token)}` : path;
}

async function ask(method, path, body) {
  const answer = await fetch(address(path), { method, body }).catch(() => {
    throw new Error("The service does not answer. Is it still running?");
  });
  if (answer.status === 404 && path.startsWith("api/documents/")) {
    throw new Error("The document is not open any more: the service was started anew, or nobody used it for a long time.");
  }
  const values = await answer.json().catch(() => ({ error: answer.statusText }));
  if (!answer.ok || values.error) throw new Error(values.error || answer.statusText);
  return values;
}

function form(values) {
  const body = new FormData();
  for (const [name, value] of Object.entries(values)) body.append(name, value);
  return body;
}

function complain(error) {
  $("notice").textContent = error ? error.message || String(error) : "";
  $("notice").hidden = !error;
}

async function attempt(work) {
  complain(null);
  try {
    return await work();
  } catch (error) {
    complain(error);
    return null;
  }
}

/* Beginning. */

async function fillLanguages() {
  const languages = await ask("GET", "languages");
  const sources = languages.filter((each) => each.targets.length);
  const names = new Map(languages.map((each) => [each.code, each.name]));
  const add = (select, code, name) => select.append(new Option(name, code));
  if (sources.length > 1) add($("source"), "auto", "the language it is in");
  for (const each of sources) add($("source"), each.code, each.name);
  state.names = names;
  const targets = new Set(sources.flatMap((each) => each.targets));
  for (const code of targets) add($("target"), code, names.get(code) || code);
  const settings = await ask("GET", "frontend/settings");
  $("endings").title = settings.supportedFilesFormat.join(" ");
  $("file").accept = settings.supportedFilesFormat.join(",");
}

async function begin(values) {
  const languages = { source: $("source").value, target: $("target").value };
  const found = await attempt(() => ask("POST", "api/documents", form({ ...languages, ...values })));
  if (found) show(found.id, found);
}

/* A document that was open before the page was loaded again. */
async function resume(id) {
  const found = await attempt(() => ask("GET", `api/documents/${encodeURIComponent(id)}`));
  if (found) show(id, found);
  else remember(null);
}

function remember(id) {
  const values = { ...(token && { token }), ...(id && { document: id }) };
  history.replaceState(null, "", `#${new URLSearchParams(values)}`);
}

function show(id, found) {
  Object.assign(state, { id, sentences: found.sentences, ready: false, open: null, saved: true });
  remember(id);
  document.title = `${found.name} – wholedoc`;
  $("work-title").textContent = found.name;
  $("source-name").textContent = state.names.get(found.source) || found.source;
  $("target-name").textContent = state.names.get(found.target) || found.target;
  showTerms(found.glossary);
  $("start").hidden = true;
  $("work").hidden = false;
  draw();
  offerDownloads(false);
  $("work-title").focus();
  watch();
}

function watch() {
  const events = new EventSource(address(`api/documents/${state.id}/events`));
  const seen = new Set();
  state.events = events;
  events.addEventListener("sentence", (event) => {
    const update = JSON.parse(event.data);
    seen.add(update.place);
    const all = seen.size === state.sentences.length ? ", finishing…" : "";
    const passes = update.passes ? `, pass ${update.passes} over the document` : all;
    progress(seen.size, `${seen.size} of ${state.sentences.length} sentences${passes}`);
    const sentence = state.sentences[update.place];
    if (sentence.words) return; // it is known already how it ended
    sentence.translation = update.text;
    drawSentence(update.place);
  });
  events.addEventListener("done", async () => {
    events.close();
    await attempt(refresh);
    state.ready = true;
    progress(state.sentences.length, summary());
    offerDownloads(true);
    document.querySelectorAll(".editor button").forEach((each) => { each.disabled = false; });
    document.querySelector(".editor > .hint")?.remove();
  });
  events.addEventListener("error", (event) => {
    if (!event.data && events.readyState === EventSource.CONNECTING) {
      $("state").textContent = "The service does not answer; trying again…";
      return;
    }
    events.close();
    complain(event.data ? JSON.parse(event.data).message : "The service does not answer. Is it still running?");
  });
  events.addEventListener("closed", () => events.close());
}

async function refresh() {
  const found = await ask("GET", `api/documents/${state.id}`);
  state.sentences = found.sentences;
  state.sentences.forEach((_, place) => drawSentence(place));
  showTerms(found.glossary);
}

function progress(value, text) {
  $("progress").max = Math.max(state.sentences.length, 1);
  $("progress").value = value;
  $("progress").classList.toggle("finished", state.ready);
  $("state").textContent = text;
}

function summary() {
  const approved = state.sentences.filter((each) => each.approved).length;
  const changed = state.sentences.filter(isChanged).length;
  const count = state.sentences.length;
  const parts = [count ? `${count} sentence${count === 1 ? "" : "s"} translated` : "There is nothing to translate"];
  if (approved) parts.push(`${approved} approved`);
  if (changed) parts.push(`${changed} changed by the document (brown edge)`);
  return parts.join(", ");
}

function offerDownloads(ready) {
  for (const kind of ["original", "xliff", "tmx"]) {
    const link = $(`get-${kind}`);
    link.setAttribute("aria-disabled", String(!ready));
    if (ready) link.href = address(`api/documents/${state.id}/file?kind=${kind}`);
    else link.removeAttribute("href");
  }
}

/* Sentences. */

function isChanged(sentence) {
  return !sentence.approved && sentence.first !== undefined && sentence.first !== sentence.translation;
}

function make(name, values = {}, ...children) {
  const element = Object.assign(document.createElement(name), values);
  element.append(...children);
  return element;
}

function draw() {
  const list = $("sentences");
  list.replaceChildren();
  list.classList.toggle("long", state.sentences.length > LONG);
  $("work").style.setProperty("--digits", String(state.sentences.length).length);
  state.sentences.forEach((sentence, place) => {
    const row = make("li", { id: `s${place}` });
    const before = state.sentences[place - 1];
    if (before && before.segment !== sentence.segment) row.classList.add("first");
    row.append(
      make("span", { className: "number", textContent: place + 1 }),
      make("span", { className: "source", dir: "auto", textContent: sentence.source }),
      make("button", { className: "translation", dir: "auto", type: "button" }),
    );
    row.lastChild.addEventListener("click", () => toggle(place));
    row.lastChild.addEventListener("keydown", (event) => walk(event, place));
    list.append(row);
    drawSentence(place);
  });
  progress(0, "translating…");
}

function drawSentence(place) {
  const sentence = state.sentences[place];
  const row = $(`s${place}`);
  const button = row.querySelector(".translation");
  row.classList.toggle("waiting", sentence.translation === null);
  row.classList.toggle("approved", Boolean(sentence.approved));
  row.classList.toggle("changed", isChanged(sentence));
  button.replaceChildren(...tinted(sentence));
  const standing = sentence.approved ? "approved" : isChanged(sentence) ? "changed by the document" : "";
  button.title = standing;
  button.setAttribute("aria-expanded", String(state.open === place));
  row.querySelector(".missing")?.remove();
  const missing = (sentence.terms || []).filter((term) => term.state === "missing");
  if (missing.length) {
    const named = missing.map((term) => `${term.source} → ${term.target}`).join(", ");
    button.after(make("p", { className: "missing", dir: "auto", textContent: `Missing: ${named}` }));
  }
}

function tinted(sentence) {
  const text = sentence.translation === null ? "…" : sentence.translation;
  const parts = [];
  let at = 0;
  for (const word of sentence.words || []) {
    const start = text.indexOf(word.text, at);
    if (start < 0 || !word.text || text.slice(at, start).trim()) continue;
    if (word.share >= TINTED && word.sources.length) {
      parts.push(text.slice(at, start));
      const mark = make("mark", { textContent: word.text, title: origin(sentence, word) });
      mark.style.setProperty("--share", word.share);
      const gap = parts.pop();
      if (gap === " " && parts.at(-1) instanceof Element) parts.at(-1).append(gap); // one line under both
      else parts.push(gap);
      parts.push(mark);
    } else parts.push(text.slice(at, start + word.text.length));
    at = start + word.text.length;
  }
  return [...parts, text.slice(at)];
}

function nameKnown(pair) {
  if (pair.approved) return `${pair.score} % match, approved in this document, sentence ${pair.place + 1}`;
  return `${pair.score} % match, ${pair.origin}, document ${pair.document}`;
}

function origin(sentence, word) {
  const pair = sentence.known[word.sources[0].pair];
  return `${Math.round(100 * word.share)} % recalled: “${pair.trg}” (${nameKnown(pair)})`;
}

function walk(event, place) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (event.key === "Enter" && event.ctrlKey) {
    event.preventDefault();
    approve(place, state.sentences[place].translation);
  } else if (step) {
    event.preventDefault();
    focusSentence(place + step);
  } else if (event.key === "Escape" && state.open === place) toggle(place);
}

function focusSentence(place) {
  const row = $(`s${place}`);
  if (row) row.querySelector(".translation").focus();
}

/* Changing and approving. */

function toggle(place) {
  const last = state.open;
  document.querySelector(".editor")?.remove();
  state.open = null;
  if (last !== null) drawSentence(last);
  if (last === place || state.sentences[place].translation === null) return;
  state.open = place;
  drawSentence(place);
  $(`s${place}`).append(editor(place));
  $("edit").focus();
}

function editor(place) {
  const sentence = state.sentences[place];
  const rows = Math.min(8, 2 + Math.floor(sentence.translation.length / 60));
  const area = make("textarea", { id: "edit", rows, value: sentence.translation, dir: "auto" });
  area.setAttribute("aria-label", `translation of sentence ${place + 1}`);
  area.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.ctrlKey) { event.preventDefault(); approve(place, area.value); }
  });
  const button = (text, work, kind = "") => {
    const made = make("button", { type: "button", textContent: text, className: kind });
    made.addEventListener("click", work);
    made.disabled = !state.ready && text !== "Cancel";
    return made;
  };
  const choices = make("div", { className: "choices" });
  const buttons = make("p", { className: "buttons" }, button("Approve", () => approve(place, area.value), "main"));
  if (sentence.approved) buttons.append(button("Undo approval", () => approve(place, null)));
  else buttons.append(button("Alternatives", () => offer(place, choices, area)));
  buttons.append(button("Cancel", () => { toggle(place); focusSentence(place); }));
  const hint = make("p", { className: "hint", textContent: "Sentences can be approved when all are translated." });
  const parts = [area, buttons, ...(state.ready ? [] : [hint]), choices, ...explained(sentence)];
  const made = make("div", { className: "editor" }, ...parts);
  made.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { toggle(place); focusSentence(place); }
  });
  return made;
}

function explained(sentence) {
  const parts = [];
  if (isChanged(sentence)) {
    parts.push(make("p", { textContent: `Without the document: ${sentence.first}` }));
  }
  for (const [side, rows] of Object.entries(sentence.read || {})) {
    if (!rows.length) continue;
    const named = rows.map(([place, weight]) => `${place + 1} (${Math.round(100 * weight)} %)`);
    parts.push(make("p", { textContent: `Read in the ${side} memory: sentence ${named.join(", ")}` }));
  }
  const used = new Set((sentence.words || []).flatMap(
    (word) => (word.share >= TINTED ? word.sources.slice(0, 1).map((each) => each.pair) : [])));
  if (used.size) {
    const list = make("ul", { className: "known" });
    for (const pair of [...used].map((n) => sentence.known[n])) {
      list.append(make("li", {}, `${pair.src} → ${pair.trg} `, make("small", { textContent: nameKnown(pair) })));
    }
    parts.push(make("h3", { textContent: "Recalled from" }), list);
  }
  return parts;
}

async function offer(place, choices, area) {
  const found = await attempt(() => ask("GET", `api/documents/${state.id}/sentences/${place}/alternatives`));
  const others = (found || []).filter((text) => text !== state.sentences[place].translation);
  choices.replaceChildren(...others.map((text) => {
    const made = make("button", { type: "button", textContent: text, dir: "auto" });
    made.addEventListener("click", () => { area.value = text; area.focus(); });
    return made;
  }));
  if (found && !others.length) choices.append(make("p", { className: "hint", textContent: "No other translation was found." }));
  choices.querySelector("button")?.focus();
}

/* Does one thing after another, so that each is told what the one before it has changed. Gives
   nothing at all where the document is not that of this page any more. */
function inTurn(said, work) {
  const { id } = state;
  state.waiting += 1;
  $("state").textContent = said;
  state.work = state.work.then(async () => {
    const found = state.id === id ? await attempt(work) : null;
    state.waiting -= 1;
    if (state.id !== id) return undefined;
    if (!found && !state.waiting && state.ready) $("state").textContent = summary();
    return found;
  });
  return state.work;
}

async function approve(place, text) {
  if (!state.ready || (text !== null && !text.trim())) return;
  const sentence = state.sentences[place];
  const before = { ...sentence };
  if (state.open !== null) toggle(state.open);
  if (text !== null) Object.assign(sentence, { approved: true, translation: text.trim(), words: [] });
  drawSentence(place);
  focusSentence(text === null ? place : Math.min(place + 1, state.sentences.length - 1));
  state.saved = false;
  const path = `api/documents/${state.id}/sentences/${place}`;
  const found = await inTurn("translating again what this changes…", () =>
    text === null ? ask("DELETE", path) : ask("PUT", path, form({ text })));
  if (found) take(found.changed, place);
  else if (found === null) {
    state.sentences[place] = before;
    drawSentence(place);
  }
}

function take(changed, approved = null) {
  for (const sentence of changed) {
    const { place } = sentence;
    const area = state.open === place ? $("edit") : null;
    const untouched = area && area.value === state.sentences[place].translation;
    state.sentences[place] = sentence;
    if (untouched) area.value = sentence.translation;
    drawSentence(place);
    if (place !== approved) shine($(`s${place}`));
  }
  const others = changed.filter((each) => each.place !== approved).length;
  const followed = `${others} other${others === 1 ? "" : "s"} followed`;
  if (!state.waiting) $("state").textContent = `${summary()}; ${approved === null ? `${others} changed` : followed}`;
}

function shine(row) {
  row.classList.add("fresh");
  setTimeout(() => row.classList.remove("fresh"), 2500);
}

async function recallFrom(file) {
  const path = `api/documents/${state.id}/memories`;
  const found = await inTurn(`reading ${file.name}…`, () => ask("POST", path, form({ file })));
  if (found) take(found.changed);
}

function showTerms(terms) {
  const separator = (pair) => (pair.some((term) => term.includes("=")) ? "\t" : " = ");
  $("terms").value = terms.map((pair) => pair.join(separator(pair))).join("\n");
}

async function useGlossary(values) {
  const path = `api/documents/${state.id}/glossary`;
  const found = await inTurn("translating again what the terms change…", () => ask("POST", path, form(values)));
  if (!found) return;
  if (state.open !== null) toggle(state.open);
  showTerms(found.glossary);
  take(found.changed);
}

/* Files and the rest. */

/* A file has all that the page shows: it waits until the service has been told. */
async function download(event) {
  const link = event.currentTarget;
  if (state.waiting) {
    event.preventDefault();
    const { id } = state;
    await state.work;
    if (state.id === id) link.click();
  } else if (link.href) state.saved = true;
}

function isMemory(file) {
  return /\.(tmx|tsv|jsonl)(\.gz)?$/i.test(file.name);
}

function takeFile(file, isGlossary = false) {
  if (!file) return;
  if (state.id && (isGlossary || /\.tbx$/i.test(file.name))) useGlossary({ file });
  else if (state.id && isMemory(file)) recallFrom(file);
  else if (!state.id) begin({ file });
  else complain("One document at a time: choose New document first.");
}

async function leave() {
  const approved = state.sentences.filter((each) => each.approved).length;
  const lost = `Close this document? ${approved} approved sentence${approved === 1 ? " is" : "s are"} not downloaded yet.`;
  if (approved && !state.saved && !confirm(lost)) return;
  state.events.close();
  await attempt(() => ask("DELETE", `api/documents/${state.id}`));
  complain(null);
  state.id = null;
  remember(null);
  document.title = "wholedoc";
  $("work").hidden = true;
  $("start").hidden = false;
  $("text").focus();
}

$("start").addEventListener("submit", (event) => {
  event.preventDefault();
  if ($("text").value.trim()) begin({ text: $("text").value, name: "text.txt" });
  else complain("Paste a text, or choose a file.");
});
$("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.ctrlKey) $("start").requestSubmit();
});
for (const id of ["file", "memory"]) {
  $(id).addEventListener("change", (event) => { takeFile(event.target.files[0]); event.target.value = ""; });
}
$("glossary-file").addEventListener("change", (event) => {
  takeFile(event.target.files[0], true);
  event.target.value = "";
});
$("use-terms").addEventListener("click", () => useGlossary({ entries: $("terms").value }));
$("close").addEventListener("click", leave);
for (const kind of ["original", "xliff", "tmx"]) $(`get-${kind}`).addEventListener("click", download);
document.addEventListener("visibilitychange", () => { // it may have changed on another page
  if (!document.hidden && state.id && state.ready && !state.waiting && state.open === null) attempt(refresh);
});
document.addEventListener("dragover", (event) => {
  event.preventDefault();
  $("drop-text").textContent = state.id ? "Drop a translation memory here, or a glossary on its box" : "Drop the document here";
  $("drop").hidden = false;
});
document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) $("drop").hidden = true; });
document.addEventListener("drop", (event) => {
  event.preventDefault();
  $("drop").hidden = true;
  takeFile(event.dataTransfer.files[0], $("glossary").contains(event.target));
});
attempt(fillLanguages).then(() => given.get("document") && resume(given.get("document")));
