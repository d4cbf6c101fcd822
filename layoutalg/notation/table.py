"""FORMS: every notation that is read and written, a record per form; ADD A FORM HERE.

>>> sorted(find_form("numpy").reads)
['element']
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from layoutalg.arch import scale_layout
from layoutalg.errors import LayoutAlgError, ShapeError, UnknownNameError, UnsupportedError, check_type
from layoutalg.f2 import LinearLayout
from layoutalg.layout import AnyLayout, Swizzle
from layoutalg.notation.form import Form, OptionName, Options, Value, first, refuse
from layoutalg.notation.forms import arrays, constructors, cute_prints, linear, spellings, triton_text
from layoutalg.notation.forms.linear import as_layout, map_of_threads, offsets_of
from layoutalg.notation.forms.spellings import Spelling
from layoutalg.notation.forms.triton_text import ENCODINGS, Encoding

SHAPE: frozenset[OptionName] = frozenset({"shape"})
ELEMENT: frozenset[OptionName] = frozenset({"element"})
UNIT: frozenset[OptionName] = frozenset({"element", "unit"})


def _spelled(spelling: Spelling) -> Callable[[Value, Options], str]:
    """The writer of source in one spelling."""

    def write(value: Value, options: Options) -> str:
        return spellings.write(value if isinstance(value, Swizzle) else as_layout(value), spelling)

    return write


def _source(family: str) -> Callable[[str, Options], Value]:
    return partial(constructors.read_constructor, family=family)


def _names(names: tuple[str, ...], before: str) -> re.Pattern[str]:
    """Texts that begin with one of these names, after `before`."""
    return re.compile(rf"{constructors.BEFORE.pattern}{before}(?:{'|'.join(names)})\s*[<({{]")


def _encoding(encoding: Encoding, *, gluon: bool) -> Callable[[Value, Options], str]:
    def write(value: Value, options: Options) -> str:
        return triton_text.write_encoding(_map(value, encoding, options), options, encoding, gluon=gluon)

    return write


def _map(value: Value, encoding: Encoding, options: Options) -> LinearLayout | AnyLayout:
    """The map of an encoding: from offsets, or from registers, lanes, warps and blocks; a tile with pads."""
    what = encoding.mnemonic
    if isinstance(value, Swizzle):
        raise UnsupportedError(
            f"no {what} for {value} alone: say what it acts on, as in {value} o 0 o (8,64):(64,1)"
        )
    if encoding.pads and not isinstance(value, LinearLayout):
        return value
    if encoding.shared:
        return offsets_of(value, what)
    if isinstance(value, LinearLayout):
        return value
    try:
        return map_of_threads(value, options.need_shape(f"{what}, of the thread-value layout {value},"))
    except LayoutAlgError as error:
        if isinstance(error, TypeError):
            raise
        raise UnsupportedError(f"no {what} for {value}: {error.message}") from error


def _first(value: Value, options: Options, *, gluon: bool) -> str:
    """The first encoding that can say a map, of shared memory for a tile and of registers for the others."""
    shared = not isinstance(value, LinearLayout) and options.shape is None
    shared |= isinstance(value, LinearLayout) and "offset" in value.in_bits
    reasons: list[str] = []
    for encoding in ENCODINGS.values():
        if encoding.find is None or encoding.shared != shared:
            continue
        try:
            return _encoding(encoding, gluon=gluon)(value, options)
        except LayoutAlgError as error:
            reasons.append(error.message)
    raise UnsupportedError("; ".join(dict.fromkeys(reasons)))


def _read_scales(text: str, options: Options) -> Value:
    """The layout of a format's scales: nvfp4-scales, mxfp8-scales-shared, mxfp4-scales-tensor."""
    name, _, space = text.strip().partition("-scales")
    shape = options.need_shape(text.strip())
    if len(shape) != 2:
        raise ShapeError(f"{text.strip()} of shape {shape}: (rows, elements along K) are needed")
    return scale_layout(name, *shape, space.removeprefix("-") or "global")


UNREAD: tuple[tuple[str, str, str], ...] = (
    (r"Tiled(?:MMA|Copy)\b|(?:MMA|Copy)_Atom\b|ThrID:", "a print of CuTe",
     "atoms and their tilings have several layouts; paste one of them"),
    (r"(?:memref|tensor|vector)<[0-9?x]|strided<|affine_map<", "a type of MLIR", "give size= and stride="),
    (r"(?:[a-z]+[0-9]+\[[0-9,]*\]|)\{[0-9, ]+(?::[A-Z(]|\})", "a layout of XLA",
     "minor-to-major orders and tiles are not read; give size= and stride="),
    (r"(?:T\.|tilelang\.|tl\.)?(?:Fragment|make_swizzled_layout)\s*\(", "a layout of TileLang",
     "its index map is a function: see layoutalg identify"),
    (r"lambda\b|T\.index_map\(", "an index map", "it is a function: see layoutalg identify"),
    (r"(?:::)?(?:cutlass::)?layout::\w+|(?:nvcuda::)?wmma::\w+_major", "a layout of CUTLASS 2 or wmma",
     "its leading dimension is known at run time; give size= and stride="),
    (r"!tt\.|!ttg\.|tt\.|module attributes", "Triton's IR", "paste one encoding, #ttg.name<{...}>"),
)  # fmt: skip
"""Families whose beginnings are known but which are not read: their names, and what to give instead."""

