"""Mistakes at every statement of the printed programs of the kernel language, through the public `verify`.

The mistakes are those of tests.mutants.statements; they are planted in the program that is printed, so that
the written one stays right, and what the two access is compared too.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

from layoutalg import codegen as cg
from layoutalg.codegen.program import lower
from layoutalg.errors import LayoutAlgError, SimulationError
from tests.mutants.statements import KINDS, Mutant, mutants_of, planted
from tests.mutants.texts import BUILT, made, programs

ALL_TAKEN = "every vector of the loop is taken once, in another order"
REASONS = (
    ("softmax", "source", r"fold_(max|sum)_4_to_1\(.*", ALL_TAKEN),
    ("gemm|row_sum", "drop|operand", r"cp_async_wait\(0\)", "the groups that are left are empty"),
    (
        "row_sum",
        "unguard",
        r"if 1 < tiles",
        "a tile too many has no column: zeros are copied that nobody reads",
    ),
    ("split_sum", "part", r"if \(block_y < .*\) & \(x_1 < n\)", "blocks of the grid are below its extent"),
)
"""Program, kind and statement of survivors, and why they are no mistakes."""

GENERIC = ("refused", "hazard", "result", "accesses", "")


@dataclass(frozen=True)
class Subject:
    """A program, the text that verifies it, and the names of both."""

    kernel: cg.Program
    verifies: str
    names: dict[str, Any]

    @classmethod
    def of(cls, name: str) -> Subject:
        """By the program's name."""
        text = programs()[name]
        names = made(text)
        _, _, verifies = text.partition(BUILT)
        return cls(names["kernel"], verifies, names)

    def mutants(self, kinds: tuple[str, ...] = KINDS) -> list[Mutant]:
        """All of them."""
        return list(mutants_of(0, lower(self.kernel), kinds))

    def verdict(self, mutant: Mutant | None) -> str:
        """What catches a mutant; "" where nothing does."""
        with planted(mutant, alone=True), contextlib.redirect_stdout(io.StringIO()):
            try:
                exec(compile(self.verifies, "program", "exec"), dict(self.names))
            except SimulationError:
                return "hazard"
            except LayoutAlgError as error:
                return "accesses" if " where it is run, and " in str(error) else self._kind(error)
        return ""

    def _kind(self, error: LayoutAlgError) -> str:
        return "result" if isinstance(error, AssertionError) else "refused"


def swept(name: str, kinds: tuple[str, ...]) -> tuple[Counter[str], list[tuple[str, str]]]:
    """How many mutants of a program are caught by what, and the survivors with their reasons."""
    subject = Subject.of(name)
    assert not subject.verdict(None), name
    verdicts = [(m, subject.verdict(m)) for m in subject.mutants(kinds)]
    left = [(str(m), reason(name, m)) for m, verdict in verdicts if not verdict]
    return Counter(verdict for _, verdict in verdicts), left


def reason(name: str, mutant: Mutant) -> str:
    """Why a survivor is no mistake, "" where it is not known."""
    for program, kind, text, why in REASONS:
        if all(re.fullmatch(*pair) for pair in ((program, name), (kind, mutant.kind), (text, mutant.text))):
            return why
    return ""
