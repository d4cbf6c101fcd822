"""parse and convert: a text of any notation to a value, and a value to a text of any notation.

The idea.  A text is recognised by how it begins (FORMS in table.py) and read by that form's reader; what is
not written in the notation of another family is CuTe's.  What a text does not say (the tensor's shape, the
element type) is given beside it.

>>> print(convert("cute::Layout<cute::tuple<cute::C<8>,cute::C<64>>>", "numpy", element="f16"))
shape=(8, 64), strides=(2, 16), itemsize=2
>>> print(convert("Sw<3,3,3> o 0 o (64,64):(64,1)", "triton"))
#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>

Notes.  Nothing of a text is executed.  Texts of plain CuTe notation do not load the other forms.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from layoutalg.dtype import DType, dtype
from layoutalg.errors import (
    ArgumentTypeError,
    LayoutAlgError,
    ShapeError,
    UnknownNameError,
    UnsupportedError,
    check_choice,
    named,
    shown,
)
from layoutalg.layout import AnyLayout, ComposedLayout, IntTuple, Layout, Swizzle, Swizzles, flatten_tree
from layoutalg.notation.cute import parse_cute, parse_int_tuple

if TYPE_CHECKING:
    from layoutalg.f2 import LinearLayout
    from layoutalg.notation.form import OptionName, Options

Notation: TypeAlias = "AnyLayout | Swizzle | LinearLayout"
"""The value of a text: a layout, a swizzle alone, or Triton's map of registers, lanes and warps."""

UNITS = ("elements", "bytes")

_CUTE = re.compile(r"[-0-9_(),:<>@Swo \t\r\n]*\Z")
"""The plainest texts of CuTe's notation, which are cheap to read."""


def parse(
    text: str,
    symbols: Mapping[str, Any] | None = None,
    *,
    shape: IntTuple | str | None = None,
    element: str | DType | None = None,
    unit: str = "elements",
    form: str | None = None,
) -> Notation:
    """The layout that a text denotes, in any of the FORMS: CuTe, C++, Triton, NumPy, PyTorch, pycute, ...

    `symbols` gives the sympy symbol for each name that extents and strides may contain.  `shape` is that of
    the tensor, which Triton's encodings need; `element` the element type, where strides are bytes; with
    `unit` "bytes" a swizzle without a pointer acts on bytes of elements.  `form` names the form; without
    it, it is detected.  Objects of pycute or tensor-layouts, and arrays, are accepted too.

    Tiles of shared memory are layouts from coordinates to offsets; a distributed encoding is a LinearLayout.
    Raises ParseError with the position and what was expected there, ArgumentTypeError for an option that is
    missing or that the form does not take, UnknownNameError.

    >>> parse("((2,4),8):((1,16),2)")
    Layout(((2, 4), 8), ((1, 16), 2))
    >>> print(parse("Sw<3,4,3>_smem_ptr[16b](0x7ef800000400) o (_8,_64):(_64,_1)"))
    Sw<3,3,3> o 0 o (8,64):(64,1)
    >>> import sympy
    >>> print(parse("(n,8):(1,4*n)", symbols={"n": sympy.Symbol("n", integer=True, positive=True)}))
    (n,8):(1,4*n)
    """
    if not isinstance(text, str):
        return _of_object(text)  # type: ignore[unreachable]  # a caller without types
    plain = shape is None and element is None and form is None and unit == "elements"
    if plain and _CUTE.match(text):
        return parse_cute(text, symbols)
    return _read(text, form, _options(shape, element, unit, symbols))


def convert(
    value: Any,
    to: str,
    *,
    symbols: Mapping[str, Any] | None = None,
    shape: IntTuple | str | None = None,
    element: str | DType | None = None,
    unit: str = "elements",
    form: str | None = None,
) -> str:
    """A text, a layout, a LinearLayout or another library's object as text of the form `to`, one of FORMS.

    The options are those of `parse`, for either side.  parse(convert(x, to), ...) is x again.  Raises
    UnsupportedError, with the reason, where the form cannot express it, and as `parse` does.

    >>> from layoutalg.layout import ComposedLayout, Layout, Swizzle
    >>> convert(ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1))), "gmma", element="f16")
    'GMMA::Layout_K_SW128_Atom<half_t>'
    >>> convert("(8,64):(72,1)", "torch")
    'size=(8, 64), stride=(72, 1)'
    """
    from layoutalg.f2 import LinearLayout
    from layoutalg.notation.table import find_form

    target = find_form(to)
    options = _options(shape, element, unit, symbols)
    if isinstance(value, str):
        source = _read(value, form, options, target.writes)
    else:
        ours = isinstance(value, (Layout, ComposedLayout, Swizzle, LinearLayout))
        source = value if ours else _of_object(value)
        _check_taken(options, target.writes, f"the form {to}")
    if target.write is None:
        raise UnsupportedError(f"texts of the form {to} are read, and not written")
    try:
        return target.write(source, options)
    except LayoutAlgError as error:
        named("convert", error, source)


def _read(
    text: str, form: str | None, options: Options, taken: frozenset[OptionName] = frozenset()
) -> Notation:
    """A text by its form; an option that is given has to be one that this form takes, or one of `taken`."""
    from layoutalg.notation.table import find_form, form_of

    record = form_of(text) if form is None else find_form(form)
    _check_taken(options, record.reads | taken, f"a text of the form {record.name}")
    if record.read is None:
        raise UnknownNameError("form that is read", record.name, ())
    return record.read(text, options)


def _check_taken(options: Options, taken: frozenset[OptionName], form: str) -> None:
    """Refuse an option that is given and not taken."""
    for name in options.present:
        if name not in taken:
            raise ArgumentTypeError(f"{name} is given, and {form} does not take it")


def _options(
    shape: IntTuple | str | None, element: str | DType | None, unit: str, symbols: Mapping[str, Any] | None
) -> Options:
    """The options, checked."""
    from layoutalg.notation.forms import Options

    check_choice("unit", unit, UNITS)
    if isinstance(shape, str):
        shape = parse_int_tuple(shape)
    extents = None if shape is None else shape if isinstance(shape, tuple) else (shape,)
    if extents is not None and any(type(n) is not int or n < 1 for n in extents):
        raise ShapeError(f"shape {shown(shape)}: positive integers are needed, one per dimension")
    return Options(
        None if extents is None else flatten_tree(extents),
        None if element is None else dtype(element),
        "bytes" if unit == "bytes" else "elements",
        symbols,
    )


def _of_object(value: Any) -> Notation:
    """The layout of another library's object."""
    from layoutalg.notation.forms import from_object, is_object

    if isinstance(value, Swizzles):
        raise ArgumentTypeError(
            f"{value} alone is a chain of swizzles: give what it acts on, or its one factor"
        )
    if not is_object(value):
        raise ArgumentTypeError(f"parse of {shown(value)}: a {type(value).__name__} is not a text")
    return from_object(value)
