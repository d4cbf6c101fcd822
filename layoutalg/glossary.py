"""The words that reports, tables and sentences of the project use, each in a sentence or two.

>>> print(look_up("wavefronts"))
One pass over the banks of shared memory: at most one word from each bank. An instruction takes as many as the
busiest bank of each of its phases has different words to serve.
>>> list(GLOSSARY)[:4]
['access', 'alternative', 'atom', 'bank']
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from layoutalg.errors import UnknownNameError

_TEXT = """
access: Who touches which elements of a tile with which instruction: a TV layout onto flat indices of the
  tile's shape, independent of where the elements lie.
alternative: Another layout beside the one that was found, with its wavefronts and the memory it takes
  beyond the tile.
atom: One instruction as a unit to tile with: the layouts of its threads and values (an MMA or copy atom),
  or the smallest block of shared memory that a swizzle mode repeats (a layout atom).
bank: One of 32 columns of shared memory, 4 bytes wide; the bank of a byte address is (address / 4) mod 32.
  A bank serves one word at a time.
bank conflict: Lanes of one phase ask one bank for different words, which it serves one after another. n-way
  means that the busiest bank of the worst instruction serves n words in a phase.
broadcast: Lanes of a phase that ask for the same word get it at once. A few instructions (red.shared,
  cp.async of 4 and 8 bytes) lack it.
certificate: What a synthesis claims, in numbers that can be checked without the search: why a layout is
  conflict-free, or of which classes of layouts none is.
clash: The accesses of a certificate that cannot be served together by a layout of the classes that it
  names.
coalescing: Lanes of a warp that ask for neighbouring bytes of global memory share sectors; coalesced
  accesses move few bytes that nobody asked for.
coordinate: The place of an element in a shape: an integer, or a tuple with an entry per mode.
cosize: The length of the memory that a layout reaches: its last offset plus 1.
domain: The coordinates of a layout, numbered 0 to size - 1 with the leftmost mode fastest (flat indices).
efficiency: Distinct bytes that are asked for, over bytes of all sectors that are moved.
extra memory: Bytes that a layout takes beyond those of the tile: padding, or gaps of a swizzle mode.
F: The footprint of an access: the differences of the words that the lanes of one phase reach, as a subspace
  over F2 of word numbers in storage order. Conflict-free means that K and F share 0 alone.
F2: The numbers 0 and 1 with 1 + 1 = 0. Bits of an index are coordinates over F2, and addition without carry
  (XOR) is their addition.
fragment: The part of a matrix operand that one thread of a tensor-core instruction holds in registers.
ideal: The wavefronts, or sectors, that the same lanes would take at best: one wavefront per phase with an
  active lane (more where equal words are not broadcast); the fewest sectors that hold the useful bytes.
index: Integer instructions of the function that gives the offset of a coordinate, as they stand before a
  compiler sees them.
instruction: One warp-wide execution of a load, store or copy; an access has one per warp, register of the
  thread and iteration.
K: The kernel of a layout's bank map: the words, numbered in storage order, that share a bank with word 0,
  as a subspace over F2. Two words share a bank exactly if their difference lies in K.
lane: A thread's number within its warp, 0 to 31.
layout: A function from coordinates to offsets, written shape:stride: the sum of each coordinate times its
  stride.
line: 128 aligned bytes of global memory, which are cached together: 4 sectors.
linear layout: A layout that is linear over F2: the offset of a sum without carry is the sum without carry
  of the offsets. Row- and column-major tiles of power-of-two sides are, and stay so under swizzles.
method: How a count was found: f2 (a rank), gcd, digit-classes (one instruction of each sort counted), or
  enumerated (the definition, every instruction).
mode: One of the entries of a layout's shape, with its stride; modes may be nested. Of shared memory: see
  swizzle mode.
narrow-banks: A reason that none exists: vectors that stay whole leave an access fewer banks than it asks
  for words in one phase.
normal form: The one spelling of a swizzled layout: a chain of swizzles applied to an offset plus a plain
  layout, printed Sw<B,M,S> o offset o layout.
