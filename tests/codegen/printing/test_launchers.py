"""Launchers: three texts of one record, which refuse by name what a launch must not be given."""

from __future__ import annotations

import math
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from layoutalg.cli.kernel_names import find_kernel
from layoutalg.codegen import printing
from layoutalg.codegen.expr import Const, Eq, Expr, Var, evaluate, substitute, variables
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import launch_sequence
from layoutalg.errors import UnknownNameError
from layoutalg.kernels import FAMILIES
from tests.command import answer, refusal
from tests.stand_ins.compiled_once import hostcc
from tests.stand_ins.launchers import SOFTMAX, TRANSPOSE, linked
from tests.stand_ins.libraries import AT, FAR, SCRATCH, Array, dense, stand_in
from tests.stand_ins.nvcc import needs_nvcc, nvcc
from tests.sweeps import each

BYTES = 256 * 128 * 4


@pytest.mark.deep
@needs_nvcc
def test_two_generated_files_and_a_program_are_linked_and_refuse(tmp_path: Path) -> None:
    """Nothing here needs a GPU: every call is refused before it reaches one."""
    program = linked(tmp_path, "sm_90a")
    said = subprocess.run([program], capture_output=True, text=True, check=True, timeout=60).stdout
    assert [line.partition(": ")[2] for line in said.splitlines()] == [
        "m = 258: 4 to 256, a multiple of 4, is accepted",
        "m = 512: 4 to 256, a multiple of 4, is accepted",
        "m <= ldd is needed",
        f"src starts at {AT + 4}: an address that is a multiple of 16 is accepted",
        f"src has {BYTES - 4} bytes: {BYTES} are needed",
        "src overlaps dst: buffers that lie apart are accepted",
        "src starts at 0: an address that is a multiple of 16 is accepted",
        "src overlaps dst: buffers that lie apart are accepted",
    ]


