"use strict";
// explore.html: the library runs in Pyodide, and answers what the sliders and the form ask.
import { loadPyodide } from "./FOLDER/pyodide.mjs";

const field = (name) => document.getElementById(name);
let ask = null;

/** One question to layoutalg.page.answer, as JSON; an error of the library is a refusal. */
function question(asked) {
  const found = JSON.parse(ask(JSON.stringify(asked)));
  if (found.refused !== undefined) throw new Refused(found.refused);
  return found.answer;
}

/** Asks the library for each setting, and keeps its answers. */
class Library {
  constructor(model, asked) {
    this.asked = { layout: model.text, dtype: asked.dtype, arch: asked.arch };
    this.known = new Map();
  }
  ask(what, setting, more) {
    const asked = { ask: what, ...this.asked, swizzle: setting.swizzle, pad: setting.pad, ...more };
    const key = JSON.stringify(asked);
    if (!this.known.has(key)) {
      if (this.known.size > 200) this.known.clear();
      this.known.set(key, question(asked));
    }
    return this.known.get(key);
  }
  offsets(setting) { return Int32Array.from(this.ask("offsets", setting, {})); }
  numbers(setting, access) { return this.ask("numbers", setting, { access: access.spec }); }
  services(setting, access, place) { return this.ask("services", setting, { access: access.spec, place }); }
}

let view = null;

/** The address and the link hold the question and the sliders. */
function share(asked, state) {
  const held = { layout: asked.layouts[0], access: asked.accesses.join(" "), dtype: asked.dtype, arch: asked.arch };
  if (!state.own) held.swizzle = state.bits.join(",");
  if (state.pad) held.pad = state.pad;
  history.replaceState(null, "", `#${new URLSearchParams(held)}`);
  field("state-link").href = location.href;
  field("state").hidden = false;
}

function analyse() {
  const asked = {
    layouts: [field("ask-layout").value], accesses: field("ask-accesses").value.split(/\s+/).filter(Boolean),
    dtype: field("ask-dtype").value, arch: field("ask-arch").value,
  };
  field("asked-wrong").hidden = true;
  try {
    const started = performance.now();
    const data = question({ ask: "page", ...asked });
    for (const [name, html] of Object.entries(data.html)) field(`html-${name}`).innerHTML = html;
    showKey(field("key"), data.palette, data.models[0].machine.banks);
    field("shown").hidden = false;
    document.getElementById("covers").hidden = true;
    const engines = data.models.map((model) => new Library(model, asked));
    if (view) view.replace(data, engines);
    else view = new View(data, engines);
    view.shared = (state) => share(asked, state);
    view.shared(view.state);
    const seconds = ((performance.now() - started) / 1000).toFixed(1);
    field("status").textContent = `Answered by layoutalg in this page, in ${seconds} s.`;
  } catch (error) {
    field("asked-wrong").textContent =
      error instanceof Refused ? error.message : `layoutalg failed: ${error.message.trim().split("\n").pop()}`;
    field("asked-wrong").hidden = false;
    field("status").textContent = "";
    if (!(error instanceof Refused)) throw error;
  }
}

async function begin() {
  const wanted = new URLSearchParams(location.hash.slice(1));
  for (const name of ["layout", "dtype", "arch"]) if (wanted.has(name)) field(`ask-${name}`).value = wanted.get(name);
  if (wanted.has("access")) field("ask-accesses").value = wanted.get("access");
  field("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    if (!ask) return;
    field("status").textContent = "Counting ...";
    requestAnimationFrame(() => setTimeout(analyse, 0));
  });
  try {
    const python = await loadPyodide({ indexURL: new URL("./FOLDER/", location.href).href });
    field("status").textContent = "Loading layoutalg ...";
    const found = await fetch("./FOLDER/layoutalg.zip");
    if (!found.ok) throw new Error(`layoutalg.zip: ${found.status}`);
    python.unpackArchive(await found.arrayBuffer(), "zip");
    ask = python.pyimport("layoutalg.page").answer;
  } catch (error) {
    field("status").textContent = `Python cannot be loaded here (${error.message}). The page needs http: python -m http.server.`;
    document.documentElement.dataset.ready = "failed";
    return;
  }
  analyse();
  if (view && (wanted.has("swizzle") || wanted.has("pad"))) {
    const bits = (wanted.get("swizzle") || "").split(",").map(Number);
    const own = bits.length !== 3 || bits.some((bit) => !Number.isInteger(bit));
    Object.assign(view.state, { own, bits: own ? view.state.bits : bits, pad: Number(wanted.get("pad")) || 0 });
    view.update();
  }
  document.documentElement.dataset.ready = "1";
}
begin();
