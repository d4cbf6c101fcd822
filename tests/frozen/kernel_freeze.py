"""Kernels, frozen: what was chosen, predicted and compiled for every case of the bench and for random ones.

    python -m tests.frozen.kernel_freeze                   what differs between the file and what is there now
    python -m tests.frozen.kernel_freeze --only softmax    of the cases whose label a regular expression finds
    python -m tests.frozen.kernel_freeze --choices         without machine code: nothing is compiled
    python -m tests.frozen.kernel_freeze --write           store what is there now; also with --only

So that a kernel can be written anew and found to be no slower without a GPU.  The exit status is 1 where

    a choice, a launch (name, grid, threads, shared memory) or a prediction is another
    a kernel has more than 1.02 of the instructions it had, in all or in its main loop
    memory instructions of a class and width are more or fewer
    more bytes spill than did (two cases spill some, the others none)
    fewer blocks fit on a multiprocessor of an H200

Machine code is what one compiler made: where NVRTC has another version it is not compared.  A prediction that
was refused may be made later.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from layoutalg.codegen import gpu
from layoutalg.model import occupancy_of
from layoutalg.testing import Scope, verdict
from tests.frozen.kernel_adapter import ARCH, Case, Compiled, compiled, plan
from tests.frozen.kernel_cases import benched, drawn, label

STORED = Path(__file__).parents[1] / "data" / "kernel_freeze.json"
SEED, DRAWN = 2030, 60
"""Of the random cases."""

MOST = 1.02
"""Instructions as a share of those stored, in all and in the main loop."""

Record = dict[str, Any]


# --- machine code --------------------------------------------------------------------------------------

MEMORY = frozenset({"ldg", "stg", "lds", "sts", "ldsm", "ldgsts", "local"})
_WIDTH = re.compile(r"\.(U8|S8|U16|S16|64|128|[24])(?=\.|$)")
_BACK = re.compile(r"^BRA\b.*(?:`\((?P<label>\.L_\w+)\)|\b0x(?P<address>[0-9a-f]+))")


def memory_class(instruction: gpu.SassInstruction) -> str:
    """Opcode and width of an access; of ldmatrix, how many matrices, and whether they are transposed.

    >>> [memory_class(gpu.SassInstruction(0, text)) for text in ("LDG.E.128.CONSTANT R4, [R2]", "STS R1, R2",
    ...  "LDSM.16.MT88.4 R4, [R2]", "LDGSTS.E.BYPASS.LTC128B.128 [R1], desc[UR4][R2.64]", "LDS.U16 R1, [R2]")]
    ['LDG.128', 'STS.32', 'LDSM.MT.4', 'LDGSTS.128', 'LDS.16']
    """
    base, _, rest = instruction.opcode.partition(".")
    width = _WIDTH.search("." + rest)
    turned = ".MT" if base == "LDSM" and "MT88" in rest else ""
    return f"{base}{turned}.{width[1].lstrip('US') if width else '1' if base == 'LDSM' else '32'}"


def memory_classes(instructions: Iterable[gpu.SassInstruction]) -> dict[str, int]:
    """How many accesses of each class there are."""
    return dict(sorted(Counter(memory_class(i) for i in instructions if i.kind in MEMORY).items()))


def hot_loop(function: gpu.SassFunction) -> tuple[gpu.SassInstruction, ...]:
    """The main loop; where no loop multiplies, the innermost with the most accesses; () without loops."""
    code = function.instructions
    starts = {i.address: n for n, i in enumerate(code)}
    loops: list[tuple[gpu.SassInstruction, ...]] = []
    for end, branch in enumerate(code):
        if target := _BACK.search(branch.text):
            name, address = target["label"], target["address"]
            start = function.labels.get(name) if name else starts.get(int(address, 16))
            if start is not None and start <= end:
                loops.append(code[start : end + 1])
    busiest = max(loops, key=lambda body: (sum(i.kind in MEMORY for i in body), -len(body)), default=())
    return gpu.main_loop(function) or busiest


def code_record(one: Compiled) -> Record:
    """What a kernel's machine code is made of, and how much of a multiprocessor a block takes."""
    (function,) = (f for f in gpu.parse_sass(gpu.disassemble(one.image)) if f.name == one.name)
    loop = hot_loop(function)
    blocks = occupancy_of(
        "sm_90", threads=one.threads, registers_per_thread=one.registers,
        shared_bytes=one.shared_bytes + one.dynamic_bytes,
    )  # fmt: skip
    return {
        "total": len(function.instructions), "loop": len(loop),
        "memory": memory_classes(function.instructions), "loop_memory": memory_classes(loop),
        "classes": dict(gpu.count_classes(function.instructions)), "registers": one.registers,
        "spill_bytes": one.spill_bytes, "shared_bytes": one.shared_bytes + one.dynamic_bytes,
        "blocks": blocks.blocks_per_sm,
    }  # fmt: skip