@pytest.mark.deep
@needs_nvcc
@pytest.mark.parametrize(
    "words", [("gemm-simt", "--step", "v8", "--c"), ("softmax", "--shape", "40,512")], ids=str
)
def test_a_program_of_one_file_compiles_without_warnings_and_refuses(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    """On a GPU it says how long a launch takes; without one what CUDA says."""
    made, program = tmp_path / "kernel.cu", tmp_path / "kernel"
    made.write_text(answer("generate", *words, "--launcher", "main")["source"], encoding="utf-8")
    nvcc(["-arch=sm_90", "-o", program, made])

    def said(*given: str) -> tuple[int, str]:
        done = subprocess.run([program, *given], capture_output=True, text=True, check=False, timeout=60)
        return done.returncode, done.stdout + done.stderr

    assert said("mm=3")[0] == 1 and "mm=3: accepted are" in said("mm=3")[1]
    status, text = said()
    assert "ms per launch" in text if status == 0 else "CUDA" in text
    if words[0] == "gemm-simt":
        assert said("m=12x") == (1, "m=12x: a number is needed\n")


class Launcher:
    """A generated module, with stand-ins for its library and a GPU; what it would launch is kept."""

    def __init__(self, library: str, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
        self.payload = answer("generate", *words, "--launcher", library)
        self.launch, self.launched = module_of(library, self.payload["source"], monkeypatch)

    def __call__(self, *arrays: Any, **named: Any) -> None:
        self.launch(*arrays, **named)


def module_of(
    library: str, source: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[Callable[..., None], list[tuple[Any, ...]]]:
    """A launcher on a stand-in of its library and of an sm_90 GPU, and the list that its launches go to."""
    stand_in(library, monkeypatch)
    module: dict[str, Any] = {}
    launched: list[tuple[Any, ...]] = []
    exec(compile(source, "launcher", "exec"), module)
    module["_launch"] = lambda *given, **named: launched.append(given)
    module["_capability"] = lambda device: 90
    module["_tensor_map"] = lambda *given: given
    return module["launch"], launched


RIGHT: dict[str, Any] = {"m": 256, "n": 128, "lds": 128, "ldd": 256}
RIGHT |= {"src": dense(AT, 256, 128), "dst": dense(FAR, 128, 256)}


@each("library", list(printing.LIBRARIES))
def test_what_is_right_reaches_the_driver_and_the_rest_is_refused_by_name(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Launcher(library, TRANSPOSE, monkeypatch)
    run(**RIGHT)
    ((name, device, stream, grid, block, shared, early, arguments),) = run.launched
    launch = run.payload["launch"]
    assert (name, device, stream, block, shared, early) == (
        launch["kernel"], 0, 7, tuple(launch["block"]), launch["dynamic_shared_bytes"], False
    )  # fmt: skip
    assert grid[1:] == (1, 1) and grid[0] > 0
    assert [a.value for a in arguments] == [256, 128, 128, 256, AT, FAR]
    for wrong, says in WRONG:
        ((name, value),) = wrong.items()
        given = RIGHT | {name: replace(RIGHT[name], **value) if isinstance(value, dict) else value}
        with pytest.raises(ValueError, match=re.escape(f"{launch['kernel']}: {says}")):
            run(**given)
    assert len(run.launched) == 1
    run = Launcher(library, SOFTMAX, monkeypatch)
    run(dense(AT, 20000, 8), dense(FAR, 20000, 8))
    assert [given[0] for given in run.launched] == [one["kernel"] for one in run.payload["kernels"]]
    assert [given[6] for given in run.launched] == [0, 6]  # the second may start early
    first, second = ([a.value for a in given[7]] for given in run.launched)
    assert first == [AT, SCRATCH] and second == [AT, FAR, SCRATCH]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"m": 258}, "m = 258: 4 to 256, a multiple of 4, is accepted"),
    ({"m": np.True_}, f"m = {np.True_!r}: an int is accepted"),
    ({"ldd": 128}, "m <= ldd is needed"),
    ({"src": {"at": AT + 4}}, f"src starts at {AT + 4:#x}: a multiple of 16 is accepted"),
    (
        {"src": {"shape": (255, 128)}},
        "src has shape (255, 128), strides (128, 1): shape (256, 128), strides (128, 1) is accepted",
    ),
    ({"src": {"kind": "float64", "width": 8}}, "src is float64: float32 is accepted"),
    ({"src": {"gpu": 1}}, "src is on GPU 1: an array on the current one, 0, is accepted"),
    ({"src": 5}, "src is a int: a"),
    ({"dst": {"at": AT + BYTES - 16}}, "src overlaps dst: buffers that lie apart are accepted"),
]
"""Of each kind of refusal one, with its words; the law below draws all of them."""


# --- any kernel, any argument --------------------------------------------------------------------------

FAMILY_CASES: dict[str, list[dict[str, Any]]] = {
    "tiled_copy": [{"m": 60, "n": 36, "dtype": "s8", "lds": 48}],
    "transpose": [{"m": 64, "n": 32, "dtype": "bf16"}],
    "permute": [
        {"shape": "5,8,16", "axes": "2,0,1", "dtype": "f16"}, {"shape": "4,1,16", "axes": "1,0,2"},
        {"shape": "8,12,3", "axes": "0,2,1", "dtype": "u8", "result": "bf16"},
    ],
    "gemm-simt": [{"m": 64, "n": 64, "k": 32, "c": True, "bias": "m"}],
    "gemm-sm75": [{"m": 64, "n": 64, "k": 64}],
    "gemm-sm80": [
        {"m": 64, "n": 64, "k": 64, "dtype": "bf16", "b_major": "mn"},
        {"m": 64, "n": 64, "k": 64, "dtype": "s8", "result": "s32"},
        {"m": 64, "n": 64, "k": 256, "dtype": "b1"},
    ],
    "gemm-sm90": [{"m": 256, "n": 128, "k": 64}, {"m": 512, "n": 128, "k": 64, "groups": 3}],
    "gemv": [{"m": 2, "n": 64, "k": 64, "dtype": "bf16"}],
    "attention": [{"shape": "2,4,40,64"}],
    "cross_entropy": [{"shape": "12,40", "axes": "1", "dtype": "f16"}],
}  # fmt: skip
"""Problems of families; of the others a small tensor."""


def problems(family: str) -> list[dict[str, Any]]:
    axes = {"axes": "1"} if "axes" in FAMILIES[family].asks else {}
    return FAMILY_CASES.get(family, [{"shape": "6,40", "dtype": ("f32", "bf16")[len(family) % 2], **axes}])


SIZED = tuple(f"{kind}{n}" for kind in ("float", "int") for n in (16, 32, 64))
OTHERS = ("bfloat16", *SIZED, "int8", "uint8", "complex128")
WIDTHS = {"bfloat16": 2, **{kind: np.dtype(kind).itemsize for kind in OTHERS if kind != "bfloat16"}}


def drawn_integers(record: printing.LaunchRecord, rng: random.Random) -> dict[str, int]:
    """Values of the parameters that are right: in their ranges, and between them.  What a condition sets
    equal to others is computed from those; of one that does not hold, a value is drawn anew, below."""
    ranges = {p.name: range(*ends(p)) for p in record.parameters if p.kind == "int"}
    conditions = [c for step in record.steps for c in step.terms.conditions]
    bound = {c.a: c.b for c in conditions if isinstance(c, Eq) and isinstance(c.a, Var)}
    conditions = [substitute(c, bound) for c in conditions]
    values = {name: rng.choice((rng.choice, max))(r) for name, r in ranges.items()}
    while True:
        values |= {v.name: evaluated(e, values) for v, e in bound.items()}
        broken = [c for c in conditions if not evaluated(c, values)]
        if not broken:
            assert all(x in ranges[name] for name, x in values.items())
            return values
        free = sorted({v.name for c in broken for v in variables(c)})
        lower = {name: range(ranges[name].start, values[name], ranges[name].step) for name in free}
        name = rng.choice([name for name in free if lower[name]])
        values[name] = rng.choice(lower[name])


def ends(p: Any) -> tuple[int, int, int]:
    """The range of a parameter."""
    return p.least, p.most + 1, p.multiple


def evaluated(e: Expr, values: Mapping[str, int]) -> int:
    return int(evaluate(e, {v: values[v.name] for v in variables(e)}))


NAMES = {"torch": {"bf16": "bfloat16"}, "cupy": {"bf16": "uint16"}}


def right_arguments(
    record: printing.LaunchRecord, library: str, rng: random.Random
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Buffers and numbers of a launch that is right."""
    values: dict[str, Any] = dict(drawn_integers(record, rng))
    arrays: dict[str, Any] = {}
    for number, b in enumerate(record.given):
        assert b.view is not None
        kind = b.view.dtype
        shape, strides = (
            tuple(evaluated(e, values) for e in side) for side in (b.view.shape, b.view.strides)
        )
        if rng.random() < 0.4:  # a mode of one element may stand anywhere, with any stride
            at = rng.randrange(len(shape) + 1)
            shape, strides = (*shape[:at], 1, *shape[at:]), (*strides[:at], 12345, *strides[at:])
        name = NAMES[library].get(kind.name, kind.numpy_name)
        arrays[b.name] = Array((number + 1) << 32, shape, strides, name, kind.nbytes)
    for p in record.parameters:
        if p.kind == "scalar":
            types = {step.types[p.name] for step in record.steps if p.name in step.types}
            values[p.name] = 0.5 if types == {"float"} else 3
    return arrays, values


def wrong_arrays(
    record: printing.LaunchRecord, name: str, arrays: Mapping[str, Any], library: str
) -> Iterator[Any]:
    """Every way to break one property of one array."""
    x, (buffer,) = arrays[name], (b for b in record.given if b.name == name)
    yield from (5, None, np.zeros(x.shape, "f4"))
    accepted = {x.kind} if library == "torch" or x.kind != "uint16" else {x.kind, "bfloat16"}
    yield from (replace(x, kind=k, width=WIDTHS[k]) for k in OTHERS if k not in accepted)
    yield from (replace(x, gpu=1), replace(x, at=x.at + 1))
    if buffer.align_bytes > x.width:
        yield replace(x, at=x.at + x.width)
    yield replace(x, shape=(2, *x.shape), strides_elems=(1 << 20, *x.strides_elems))
    wide = [k for k, n in enumerate(x.shape) if n > 1]
    for k in wide:
        for shape in (x.shape[k] - 1, x.shape[k] + 1, 0):
            yield replace(x, shape=(*x.shape[:k], shape, *x.shape[k + 1 :]))
        between = 0.5 if library == "cupy" and x.width > 1 else 2
        for stride in (x.strides_elems[k] + 1, x.strides_elems[k] + between, -x.strides_elems[k] or -1):
            yield replace(x, strides_elems=(*x.strides_elems[:k], stride, *x.strides_elems[k + 1 :]))
    if len(wide) > 1:
        turned = [*x.shape], [*x.strides_elems]
        for side in turned:
            side[wide[0]], side[wide[-1]] = side[wide[-1]], side[wide[0]]
        yield replace(x, shape=tuple(turned[0]), strides_elems=tuple(turned[1]))
        flat = math.prod(x.shape)
        yield replace(x, shape=(flat,), strides_elems=(1,))
    for other in record.given:
        if other.name != name and (other.written or buffer.written):
            yield replace(x, at=arrays[other.name].at)
    if library == "torch":
        yield from (replace(x, gpu=None), replace(x, requires_grad=True), replace(x, negated=True))
        yield replace(x, layout="sparse_coo")
    else:
        yield replace(x, native=False)


def wrong_numbers(record: printing.LaunchRecord, name: str) -> Iterator[Any]:
    """What is not an int, or not one of those that the kernels are made for."""
    (p,) = (p for p in record.parameters if p.name == name)
    yield from (True, None, "3", 1e300)
    if p.kind == "int":
        least, end, multiple = ends(p)
        yield from (end - 1 + multiple, least - multiple, float(end - 1), 1 << 40)
        yield from [least + 1] if multiple > 1 else []


@each(("family", "library"), [(f, x) for f in FAMILIES for x in printing.LIBRARIES], sample=7)
def test_any_wrong_argument_of_any_kernel_is_refused_and_right_ones_are_taken(
    family: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A law: of drawn arguments that are right, one property is broken at a time."""
    for number, options in enumerate(problems(family)):
        rng = random.Random(f"{family} {number} 20261129")
        found = find_kernel(family, options, "sm_90a")
        launch, launched = module_of(
            library, printing.python_launcher(found.record, "", library), monkeypatch
        )
        for _ in range(3):
            arrays, values = right_arguments(found.record, library, rng)
            launch(*arrays.values(), **values)
            launch(*arrays.values(), **{name: np.array(x)[()] for name, x in values.items()})
        assert len(launched) == 6 * len(found.record.steps), options
        launched.clear()
        for name in arrays:
            for wrong in wrong_arrays(found.record, name, arrays, library):
                with pytest.raises(ValueError, match=f"^{found.record.steps[0].kernel}: .*(accepted|needed)"):
                    launch(*(arrays | {name: wrong}).values(), **values)
        for name in values:
            for wrong in wrong_numbers(found.record, name):
                with pytest.raises(ValueError, match=f"{name} = .* accepted"):
                    launch(*arrays.values(), **values | {name: wrong})
        assert launched == []


def test_a_tensor_that_records_gradients_is_taken_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Launcher("torch", SOFTMAX, monkeypatch)
    src, dst = replace(dense(AT, 20000, 8), requires_grad=True), dense(FAR, 20000, 8)
    with pytest.raises(ValueError, match=r"src records gradients: .* inside torch.no_grad\(\)"):
        run(src, dst)
    sys.modules["torch"].is_grad_enabled = lambda: False  # type: ignore[attr-defined]
    run(src, dst)
    assert len(run.launched) == 2


def test_what_is_not_stated_of_an_array_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program by hand states bytes alone."""
    k = KernelBuilder("by_hand", threads=32)
    k.pointer("dst", 4, writable=True)
    record = printing.launch_record("a fill", launch_sequence([k.build()]), {"dst": Const(64)})
    launch, launched = module_of("cupy", printing.python_launcher(record, "", "cupy"), monkeypatch)
    launch(dense(AT, 4, 4, kind="int32"))
    for array, said in (
        (dense(AT, 15), r"dst has shape \(15,\), strides \(1,\): 64 bytes from its start on"),
        (dense(AT, 64, kind="int16", width=2), "dst has elements of 2 bytes: 4 are accepted"),
        (replace(dense(AT, 16), strides_elems=(-1,)), "64 bytes from its start on are needed"),
    ):
        with pytest.raises(ValueError, match=said):
            launch(array)
    assert len(launched) == 1


def test_another_launcher_is_unknown() -> None:
    with pytest.raises(UnknownNameError, match="launcher"):
        printing.with_launcher("", printing.LaunchRecord("nothing", (), ()), "jax")
    _, said = refusal("generate", *SOFTMAX, "--launcher", "cpp", "--part", "1")
    assert "--part is not accepted beside" in said


RUNTIME = """
#include <cstdio>
#include <stdexcept>
#include <string>
enum cudaError_t { cudaSuccess, cudaErrorInvalidValue };
enum { cudaMemoryTypeUnregistered, cudaMemoryTypeHost, cudaMemoryTypeDevice, cudaMemoryTypeManaged };
enum { cudaDevAttrPageableMemoryAccess = 88 };
struct cudaPointerAttributes { int type, device; };
int type_here, gpu_here, pageable_here;
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* found, const void*) {
    *found = {type_here, gpu_here};
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* found, int, int) { *found = pageable_here; return cudaSuccess; }
"""
PLACES = """
int main() {
    for (type_here = 0; type_here < 4; ++type_here)
        for (gpu_here = 0; gpu_here < 2; ++gpu_here)
            for (pageable_here = 0; pageable_here < 2; ++pageable_here) try {
                check_place("src", nullptr, 0);
                std::printf("accepted\\n");
            } catch (const std::invalid_argument& refusal) { std::printf("%s\\n", refusal.what()); }
}
"""


def test_memory_of_the_host_and_of_another_gpu_is_refused_in_cpp(tmp_path: Path) -> None:
    """With a runtime that is stood in for: of unregistered, host, device and managed memory."""
    source, program = tmp_path / "places.cpp", tmp_path / "places"
    text = answer("generate", *TRANSPOSE, "--launcher", "cpp")["source"]
    found = [
        re.search(rf"^(\[\[noreturn\]\] )?\w+ {name}\(.*?^}}$", text, re.M | re.S)
        for name in ("refuse", "check_place")
    ]
    source.write_text(RUNTIME + "\n".join(x[0] for x in found if x) + PLACES, encoding="utf-8")
    flags = ("-std=c++17", "-Wall", "-Wextra", "-Werror", "-o")
    subprocess.run([*hostcc.find_compiler(), *flags, str(program), str(source)], check=True)
    said = subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()
    where = "memory of the current GPU, 0, is accepted"
    assert [line.partition("src is ")[2] or line for line in said] == [
        *(f"memory of the host: {where}", "accepted") * 2,  # a GPU may have access to all memory of the host
        *("accepted",) * 4,
        *("accepted",) * 2, *(f"memory of GPU 1: {where}",) * 2,
        *("accepted",) * 4,
    ]  # fmt: skip


# --- the operator of PyTorch, names and files ----------------------------------------------------------

OPERATORS: list[tuple[str, dict[str, Any], str, tuple[str, ...], dict[str, Any]]] = [
    ("softmax", {"shape": "64,40"}, "(Tensor src) -> Tensor", (), {"src": dense(AT, 7, 40)}),
    (
        "add_rms_norm", {"shape": "64,40"}, "(Tensor src, Tensor(a1!) residual) -> Tensor", ("residual",),
        {"src": dense(AT, 7, 40), "residual": dense(AT + 4096, 7, 40)},
    ),
    ("sum", {"shape": "8,4,40", "axes": "2"}, "(Tensor src) -> Tensor", (), {"src": dense(AT, 3, 4, 40)}),
    ("relu", {"shape": "64,40"}, "(Tensor x) -> Tensor", (), {"x": dense(AT, 7, 40)}),
    ("transpose", {"m": 64, "n": 32}, "(Tensor src) -> Tensor", (), {"src": dense(AT, 24, 20)}),
    (
        "gemm-simt", {"m": 64, "n": 64, "k": 32}, "(Tensor a, Tensor b, float alpha) -> Tensor", (),
        {"a": dense(AT, 64, 32), "b": dense(AT + 65536, 32, 64), "alpha": 1.0},
    ),
]  # fmt: skip
"""Families, their problems, the schema of the operator, what it updates, and arguments."""


@each("case", OPERATORS)
def test_an_operator_finds_its_numbers_and_makes_its_results(
    case: tuple[str, dict[str, Any], str, tuple[str, ...], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    family, options, schema, updated, given = case
    kernel = find_kernel(family, options, "sm_90a", linked="mine", free=True)
    source = printing.python_launcher(kernel.record, "", "torch")
    launch, launched = module_of("torch", source, monkeypatch)
    run = launch.__globals__["mine"]
    assert (run.name, run.named["schema"], run.named["mutates_args"]) == ("layoutalg::mine", schema, updated)
    result, shown = run(**given), run.made(**given)
    assert result == shown and len(launched) == 1
    (buffer,) = (b for b in kernel.record.given if b.written and not b.read)
    assert buffer.view is not None and len(result.shape) == len(buffer.view.shape)
    name, first = next(iter(given.items()))
    for wrong in (replace(first, shape=(*first.shape, 1)), replace(first, kind="float64", width=8)):
        with pytest.raises(ValueError, match=f"^mine: {name} .* accepted"):
            run(**given | {name: wrong})
    assert len(launched) == 1


def test_names_and_kinds_of_files_agree(tmp_path: Path) -> None:
    words, folder = ("generate", "softmax", "--shape", "64,40"), str(tmp_path)
    for more, says in (
        (("-o", f"{folder}/a.py"), "a.cu is what is written"),
        (("--launcher", "torch", "-o", f"{folder}/a.cu"), "a.py is what is written"),
        (("--ptx", "-o", f"{folder}/a"), "a.ptx is what is written"),
        (("--launcher", "cpp", "--header", f"{folder}/a.cu"), "a .h or .hpp beside --launcher cpp"),
        (("--header", f"{folder}/a.h"), "a .h or .hpp beside --launcher cpp"),
        (("--name", "src"), "the name src: something else of the text has it"),
        (("--name", "ldg128"), "the name ldg128: something else of the text has it"),
        (("--name", "launch"), "the name launch: something else of the text has it"),
        (
            ("--launcher", "torch", "--name", "numbers"),
            "the name numbers: something else of the module has it",
        ),
        (("--launcher", "torch", "--name", "lambda"), "the name lambda: something else of the module has it"),
        (("--name", "a b"), "'a b' cannot name something in CUDA text"),
    ):
        assert says in refusal(*words, *more)[1]
    assert not list(tmp_path.iterdir())


def test_a_header_declares_the_launcher_that_the_file_defines(tmp_path: Path) -> None:
    source, header = tmp_path / "rows.cu", tmp_path / "rows.hpp"
    made = answer(
        "generate", "softmax", "--shape", "64,40", "--launcher", "cpp", "--name", "mine", "-o", str(source),
        "--header", str(header),
    )  # fmt: skip
    text = header.read_text(encoding="utf-8")
    assert made["kernel"] == "mine" and "namespace layoutalg::mine {" in text
    assert "// rows: 1 to 26843545\n" in text
    (declared,) = re.findall(r"^cudaError_t launch\([^)]*\);$", text, re.M)
    assert f"{declared[:-1]} {{" in source.read_text(encoding="utf-8")
    with_rows, static = (answer("generate", "sum", "--shape", "64,40", *x) for x in ((), ("--static",)))
    assert [p["name"] for p in with_rows["launch"]["parameters"]] == ["rows", "src", "dst"]
    assert [p["name"] for p in static["launch"]["parameters"]] == ["src", "dst"]
