"""CuTe's notation as it is printed: in C++ as a tensor over a pointer, in the CuTe DSL, as an atom's name.

The reader of all of them is layoutalg.notation.cute; here the wrappings of the DSL's IR are taken off, and
the prints are written.

>>> from layoutalg.dtype import dtype
>>> tile = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1)))
>>> print(write_tensor(tile, Options(element=dtype("f16"))), write_gmma(tile, Options(element=dtype("f16"))))
Sw<3,4,3> o smem_ptr[16b](unset) o (8,64):(64,1) GMMA::Layout_K_SW128_Atom<half_t>
"""

from __future__ import annotations

import re

from layoutalg.dtype import CUTLASS_NAMES
from layoutalg.errors import LayoutAlgError, ParseError, UnsupportedError
from layoutalg.f2 import LinearLayout
from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
    Layout,
    ScaledBasis,
    Swizzle,
    Swizzles,
    flatten_tree,
    has_symbols,
    to_text,
)
from layoutalg.notation.cute import parse_cute
from layoutalg.notation.form import (
    Options,
    Value,
    check_length,
    first,
    refuse,
    swizzle_in_bytes,
    swizzle_in_elements,
)
from layoutalg.notation.forms.constructors import element_of
from layoutalg.notation.forms.linear import as_layout
from layoutalg.notation.symbols import leaf_parts

TENSOR_BEGINS = re.compile(
    r"(?:(?:Sw<[^>\n]{1,40}>_)?(?:[gsr]mem_)?(?:sub)?ptr\[|tmem_\[|counting_iter\(|raw_ptr\(|ArithTuple\()"
)
DSL_BEGINS = re.compile(r"(?:S<|!cute\.|!memref_|tensor<|tensor\(|[-(0-9,?:{}a-z= ]*\?)")

_IR = re.compile(r"!cute\.(layout|composed_layout|memref|coord_tensor|swizzle)<(.*)>\s*", re.S)
_TENSOR = re.compile(r"tensor<\s*ptr<([^<>]*(?:<[^<>]*>[^<>]*)*)>\s+o\s+(.*)>\s*|tensor\((.*), data=.*", re.S)
_QUOTED = re.compile(r'"([^"]*)"')
_SWIZZLE = re.compile(r"S<\s*\d+\s*,\s*\d+\s*,\s*-?\d+\s*>")


# --- read ------------------------------------------------------------------------------------------------


def read_print(text: str, options: Options) -> Value:
    """Read what CuTe prints, in C++ or the DSL.  With the unit bytes, a swizzle alone acts on bytes."""
    value = parse_cute(text, options.symbols)
    if options.unit == "bytes":
        bits = options.need_element("a swizzle of bytes", "is of elements").bits
        return _swizzles_in_elements(text, value, bits)
    return value


def _swizzles_in_elements(text: str, value: AnyLayout | Swizzle, bits: int) -> AnyLayout | Swizzle:
    try:
        if isinstance(value, Swizzle):
            return swizzle_in_elements(value, bits)
        if isinstance(value, ComposedLayout) and value.swizzles:
            chain = [swizzle_in_elements(factor, bits) for factor in value.swizzles]
            return ComposedLayout(Swizzles(*chain), value.offset, value.inner)
    except ValueError as error:
        refuse(text, "a swizzle of bytes", error, 0)
    return value


def read_dsl(text: str, options: Options) -> Value:
    """A print of the CuTe DSL: a layout, a composed layout, a tensor, or one of them in !cute types."""
    check_length(text)
    if match := _IR.fullmatch(text, first(text)):
        return _of_ir(text, match, options)
    if match := _TENSOR.fullmatch(text, first(text)):
        if match[3]:
            return _shifted(text, match.start(3), match[3], options)
        return _of_pointer(text, match[1], match[2], match.start(2), options)
    for name in ("!memref_", "!cute.", "tensor<", "tensor("):
        if text.startswith(name, first(text)):
            known = "!cute.layout, composed_layout, memref and coord_tensor, and tensor<ptr<...> o ...>"
            refuse(text, "CuTe DSL", f"{name}... is known and not read: {known} are", first(text))
    return read_print(text, options)


def _of_ir(text: str, match: re.Match[str], options: Options) -> Value:
    quoted = list(_QUOTED.finditer(match[2]))
    if not quoted:
        refuse(
            text,
            "CuTe DSL",
            f'expected the text of a layout in quotes in !cute.{match[1]}<"...">',
            match.start(2),
        )
    start = match.start(2) + quoted[-1].start(1)
    if match[1] == "memref":
        return _of_pointer(text, match[2][: quoted[-1].start()], quoted[-1][1], start, options)
    return _shifted(text, start, quoted[-1][1], options)


