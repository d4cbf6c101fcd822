"""`layoutalg doctor cache`: what is kept, and that it can be removed; every command that compiles uses it."""

from __future__ import annotations

from pathlib import Path

import pytest

from layoutalg.codegen.gpu import LIMIT_BYTES, Cubin, compile_cubin, cubin_cache
from tests.command import answer, run
from tests.stand_ins.cache_faults import store


def test_what_is_kept_is_shown_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAYOUTALG_CACHE", str(tmp_path))
    for n in range(3):
        store(tmp_path, f"{n + 1:064x}", Cubin("k", "sm_80", b"x" * 1000, 16, 0, 0, 0, ""))
    payload = answer("doctor", "cache")
    assert payload == payload | {
        "folder": str(tmp_path),
        "kernels": 3,
        "removed": 0,
        "limit_bytes": LIMIT_BYTES,
    }
    assert payload["bytes"] == sum(p.stat().st_size for p in tmp_path.rglob("*") if p.is_file())
    assert (
        run("doctor", "cache").stdout.startswith("3 kernels, 3")
        and "256 MiB" in run("doctor", "cache").stdout
    )
    assert run("doctor", "cache", "--clear").stdout.startswith("Removed 3 kernels.\n0 kernels, 0 B")
    assert answer("doctor", "cache", "--clear")["removed"] == 0 and not any(
        p.is_file() for p in tmp_path.rglob("*")
    )


def test_without_a_folder_there_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAYOUTALG_CACHE", "off")
    assert answer("doctor", "cache", "--clear")["folder"] is None
    assert run("doctor", "cache").stdout.startswith("Compiled kernels are not kept")


@pytest.mark.deep(only=("demo", "sass", "sass of another name"))
@pytest.mark.parametrize(
    ("words", "kernels"),
    [
        (("doctor", "demo"), 1),
        (("inspect", "sass", "transpose", "--m", "256", "--n", "256"), 1),
        (("inspect", "sass", "gemm-sm80", "--m", "256", "--n", "256", "--k", "256", "--arch", "H100"), 1),
        (("generate", "transpose", "--compile", "sm_80", "--compile", "A100"), 1),
    ],
    ids=["demo", "sass", "sass of another name", "generate"],
)
def test_a_second_call_compiles_nothing(
    words: tuple[str, ...], kernels: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two names of one target are one entry."""
    monkeypatch.setenv("LAYOUTALG_CACHE", str(tmp_path))
    compiled: list[str] = []

    def counted(source: str, name: str, arch: str) -> Cubin:
        compiled.append(arch)
        return compile_cubin(source, name, arch)

    monkeypatch.setattr(cubin_cache, "compile_cubin", counted)
    first = answer(*words)
    assert len(compiled) == kernels == answer("doctor", "cache")["kernels"]
    again = answer(*words)
    assert len(compiled) == kernels and again | {"seconds": 0} == first | {"seconds": 0}
