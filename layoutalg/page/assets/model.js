"use strict";
// The definitions, in JavaScript: where each element lies under a setting, and what each instruction costs.
// Nothing is in closed form here: every lane of every instruction is looked at.  The same questions are
// answered by layoutalg/page/engine.py in closed form, and tests/browser compares the two.
//
//   setting   { swizzle: null | [B, M, S], pad }      null: the layout's own swizzles
//   place     [warp, register, iteration]

class Refused extends Error {}

class Model {
  constructor(data) {
    this.data = data;
    this.known = new Map();
  }

  chain(setting) {
    return setting.swizzle === null ? this.data.swizzles : [setting.swizzle];
  }

  /** The offset of every flat index; refuses what is no swizzle, has no rows to pad or is too large. */
  offsets(setting) {
    const key = JSON.stringify(setting);
    if (this.known.has(key)) return this.known.get(key);
    const data = this.data;
    if (data.refusal) throw new Refused(data.refusal);
    if (setting.pad && data.pitch === null) throw new Refused("This layout has no rows to pad.");
    let table = [data.offset];
    for (const [extent, stride] of data.leaves) {
      const step = stride > 1 && setting.pad ? stride + setting.pad * Math.floor(stride / data.pitch) : stride;
      const wider = new Array(table.length * extent);
      for (let digit = 0, at = 0; digit < extent; digit++) {
        for (let n = 0; n < table.length; n++) wider[at++] = table[n] + digit * step;
      }
      table = wider;
    }
    for (const [bits, base, shift] of [...this.chain(setting)].reverse()) {
      if (bits === 0) continue;
      if (shift === 0) throw new Refused("S = 0 is no swizzle: a field XORed with itself is 0.");
      if (base + bits + Math.abs(shift) > 28) throw new Refused("The fields end past bit 28.");
      const mask = ((1 << bits) - 1) << (base + Math.max(0, shift));
      for (let n = 0; n < table.length; n++) {
        const x = table[n];
        table[n] = shift > 0 ? x ^ ((x & mask) >>> shift) : x ^ ((x & mask) << -shift);
      }
    }
    const found = Int32Array.from(table);
    if (this.known.size > 7) this.known.delete(this.known.keys().next().value);
    this.known.set(key, found);
    return found;
  }

  /** The extents of an access: threads, warps, elements per vector, registers, iterations. */
  extents(access) {
    const count = (leaves) => leaves.reduce((product, [extent]) => product * extent, 1);
    const [threads, values, iterations] = [0, 1, 2].map((n) => (access.tv[n] ? count(access.tv[n]) : 1));
    const elems = (8 * access.widthBytes) / this.data.bits;
    const warps = Math.ceil(threads / this.data.machine.lanes);
    return { threads, values, iterations, elems, warps, registers: values / elems };
  }

  /** The flat indices of thread, value and iteration numbers: three tables, to be added. */
  tables(access) {
    if (access.tables === undefined) {
      const walk = (leaves) => {
        let out = [0];
        for (const [extent, stride] of leaves) {
          const wider = [];
          for (let digit = 0; digit < extent; digit++) for (const at of out) wider.push(at + digit * stride);
          out = wider;
        }
        return out;
      };
      access.tables = [0, 1, 2].map((n) => walk(access.tv[n] || []));
    }
    return access.tables;
  }

  /** The byte address of every lane of one instruction; null where a lane supplies none. */
  addresses(setting, access, [warp, register, iteration]) {
    const { machine, bits, base } = this.data;
    const offsets = this.offsets(setting);
    const [threads, values, iterations] = this.tables(access);
    const { elems } = this.extents(access);
    const out = new Array(machine.lanes).fill(null);
    for (let lane = 0; lane < access.lanes; lane++) {
      const thread = warp * machine.lanes + lane;
      if (thread >= threads.length) break;
      const start = threads[thread] + iterations[iteration];
      const first = offsets[start + values[register * elems]];
      for (let n = 1; n < elems; n++) {
        const offset = offsets[start + values[register * elems + n]];
        if (offset !== first + n) {
          throw new Refused(
            `${access.op} needs the values of a lane in contiguous elements; ` +
            `those of lane ${lane} are torn apart.`);
        }
      }
      const address = (first * bits) / 8 + base;
      if (address % access.widthBytes) {
        throw new Refused(
          `${access.op} needs addresses that are multiples of ${access.widthBytes} bytes; ` +
          `lane ${lane} has ${address}.`);
      }
      out[lane] = address;
    }
    return out;
  }

  /** The lanes of each phase group: [[lane, address], ...] for each group that has any. */
  groups(access, lanes) {
    const { machine } = this.data;
    const active = (lane) => lane < access.lanes && lanes[lane] !== null && lanes[lane] !== undefined;
    const alike = (x) => lanes.every(
      (address, lane) => !active(lane) || !active(lane ^ x) || lanes[lane ^ x] === address);
    const span = access.mergeXor.some(alike) ? 2 * access.groupLanes : access.groupLanes;
    const out = [];
    for (let start = 0; start < access.lanes; start += span) {
      const group = [];
      const together = access.laneOrder.slice(start, start + span).sort((a, b) => a - b);
      for (const lane of together) if (active(lane)) group.push([lane, lanes[lane]]);
      if (group.length) out.push(group);
    }
    return out;
  }

