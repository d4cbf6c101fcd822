"""The terms of reports, tables and certificates, each explained in a sentence or two.

>>> print(look_up("wavefronts"))
One pass over the banks of shared memory: at most one word from each bank. A phase takes as many wavefronts as
its busiest bank has different words to serve, an instruction the sum over its phases.
>>> list(GLOSSARY)[:4]
['access', 'alternative', 'atom', 'bank']
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from layoutalg.errors import UnknownNameError

_TEXT = """
access: An instruction and a mapping of threads to the elements of a tile: a TV layout onto flat indices of
  the tile's shape, independent of the tile's layout in memory.
alternative: Another layout than the one that was found, with its wavefronts and its extra memory.
atom: One instruction as a unit to tile with: the layouts of its threads and values (an MMA or copy atom),
  or the smallest block of shared memory that a swizzle mode repeats (a layout atom).
bank: One of the 32 banks of shared memory, 4 bytes wide; the bank of a byte address is (address / 4) mod 32.
  A bank serves one word at a time.
bank conflict: Lanes of one phase access different words of one bank, which serves them one after another.
  n-way means that the busiest bank of the worst instruction serves n words in a phase.
broadcast: Lanes of a phase that read the same word are served at once. A few instructions (red.shared,
  cp.async of 4 and 8 bytes) lack it.
certificate: The claim of a synthesis with the numbers that prove it, which can be checked without the
  search: why a layout is conflict-free, or which classes of layouts contain none that is.
clash: The accesses of a certificate for which no single layout of the named classes is conflict-free.
coalescing: Lanes of a warp that access neighbouring bytes of global memory share sectors; coalesced
  accesses move few bytes that no lane needs.
contender: A library that is timed beside this one.
coordinate: The position of an element in a shape: an integer, or a tuple with an entry per mode.
cosize: The extent of a layout in memory: its greatest offset plus 1.
domain: The coordinates of a layout, numbered 0 to size - 1 with the leftmost mode fastest (flat indices).
efficiency: Distinct bytes that lanes access, over the bytes of all sectors that are moved.
extra memory: Bytes that a layout takes in excess of the tile's: padding, or gaps of a swizzle mode.
F: The footprint of an access: the differences of the words that the lanes of one phase access, as a subspace
  over F2 of word numbers in storage order. Conflict-free means that K and F have only 0 in common.
F2: The numbers 0 and 1 with 1 + 1 = 0. Bits of an index are coordinates over F2, and addition without carry
  (XOR) is their addition.
family: A set of generated kernels for one operation, such as transpose or gemm-sm90, with its problems and
  its configurations.
fragment: The part of a matrix operand that one thread of a tensor-core instruction holds in registers.
ideal: The least wavefronts, or sectors, for the same lanes: one wavefront per phase with an active lane
  (more where equal words are not broadcast, and the 3 that the counter adds to cp.async of 4 and 8 bytes);
  the fewest sectors that hold the useful bytes.
index: The number of integer instructions of the index function, before a compiler optimises it.
instruction: One execution of a load, store or copy by a warp; an access has one per warp, vector of the
  thread's values and iteration.
K: The kernel of a layout's bank map: the words, numbered in storage order, that share a bank with word 0,
  as a subspace over F2. Two words share a bank exactly if their difference lies in K.
ladder: A published sequence of optimisation steps of a matrix product, each a configuration of a family.
lane: A thread's number within its warp, 0 to 31.
layout: A function from coordinates to offsets, written shape:stride: the sum of each coordinate times its
  stride.
line: 128 aligned bytes of global memory, which are cached together: 4 sectors.
linear layout: A layout that is linear over F2: the offset of a sum without carry is the sum without carry
  of the offsets. Row- and column-major tiles of power-of-two sides are, and stay so under swizzles.
method: How a count was computed: f2 (a rank over F2), gcd, digit-classes (one instruction of each class is
  counted), or enumerated (the definition, every instruction).
mode: One of the entries of a layout's shape, with its stride; modes may be nested. Of shared memory: see
  swizzle mode.
