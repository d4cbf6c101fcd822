"""What a launch must give, of whole computations: buffers, attributes, order; true at its edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from layoutalg.codegen.expr import Const, Expr, Var, evaluate, variables
from layoutalg.codegen.gpu import to_cuda
from layoutalg.codegen.gpu.preparation import launch_grid
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.printing import LaunchRecord, buffer_lines, launch_answers, launch_record
from layoutalg.codegen.program import LaunchSequence, dynamic_bytes, launch_sequence
from layoutalg.codegen.program.launch_contract import EARLY, MOST_SHARED
from layoutalg.codegen.sim import simulate
from layoutalg.errors import ArgumentTypeError, SimulationError
from layoutalg.kernels import FAMILIES
from layoutalg.kernels.checks import checks_of
from layoutalg.kernels.gemm import launches as gemm_launches
from layoutalg.kernels.gemm.problem import gemm_problem
from layoutalg.kernels.gemm.tiles import Sm80Config
from layoutalg.kernels.sizes import buffer_bytes, read_in_units
from tests.command import answer
from tests.hostshim import run_cuda_text
from tests.sweeps import each

UNIT_BYTES = 16


def sequence_of(name: str, p: Any) -> LaunchSequence:
    return FAMILIES[name].launches(p, FAMILIES[name].choose(p, "sm_90"), "sm_90")


def number(e: Expr, values: dict[str, int]) -> int:
    return int(evaluate(e, {v: values[v.name] for v in variables(e)}))


@each("name", list(FAMILIES), sample=4)
def test_a_buffer_is_as_large_as_its_definition_makes_it(name: str) -> None:
    """But for the last of its 16-byte units, which the data of a trial fill."""
    family = FAMILIES[name]
    for args in checks_of(family).verified:
        p = family.problem(**args)
        sequence = sequence_of(name, p)
        data = checks_of(family).buffers(p, checks_of(family).trials(p)[0], 0)
        for buffer, size in buffer_bytes(p, sequence).items():
            n = number(size, dict(sequence.scalars))
            if buffer in data:
                assert n <= data[buffer].nbytes < n + UNIT_BYTES, (str(p), buffer)
            else:
                assert (buffer, n) == ("scratch", sequence.scratch_bytes)


EDGES = [
    ("transpose", {"m": 44, "n": 70, "dtype": "f16", "lds": 80, "ldd": 52}),
    ("transpose", {"m": 64, "n": 64, "dtype": "u8"}),
    ("tiled_copy", {"m": 33, "n": 20, "dtype": "f32", "ldd": 24}),
    ("gemm-simt", {"m": 40, "n": 36, "k": 20}),
    ("gemm-sm80", {"m": 64, "n": 72, "k": 48, "dtype": "bf16"}),
    ("permute", {"shape": (5, 7, 3), "axes": (2, 0, 1), "dtype": "f16"}),
    ("sum", {"shape": (3, 1001), "axes": (1,)}),
    ("softmax", {"shape": (9, 131), "axes": (1,)}),
    ("gelu", {"shape": (7, 33), "dtype": "bf16"}),
]


@pytest.mark.deep
@each(("name", "args"), EDGES)
def test_no_launch_leaves_the_buffers_that_are_stated(name: str, args: dict[str, Any]) -> None:
    """The text runs with buffers of just so many bytes, in front of and behind memory that traps."""
    p = FAMILIES[name].problem(**args)
    sequence = sequence_of(name, p)
    (kernel,), sizes = sequence.kernels, buffer_bytes(p, sequence)
    for end in ("lo", "hi"):  # the smallest and the largest launch, scalars 1
        values = {q.name: getattr(q.facts, end) for q in kernel.params if isinstance(q, Var)}
        values |= dict.fromkeys(dict(kernel.scalars), 1)
        memory = {b: np.zeros(number(size, values), np.uint8) for b, size in sizes.items()}
        given = [memory[q.name] if q.name in memory else values[q.name] for q in kernel.params]
        grid = launch_grid(kernel, values)
        shared = dynamic_bytes(kernel)
        run_cuda_text(to_cuda(kernel), kernel.name, grid, (kernel.threads,), given, shared)


def record_of(name: str, **args: Any) -> LaunchRecord:
    p = FAMILIES[name].problem(**args)
    sequence = sequence_of(name, p)
    return launch_record(str(p), sequence, buffer_bytes(p, sequence), units=read_in_units(p))


def test_it_is_said_where_loads_take_more_than_the_last_element() -> None:
    rest = "; loads may take the rest of the last aligned 16"
    ragged, whole = (record_of("softmax", shape=(7, n), axes=1, dtype="bf16") for n in (13, 16))
    assert list(buffer_lines(ragged))[2:] == [f"  src  182 bytes{rest}", "  dst  182 bytes, written"]
    assert list(buffer_lines(whole))[2:] == ["  src  224 bytes", "  dst  224 bytes, written"]
    assert rest not in "".join(buffer_lines(record_of("sum", shape=(7, 13), axes=1, dtype="bf16")))


@each(
    ("name", "shape", "dtype"),
    [("softmax", (7, 13), "bf16"), ("layer_norm", (3, 9), "f16"), ("rms_norm", (3, 515), "f32")],
)
def test_loads_end_with_the_last_16_bytes_that_hold_an_element(
    name: str, shape: tuple[int, ...], dtype: str
) -> None:
    """The simulator refuses the next byte: in 16-byte units a launch runs, in elements it does not."""
    p = FAMILIES[name].problem(shape, 1, dtype)
    (kernel,) = sequence_of(name, p).kernels
    elems, width = p.axes.source_elems, p.dtype.nbytes
    units = -(-elems * width // 16) * 16 // width
    kind = {2: np.uint16, 4: np.uint32}[width]
    dst = np.zeros(elems, kind)
    simulate(kernel, {"src": np.ones(units, kind), "dst": dst})
    assert dst.any() or name == "layer_norm"
    with pytest.raises(SimulationError, match="of src"):
        simulate(kernel, {"src": np.ones(elems, kind), "dst": dst})


def test_a_record_says_which_buffers_are_results_and_may_be_one() -> None:
    record, in_place = (record_of("softmax", shape=(20000, 8), axes=(0,), in_place=x) for x in (False, True))
    assert [b.name for b in record.buffers] == ["src", "scratch", "dst"]
    assert [b.name for b in record.given] == ["src", "dst"] and record.alias == "forbidden"
    assert [list(step.terms.attributes) for step in record.steps] == [[], [EARLY]]
    assert in_place.alias == "in_place" and [(b.name, b.written) for b in in_place.given] == [("dst", True)]
    k = KernelBuilder("copy", threads=32)
    n, ld = k.param("n", 96, 32, multiple=32), k.param("ld", 960)
    k.pointer("src", 4)
    k.pointer("dst", 4, writable=True)
    k.require(n <= ld)
    k.require(n <= ld)
    record = launch_record("a copy", launch_sequence([k.build()]), {"src": n * 4, "dst": Const(384)})
    assert launch_answers(record)[0].conditions == ("n <= ld",)
    assert list(buffer_lines(record)) == [
        "a copy", "Buffers, which do not overlap where one is written:",
        "  src  n * 4 bytes, 128 at least", "  dst  384 bytes, written",
    ]  # fmt: skip


def test_integers_that_a_plan_has_chosen_are_nothing_else() -> None:
    p = gemm_problem(64, 64, 512)
    sequence = gemm_launches.launches(p, Sm80Config(64, 64, 32, 2, 2, 3, splits=4))
    record = launch_record(str(p), sequence, buffer_bytes(p, sequence), {"splits": 4})
    (splits,) = (x for x in record.parameters if x.name == "splits")
    assert (splits.least, splits.most) == (4, 4)
    (scratch,) = (b.bytes for b in record.buffers if b.name == "scratch")
    assert number(scratch, dict(sequence.scalars)) == 4 * 64 * 64 * 4
    names = [x.name for x in record.parameters]
    assert len(names) == len(set(names))


def test_a_buffer_without_a_size_is_refused() -> None:
    k = KernelBuilder("copy", threads=32)
    k.pointer("src", 4)
    with pytest.raises(ArgumentTypeError, match="copy points to src, whose size nobody states"):
        launch_record("a copy", launch_sequence([k.build()]), {})
    with pytest.raises(ArgumentTypeError, match="not a problem of a family"):
        buffer_bytes(7, launch_sequence([]))


def test_json_has_every_launch_in_order() -> None:
    payload = answer("generate", "softmax", "--shape", "20000,8", "--axes", "0")
    names = [one["kernel"].rpartition("_")[0] for one in payload["kernels"]]
    assert names == ["softmax_f32_statistics", "softmax_f32_result"]
    first, second = payload["kernels"]
    assert payload["launch"] == first and first["alias"] == "forbidden" and second["cluster"] == [1, 1, 1]
    assert second["attributes"] == [{"name": EARLY, "value": 1}]
    assert {b["name"]: b["bytes"] for b in second["buffers"]}["scratch"] == 2496
    assert {p["name"]: p["buffer"] for p in second["parameters"]}["partial"] == "scratch"
    wide = answer("generate", "gemm-sm80", "--m", "256", "--n", "256", "--k", "256")
    assert {a["name"]: a["value"] for a in wide["launch"]["attributes"]} == {
        MOST_SHARED: wide["launch"]["dynamic_shared_bytes"]
    }
