"""explain: how a result comes about and what a count or a certificate means, step by step, as text.

The idea.  An operation of the algebra notes what it finds while it computes; `words` says it in
words.  What is counted or certified is explained at the layout in hand by the rooms that counted or proved
it (analysis.conflict_words, synthesis.certificate_words), sentence by sentence.

>>> tile = Layout((64, 64), (64, 1))
>>> print(explain("analyze", tile, "ldmatrix.x4", element="f16").steps[3].law)
Rows 0 to 7 start 128 bytes apart, and 128 bytes are all 32 banks, so they start in bank 0

A layout or a swizzle in place of an operation is explained at a coordinate.

Notes.  Integers only: symbols and strides along modes are refused.  The analysis and the search are imported
when a count or a certificate is explained.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from layoutalg import algebra
from layoutalg.arch import DEFAULT_ARCH
from layoutalg.compose import Chain, composition, normal_form
from layoutalg.errors import ArgumentTypeError, LayoutAlgError, UnknownNameError, UnsupportedError
from layoutalg.explanation.steps import Derivation, Page, notation
from layoutalg.explanation.words import WORDS, refused, value_steps
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
    flatten_tree,
    is_symbolic,
)

if TYPE_CHECKING:
    from layoutalg.analysis import Access, GlobalReport, SharedReport
    from layoutalg.synthesis import Synthesis

Operation = Callable[..., Any]


def _analyze(
    layout: AnyLayout, access: str | Access, element: str = "f32", arch: str = DEFAULT_ARCH, *, trace: Trace
) -> SharedReport | GlobalReport:
    from layoutalg.analysis import Access, analyze_access

    chosen = Access.of(access, layout, element, arch)
    report = analyze_access(layout, chosen, arch)
    trace.note("count", layout=layout, access=chosen, report=report, arch=arch)
    return report


_METHODS = {
    "f2": "Layout and access are linear over F2 together: all instructions cost the same, by a rank",
    "gcd": "The lanes of a warp are equally spaced: the count is a greatest common divisor",
    "digit-classes": "One instruction of each class was counted: those that carry alike cost the same",
    "enumerated": "Every instruction was counted",
}


def _count(
    page: Page, layout: AnyLayout, access: Access, report: SharedReport | GlobalReport, arch: str
) -> None:
    """State what is counted, the count at the layout in hand, and how it was made."""
    from layoutalg.analysis import SharedReport, conflict_words
    from layoutalg.arch import find_arch, find_instruction

    machine = find_arch(arch)
    rule = find_instruction(access.op, machine)
    if isinstance(report, SharedReport):
        page.step(
            f"A wavefront takes at most one word of {machine.bank_bytes} bytes from each of the "
            f"{machine.banks} banks, and bank = byte address // {machine.bank_bytes} % {machine.banks}; "
            f"{rule.name} moves {rule.width_bytes} bytes per lane, in phases of {rule.group_lanes} lanes",
            f"{machine.banks} * {machine.bank_bytes} = {machine.banks * machine.bank_bytes}",
        )
    else:
        page.step(
            f"Global memory moves whole sectors of {report.sector_bytes} bytes: each instruction takes the "
            f"distinct sectors that its lanes touch",
            f"{report.sectors} * {report.sector_bytes} = {report.moved_bytes}",
        )
    _say(page, conflict_words(layout, access, report, arch))
    page.step(_METHODS[report.method])


def _say(page: Page, sentences: Sequence[str]) -> None:
    for sentence in sentences:
        page.step(sentence.removesuffix("."))


def _synthesize(
    shape: Any, *accesses: str | Access, element: str = "f32", trace: Trace, **params: Any
) -> Synthesis:
    from layoutalg.synthesis import synthesize

    synthesis = synthesize(shape, list(accesses), element=element, **params)
    trace.note("certificate", found=synthesis)
    return synthesis


def _certificate(page: Page, found: Synthesis) -> None:
    """State what each part of a certificate proves, and that it was proved again."""
    from layoutalg.synthesis import certificate_words

    _say(page, certificate_words(found))


_WORDS: Mapping[str, Operation] = MappingProxyType({**WORDS, "count": _count, "certificate": _certificate})


_EXPLAINED: dict[str, Operation] = {
    name: operation
    for name, operation in inspect.getmembers(algebra, inspect.isfunction)
    if name in algebra.__all__ and "trace" in inspect.signature(operation).parameters
} | {
    "analyze": _analyze, "coalesce": coalesce, "composition": composition, "normal_form": normal_form,
    "synthesize": _synthesize,
}  # fmt: skip
"""The operations of the algebra that note what they find, and those of other rooms."""

OPERATIONS: Mapping[str, Operation] = MappingProxyType(dict(sorted(_EXPLAINED.items())))
"""The operations that can be explained, by name, read only."""


def explain(op: str | Operation | Chain, *operands: Any, **params: Any) -> Derivation:
    """The derivation of op(*operands): its steps, and the result or the error they end with.

    `op` is an operation or its name; a layout or a swizzle is explained at a coordinate.  "analyze" takes a
    layout, an access such as "ldmatrix.x4@row", and the parameters element and arch; "synthesize" a shape,
    accesses, and the parameters of layoutalg.synthesis.synthesize.  Raises UnknownNameError for another op,
    ArgumentTypeError for operands it does not take, UnsupportedError for symbols and basis strides.

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
    integral = all(hasattr(x, "__index__") and not isinstance(x, bool) for x in flatten_tree(operands))
    if isinstance(function, (Swizzle, Swizzles)):
        if len(operands) != 1 or not integral or isinstance(operands[0], tuple) or operands[0] < 0:
            raise ArgumentTypeError(f"{call}: a swizzle takes one integer, 0 or greater")
    elif not operands or not integral:
        asked = call if operands else f"explain of {function}"
        raise ArgumentTypeError(
            f"{asked}: a layout takes a coordinate of integers; an operation is named first"
        )
    return operands[0] if len(operands) == 1 else operands
