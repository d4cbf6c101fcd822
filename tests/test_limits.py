"""The table of limits holds what refuses a request, and nothing that refuses none."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

import pytest

from layoutalg.errors import ResourceError, UndecidedError
from layoutalg.limits import Most
from tests.test_architecture import MODULES

FACTS = {
    *("BLOCK_BYTES", "GRID_LIMITS", "INT32_COUNT", "LINE_BYTES", "MAX_EXECUTIONS", "MAX_OFFSET_BYTES"),
    *(
        "MAX_SIDE",
        "MOST_ARRIVALS",
        "MOST_CALLING",
        "MOST_CLUSTER",
        "MOST_EXTENT",
        "MOST_STEPS",
        "MOST_THREADS",
    ),
    *("MOST_TOGETHER", "MOST_VALUE", "REGISTER_WORDS", "RUN_BYTES", "_MAX_THREADS"),
}
"""What hardware, a format or the arithmetic of a kernel allows, which a refusal names where it stands."""

TEXTS = [p.read_text(encoding="utf-8") for m, p in MODULES.items() if m != "layoutalg.limits"]


def test_each_limit_refuses_something() -> None:
    used = {name for text in TEXTS for name in re.findall(r"\bMost\.([A-Z_]+)(?:\.\w|[),]| if )", text)}
    assert {limit.name for limit in Most} == used


def test_other_refusals_name_facts() -> None:
    """A constant that a ResourceError is made of is a limit of the table, or a fact."""
    trees = [ast.parse(text) for text in TEXTS if "ResourceError(" in text]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    made = [call.args[2] for call in calls if ast.unparse(call.func) == "ResourceError" and call.args[2:]]
    names = {node.id for limit in made for node in ast.walk(limit) if isinstance(node, ast.Name)}
    assert {name for name in names if name.isupper()} == FACTS


def test_a_limit_is_the_last_that_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, pipe = tmp_path / "file", tmp_path / "pipe"
    path.write_bytes(b"123")
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDWR)
    os.write(end, b"12345678")
    monkeypatch.setattr(Most.FILE, "number", 3)
    for accept in (Most.FILE.guard, Most.FILE.integer, Most.FILE.decide):
        accept(3, "bytes")
        with pytest.raises((ResourceError, UndecidedError), match=r"bytes: 4 .*the limit is 3"):
            accept(4, "bytes")
    with pytest.raises(ResourceError, match="1 is the least"):
        Most.FILE.integer(True, "bytes")
    assert Most.FILE.read(path) == b"123"
    path.write_bytes(b"1234")
    for large in (path, pipe):
        with pytest.raises(ResourceError, match=f"size of {large.name} in bytes: 4 asked, the limit is 3"):
            Most.FILE.read(large)
    os.close(end)
