"""The reads of a permute's vectors from the tile: elements that lie side by side come by one load.

The idea.  Element e of a vector is staged at byte `Store.place(e)`, which changes from vector to vector.
The common divisor of all changes says how places are aligned; elements whose places change together keep
the distances that they have in the first vector.  So where that one has elements in an aligned window of 2
to 16 bytes, all vectors have, and the window is one load.  Its elements need not be consecutive:

    f32 (2,1024) -> (1024,2), vec 4, rows of 4096 bytes      vector w, byte     8 w + (0 4096 4 4100)
                                                             two loads of 8     elements 0, 2 and 1, 3

A compiler joins such loads by itself where it can prove as much.  Then the program says one thing and the
machine does another, which nobody has counted; so the program states the joined load, and the prediction
uses the same rule.

Worked example.  Positions in the run are 4 w + e, digits of a mixed radix (2, 1024).  2 divides 4, so the
first digit is e % 2 whatever w is; what is left, 2 w + e // 2, is the second.  It changes by multiples of 2,
and so does the place by multiples of 8 bytes, that of all four elements alike.

Notes.  Windows are never wider than what the swizzle keeps together.  Elements of broadcast modes lie in one
place and are loaded once.  The rule is conservative where a digit that changes is carried into another (then
only elements of the same carry are of one kind), and where changes of several coordinates make up for one
another: it takes them for independent, as the proof of a program's alignment does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd, prod
from typing import Any

import numpy as np

from layoutalg.kernels.move.partition import Load, Store, block_base
from layoutalg.kernels.move.problem import WIDTHS_BYTES
from layoutalg.kernels.move.stage import WORD_BYTES, Stage


@dataclass(frozen=True, slots=True)
class Read:
    """A load of `nbytes`: its slot i holds the elements `slots[i]` of a vector, all at the same place."""

    nbytes: int
    slots: tuple[tuple[int, ...], ...]

    @property
    def first(self) -> int:
        """The element at whose place the load starts."""
        return self.slots[0][0]

    @property
    def words(self) -> int:
        """Registers that it fills."""
        return -(-self.nbytes // WORD_BYTES)

    @property
    def elements(self) -> tuple[int, ...]:
        """All elements that it loads."""
        return tuple(e for slot in self.slots for e in slot)

    def byte(self, e: int) -> int:
        """The first byte of element e in the load."""
        slot = next(i for i, slot in enumerate(self.slots) if e in slot)
        return slot * self.nbytes // len(self.slots)


def reads(stage: Stage) -> tuple[Read, ...]:
    """The loads of a vector's elements; where runs are turned, of words at the elements of its first run.

    Every element is in one of them, they come by their first elements, and the widest possible are taken.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> from layoutalg.kernels.move.stage import PermuteConfig
    >>> x = normalise(permute_problem((2, 1 << 20), (1, 0), "f32"))
    >>> [(r.nbytes, r.slots) for r in reads(Stage(x, PermuteConfig("staged", (2, 1024), 256, 4, 4)))]
    [(8, ((0,), (2,))), (8, ((1,), (3,)))]
    """
    return _reads(stage.arranged(lanes=0))


@lru_cache(maxsize=64)
def _reads(stage: Stage) -> tuple[Read, ...]:
    """`reads` of all lanes that a run has: no others change a vector."""
    width = WORD_BYTES if stage.config.turned else stage.size
    swizzle, (aligned, kind_of) = stage.config.swizzle, kinds(stage)
    origins = (0,) * stage.moves.rank
    vector = Store(stage, 0, origins, block_base(stage, origins))
    together = gcd(aligned, 1 << swizzle.base if swizzle.bits else max(WIDTHS_BYTES))
    waiting: dict[tuple[int, int], list[int]] = {}
    places = np.broadcast_to(vector.place(np.arange(len(kind_of))), len(kind_of)).tolist()
    for e, found_at in enumerate(zip(kind_of, places, strict=True)):
        waiting.setdefault(found_at, []).append(e)
    found: list[Read] = []
    for nbytes in sorted(WIDTHS_BYTES, reverse=True):
        if nbytes < width or (nbytes > width and together % nbytes):
            continue
        for kind, byte in sorted(waiting):
            window = [(kind, byte + n) for n in range(0, nbytes, width)]
            if byte % nbytes == 0 and all(place in waiting for place in window):
                found.append(Read(nbytes, tuple(tuple(waiting.pop(place)) for place in window)))
    return tuple(sorted(found, key=lambda read: read.first))


def tile_accesses(stage: Stage, chunks: Any, vectors: Any) -> Iterator[tuple[str, Any, Load | Store]]:
    """Yield the accesses of the first block to its tile, for arrays of numbers of its chunks and vectors: the
    op, the bytes (access, *numbers) of that width, and the chunk or vector, which knows where it exists.

    >>> import numpy
    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> from layoutalg.kernels.move.stage import PermuteConfig
    >>> x = normalise(permute_problem((64, 64), (1, 0), "f32"))
    >>> stage, one = Stage(x, PermuteConfig("staged", (64, 64), 256, 4, 4)), numpy.array([17])
    >>> [(op, places.tolist()) for op, places, _ in tile_accesses(stage, one, one)]
    [('st.shared.b128', [[272]]), ('ld.shared.b32', [[1028], [1284], [1540], [1796]])]
    """
    origins = (0,) * stage.moves.rank
    base = block_base(stage, origins)
    chunk, vector = Load(stage, chunks, origins, base), Store(stage, vectors, origins, base)
    yield f"st.shared.b{8 * stage.chunk_bytes}", np.broadcast_to(chunk.place, (1, *chunks.shape)), chunk
    for nbytes, together in by_width(reads(stage)).items():
        first = np.array([read.first for read in together]).reshape(-1, *(1,) * vectors.ndim)
        places = np.broadcast_to(vector.place(first), (len(together), *vectors.shape))
        yield f"ld.shared.b{8 * nbytes}", places, vector


def by_width(found: Sequence[Read]) -> dict[int, list[Read]]:
    """Loads by their width, the widest first.

    >>> list(by_width([Read(4, ((1,),)), Read(8, ((0,), (2,)))]))
    [8, 4]
    """
    widths = sorted({read.nbytes for read in found}, reverse=True)
    return {nbytes: [read for read in found if read.nbytes == nbytes] for nbytes in widths}


def begin_bytes(found: Sequence[Read]) -> list[int]:
    """The byte where each element begins in the registers that loads fill one after the other.

    >>> begin_bytes([Read(8, ((0,), (2,))), Read(4, ((1,),))])
    [0, 8, 4]
    """
    begins: dict[int, int] = {}
    at = 0
    for read in found:
        begins |= {e: at + read.byte(e) for e in read.elements}
        at += read.words * WORD_BYTES
    return [begins[e] for e in sorted(begins)]


def words_of(begins: Sequence[int], size: int) -> list[list[int]]:
    """The bytes of registers that form each word of a vector.

    >>> words_of([0, 4, 2, 6], 2)
    [[0, 1, 4, 5], [2, 3, 6, 7]]
    """
    every = [begin + byte for begin in begins for byte in range(size)]
    return [every[n : n + WORD_BYTES] for n in range(0, len(every), WORD_BYTES)]


def permutes(sources: Sequence[int]) -> list[tuple[int, int]]:
    """The byte permutes that make a word of up to four bytes: each brings in one further register.

    The pairs are (register, selector); the first permute starts from the register of the first byte, the
    others from the word so far.  The list is empty where that register is the word.

    >>> [(register, hex(selector)) for register, selector in permutes([0, 1, 4, 5])], permutes([8, 9])
    ([(1, '0x5410')], [])
    """
    first, *further = dict.fromkeys(byte // WORD_BYTES for byte in sources)
    if not further and all(byte % WORD_BYTES == i for i, byte in enumerate(sources)):
        return []
    found: list[tuple[int, int]] = []
    for register in further or [first]:
        selector = 0
        for i, byte in enumerate(sources):
            of, number = divmod(byte, WORD_BYTES)
            from_first = of == first and not found
            pick = WORD_BYTES + number if of == register else number if from_first else i
            selector |= pick << 4 * i
        found.append((register, selector))
    return found


def kinds(stage: Stage) -> tuple[int, list[int]]:
    """Return the common divisor of the changes of places from vector to vector, and each element's kind.

    Places of elements of one kind change together.  The divisor is 0 where nothing changes.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> from layoutalg.kernels.move.stage import PermuteConfig
    >>> x = normalise(permute_problem((64, 64), (1, 0), "f32"))
    >>> kinds(Stage(x, PermuteConfig("staged", (64, 64), 256, 4, 4)))
    (4, [0, 0, 0, 0])
    """
    vec, run = stage.config.vec, stage.dst_run
    steps, tiles = [stage.coefficients[k] for k in run], [stage.tile[k] for k in run]
    aligned = gcd(_base_changes(stage), *_row_changes(stage))
    unit = _position_changes(stage)
    positions = [stage.lead * stage.dst_inner - stage.moves.dst_offset % stage.unit + e for e in range(vec)]
    while len(run) > 1 and unit % tiles[0] == 0:  # a digit that is the same in every vector
        positions, unit = [n // tiles[0] for n in positions], unit // tiles[0]
        run, steps, tiles = run[1:], steps[1:], tiles[1:]
    if len(run) <= 1:  # nothing is carried
        return gcd(aligned, unit * sum(steps)), [0] * vec
    unit, inner = gcd(unit, tiles[0]), prod(tiles[:-1])
    return gcd(aligned, unit * steps[0], *steps[1:]), [n % inner // unit for n in positions]


def _base_changes(stage: Stage) -> int:
    """The common divisor of the changes of `block_base` from block to block, in bytes."""
    chunk = stage.config.chunk
    blocks = zip(stage.modes, stage.tile, stage.counts, strict=True)
    found = gcd(chunk, *(tile * m.src for m, tile, count in blocks if count > 1))
    return found % chunk * stage.size


def _row_changes(stage: Stage) -> Iterator[int]:
    """Bytes from a run to the next one, or from a group of runs to the next."""
    for k in stage.dst_rows:
        step = stage.group if k == stage.dst_rows[0] else 1
        if stage.tile[k] > step:
            yield step * stage.coefficients[k]


def _position_changes(stage: Stage) -> int:
    """The common divisor of the steps of a first element's position in its run, from vector to vector."""
    vec = stage.config.vec
    starts = gcd(
        *(m.dst for k, m in enumerate(stage.modes) if k in stage.dst_rows),
        *(t * m.dst for m, t, count in zip(stage.modes, stage.tile, stage.counts, strict=True) if count > 1),
    )
    return gcd(vec, starts) if stage.vectors > 1 or starts % stage.unit else 0
