"use strict";
// report.html: what the library counted stands in the page, for the layouts of its list.
const pageData = JSON.parse(document.getElementById("data").textContent);

class Stored {
  constructor(model) { this.model = model; }

  offsets() {
    if (this.model.refusal) throw new Refused(this.model.refusal);
    return Int32Array.from(this.model.offsets);
  }

  numbers(_, access) {
    if (access.refusal) throw new Refused(access.refusal);
    return access.numbers;
  }

  /** A pattern holds, for every word, its lane, the number of the word in the lane, phase group and wavefront. */
  services(_, access, [warp, register, iteration]) {
    const { bits, base, offsets, machine } = this.model;
    const threads = (access.threads ||= new Threads(access, this.model));
    const number = (iteration * threads.registers + register) * threads.warps + warp;
    const first = (lane) => {
      const index = threads.element([warp, register, iteration], lane, 0);
      return Math.floor(((offsets[index] * bits) / 8 + base) / machine.bankBytes);
    };
    return access.patterns[access.instructions[number]].map(([lane, n, group, turn]) => [lane, (first(lane) + n) % machine.banks, first(lane) + n, group, turn]);
  }
}

showKey(document.getElementById("key"), pageData.palette, pageData.models[0].machine.banks);
for (const slider of document.querySelectorAll(".sliding")) slider.hidden = true;
const view = new View(pageData, pageData.models.map((model) => new Stored(model)));
document.documentElement.dataset.ready = "1";
