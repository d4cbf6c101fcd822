"""Why some mutants are no mistakes: programs that differ from the right one in a statement and do the same.

Two reasons are proved here, mutant by mutant: that a statement is never executed in the only problem that its
text serves, and that nobody reads what is no longer written, for which the simulator would raise an error.
The others are stated for the statements that they are true of.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from layoutalg.codegen.program import Do, RegRef, Stmt, lower, walk
from tests.mutants.cases import Case
from tests.mutants.statements import Mutant

NEVER = "never executed: the text serves this problem alone, and no lane of it comes here"
UNREAD = "never read: to read a register that nothing has written is an error, and nothing else writes it"


@dataclass(frozen=True)
class Reason:
    """Of mutants of a kind, in cases whose names match, at statements that match; `last`: of the last one."""

    cases: str
    kind: str
    text: str
    why: str
    last: bool = False


REASONS = (
    Reason(
        "softmax", "drop", r"fill_\d+\(m, 4286578688\)",
        "what a thread has of a maximum is among what it then reads: max(x, x) = x",
    ),
    Reason(
        "softmax rows", "drop", r"within_4\(v\[u\], .*, low\)",
        "floats are masked in their own registers: masking them again for the sum changes nothing",
    ),
    Reason(
        "layer_norm rows", "drop", r"fill_4\(w_(before|after), 0\)",
        "weights beside the row: they meet elements of the vector that are not stored",
    ),
    Reason(
        "layer_norm twice", "drop", r"unpack_8_f16\(f, v\[[01]\]\)",
        "its group has one vector, and f still holds it; what lies beside the row is masked, or not stored",
    ),
    Reason(
        "layer_norm split", "drop", r"average_4\(mean_b, more\)",
        "its group has one vector: the sum of one number, divided by 1",
    ),
    Reason(
        "layer_norm split", "drop", r"add_square_4_to_4\(q_b, v\[0\], mean_b\)",
        "its group has one vector: the distance of a number from its own mean is 0",
    ),
    Reason(
        "sm80|simt", "drop|operand", r"cp_async_wait\(0\)",
        "behind the loop: a turn has waited for the copies of the next, and groups after these are empty",
        last=True,
    ),
    Reason(
        "sm80 ring of two|sm80 registers|sm80 one buffer", "drop", r"block_sync\(\)",
        "before the epilogue: the last turn has a barrier behind its last read of shared memory",
        last=True,
    ),
)  # fmt: skip
"""What is known of survivors."""


def reason(name: str, case: Case, mutant: Mutant) -> str | None:
    """The reason for which a surviving mutant of a case is no mistake, None if none is known."""
    body = lower(case.kernels[mutant.kernel]).body
    sites = list(walk(body))
    if isinstance(sites[mutant.site], Do):
        if mutant.kind == "drop" and _only_writes(sites, mutant.site):
            return UNREAD
        if case.fixed and not case.verdict(replace(mutant, kind="trip", which=0)):
            return NEVER
    for r in REASONS:
        alike = [n for n, s in enumerate(sites) if re.fullmatch(r.text, str(s))]
        there = alike[-1:] if r.last else alike
        if re.search(r.cases, name) and re.fullmatch(r.kind, mutant.kind) and mutant.site in there:
            return r.why
    return None


def _only_writes(sites: list[Stmt], site: int) -> bool:
    """Whether a statement is all that writes some registers, and writes nothing else."""
    s = sites[site]
    assert isinstance(s, Do)
    if any(o.role in ("write", "inout") for o in s.instr.operands) or not _written(s):
        return False
    others = set().union(*(_written(other) for n, other in enumerate(sites) if n != site))
    return not _written(s) & others


def _written(s: Stmt) -> set[str]:
    if not isinstance(s, Do):
        return set()
    pairs = s.pairs
    return {a.reg.name for o, a in pairs if o.role in ("out", "inout") and isinstance(a, RegRef)}
