let loading = false, early = false, wait = 0;
function welcome() {
  report("");
  $("more").hidden = true;
  const total = Object.values(current.languages).reduce((sum, count) => sum + count, 0), size = [say("documents", {count: number(total)}), say("tongues", {count: number(Object.keys(current.languages).length)})].join(" · ");
  const keys = matchMedia("(pointer: fine)").matches ? make("p", null, say("slash")) : null;
  $("hits").replaceChildren(make("li", {class: "hint"}, make("p", null, say("welcome")), make("p", null, size), keys));
}
/* On a phone the keyboard covers the hits, so a search that is asked for leaves the field. */
function uncover() { if (matchMedia("(pointer: coarse)").matches) $("q").blur(); }
function soon() { early = true; load(); }
function go(dialled) { if (!collections.length) { soon(); return; } const next = form(); write(next, dialled); show(next); search(next, dialled); }

$("form").addEventListener("submit", event => { event.preventDefault(); uncover(); if (!current) { soon(); return; } const next = form(); next.to = next.to.filter(code => code in current.languages); write(next); show(next); search(next); });
for (const id of ["lang", "langs", "rerank"]) $(id).addEventListener("change", () => go());
/* Values and a range of a field are one filter: the last that is set. */
const unset = id => { for (const input of $(id).querySelectorAll("input")) { input.checked = false; if (id === "range") input.value = ""; } };
for (const [id, other] of [["values", "range"], ["range", "values"]]) $(id).addEventListener("change", () => { unset(other); go(); });
$("by").addEventListener("change", () => { $("values").replaceChildren(); unset("range"); go(); });
for (const [id, of] of [["every", ["langs"]], ["any", ["values", "range"]]]) $(id).addEventListener("click", () => { of.forEach(unset); go(); $("q").focus(); });
$("usual").addEventListener("click", () => { dial(current.calibration.balance); go(); $("balance").focus(); });
$("collection").addEventListener("change", () => { const next = {q: $("q").value.trim(), c: $("collection").value, lang: "", to: [], balance: null, rerank: $("rerank").checked, by: "", is: [], least: "", most: "", d: ""}; answer = null; write(next); show(next); search(next); });
$("mine").addEventListener("change", () => { remember($("mine").value); speak($("mine").value); const given = state(); show(given); if (collections.length) search(given); });
$("settings").addEventListener("click", () => drawer(!$("drawer").classList.contains("open")));
$("balance").addEventListener("input", () => { dial($("balance").value); clearTimeout(wait); wait = setTimeout(() => go(true), 60); });
$("balance").addEventListener("change", () => { if ($("rerank").checked) { clearTimeout(wait); go(); } });
$("more").addEventListener("click", () => { const first = shown; shown += PAGE; list(); $("hits").children[first].querySelector("h2 a").focus(); });
addEventListener("popstate", () => {
  reading = "";
  $("document").close();
  if (!collections.length) return;
  const given = state(); answer = null; show(given); search(given);
});
addEventListener("keydown", event => {
  if ($("document").open || event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) && event.target.type !== "checkbox";
  if (event.key === "/" && !typing) { event.preventDefault(); $("q").select(); }
  const titles = [...document.querySelectorAll("#hits h2 a")], at = titles.indexOf(document.activeElement);
  if (event.key === "ArrowDown" && (at >= 0 || event.target === $("q")) && titles[at + 1]) { event.preventDefault(); titles[at + 1].focus(); }
  if (event.key === "ArrowUp" && at >= 0) { event.preventDefault(); (titles[at - 1] || $("q")).focus(); }
});
/* What is typed or searched for before the collections are known waits for them. */
async function load() {
  if (loading) return;
  loading = true;
  try {
    const found = await call("api/collections");
    collections = found.collections;
    away = found.away;
    const first = Object.entries(away)[0];
    if (!collections.length) { report(first ? [english(sentence(first[0] + ": " + first[1]))] : tell("empty", {command: make("code", {dir: "ltr"}, "dragoman index SOURCE -c NAME")}), first); return; }
    $("collection").replaceChildren(...collections.map(collection => new Option(collection.name, collection.name)));
    const given = state(), typed = $("q").value;
    const asks = early && typed.trim();
    if (asks) given.q = typed.trim();
    show(given);
    const unnamed = current && given.q && !given.c;
    if (unnamed) given.c = current.name;
    if (asks || unnamed) write(given, !asks);
    search(given);
    if (!early && typed) $("q").value = typed;
    if (given.q) uncover();
    else if (!given.d) $("q").focus();
  } catch (error) { fail(error); } finally { loading = false; }
}
speak(remembered() || browsers()[0] || "en");
show(state());
load();
