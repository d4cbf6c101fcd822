"""`layoutalg generate` and `verify` of permutes, reductions and norms."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from layoutalg.cli.kernel_names import read_ints
from layoutalg.codegen.gpu import to_cuda
from layoutalg.errors import ParseError
from tests.command import answer, refusal, run
from tests.draws.sequences import TENSOR_OPS, launches_of, problem_of
from tests.sweeps import each


@each("family", TENSOR_OPS)
def test_generate_prints_the_kernel_of_a_tensor(family: str) -> None:
    axes, over = ("2,0,1", (2, 0, 1)) if family == "permute" else ("0,2", (0, 2))
    words = ("generate", family, "--shape", "24,40,36", "--axes", axes, "--dtype", "f16")
    printed = run(*words).stdout
    (kernel,) = launches_of(problem_of(family, (24, 40, 36), over, "f16")).kernels
    payload = answer(*words)
    name = payload["kernel"]
    assert (
        to_cuda(replace(kernel, name=name), "sm_90") in f"// {printed.partition('//' + chr(10) + '// ')[2]}"
    )
    assert payload["source"] == printed and (payload["part"], payload["parts"]) == (1, 1)
    assert re.fullmatch(rf"{kernel.name}_[0-9a-f]{{8}}", name)


def test_a_tensor_compiles_and_is_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "nchw.cu"
    words = ("--shape", "(8,28,28,3)", "--axes", "(0,3,1,2)", "--compile", "sm_90a", "-o", str(path))
    text = run("generate", "permute", *words).stdout
    assert text.startswith(f"wrote {path}: ") and "and less" not in text and "registers per thread" in text
    assert path.read_text(encoding="utf-8").startswith("//")


def test_kernels_that_are_launched_in_order_are_printed_one_by_one() -> None:
    words = ("generate", "sum", "--shape", "67108864")
    first, second = (answer(*words, "--part", part) for part in "12")
    assert (first["part"], second["part"], first["parts"]) == (1, 2, 2)
    assert first["source"] != second["source"]
    assert run(*words, "--part", "1").stderr == "kernel 1 of 2, to be launched in order: --part chooses\n"
    said = run(*words)
    assert said.stderr == "2 kernels, to be launched in order: --part chooses\n"
    both = answer(*words)
    assert (both["source"], both["part"]) == (said.stdout, None)
    assert all(one["kernel"] in both["source"] for one in (first, second))
    assert refusal(*words, "--part", "3") == (
        "ResourceError", f"part of {first['problem']}: 3 asked, the limit is 2"
    )  # fmt: skip


def test_ints_are_read_with_and_without_parentheses() -> None:
    assert read_ints("shape", "(4,)") == read_ints("shape", "4") == (4,)
    assert read_ints("axes", " 0 , -1 ") == (0, -1) and read_ints("axes", "()") == ()
    for text in ("4,,8", "4 8", "0x4", "4.0", "--4", "², 1", "four", "9" * 5000):
        with pytest.raises(ParseError, match="expected an int at position"):
            read_ints("shape", text)


@each("family", TENSOR_OPS, sample=1)
def test_verify_compares_tensors_with_their_definition(family: str) -> None:
    axes = "1,0" if family == "permute" else "0"
    words = ("verify", family, "--shape", "21,35", "--axes", axes, "--dtype", "f16", "--target", "simulator")
    payload = answer(*words)
    assert payload["passed"] and payload["dtype"] == "f16" and len(payload["reports"]) == 1
    checks = {c["name"]: c for c in payload["reports"][0]["checks"]}
    assert {"result, one block at a time", "result, one warp at a time", "no other accesses"} <= set(checks)
    assert payload["reports"][0]["problem"].startswith(family)


@pytest.mark.deep
def test_verify_takes_tensors_of_its_own_where_no_shape_is_given() -> None:
    said = run("verify", "permute", "--target", "simulator").stdout
    assert said.endswith("Passed.\n") and said.count("permute (") >= 2


def test_verify_fails_where_the_definition_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    from layoutalg.kernels.rowwise import families

    monkeypatch.setattr(families, "normed", lambda p, x, *extra: x)
    done = run("verify", "softmax", "--shape", "4,40", "--target", "simulator")
    assert done.exit_code == 1 and done.stdout.endswith("FAILED.\n") and "by definition" in done.stdout
