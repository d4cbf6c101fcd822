"""Every reader of text as a function of bytes, for fuzzing: it answers, or raises a leaf of LayoutAlgError.

What is read is also written and read again, and must be the same.  The first byte says how the others make
a text: as UTF-8, or one piece of the reader's own vocabulary a byte, which gets further than noise.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy
import sympy

from layoutalg import errors
from layoutalg.analysis import Access
from layoutalg.arch import find_arch, find_instruction, find_smem_atom, find_swizzle_mode
from layoutalg.atoms import find_copy_atom, find_mma_atom
from layoutalg.cli.commands.layouts.solve import _symbolic, _term
from layoutalg.cli.inputs import parse_offsets, read_fail_on
from layoutalg.cli.kernel_names import read_ints
from layoutalg.compose import tiler_text
from layoutalg.dtype import dtype
from layoutalg.errors import ArgumentTypeError, LayoutAlgError
from layoutalg.layout import Layout, Swizzle, has_symbols, to_text
from layoutalg.notation import convert, parse, parse_int_tuple, parse_tiler
from layoutalg.reading import parse_index
from tests.draws import notation_cases

LEAVES = frozenset(
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, LayoutAlgError) and value is not LayoutAlgError
)
"""What a reader may raise."""

BLANKS = (
    *("\x0b", "\x0c", "\x1c", "\x1e", "\x85", "\u00a0", "\u2003", "\u2028", "\u3000", "\ufeff", "\0"),
    "\ud800",
)
"""Characters that Python takes for blanks, and others that no reader expects."""

NUMBERS = (
    *("0", "1", "2", "3", "4", "7", "8", "16", "33", "64", "1003", "-1", "00", "9" * 30, "9" * 5000),
    "\u0663",
)

LAYOUT_WORDS = (
    *("(", ")", ",", ":", "<", ">", "@", "_", "o", "+", "-", "*", " o ", "Sw<", "Sw<2,3,3>"),
    "Sw<3,4,3> o 0 o ",
    *("smem_ptr[16b](unset)", " ", "\t", "(4,8):(8,1)", "(2,2)", "n", "ld", "1@0", "n**2", "smem_ptr["),
    *("((", "))"),
    "b](unset)",
)
INDEX_WORDS = (
    *"()+-*/%&|^~<>u",
    *("<<", ">>", "//", "lane", "tid", "threadIdx.x", "warp", "reg", "0x", "0b1", " ", "ull"),
)
NOTATION_WORDS = (
    *"(){}[]<>,=:;?",
    *("Layout", "make_layout", "Shape", "Stride", "Swizzle<2,3,3>", "ComposedLayout", "Int<8>{}", "C<4>"),
    "_8",
    *("cute::", "cute.", "tuple<", "LayoutRight{}", "stride=", "shape=", "strides=", "size=", "itemsize=2"),
    *("#ttg.blocked<{", "sizePerThread = [1, 2]", "order = [1, 0]", "#ttg.linear<{", "register = [[0, 1]]"),
    *("Layout((8, 4), (4, 1))", "smem_ptr[16b](0x400) o ", "ArithTuple(0,0) o ", "(4,8):(8,1)", "\n", " "),
    *(" - offset=1 -> (0, 1)", "where out dims are: [dim0 (size 4)]", "GMMA::Layout_K_SW32_Atom<half_t>"),
)
OFFSETS = (
    *("[", "]", ",", "#", "-", "null", "None", "0x1f", "1e5", "\n", " ", "[[", "]]", "0 4", "0 null\n"),
    *('"', "{"),
    *("NaN", "[" * 3000),
)
NAMES = (
    *("f16", "f32", "bf16", "u8", "e4m3", "sm_90", "sm_", "SM80_", "16x8x16", "_F32F16F16F32_TN", "uint"),
    "_t>",
    *("UniversalCopy<", "Layout_K_SW128_Atom", "128B", "ld.shared.", "b32", "ldmatrix.x4", ".trans"),
    *("AutoVectorizingCopy", "SM75_U32x4_LDSM_N"),
)


class Reader(NamedTuple):
    """A reader and the pieces that its texts are made of."""

    read: Callable[[str], Any]
    words: tuple[str, ...]


def _layout(text: str) -> None:
    found = parse(text)
    unknown = isinstance(found, Layout) and has_symbols(found)  # `?`, whose names are not written
    assert parse(convert(found, "dsl-print") if unknown else str(found)) == found


def _notation(text: str) -> None:
    """Written in every form that can express it, and read again."""
    try:
        found = parse(text)
    except ArgumentTypeError:
        found = parse(text, shape=(8, 16))
    if isinstance(found, Swizzle) or (isinstance(found, Layout) and has_symbols(found)):
        return
    for form in notation_cases.forms(found):
        assert not notation_cases.judged(found, form, "f16").startswith("WRONG"), form


def _in_symbols(text: str) -> None:
    names = {name: sympy.Symbol(name, integer=True, positive=True) for name in ("n", "ld")}
    found = parse(text, names)
    assert str(parse(str(found), names)) == str(found)


def _shape(text: str) -> None:
    found = parse_int_tuple(text)
    assert parse_int_tuple(to_text(found)) == found


def _tiler(text: str) -> None:
    found = parse_tiler(text)
    assert parse_tiler(tiler_text(found)) == found


_LANES = {"lane": numpy.arange(4), "tid": numpy.arange(32, 36), "warp": numpy.array(1), "reg": numpy.array(2)}


def _exact(text: str, values: dict[str, int]) -> int:
    """The value of an index in Python's integers."""
    plain = re.sub(
        r"\b(0[xX][0-9a-fA-F]+|0[bB][01]+|[0-9]+)[uUlL]*", r"\1", text.replace("threadIdx.x", "tid")
    )
    python = f"({re.sub('//?', '//', plain)})"
    return int(eval(python, {}, values | {"laneid": values["lane"]}))  # noqa: S307


