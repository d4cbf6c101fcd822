"""`layoutalg eval`: the value of an expression of CuTe."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from layoutalg.answers import Answer
from layoutalg.cli.inputs import read_assignments
from layoutalg.cli.options import argument, dtypes, forms, option
from layoutalg.cli.output import say_answer, say_verbatim, wants_json
from layoutalg.errors import UnsupportedError


@dataclass(frozen=True)
class Evaluated(Answer, command="eval"):
    """The value of an expression of CuTe."""

    text: str
    kind: str
    """Class of the value: Layout, ComposedLayout, Swizzle, LinearLayout, int, bool, tuple, CopyAtom, ..."""
    value: str
    """The value in CuTe's notation; of a tile or a partition its layout."""
    offset: str | None
    """The offset from which a tile or a partition of a layout counts; null elsewhere."""
    layouts: Mapping[str, str]
    """The thread-value layouts of an atom or a tiling."""
    calls: tuple[str, ...]
    """The calls that the expression makes, the innermost first, each with its result."""
    converted: str | None
    """The value in the notation of --to."""


def eval_command(
    expression: Annotated[
        str,
        argument(
            "An expression such as 'composition(A, 4:2)', as C++, the CuTe DSL, pycute or CuTe's prints "
            "write it; - reads it from standard input.",
            stdin="text",
        ),
    ],
    let: Annotated[
        list[str] | None, option("NAME=EXPRESSION: a name for EXPRESSION and for later --let.", "--let")
    ] = None,
    symbols: Annotated[str | None, "Names of positive integers: n,m. Default: none."] = None,
    steps: Annotated[bool, "Show how each call comes about, the innermost first."] = False,
    draw: Annotated[bool, "Draw the value."] = False,
    to: Annotated[
        str | None, option("Print the value in this notation, as convert does.", complete=forms)
    ] = None,
    dtype: Annotated[
        str | None,
        option("Element type of --draw and --to. Default: none, and f32 to draw.", complete=dtypes),
    ] = None,
) -> None:
    """Evaluate an expression of CuTe's layout algebra.

    layoutalg eval "composition((8,64):(64,1), 4:2)"

    layoutalg eval "zipped_divide(A, (8,8))" --let "A=make_layout(make_shape(_64{}, _64{}), LayoutRight{})"

    layoutalg eval "local_tile((64,64):(64,1), (8,8), (1,2))"

    layoutalg eval "make_tiled_mma(SM80_16x8x16_F32F16F16F32_TN{}, Layout<Shape<_2,_2>>{}).get_layoutC_TV()"

    Layouts, swizzles, numbers, tuples, atoms, TiledMMA and TiledCopy are values; shape:stride and o may stand
    inside of calls. Nothing is executed, and a name that is not known is refused with the nearest.
    """
    from layoutalg.source import Part, evaluate, value_text

    trace: list[Any] = []
    names = [name.strip() for name in symbols.split(",")] if symbols else ()
    value = evaluate(expression, read_assignments("--let", let or []), symbols=names, trace=trace)
    part = value if isinstance(value, Part) else None
    subject = value if part is None else part.layout
    layouts = {name: str(layout) for name, layout in _layouts(value)}
    converted = None if to is None else _converted(subject, to, dtype)
    if wants_json():
        offset = None if part is None else value_text(part.offset)
        kind, text = type(subject).__name__, value_text(subject)
        say_answer(Evaluated(expression, kind, text, offset, layouts, tuple(map(str, trace)), converted))
        return
    say_verbatim(converted if converted is not None else value_text(value))
    for name, layout in layouts.items():
        say_verbatim(f"  {name}: {layout}")
    if steps:
        for call in trace:
            say_verbatim("")
            for line in _derived(call):
                say_verbatim(line)
    if draw:
        from layoutalg.cli.commands.layouts.draw import picture_text

        sys.stdout.write("\n" + picture_text(subject, dtype or "f32"))


def _layouts(value: Any) -> Iterator[tuple[str, Any]]:
    """The thread-value layouts of an atom or a tiling, by CuTe's names."""
    from layoutalg.atoms import CopyAtom, MMAAtom, TiledCopy, TiledMMA

    match value:
        case MMAAtom():
            yield "ThrID", value.thr_layout
            for x in ("A", "B", "C"):
                rows, columns = value.extents(x)
                yield f"{x}, (thread, value) to {rows} x {columns}", value.tv(x)
        case CopyAtom():
            yield "ThrID", value.thr_layout
            unit = "bits" if value.element is None else str(value.element)
            for name, bits, side in (
                ("Src", value.src_tv, "src"), ("Dst", value.dst_tv, "dst"), ("Ref", value.ref_tv, "ref"),
            ):  # fmt: skip
                yield f"{name}, in {unit}", bits if value.element is None else value.value_layout(side)  # type: ignore[arg-type]
        case TiledMMA():
            yield "A, (thread, value) to the tile", value.get_layoutA_TV()
            yield "B, (thread, value) to the tile", value.get_layoutB_TV()
            yield "C, (thread, value) to the tile", value.get_layoutC_TV()
        case TiledCopy():
            yield "S, (thread, value) to the tile", value.get_layoutS_TV()
            yield "D, (thread, value) to the tile", value.get_layoutD_TV()


def _converted(value: Any, to: str, dtype: str | None) -> str:
    from layoutalg.f2 import LinearLayout
    from layoutalg.layout import ComposedLayout, Layout, Swizzle
    from layoutalg.notation import convert

    if not isinstance(value, (Layout, ComposedLayout, Swizzle, LinearLayout)):
        raise UnsupportedError(
            f"--to {to}: a layout is converted, and this is of type {type(value).__name__}"
        )
    return convert(value, to, element=dtype)


def _derived(call: Any) -> Iterator[str]:
    """The lines of the derivation of a call; of one that notes no steps, the call and its result."""
    from layoutalg.errors import ArgumentTypeError
    from layoutalg.explanation import OPERATIONS, explain

    if call.name in OPERATIONS and not call.numbers:
        try:
            yield from explain(call.name, *call.arguments).lines()
        except (ArgumentTypeError, UnsupportedError):  # symbols, which have no derivation
            yield str(call)
    else:
        yield str(call)
