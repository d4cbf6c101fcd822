"""The rules of a wgmma operand in shared memory, and which of them a layout breaks.

The idea.  A layout is an operand when it is canonical for one of the swizzle modes (layoutalg.analysis.
canonical).  When it is not, the reason is looked for from the inside outwards, and the first thing wrong is
named with the nearest layout that is right:

    chunk      16 bytes along the major mode are contiguous
    pitch      the rows of an atom are 16, 32, 64 or 128 bytes apart
    swizzle    the mode of that pitch has its own XOR
    atom       an instruction takes whole atoms
    repeat     more atoms follow at equal distances, LBO and SBO

>>> from layoutalg.layout import Layout
>>> kind = WGMMA_TYPES["f16"]
>>> print(diagnose(Layout((64, 16), (72, 1)), kind, "K", Layout((64, 64), (72, 1)), 64))
wgmma.pitch: rows of 16-byte chunks are 144 bytes apart; accepted are 16, 32, 64, 128 bytes; \
nearest: Sw<3,3,3> o 0 o ((8,8),(64,1)):((64,512),(1,0))

Sources.  PTX ISA, wgmma.mma_async, "Shared Memory Matrix Layout" and "Canonical Layouts".
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from layoutalg.algebra import tile_to_shape
from layoutalg.arch import (
    CHUNK_BYTES,
    WGMMA_TYPES,
    Arch,
    Major,
    SwizzleMode,
    WgmmaType,
    atom_layout,
    find_arch,
    find_smem_atom,
)
from layoutalg.compose import find_normal_form
from layoutalg.dtype import DType, dtype
from layoutalg.errors import AlignmentError, UnsupportedError
from layoutalg.layout import AnyLayout, ComposedLayout
from layoutalg.legality.canonical import (
    MAJORS,
    canonical_digits,
    is_whole,
    match_mode,
    operand_shape,
    recognize,
)
from layoutalg.legality.rules import Rule, Violation

_SYNTAX = "PTX ISA, wgmma.mma_async, syntax and description"
_CANONICAL = "PTX ISA, wgmma.mma_async, Canonical Layouts"
_FORMAT = "PTX ISA, wgmma.mma_async, Matrix Descriptor Format"

_RULES = (
    Rule("wgmma.type", "the operand types go together", _SYNTAX, UnsupportedError),
    Rule("wgmma.accumulator", "the accumulator type exists for the operand types", _SYNTAX, UnsupportedError),
    Rule("wgmma.n", "N is a multiple of 8 (of 16 past 32 for integers) up to 256", _SYNTAX),
    Rule("wgmma.source", "B lies in shared memory, A there or in registers", _SYNTAX, UnsupportedError),
    Rule("wgmma.transpose", "only 16-bit operands may be MN-major", _SYNTAX, UnsupportedError),
    Rule("wgmma.extent", "a tile is whole instructions", _SYNTAX),
    Rule("wgmma.major", "the operand is contiguous along its major mode", _CANONICAL),
    Rule("wgmma.chunk", "16 bytes along the major mode are contiguous", _CANONICAL),
    Rule("wgmma.pitch", "rows of an atom are 16, 32, 64 or 128 bytes apart", _CANONICAL),
    Rule("wgmma.swizzle", "the swizzle is that of the mode", _CANONICAL),
    Rule("wgmma.atom", "an instruction takes whole atoms", _CANONICAL),
    Rule("wgmma.repeat", "atoms follow each other at equal distances", _CANONICAL),
    Rule("wgmma.start", "an operand starts at a multiple of 16 bytes, its pattern at one of 128", _FORMAT,
         AlignmentError),
    Rule("wgmma.offset", "starts, LBO and SBO are multiples of 16 bytes below 2^18", _FORMAT, AlignmentError),
    Rule("wgmma.descriptor", "the descriptor is that of the operand's first instruction", _FORMAT),
)  # fmt: skip

WGMMA_RULES: Mapping[str, Rule] = MappingProxyType({rule.name: rule for rule in _RULES})
"""Every rule by name; read only."""


def nearest_layout(kind: WgmmaType, major: Major, shape: tuple[int, int], rows: int) -> AnyLayout:
    """The widest atom of which an instruction takes whole ones, tiled to `shape` rounded up to instructions.

    `rows` is what an instruction takes along M or N.

    >>> print(nearest_layout(WGMMA_TYPES["bf16"], "MN", (96, 32), 96))
    Sw<2,3,3> o 0 o ((32,3),(8,4)):((1,256),(32,768))
    """
    mn, k = -(-shape[0] // rows) * rows, -(-shape[1] // kind.k) * kind.k
    bits = dtype(kind.name).bits

    def fits(mode: SwizzleMode) -> bool:
        width = 8 * mode.row_bytes // bits
        return k % width == 0 if major == "K" else rows % width == 0

    mode = max(filter(fits, kind.modes(major)), key=lambda mode: mode.row_bytes)
    return tile_to_shape(atom_layout(find_smem_atom(f"Layout_{major}_{mode.atom}_Atom"), kind.name), (mn, k))


def broken(rule: str, asked: str, accepted: str, nearest: AnyLayout) -> Violation:
    """A broken rule that another layout would keep.

    >>> from layoutalg.layout import Layout
    >>> broken("wgmma.chunk", "no", "yes", Layout(8)).fix
    (('layout', Layout(8, 1)),)
    """
    return WGMMA_RULES[rule].broken(asked, accepted, str(nearest), layout=nearest)


def diagnose(part: AnyLayout, kind: WgmmaType, major: Major, whole: AnyLayout, rows: int) -> Violation:
    """Why `part`, what one instruction takes of the tile `whole`, is not canonical: the innermost reason.

    >>> from layoutalg.layout import Layout
    >>> columns = Layout((8, 16), (1, 8))
    >>> diagnose(columns, WGMMA_TYPES["f16"], "K", columns, 8).rule.name
    'wgmma.major'
    """
    bits = dtype(kind.name).bits
    nearest = nearest_layout(kind, major, operand_shape(whole), rows)
    other = next(m for m in MAJORS if m != major)
    canonical = recognize(part, other, kind.name, kind.modes(other))
    if canonical:
        fault = f"{major}-major is asked, the layout is {canonical.major}-major of mode {canonical.mode}"
        if major == "MN" or kind.transposable:
            rule = WGMMA_RULES["wgmma.major"]
            return rule.broken(fault, f"{major}-major layouts", f"major {other}", major=other)
        return broken("wgmma.major", fault, f"{major}-major layouts", nearest)
    plain, swizzles = _parts(part)
    for mode in kind.modes(major):
        swizzle = mode.in_elements(bits)
        if is_whole(mode, major, bits, operand_shape(part)):
            under = ComposedLayout(swizzle, 0, plain)
            if match_mode(under, mode, major, bits).found:
                inner, _ = _parts(whole)
                right = ComposedLayout(swizzle, 0, inner) if swizzle.bits else inner
                fault = f"the swizzle is {swizzles}"
                return broken("wgmma.swizzle", fault, f"{swizzle}, of mode {mode}", right)
    return _walk(part, plain, kind, major, nearest)


def _parts(layout: AnyLayout) -> tuple[AnyLayout, str]:
    """The layout without its swizzles, and these as text."""
    form = find_normal_form(layout)
    if form is None or not form.swizzles:
        return layout if form is None else form.whole, "none"
    return form.layout, str(form.swizzles)


def _walk(part: AnyLayout, plain: AnyLayout, kind: WgmmaType, major: Major, nearest: AnyLayout) -> Violation:
    """The first digit of a canonical coordinate at which the layout, without its swizzle, departs."""
    bits = dtype(kind.name).bits
    mn, k = operand_shape(part)
    chunk, origin = 8 * CHUNK_BYTES // bits, plain(0)
    along = {"K": mn, "MN": 1}  # flat coordinates from one element to the next along the major mode
    across = {"K": 1, "MN": mn}

    def contiguous(which: Major) -> bool:
        count = min(chunk, k if which == "K" else mn)
        return all(plain(i * along[which]) == origin + i for i in range(count))

    if not contiguous(major):
        other = next(m for m in MAJORS if m != major)
        if contiguous(other):
            fault = f"the layout is contiguous along {'M or N' if major == 'K' else 'K'}"
            return broken("wgmma.major", fault, f"{major}-major layouts", nearest)
        fault = f"{chunk} elements along the major mode are not contiguous from offset {origin}"
        return broken("wgmma.chunk", fault, f"strides of 1 over {CHUNK_BYTES} bytes", nearest)
    pitch = plain(across[major]) - origin
    modes = kind.modes(major)
    mode = next((mode for mode in modes if 8 * mode.row_bytes == pitch * bits), None)
    if mode is None:
        fault = f"rows of 16-byte chunks are {pitch * bits / 8:g} bytes apart"
        accepted = ", ".join(str(mode.row_bytes) for mode in modes)
        return broken("wgmma.pitch", fault, f"{accepted} bytes", nearest)
    if not is_whole(mode, major, bits, (mn, k)):
        width = 8 * mode.row_bytes // bits
        taken = k if major == "K" else mn
        fault = f"rows of mode {mode} have {width} elements, an instruction takes {taken}"
        accepted = f"at most {width}" if major == "K" else f"multiples of {width}"
        return broken("wgmma.atom", fault, accepted, nearest)
    for digit in canonical_digits(mode, major, bits, (mn, k)):
        unit = digit.unit * (1 if digit.axis == 0 else mn)
        step = plain(unit) - origin if digit.extent > 1 else 0
        wanted = step if isinstance(digit.stride, str) else digit.stride
        for i in range(1, digit.extent):
            if plain(i * unit) != origin + i * wanted:
                at = (plain(i * unit) - origin) * bits / 8
                fault = f"number {i} of the {digit.what} is {at:g} bytes on"
                return broken("wgmma.repeat", fault, f"{i * wanted * bits / 8:g} bytes", nearest)
    witness = match_mode(part, mode, major, bits).witness
    fault = f"the layout departs from mode {mode} at coordinate {witness} of an instruction's part"
    return broken("wgmma.repeat", fault, "sums of the strides of a canonical layout", nearest)


def best_guess(layout: AnyLayout, kind: WgmmaType) -> Major:
    """The major-ness to explain when none was requested: MN where only M or N is contiguous, else K.

    >>> from layoutalg.layout import Layout
    >>> best_guess(Layout((64, 16), (1, 64)), WGMMA_TYPES["f16"])
    'MN'
    """
    mn, _ = operand_shape(layout)
    first, along_mn, along_k = (layout(i) for i in (0, 1, mn))
    return "MN" if along_mn - first == 1 and along_k - first != 1 else "K"


def require_wgmma(arch: str | Arch) -> None:
    """Raise UnsupportedError for an architecture without wgmma.

    >>> require_wgmma("sm_90a")
    """
    machine = find_arch(arch)
    if machine.compute_capability[0] != 9:
        raise UnsupportedError(f"{machine.name} has no wgmma; sm_90a has")


def no_type(element: DType, argument: str = "element") -> Violation:
    """A type that wgmma does not multiply; `argument` is what the caller calls it.

    >>> no_type(dtype("f32")).change
    'tf32'
    """
    nearest = "tf32" if element.bits == 32 else "f16"
    fault, accepted = f"operands of {element}", ", ".join(WGMMA_TYPES)
    return WGMMA_RULES["wgmma.type"].mended(fault, [accepted], **{argument: nearest})


def no_n(kind: WgmmaType, n: int, nearest: int) -> Violation:
    """An N that wgmma does not have.

    >>> no_n(WGMMA_TYPES["s8"], 40, 32).accepted
    '8, 16, 24, 32, 48, 64, ..., 256'
    """
    return WGMMA_RULES["wgmma.n"].mended(f"N is {n} for {kind.name}", kind.n_sizes, n=nearest)