  /** [wavefronts, ideal] of one instruction of shared memory. */
  served(access, lanes) {
    const { banks, bankBytes } = this.data.machine;
    const wide = Math.max(1, access.widthBytes / bankBytes);
    let taken = 0, ideal = 0;
    const groups = this.groups(access, lanes);
    for (const group of groups) {
      const load = new Array(banks).fill(0);
      const seen = new Set();
      for (const [, address] of group) {
        const first = Math.floor(address / bankBytes);
        for (let word = first; word < first + wide; word++) {
          if (access.broadcast && seen.has(word)) continue;
          seen.add(word);
          load[word % banks]++;
        }
      }
      taken += Math.max(...load);
      ideal += access.broadcast ? 1 : Math.ceil((group.length * wide) / banks);
    }
    const bias = groups.length ? access.counterBias : 0;
    return [taken + bias, ideal + bias];
  }

  /** [sectors, ideal, lines, useful bytes] of one instruction of global memory. */
  traffic(access, lanes) {
    const { sectorBytes, lineBytes } = this.data.machine;
    const active = lanes.filter((address) => address !== null);
    const distinct = (unit) => new Set(active.map((address) => Math.floor(address / unit))).size;
    const useful = distinct(access.widthBytes) * access.widthBytes;
    return [distinct(sectorBytes), Math.ceil(useful / sectorBytes), distinct(lineBytes), useful];
  }

  /** All instructions of an access, counted one by one, and the place of the worst. */
  numbers(setting, access) {
    const { warps, registers, iterations } = this.extents(access);
    const out = { space: access.space, instructions: 0, total: 0, ideal: 0, worst: -1, worstIdeal: 0 };
    if (access.space === "global") Object.assign(out, { lines: 0, usefulBytes: 0 });
    for (let iteration = 0; iteration < iterations; iteration++) {
      for (let register = 0; register < registers; register++) {
        for (let warp = 0; warp < warps; warp++) {
          const lanes = this.addresses(setting, access, [warp, register, iteration]);
          const [taken, ideal, lines, useful] =
            access.space === "shared" ? this.served(access, lanes) : this.traffic(access, lanes);
          out.instructions++;
          out.total += taken;
          out.ideal += ideal;
          if (access.space === "global") {
            out.lines += lines;
            out.usefulBytes += useful;
          }
          if (taken > out.worst || (taken === out.worst && ideal < out.worstIdeal)) {
            Object.assign(out, { worst: taken, worstIdeal: ideal, place: [warp, register, iteration] });
          }
        }
      }
    }
    return out;
  }

  /** Which lane gets which word of which bank, and when: [lane, bank, word, phase group, wavefront]. */
  services(setting, access, place) {
    const { banks, bankBytes } = this.data.machine;
    const wide = Math.max(1, access.widthBytes / bankBytes);
    const out = [];
    const lanes = this.addresses(setting, access, place);
    const groups = access.space === "shared"
      ? this.groups(access, lanes)
      : [lanes.map((address, lane) => [lane, address]).filter(([, address]) => address !== null)];
    groups.forEach((group, number) => {
      const queues = new Map();
      for (const [lane, address] of group) {
        const first = Math.floor(address / bankBytes);
        for (let word = first; word < first + wide; word++) {
          const bank = word % banks;
          if (access.space === "global") {
            out.push([lane, bank, word, 0, 0]);
            continue;
          }
          if (!queues.has(bank)) queues.set(bank, []);
          const queue = queues.get(bank);
          if (!queue.includes(word) || !access.broadcast) queue.push(word);
          const turn = access.broadcast ? queue.indexOf(word) : queue.length - 1;
          out.push([lane, bank, word, number, turn]);
        }
      }
    });
    return out;
  }

  /** The first (thread, value, iteration) that takes each element, as one number; -1 where none does. */
  slots(access) {
    if (access.slots === undefined) {
      const size = this.data.leaves.reduce((product, [extent]) => product * extent, 1);
      const out = new Int32Array(size).fill(-1);
      const [threads, values, iterations] = this.tables(access);
      let slot = 0;
      for (const iteration of iterations) {
        for (const value of values) {
          for (const thread of threads) {
            const at = iteration + value + thread;
            if (out[at] < 0 && (slot % threads.length) % this.data.machine.lanes < access.lanes) out[at] = slot;
            slot++;
          }
        }
      }
      access.slots = out;
    }
    return access.slots;
  }

  /** Lane, warp, value, register and iteration of an element, or null where nobody takes it. */
  taker(access, index) {
    const slot = this.slots(access)[index];
    if (slot < 0) return null;
    const { threads, values, elems } = this.extents(access);
    const lanes = this.data.machine.lanes;
    const thread = slot % threads;
    const value = Math.floor(slot / threads) % values;
    return {
      thread, value, lane: thread % lanes, warp: Math.floor(thread / lanes),
      register: Math.floor(value / elems), iteration: Math.floor(slot / threads / values),
    };
  }
}

if (typeof module !== "undefined") module.exports = { Model, Refused };
