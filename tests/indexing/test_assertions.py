"""Headers of static_asserts: compilers accept those of drawn layouts, and refuse each for another layout."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from layoutalg import AnyLayout, ComposedLayout, Layout, Swizzle, errors
from layoutalg.analysis import SharedReport, analyze
from layoutalg.decide import cosize, is_injective
from layoutalg.indexing import assertions
from layoutalg.testing import find_compiler

OPS = ("ld.shared.b32@row", "ld.shared.b32@col", "ld.shared.b64@row", "ldmatrix.x4", "st.shared.b128@row",
       "cp.async.b64@row", "ld.global.b32@col", "ld.global.b128@row")  # fmt: skip


def drawn(rng: random.Random) -> tuple[AnyLayout, list[str]]:
    """A tile of 16-bit elements, padded, swizzled or in columns, and an access that fits it."""
    rows, cols = rng.choice((8, 16, 32)), rng.choice((16, 32, 64))
    pitch = cols + rng.choice((0, 0, 8, 16))
    layout: AnyLayout = Layout((rows, cols), (pitch, 1))
    if rng.random() < 0.4:
        layout = ComposedLayout(Swizzle(rng.randint(1, 3), 3, 3), 0, layout)
    while True:
        op = rng.choice(OPS)
        try:
            analyze(layout, op, "f16")
        except (errors.ShapeError, errors.AlignmentError):
            continue
        return layout, [op]


def asserted(layout: AnyLayout, op: str) -> tuple[object, ...]:
    """The numbers that a header asserts."""
    report = analyze(layout, op, "f16")
    costs = (report.total, report.ideal_total) if isinstance(report, SharedReport) else (report.sectors,)
    return is_injective(layout), cosize(layout), *costs


def built(
    texts: list[str], folder: Path, command: list[str], suffix: str
) -> subprocess.CompletedProcess[str]:
    """A compiler on headers that one file includes."""
    for k, text in enumerate(texts):
        (folder / f"h{k}.h").write_text(text)
    source = folder / f"all{suffix}"
    source.write_text("".join(f'#include "h{k}.h"\n' for k in range(len(texts))))
    ran = [*command, "-std=c++17", "-c", "-o", str(folder / "out.o"), str(source)]
    return subprocess.run(ran, capture_output=True, text=True, timeout=900)


def mutated(rng: random.Random, layout: AnyLayout, op: str, name: str) -> str:
    """The header of a layout with the functions of another, whose numbers differ."""
    while True:
        other = drawn(rng)[0]
        try:
            if other.shape == layout.shape and asserted(other, op) != asserted(layout, op):
                break
        except (errors.ShapeError, errors.AlignmentError):
            continue
    right, wrong = (assertions(each, [op], "f16", name=name) for each in (layout, other))
    checks = re.compile(r"^static_assert.*$", re.MULTILINE)
    largest = cosize(layout)
    wrong = re.sub(r"met\[\d+\]( = )", rf"met[{largest}]\1", wrong)
    wrong = re.sub(r"at >= \d+u", f"at >= {largest}u", wrong)
    return checks.sub("", wrong) + "\n".join(checks.findall(right))


@pytest.mark.parametrize(("seed", "count"), [(46201, 2), pytest.param(46202, 100, marks=pytest.mark.deep)])
def test_a_host_compiler_accepts_headers_and_refuses_mutants(seed: int, count: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    cases = [drawn(rng) for _ in range(count)]
    compiler = [
        *find_compiler("c++"),
        "-Wall",
        "-Wextra",
        "-fmax-errors=0",
        "-fconstexpr-ops-limit=100000000",
    ]
    texts = [assertions(layout, ops, "f16", name=f"tile{k}") for k, (layout, ops) in enumerate(cases)]
    run = built(texts, tmp_path, compiler, ".cpp")
    assert run.returncode == 0 and not run.stderr, run.stderr[:2000]
    mutants = [mutated(rng, layout, ops[0], f"tile{k}") for k, (layout, ops) in enumerate(cases)]
    run = built(mutants, tmp_path, compiler, ".cpp")
    refused = {int(n) for n in re.findall(r"h(\d+)\.h:\d+:\d+: error: static assertion failed", run.stderr)}
    assert refused == set(range(count))


@pytest.mark.deep
def test_nvcc_accepts_headers(tmp_path: Path) -> None:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("no nvcc on PATH")
    rng = random.Random(46203)
    texts = [assertions(*drawn(rng), "f16", name=f"tile{k}") for k in range(100)]
    run = built(texts, tmp_path, [nvcc, "-arch=sm_90"], ".cu")
    assert run.returncode == 0, run.stderr[:2000]


def test_what_no_compiler_could_check_is_refused() -> None:
    with pytest.raises(errors.ResourceError, match="offsets that a compiler"):
        assertions(Layout((512, 512)))
    with pytest.raises(errors.UnsupportedError, match="below 0"):
        assertions(Layout(8, -1))
    with pytest.raises(errors.ResourceError, match="lanes of the instructions"):
        assertions(Layout((64, 64), (0, 1)), ["ld.shared.b32@(32,(2,512)):(1,(0,4))"], "f32")
    with pytest.raises(errors.ArgumentTypeError, match="list"):
        assertions(Layout((8, 8)), "ld.shared.b32@row")
