"""Triton's encodings as text: #ttg.blocked<{...}> of the IR, and BlockedLayout(...) of Gluon.

The idea.  ENCODINGS has a record per encoding: its two names, its fields as both spell them, what makes its
map of them (triton_maps.py), and what finds the fields of a given map (triton_search.py).  ADD AN ENCODING
THERE.  Definitions may stand before an encoding that names them: `#mma = #ttg.nvidia_mma<{...}>`.

>>> from layoutalg.notation.form import Options
>>> text = "#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>"
>>> print(read_encoding(text, Options(shape=(64, 64))))
Sw<3,3,3> o 0 o (64,64):(64,1)

A map from offsets of shared memory is read as the layout of its tile, from coordinates to offsets; a map of
registers, lanes, warps and blocks as a LinearLayout.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NoReturn

from layoutalg.errors import LayoutAlgError, ShapeError, UnsupportedError
from layoutalg.f2 import LinearLayout
from layoutalg.layout import AnyLayout
from layoutalg.limits import Most
from layoutalg.notation.form import Options, Term, Value, check_length, first, read_term, refuse
from layoutalg.notation.forms import triton_maps as maps
from layoutalg.notation.forms import triton_search as search
from layoutalg.notation.forms.constructors import begin
from layoutalg.notation.forms.linear import padded, tile_of

FAMILY = "a Triton encoding"

Fields = Mapping[str, Any]


def _fields(names: str) -> tuple[tuple[str, str], ...]:
    """Fields as (IR, Gluon), of a text of IR=Gluon where either may lack."""
    return tuple((ir, own) for ir, _, own in (name.partition("=") for name in names.split()))


_CLUSTER = "CTAsPerCGA=ctas_per_cga CTASplitNum=cta_split_num CTAOrder=cta_order CGALayout=cga_layout"
"""The split of the tensor among the blocks of a cluster; these are fields of most encodings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """An encoding: its names, its fields as (IR, Gluon) in Gluon's order, its map, and the search for fields.

    `make` takes the fields and the shape; `find` takes a map, or a tile's layout for shared memory, and
    returns the fields or raises UnsupportedError with the reason.
    """

    mnemonic: str
    gluon: str
    fields: tuple[tuple[str, str], ...]
    make: Callable[[Fields, tuple[int, ...]], LinearLayout]
    find: Callable[[Any, Options], Fields] | None = None
    shared: bool = False
    own_shape: bool = False
    """Whether the text itself states the tensor's shape."""
    pads: bool = False
    """Whether offsets have pads between intervals."""


@dataclass(frozen=True, slots=True)
class _Encoded:
    """An encoding with the fields of a text."""

    encoding: Encoding
    fields: Fields

    def map(self, shape: tuple[int, ...]) -> LinearLayout:
        return self.encoding.make(self.fields, shape)


# --- maps of the fields ----------------------------------------------------------------------------------


def _blocks(fields: Fields) -> maps.Blocks:
    if "CGALayout" in fields:
        return tuple(fields["CGALayout"])
    if "CTAsPerCGA" not in fields:
        return ()
    each = fields["CTAsPerCGA"]
    order = fields.get("CTAOrder", tuple(reversed(range(len(each)))))
    return maps.blocks_of(each, fields.get("CTASplitNum", (1,) * len(each)), order)


def _tile(fields: Fields) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    return fields["sizePerThread"], fields["threadsPerWarp"], fields["warpsPerCTA"], fields["order"]


def _mma_parts(fields: Fields) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """version, warps and the instruction's tile, which texts of version 2 may leave out."""
    major, warps = fields["versionMajor"], fields["warpsPerCTA"]
    if major == 2 and "instrShape" not in fields:
        return major, warps, (1, 16, 8) if len(warps) == 3 else (16, 8)
    return major, warps, fields["instrShape"]


