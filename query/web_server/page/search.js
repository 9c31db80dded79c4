const PAGE = 10, MOST = 50;
let collections = [], away = {}, current = null, answer = null, counts = {}, shown = PAGE, asking = null, latest = 0, all = {};

/* What the service says is in English, whatever the page's language, and so is its direction. */
class Refusal extends Error {}
const english = text => make("span", {lang: "en", dir: "ltr"}, text);
const fail = error => report([error instanceof Refusal ? english(error.message) : error.message], true);

async function call(path, options) {
  let reply;
  try { reply = await fetch(path, options); } catch (error) { if (error.name === "AbortError") throw error; throw new Error(say("unreachable")); }
  if (reply.status === 204) return null;
  const body = await reply.json().catch(() => ({}));
  if (!reply.ok) throw typeof body.error === "string" ? new Refusal(sentence(body.error)) : new Error(say("failed", {status: reply.status}));
  return body;
}
const posted = (body, more) => ({method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(body), ...more});
const find = body => call("api/search", posted(body, {signal: asking.signal}));
const sentence = text => text.charAt(0).toUpperCase() + text.slice(1).replace(/[.]?$/, ".");
function report(text, bad) { $("status").replaceChildren(...[text].flat()); $("status").classList.toggle("bad", Boolean(bad)); $("share").hidden = !text || Boolean(bad); $("notes").replaceChildren(); for (const link of document.querySelectorAll("main .address")) link.remove(); }

/* What the dial finds on its way is not logged (see log in /openapi.json). */
async function search(given, dialled) {
  const own = ++latest;
  if (asking) asking.abort();
  if (!current) { lost(given); return; }
  if (!given.q) { answer = null; counts = {}; show(given); welcome(); if (given.d) read({id: given.d}); return; }
  asking = new AbortController();
  $("hits").classList.add("old");
  $("status").setAttribute("aria-busy", "true");
  const body = {query: given.q, collection: current.name, k: MOST, subjects: true, explain: true, facets: given.by ? ["lang", given.by] : ["lang"]};
  if (preferred().length) body.prefer = preferred();
  if (given.lang) body.lang = given.lang;
  if (given.to.length) body.to = given.to;
  if (narrowed(given)) body.filters = {[given.by]: given.is.length ? given.is : range(given)};
  if (given.balance !== null) body.balance = given.balance;
  if (given.rerank && current.reranker && !dialled) body.rerank = true;
  if (dialled) body.log = false;
  try {
    const found = await find(body);
    if (own !== latest) return;
    answer = found; shown = PAGE;
    tally(body, found, given, own);
    tongues(given.lang); filters(given); list(); sum(); notes(given);
  } catch (error) {
    if (error.name === "AbortError" || own !== latest) return;
    answer = null; counts = {}; $("hits").replaceChildren(); $("more").hidden = true; fail(error);
  } finally {
    if (own === latest) { $("hits").classList.remove("old"); $("status").removeAttribute("aria-busy"); }
  }
  if (given.d && own === latest) read((answer ? documents(answer) : []).find(hit => hit.id === given.d) || {id: given.d});
}
/* The collection that an address names is gone, can't be searched now, or is not named. */
function lost({c}) {
  answer = null; $("hits").replaceChildren(); $("more").hidden = true;
  if (Object.hasOwn(away, c)) report([english(sentence(c + ": " + away[c]))], true);
  else report(c ? tell("gone", {name: isolated(plain(short(c, 60)))}) : say("unnamed"), true);
}
/* Counts are of the answer, or where their own filter is set of a search without it; where that fails there are none. */
function tally(body, found, given, own) {
  for (const [slot, name, filter, filtered] of [["lang", "lang", "to", given.to.length], ["by", given.by, "filters", narrowed(given)]]) {
    const {[filter]: left, facets, explain, log, rerank, ...asked} = body, key = JSON.stringify(asked);
    if (!name) delete counts[slot];
    else if (!filtered) counts[slot] = {name, key, of: found.facets.counts[name]};
    else if (!counts[slot] || counts[slot].name !== name || counts[slot].key !== key) {
      delete counts[slot];
      find({...asked, facets: [name], log: false}).then(wide => { if (own === latest) { counts[slot] = {name, key, of: wide.facets.counts[name]}; filters(given); } }).catch(() => {});
    }
  }
}
/* Whether documents are narrowed to values of a field, or to a range of them; and the range as a filter takes it. */
const narrowed = given => given.is.length > 0 || BOUNDS.some(bound => given[bound]);
function range(given) {
  const stated = BOUNDS.filter(bound => given[bound]), numbers = stated.every(bound => isNumber(given[bound]));
  return Object.fromEntries(stated.map(bound => [bound === "least" ? "gte" : "lte", numbers ? Number(given[bound]) : given[bound]]));
}
/* All documents of an answer: of each hit also those that are about the same thing. */
const documents = found => found.hits.flatMap(hit => [hit, ...hit.also]);
function sum() {
  const every = documents(answer), total = answer.facets.total;
  if (!every.length) { report([say($("settings").textContent === say("settings") ? "nothing" : "nothingSet"), " ", english(answer.note && sentence(answer.note))]); return; }
  report([
    ...(every.length > answer.hits.length ? [say("subjects", {count: number(answer.hits.length)})] : []),
    every.length < total ? say("documentsOf", {count: number(every.length), total: number(total)}) : say("documents", {count: number(every.length)}),
    say("tongues", {count: number(new Set(every.map(hit => hit.lang)).size)}),
    ...(answer.reranking === null ? [] : [say("reranked", {seconds: (answer.reranking / 1000).toFixed(2)})]),
  ].map(part => part.replaceAll(" ", "\u00a0")).join(" · "));
}
/* What a reader has to know of the answer: nothing fits, letters nobody knows, a language that is unsure. */
function notes(given) {
  const {good, unread, confidence, lang} = answer, button = (key, pressed) => { const made = make("button", {type: "button", class: "link"}, say(key)); made.addEventListener("click", pressed); return made; };
  const note = (name, ...parts) => $("notes").append(make("p", {class: name}, ...parts)), text = parts => make("span", null, ...parts);
  const choose = () => { drawer(true); $("lang").focus(); };
  if (good === 0 && answer.hits.length) note("answer", say("noAnswer"));
  if (!given.lang && confidence !== null && lang === "und") note("unsure", say("unsureLanguage"), button("choose", choose));
  else if (!given.lang && confidence !== null && confidence < SURE) note("unsure", say("isThis", {language: spoken(lang)}), button("yes", () => { tongues(lang); go(); }), button("other", choose));
  if (unread) note("unread", text(tell("unread", {text: isolated(short(unread, 60))})));
}