offset: What a layout answers: a distance from the start of the tile in elements.
open: What a certificate says nothing about: layouts outside the classes that it names. There may be one
  without conflicts.
padding: Elements left free after each row, so that rows start in different banks.
phase: The lanes of an instruction that shared memory serves together: 32 lanes of up to 4 bytes, 16 of 8, 8
  of 16 bytes. Only lanes of one phase conflict.
provenance: How far a hardware fact is known: measured (counted on hardware), documented (a manual states
  it) or assumed (taken from a counted rule of another architecture or instruction).
sector: 32 aligned bytes of global memory, the least that a load or store moves.
storage order: A tile without swizzle or padding: row (the last mode contiguous) or col (the first mode
  contiguous).
swizzle: Sw<B,M,S>: a bijection of offsets that adds, without carry (XOR), B bits of the offset to B others,
  S places lower (for S < 0, higher). The lowest M bits stay.
swizzle mode: One of the swizzles of byte addresses that TMA and wgmma know: none, or over spans of 32, 64
  or 128 bytes.
synthesis: The search for a layout of a tile on which given accesses have no bank conflict; it answers with
  a layout or with what it ruled out, and a certificate of either.
tile: The block of elements that a layout places, usually in shared memory.
tiler: What a layout is divided by: a shape, a layout, or a tuple with one of them per mode.
TMA: The Tensor Memory Accelerator of sm_90 and later: copies boxes of a tensor that a tensor map describes.
TV layout: A layout from (thread, value) to flat indices of a tile: which elements each thread holds or
  touches. An access may have iterations as a third mode.
warp: 32 threads that execute an instruction together.
wavefront: One pass over the banks of shared memory: at most one word from each bank. An instruction takes
  as many as the busiest bank of each of its phases has different words to serve.
ways: See bank conflict.
wgmma: The product of a warpgroup on sm_90; its operands lie in shared memory in canonical layouts, each of
  which a descriptor names.
witness: The worst instruction of an access, with its busiest bank and the lanes that ask it for different
  words: what a count of conflicts can be verified on.
word: The 4 bytes that a bank serves at a time.
worst: The most wavefronts of one instruction of the access; beside it the ideal of that instruction.
worst base: The sectors at the base address, of those that the instruction allows, at which it needs most.
"""


def _entries(text: str) -> dict[str, str]:
    """Term -> meaning, of lines `term: meaning` that go on where they are indented."""
    lines = text.strip().replace("\n  ", " ").split("\n")
    return {term: meaning for term, _, meaning in (line.partition(": ") for line in lines)}


GLOSSARY: Mapping[str, str] = MappingProxyType(_entries(_TEXT))
"""Term -> what it means, in alphabetical order; read only."""

_OTHER_NAMES: Mapping[str, str] = MappingProxyType({
    "conflict": "bank conflict", "its ideal": "worst", "kind": "layout", "footprint": "F", "kernel": "K",
    "moved bytes": "sector", "thread-value layout": "TV layout", "phase group": "phase", "box": "TMA",
})  # fmt: skip
"""Words that tables use -> the term under which they are explained."""


def look_up(term: str) -> str:
    """What a term means, in singular or plural; raises UnknownNameError with near names.

    >>> look_up("ways") == look_up("bank conflict") == look_up("Bank conflicts")
    True
    """
    return GLOSSARY[find_term(term)]


def find_term(term: str) -> str:
    """The name under which a term stands in the glossary; raises as `look_up` does.

    >>> find_term("its ideal"), find_term("SECTORS"), find_term("k")
    ('worst', 'sector', 'K')
    """
    known = {name.lower(): name for name in GLOSSARY} | dict(_OTHER_NAMES)
    wanted = " ".join(str(term).lower().split())
    for name in (wanted, wanted.removesuffix("s"), wanted.removesuffix("es")):
        if name in known:
            found = known[name]
            meaning = GLOSSARY[found]
            return find_term(meaning[4:-1]) if meaning.startswith("See ") else found
    raise UnknownNameError("term", str(term), GLOSSARY)
