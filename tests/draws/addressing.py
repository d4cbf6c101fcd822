"""Accesses of ldmatrix and stmatrix whose ignored lanes hold anything, and what they may change: nothing.

`drawn(rng)` is a layout, an access in which the lanes past the first 8 or 16 have arbitrary addresses (of
other elements, misaligned, outside the tile), and the same access with those lanes inactive.  `differences`
names every answer that is not the same for both.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import sympy

from layoutalg.analysis import Access, Place, SharedReport, analyze, instruction_offsets
from layoutalg.arch import INSTRUCTIONS
from layoutalg.errors import AlignmentError, ShapeError
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle, product
from layoutalg.symbolic import solve_conflict_free
from layoutalg.synthesis import check_certificate, synthesize

OPS = ("ldmatrix.x1", "ldmatrix.x2", "ldmatrix.x1.trans", "ldmatrix.x2.trans", "stmatrix.x1", "stmatrix.x2")


class Case(NamedTuple):
    """`access` has anything in its ignored lanes, `quiet` repeats lanes there, `off` has them inactive."""

    layout: AnyLayout
    access: Access
    quiet: Access
    off: Access


def drawn(rng: random.Random) -> Case:
    """A tile of whole 16-byte rows, now and then swizzled, and one access of it in three forms."""
    op = rng.choice(OPS)
    used, idle = INSTRUCTIONS[op].lanes, 32 // INSTRUCTIONS[op].lanes
    rows, chunks = rng.choice((16, 24, 32, 48, 64)), rng.choice((1, 2, 3, 4, 6, 8))
    columns = 8 * chunks
    base = Layout((rows, columns), (columns + 8 * rng.randrange(2), 1))
    layout: AnyLayout = base
    if rng.random() < 0.3:
        layout = ComposedLayout(Swizzle(rng.randint(1, 3), 3, rng.randint(3, 4)), 0, base)
    warps = rng.choice((1, 1, 1, 2, 3)) if rows >= 3 * used else 1
    anything = rng.choice((1, 3, -5, rows, 7 * rows + 1, rows * columns, 8 * rows, 2))
    whole = (used, idle, warps), (1, anything, used)
    plain = (used, idle, warps), (1, 0, used)
    shape: Any
    stride: Any
    if rng.random() < 0.4:
        # Thread modes that end between the lanes that count: the others walk on, or start elsewhere.
        shape, stride = rng.choice(
            (
                (rng.choice((12, 20, 24, 28, 35, 40, 67)), 1),
                ((6, 8), (1, anything)),
                ((12, 4), (1, anything)),
                ((used, 5), (1, anything)),
                ((3, 32), (anything, 1)),
            )
        )
        tv = Layout((shape, 8), (stride, rows))
        return _case(op, layout, tv, tv, used)
    values = (8, rows) if rng.random() < 0.7 or chunks == 1 else ((8, chunks), (rows, 8 * rows))
    tv, quiet = (Layout((shape, values[0]), (stride, values[1])) for shape, stride in (whole, plain))
    return _case(op, layout, tv, quiet, used)


def _case(op: str, layout: AnyLayout, tv: Layout, quiet: Layout, used: int) -> Case:
    access = Access(op, tv, "f16")  # type: ignore[arg-type]
    off = replace(access, active=lambda thread, value, iteration: thread % 32 < used)
    return Case(layout, access, replace(access, tv=quiet), off)


def _answer(ask: Any) -> Any:
    """What an analysis says, or which refusal."""
    try:
        report = ask()
    except (AlignmentError, ShapeError) as error:
        return type(error).__name__
    if isinstance(report, SharedReport):
        return report.total, report.ideal_total, report.instructions, report.worst, report.worst_ideal
    return report


def differences(case: Case, *, whole: bool = True) -> Iterator[str]:
    """The answers in which ignored lanes count; `whole` asks solve and synthesize too."""
    layout, access, quiet, off = case
    expected = _answer(lambda: analyze(layout, off, method="enumerated"))
    for method in ("auto", "enumerated"):
        if _answer(lambda m=method: analyze(layout, access, method=m)) != expected:
            yield f"analyze {method}"
    if isinstance(expected, str):
        return  # a lane that counts is misaligned or outside, for all forms
    if instruction_offsets(layout, access, Place(0, 0, 0)) != instruction_offsets(
        layout, off, Place(0, 0, 0)
    ):
        yield "instruction_offsets"
    if not whole or isinstance(layout, ComposedLayout) or quiet == access:
        return
    pitch = sympy.Symbol("pitch", positive=True)
    given = (layout.shape, (pitch, 1))
    if str(solve_conflict_free(given, access, pitch)) != str(solve_conflict_free(given, quiet, pitch)):
        yield "solve"
    found, same = (
        synthesize(layout.shape, [one], element="f16", max_extra_bytes=product(layout.shape))
        for one in (access, quiet)
    )
    if (found.layout, found.certificate, found.reports) != (same.layout, same.certificate, same.reports):
        yield "synthesize"
    if check_certificate(found) != check_certificate(same):
        yield "check_certificate"


def mistakes(seed: int, count: int, *, whole: bool = True) -> tuple[int, list[str]]:
    """(cases that were answered, what is wrong) of `count` drawn cases."""
    rng, wrong, answered = random.Random(seed), [], 0
    for number in range(count):
        case = drawn(rng)
        try:
            found = list(differences(case, whole=whole))
        except (AlignmentError, ShapeError) as error:
            found = [f"{type(error).__name__}: {error}"]
        answered += not isinstance(_answer(lambda c=case: analyze(c.layout, c.off)), str)
        wrong += [f"case {number}: {what}: {case.access} on {case.layout}" for what in found]
    return answered, wrong
