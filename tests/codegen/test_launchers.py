"""Launchers: three texts of one record, which refuse by name what a launch must not be given."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from layoutalg.codegen.printing import LIBRARIES, LaunchRecord, with_launcher
from layoutalg.errors import UnknownNameError
from tests.command import answer, refusal
from tests.launchers import SOFTMAX, TRANSPOSE, linked
from tests.nvcc import needs_nvcc, nvcc
from tests.sweeps import each

BYTES = 256 * 128 * 4
AT, FAR = 1 << 20, 1 << 30


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


class Array:
    """What both libraries' arrays are asked for, without memory."""

    def __init__(self, at: int, *shape: int, width: int = 4, gpu: int = 0) -> None:
        self.data = SimpleNamespace(ptr=at)
        self.itemsize, self.shape, self.size = width, shape, 1
        self.strides = tuple(
            width * (shape[1] if i == 0 and len(shape) > 1 else 1) for i in range(len(shape))
        )
        self.device = SimpleNamespace(id=gpu, index=gpu)
        self.is_cuda = True

    def data_ptr(self) -> int:
        return int(self.data.ptr)

    def element_size(self) -> int:
        return self.itemsize

    def numel(self) -> int:
        return self.size

    def stride(self) -> tuple[int, ...]:
        return tuple(d // self.itemsize for d in self.strides)


class Launcher:
    """A generated module, with a stand-in for its library; what it would launch is kept."""

    def __init__(self, library: str, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
        stub = ModuleType(library)
        empty = Array(FAR * 2, 1)
        current = SimpleNamespace(cuda_stream=7, ptr=7)
        stub.cuda = SimpleNamespace(  # type: ignore[attr-defined]
            current_device=lambda: 0, current_stream=lambda: current, get_current_stream=lambda: current,
            Device=lambda: SimpleNamespace(id=0),
        )  # fmt: skip
        stub.Tensor = stub.ndarray = Array  # type: ignore[attr-defined]
        stub.uint8 = "uint8"  # type: ignore[attr-defined]
        stub.empty = lambda *given, **named: empty  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, library, stub)
        self.payload = answer("generate", *words, "--launcher", library)
        self.module: dict[str, Any] = {}
        exec(compile(self.payload["source"], "launcher", "exec"), self.module)
        self.launched: list[tuple[Any, ...]] = []
        self.module["_launch"] = lambda *given: self.launched.append(given)

    def __call__(self, *arrays: Any, **named: Any) -> None:
        self.module["launch"](*arrays, **named)


@each("library", list(LIBRARIES))
def test_a_launch_that_is_right_reaches_the_driver(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Launcher(library, TRANSPOSE, monkeypatch)
    run(Array(AT, 256, 128), Array(FAR, 128, 256), m=256, n=128, lds=128, ldd=256)
    ((name, device, stream, grid, block, shared, early, arguments),) = run.launched
    launch = run.payload["launch"]
    assert (name, device, stream, block, shared, early) == (
        launch["kernel"], 0, 7, tuple(launch["block"]), launch["dynamic_shared_bytes"], False
    )  # fmt: skip
    assert grid[1:] == (1, 1) and grid[0] > 0
    assert [a.value for a in arguments] == [256, 128, 128, 256, AT, FAR]


@each("library", list(LIBRARIES))
def test_kernels_are_launched_in_order_with_scratch_memory(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Launcher(library, SOFTMAX, monkeypatch)
    run(Array(AT, 20000, 8), Array(FAR, 20000, 8))
    assert [given[0] for given in run.launched] == [one["kernel"] for one in run.payload["kernels"]]
    assert [given[6] for given in run.launched] == [0, 6]  # the second may start early
    first, second = ([a.value for a in given[7]] for given in run.launched)
    assert first == [AT, FAR * 2] and second == [AT, FAR, FAR * 2]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"m": 258}, "m = 258: 4 to 256, a multiple of 4, is accepted"),
    ({"m": True}, "m = True: an int is accepted"),
    ({"n": 0}, "n = 0: 4 to 128, a multiple of 4, is accepted"),
    ({"ldd": 128}, "m <= ldd is needed"),
    ({"src": Array(AT + 4, 256, 128)}, f"src starts at {AT + 4:#x}: a multiple of 16 is accepted"),
    ({"src": Array(AT, 255, 128)}, f"src has {BYTES - 512} bytes: {BYTES} are needed"),
    ({"src": Array(AT, 256, 128, width=8)}, "src has elements of 8 bytes: 4 are accepted"),
    ({"src": Array(AT, 256, 128, gpu=1)}, "src is on GPU 1: an array on the current one, 0, is accepted"),
    ({"src": 5}, "src is a int: a"),
    ({"dst": Array(AT + BYTES - 16, 128, 256)}, "src overlaps dst: buffers that lie apart are accepted"),
]


@each("library", list(LIBRARIES))
def test_what_is_outside_is_refused_by_name(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Launcher(library, TRANSPOSE, monkeypatch)
    usual: dict[str, Any] = {"m": 256, "n": 128, "lds": 128, "ldd": 256}
    arrays = {"src": Array(AT, 256, 128), "dst": Array(FAR, 128, 256)}
    for wrong, says in WRONG:
        given = {**arrays, **usual, **wrong}
        with pytest.raises(ValueError) as refused:
            run(given.pop("src"), given.pop("dst"), **given)
        assert str(refused.value).startswith(f"{run.payload['kernel']}: {says}")
    assert run.launched == []


def test_another_launcher_is_unknown() -> None:
    with pytest.raises(UnknownNameError, match="launcher"):
        with_launcher("", LaunchRecord("nothing", (), ()), "jax")
    _, said = refusal("generate", *SOFTMAX, "--launcher", "cpp", "--part", "1")
    assert "--part is not accepted beside" in said
