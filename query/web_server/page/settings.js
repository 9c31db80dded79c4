const CHIPS = 12;
/* An address names its collection. Where that is gone no other takes its place, and current is null. */
function show(given) {
  const unnamed = !given.c && (collections.length === 1 || !given.q) ? collections[0] : null;
  const found = collections.find(collection => collection.name === given.c) || unnamed;
  if (current !== found) { current = found; counts = {}; }
  $("q").value = given.q;
  $("collection").value = current ? current.name : "";
  $("which").hidden = Boolean(current) && collections.length < 2;
  mineOptions();
  const set = [given.lang, given.to.length, given.balance !== null, given.rerank, narrowed(given)].filter(Boolean).length;
  $("settings").textContent = set ? say("settingsOn", {count: number(set)}) : say("settings");
  document.title = given.q ? plain(given.q) + " – " + say("title") : say("title");
  if (!current) { $("lang").replaceChildren(new Option(say("detected"), "")); for (const id of ["fair", "second", "filter", "narrow", "usual"]) $(id).hidden = true; return; }
  tongues(given.lang);
  $("fair").hidden = !current.calibration;
  if (current.calibration) dial(given.balance === null ? current.calibration.balance : given.balance);
  $("second").hidden = !current.reranker;
  $("rerank").checked = given.rerank;
  filters(given);
}
function drawer(opened) { $("drawer").classList.toggle("open", opened); $("settings").setAttribute("aria-expanded", String(opened)); }
function dial(value) {
  $("balance").value = value;
  $("shown").textContent = $("balance").value;
  $("usual").hidden = !current.calibration || near(parseFloat($("balance").value), current.calibration.balance);
}
/* How sure the query's language is, as detected: null where it was stated. */
const SURE = .9;
function tongues(chosen) {
  const sure = answer && !chosen ? answer.confidence : null;
  const first = sure === null ? say("detected") : answer.lang === "und" ? say("unsure") : say(sure < SURE ? "unsureAs" : "detectedAs", {language: named(answer.lang)});
  const codes = new Set([...Object.keys(current.languages), mine, ...browsers(), chosen].filter(code => code && code !== "und"));
  $("lang").replaceChildren(new Option(first, ""), ...[...codes].sort(byName).map(code => new Option(named(code), code)));
  $("lang").value = chosen;
}
/* The chips of the languages, and of the values of a field. Their numbers are of the search without their own filter. */
function filters({to, by, is, ...bounds}) {
  const codes = Object.keys(current.languages), langs = counts.lang && counts.lang.of, values = counts.by && counts.by.name === by && counts.by.of;
  $("filter").hidden = codes.length < 2;
  $("every").hidden = !to.length;
  chips("langs", "to", codes.sort((a, b) => (langs ? (langs[b] || 0) - (langs[a] || 0) : 0) || byName(a, b)), to, langs, named, code => say("chipDocuments", {count: number(current.languages[code])}));
  const known = fields();
  if (by && !known.includes(by)) known.push(by);
  $("narrow").hidden = !known.length;
  $("any").hidden = !is.length && !bounds.least && !bounds.most;
  const offered = Object.keys(values || {}), kind = ranged(offered);
  $("range").hidden = !by || !(kind || bounds.least || bounds.most);
  for (const bound of BOUNDS) if (document.activeElement !== $(bound)) { $(bound).type = kind || "text"; $(bound).step = "any"; $(bound).value = bounds[bound]; }
  if (document.activeElement !== $("by") || $("by").value !== by) $("by").replaceChildren(new Option(say("noField"), ""), ...known.map(name => new Option(plain(short(name, 40)), name)));
  $("by").value = by;
  chips("values", "is", by ? [...new Set([...(kind && offered.length > CHIPS ? [] : offered).sort((a, b) => values[b] - values[a]), ...is])] : [], is, values, value => isolated(plain(short(value, 40)) || "–"), () => "");
}
function chips(id, name, values, chosen, numbers, shownAs, before) {
  const focused = document.activeElement && document.activeElement.name === name ? document.activeElement.value : null;
  const few = !all[id] && values.length > CHIPS + 2 ? values.filter((value, at) => at < CHIPS || chosen.includes(value)) : values;
  const rest = make("button", {type: "button", class: "link"}, say("rest", {count: number(values.length - few.length)}));
  rest.addEventListener("click", () => { all[id] = true; chips(id, name, values, chosen, numbers, shownAs, before); $(id).querySelectorAll("input")[few.length].focus(); });
  $(id).replaceChildren(...few.map(value => {
    const box = make("input", {type: "checkbox", name, value});
    box.checked = chosen.includes(value);
    const many = numbers ? (Object.hasOwn(numbers, value) ? numbers[value] : 0) : null;
    return make("label", {class: many === 0 ? "none" : null, title: [before(value), many === null ? "" : say("chipBest", {count: number(many)})].filter(Boolean).join(" · ")},
      box, shownAs(value), many === null ? null : make("b", null, String(many)));
  }), few.length < values.length ? rest : "");
  if (focused !== null) { const box = $(id).querySelector('input[value="' + CSS.escape(focused) + '"]'); if (box) box.focus(); }
}
/* The kind of values that have a range, where all are of it: numbers, or dates; as a field of the form has it. */
const isNumber = value => value.trim() !== "" && Number.isFinite(Number(value));
const ranged = values => values.length < 2 ? "" : values.every(isNumber) ? "number" : values.every(value => /^\d{4}-\d\d-\d\d/.test(value)) ? "date" : "";
/* The fields of the hits that tell them apart, and whose values several share or have a range. */
function fields() {
  const seen = new Map();
  for (const hit of answer ? documents(answer) : []) for (const [name, value] of Object.entries(hit.fields)) {
    if (!seen.has(name)) seen.set(name, new Map());
    for (const item of [value].flat(9)) if (item !== null && typeof item !== "object" && String(item).length <= 60) seen.get(name).set(String(item), (seen.get(name).get(String(item)) || 0) + 1);
  }
  return [...seen].filter(([name, values]) => name !== "lang" && values.size > 1 && ([...values.values()].some(many => many > 1) || ranged([...values.keys()]))).map(([name]) => name).sort();
}