def _dot_op(fields: Fields, shape: tuple[int, ...]) -> LinearLayout:
    parent: _Encoded = fields["parent"]
    index = fields["opIdx"]
    k = len(shape) - (1 if index == 0 else 2)  # blocks along k hold copies of an operand
    blocks = tuple([(*b[:k], 0, *b[k + 1 :]) for b in _blocks(parent.fields)])
    if parent.encoding.mnemonic == "blocked":
        return maps.dot_operand_of_blocked(index, *_tile(parent.fields), shape, blocks)
    if parent.encoding.mnemonic != "nvidia_mma":
        raise UnsupportedError(f"dot_op of {parent.encoding.mnemonic}: of nvidia_mma and blocked it is read")
    width = fields.get("kWidth", 0)
    if not width:
        raise UnsupportedError("dot_op of nvidia_mma needs kWidth, the consecutive elements along k per lane")
    return maps.dot_operand(index, width, *_mma_parts(parent.fields), shape, blocks)


def _of_bases(fields: Fields, names: tuple[str, ...], shape: tuple[int, ...]) -> LinearLayout:
    """The map with these bases; its shape is what they reach where none is given."""
    ins = {name: fields.get(name, ()) for name in names}
    every = [basis for bases in ins.values() for basis in bases]
    reach = tuple([max(1, 1 << max(parts).bit_length()) for parts in zip(*every, strict=True)])
    if not every and not shape:
        raise UnsupportedError("no bases and no shape, so that the tensor has no rank")
    if shape and every and shape != reach:
        raise UnsupportedError(
            f"bases that reach {reach}, for a tensor of shape {shape}: give those of the tensor"
        )
    outs = [(f"dim{i}", extent) for i, extent in enumerate(reach or shape)]
    return LinearLayout(ins, outs)


def _swizzled_shared(fields: Fields, shape: tuple[int, ...]) -> LinearLayout:
    vec, per_phase, max_phase = fields["vec"], fields["perPhase"], fields["maxPhase"]
    return maps.swizzled_shared(vec, per_phase, max_phase, fields["order"], shape, _blocks(fields))


def _padded_shared(fields: Fields, shape: tuple[int, ...]) -> LinearLayout:
    """The map of offsets before the pads: of bases, or of an order and a shape."""
    if fields.get("block") or _blocks(fields):
        raise UnsupportedError("padded_shared of more than one block: its pads are of each block's offsets")
    extents = fields.get("shape", shape)
    if shape and extents != shape:
        raise UnsupportedError(f"padded_shared of shape {extents}, for a tensor of shape {shape}")
    if "offset" in fields:
        return _of_bases(fields, ("offset",), extents)
    return maps.swizzled_shared(1, 1, 1, fields["order"], extents)


def _nvmma_shared(fields: Fields, shape: tuple[int, ...]) -> LinearLayout:
    if fields.get("fp4Padded", False):
        raise UnsupportedError("fp4Padded: two addresses for one element, no layout")
    return maps.nvmma_shared(
        fields["swizzlingByteWidth"],
        fields["elementBitWidth"],
        shape,
        transposed=fields.get("transposed", False),
        blocks=_blocks(fields),
    )


