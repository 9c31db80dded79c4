"use strict";
const $ = id => document.getElementById(id);
const SENTENCES = JSON.parse($("sentences").textContent);
const REMEMBERED = "dragoman.language";
/* The language that the reader chose, else the browser's; the page's own, and the names of languages in it. */
let mine = "", tongue = "en", names = null;

function make(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) if (value !== null && value !== false) made.setAttribute(name, value);
  made.append(...children.filter(child => child !== null));
  return made;
}
/* A sentence of the page, as text; and as nodes, whose values may be elements. */
const say = (key, values) => tell(key, values).join("");
const tell = (key, values) => SENTENCES[tongue][key].split(/\{(\w+)\}/).map((part, at) => at % 2 ? values[part] : part).filter(part => part !== "");
const number = value => value.toLocaleString(tongue + "-u-nu-latn");
/* Texts of others are text alone, and isolated: what turns the direction of writing turns no word of this page. */
const isolated = text => make("bdi", null, text);
const visible = text => /[^\p{White_Space}\p{Default_Ignorable_Code_Point}\p{C}]/u.test(text);
const short = (text, most) => text.length > most ? text.match(new RegExp("^[^]{0," + most + "}", "u"))[0].replace(/\s+\S*$/u, "") + " …" : text;
const plain = text => text.replace(/[\p{Bidi_Control}\p{Cc}]/gu, "");
const upper = (text, code) => text.charAt(0).toLocaleUpperCase(code) + text.slice(1);

const locale = code => { try { return new Intl.Locale(code).maximize(); } catch { return null; } };
/* A browser's code as collections write it: the language, and its script where that is unusual (zh-TW: zh-Hant). */
function written(code) {
  const full = locale(code), usual = full && locale(full.language);
  return full ? full.language + (full.script === usual.script ? "" : "-" + full.script) : "";
}
const browsers = () => [...new Set((navigator.languages || []).map(written).filter(Boolean))];
/* The languages in which a reader wants to see subjects, and which the collection has. */
const preferred = () => [...new Set([mine, ...browsers(), tongue].flatMap(code => Object.keys(current.languages).filter(other => other === code || other.split("-")[0] === code.split("-")[0]).sort((a, b) => (b === code) - (a === code))))];
const rightToLeft = code => /^(ar|arc|ary|arz|azb|ckb|dv|fa|he|ks|pnb|ps|sd|ug|ur|yi)$|-(Arab|Hebr|Syrc|Thaa)$/.test(code);
/* Readers aloud and the browser's translation go by the language of a text. */
const foreign = ({lang}) => ({lang, dir: rightToLeft(lang) ? "rtl" : "auto", translate: "yes"});
/* A language in the page's language, and by its own name. */
const spoken = code => { if (code === "und") return say("unknownLanguage"); try { return names.of(code); } catch { return code; } };
const named = code => upper(spoken(code), tongue);
function ownName(code) { try { return code === "und" ? named(code) : upper(new Intl.DisplayNames([code], {type: "language", fallback: "none"}).of(code) || named(code), code); } catch { return code; } }
const byName = (a, b) => named(a).localeCompare(named(b), tongue);

function speak(chosen) {
  mine = chosen;
  tongue = [mine, ...browsers()].map(code => code.split("-")[0]).find(code => Object.hasOwn(SENTENCES, code)) || "en";
  try { names = new Intl.DisplayNames([tongue], {type: "language"}); } catch { names = null; }
  document.documentElement.lang = tongue;
  document.documentElement.dir = rightToLeft(tongue) ? "rtl" : "ltr";
  for (const place of document.querySelectorAll("[data-say]")) place.textContent = say(place.dataset.say);
  for (const name of ["placeholder", "aria-label"]) for (const place of document.querySelectorAll("[data-say-" + name + "]")) place.setAttribute(name, say(place.getAttribute("data-say-" + name)));
  for (const id of ["share", "pass"]) $(id).textContent = say("share");
}
/* The choice is remembered; where the browser keeps nothing, it holds as long as the page. */
function remembered() { try { return localStorage.getItem(REMEMBERED) || ""; } catch { return ""; } }
function remember(code) { try { localStorage.setItem(REMEMBERED, code); } catch (error) { console.info(error.message); } }
function mineOptions() {
  const codes = new Set([...Object.keys(SENTENCES), ...(current ? Object.keys(current.languages) : []), ...browsers(), mine].filter(code => code && code !== "und"));
  const sorted = [...codes].sort((a, b) => ownName(a).localeCompare(ownName(b), tongue));
  $("mine").replaceChildren(...sorted.map(code => { const option = new Option(ownName(code), code); option.lang = code; return option; }));
  $("mine").value = mine;
}

/* The words of a query that tell something: those of its own language's grammar are not among them. */
const DENSE = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u;
function telling(query, lang) {
  const code = lang.split("-")[0], stop = Object.hasOwn(SENTENCES, code) ? new Set(SENTENCES[code].stop.split(" ")) : null;
  const all = typeof Intl.Segmenter === "function" ? [...new Intl.Segmenter(lang, {granularity: "word"}).segment(query)].filter(part => part.isWordLike).map(part => part.segment) : query.match(/[\p{L}\p{M}\p{N}]+/gu) || [];
  const tells = word => {
    if (stop && stop.has(word)) return false;
    if (/\p{Script=Thai}|\p{Script=Lao}|\p{Script=Khmer}|\p{Script=Myanmar}/u.test(word)) return word.length > 3;
    if (DENSE.test(word)) return code === "zh" ? word.length > 1 : /\p{Script=Han}|\p{Script=Katakana}/u.test(word);
    return word.length > (stop ? 2 : 3);
  };
  return [...new Set(all.map(word => word.toLowerCase()))].filter(tells).slice(0, 40);
}
