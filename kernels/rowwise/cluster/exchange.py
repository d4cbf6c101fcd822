"""Partial statistics of the blocks of a cluster, in each of them, by one exchange.

The idea.  Every block has a room with a slot for each sender of the cluster, and an mbarrier that counts the
bytes of all slots.  A sender stores its words into its slot of every block by st.async, whose bytes complete
at that block's mbarrier; a thread that has waited there reads all slots.  No others wait, and each block
sees the same words in the same order, so that all blocks compute equal bits.

    x = Exchange(k, senders=16, words=2)    softmax by 16 warps: maximum and sum of a warp
    x.open()                                first of all: the block announces itself
    ...                                     loads: the peers start in the meantime
    x.meet()                                before the first `send`: all threads, once
    with k.If(lane < x.blocks):             lane r of a warp sends to block r
        x.send(k.tid // 32, lane, m, s)
    x.wait()                                all threads that read
    x.take(slot, m_b, s_b)                  slot = block of the cluster * senders + sender

    rows        a sender is a warp, a plane has one word: lane l takes slots l, l + 32 and so on, joins them,
                and butterflies join the lanes
    columns     a sender is one of the threads side by side in a slab, once the block has joined its rows; a
                plane has a word for each column of the thread's vector, so that `words` is planes x columns;
                the threads of one warp that share columns send to the blocks, and take their slots, in turn

Notes.  A block may leave when its `wait` is over: its peers have sent, and what it has sent they wait for
themselves.  So each room serves one exchange; a second one has an `Exchange` of its own, opened with it, or
follows in the same room: `again` announces that it is free, `meet` waits for all, and `turn` counts.
Only st.async writes to the room: no proxy fence is needed.

Source: PTX ISA 9.0, 9.7.9.13 (st.async), 9.7.13.15 (mbarrier).
"""

from __future__ import annotations

from collections.abc import Iterator

from layoutalg.codegen import instr
from layoutalg.codegen.expr import Expr, Operand, as_expr
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Reg, RegRef
from layoutalg.layout import Layout


class Exchange:
    """The room of a block for the words of `senders` senders of each block, and its mbarrier.

    `blocks` of the cluster, which the builder already knows; `words` of a sender; `slots` in all.

    >>> k = KernelBuilder("sums", threads=64)
    >>> _ = k.block(0, 8)
    >>> k.cluster(4)
    >>> Exchange(k, senders=2, words=3).slots
    8
    """

    def __init__(self, k: KernelBuilder, senders: int, words: int) -> None:
        self.k, self.words, self.senders, self.blocks = k, words, senders, k.blocks_of_cluster
        self.slots = self.blocks * senders
        pitch = words if words in (1, 2) else -(-words // 4) * 4
        self.room = k.shared("room", "f32", Layout((pitch, self.slots)), align_bytes=16)
        self.came, self.packed = k.mbarrier("came"), k.reg("packed_words", words)
        self.turn = as_expr(0)

    def open(self) -> None:
        """Initialise the mbarrier, and announce the block; no thread waits."""
        k = self.k
        with k.If(k.tid.eq(0)):
            k.do(instr.MBARRIER_INIT, self.came[0], 1)
            k.do(instr.FENCE_BARRIER_INIT)
            self._expect()
        k.do(instr.WARP_SYNC)
        k.do(instr.CLUSTER_ARRIVE_RELAXED)

    def meet(self) -> None:
        """Wait until all blocks of the cluster have opened theirs, in every turn."""
        self.k.do(instr.CLUSTER_WAIT)

    def send(self, sender: Operand, to: Operand, *planes: Reg) -> None:
        """Store the words of all planes into the sender's slot in block `to` of the cluster."""
        k, packed = self.k, self.packed
        for i, word in enumerate(_words(planes)):
            k.do(instr.MOVE, packed[i], word)
        slot = k.rank * self.senders + as_expr(sender)
        for first, count in self._vectors():
            words = packed.slice(first, count=count)
            k.do(instr.ST_ASYNC[4 * count], self.room.at(first, slot), self.came[0], as_expr(to), words)

    def wait(self) -> None:
        """Wait until all slots are filled."""
        self.k.wait(self.came[0], self.turn % 2, cluster=True)

    def again(self) -> None:
        """Open the room for the next turn, by all threads, after the readers have read; no thread waits."""
        with self.k.If(self.k.tid.eq(0)):
            self._expect()
        self.k.do(instr.WARP_SYNC)
        self.k.do(instr.CLUSTER_ARRIVE)

    def _expect(self) -> None:
        self.k.expect(self.came[0], 4 * self.words * self.slots)

    def take(self, slot: Expr, *planes: Reg) -> None:
        """Load the words of a slot into planes."""
        k, packed = self.k, self.packed
        for first, count in self._vectors():
            k.do(instr.LDS[4 * count], packed.slice(first, count=count), self.room.at(first, slot))
        for i, word in enumerate(_words(planes)):
            k.do(instr.MOVE, word, packed[i])

    def _vectors(self) -> Iterator[tuple[int, int]]:
        """The words of a slot as vectors: (first word, words)."""
        first = 0
        while left := self.words - first:
            count = 4 if left >= 4 else 2 if left >= 2 else 1
            yield first, count
            first += count


def _words(planes: tuple[Reg, ...]) -> Iterator[RegRef]:
    return (d[i] for d in planes for i in range(*d.shape))
