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
    *("BLOCK_BYTES", "INT32_COUNT", "LINE_BYTES", "MAX_EXECUTIONS", "MAX_OFFSET_BYTES", "MAX_SIDE"),
    *("MOST_ARRIVALS", "MOST_CALLING", "MOST_CLUSTER", "MOST_EXTENT", "MOST_ROWS", "MOST_THREADS"),
    *("MOST_TOGETHER", "MOST_VALUE", "REGISTER_WORDS", "RUN_BYTES", "GRID_LIMITS", "_MAX_THREADS"),
}
"""What hardware, a format or the arithmetic of a kernel allows, which a refusal names where it stands."""


def test_each_limit_refuses_something() -> None:
    texts = [p.read_text(encoding="utf-8") for m, p in MODULES.items() if m != "layoutalg.limits"]
    used = {name for text in texts for name in re.findall(r"\bMost\.([A-Z_]+)\.", text)}
    passed = {name for text in texts for name in re.findall(r"\bMost\.([A-Z_]+)\b(?!\.)[),]", text)}
    assert {limit.name for limit in Most} == used | passed


def test_other_refusals_name_facts() -> None:
    """A constant that a ResourceError is made of is a limit of the table, or a fact."""
    made = [
        node.args[2]
        for text in (path.read_text(encoding="utf-8") for path in MODULES.values())
        if "ResourceError(" in text
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "ResourceError" and len(node.args) == 3
    ]
    names = {name.id for limit in made for name in ast.walk(limit) if isinstance(name, ast.Name)}
    assert {name for name in names if name.isupper()} == FACTS


def test_a_limit_is_the_last_that_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "four"
    path.write_bytes(b"four")
    monkeypatch.setattr(Most.FILE, "number", 4)
    Most.FILE.guard(4, "bytes")
    Most.FILE.integer(4, "bytes")
    Most.FILE.decide(4, "bytes")
    assert Most.FILE.read(path) == b"four"
    monkeypatch.setattr(Most.FILE, "number", 3)
    for refused in (lambda: Most.FILE.guard(4, "bytes"), lambda: Most.FILE.read(path)):
        with pytest.raises(ResourceError, match=r"bytes: 4 asked, the limit is 3\Z") as error:
            refused()
        assert (error.value.asked, error.value.limit) == (4, 3)
    with pytest.raises(UndecidedError, match="bytes: 4 are too many, the limit is 3") as open_question:
        Most.FILE.decide(4, "bytes")
    assert open_question.value.budget == 3
    for number in (0, 4, True):
        with pytest.raises(ResourceError):
            Most.FILE.integer(number, "bytes")


def test_a_pipe_is_read_no_further_than_a_byte_past_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDWR)
    os.write(end, b"12345678")
    monkeypatch.setattr(Most.FILE, "number", 3)
    with pytest.raises(ResourceError, match="size of pipe in bytes: 4 asked, the limit is 3"):
        Most.FILE.read(pipe)
    os.close(end)
