"""Programs of the kernel language with one mistake each, by an edit of their text, and what says so.

python -m tests.mutants.texts [PROGRAM ...] [--write]

prints what differs from the list, or writes it anew; then read the diff.

A program is the text of a documented kernel, with calls of the public `verify` for sizes that fill its rings,
or a file of tests/programs.  A mutant is the text with one piece of it replaced.  It is caught

    built       while the kernel is written, or by `build`
    checked     by the checks of the finished program, or by what is asked of its operands and sizes
    hazard      by the simulator: a race, a wild address, what nothing has written
    result      by a wrong element, a missing one, or one too many

or nothing that runs on a CPU catches it, for the reason that is given:

    gpu                the text of an instruction alone is another: `verify` sees it with target="gpu"
    same program       what is printed is the same
    same accesses      it writes the same and accesses as much, for several sizes
    more accesses      it writes the same, for several sizes; `traffic` says that it costs more
    fewer accesses     it writes the same, for several sizes; `traffic` says that it costs less

All of them are listed in tests/data/program_mutants.txt.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from layoutalg import codegen as cg
from layoutalg.codegen.language import words
from layoutalg.codegen.program import Global, calls, printed
from layoutalg.errors import LayoutAlgError, MismatchError, SimulationError
from tests.documents import ROOT, blocks

CAUGHT = ("built", "checked", "hazard", "result")
SAME = ("gpu", "same program", "same accesses", "more accesses", "fewer accesses")
LIST = ROOT / "tests" / "data" / "program_mutants.txt"
BUILT = "\nkernel = k.build()\n"
HEAD = """Mutants of programs in the kernel language; see tests/mutants/texts.py.