_PATH = r"(?:(?:::)?(?:[A-Za-z_]\w*(?:::|\.))*)"

_CALLED = re.compile(r"(?!Sw?<|SW_|smem_ptr|tmem_)((?:::)?[A-Za-z_]\w*(?:(?:::|\.)\w+)*)\s*[(<]")
"""Texts that begin with a name that is called, which no form knows."""

_CPP, _PYTHON = _source(constructors.CPP_FAMILY), _source(constructors.PYTHON_FAMILY)

_TABLE = (
    Form("scales", re.compile(r"\w+-scales"), _read_scales, None, SHAPE),
    Form("cute", None, cute_prints.read_print, cute_prints.write_cute, UNIT),
    Form("tensor", cute_prints.TENSOR_BEGINS, cute_prints.read_print, cute_prints.write_tensor,
         UNIT, ELEMENT),
    Form("dsl-print", cute_prints.DSL_BEGINS, cute_prints.read_dsl, cute_prints.write_dsl_print, UNIT),
    Form("triton", triton_text.BEGINS, triton_text.read_encoding, partial(_first, gluon=False),
         SHAPE, SHAPE | ELEMENT),
    Form("gluon", None, triton_text.read_encoding, partial(_first, gluon=True), SHAPE, SHAPE | ELEMENT),
    *(
        Form(
            f"{'gluon' if gluon else 'ttg'}.{encoding.gluon if gluon else name}",
            None, triton_text.read_encoding, _encoding(encoding, gluon=gluon) if encoding.find else None,
            SHAPE,
            ELEMENT if name == "nvmma_shared" else frozenset() if encoding.shared else SHAPE,
        )
        for gluon in (False, True)
        for name, encoding in ENCODINGS.items()
    ),
    Form("linear-layout", linear.BEGINS, linear.read_linear, linear.write_linear),
    Form("dsl", _names(constructors.CONSTRUCTORS, r"cute\."),
         _source(constructors.DSL_FAMILY), _spelled(spellings.DSL), UNIT),
    Form("numpy", arrays.NUMPY_BEGINS, arrays.read_array, arrays.write_numpy, ELEMENT, ELEMENT),
    Form("torch", arrays.TORCH_BEGINS, arrays.read_array, arrays.write_torch),
    Form("pycute", re.compile(r"(?:[A-Za-z_]\w*\.)?(?:Layout|ComposedLayout|Swizzles?|Tensor)\s*\("),
         _PYTHON, _spelled(spellings.PYCUTE), UNIT),
    Form("tensor-layouts", None, _PYTHON, _spelled(spellings.TENSOR_LAYOUTS), UNIT),
    Form("cpp",
         re.compile(
             _names(constructors.CONSTRUCTORS, _PATH).pattern
             + rf"|{constructors.BEFORE.pattern}{_PATH}"
             + r"(?:Layout_\w+_Atom(?:_Bits)?|Tiled\w+|make_tiled_\w+|(?:MMA|Copy)_Atom)\s*[<(]"
         ),
         _CPP, _spelled(spellings.CPP), UNIT),
    Form("cpp-type", None, _CPP, _spelled(spellings.CPP_TYPE), UNIT),
    Form("gmma", None, _CPP, cute_prints.write_gmma, writes=ELEMENT),
)  # fmt: skip

FORMS: Mapping[str, Form] = MappingProxyType({form.name: form for form in _TABLE})
"""Every form by name, in the order in which texts are tried; read only."""


def find_form(name: str) -> Form:
    """A form by name.  Raises UnknownNameError."""
    check_type("convert", name, str, "the name of a form")
    form = FORMS.get(name)
    if form is None:
        raise UnknownNameError("form", name, FORMS)
    return form


def form_of(text: str) -> Form:
    """The form whose text begins like this one; `cute` where none does.

    Raises ParseError for a text of a family that is known and not read, and for a function that is not known.

    >>> form_of("#ttg.blocked<{").name, form_of("cute::Layout<").name, form_of("8:1").name
    ('triton', 'cpp', 'cute')
    """
    start = first(text)
    for form in FORMS.values():
        if form.recognises is not None and form.recognises.match(text, start):
            return form
    for begins, family, why in UNREAD:
        if re.compile(begins).match(text, start):
            refuse(text, family, f"known and not read: {why},", start)
    call = _CALLED.match(text, start)
    if call is not None:
        refuse(text, "a layout", constructors.unknown_function(call[1]), start)
    return FORMS["cute"]
