"use strict";
// What a page shows: three grids that share one selection, the facts of the selected element, the score.
// Nothing is counted here.  `engines`, one for each layout, answer with the library's numbers:
//
//   offsets(setting)                   the offset of every flat index
//   numbers(setting, access)           the cost of the access
//   services(setting, access, place)   [lane, bank, word, phase group, wavefront] of one instruction
//   setting   { swizzle: null | [B, M, S], pad }      null: the layout's own swizzles
//   place     [warp, register, iteration]

const CELL = { width: 46, height: 24, head: 46, top: 22 };
const FONT = '12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace';

class Refused extends Error {}

/** Which elements the threads of an access take: flat indices, by its thread-value layout. */
class Threads {
  constructor(access, model) {
    const walk = (leaves) => leaves.reduce(
      (table, [extent, stride]) => Array.from({ length: extent }, (_, digit) => table.map((at) => at + digit * stride)).flat(), [0]);
    this.tables = [0, 1, 2].map((n) => walk(access.tv[n] || []));
    this.elems = (8 * access.widthBytes) / model.bits;
    this.lanes = model.machine.lanes;
    const [threads, values, iterations] = this.tables;
    this.warps = Math.ceil(threads.length / this.lanes);
    this.registers = values.length / this.elems;
    this.slots = new Map();
    let slot = 0;
    for (const iteration of iterations) {
      for (const value of values) {
        for (const thread of threads) {
          const at = iteration + value + thread;
          if (!this.slots.has(at) && (slot % threads.length) % this.lanes < access.lanes) this.slots.set(at, slot);
          slot++;
        }
      }
    }
  }

  /** The flat index of a value of a lane's register in one instruction. */
  element([warp, register, iteration], lane, n) {
    const [threads, values, iterations] = this.tables;
    return threads[warp * this.lanes + lane] + values[register * this.elems + n] + iterations[iteration];
  }

  /** Lane, warp, value, register and iteration that first take an element, or null where nobody takes it. */
  taker(index) {
    if (!this.slots.has(index)) return null;
    const slot = this.slots.get(index), [threads, values] = this.tables;
    const thread = slot % threads.length, value = Math.floor(slot / threads.length) % values.length;
    return {
      thread, value, lane: thread % this.lanes, warp: Math.floor(thread / this.lanes),
      register: Math.floor(value / this.elems), iteration: Math.floor(slot / threads.length / values.length),
    };
  }
}