- the piece of the program that is replaced
+ what stands there instead
= what catches it: its message; or in what it is the same: the reason why it is no mistake
"""

RING = """tiles = k.let("tiles", depth // BK)
for s in range(STAGES - 1):
    with k.If(s < tiles):
        produce(s, s)
    k.do(cg.CP_COMMIT)
with k.For("kt", tiles) as kt:
    k.do(cg.CP_WAIT, STAGES - 2)
    k.do(cg.BAR)
    consume(kt, kt % STAGES)
    with k.If(kt + (STAGES - 1) < tiles):
        produce(kt + (STAGES - 1), (kt + (STAGES - 1)) % STAGES)
    k.do(cg.CP_COMMIT)
k.do(cg.CP_WAIT, 0)
"""
"""What `pipeline` writes, written out."""

VERIFIED = {
    "scaled_transpose": """
cg.verify(kernel, lambda src, alpha: alpha * src.T, contiguous=("src", "dst"))
""",
    "softmax": """
def peaks(numbers, shape):
    x = numbers.uniform(-200, 0, shape)
    x[range(shape[0]), numbers.integers(0, COLUMNS, shape[0])] = 200
    return x


cg.verify(kernel, softmax, sizes={"rows": 2}, cases=1, tolerance=1e-7, contiguous=("x", "y"))
cg.verify(kernel, softmax, sizes={"rows": 5}, values={"x": peaks}, cases=3, tolerance=1e-6)
cg.verify(kernel, softmax, sizes={"rows": 1}, values={"x": (-400, -300)}, cases=1, tolerance=1e-6)
""",
    "gemm": """
cg.verify(kernel, product, sizes={"m": BM, "n": BN, "k": 6 * BK}, cases=1, contiguous=("a", "b", "d"))
cg.verify(kernel, product, sizes={"m": 2 * BM, "n": 2 * BN, "k": BK}, cases=1)
""",
    "softsign": """
cg.verify(kernel, lambda x: x / (1 + abs(x)))
""",
}
"""How the documented kernels are verified: so that every stage of a ring is used again, and no stage is."""


SIZES: dict[str, tuple[dict[str, int], ...]] = {
    "softmax": ({"rows": 2}, {"rows": 1}),
    "gemm": ({"m": 128, "n": 256, "k": 448}, {"m": 256, "n": 512, "k": 64}),
    "gemm ring": ({"m": 128, "n": 256, "k": 448}, {"m": 256, "n": 512, "k": 64}),
}
"""For which programs are shown to be alike; those that are not listed draw theirs."""


@functools.cache
def programs() -> dict[str, str]:
    """The texts of the right programs by name."""
    found = {}
    for language, text in blocks(ROOT / "docs" / "kernel_language.md"):
        name = text.partition('k = cg.Kernel("')[2].partition('"')[0]
        if language == "python" and name in VERIFIED:
            found[name] = text[: text.rindex("\nprint(len(cg.verify(")] + VERIFIED[name]
    call = 'cg.pipeline(k, k.let("tiles", depth // BK), STAGES, produce, consume)\n'
    found["gemm ring"] = replaced(found["gemm"], call, RING)
    for path in sorted((ROOT / "tests" / "programs").glob("*.py")):
        found[path.stem] = path.read_text(encoding="utf-8")
    return found


def replaced(text: str, old: str, new: str) -> str:
    """A text with the only occurrence of a piece of it replaced."""
    assert text.count(old) == 1, (old, text.count(old))
    return text.replace(old, new)


@dataclass(frozen=True)
class Listed:
    """One mutant: `old`, the piece of a program's text that is replaced by `new`, and what is said of it.

    `verdict` is one of CAUGHT, then `text` the message; or one of SAME, then it is the reason.
    """

    program: str
    old: str
    new: str
    verdict: str
    text: str

    @property
    def source(self) -> str:
        """The program with the mistake."""
        return replaced(programs()[self.program], self.old, self.new)

    def __str__(self) -> str:
        before, after = ("\n".join(f"{sign} {line}" for line in x.split("\n")) for sign, x in
                         (("-", self.old), ("+", self.new)))  # fmt: skip
        return f"{before}\n{after}\n= {self.verdict}: {self.text}\n"

    def found(self) -> Listed:
        """The same mutant with what is found now; the reason stays."""
        verdict, text = finding(self.source)
        if not verdict:
            return replace(self, verdict=alike(self), text=self.text if self.verdict in SAME else "")
        return replace(self, verdict=verdict, text=text)


ENTRY = re.compile(r"((?:^- .*\n)+)((?:^\+ .*\n)+)^= ([a-z ]+): (.*)\n", re.M)


def listed() -> tuple[Listed, ...]:
    """The mutants of the list, in its order."""
    found = []
    for part in LIST.read_text(encoding="utf-8").split("\n@ ")[1:]:
        program, _, rest = part.partition("\n")
        for old, new, verdict, text in ENTRY.findall(rest):
            before, after = ("\n".join(line[2:] for line in x.splitlines()) for x in (old, new))
            found.append(Listed(program, before, after, verdict, text))
    return tuple(found)


def written(mutants: Iterable[Listed]) -> str:
    """The list, as its file has it."""
    out, program = HEAD, ""
    for mutant in mutants:
        if mutant.program != program:
            out, program = f"{out}\n@ {mutant.program}\n", mutant.program
        out += f"\n{mutant}"
    return out


def finding(text: str) -> tuple[str, str]:
    """What catches a program, and its message; ("", "") for one that passes."""
    names: dict[str, Any] = {"__name__": "program"}
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(text, "program", "exec"), names)
    except SimulationError as error:
        return "hazard", str(error)
    except MismatchError as error:
        return "result", str(error)
    except LayoutAlgError as error:
        return "checked" if "kernel" in names else "built", str(error)
    return "", ""


def made(text: str) -> dict[str, Any]:
    """The names of a program that is written and not verified."""
    names: dict[str, Any] = {"__name__": "program"}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(text.partition(BUILT)[0] + BUILT, "program", "exec"), names)
    return names


def alike(mutant: Listed) -> str:
    """In what a mutant that nothing catches is as the right program: one of SAME, shown for several sizes.

    What the right program writes is the reference that the other one is verified by, to the last bit.
    """
    right, wrong = (made(text)["kernel"] for text in (programs()[mutant.program], mutant.source))
    mine, theirs = printed(right), printed(wrong)
    if outline(mine) == outline(theirs):
        return "same program" if texts(mine) == texts(theirs) else "gpu"
    costs: list[tuple[Any, Any]] = []

    def reference(**given: Any) -> dict[str, Any]:
        arrays = {p.name: given[p.name].copy() for p in right.params if isinstance(p, Global)}
        cg.simulate(right, {**given, **arrays}, trace=False)
        numbers = words(right, {name: x for name, x in given.items() if name not in arrays})
        costs.append((cg.traffic(right, numbers), cg.traffic(wrong, numbers)))
        return {p.name: arrays[p.name] for p in right.params if isinstance(p, Global) and p.writable}

    names = [inspect.Parameter(p.name, inspect.Parameter.KEYWORD_ONLY) for p in right.params]
    reference.__signature__ = inspect.Signature(names)  # type: ignore[attr-defined]
    for sizes in SIZES.get(mutant.program, ({},)):
        cg.verify(wrong, reference, sizes=sizes, cases=1 if sizes else 6, seed=1)
    if all(mine == theirs for mine, theirs in costs):
        return "same accesses"
    one, other = (sum(c.total for each in costs for c in each[n].values()) for n in (0, 1))
    return "more accesses" if other > one else "fewer accesses" if other < one else "other accesses"


def outline(kernel: cg.Program) -> object:
    """All of a program but what its instructions are."""
    return str(kernel), kernel.threads, kernel.grid, kernel.params, kernel.shared, kernel.regs


def texts(kernel: cg.Program) -> dict[str, str]:
    """The texts of the instructions of a program, by name."""
    return {s.instr.name: s.instr.text for s in calls(kernel.body)}


if __name__ == "__main__":
    names = [name for name in sys.argv[1:] if name != "--write"] or list(programs())
    now = [mutant.found() if mutant.program in names else mutant for mutant in listed()]
    for mutant in now:
        if mutant not in listed():
            print(f"@ {mutant.program}\n{mutant}")
    if "--write" in sys.argv[1:]:
        LIST.write_text(written(now), encoding="utf-8")
