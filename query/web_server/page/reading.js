let opener = null, reading = "";
/* A browser takes a part of an address that is . or .. out of it, and servers between may take empty parts out. */
const place = id => /(^|\/)\.{0,2}(\/|$)/.test(id) ? encodeURIComponent(id) : id.split("/").map(encodeURIComponent).join("/");
async function read(hit, from) {
  if (answer && answer.search && documents(answer).some(other => other.id === hit.id)) fetch("api/clicks", posted({search: answer.search, id: hit.id}, {keepalive: true})).catch(() => {});
  opener = from || null;
  let found;
  if (/^\.\.?$/.test(hit.id)) { report(tell("cannotOpen", {id: isolated(hit.id)}), true); return; }
  try { found = await call("api/documents/" + place(hit.id) + "?collection=" + encodeURIComponent(current.name)); }
  catch (error) { fail(error); return; }
  const before = found.title ? [...found.title].length + 1 : 0, text = [...found.text];
  const start = hit.passage ? Math.max(0, hit.passage.start - before) : 0, end = hit.passage ? Math.max(start, hit.passage.end - before) : 0;
  const passage = make("mark", {title: say("answers")}, text.slice(start, end).join(""));
  $("title").textContent = [found.title, found.id].find(visible) || say("untitled");
  for (const id of ["title", "text"]) for (const [name, value] of Object.entries(foreign(found))) $(id).setAttribute(name, value);
  $("text").replaceChildren(text.slice(0, start).join(""), end > start ? passage : "", text.slice(end).join(""));
  $("answers").hidden = end <= start;
  const rows = [[say("fieldLanguage"), named(found.lang)], [say("fieldId"), found.id], ...Object.entries(found.fields).filter(([, value]) => value !== null && value !== "")];
  $("fields").replaceChildren(...rows.flatMap(([name, value]) => {
    const link = web(value), told = typeof value === "string" ? value : JSON.stringify(value);
    return [make("dt", null, name), make("dd", null, link ? make("a", {href: link, rel: "noopener noreferrer", target: "_blank"}, isolated(link)) : isolated(told))];
  }));
  reading = found.id;
  write({...state(), d: reading}, true);
  if (!$("document").open) $("document").showModal();
  if (end > start) passage.scrollIntoView({block: "center"}); else $("document").scrollTop = 0;
}
$("close").addEventListener("click", () => $("document").close());
$("document").addEventListener("click", event => { if (event.target === $("document")) $("document").close(); });
/* The browser gives the focus back to a hit that had it. This event comes later, when the focus may be elsewhere already. */
$("document").addEventListener("close", () => {
  const given = state();
  if (reading && given.d === reading) write({...given, d: ""}, true);
  reading = "";
  if (opener && opener.isConnected && document.activeElement === document.body) opener.focus();
});
for (const id of ["share", "pass"]) $(id).addEventListener("click", () => share($(id)));