_ENCODINGS = (
    Encoding(
        mnemonic="blocked",
        gluon="BlockedLayout",
        fields=_fields(
            "sizePerThread=size_per_thread threadsPerWarp=threads_per_warp warpsPerCTA=warps_per_cta "
            f"order=order {_CLUSTER}"
        ),
        make=lambda fields, shape: maps.blocked(*_tile(fields), shape, _blocks(fields)),
        find=search.find_blocked,
    ),
    Encoding(
        mnemonic="nvidia_mma",
        gluon="NVMMADistributedLayout",
        fields=_fields(
            f"versionMajor=version warpsPerCTA=warps_per_cta instrShape=instr_shape {_CLUSTER} versionMinor="
        ),
        make=lambda fields, shape: maps.nvidia_mma(*_mma_parts(fields), shape, _blocks(fields)),
        find=search.find_nvidia_mma,
    ),
    Encoding(
        mnemonic="dot_op",
        gluon="DotOperandLayout",
        fields=_fields("opIdx=operand_index parent=parent kWidth=k_width"),
        make=_dot_op,
    ),
    Encoding(
        mnemonic="slice",
        gluon="SliceLayout",
        fields=_fields("dim=dim parent=parent"),
        make=lambda fields, shape: maps.slice_of(fields["parent"].map, fields["dim"], shape),
    ),
    Encoding(
        mnemonic="linear",
        gluon="DistributedLinearLayout",
        fields=_fields("register=reg_bases lane=lane_bases warp=warp_bases block=block_bases =shape"),
        make=lambda fields, shape: _of_bases(fields, maps.DISTRIBUTED, fields.get("shape") or shape),
        find=search.find_linear,
        own_shape=True,
    ),
    Encoding(
        mnemonic="swizzled_shared",
        gluon="SwizzledSharedLayout",
        fields=_fields(f"vec=vec perPhase=per_phase maxPhase=max_phase order=order {_CLUSTER}"),
        make=_swizzled_shared,
        find=search.find_swizzled_shared,
        shared=True,
    ),
    Encoding(
        mnemonic="nvmma_shared",
        gluon="NVMMASharedLayout",
        fields=_fields(
            "swizzlingByteWidth=swizzle_byte_width elementBitWidth=element_bitwidth rank=rank "
            f"transposed=transposed fp4Padded=fp4_padded {_CLUSTER}"
        ),
        make=_nvmma_shared,
        find=search.find_nvmma_shared,
        shared=True,
    ),
    Encoding(
        mnemonic="padded_shared",
        gluon="PaddedSharedLayout",
        fields=_fields(
            "=interval_padding_pairs offset=offset_bases block=cga_layout shape=shape order=order "
            "CTAsPerCGA=ctas_per_cga CTASplitNum=cta_split_num CTAOrder=cta_order CGALayout="
        ),
        make=_padded_shared,
        find=search.find_padded_shared,
        shared=True,
        own_shape=True,
        pads=True,
    ),
    Encoding(
        mnemonic="shared_linear",
        gluon="SharedLinearLayout",
        fields=_fields("offset=offset_bases block=block_bases alignment=alignment"),
        make=lambda fields, shape: _of_bases(fields, maps.SHARED, shape),
        find=search.find_shared_linear,
        shared=True,
        own_shape=True,
    ),
)

ENCODINGS: Mapping[str, Encoding] = MappingProxyType({e.mnemonic: e for e in _ENCODINGS})
"""Every encoding that is read, by its mnemonic."""

_UNNAMED = "interval_padding_pairs"
"""The one field that the IR writes without its name: <[64:+4] {...}>."""

_IDENTITY, _IDENTITY_FIELDS = (
    "PaddedSharedLayout.with_identity_for",
    ("interval_padding_pairs", "shape", "order", "block"),
)
"""Gluon's other constructor of padded_shared, and its fields in order."""

_BY_GLUON = {encoding.gluon: encoding for encoding in ENCODINGS.values()}

_UNREAD = {
    **dict.fromkeys(
        ("amd_mfma", "amd_wmma", "AMDMFMALayout", "AMDWMMALayout"), "its maps are those of AMD's matrix cores"
    ),
    "amd_rotating_shared": "its maps are those of AMD's shared memory",
    "partitioned_shared": "its pieces lie apart",
    "shared": "the encoding of shared memory before Triton 3.2: see swizzled_shared and nvmma_shared",
    **dict.fromkeys(
        ("tensor_memory_encoding", "tensor_memory_scales_encoding", "TensorMemoryLayout"),
        "tensor memory has rows and columns, no offsets",
    ),
    "AutoLayout": "it is chosen by the compiler",
}
"""Encodings that are known by name and have no reader, and why."""