def _index(text: str) -> None:
    got = numpy.broadcast_to(parse_index(text)(**_LANES), (4,)).tolist()
    for i, value in enumerate(got):
        assert value == _exact(text, {k: int(v.flat[i % v.size]) for k, v in _LANES.items()})


_TILE = Layout((32, 16), (16, 1))

READERS: dict[str, Reader] = {
    "parse": Reader(_layout, LAYOUT_WORDS),
    "notations": Reader(_notation, NOTATION_WORDS),
    "parse, symbols": Reader(_in_symbols, LAYOUT_WORDS),
    "parse_int_tuple": Reader(_shape, LAYOUT_WORDS),
    "parse_tiler": Reader(_tiler, LAYOUT_WORDS),
    "parse_index": Reader(_index, INDEX_WORDS),
    "offsets": Reader(lambda text: parse_offsets("x", text.encode("utf-8", "surrogatepass"), 2), OFFSETS),
    "solve, layout": Reader(_symbolic, LAYOUT_WORDS),
    "solve, base": Reader(lambda text: _term(text, "base"), ("*", "+", "-", "ld", "n", " ")),
    "shape": Reader(lambda text: read_ints("shape", text), ("(", ")", ",", "-", " ", "64", "1024")),
    "fail-on": Reader(read_fail_on, ("conflicts", "efficiency", "<", ".", "0.9", "1", " ", ">", "e")),
    "access": Reader(
        lambda text: Access.of(text, _TILE, "f16"),
        ("ld.shared.b16", "ld.global.b32", "ldmatrix.x4", "@", "row", "col", *"(),:<>", "(32,1):(1,0)"),
    ),
    "instruction": Reader(lambda text: find_instruction(text, find_arch("sm_90")), NAMES),
    **{name: Reader(read, NAMES) for name, read in (
        ("dtype", dtype), ("arch", find_arch), ("mma atom", find_mma_atom), ("copy atom", find_copy_atom),
        ("smem atom", find_smem_atom), ("swizzle mode", find_swizzle_mode),
    )},
}  # fmt: skip
"""Name -> reader."""


WHOLE = (
    *("((2,4),8):((1,16),2)", "Sw<3,4,3> o 0 o (8,64):(64,1)"),
    *("Sw<2,3,3> o smem_ptr[16b](unset) o (_8,_64):(_64,_1)", "(4:1,_,(2,2))", "(4,8):(1@0,1@1)"),
    *("((2,4),8)", "(8,1):(ld,2*ld)", "(lane//8)*144 + (lane%8)*16 ^ 0x10 << 2", "efficiency<0.9"),
    *("ldmatrix.x4@(32,8):(1,32)", "UniversalCopy<uint64_t>", "[1, null, 0]", "2*ld+8", "64,128,(3)"),
    "cute::Layout<cute::tuple<cute::C<8>, cute::C<64>>, cute::tuple<cute::C<64>, cute::C<1>>>",
    "make_layout(make_shape(Int<8>{}, 64), make_stride(_64{}, Int<1>{}))",
    "cute.make_composed_layout(cute.make_swizzle(3, 3, 3), 0, cute.make_layout((8, 64), stride=(64, 1)))",
    "#ttg.blocked<{sizePerThread = [1, 2], threadsPerWarp = [8, 4], warpsPerCTA = [1, 1], order = [1, 0]}>",
    "#ttg.swizzled_shared<{vec = 2, perPhase = 1, maxPhase = 4, order = [1, 0]}>",
    *("shape=(8, 64), strides=(128, 2), itemsize=2", " - offset=1 -> (0, 1)\n   offset=2 -> (1, 0)"),
)
"""Texts that some reader takes; a few pieces of each are exchanged."""


def text_of(reader: Reader, raw: bytes) -> str:
    """The text that bytes stand for."""
    how, rest = raw[:1], raw[1:]
    if not rest or how[0] % 4 == 0:
        return rest.decode("utf-8", "replace")
    words: tuple[str, ...] = (*reader.words, *reader.words, *NUMBERS[:12])
    if how[0] % 4 == 1:
        words = (*words, *NUMBERS, *BLANKS)
    if how[0] % 4 < 3:
        return "".join(words[byte % len(words)] for byte in rest)
    text = WHOLE[rest[0] % len(WHOLE)]
    for at, byte in zip(rest[1:7:2], rest[2:7:2], strict=False):
        start = at % (len(text) + 1)
        text = text[:start] + words[byte % len(words)] + text[start + at // 128 :]
    return text


def check(name: str, raw: bytes) -> bool:
    """One run of a reader: True when it answers, False when it refuses by a leaf; anything else is raised."""
    reader = READERS[name]
    try:
        reader.read(text_of(reader, raw))
    except LayoutAlgError as error:
        assert type(error) in LEAVES, f"{name} raises {type(error).__name__}, which is no leaf"
        str(error)
        return False
    return True


def draw_bytes(draw: random.Random) -> bytes:
    """Bytes of a short text."""
    return draw.randbytes(1 + min(int(draw.expovariate(0.12)), 60))
