"""How many clusters a GPU holds: the law, what an H200 answered, and clusters placed one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from layoutalg.model.occupancy import MOST_TOGETHER, groups, resident_clusters

ASKED = {
    2: (66, 132, 198, 264, 330, 396, 462, 528),
    3: (39, 79, 124, 163, 203, 248, 287, 327),
    4: (30, 62, 92, 124, 154, 186, 216, 248),
    6: (17, 39, 62, 79, 101, 124, 141, 163),
    8: (15, 30, 45, 62, 77, 92, 107, 124),
    12: (7, 16, 28, 37, 44, 58, 65, 74),
    16: (7, 14, 21, 28, 35, 42, 49, 58),
}
"""Clusters of so many blocks that an H200 runs at a time, by blocks per multiprocessor from 1 on: what
cuOccupancyMaxActiveClusters answered (2026-11-23).  Pairs were asked at 9 for 8."""


def placed(sms: int, blocks: int, each: int) -> int:
    """The same by definition: clusters are placed block by block while a group has room, and enough SMs."""
    found = 0
    for size in groups(sms):
        room = [min(each, MOST_TOGETHER)] * size
        while size >= blocks and sum(room) >= blocks:
            for _ in range(blocks):
                room[room.index(max(room))] -= 1
            found += 1
    return found


def test_an_h200_holds_what_it_answered() -> None:
    for blocks, counts in ASKED.items():
        assert tuple(resident_clusters(132, blocks, n) for n in range(1, 9)) == counts
        assert resident_clusters(132, blocks, 16) == counts[-1]


@given(st.sampled_from([1, 16, 78, 108, 114, 132, 148]), st.integers(2, 16), st.integers(0, 12))
def test_clusters_are_counted_as_they_are_placed(sms: int, blocks: int, each: int) -> None:
    assert sum(groups(sms)) == sms
    assert resident_clusters(sms, blocks, each) == placed(sms, blocks, each)