BEGINS = re.compile(
    r"(?:#[A-Za-z_]\w*\s*=\s*)?(?:#(?:ttg|triton_gpu|ttng|triton_nvidia_gpu|gluon|amdg)\."
    r"|(?:[A-Za-z_]\w*\.)*(?:"
    + "|".join([*_BY_GLUON, re.escape(_IDENTITY), *(name for name in _UNREAD if name.endswith("Layout"))])
    + r")\s*\()"
)
"""The beginning of a text of an encoding."""

_DEFINITION = re.compile(r"^[ \t]*(#[A-Za-z_]\w*)[ \t]*=", re.M)


def read_encoding(text: str, options: Options) -> Value:
    """The map of an encoding for a tensor of the given shape.

    Raises ParseError with line and column, ArgumentTypeError where the shape is needed.
    """
    check_length(text)
    known: dict[str, _Encoded] = {}
    starts = [match.start() for match in _DEFINITION.finditer(text)] or [0]
    Most.PARTS.guard(len(starts), "definitions of encodings in a text")
    if text[: starts[0]].strip():
        starts = [0]
    encoded, term = None, None
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        named = _DEFINITION.match(text, start)
        term = read_term(text[:end], FAMILY, begin(text, first(text, start)))
        encoded = _encoded(text, term, known)
        if named:
            known[named[1]] = encoded
    if encoded is None or term is None:
        refuse(text, FAMILY, "expected an encoding", 0)
    shape = options.shape or ()
    if not encoded.encoding.own_shape or ("order" in encoded.fields and "shape" not in encoded.fields):
        shape = options.need_shape(encoded.encoding.mnemonic)
    try:
        linear = encoded.map(shape)
        if encoded.encoding.pads:
            return _with_pads(linear, encoded.fields)
    except KeyError as error:
        refuse(text, FAMILY, f"{encoded.encoding.mnemonic} has no {error.args[0]}", term.start)
    except (LayoutAlgError, ValueError, TypeError, IndexError) as error:
        refuse(text, FAMILY, getattr(error, "message", error), term.start)
    return tile_of(linear) if encoded.encoding.shared else linear


def _with_pads(linear: LinearLayout, fields: Fields) -> AnyLayout:
    """The tile of a map of offsets, with the pads between its intervals."""
    tile = tile_of(linear)
    if isinstance(tile, LinearLayout):
        raise UnsupportedError("padded_shared whose bases hold an element twice, or not all")
    pairs = fields["interval_padding_pairs"]
    if not isinstance(pairs, tuple) or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
        raise UnsupportedError("padded_shared needs its intervals and pads, as in [64:+4]")
    return padded(tile, pairs)


def _encoded(text: str, term: Term, known: Mapping[str, _Encoded]) -> _Encoded:
    """The encoding that a term is, with its fields."""

    def fail(why: str, at: Term = term) -> NoReturn:
        refuse(text, FAMILY, why, at.start)

    if not isinstance(term.head, str) or term.quoted:
        fail("expected an encoding such as #ttg.blocked<{...}> or BlockedLayout(...)")
    if not term.groups:
        if term.head in known:
            return known[term.head]
        fail(f"{term.head} is not defined here: put its definition, {term.head} = ..., before it")
    identity = term.head.endswith(_IDENTITY)
    name = term.head.split(".")[-2 if identity else -1]
    encoding = ENCODINGS.get(name) if term.head[0] in "#!" else _BY_GLUON.get(name)
    if encoding is None:
        why = _UNREAD.get(name)
        fail(f"{name} is known and not read: {why}" if why else f"{name} is no encoding that is known here")
    spelled = 0 if term.head[0] in "#!" else 1
    names = {pair[spelled]: pair[0] or pair[1] for pair in encoding.fields if pair[spelled]}
    fields: dict[str, Any] = {}
    for key, part in _arguments(term):
        if key is None:
            order = _IDENTITY_FIELDS if identity else [ir or own for ir, own in encoding.fields]
            places = [n for n in order if n not in fields]
            if not places or (spelled == 0 and places[0] != _UNNAMED):
                fail("expected a field, such as order = [1, 0]", part)
            value = _field(text, part, known)
            nested = isinstance(value, tuple) and all(isinstance(basis, tuple) for basis in value)
            fields["CGALayout" if places[0] == "CTAsPerCGA" and nested else places[0]] = value
        elif key not in names or names[key] in fields:
            kind = "a field given twice" if key in names else f"no field of {name}"
            fail(f"{key} is {kind}", part)
        else:
            fields[names[key]] = _field(text, part, known)
    fields = {key: value for key, value in fields.items() if value is not None}
    if isinstance(fields.get("versionMajor"), tuple):
        fields["versionMajor"] = fields["versionMajor"][0]
    return _Encoded(encoding, fields)


