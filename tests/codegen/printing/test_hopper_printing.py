"""Texts and launchers of kernels with tensor maps, clusters, mbarriers and roles."""

from __future__ import annotations

import ctypes
import json
import operator
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from layoutalg.answers import fields_of
from layoutalg.codegen import printing
from layoutalg.codegen.expr import Const, Var, as_expr
from layoutalg.codegen.gpu import prepare, to_cuda
from layoutalg.codegen.instr import SETMAXNREG_DEC
from layoutalg.codegen.printing.cuda import print_kernel, without_clusters
from layoutalg.codegen.program import Do, Kernel, Role, Roles, contract, launch_sequence
from tests.stand_ins.libraries import AT, FAR, dense, stand_in
from tests.stand_ins.nvcc import compiled, needs_nvcc
from tests.tiles.boxes import Boxes, copy_program, ring_program

GOLDEN = Path(__file__).parents[2] / "golden"
SCHEMA = Path(__file__).parents[3] / "layoutalg" / "schema" / "output.json"
BOXES = Boxes((72, 9, 3), (64, 4, 1), "bf16", "128B")


def record(kernel: Kernel) -> printing.LaunchRecord:
    """The launch of one kernel that copies src to dst."""
    integers = [p for p in kernel.params if isinstance(p, Var)]
    size = as_expr(integers[0] * 256) if integers else Const(2 * 72 * 9 * 3)
    return printing.launch_record("a copy", launch_sequence([kernel]), {"src": size, "dst": size})


def text(kernel: Kernel) -> str:
    return printing.cpp_launcher(record(kernel), to_cuda(kernel))


def with_registers_given_back() -> Kernel:
    ring = ring_program()
    *before, roles = ring.body
    assert isinstance(roles, Roles)
    first, *others = roles.parts
    first = replace(first, body=(Do(SETMAXNREG_DEC, (40,)), *first.body))
    return replace(ring, body=(*before, Roles((first, *others))))


KERNELS = {"hopper_ring.cu": ring_program(), "hopper_copy.cu": copy_program(BOXES, 2)}


@pytest.mark.parametrize("name", list(KERNELS))
def test_the_text_and_its_launcher(name: str, golden: Callable[[str, str], None]) -> None:
    golden(name, text(KERNELS[name]))
    made = prepare(KERNELS[name], "sm_90").cubin
    assert (made.arch, made.spill_bytes, made.stack_bytes) == ("sm_90", 0, 0)


@pytest.mark.deep
@needs_nvcc
@pytest.mark.parametrize(("name", "target"), [("hopper_ring.cu", "sm_90a"), ("hopper_copy.cu", "sm_90")])
def test_nvcc_has_nothing_to_say(name: str, target: str) -> None:
    compiled(GOLDEN / name, target)


def test_a_kernel_whose_warps_give_back_registers_states_its_blocks() -> None:
    kernel = with_registers_given_back()
    assert "__launch_bounds__(160, 1)" in print_kernel(kernel)
    assert "__launch_bounds__(160)" in print_kernel(ring_program())
    assert prepare(kernel, "H100", print_kernel(kernel)).cubin.arch == "sm_90a"
    said = contract(kernel)
    assert said.target == "sm_90a" and printing.launch_answers(record(kernel))[0].target == "sm_90a"
    assert "// Only sm_90a has its instructions: nvcc -gencode arch=compute_90a,code=sm_90a." in text(kernel)


CHOICES: list[tuple[list[tuple[int, int]], list[str]]] = [
    ([(0, 4), (4, 8)], ["if (warp < 4) {", "} else {"]),
    ([(4, 8), (0, 4)], ["if (warp < 4) {", "} else {"]),
    ([(0, 4), (4, 4)], ["if (warp < 4) {", "} else if (warp < 8) {"]),
    ([(1, 1), (4, 8)], ["if (warp == 1) {", "} else if (warp >= 4) {"]),
    (
        [(0, 1), (2, 3), (11, 1)],
        ["if (warp < 1) {", "} else if (warp >= 2 && warp < 5) {", "} else if (warp >= 11) {"],
    ),
    ([(0, 12)], ["{"]),
]
"""Roles by first warp and warps of a block of 12, and the choice that is printed."""


@pytest.mark.parametrize(("warps", "printed"), CHOICES, ids=str)
def test_roles_are_a_choice_by_the_warp(warps: list[tuple[int, int]], printed: list[str]) -> None:
    parts = tuple(Role(f"part{n}", first, count, ()) for n, (first, count) in enumerate(warps))
    lines = print_kernel(replace(ring_program(), threads=384, body=(Roles(parts),))).splitlines()
    found = [line.partition("  // role part") for line in lines if "// role" in line]
    assert [choice.strip() for choice, _, _ in found] == printed
    assert [int(n[0]) for _, _, n in found] == [warps.index(one) for one in sorted(warps)]
    signs = {"==": operator.eq, "<": operator.lt, ">=": operator.ge}
    for w in range(12):  # the first branch that is taken by a warp, if any, is that of its role
        taken = [
            int(n[0]) for choice, _, n in found
            if all(signs[sign](w, int(m)) for sign, m in re.findall(r"warp (==|<|>=) (\d+)", choice))
        ]  # fmt: skip
        assert taken[:1] == [n for n, (first, count) in enumerate(warps) if first <= w < first + count]


