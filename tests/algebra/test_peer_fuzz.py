"""Ours is never wrong, and refuses only what no layout is; what pycute and tensor-layouts do is in the table.

The small run of tests/bench/bench_peers.py.
"""

from __future__ import annotations

import pytest

from layoutalg.layout import Layout
from tests.judges.peer_fuzz import forced_complement, fuzz, report, verdict
from tests.judges.peers import DSL, PEERS, present, traced

COUNT = 150


def test_ours_is_right_or_rightly_refused() -> None:
    for name, counts in fuzz("layoutalg", COUNT).items():
        assert counts["wrong"] == 0, name
        assert counts["refused, representable"] == 0, name


@pytest.mark.deep(only=("tensor-layouts",))
@pytest.mark.parametrize("peer", PEERS)
def test_the_judges_see_the_mistakes_of_a_peer(peer: str) -> None:
    """Each peer is wrong somewhere on 150 operands of an operation: judges that never object are none."""
    if not present(peer):
        pytest.skip(f"{peer} is not installed; `make peers` installs it")
    found = fuzz(peer, COUNT)
    print("\n".join(report(peer, found)))
    assert sum(counts["wrong"] for counts in found.values()) > 0
    assert all(counts["right"] > COUNT // 10 for counts in found.values())


@pytest.mark.skipif(not present(DSL), reason="nvidia-cutlass-dsl is not installed")
def test_the_judges_see_the_mistakes_of_the_dsl() -> None:
    """Compositions that carry and complements that overlap come back without an error."""
    found = traced(lambda: fuzz(DSL, COUNT))
    assert found["composition"]["wrong"] > 0 and found["complement"]["wrong"] > 0
    assert found["coalesce"]["right"] == found["right_inverse"]["right"] == COUNT


def test_the_judges() -> None:
    assert forced_complement([0, 1, 4, 5], 16) == [0, 2, 8, 10]
    assert forced_complement([0, 2, 3], 8) is None
    a, b = Layout((6, 2), (1, 7)), Layout((3, 2), (2, 3))
    assert verdict("composition", (a, b), Layout((3, 2), (2, 3)), 6) == "wrong"
    assert verdict("composition", (a, b), None, None) == "refused, rightly"
    assert verdict("complement", (Layout(4, 2),), None, None) == "refused, representable"
    assert verdict("left_inverse", (Layout((4, 8), (1, 5)),), Layout(4), 4) == "wrong"
    assert verdict("left_inverse", (Layout((2, 2), (2, 3)),), None, None) == "refused, representable"
    assert verdict("left_inverse", (Layout((3, 3), (2, 3)),), None, None) == "refused, rightly"
    assert verdict("right_inverse", (Layout((4, 8), (8, 1)),), Layout((8, 4), (4, 1)), 32) == "right"