def _of_pointer(text: str, pointer: str, layout: str, start: int, options: Options) -> Value:
    """A layout behind a pointer, which may permute bytes: f16, smem, align<1024>, S<3,4,3>."""
    value = _shifted(text, start, layout, Options(symbols=options.symbols))
    swizzle = _SWIZZLE.search(pointer)
    if swizzle is None or isinstance(value, (Swizzle, LinearLayout)):
        return value
    try:
        bits = element_of(re.split(r"[,\s]", pointer.strip())[0]).bits
        of_bytes = Swizzle(*map(int, re.findall(r"-?\d+", swizzle[0])))
        return ComposedLayout(swizzle_in_elements(of_bytes, bits), 0, value)
    except (LayoutAlgError, ValueError) as error:
        refuse(text, "CuTe DSL", getattr(error, "message", error), start)


def _shifted(text: str, start: int, part: str, options: Options) -> Value:
    """The value of a part of a text; errors give the position in the whole."""
    try:
        return read_print(part, options)
    except ParseError as error:
        refuse(text, "CuTe DSL", error.message, start + (error.position or 0))


# --- written ---------------------------------------------------------------------------------------------


def write_cute(value: Value, options: Options) -> str:
    """The notation of this library, which is CuTe's."""
    return str(as_layout(value)) if isinstance(value, LinearLayout) else str(value)


def write_tensor(value: Value, options: Options) -> str:
    """A tensor in shared memory, its swizzle of bytes under the pointer; coordinates where strides are along
    modes.  Raises UnsupportedError for what a pointer cannot say."""
    layout = _layout(value, "a tensor")
    if isinstance(layout, Layout):
        strides: tuple[object, ...] = flatten_tree(layout.stride)
        bases = [stride for stride in strides if isinstance(stride, ScaledBasis)]
        if bases:
            rank = 1 + max(basis.modes[0] for basis in bases)
            return f"ArithTuple({','.join('0' * rank)}) o {layout}"
    elif len(layout.swizzles) != 1 or not isinstance(layout.inner, Layout):
        raise UnsupportedError(f"a pointer has one swizzle over a layout of strides, and this is {layout}")
    bits = options.need_element("a pointer", "says the bits of its elements").bits
    if isinstance(layout, Layout):
        return f"smem_ptr[{bits}b](unset) o {layout}"
    chain = layout.swizzles
    try:
        swizzle = swizzle_in_bytes(chain[0], bits)
    except ValueError as error:
        raise UnsupportedError(f"a pointer permutes bytes, and {error}") from error
    if swizzle_in_elements(swizzle, bits) != chain[0]:
        raise UnsupportedError(f"a pointer permutes bytes, and {chain[0]} keeps bits of bytes below them")
    if not layout.offset:
        return f"{swizzle} o smem_ptr[{bits}b](unset) o {layout.inner}"
    address = layout.offset * bits
    if address % 8 or address // 8 >= swizzle.period:
        raise UnsupportedError(
            f"the offset {layout.offset} of {layout} is no address below the swizzle's period"
        )
    return f"{swizzle}_smem_ptr[{bits}b](0x{address // 8:x}) o {layout.inner}"


def write_dsl_print(value: Value, options: Options) -> str:
    """The DSL's print: S<3,4,3> o 0 o (8,64):(64,1), `?` for what is known at run time alone."""
    if isinstance(value, Swizzle):
        return f"S<{value.bits},{value.base},{value.shift}>"
    layout = _layout(value, "the CuTe DSL")
    if isinstance(layout, Layout) and has_symbols(layout):
        return f"{_dynamic(layout.shape)}:{_dynamic(layout.stride)}"
    return str(layout).replace("Sw<", "S<")


def _dynamic(tree: object) -> str:
    """A tree with each symbol as the unknown that it is; their names are not written."""
    if isinstance(tree, tuple):
        return f"({','.join(map(_dynamic, tree))})"
    if isinstance(tree, ScaledBasis):
        return f"{_dynamic(tree.value)}{''.join(f'@{mode}' for mode in reversed(tree.modes))}"
    parts = leaf_parts(tree, "the CuTe DSL's print")
    if parts is None:
        return to_text(tree)  # type: ignore[arg-type]  # an integer, as leaf_parts says
    return "?" if parts[0] == 1 else f"?{{div={parts[0]}}}"


def write_gmma(value: Value, options: Options) -> str:
    """The name of the atom of shared memory that a layout is.  Raises UnsupportedError where it is none."""
    from layoutalg.arch import SMEM_ATOMS, atom_layout

    layout = _layout(value, "an atom")
    element = options.need_element("gmma", "has the element type in its atoms' names")
    for name in SMEM_ATOMS:
        if element.name in CUTLASS_NAMES and atom_layout(name, element) == layout:
            return f"GMMA::{name}<{CUTLASS_NAMES[element.name]}>"
    raise UnsupportedError(
        f"{layout} is none of the atoms of shared memory for {element}: Layout_K_SW128_Atom, ..."
    )


def _layout(value: Value, what: str) -> AnyLayout:
    if isinstance(value, Swizzle):
        raise UnsupportedError(f"{what} has a shape, and {value} alone has none")
    return as_layout(value)
