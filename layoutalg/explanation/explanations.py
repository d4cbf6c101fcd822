"""explain: how a result comes about and what a count or a certificate means, step by step, as text.

The idea.  An operation of the algebra notes what it finds while it computes; `words` says it in
words.  What is counted or certified is explained at the layout in hand: a count of wavefronts is a sum over
phases, and a phase costs what its busiest bank has to serve, so the words go from the banks to the worst
phase, to what a swizzle moves, and up to the sum; those of a certificate go from K and F, the spaces that it
holds, to what their dimensions prove.

>>> tile = Layout((64, 64), (64, 1))
>>> print(explain("analyze", tile, "ldmatrix.x4", element="f16").steps[1].law.partition(": ")[2])
rows 0 to 7 start in bank 0, since 128 bytes are 32 banks

A layout or a swizzle in place of an operation is explained at a coordinate.

Notes.  Integers only: symbols and strides along modes are refused.  The analysis and the search are imported
when a count or a certificate is explained.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from layoutalg.algebra import (
    blocked_product,
    complement,
    flat_divide,
    flat_product,
    left_inverse,
    logical_divide,
    logical_product,
    raked_product,
    right_inverse,
    tiled_divide,
    tiled_product,
    zipped_divide,
    zipped_product,
)
from layoutalg.compose import Chain, composition, normal_form
from layoutalg.errors import ArgumentTypeError, LayoutAlgError, UnknownNameError, UnsupportedError
from layoutalg.explanation.steps import Derivation, Page, notation
from layoutalg.explanation.words import WORDS, refused, swizzle_words, value_steps
from layoutalg.layout import (
    AnyLayout,
    ArithTuple,
    ComposedLayout,
    Layout,
    ScaledBasis,
    Swizzle,
    Swizzles,
    Trace,
    as_chain,
    check_integers,
    check_nesting,
    coalesce,
    coordinate_at,
    flatten_tree,
    is_symbolic,
    modes,
    size,
)

if TYPE_CHECKING:
    from layoutalg.analysis import Access, GlobalReport, SharedReport
    from layoutalg.synthesis import Synthesis

Operation = Callable[..., Any]


def _analyze(
    layout: AnyLayout, access: str | Access, element: str = "f32", arch: str = "sm_90", *, trace: Trace
) -> SharedReport | GlobalReport:
    from layoutalg.analysis import Access, SharedReport, analyze_access

    chosen = Access.of(access, layout, element)
    report = analyze_access(layout, chosen, arch)
    kind = "wavefronts" if isinstance(report, SharedReport) else "sectors"
    trace.note(kind, layout=layout, access=chosen, report=report, arch=arch)
    return report


_METHODS = {
    "f2": "layout and access together are linear over F2: all instructions cost the same, and it is a rank",
    "gcd": "the lanes of a warp are equally spaced: the count is a greatest common divisor",
    "digit-classes": "one instruction of each class was counted: those that carry alike cost the same",
    "enumerated": "every instruction was counted",
}


def _wavefronts(page: Page, layout: AnyLayout, access: Access, report: SharedReport, arch: str) -> None:
    """What the count of a shared-memory access means: banks, phases, the swizzle, the sum."""
    from layoutalg.analysis import Place, clash, instruction_offsets, phase_groups
    from layoutalg.arch import find_arch, find_instruction

    machine = find_arch(arch)
    rule, bits, witness = find_instruction(access.op, machine), access.element.bits, report.witness
    row = machine.banks * machine.bank_bytes
    page.step(
        f"a wavefront takes at most one word of {machine.bank_bytes} bytes from each of the {machine.banks} "
        f"banks, and bank = byte address // {machine.bank_bytes} % {machine.banks}; {rule.name} moves "
        f"{rule.width_bytes} bytes per lane and is served in phases of {rule.group_lanes} lanes",
        f"{machine.banks} * {machine.bank_bytes} = {row}",
    )
    if witness is None:
        page.step("no lane is active, and nothing is moved")
        return
    place = Place(witness.warp, witness.value * bits // (8 * rule.width_bytes), witness.iteration)
    offsets = instruction_offsets(layout, access, place, machine)
    groups = phase_groups(rule, tuple((n, a) for n, a in enumerate(offsets) if a is not None))
    group = next(g for g in groups if witness.lanes[0] in dict(g))
    first, last = place.warp * machine.lanes, (place.iteration,) if len(modes(access.tv)) == 3 else ()
    indices = [access.tv(first + lane, witness.value, *last) for lane, _ in group]
    lanes, where = _listed([lane for lane, _ in group]), _places(indices, layout.shape)
    phase = f"the worst phase is that of lanes {lanes} of warp {place.warp}"
    phase += f", iteration {place.iteration}: " if place.iteration else ": "

    def starts(law: str, function: AnyLayout, offset: int, more: str = "") -> None:
        name = f"{offset} + {page.name(function, 'L')}" if offset else page.name(function, "L")
        scale = f"* {bits // 8}" if bits % 8 == 0 else f"* {bits} // 8"
        scale = f"({{}}) {scale}" if offset else f"{{}} {scale}"
        scale = f"({scale} + {access.base_bytes})" if access.base_bytes else scale
        addresses = [(offset + function(i)) * bits // 8 + access.base_bytes for i in indices]
        banks = [address // machine.bank_bytes % machine.banks for address in addresses]
        page.step(
            f"{law}{where} {_start(banks, addresses, machine.bank_bytes)}{more}",
            *(
                f"{scale.format(f'{name}({i})')} // {machine.bank_bytes} % {machine.banks} = {bank}"
                for i, bank in zip(indices, banks, strict=True)
            ),
        )

    inner = layout.inner if isinstance(layout, ComposedLayout) and layout.swizzles else layout
    if isinstance(layout, ComposedLayout) and isinstance(inner, Layout) and inner != layout:
        before = [layout.offset + inner(i) for i in indices]
        still = ((n, v * bits // 8 + access.base_bytes) for (n, _), v in zip(group, before, strict=True))
        alone = clash(rule, machine, tuple(still)).ways
        starts(phase, inner, layout.offset, f"; so the phase would take {_some(alone, 'wavefront')}")
        unit = 1 << min(s.base for s in layout.swizzles)
        moves = [(layout(i) ^ v) // unit for i, v in zip(indices, before, strict=True)]
        chunks = f"chunks of {unit} elements ({unit * bits / 8:g} bytes)"
        one = where.split()[0].removesuffix("s")
        how = f"{where} move {_listed(moves)} {chunks}"
        if one in ("row", "column") and where == f"{one}s {_listed(moves)}":
            how = f"{one} r moves r {chunks}"
        outer = page.name(layout.outer, "S")
        page.step(
            f"{'; '.join(map(swizzle_words, layout.swizzles))}, of the offset in elements; so {how}",
            *(f"{outer}({v}) = {v} ^ {m} * {unit}" for v, m in zip(before, moves, strict=True)),
        )
        phase = "now "
    starts(phase, layout, 0)
    ways = [clash(rule, machine, g).ways for g in groups]
    constant = [rule.counter_bias] if rule.counter_bias else []
    whom = f", for lanes {_listed(witness.lanes)}" if witness.ways > 1 else ""
    counter = ", with the constant that the counter adds" if constant else ""
    page.step(
        f"bank {witness.bank} has {_some(witness.ways, 'word')} to serve, one per wavefront{whom}; the "
        f"instruction takes the sum over its phases, against an ideal of {report.worst_ideal}{counter}",
        f"{' + '.join(map(str, ways + constant))} = {report.worst}",
    )
    every = report.instructions * report.worst == report.total
    page.step(
        f"{report.instructions} instructions cover the tile{'' if every else ', and not all cost as much'}; "
        f"{_METHODS[report.method]}",
        f"{report.instructions} * {report.worst} {'=' if every else '>'} {report.total}",
        f"{report.total} - {report.ideal_total} = {report.excess}",
    )


def _start(banks: Sequence[int], addresses: Sequence[int], bank_bytes: int) -> str:
    """In which banks lanes start, and why, where they are equally spaced."""
    steps = {b - a for a, b in itertools.pairwise(addresses)}
    step = steps.pop() if len(steps) == 1 else 0
    why = (
        f", since {step} bytes are {_some(step // bank_bytes, 'bank')}"
        if step and not step % bank_bytes
        else ""
    )
    if len(set(banks)) == 1:
        return f"start in bank {banks[0]}{why}"
    return f"start in banks {_listed(banks)}{why}"


def _some(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _places(indices: Sequence[int], shape: Any) -> str:
    """Flat indices in words: rows or columns of a tile, where they are consecutive ones."""
    if isinstance(shape, tuple) and len(shape) == 2:
        found = [coordinate_at(i, (size(Layout(shape[0])), size(Layout(shape[1])))) for i in indices]
        for which, word in ((0, "rows"), (1, "columns")):
            if len({c[1 - which] for c in found}) == 1 and len({c[which] for c in found}) == len(found):
                return f"{word} {_listed([c[which] for c in found])}"
    return "they"


def _listed(numbers: Sequence[int]) -> str:
    """0 to 7 for a run, else the numbers, at most 16 of them."""
    first, last = numbers[0], numbers[-1]
    if len(numbers) > 2 and list(numbers) == list(range(first, last + 1)):
        return f"{first} to {last}"
    return ", ".join(map(str, numbers[:16])) + (", ..." if len(numbers) > 16 else "")


def _sectors(page: Page, layout: AnyLayout, access: Access, report: GlobalReport, arch: str) -> None:
    """What the count of a global-memory access means: sectors, useful bytes, the worst base address."""
    moved, unit = report.moved_bytes, report.sector_bytes
    page.step(
        f"global memory moves whole sectors of {unit} bytes: each instruction takes the distinct sectors "
        f"that its lanes touch, and {_some(report.instructions, 'instruction')} cover the tile; "
        f"{_METHODS[report.method]}",
        f"{report.sectors} * {unit} = {moved}",
    )
    page.step(
        f"{report.useful_bytes} of these bytes are asked for, {report.efficiency:.1%}; they would fit in "
        f"{report.ideal} sectors, and lie in {report.lines} lines of 128 bytes",
        f"{report.useful_bytes} <= {moved}",
        f"{report.ideal} <= {report.sectors}",
    )
    law = f"at the worst base address that the instruction allows it is {report.worst_alignment} sectors"
    page.step(law, f"{report.sectors} <= {report.worst_alignment}")


def _synthesize(
    shape: Any, *accesses: str | Access, element: str = "f32", trace: Trace, **params: Any
) -> Synthesis:
    from layoutalg.synthesis import synthesize

    found = synthesize(shape, list(accesses), element=element, **params)
    trace.note("certificate", found=found)
    return found


_REASONS = {
    "ranks": "K holds what two words of one bank differ by, F what two words of one phase differ by; where "
    "K & F = 0, no two words of a phase share a bank",
    "counted": "every instruction of every access was counted, and takes its ideal",
    "classes": "the bank bits of a swizzle repeat with its period, so instructions fall into classes; one of "
    "each class was counted, and takes its ideal",
    "repeated-word": "an access without broadcast asks for one word twice: the two take turns, wherever the "
    "word lies",
    "narrow-banks": "accesses keep vectors whole, which leaves another fewer banks than it has words in "
    "a phase",
    "exhausted": "no space K of the needed dimension avoids all F: every choice was searched",
    "forms": "each layout of the classes that are named was counted, and has a conflict",
}


def _certificate(page: Page, found: Synthesis) -> None:
    """What each part of a certificate proves, and that it was proved again."""
    from layoutalg.f2 import rank
    from layoutalg.synthesis import check_certificate, ruled_out

    claim = found.certificate
    for access, report in zip(found.accesses, found.reports, strict=False):
        law = f"{getattr(access, 'op', access)} on the layout: {notation(report)}"
        page.step(law, f"{report.total} - {report.ideal_total} = {report.excess}")
    if claim.kernel:
        law = "words of the tile are numbered in storage order, as vectors over F2; K is spanned by"
        page.step(f"{law} {_listed(claim.kernel)}: words that differ by one of K lie in one bank")
    for number, footprint in enumerate(claim.footprints):
        both = rank((*claim.kernel, *footprint))
        law = f"F of access {number}, one phase of it, is spanned by {_listed(footprint)}"
        said = [f"{len(claim.kernel)} + {len(footprint)} = {both}"] if claim.kernel else []
        page.step(f"{law}{': the dimensions of K and F add up, so K & F = 0' if said else ''}", *said)
    law = _REASONS[claim.reason]
    if claim.reached:
        law += f" (period 2^{claim.period_bits} elements; classes of each access: {_listed(claim.reached)})"
    page.step(law + (f" (accesses {_listed(claim.clash)})" if claim.clash else ""))
    if not claim.conflict_free:
        page.step(f"that is said of these layouts, and of no others: {ruled_out(found)}")
    page.step(f"proved again without the search, from layout and accesses: {check_certificate(found)}")


_WORDS: Mapping[str, Operation] = MappingProxyType(
    {**WORDS, "wavefronts": _wavefronts, "sectors": _sectors, "certificate": _certificate}
)


OPERATIONS: Mapping[str, Operation] = MappingProxyType(
    {"analyze": _analyze}
    | {
        operation.__name__: operation
        for operation in (
            blocked_product,
            coalesce,
            complement,
            composition,
            flat_divide,
            flat_product,
            left_inverse,
            logical_divide,
            logical_product,
            normal_form,
            raked_product,
            right_inverse,
        )
    }
    | {"synthesize": _synthesize}
    | {op.__name__: op for op in (tiled_divide, tiled_product, zipped_divide, zipped_product)}
)
"""What can be explained, by name, read only."""


def explain(op: str | Operation | Chain, *operands: Any, **params: Any) -> Derivation:
    """The derivation of op(*operands): its steps, and the result or the refusal they end with.

    `op` is an operation or its name; a layout or a swizzle is explained at a coordinate.  "analyze" takes a
    layout, an access such as "ldmatrix.x4@row", and the parameters element and arch; "synthesize" a shape,
    accesses, and the parameters of layoutalg.synthesis.synthesize.  Raises UnknownNameError for another op,
    ArgumentTypeError for operands it does not take, UnsupportedError for symbols and strides along modes.

    >>> print(explain("logical_divide", Layout(24), 4).answer)
    = (4,6):(1,4)
    >>> print(explain(Swizzle(1, 0, 2), 5))
    Sw<1,0,2> at 5
      1. Sw<1,0,2> adds bits 2..2 to bits 0..0, by XOR
           S = Sw<1,0,2>
           5 = 0b101
           0b101 & 0b100 = 0b100
           0b100 >> 2 = 0b001
           0b101 ^ 0b001 = 0b100
           S(5) = 4
      = 4
    """
    for operand in (*operands, *params.values()):
        check_nesting(operand, "an operand")
    arguments = ", ".join([*map(notation, operands), *(f"{k}={notation(v)}" for k, v in params.items())])
    page = Page()
    op = as_chain(op)
    if isinstance(op, (Layout, ComposedLayout, Swizzle, Swizzles)):
        call = f"{notation(op)} at {arguments}"
        crd = _coordinate(call, op, operands)
        value_steps(page, op, crd)
        return Derivation(call, tuple(page.steps), op(crd))
    name = op if isinstance(op, str) else getattr(op, "__name__", str(op))
    operation = OPERATIONS.get(name)
    if operation is None:
        raise UnknownNameError("operation to explain", name, OPERATIONS)
    call = f"{name}({arguments})"
    _check(call, operation, operands, params)
    trace, result, refusal = Trace(), None, None
    try:
        result = operation(*operands, **params, trace=trace)
    except (ArgumentTypeError, UnknownNameError):
        raise
    except LayoutAlgError as error:
        refusal = error
    for kind, facts in trace.records:
        _WORDS[kind](page, **facts)
    if refusal is not None:
        refused(page, refusal)
    elif not trace.records:
        page.step(f"{page.name(result, 'A')} stays as it is")
    return Derivation(call, tuple(page.steps), result, refusal)


def _check(call: str, operation: Operation, operands: tuple[Any, ...], params: Mapping[str, Any]) -> None:
    """Refuse a call that does not fit the operation, and operands other than integers."""
    signature = inspect.signature(operation)
    taken = [p for n, p in signature.parameters.items() if n != "trace"]
    try:
        signature.replace(parameters=taken).bind(*operands, **params)
    except TypeError as error:
        raise ArgumentTypeError(f"{call}: {error}; accepted are {', '.join(p.name for p in taken)}") from None
    for value in (*operands, *params.values()):
        _check_leaves(value)


def _check_leaves(value: object) -> None:
    """Derivations are written for integers: refuse symbols and strides along modes."""
    if is_symbolic(value):
        raise UnsupportedError(f"explain of {value}: it is a symbol; integers are accepted")
    if isinstance(value, (ScaledBasis, ArithTuple)):
        raise UnsupportedError(f"explain of {value}: it moves along modes; integers are accepted")
    if isinstance(value, tuple):
        for part in value:
            _check_leaves(part)
    elif isinstance(value, (Layout, ComposedLayout)):
        check_integers("explain", value)


def _coordinate(call: str, function: AnyLayout | Swizzle | Swizzles, operands: tuple[Any, ...]) -> Any:
    """The coordinate at which a layout or a swizzle is explained, or an ArgumentTypeError."""
    _check_leaves((function, *operands))
    whole = all(hasattr(x, "__index__") and not isinstance(x, bool) for x in flatten_tree(operands))
    if isinstance(function, (Swizzle, Swizzles)):
        if len(operands) != 1 or not whole or isinstance(operands[0], tuple) or operands[0] < 0:
            raise ArgumentTypeError(f"{call}: a swizzle takes one integer, 0 or greater")
    elif not operands or not whole:
        raise ArgumentTypeError(f"{call}: a layout takes a coordinate of integers")
    return operands[0] if len(operands) == 1 else operands
