"""Files that are no reports, are cut off, damaged or without counters: an error by name, never an answer."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from layoutalg.errors import LayoutAlgError, ParseError, ResourceError, UnknownNameError, UnsupportedError
from layoutalg.limits import Most
from layoutalg.profiling import explain_launch, read_report, reading
from layoutalg.profiling.reading import frame
from layoutalg.tools import Ran
from tests.profiling.reports import path, with_library

WHOLE = path("no_counters").read_bytes()


@pytest.mark.parametrize("raw", [b"", b"NVR", b"hello\n", b"\x7fELF" + bytes(100), bytes(1000)])
def test_no_report(raw: bytes, tmp_path: Path) -> None:
    file = tmp_path / "some.ncu-rep"
    file.write_bytes(raw)
    with pytest.raises(ParseError, match=r"some\.ncu-rep is not a report of Nsight Compute"):
        read_report(file)


def test_every_cut_but_between_parts_is_seen() -> None:
    """A cut loses a part or leaves a whole number of them; the number of results then says what is left."""
    whole = frame(WHOLE)
    assert whole.results == 1
    ends = 0
    for size in range(4, len(WHOLE), 7):
        try:
            left = frame(WHOLE[:size])
        except ParseError as error:
            assert "cut off" in str(error)
        else:
            ends += 1
            assert left.blocks < whole.blocks
    assert ends < whole.blocks


def test_too_large(tmp_path: Path) -> None:
    """200 MB are refused by their size, unread."""
    file = tmp_path / "large.ncu-rep"
    with file.open("wb") as out:
        out.truncate(200_000_000)
    with pytest.raises(ResourceError, match=f"200000000 asked, the limit is {Most.REPORT.number}"):
        read_report(file)


@pytest.mark.parametrize(
    ("printed", "kind", "message"),
    [
        ({"error": "missing", "message": "No module"}, UnsupportedError, "pip install"),
        ({"error": "many", "message": "257"}, ResourceError, "257 asked, the limit is 256; name fewer"),
        ({"error": "damaged", "message": "no name"}, ParseError, "is damaged: no name"),
        ({"error": "regex", "message": "bad"}, ParseError, "is not a regular expression"),
        ({"names": [], "launches": []}, ParseError, "of a version that ncu-report does not read"),
    ],
)
def test_what_the_importer_says(
    printed: object, kind: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "run_tool", lambda *_, **__: Ran(0, json.dumps(printed).encode(), b""))
    with pytest.raises(kind, match=message):
        read_report(path("no_counters"))


def test_a_crash_and_an_endless_reading_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "run_tool", lambda *_, **__: Ran(-11, b"", b"first\nlast words"))
    with pytest.raises(ParseError, match="ended with status -11 and said last words"):
        read_report(path("no_counters"))

    def endless(*_: object, **__: object) -> Ran:
        raise TimeoutError("no answer within 120 s")

    monkeypatch.setattr(reading, "run_tool", endless)
    with pytest.raises(ParseError, match="no answer within 120 s"):
        read_report(path("no_counters"))


@with_library
def test_without_counters_it_says_what_to_record() -> None:
    with pytest.raises(UnsupportedError) as refused:
        read_report(path("no_counters"))
    said = str(refused.value)
    assert "transpose_naive has no counters of instructions" in said
    assert "memory_l1_wavefronts_shared" in said and "ncu --section SourceCounters" in said


@with_library
@pytest.mark.parametrize(
    ("kernel", "kind"), [("nothing", UnknownNameError), ("(", ParseError), ("a" * 5000, ResourceError)]
)
def test_bad_kernels(kernel: str, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        read_report(path("no_lines"), kernel)


def spoiled(raw: bytes, choose: random.Random) -> bytes:
    """A report with bytes changed, lost or doubled."""
    out = bytearray(raw)
    at, size = choose.randrange(len(out)), choose.randrange(1, 3000)
    match choose.randrange(4):
        case 0:
            for _ in range(choose.choice((1, 5, 50, 500))):
                out[choose.randrange(len(out))] = choose.randrange(256)
        case 1:
            del out[at : at + size]
        case 2:
            out[at:at] = out[at : at + size]
        case _:
            out[at : at + 200] = bytes(len(out[at : at + 200]))
    return bytes(out)


@with_library
@pytest.mark.deep
def test_many_spoiled_reports(tmp_path: Path) -> None:
    """Nothing but errors of the library leaves them."""
    choose, refused, file = random.Random(2), 0, tmp_path / "spoiled.ncu-rep"
    for _ in range(400):
        name = choose.choice(("async_copy", "no_lines", "transpose_fixed"))
        file.write_bytes(spoiled(path(name).read_bytes(), choose))
        try:
            for each in read_report(file).launches:
                explain_launch(each)
        except LayoutAlgError:
            refused += 1
    assert refused > 200
