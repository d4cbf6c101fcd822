"""The host compiler: what it accepts, what it keeps, and that no text reaches a shell."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from layoutalg.errors import CompileError, UnsupportedError
from layoutalg.testing import compile_shared, find_compiler
from tests.stand_ins.compiled_once import hostcc


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A private folder in which compile_shared makes its own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_loaded_object_leaves_nothing_behind(scratch: Path) -> None:
    """Beside the folder of this process, which the first program that runs makes."""
    assert compile_shared("int one(void) { return 1; }", language="c").one() == 1
    before = list(scratch.iterdir())
    library = compile_shared('extern "C" long long cube(long long i) { return i * i * i; }')
    assert library.cube(5) == 125
    assert list(scratch.iterdir()) == before
    assert library.cube(3) == 27


def test_two_objects_with_one_symbol_do_not_meet() -> None:
    libraries = [compile_shared(f"int value(void) {{ return {n}; }}", language="c") for n in (1, 2)]
    assert [library.value() for library in libraries] == [1, 2]


def test_c_and_cxx_are_two_languages() -> None:
    """`new` is a name in C and a keyword in C++."""
    text = "int f(int new) { return new; }"
    assert compile_shared(text, language="c").f(4) == 4
    with pytest.raises(CompileError):
        compile_shared(text)


def test_flags_are_arguments_not_shell_text(scratch: Path) -> None:
    value = "'a; touch owned #$(touch owned)'"
    library = compile_shared(
        "int n(void) { return sizeof(TEXT); }", language="c", flags=[f'-DTEXT="{value}"']
    )
    assert library.n() == len(value) + 1
    assert not (scratch / "owned").exists()
    assert not Path("owned").exists()


def test_a_failed_compile_keeps_source_and_log_and_names_both(scratch: Path) -> None:
    source = "int f(int i) { return j; }\n"
    with pytest.raises(CompileError, match=r"refused the source: line 1.*'j'") as caught:
        compile_shared(source, language="c")
    kept = Path(caught.value.source)
    log = kept.with_suffix(".log")
    assert kept.is_relative_to(scratch)
    assert kept.read_text() == source
    assert caught.value.log in log.read_text()
    assert str(kept) in str(caught.value)
    assert str(log) in str(caught.value)


def test_an_object_that_does_not_load_is_a_compile_error(scratch: Path) -> None:
    source = "extern int absent; int f(void) { return absent; }"
    with pytest.raises(CompileError, match=r"does not load: .*absent") as caught:
        compile_shared(source, language="c")
    assert Path(caught.value.source).exists()


def test_a_compile_that_takes_too_long_is_ended(scratch: Path) -> None:
    with pytest.raises(CompileError, match=r"no answer within 0\.001 s"):
        compile_shared("int f(void) { return 1; }", language="c", timeout_s=0.001)


def test_the_environment_chooses_the_compiler_with_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    program = hostcc.find_compiler("c")[0]
    monkeypatch.setenv("CC", f"{Path(program).name} -DANSWER=42")
    assert find_compiler("c") == (program, "-DANSWER=42")
    assert compile_shared("int f(void) { return ANSWER; }", language="c").f() == 42


def test_no_compiler_is_an_error_that_says_how_to_get_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(UnsupportedError, match=r"none of c\+\+, g\+\+, clang\+\+.*apt-get install g\+\+"):
        find_compiler()


def test_a_compiler_named_but_absent_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(UnsupportedError, match="CXX names 'no-such-compiler'"):
        compile_shared("int f;")


def test_a_compiler_named_with_an_open_quote_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "g++ '-DX")
    with pytest.raises(UnsupportedError, match="CXX cannot be split into words: No closing quotation"):
        find_compiler()
