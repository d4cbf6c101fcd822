"""What compilers made is kept by all that it depends on, and what a machine lacks is a reason to skip."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from layoutalg.codegen.gpu import compile_cubin, nvrtc
from layoutalg.errors import CompileError, UnsupportedError
from layoutalg.testing import compile_shared
from layoutalg.tools import Ran
from tests.stand_ins import absent, compiled_once
from tests.stand_ins.compiled_once import ROOT, hostcc, once


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in place of the one that is kept, and nothing in memory."""
    monkeypatch.setattr(compiled_once, "FOLDER", tmp_path / "compiled")
    monkeypatch.setattr(compiled_once, "_in_memory", {})
    return tmp_path / "compiled"


def test_another_process_finds_what_was_made(folder: Path) -> None:
    made: list[bytes] = []

    def make() -> bytes:
        made.append(b"code")
        return b"code"

    assert [once(("a",), make) for _ in range(2)] == [b"code"] * 2 and len(made) == 1
    compiled_once._in_memory.clear()
    assert once(("a",), make) == b"code" and len(made) == 1
    assert once(("b",), make) == b"code" and len(made) == 2
    with compiled_once.anew():
        once(("a",), make)
    assert len(made) == 3
    compiled_once._in_memory.clear()
    for file in folder.iterdir():
        file.write_bytes(file.read_bytes()[:-1] + b"?")
    assert once(("a",), make) == b"code" and len(made) == 4, "a damaged file is made again"


def test_a_folder_that_cannot_be_made_is_done_without(folder: Path) -> None:
    folder.write_text("a file in its place")
    assert once(("a",), lambda: b"code") == b"code"


def test_the_files_that_were_not_used_for_longest_are_removed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(4):
        once((n,), lambda: b"code")
    monkeypatch.setattr(compiled_once, "MOST_FILES", 3)
    compiled_once._remove_oldest()
    assert len(list(folder.iterdir())) == 3


def test_the_host_s_objects_depend_on_text_and_flags(folder: Path) -> None:
    text = "int value(void) { return VALUE; }"
    values = [compile_shared(text, language="c", flags=[f"-DVALUE={n}"]).value() for n in (1, 2, 1)]
    assert values == [1, 2, 1] and len(list(folder.iterdir())) == 2
    with pytest.raises(CompileError):
        compile_shared(text, language="c")
    assert len(list(folder.iterdir())) == 2


def test_headers_of_others_are_not_kept_and_ours_are_part_of_the_key(tmp_path: Path) -> None:
    """Texts that include what may change elsewhere are compiled each time."""
    assert compiled_once._headers(["cc", f"-I{tmp_path}"]) is None
    assert compiled_once._headers(["cc", "-I", str(ROOT / "tests" / "hostshim")]) is None
    assert compiled_once._headers(["cc", "-include", "x.h"]) is None
    ours = compiled_once._headers(["cc", f"-I{ROOT / 'tests' / 'hostshim'}"])
    assert ours and any(name.endswith("shim.h") and text for name, text in ours)


def test_machine_code_is_found_by_its_text(folder: Path) -> None:
    text = 'extern "C" __global__ void nothing() {}'
    first = compile_cubin(text, "nothing", "sm_80")
    compiled_once._in_memory.clear()
    assert compile_cubin(text, "nothing", "sm_80") == first and len(list(folder.iterdir())) == 1
    compile_cubin(text, "nothing", "sm_90a")
    assert len(list(folder.iterdir())) == 2


def test_what_is_absent_is_a_reason_to_skip_unless_a_test_made_it_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def look() -> None:
        raise UnsupportedError("there is no compiler")

    looked = absent._skipping(look)
    with pytest.raises(pytest.skip.Exception, match="there is no compiler"):
        looked()
    monkeypatch.setenv("CXX", "another")
    with pytest.raises(UnsupportedError):
        looked()


def test_where_everything_is_there_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostcc, "find_compiler", hostcc.find_compiler)
    before = hostcc.find_compiler, nvrtc._library
    absent.install()
    assert (hostcc.find_compiler, nvrtc._library) == before


def test_a_source_is_parsed_once_where_no_header_of_its_own_is_there(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bytes] = []

    def run(command: list[str], *, timeout_s: float, fed: bytes) -> Ran:
        asked.append(fed)
        return Ran(int(b"wrong" in fed), b"{}", b"")

    monkeypatch.setattr(compiled_once, "run_tool", run)
    monkeypatch.setattr(compiled_once, "_reader", lambda: "as it is")

    def times(text: str, where: str) -> int:
        """How often the process is started for a text that is asked for twice."""
        before = len(asked)
        fed = json.dumps({"text": text, "folders": [where]}).encode()
        for _ in range(2):
            compiled_once._parse([], timeout_s=60, fed=fed)
        return len(asked) - before

    own = str(folder.parent)
    assert [times(text, own) for text in ('#include "own.h"', "#include NAME", "wrong")] == [1, 2, 2]
    assert times('#include "own.h"', "elsewhere") == 0, "where nothing is found, the place is no matter"
    (folder.parent / "own.h").touch()
    assert times('#include "own.h"', own) == 2
