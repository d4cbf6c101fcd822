"""Questions for synthesis at random, and what may be answered: judged by enumeration alone.

`drawn(rng)` is a small tile of any extents and one to three accesses: named ones, and thread-value layouts
that cover the tile in part, repeat places, straddle, or lie where vectors are torn.  `verdict` compares the
answer with all of the following, each swizzle and each padding counted by the definition:

    found      free of conflicts, inside the memory that is allowed, its certificate accepted
    none       exactly what is claimed: no single swizzle, no padding, and none of some random linear maps and
               permutations where the claim is about those
    refused    a vector that is torn or misaligned in storage order itself
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from layoutalg.algebra import Order, storage_layout
from layoutalg.analysis import Access, SharedReport, analyze
from layoutalg.arch import ARCHS, INSTRUCTIONS, instruction_table
from layoutalg.dtype import dtype
from layoutalg.errors import AlignmentError, LayoutAlgError, ShapeError, UndecidedError
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle, product
from layoutalg.synthesis import Form, Synthesis, check_certificate, synthesize

OPS = (
    "ld.shared.b8", "ld.shared.b16", "ld.shared.b32", "ld.shared.b64", "ld.shared.b128", "st.shared.b32",
    "st.shared.b128", "cp.async.4", "cp.async.8", "cp.async.16", "red.shared.u32", "ldmatrix.x1",
    "ldmatrix.x2", "ldmatrix.x4", "ldmatrix.x4.trans", "stmatrix.x2",
)  # fmt: skip
TOY = dataclasses.replace(
    ARCHS["sm_90"], name="toy", targets=(), lanes=4, banks=4, instructions=instruction_table(lanes=4, banks=4)
)
"""A machine of four lanes and four banks, on which every placement can be tried."""
THREE = tuple(
    Access("ld.shared.b32", Layout((shape, 1), (stride, 0)), dtype("f32"))
    for shape, stride in (((8, 4), (8, 2)), ((8, 4), (1, 16)), ((2, 4, 4), (9, 16, 2)))
)
"""Half an 8 x 8 tile each: even rows, even columns, cells with row + column even; none serves all."""
SPLIT = tuple(
    Access(op, Layout(shape, stride), dtype("f32"))
    for op, shape, stride in (
        ("st.shared.b128", ((2,) * 5, (2, 2)), ((4, 16, 256, 512, 8), (1, 2))),
        ("ld.shared.b32", ((2,) * 5, 1), ((4, 8, 1, 64, 16), 0)),
        ("ld.shared.b32", ((2,) * 5, 1), ((64, 32, 16, 128, 256), 0)),
    )
)
"""Of 1 x 1024: vectors in 128 elements, whose places never set bits 5 to 7, and two accesses of words."""
EXTENTS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48)


class Question(NamedTuple):
    """What `synthesize` is asked."""

    shape: tuple[int, int]
    accesses: tuple[Access, ...]
    element: str
    order: Order
    form: Form
    max_extra_bytes: int


def drawn(rng: random.Random, most: int = 1024) -> Question:
    """A question about a tile of at most `most` elements."""
    while True:
        element = rng.choice(("u8", "f16", "f16", "f32", "f32", "f64"))
        nbytes = dtype(element).nbytes
        ops = [rng.choice(OPS) for _ in range(rng.choice((1, 1, 2, 2, 3)))]
        ops = [op for op in ops if INSTRUCTIONS[op].width_bytes >= nbytes]
        ops = [op for op in ops if nbytes == 2 or not op.endswith(".trans")]  # it moves 16-bit elements
        widest = max([1, *(INSTRUCTIONS[op].width_bytes // nbytes for op in ops)])
        run = widest * rng.choice((1, 2, 3, 4, 5, 6, 8, 10, 12, 16))
        rows = rng.choice(EXTENTS)
        if ops and run * rows <= most:
            break
    order: Order = rng.choice(("row", "row", "col"))
    shape = (rows, run) if order == "row" else (run, rows)
    accesses = tuple(_access(rng, op, shape, element, order) for op in ops)
    extra = rng.choice((0, 0, 0, 16, 64, 256, 1024))
    return Question(shape, accesses, element, order, rng.choice(("any", "any", "single")), extra)


def _access(rng: random.Random, op: str, shape: tuple[int, int], element: str, order: Order) -> Access:
    """A named access where one fits and chance will have it, else one of random strides."""
    base = storage_layout(shape, order)
    if rng.random() < 0.4:
        try:
            return Access.along(op, base, element, rng.choice(("row", "col", "default")))
        except LayoutAlgError:
            pass
    elems = INSTRUCTIONS[op].width_bytes // dtype(element).nbytes
    rows, run = shape if order == "row" else shape[::-1]
    # Coordinates that are left: rows, and vectors along the run.
    left = [rows, run // elems]
    along = (1, rows * elems) if order == "row" else (run, elems)
    threads = _walk(rng, left, along, rng.choice((8, 16, 32, 32, 32, 64)))
    registers = _walk(rng, left, along, rng.choice((1, 1, 2)))
    iterations = _walk(rng, left, along, rng.choice((1, 1, 3, 4)))
    vector = (elems, along[1] // elems) if elems > 1 else (1, 0)
    values = [vector, *registers]
    if rng.random() < 0.02 and len(threads) > 1:
        threads[0] = threads[0][0], threads[0][1] + 1  # misaligned, torn or outside, as chance will have it
    parts = [tuple(zip(*part, strict=True)) for part in (threads, values, iterations)]
    tv = Layout(tuple(shape for shape, _ in parts), tuple(stride for _, stride in parts))
    return Access(op, tv, dtype(element))


def _walk(rng: random.Random, left: list[int], along: tuple[int, int], count: int) -> list[tuple[int, int]]:
    """About `count` places as leaves (extent, flat stride) that take from the coordinates that are left."""
    out: list[tuple[int, int]] = []
    while count > 1:
        extent = rng.choice([n for n in (2, 2, 2, 3, 4, 8, 5) if n <= count] or [count])
        steps = [0, 0]
        for mode in rng.choice(((0,), (0,), (1,), (1,), (0, 1), ())):
            room = (left[mode] - 1) // (extent - 1)
            if room:
                step = rng.choice([n for n in (1, 1, 2, 3, 4, 8, 16, room) if n <= room])
                steps[mode] = step
                left[mode] -= step * (extent - 1)
        out.append((extent, steps[0] * along[0] + steps[1] * along[1]))
        count //= extent
    return out or [(1, 0)]


def is_free(layout: AnyLayout, accesses: tuple[Access, ...]) -> bool:
    """Whether every instruction takes its ideal, counted one by one; False where a vector is torn."""
    for access in accesses:
        try:
            report = analyze(layout, access, method="enumerated")
        except AlignmentError:
            return False
        if not isinstance(report, SharedReport) or not report.conflict_free:
            return False
    return True


def every_single(question: Question) -> Iterator[ComposedLayout]:
    """Storage order under every swizzle that keeps it in the memory that is allowed."""
    base = storage_layout(question.shape, question.order)
    elements = product(question.shape)
    room = elements + question.max_extra_bytes // dtype(question.element).nbytes
    top = room.bit_length() + 1
    for bits in range(1, top):
        for low in range(top):
            for shift in range(1, top):
                for swizzle in (Swizzle(bits, low, shift), Swizzle(bits, low, -shift)):
                    if bits + low + shift <= top and all(swizzle(x) < room for x in range(elements)):
                        yield ComposedLayout(swizzle, 0, base)


def every_padding(question: Question) -> Iterator[Layout]:
    """Storage order with rows longer by vectors of the widest access."""
    nbytes = dtype(question.element).nbytes
    step = max(1, *(INSTRUCTIONS[a.op].width_bytes // nbytes for a in question.accesses))
    long = [n for n in (question.shape if question.order == "col" else question.shape[::-1]) if n > 1]
    rows = product(tuple(long[1:])) if len(long) > 1 else 0
    pad = step
    while rows and rows * pad * nbytes <= question.max_extra_bytes:
        yield storage_layout(question.shape, question.order, pad)
        pad += step


def ask(question: Question) -> Synthesis:
    """What `synthesize` answers."""
    shape, accesses, element, order, form, extra = question
    return synthesize(shape, accesses, element=element, order=order, form=form, max_extra_bytes=extra)


def verdict(question: Question, rng: random.Random) -> str:
    """ "found", "none", "refused" or "undecided" where that is right; otherwise what is wrong."""
    base = storage_layout(question.shape, question.order)
    try:
        found = ask(question)
    except UndecidedError:
        return "undecided"
    except LayoutAlgError as error:
        try:
            for access in question.accesses:
                analyze(base, access, method="enumerated")
        except (AlignmentError, ShapeError):
            return "refused"
        return f"refused without need: {error}"
    try:
        check_certificate(found)
    except LayoutAlgError as error:
        return f"the certificate is rejected: {error}"
    if found.layout is not None:
        return _wrong_layout(question, found) or "found"
    return missed(question, found, rng) or "none"


def _wrong_layout(question: Question, found: Synthesis) -> str | None:
    layout, elements = found.layout, product(question.shape)
    assert layout is not None
    offsets = [layout(i) for i in range(elements)]
    nbytes = dtype(question.element).nbytes
    if not is_free(layout, question.accesses):
        return f"{layout} has conflicts"
    if len(set(offsets)) < elements or min(offsets) < 0 or found.extra_bytes > question.max_extra_bytes:
        return f"{layout} repeats places, or takes more than is allowed"
    if (max(offsets) + 1) * nbytes > elements * nbytes + found.extra_bytes:
        return f"{layout} leaves its memory"
    if question.form == "single" and found.kind == "xor":
        return f"{layout} is not of the form"
    return None


def missed(question: Question, found: Synthesis, rng: random.Random) -> str | None:
    """A layout of what a synthesis without a layout speaks of that is free of conflicts, in words."""
    classes, accesses = found.certificate.classes, question.accesses
    base = storage_layout(question.shape, question.order)
    listed: list[AnyLayout] = [base, *every_single(question), *every_padding(question)]
    for layout in listed:
        if is_free(layout, accesses):
            return f"{layout} was missed, {classes} claimed"
    everywhere = classes == ("any-placement",)
    if not everywhere and "single-swizzle" not in classes:
        return f"single swizzles are not spoken of: {classes}"
    if question.max_extra_bytes and not everywhere and not classes[-1].startswith("padding up to"):
        return f"paddings are not spoken of: {classes}"
    for name in classes:
        for layout in _members(name, question, rng):
            if is_free(layout, accesses):
                return f"{layout} was missed, {name} claimed"
    return None


def _members(name: str, question: Question, rng: random.Random, count: int = 12) -> Iterator[AnyLayout]:
    """Some layouts of a class at random."""
    elements = product(question.shape)
    nbytes, bits = dtype(question.element).nbytes, elements.bit_length() - 1
    base = storage_layout(question.shape, question.order)
    kind, _, units = name.partition(" of whole ")
    if kind not in ("linear-in-place", "any-in-place", "any-placement") or elements & (elements - 1):
        return
    keep = (max(1, int(units.partition("-")[0] or 0) // nbytes)).bit_length() - 1 if units else 0
    for _ in range(count):
        swizzles = tuple(
            Swizzle(1, min(y, z), y - z)
            for y, z in (rng.sample(range(keep, bits), 2) for _ in range(6 if bits - keep > 1 else 0))
        )
        if swizzles:
            yield ComposedLayout(swizzles, 0, base)


def rows_and_stores(rng: random.Random) -> Question:
    """Rows of whole 16-byte chunks, matrices of 8 rows from any row on, and 16-byte accesses in memory order.

    A single swizzle without extra memory always serves these: see layoutalg.synthesis.singles.
    """
    element = rng.choice(("u8", "f16", "f32", "f64"))
    order: Order = rng.choice(("row", "col"))
    elems = 16 // dtype(element).nbytes
    chunks = rng.choice((1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, rng.randint(1, 64)))
    rows = rng.randint(8, max(8, min(200, 4096 // chunks)))
    shape = (rows, elems * chunks) if order == "row" else (elems * chunks, rows)
    row, step = (1, rows) if order == "row" else (elems * chunks, 1)
    op = rng.choice(("ldmatrix.x1", "ldmatrix.x2", "ldmatrix.x4", "stmatrix.x4"))
    lanes, trans = INSTRUCTIONS[op].lanes, rng.choice(("", ".trans")) if element == "f16" else ""
    # The matrices of an instruction start anywhere: here at rows and chunks that a stride reaches.
    matrices = lanes // 8
    apart = rng.choice((0, row, step * elems)) if min(rows - 8, chunks - 1) >= matrices - 1 else 0
    used = (matrices - 1 if apart == row else 0), (matrices - 1 if apart == step * elems else 0)
    tv = Layout(
        ((8, matrices), elems, (rows - 7 - used[0], chunks - used[1])),
        ((row, apart), step, (row, step * elems)),
    )
    base = storage_layout(shape, order)
    walk = rng.choice(("cp.async.16", "st.shared.b128", "ld.shared.b128"))
    accesses = (Access(op + trans, tv, dtype(element)), Access.default(walk, base, element))
    return Question(shape, accesses, element, order, rng.choice(("any", "single")), 0)


def missed_rows(seed: int, count: int) -> list[str]:
    """Questions of `rows_and_stores` that were not answered with a layout, or not rightly."""
    rng, wrong = random.Random(seed), []
    for _ in range(count):
        question = rows_and_stores(rng)
        try:
            found = ask(question)
            if found.layout is None or found.extra_bytes or not is_free(found.layout, question.accesses):
                wrong.append(f"{found.layout} {found.certificate.classes}: {_spoken(question)}")
            check_certificate(found)
        except LayoutAlgError as error:
            wrong.append(f"{error}: {_spoken(question)}")
    return wrong


def mistakes(seed: int, count: int, most: int = 1024) -> tuple[dict[str, int], list[str]]:
    """(how many answers of each sort, what is wrong) of `count` questions."""
    rng, outcomes, wrong = random.Random(seed), dict[str, int](), []
    for number in range(count):
        question = drawn(rng, most)
        said = verdict(question, rng)
        if said not in ("found", "none", "refused", "undecided"):
            wrong.append(f"case {number}: {said}: {_spoken(question)}")
            said = "wrong"
        outcomes[said] = outcomes.get(said, 0) + 1
    return outcomes, wrong


def _spoken(question: Question) -> str:
    accesses: Any = [f"{a.op}@{a.tv}" for a in question.accesses]
    return f"{question._replace(accesses=accesses)}"