/** Black or white, whichever can be read on the colour. */
function inkOn([red, green, blue]) {
  const linear = [red, green, blue].map((c) => (c / 255 <= 0.04045 ? c / 3294.6 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  const light = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  return light > 0.179 ? "#000" : "#fff";
}

/** A table of any size in a box that scrolls: what is in sight is drawn. */
class Grid {
  constructor(box, label, onPick) {
    this.box = box;
    this.onPick = onPick;
    this.size = { rows: 0, columns: 0 };
    this.at = null;
    box.classList.add("grid");
    box.tabIndex = 0;
    box.setAttribute("role", "application");
    box.setAttribute("aria-roledescription", "table of cells");
    box.setAttribute("aria-label", `${label}. Arrow keys move the selection.`);
    this.canvas = document.createElement("canvas");
    this.canvas.setAttribute("aria-hidden", "true");
    this.room = document.createElement("div");
    this.room.className = "room";
    box.replaceChildren(this.room, this.canvas);
    box.addEventListener("scroll", () => this.draw());
    box.addEventListener("pointermove", (event) => this.pick(event, false));
    box.addEventListener("click", (event) => this.pick(event, true));
    box.addEventListener("pointerleave", () => this.onPick(null, false));
    box.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(box);
  }

  /** `cell(row, column)` gives { text, color, faint, edge } or null; `rowName`, `columnName` the heads. */
  show(rows, columns, parts) {
    const width = parts.width || CELL.width;
    this.size = { rows, columns };
    this.parts = { ...parts, width };
    this.room.style.width = `${CELL.head + columns * width + 2}px`;
    this.room.style.height = `${CELL.top + rows * CELL.height + 2}px`;
    this.draw();
  }

  pick(event, pinned) {
    const frame = this.box.getBoundingClientRect();
    const x = event.clientX - frame.left - this.box.clientLeft;
    const y = event.clientY - frame.top - this.box.clientTop;
    if (x < CELL.head || y < CELL.top || x >= this.box.clientWidth || y >= this.box.clientHeight) return;
    const column = Math.floor((x - CELL.head + this.box.scrollLeft) / this.parts.width);
    const row = Math.floor((y - CELL.top + this.box.scrollTop) / CELL.height);
    if (row < this.size.rows && column < this.size.columns) this.onPick([row, column], pinned);
  }

  key(event) {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const { rows, columns } = this.size;
    if (!rows || !columns) return;
    let [row, column] = this.at || [0, -1];
    if (event.key === "Home") [row, column] = [event.ctrlKey ? 0 : row, 0];
    else if (event.key === "End") [row, column] = [event.ctrlKey ? rows - 1 : row, columns - 1];
    else if (event.key in moves && !event.ctrlKey && !event.altKey && !event.metaKey) {
      row = Math.min(rows - 1, Math.max(0, row + moves[event.key][0]));
      column = Math.min(columns - 1, Math.max(0, column + moves[event.key][1]));
    } else return;
    event.preventDefault();
    this.onPick([row, column], true);
    this.reveal();
  }

  /** Scrolls so that the selected cell can be seen. */
  reveal() {
    if (!this.at) return;
    const box = this.box, [row, column] = this.at, { width } = this.parts;
    const left = column * width, top = row * CELL.height;
    const wide = box.clientWidth - CELL.head - width, high = box.clientHeight - CELL.top - CELL.height;
    box.scrollLeft = Math.min(left, Math.max(left - wide, box.scrollLeft));
    box.scrollTop = Math.min(top, Math.max(top - high, box.scrollTop));
  }

  draw() {
    const { box, canvas } = this;
    const width = box.clientWidth, height = box.clientHeight, ratio = window.devicePixelRatio || 1;
    if (!this.parts || !width || !height) return;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = "#fff";
    pen.fillRect(0, 0, width, height);
    pen.font = FONT;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    const { width: w, cell, rowName, columnName } = this.parts, h = CELL.height;
    const firstRow = Math.floor(box.scrollTop / h), firstColumn = Math.floor(box.scrollLeft / w);
    const lastRow = Math.min(this.size.rows, Math.ceil((box.scrollTop + height) / h));
    const lastColumn = Math.min(this.size.columns, Math.ceil((box.scrollLeft + width) / w));
    const edges = [];
    pen.save();
    pen.beginPath();
    pen.rect(CELL.head, CELL.top, width, height);
    pen.clip();
    for (let row = firstRow; row < lastRow; row++) {
      for (let column = firstColumn; column < lastColumn; column++) {
        const found = cell(row, column);
        const x = CELL.head + column * w - box.scrollLeft, y = CELL.top + row * h - box.scrollTop;
        if (!found) {
          pen.fillStyle = "#f4f4f4";
          pen.fillRect(x, y, w - 1, h - 1);
          continue;
        }
        const color = found.faint ? found.color.map((c) => Math.round(255 - (255 - c) * 0.35)) : found.color;
        pen.fillStyle = `rgb(${color.join(",")})`;
        pen.fillRect(x, y, w - 1, h - 1);
        pen.fillStyle = inkOn(color);
        pen.fillText(found.text, x + w / 2, y + h / 2 + 1, w - 4);
        if (found.edge) edges.push([x, y, found.edge]);
      }
    }
    for (const kind of ["mate", "clash", "chosen"]) {
      for (const [x, y, edge] of edges) {
        if (edge !== kind) continue;
        pen.lineWidth = kind === "mate" ? 1 : 3;
        pen.strokeStyle = kind === "clash" ? "#b00020" : "#000";
        pen.setLineDash(kind === "clash" ? [4, 2] : []);
        pen.strokeRect(x + 1, y + 1, w - 3, h - 3);
      }
    }
    pen.setLineDash([]);
    pen.restore();
    pen.fillStyle = "#f6f6f4";
    pen.fillRect(0, 0, width, CELL.top);
    pen.fillRect(0, 0, CELL.head, height);
    pen.fillStyle = "#444";
    for (let column = firstColumn; column < lastColumn; column++) {
      const x = CELL.head + column * w - box.scrollLeft + w / 2;
      if (x > CELL.head) pen.fillText(columnName(column), x, CELL.top / 2, w - 2);
    }
    pen.textAlign = "right";
    for (let row = firstRow; row < lastRow; row++) {
      const y = CELL.top + row * h - box.scrollTop + h / 2;
      if (y > CELL.top) pen.fillText(rowName(row), CELL.head - 5, y, CELL.head - 8);
    }
    pen.fillStyle = "#f6f6f4";
    pen.fillRect(0, 0, CELL.head, CELL.top);
  }
}

/** The page: `data` as layoutalg/page/data.py writes it, `engines` one for each of data.models. */
class View {
  constructor(data, engines) {
    this.data = data;
    this.engines = engines;
    this.state = { model: 0, access: 0, own: true, bits: [0, 0, 3], pad: 0, label: "offset" };
    this.pinned = null;
    this.hovered = null;
    const id = (name) => document.getElementById(name);
    this.parts = Object.fromEntries(
      ["layout", "access", "own", "bits-b", "bits-m", "bits-s", "pad", "label", "score", "facts", "live",
        "tile-note", "memory-note", "waves-note", "waves-head", "refused", "key"].map((name) => [name, id(name)]));
    this.tile = new Grid(id("tile"), "The tile, by row and column",
      (at, pin) => this.choose(this.ofTile(at), pin, this.tile));
    this.memory = new Grid(id("memory"), "Memory, a row of all banks per line",
      (at, pin) => this.choose(this.ofMemory(at), pin, this.memory));
    this.waves = new Grid(id("waves"), "Wavefronts by bank",
      (at, pin) => this.choose(this.ofWaves(at), pin, this.waves));
    this.listen();
    this.fill();
    this.update();
  }

  /** Other data in the same page. */
  replace(data, engines) {
    Object.assign(this, { data, engines, pinned: null, hovered: null });
    this.state = { ...this.state, model: 0, access: 0, own: true, pad: 0 };
    this.fill();
    this.update();
  }

  get model() { return this.data.models[this.state.model]; }
  get engine() { return this.engines[this.state.model]; }
  get access() { return this.model.accesses[this.state.access]; }
  get threads() { return (this.access.threads ||= new Threads(this.access, this.model)); }
  get setting() {
    return { swizzle: this.state.own ? null : this.state.bits, pad: this.state.pad };
  }

  listen() {
    const on = (name, read) => this.parts[name].addEventListener("input", (event) => {
      read(event.target);
      this.update();
    });
    on("layout", (field) => this.open(Number(field.value)));
    on("access", (field) => { this.state.access = Number(field.value); });
    on("own", (field) => {
      this.state.own = field.checked;
      if (!field.checked) this.state.bits = this.model.swizzles.length === 1 ? [...this.model.swizzles[0]] : [0, 0, 3];
    });
    ["bits-b", "bits-m", "bits-s"].forEach((name, n) => on(name, (field) => {
      this.state.own = false;
      this.state.bits[n] = Number(field.value);
    }));
    on("pad", (field) => { this.state.pad = Number(field.value); });
    on("label", (field) => { this.state.label = field.value; });
    document.addEventListener("click", (event) => {
      const button = event.target.closest && event.target.closest("button[data-open]");
      if (!button) return;
      this.open(Number(button.dataset.open));
      this.update();
      this.parts.live.scrollIntoView({ block: "start" });
      this.parts.layout.focus({ preventScroll: true });
    });
  }

  /** Another layout, with the same access where it has that. */
  open(number) {
    const spec = this.access && this.access.spec;
    const bits = this.data.models[number].swizzles || [];
    this.state = { ...this.state, model: number, own: true, pad: 0, bits: bits.length === 1 ? [...bits[0]] : [0, 0, 3] };
    const same = this.model.accesses.findIndex((access) => access.spec === spec);
    this.state.access = Math.max(0, same);
    this.pinned = this.hovered = null;
    this.fill();
  }

  fill() {
    const options = (texts) => texts.map((text, value) => new Option(text, value));
    this.parts.layout.replaceChildren(...options(this.data.models.map((model) => `${model.title}: ${model.text}`)));
    this.parts.layout.value = this.state.model;
    this.parts.access.replaceChildren(...options(this.model.accesses.map((access) => access.spec)));
    if (!this.pinned) this.pinned = 0;
  }

  /** The offsets and the score of the setting; then everything is drawn. */
  update() {
    const { parts, state } = this;
    if (state.own) {
      state.bits = this.model.swizzles && this.model.swizzles.length === 1 ? [...this.model.swizzles[0]] : [0, 0, 3];
    }
    parts.access.value = state.access;
    parts.own.checked = state.own;
    ["bits-b", "bits-m", "bits-s"].forEach((name, n) => {
      parts[name].value = state.bits[n];
      parts[name].previousElementSibling.textContent = state.bits[n];
    });
    parts.pad.value = state.pad;
    parts.pad.previousElementSibling.textContent = state.pad;
    parts.pad.disabled = this.model.pitch === null || this.model.pitch === undefined;
    this.offsets = this.numbers = null;
    let refused = "";
    try {
      this.offsets = this.engine.offsets(this.setting);
      this.places = new Map();
      this.offsets.forEach((offset, index) => { if (!this.places.has(offset)) this.places.set(offset, index); });
      if (this.access) this.numbers = this.engine.numbers(this.setting, this.access);
      else refused = "No access of the list fits this layout.";
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      refused = error.message;
    }
    parts.refused.textContent = refused;
    parts.refused.hidden = !refused;
    this.score();
    this.render();
    if (this.shared) this.shared(this.state);
  }

  /** The setting as a layout in CuTe notation. */
  text() {
    const { model, state } = this;
    if (state.own && !state.pad) return model.text;
    const chain = state.own ? model.swizzles : state.bits[0] ? [state.bits] : [];
    const front = chain.map((bits) => `Sw<${bits.join(",")}> o `).join("");
    const pad = state.pad ? ` with ${state.pad} elements more between rows` : "";
    return `${front}${front || model.offset ? `${model.offset} o ` : ""}${model.plain}${pad}`;
  }

  score() {
    const found = this.numbers, box = this.parts.score;
    const part = (number, unit, kind) => {
      const span = document.createElement("span"), strong = document.createElement("strong");
      strong.textContent = number.toLocaleString("en");
      if (kind) strong.className = kind;
      span.append(strong, unit);
      return span;
    };
    const said = document.createElement("span");
    said.className = "said mono";
    said.textContent = this.text();
    if (!found) {
      box.replaceChildren(said);
      return;
    }
    const kind = found.total === found.ideal ? "good" : "bad";
    const what = found.space === "shared" ? "wavefronts" : "sectors";
    const verdict = document.createElement("span");
    verdict.className = kind;
    if (found.space === "shared") {
      verdict.textContent = kind === "good" ? "conflict-free" : `worst instruction: ${found.worst} against ${found.worstIdeal}`;
    } else {
      const moved = found.total * this.model.machine.sectorBytes;
      verdict.textContent = `${moved ? ((100 * found.usefulBytes) / moved).toFixed(1) : "100.0"}% of the bytes moved are useful`;
    }
    box.replaceChildren(
      part(found.total, what, kind), part(found.ideal, "ideal"), part(found.instructions, "instructions"), verdict, said);
  }

  // --- places: an element is its flat index -----------------------------------------------------------

  get rows() { return this.folded() ? Math.ceil(this.offsets.length / 32) : this.model.modes[0]; }
  get columns() { return Math.min(16384, this.folded() ? 32 : this.offsets.length / this.model.modes[0]); }
  /** A tile of one row, or of one mode, is folded into rows of 32. */
  folded() { return this.model.modes.length === 1 || this.model.modes[0] === 1; }
  coordinates(index) {
    return this.folded() ? [Math.floor(index / 32), index % 32] : [index % this.rows, Math.floor(index / this.rows)];
  }
  named(index) {
    const out = [];
    for (const mode of this.model.modes) {
      out.push(index % mode);
      index = Math.floor(index / mode);
    }
    return out.join(", ");
  }
  byte(index) { return Math.floor((this.offsets[index] * this.model.bits) / 8) + this.model.base; }
  bank(index) {
    const { banks, bankBytes } = this.model.machine;
    return Math.floor(this.byte(index) / bankBytes) % banks;
  }
  color(bank) { return this.data.palette[Math.floor((bank * this.data.palette.length) / this.model.machine.banks)]; }

  ofTile(at) {
    if (!at || !this.offsets) return null;
    const index = this.folded() ? at[0] * 32 + at[1] : at[0] + at[1] * this.rows;
    return index < this.offsets.length ? index : null;
  }
  /** The first element that begins in a bank's word of a line. */
  ofMemory(at) {
    if (!at || !this.offsets) return null;
    const { banks, bankBytes } = this.model.machine, { bits, base } = this.model;
    const start = (at[0] * banks + at[1]) * bankBytes - base;
    for (let bit = 8 * start; bit < 8 * (start + bankBytes); bit++) {
      if (bit >= 0 && bit % bits === 0 && this.places.has(bit / bits)) return this.places.get(bit / bits);
    }
    if (bits > 8 * bankBytes && this.places.has(Math.floor((8 * start) / bits))) {
      return this.places.get(Math.floor((8 * start) / bits));
    }
    return null;
  }
  ofWaves(at) {
    const found = at && this.turns && this.turns.cells[at[0]] && this.turns.cells[at[0]].get(at[1]);
    return found ? this.elementOf(found.lane) : null;
  }
  /** The first element that a lane of the shown instruction takes. */
  elementOf(lane) {
    return this.threads.element(this.turns.place, lane, 0);
  }

  /** Selects an element, in all grids; those that were not touched scroll to it. */
  choose(index, pin, touched) {
    if (index !== null && pin) this.pinned = index;
    if (index === this.hovered && !pin) return;
    this.hovered = index;
    this.render();
    if (index === null) return;
    for (const grid of [this.tile, this.memory, this.waves]) if (grid !== touched) grid.reveal();
  }

  // --- drawing ----------------------------------------------------------------------------------------

  /** The instruction of the selected element: who is served when. */
  instruction() {
    this.turns = null;
    if (!this.numbers) return;
    const taker = this.selected === null ? null : this.threads.taker(this.selected);
    const place = taker ? [taker.warp, taker.register, taker.iteration] : [0, 0, 0];
    const services = this.engine.services(this.setting, this.access, place);
    const shared = this.access.space === "shared", { banks, lineBytes, bankBytes } = this.model.machine;
    const rowOf = shared
      ? ([, , , group, turn]) => `${String.fromCharCode(97 + (group % 26))}${turn}`
      : ([, , word]) => String(Math.floor((word * bankBytes) / lineBytes) * lineBytes);
    const names = [...new Set(services.map(rowOf))];
    if (shared) names.sort((a, b) => a.charCodeAt(0) - b.charCodeAt(0) || Number(a.slice(1)) - Number(b.slice(1)));
    else names.sort((a, b) => Number(a) - Number(b));
    const cells = names.map(() => new Map());
    const rowAt = new Map(names.map((name, row) => [name, row]));
    for (const service of services) {
      const row = rowAt.get(rowOf(service)), [lane, bank, word, group, turn] = service;
      if (!cells[row].has(bank)) cells[row].set(bank, { lane, bank, word, group, turn, lanes: [] });
      cells[row].get(bank).lanes.push(lane);
    }
    this.turns = { place, taker, services, names, cells, shared, banks };
  }

  render() {
    const { parts, model } = this;
    if (!this.offsets) {
      for (const grid of [this.tile, this.memory, this.waves]) grid.show(0, 0, { cell: () => null, rowName: () => "", columnName: () => "" });
      parts.facts.replaceChildren();
      for (const note of ["tile-note", "memory-note", "waves-note"]) parts[note].textContent = "";
      return;
    }
    if (this.pinned !== null && this.pinned >= this.offsets.length) this.pinned = 0;
    this.selected = this.hovered !== null && this.hovered !== undefined ? this.hovered : this.pinned;
    this.instruction();
    this.marks();
    const { banks, bankBytes, lineBytes } = model.machine;
    const edge = (index) => index === this.selected ? "chosen" : this.clashing.has(index) ? "clash" : this.mates.has(index) ? "mate" : "";
    const label = {
      offset: (index) => this.offsets[index],
      bank: (index) => this.bank(index),
      lane: (index) => this.laneText(index),
      place: (index) => this.named(index).replace(/ /g, ""),
    }[this.state.label];
    const rows = this.rows;
    this.tile.at = this.selected === null ? null : this.coordinates(this.selected);
    this.tile.show(rows, this.columns, {
      cell: (row, column) => {
        const index = this.folded() ? row * 32 + column : row + column * rows;
        if (index >= this.offsets.length) return null;
        return { text: String(label(index)), color: this.color(this.bank(index)), edge: edge(index), faint: this.turns !== null && !this.mates.has(index) };
      },
      rowName: (row) => (this.folded() ? row * 32 : row),
      columnName: (column) => column,
    });
    let most = 0;
    for (const offset of this.offsets) most = Math.max(most, offset);
    const lines = Math.floor(((most * model.bits) / 8 + model.base) / lineBytes) + 1;
    const byte = this.selected === null ? null : this.byte(this.selected);
    this.memory.at = byte === null ? null : [Math.floor(byte / lineBytes), Math.floor((byte % lineBytes) / bankBytes)];
    this.memory.show(lines, banks, {
      cell: (row, column) => {
        const index = this.ofMemory([row, column]);
        if (index === null) return null;
        const word = row * banks + column;
        const mark = this.chosenWords.has(word) ? "chosen" : this.clashingWords.has(word) ? "clash" : this.mateWords.has(word) ? "mate" : "";
        return { text: this.named(index).replace(/ /g, ""), color: this.color(column), edge: mark, faint: this.turns !== null && !this.mateWords.has(word) };
      },
      rowName: (row) => row * lineBytes,
      columnName: (column) => column,
    });
    this.showWaves();
    this.facts();
    parts["tile-note"].textContent = `${model.modes.join(" x ")} elements of ${model.element}${this.columns * this.rows < this.offsets.length ? `, the first ${this.columns.toLocaleString("en")} columns` : ""}`;
    parts["memory-note"].textContent = `${lines.toLocaleString("en")} lines of ${lineBytes} bytes, by their first byte`;
  }

  laneText(index) {
    const taker = this.access && this.threads.taker(index);
    return taker ? taker.lane : "–";
  }

  /** What is marked: elements of the same instruction, and those that wait for the same bank. */
  marks() {
    this.mates = new Set();
    this.clashing = new Set();
    this.mateWords = new Set();
    this.clashingWords = new Set();
    this.chosenWords = new Set();
    if (!this.turns) return;
    const { services, taker, place, shared } = this.turns;
    const elements = (lane) => Array.from({ length: this.threads.elems }, (_, n) => this.threads.element(place, lane, n));
    const mine = taker && services.filter(([lane]) => lane === taker.lane);
    for (const [lane, bank, word, group] of services) {
      this.mateWords.add(word);
      for (const index of elements(lane)) this.mates.add(index);
      if (!mine) continue;
      if (lane === taker.lane) this.chosenWords.add(word);
      else if (shared && mine.some(([, b, w, g]) => b === bank && w !== word && g === group)) {
        this.clashingWords.add(word);
        for (const index of elements(lane)) this.clashing.add(index);
      }
    }
    if (mine) for (const index of elements(taker.lane)) this.clashing.delete(index);
  }

  showWaves() {
    const note = this.parts["waves-note"];
    if (!this.turns) {
      this.waves.show(0, 0, { cell: () => null, rowName: () => "", columnName: () => "" });
      note.textContent = "";
      return;
    }
    const { names, cells, taker, shared, place } = this.turns, banks = this.turns.banks;
    const sector = this.model.machine.sectorBytes / this.model.machine.bankBytes;
    const mine = new Set(taker ? this.turns.services.filter(([lane]) => lane === taker.lane).map((s) => `${s[2]}`) : []);
    this.waves.at = null;
    cells.forEach((row, number) => row.forEach((cell, bank) => {
      if (taker && cell.lanes.includes(taker.lane) && !this.waves.at) this.waves.at = [number, bank];
    }));
    this.waves.show(names.length, banks, {
      width: Math.max(17, Math.floor((this.waves.box.clientWidth - CELL.head) / banks)),
      cell: (row, column) => {
        const found = cells[row].get(column);
        if (!found) return null;
        const chosen = taker && found.lanes.includes(taker.lane) && mine.has(`${found.word}`);
        const text = found.lanes.length > 1 ? `${Math.min(...found.lanes)}+${found.lanes.length - 1}` : String(found.lane);
        const color = shared ? this.color(column) : this.data.palette[(Math.floor(column / sector) * 8) % this.data.palette.length];
        return { text, color, edge: chosen ? "chosen" : this.clashingWords.has(found.word) ? "clash" : "", faint: false };
      },
      rowName: (row) => names[row],
      columnName: (column) => column,
    });
    const where = `${this.access.op}: warp ${place[0]}, register ${place[1]}, iteration ${place[2]}`;
    this.parts["waves-head"].textContent = shared ? "Wavefronts, lanes by bank" : "Lines, lanes by word";
    note.textContent = `${names.length} ${shared ? "wavefronts" : "lines"} of ${where}`;
  }

  facts() {
    const { model } = this, index = this.selected, rows = [];
    if (index === null || index === undefined) {
      this.parts.facts.replaceChildren();
      return;
    }
    const { banks, bankBytes, lineBytes, sectorBytes } = model.machine;
    const byte = this.byte(index), taker = this.turns && this.turns.taker;
    rows.push(["element", `(${this.named(index)}), flat index ${index}`]);
    rows.push(["offset", `${this.offsets[index]} elements`]);
    rows.push(["its bits", this.bits(this.offsets[index])]);
    rows.push(["byte", `${byte} = line ${Math.floor(byte / lineBytes)}, byte ${byte % lineBytes} of it`]);
    rows.push(["bank", `${Math.floor(byte / bankBytes) % banks}${model.bits > 8 * bankBytes ? ` to ${(Math.floor(byte / bankBytes) + model.bits / (8 * bankBytes) - 1) % banks}` : ""}`]);
    if (this.access && this.access.space === "global") rows.push(["sector", `${Math.floor(byte / sectorBytes)}`]);
    if (taker) {
      rows.push(["lane", `${taker.lane} of warp ${taker.warp} (thread ${taker.thread})`]);
      rows.push(["value", `${taker.value}: register ${taker.register}, iteration ${taker.iteration}`]);
      const mine = this.turns.services.filter(([lane]) => lane === taker.lane);
      if (this.turns.shared && mine.length) {
        const turns = [...new Set(mine.map((service) => service[4]))].sort((a, b) => a - b);
        rows.push(["phase", String.fromCharCode(97 + (mine[0][3] % 26))]);
        rows.push(["wavefront", turns.map((turn) => `${String.fromCharCode(97 + (mine[0][3] % 26))}${turn}`).join(", ")]);
      }
      rows.push(["same bank", this.turns.shared ? `${new Set(this.turns.services.filter((s) => mine.some((m) => m[1] === s[1] && m[2] !== s[2] && m[3] === s[3])).map((s) => s[0])).size} other lanes of the phase ask other words of it` : "does not matter in global memory"]);
    } else if (this.numbers) rows.push(["lane", "nobody takes it"]);
    this.parts.facts.replaceChildren(...rows.flatMap(([name, value]) => {
      const term = document.createElement("dt"), text = document.createElement("dd");
      term.textContent = name;
      if (value instanceof Node) text.append(value);
      else text.textContent = value;
      return [term, text];
    }));
  }

  /** The bits of an offset, those that a swizzle reads and changes marked. */
  bits(offset) {
    const chain = this.state.own ? this.model.swizzles : [this.state.bits];
    let read = 0, changed = 0, most = 1;
    for (const [bits, base, shift] of chain) {
      const field = (1 << bits) - 1;
      read |= field << (base + Math.max(0, shift));
      changed |= field << (base + Math.max(0, -shift));
    }
    for (const found of [this.offsets[this.offsets.length - 1], offset, read, changed]) while (found >> most) most++;
    const box = document.createElement("span");
    box.setAttribute("aria-label", offset.toString(2));
    for (let bit = most - 1; bit >= 0; bit--) {
      const one = document.createElement("span");
      one.className = `bit${(read >> bit) & 1 ? " read" : ""}${(changed >> bit) & 1 ? " changed" : ""}`;
      one.textContent = (offset >> bit) & 1;
      one.title = `bit ${bit}${(read >> bit) & 1 ? ", read by the swizzle" : ""}${(changed >> bit) & 1 ? ", changed by the swizzle" : ""}`;
      box.append(one);
    }
    return box;
  }
}

/** The colours of the banks, four to a key. */
function showKey(list, palette, banks) {
  const groups = 8, per = banks / groups;
  list.replaceChildren(...Array.from({ length: groups }, (_, group) => {
    const item = document.createElement("li"), first = palette[Math.floor((group * per * palette.length) / banks)];
    item.style.background = `rgb(${first.join(",")})`;
    item.style.color = inkOn(first);
    item.textContent = `banks ${group * per}-${(group + 1) * per - 1}`;
    return item;
  }));
}
