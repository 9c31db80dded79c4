/* The address holds the search, and the document that is open, so that it can be shared and gone back to. */
const BOUNDS = ["least", "most"];
function state() {
  const given = new URLSearchParams(location.search), balance = parseFloat(given.get("balance"));
  return {q: given.get("q") || "", c: given.get("c") || "", lang: given.get("lang") || "", to: (given.get("to") || "").split(",").filter(Boolean), balance: balance >= 0 && balance <= 1 ? balance : null, rerank: given.get("rerank") === "1", by: given.get("by") || "", is: given.get("by") ? given.getAll("is") : [], least: given.get("by") && given.get("least") || "", most: given.get("by") && given.get("most") || "", d: given.get("d") || ""};
}
function address(next) {
  const told = new URLSearchParams();
  if (next.q) told.set("q", next.q);
  if (next.c) told.set("c", next.c);
  if (next.lang) told.set("lang", next.lang);
  if (next.to.length) told.set("to", next.to.join(","));
  if (next.balance !== null) told.set("balance", String(next.balance));
  if (next.rerank) told.set("rerank", "1");
  if (next.by) told.set("by", next.by);
  for (const value of next.is) told.append("is", value);
  for (const bound of BOUNDS) if (next[bound]) told.set(bound, next[bound]);
  if (next.d) told.set("d", next.d);
  if (String(told).length > 7500) told.delete("q");
  return location.pathname + (String(told) ? "?" + told : "");
}
function write(next, replace) {
  if (address(next) !== location.pathname + location.search) history[replace ? "replaceState" : "pushState"](null, "", address(next));
}
function form() {
  const usual = current && current.calibration ? current.calibration.balance : null, dialled = parseFloat($("balance").value);
  const chosen = id => [...$(id).querySelectorAll("input:checked")].map(box => box.value);
  return {q: $("q").value.trim(), c: current ? current.name : state().c, lang: $("lang").value, to: chosen("langs"), balance: usual === null || near(dialled, usual) ? null : dialled, rerank: !$("second").hidden && $("rerank").checked, by: $("by").value, is: chosen("values"), least: $("least").value.trim(), most: $("most").value.trim(), d: ""};
}
const near = (value, other) => Math.abs(value - other) < .013;
const web = value => { try { const url = new URL(value); return url.protocol === "https:" || url.protocol === "http:" ? url.href : ""; } catch { return ""; } };

/* A phone shares the address by its own sheet, other browsers copy it; where neither may be done it stands to be copied. */
async function share(button) {
  if (button.nextElementSibling && button.nextElementSibling.matches(".address")) button.nextElementSibling.remove();
  if (navigator.share && matchMedia("(pointer: coarse)").matches) {
    try { await navigator.share({title: document.title, url: location.href}); return; } catch (error) { if (error.name === "AbortError") return; }
  }
  try {
    await navigator.clipboard.writeText(location.href);
    button.textContent = say("copied");
    setTimeout(() => { button.textContent = say("share"); }, 2500);
  } catch {
    const shown = make("input", {class: "address", readonly: "", dir: "ltr", value: location.href, "aria-label": say("share")});
    button.after(shown);
    shown.select();
  }
}