def _arguments(term: Term) -> list[tuple[str | None, Term]]:
    """The fields of `<{...}>`, `<{...}, key = ...>` or `(...)`."""
    fields: list[tuple[str | None, Term]] = []
    for group in term.groups:
        for key, part in zip(group.keys, group.terms, strict=True):
            if key is None and part.head is None and part.groups[0].mark == "{":
                fields += zip(part.groups[0].keys, part.groups[0].terms, strict=True)
            else:
                fields.append((key, part))
    return fields


_WORDS: Mapping[str, Any] = {"true": True, "false": False, "True": True, "False": False, "None": None}


def _field(text: str, term: Term, known: Mapping[str, _Encoded]) -> Any:
    """The value of a field: an integer, a word, lists of integers, or an encoding."""
    if isinstance(term.head, int):
        return term.head
    if term.head is None and term.groups[0].mark in "([" and not any(term.groups[0].keys):
        return tuple([_field(text, part, known) for part in term.groups[0].terms])
    if isinstance(term.head, str) and term.head in _WORDS and not term.groups:
        return _WORDS[term.head]
    return _encoded(text, term, known)


# --- written ---------------------------------------------------------------------------------------------


def write_encoding(
    value: LinearLayout | AnyLayout, options: Options, encoding: Encoding, *, gluon: bool = False
) -> str:
    """A map as text of one encoding.  Raises UnsupportedError, with the reason, where there is none."""
    if encoding.find is None:
        raise UnsupportedError(f"{encoding.mnemonic} is read, and not written")
    try:
        fields = encoding.find(value, options)
    except ShapeError as error:  # of extents, or of a coordinate at which the layout has no offset
        raise UnsupportedError(f"no {encoding.mnemonic} for {value}: {error.message}") from error
    if encoding.pads:
        left_out = {"order"} if gluon else {"offset", "block"} if "order" in fields else {"shape"}
        fields = {key: field for key, field in fields.items() if key not in left_out}
    elif encoding.shared and not fields.get("block", True):
        fields = {key: field for key, field in fields.items() if key != "block"}
    if gluon and "versionMajor" in fields:
        fields = {**fields, "versionMajor": (fields["versionMajor"], fields.get("versionMinor", 0))}
    names = {ir or own: own if gluon else ir for ir, own in encoding.fields if gluon or ir != "rank"}
    equals, words = ("=", ("True", "False")) if gluon else (" = ", ("true", "false"))
    named = [(names.get(key), field) for key, field in fields.items()]
    inside = ", ".join([f"{name}{equals}{_text(field, *words)}" for name, field in named if name])
    if gluon:
        return f"{encoding.gluon}({inside})"
    more = ", alignment = 16" if encoding.mnemonic == "shared_linear" else ""
    if encoding.pads:
        pairs = ", ".join([f"{interval}:+{pad}" for interval, pad in fields["interval_padding_pairs"]])
        return f"#ttg.{encoding.mnemonic}<[{pairs}] {{{inside}}}>"
    return f"#ttg.{encoding.mnemonic}<{{{inside}}}{more}>"


def _text(value: Any, true: str, false: str) -> str:
    if isinstance(value, bool):
        return true if value else false
    return (
        f"[{', '.join(_text(part, true, false) for part in value)}]"
        if isinstance(value, tuple)
        else str(value)
    )
