const PASSAGE = 340;
function list() {
  const titles = () => [...$("hits").querySelectorAll("h2 a")], focused = titles().indexOf(document.activeElement);
  $("hits").replaceChildren(...answer.hits.slice(0, shown).map(item));
  if (focused >= 0 && titles()[focused]) titles()[focused].focus();
  $("more").hidden = answer.hits.length <= shown;
}
const heading = hit => short([hit.title, hit.passage ? hit.passage.text.slice(0, 90) + " …" : "", hit.id].find(visible) || say("untitled"), PASSAGE);
/* A link to a document, which opens it over the hits; with Ctrl or the middle button in a window of its own. */
function linkTo(hit, name, attributes) {
  const link = make("a", {href: address({...state(), d: hit.id}), ...attributes}, name);
  link.addEventListener("click", event => {
    if (event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    read(hit, link);
  });
  return link;
}
/* A sentence about several links, with commas between them. */
const listed = (key, name, links) => tell(key, {[name]: null}).flatMap(part => part === null ? links.flatMap((link, at) => at ? [make("span", {class: "comma"}, say("comma")), link] : [link]) : [part]);
/* A subject's other languages, each once and by its own name; then what says nearly the same in a language again. */
function also(hit) {
  const seen = new Set([hit.lang]), first = [], again = [];
  for (const other of hit.also) { (seen.has(other.lang) ? again : first).push(other); seen.add(other.lang); }
  const titled = other => named(other.lang) + ": " + plain(heading(other));
  const languages = first.map(other => linkTo(other, ownName(other.lang), {lang: other.lang, dir: "auto", title: titled(other)}));
  const links = again.map((other, at) => linkTo(other, number(at + 1), {title: titled(other), "aria-label": titled(other)}));
  return make("div", {class: "also"}, make("span", {class: "tongue"}, named(hit.lang)),
    ...(languages.length ? [" ", make("span", {class: "others"}, ...listed("alsoIn", "languages", languages))] : []),
    ...(links.length ? [" ", make("span", {class: "again"}, ...listed("same", "links", links))] : []));
}
/* A button that shows and hides what is made at its first use. */
function revealer(key, place, fill) {
  const button = make("button", {type: "button", class: "link", "aria-expanded": "false", "aria-controls": place.id}, say(key));
  button.addEventListener("click", () => {
    if (!place.childElementCount || place.dataset.failed) fill();
    place.hidden = !place.hidden; button.setAttribute("aria-expanded", String(!place.hidden));
  });
  return button;
}
function item(hit, at) {
  const {good} = answer, doubtful = good && at === good, fits = good > at;
  const why = make("div", {class: "why", id: "why" + at, hidden: ""}), like = make("div", {class: "why like", id: "like" + at, hidden: ""});
  const ask = revealer("why", why, () => why.append(...reasons(hit)));
  const more = revealer("like", like, () => similar(hit, like));
  const link = web(hit.fields.url), turned = rightToLeft(hit.lang) !== rightToLeft(tongue);
  return make("li", {class: [fits ? "fits" : "", turned ? "turned" : ""].join(" ").trim() || null},
    doubtful ? make("p", {class: "doubt"}, say("doubtful")) : null,
    make("h2", foreign(hit), linkTo(hit, heading(hit))),
    hit.passage ? make("blockquote", {...foreign(hit), title: fits ? say("answers") : null}, ...marked(hit.passage.text)) : null,
    also(hit),
    make("div", {class: "about"}, link ? make("a", {href: link, rel: "noopener noreferrer", target: "_blank"}, new URL(link).hostname) : null, ask, Object.keys(current.languages).length > 1 ? more : null), why, like);
}
/* The documents of other languages that are most similar to a hit. */
async function similar(hit, place) {
  delete place.dataset.failed;
  place.replaceChildren(make("span", {role: "status"}, "…"));
  let found;
  try { found = await call("api/similar", posted({collection: current.name, id: hit.id})); }
  catch (error) { place.dataset.failed = "true"; place.replaceChildren(make("span", {role: "alert"}, error instanceof Refusal ? english(error.message) : error.message)); return; }
  place.replaceChildren(found.hits.length ? make("ul", null, ...found.hits.map(other => make("li", null, named(other.lang), ": ", linkTo(other, make("bdi", foreign(other), heading(other)), {class: "link"})))) : say("none"));
}
/* The passage, and in it the telling words that it shares with the query. */
function marked(text) {
  const cut = short(text, PASSAGE), words = telling(answer.query, answer.lang);
  if (!words.length) return [cut];
  const escaped = word => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), alone = "(?<![\\p{L}\\p{N}])", ends = "(?![\\p{L}\\p{N}])";
  const pattern = new RegExp(words.sort((a, b) => b.length - a.length).map(word => DENSE.test(word) ? escaped(word) : alone + escaped(word) + ends).join("|"), "giu"), made = [];
  let last = 0;
  for (const found of cut.matchAll(pattern)) { made.push(cut.slice(last, found.index), make("mark", null, found[0])); last = found.index + found[0].length; }
  return [...made, cut.slice(last)];
}
/* How a score adds up: the mean, and what neighbours, versions and the place change. Each change is of rounded sums. */
function reasons(hit) {
  const parts = hit.parts, rows = [], rounded = value => Math.round(value * 1000) / 1000, plus = value => (value < 0 ? "−" : "+") + Math.abs(value).toFixed(3);
  const row = (label, value, sum) => rows.push(make("dt", {class: sum ? "sum" : null}, ...[label].flat()), make("dd", {class: sum ? "sum" : null}, typeof value === "string" ? value : value.toFixed(3).replace("-", "−")));
  const change = (label, before, after) => { const value = rounded(rounded(after) - rounded(before)); if (value) row(label, plus(value)); };
  const mates = parts.mates === null ? 0 : parts.mates, better = hit.also.some(other => other.score === hit.score);
  row(say("whole"), parts.corrected);
  if (parts.title !== null) row(say("ofTitle"), parts.title);
  if (parts.passage !== null) { row(say("ofOpening"), parts.opening); row(say("ofPassage"), parts.passage); row(say("mean"), parts.compared, true); }
  if (parts.fwd !== null) change(tell("near", {fwd: parts.fwd.toFixed(3), bwd: parts.bwd.toFixed(3)}), parts.compared, parts.score);
  if (parts.mate !== null) change(tell("mates", {mate: mate(parts.mate)}), parts.score, parts.score + mates);
  change(say(better ? "best" : "place"), parts.score + mates, hit.score);
  row(say("score"), hit.score, true);
  row(say("cosine"), parts.cosine);
  if (parts.words !== null) row(say("words"), parts.words);
  if (parts.reranked !== null) row(say("second"), parts.reranked);
  const told = $("hits").querySelector(".note");  // once for all hits
  return [...(told ? [] : [make("p", {class: "note"}, say("scoreNote"))]), make("dl", null, ...rows)];
}
/* The document that adds most to a hit's score: a link if it is among the answer's, else its id. */
function mate(id) {
  const hit = documents(answer).find(other => other.id === id);
  return hit ? linkTo(hit, make("bdi", null, named(hit.lang) + ": ", make("span", foreign(hit), heading(hit))), {class: "link"}) : isolated(id);
}