# --- records -------------------------------------------------------------------------------------------


def record(case: Case, *, code: bool = True) -> Record:
    """All that is stored of a case; without `code` what is chosen and predicted: nothing is compiled."""
    planned = plan(case)
    found: Record = {
        "case": dict(case), "choice": planned.choice,
        "kernels": [launch.kernel.name for launch in planned.launches], "predicted": planned.predicted,
    }  # fmt: skip
    if code:
        found["launches"] = [
            {"grid": list(one.grid), "threads": one.threads, "dynamic_bytes": one.dynamic_bytes,
             "code": code_record(one)}
            for one in map(compiled, planned.launches)
        ]  # fmt: skip
    return found


plan_record = partial(record, code=False)


def stored() -> Record:
    """What the file holds."""
    found: Record = json.loads(STORED.read_text(encoding="utf-8"))
    return found


def written(cases: Sequence[Record]) -> str:
    """As it stands in the file: one line per case, so that a diff can be read."""
    head = {"arch": ARCH, "nvrtc": list(gpu.version()), "seed": SEED, "drawn": DRAWN}
    lines = ",\n".join(json.dumps(one, ensure_ascii=False, separators=(",", ":")) for one in cases)
    return json.dumps(head)[:-1] + f', "cases": [\n{lines}\n]}}\n'


def store(only: str = "") -> int:
    """Write what there is now, of the cases whose label `only` finds; how many these are."""
    cases = [*benched(), *drawn(SEED, DRAWN)]
    chosen = [case for case in cases if re.search(only, label(case))]
    kept = {label(one["case"]): one for one in stored()["cases"]} if only else {}
    made = {label(one["case"]): one for one in gpu.in_processes(record, chosen)}
    STORED.write_text(written([{**kept, **made}[label(case)] for case in cases]), encoding="utf-8")
    return len(chosen)


# --- differences ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """Something of a case that is not as it was; `fails` where it is past the limits."""

    case: str
    what: str
    before: Any
    now: Any
    fails: bool

    def __str__(self) -> str:
        share = ""
        if isinstance(self.before, int) and isinstance(self.now, int) and self.before:
            share = f" ({self.now / self.before:.3f})"
        return (
            f"{'FAIL' if self.fails else 'ok  '} {self.case}: {self.what}: {self.before} -> {self.now}{share}"
        )