@pytest.mark.deep
def test_the_launch_record_says_how_maps_are_encoded() -> None:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    for kernel in KERNELS.values():
        (launch,) = fields_of(printing.launch_answers(record(kernel)))
        jsonschema.validate(launch, {"$ref": "#/$defs/LaunchAnswer", "$defs": schema["$defs"]})
    assert launch["cluster"] == [2, 1, 1] and launch["target"] is None
    first, second = launch["maps"]
    assert (first["name"], first["buffer"], second["buffer"]) == ("map_src", "src", "dst")
    sizes = [first[name] for name in ("globalDim", "globalStrides", "boxDim")]
    assert sizes == [[72, 9, 3], [144, 1296], [64, 4, 1]]
    kinds = first["tensorDataType"], first["swizzle"]
    assert kinds == ("CU_TENSOR_MAP_DATA_TYPE_BFLOAT16", "CU_TENSOR_MAP_SWIZZLE_128B")
    large, allowed = copy_program(BOXES, 16), "cudaFuncAttributeNonPortableClusterSizeAllowed"
    (given,) = printing.launch_answers(record(large))
    assert fields_of(given.attributes) == [{"name": allowed, "value": 1}]
    assert f"cudaFuncSetAttribute(tma_copy, {allowed}, 1)" in text(large)


def test_a_text_without_clusters_is_the_same_but_for_them() -> None:
    source = print_kernel(copy_program(BOXES, 2))
    other = without_clusters(source, (2, 1, 1))
    assert "__cluster_dims__(2, 1, 1) " in source and "__cluster_dims__" not in other
    assert len(source) - len(other) == len("__cluster_dims__(2, 1, 1) ")


class Cuda:
    """libcuda for a launcher: it says what it was given."""

    def __init__(self, capability: tuple[int, int] = (9, 0), status: int = 0) -> None:
        self.capability, self.status = capability, status
        self.encoded: list[tuple[Any, ...]] = []

    def cuDeviceGetAttribute(self, place: Any, attribute: int, device: int) -> int:
        place._obj.value = self.capability[attribute - 75]
        return 0

    def cuTensorMapEncodeTiled(self, image: Any, *given: Any) -> int:
        assert ctypes.addressof(image) % 64 == 0 and len(image) == 128
        image[0] = bytes([len(self.encoded) + 1])
        plain = [tuple(x) if isinstance(x, ctypes.Array) else getattr(x, "value", x) for x in given]
        self.encoded.append(tuple(plain))
        return self.status


@pytest.fixture(params=["torch", "cupy"])
def module(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What makes the `launch` of a kernel on stand-ins, and the list of its launches."""
    library: str = request.param
    stand_in(library, monkeypatch)

    def made(kernel: Kernel, cuda: Cuda) -> tuple[Callable[..., None], list[tuple[Any, ...]]]:
        names: dict[str, Any] = {}
        source = printing.python_launcher(record(kernel), print_kernel(kernel), library)
        exec(compile(source, "launcher", "exec"), names)
        launched: list[tuple[Any, ...]] = []
        names["_launch"] = lambda *given, **named: launched.append((*given, named))
        monkeypatch.setattr(names["ctypes"], "CDLL", lambda name: cuda)
        return names["launch"], launched

    return made


def test_python_launchers_encode_maps_once_per_address_and_allow_large_clusters(module: Any) -> None:
    cuda = Cuda()
    launch, launched = module(KERNELS["hopper_ring.cu"], cuda)
    for _ in range(3):
        launch(dense(AT, 80, 64), dense(FAR, 80, 64), m=80)
    launch(dense(2 * AT, 80, 64), dense(FAR, 80, 64), m=72)
    assert [given[2] for given in cuda.encoded] == [AT, 2 * AT]
    assert cuda.encoded[0] == (7, 2, AT, (64, 80), (256, 0), (64, 8), (1, 1), 0, 0, 3, 0)
    images = [bytes(one[7][-1]) for one in launched]
    assert [image[0] for image in images] == [1, 1, 1, 2] and {len(image) for image in images} == {128}
    assert launched[0][7][0].value == 80 and launched[0][8] == {}
    for blocks, named in ((2, {}), (16, {"large": True})):
        launch, launched = module(copy_program(BOXES, blocks), Cuda())
        launch(*(dense(at, 27, 72, kind="uint16", width=2) for at in (AT, FAR)))
        assert launched[0][-1] == named and len(launched[0][7]) == 4


def test_python_launchers_refuse_by_name(module: Any) -> None:
    ring = KERNELS["hopper_ring.cu"]
    for kernel, cuda, said in (
        (ring, Cuda((8, 0)), "the GPU is sm_80: sm_90 and later is accepted"),
        (with_registers_given_back(), Cuda((10, 0)), "the GPU is sm_100: sm_90 is accepted"),
        (ring, Cuda(status=1), "cuTensorMapEncodeTiled of map_src reports error 1"),
    ):
        with pytest.raises(ValueError, match=f"ring: {said}"):
            module(kernel, cuda)[0](dense(AT, 8, 64), dense(FAR, 8, 64), m=8)