narrow-banks: A reason that no layout is conflict-free: if vectors stay contiguous, the words that a phase
  of another access reads can only be in fewer banks than there are words.
normal form: The canonical form of a swizzled layout: a chain of swizzles applied to an offset plus a plain
  layout, printed Sw<B,M,S> o offset o layout.
offset: The value of a layout at a coordinate: a distance from the start of the tile in elements.
open: What a certificate does not decide: layouts outside the classes that it names. One of them may be
  conflict-free.
padding: Unused elements after each row, so that rows start in different banks.
phase: The lanes of an instruction that shared memory serves together: 32 lanes of up to 4 bytes, 16 of 8, 8
  of 16 bytes; twice as many of a load of 8 or 16 bytes in which all neighbours, lanes l and l ^ 1 or all l
  and l ^ 2, read one address. Only lanes of one phase conflict.
provenance: How a hardware fact is known: measured (counted on hardware), documented (a manual states
  it) or assumed (taken from a counted rule of another architecture or instruction).
ring: A circular buffer of pipeline stages in shared memory.
role: What the warps of a warp-specialized kernel do, such as producer or consumer.
sector: 32 aligned bytes of global memory, the least that a load or store moves.
storage order: A tile without swizzle or padding: row (the last mode contiguous) or col (the first mode
  contiguous).
swizzle: Sw<B,M,S>, CuTe's Swizzle: a bijection of offsets that XORs B bits of the offset onto the B bits S
  positions lower (for S < 0, higher). The lowest M bits are unchanged.
swizzle mode: A swizzle of byte addresses that TMA and wgmma support: none, 32, 64 or 128 bytes.
synthesis: The search for a layout of a tile on which given accesses have no bank conflict; it returns a
  layout, or what it ruled out, with a certificate.
tile: A block of elements with a layout, usually in shared memory.
tiler: The second operand of a divide: a shape, a layout, or a tuple with one of them per mode.
TMA: The Tensor Memory Accelerator of sm_90 and later: copies boxes of a tensor that a tensor map describes.
turn: One iteration of a loop; in a drawn pipeline, one step of time.
TV layout: A thread-value layout, from (thread, value) to flat indices of a tile: which elements each
  thread holds or accesses. An access may have iterations as a third mode.
warp: 32 threads that execute an instruction together.
wavefront: One pass over the banks of shared memory: at most one word from each bank. A phase takes as many
  wavefronts as its busiest bank has different words to serve, an instruction the sum over its phases.
ways: See bank conflict.
wgmma: The asynchronous matrix instruction of a warpgroup on sm_90; operands in shared memory have canonical
  layouts, which a matrix descriptor encodes.
witness: An example by which a claim can be verified; of a count of conflicts, the worst instruction of an
  access, with its busiest bank and the lanes that access different words of it.
word: The 4 bytes that a bank serves at a time.
worst: The most wavefronts of one instruction of the access, of those past their ideal if there are any;
  beside it the ideal of that instruction.
worst base: The sectors at the worst base address, among those that the instruction's alignment allows.
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
    """The meaning of a term, in singular or plural; raises UnknownNameError with near names.

    >>> look_up("ways") == look_up("bank conflict") == look_up("Bank conflicts")
    True
    """
    return GLOSSARY[find_term(term)]


def find_term(term: str) -> str:
    """The name under which a term is in the glossary; raises as `look_up` does.

    >>> find_term("its ideal"), find_term("SECTORS"), find_term("k")
    ('worst', 'sector', 'K')
    """
    known = {name.lower(): name for name in GLOSSARY} | dict(_OTHER_NAMES)
    wanted = " ".join(str(term).lower().split())
    for name in (wanted, wanted.removesuffix("s"), wanted.removesuffix("es")):
        if name in known:
            entry = known[name]
            meaning = GLOSSARY[entry]
            return find_term(meaning[4:-1]) if meaning.startswith("See ") else entry
    raise UnknownNameError("term", term, GLOSSARY)