def differences(before: Record, now: Record) -> Iterator[Difference]:
    """What differs between two records of a case, of what both have."""
    name = label(before["case"])
    if "raised" in now:
        yield Difference(name, "all of it", "computed", now["raised"], fails=True)
        return
    for what in ("choice", "kernels"):
        if before[what] != now[what]:
            yield Difference(name, what, before[what], now[what], fails=True)
    old_costs, new_costs = before["predicted"], now["predicted"]
    if isinstance(old_costs, str) or isinstance(new_costs, str) or len(old_costs) != len(new_costs):
        if old_costs != new_costs:
            yield Difference(name, "predicted", old_costs, new_costs, fails=not isinstance(old_costs, str))
    else:
        for kernel, was, one in zip(now["kernels"], old_costs, new_costs, strict=False):
            for op in sorted({op for op in {**was, **one} if was.get(op) != one.get(op)}):
                yield Difference(f"{name}, {kernel}", f"predicted {op}", was.get(op), one.get(op), fails=True)
    if "launches" not in now:
        return
    if len(before["launches"]) != len(now["launches"]):
        yield Difference(name, "launches", len(before["launches"]), len(now["launches"]), fails=True)
        return
    for number, (old, new) in enumerate(zip(before["launches"], now["launches"], strict=True)):
        where = f"{name}, {now['kernels'][number]}"
        for what in ("grid", "threads", "dynamic_bytes"):
            if old[what] != new[what]:
                yield Difference(where, what, old[what], new[what], fails=True)
        yield from code_differences(where, old["code"], new["code"])


def code_differences(where: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Difference]:
    """What differs between the machine code of two kernels, by the limits of the module's text."""
    names = {**old["memory"], **new["memory"]}
    fails = {
        "total": new["total"] > MOST * old["total"], "loop": new["loop"] > MOST * old["loop"],
        "memory": any(_other(name, old["memory"], new["memory"]) for name in names),
        "loop_memory": False, "classes": False, "registers": False,
        "spill_bytes": new["spill_bytes"] > old["spill_bytes"], "shared_bytes": False,
        "blocks": new["blocks"] < old["blocks"],
    }  # fmt: skip
    for what, failed in fails.items():
        if old[what] != new[what]:
            yield Difference(where, what, old[what], new[what], failed)


def _other(name: str, old: Mapping[str, int], new: Mapping[str, int]) -> bool:
    """Whether accesses of a class are more or fewer; of local memory, where registers spill, more."""
    before, now = old.get(name, 0), new.get(name, 0)
    return now > before if name.startswith(("LDL", "STL")) else now != before


def _tried(case: Case, *, code: bool) -> Record:
    """A record, or what was raised instead: one case that cannot be computed does not hide the others."""
    try:
        return record(case, code=code)
    except Exception as error:  # noqa: BLE001
        return {"raised": f"{type(error).__name__}: {error}"}


def compared(cases: Sequence[Record], *, code: bool) -> Iterator[Difference]:
    """What differs from the stored records of some cases, by all cores; `code`: with what is compiled."""
    now = gpu.in_processes(partial(_tried, code=code), [one["case"] for one in cases])
    for before, after in zip(cases, now, strict=True):
        yield from differences(before, after)


# --- the program ---------------------------------------------------------------------------------------


def main(words: list[str] | None = None) -> int:
    """See the module's text."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.frozen.kernel_freeze", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--write", action="store_true", help="store what is there now")
    parser.add_argument("--only", metavar="PATTERN", default="", help="a regular expression of labels")
    parser.add_argument("--choices", action="store_true", help="compile nothing")
    given = parser.parse_args(words)
    if given.write:
        print(f"{store(given.only)} cases written")
        return 0
    before = stored()
    code = not given.choices
    gaps = []
    if code and list(gpu.version()) != before["nvrtc"]:
        gaps = [
            f"machine code is not compared: NVRTC {gpu.version()} is not the {before['nvrtc']} of the file"
        ]
        print(f"{gaps[0]}; --choices asks for the rest alone")
        code = False
    cases = [one for one in before["cases"] if re.search(given.only, label(one["case"]))]
    found = list(compared(cases, code=code))
    for one in found:
        print(one)
    failed = sum(one.fails for one in found)
    print(f"{len(cases)} cases compared, {len(found)} differences, {failed} past the limits")
    return 0 if verdict(Scope("cases", len(cases), tuple(gaps)), broken=failed > 0) == "passed" else 1


if __name__ == "__main__":
    sys.exit(main())
