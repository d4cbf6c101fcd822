"""Machine code parsed and counted: a small program by hand, its other spelling, and real kernels."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from layoutalg.codegen import gpu
from layoutalg.codegen.gpu import SassInstruction, compile_cubin, disassemble, parse_sass, to_cuda
from layoutalg.codegen.gpu.sass import classify, find_disassembler
from layoutalg.codegen.program import Do, For, If, Kernel, Stmt, Unroll
from layoutalg.errors import CompileError, UnsupportedError
from layoutalg.kernels import FAMILIES
from layoutalg.kernels.gemm.problem import gemm_problem
from layoutalg.kernels.registry import find_steps
from tests.sweeps import each

TEXT = (Path(__file__).parents[2] / "data" / "dot_sm80.sass").read_text(encoding="utf-8")
DOT = gpu.parse_sass(TEXT)[0]


def test_a_program_is_its_instructions_without_padding() -> None:
    assert [f.name for f in gpu.parse_sass(TEXT)] == ["dot"]
    assert len(DOT.instructions) == 0x380 // 16  # all before the branch to itself
    assert [i.address for i in DOT.instructions] == list(range(0, 0x380, 16))
    assert not [i for i in DOT.instructions if i.opcode == "NOP"]
    for label, index in DOT.labels.items():
        after = re.search(rf"^\{label}:\s+/\*([0-9a-f]+)\*/", TEXT, re.M)
        if after and index < len(DOT.instructions):
            assert DOT.instructions[index].address == int(after[1], 16)


def test_padding_is_kept_apart() -> None:
    code = "/*0000*/ @!PT LDS RZ, [RZ] ;\n/*0010*/ EXIT ;\n/*0020*/ NOP ;"
    (found,) = gpu.parse_sass(f".text.k:\n{code}")
    assert [i.opcode for i in found.instructions] == ["EXIT"]
    assert [(i.guard, i.opcode) for i in found.padding] == [("@!PT", "LDS"), ("", "NOP")]


def test_every_instruction_is_counted_in_one_class() -> None:
    counts = gpu.count_classes(DOT.instructions)
    assert sum(counts.values()) == len(DOT.instructions)
    assert dict(counts) == {
        "fma": 1, "float": 2, "lds": 3, "sts": 2, "ldg": 2, "stg": 1, "integer": 13, "move": 18,
        "predicate": 5, "control": 7, "barrier": 2,
    }  # fmt: skip
    assert [name for name in gpu.CLASSES if name in counts] == list(counts)


def test_the_main_loop_is_the_one_that_multiplies() -> None:
    loop = gpu.main_loop(DOT)
    assert (loop[0].address, loop[-1].address) == (0x100, 0x1E0)
    assert loop[-1] == gpu.SassInstruction(0x1E0, "BRA `(.L_x_2)", "@!P3")
    assert gpu.count_classes(loop)["fma"] == 1 and "lds" not in gpu.count_classes(loop)


def as_cuobjdump(text: str) -> str:
    """The same code as cuobjdump -sass prints it: no labels, addresses as targets, encodings behind."""
    places = dict(re.findall(r"^(\.L_x_\d+):\s+/\*([0-9a-f]+)\*/", text, re.M))
    text = re.sub(r"`\((\.L_x_\d+)\)", lambda m: "0x" + places[m[1]].lstrip("0"), text)
    text = re.sub(r"^\.L_x_\d+:\n", "", text, flags=re.M)
    text = re.sub(r"^\.text\.(\w+):$", r"\t\tFunction : \1", text, flags=re.M)
    return re.sub(r";$", ";   /* 0x00000a00ff017624 */", text, flags=re.M)


def test_both_disassemblers_are_read() -> None:
    (other,) = gpu.parse_sass(as_cuobjdump(TEXT))
    assert other.name == "dot" and not other.labels
    assert gpu.count_classes(other.instructions) == gpu.count_classes(DOT.instructions)
    assert [i.address for i in gpu.main_loop(other)] == [i.address for i in gpu.main_loop(DOT)]


@each(
    ("opcode", "kind"),
    [
        ("HMMA.16816.F32", "tensor"), ("IMMA.16832.S8.S8", "tensor"), ("HGMMA.64x128x16.F32", "tensor"),
        ("FFMA", "fma"), ("DFMA", "fma"), ("LDSM.16.MT88.4", "ldsm"), ("LDS.128", "lds"), ("STS.64", "sts"),
        ("LDG.E.128.CONSTANT", "ldg"), ("STG.E.128", "stg"), ("LDGSTS.E.BYPASS.128", "ldgsts"),
        ("LDL.LU", "local"), ("IMAD.WIDE.U32", "integer"), ("IMAD.SHL.U32", "integer"), ("IMAD.MOV", "move"),
        ("UIADD3.X", "integer"), ("ULEA", "integer"), ("UMOV", "move"), ("ULDC.64", "move"), ("S2UR", "move"),
        ("UISETP.GE.AND", "predicate"), ("UPLOP3.LUT", "predicate"), ("BRA", "control"), ("EXIT", "control"),
        ("BAR.SYNC.DEFER_BLOCKING", "barrier"), ("LDGDEPBAR", "barrier"), ("DEPBAR.LE", "barrier"),
        ("TEX", "other"), ("UNKNOWN", "other"), ("F2FP.F16.F32.PACK_AB", "float"),
    ],
)  # fmt: skip
def test_an_opcode_has_a_class(opcode: str, kind: str) -> None:
    assert classify(opcode) == kind


def code_of(*lines: str) -> gpu.SassFunction:
    """Instructions, whose branches are guarded."""
    guarded = (("@P0" if "BRA" in text else "", text) for text in lines)
    return gpu.SassFunction(
        "k", tuple(gpu.SassInstruction(16 * n, text, guard) for n, (guard, text) in enumerate(guarded)), {}
    )


def test_of_equal_loops_the_inner_one_is_the_main_loop() -> None:
    found = code_of("MOV R0, RZ", "IADD3 R1, R1, 1", "FFMA R2, R3, R4, R2", "BRA 0x20", "BRA 0x10", "EXIT")
    assert [i.address for i in gpu.main_loop(found)] == [32, 48]
    assert gpu.main_loop(code_of("FFMA R2, R3, R4, R2", "BRA 0x20", "EXIT")) == ()  # a branch forwards


def test_a_main_loop_of_a_known_count_is_a_part_of_the_loop_around_it() -> None:
    """A loop of copies and one of products, in a loop over tiles: what a tile takes."""
    found = code_of(
        "S2R R0, SR_TID.X", "LDG R1, [R2]", "BRA 0x10", "BAR.SYNC", "FFMA R3, R4, R5, R3", "BRA 0x40",
        "BRA 0x10", "EXIT",
    )  # fmt: skip
    turn = [*[16, 32] * 3, 48, *[64, 80] * 2, 96]
    assert [i.address for i in gpu.main_loop(found, (None, 3, 2))] == turn
    assert [i.address for i in gpu.main_loop(found, (None, 3))] == [64, 80]


# --- with a disassembler -------------------------------------------------------------------------------


def test_a_load_is_behind_all_conditions_of_the_store_that_no_further_one_is_in_front_of() -> None:
    load, store = ("", "LDS R0, [R4+0x10]"), ("", "STG.E [R2], R0")
    key = ("ld", 4, 16)

    def depth(*lines: tuple[str, str]) -> int:
        code = (gpu.SassInstruction(16 * n, text, guard) for n, (guard, text) in enumerate(lines))
        return gpu.shared_accesses(gpu.SassFunction("k", tuple(code), {}))[key]

    assert depth(load, store) == 0 and depth(load, ("@P0", "STG.E [R2], R0")) == 0
    assert depth(("@P1", "EXIT"), load, ("@P0", "EXIT"), store) == 1
    assert depth(("@P1", "EXIT"), load, store) == depth(("@P0", load[1]), ("@P0", store[1])) > 99


def test_what_is_no_image_is_refused() -> None:
    with pytest.raises(CompileError, match="refused the image"):
        gpu.disassemble(b"this is no cubin")


def test_without_a_disassembler_it_is_said_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """One on the path does too."""
    monkeypatch.setattr(gpu.sass, "find_spec", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}" if name == "cuobjdump" else None)
    assert find_disassembler() == ("/bin/cuobjdump", "-sass")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(UnsupportedError, match=r"layoutalg\[sass\]"):
        gpu.disassemble(b"")


TARGET = "sm_90a"
OPCODE_BITS = {"STG.E.128": 128, "STG.E.64": 64, "STG.E": 32, "STG.E.U16": 16, "STG.E.U8": 8}


def first(family: str, *asked: Any, which: int = 0) -> Kernel:
    """The first kernel of a configuration of a family."""
    f = FAMILIES[family]
    p = f.problem(*asked)
    return f.launches(p, f.configs(p, TARGET)[which], TARGET).kernels[0]


def of_parts() -> tuple[Kernel, ...]:
    """The kernels of a product in parts, the one that adds them behind."""
    p = gemm_problem(256, 256, 2048, "f64", b_major="mn")
    c = next(c for c in FAMILIES["gemm-simt"].configs(p, TARGET) if c.splits > 1)
    return FAMILIES["gemm-simt"].launches(p, c, TARGET).kernels


def step(family: str, name: str) -> Kernel:
    """A step of a ladder."""
    chosen = FAMILIES[family]
    return chosen.build(chosen.problem(512), find_steps(family)[name])


KERNELS: dict[str, Callable[[], Kernel]] = {
    "copy f64, edges": lambda: first("tiled_copy", 99, 500, "f64"),
    "transpose f16, edges": lambda: first("transpose", 320, 500, "f16"),
    "transpose c128, edges": lambda: first("transpose", 333, 199, "c128"),
    "permute f32, edges": lambda: first("permute", (3, 7, 101, 55), (3, 1, 0, 2), "f32"),
    "permute u8, ends": lambda: first("permute", (64, 3, 5, 511), (3, 1, 0, 2), "u8"),
    "permute c128": lambda: first("permute", (5, 60, 60, 3), (0, 3, 1, 2), "c128"),
    "sum of columns f32": lambda: first("sum", (300, 520), (0,), "f32"),
    "softmax of columns f32": lambda: first("softmax", (301, 521), (0,), "f32"),
    "tensor s8": lambda: first("gemm-sm80", 512, 512, 512, "s8", which=1),
    "tensor tf32, edges": lambda: first("gemm-sm80", 500, 500, 500, "tf32"),
    "sums of parts": lambda: of_parts()[-1],
    "SIMT parts f64": lambda: of_parts()[0],
    "SIMT through registers": lambda: step("gemm-simt", "prefetch"),
    "tensor through registers": lambda: step("gemm-sm80", "6 two buffers"),
}


def stores(body: Iterable[Stmt], times: int = 1) -> Counter[int]:
    """Stores to global memory as the program writes them, by bits of a lane; unrolled loops written out."""
    found: Counter[int] = Counter()
    for s in body:
        match s:
            case Do():
                ops = [o.op for o in s.instr.operands if o.op.startswith("st.global.b")]
                found.update({int(op.removeprefix("st.global.b")): times for op in ops})
            case Unroll():
                found += stores(s.body, times * s.count)
            case For():
                found += stores(s.body, times)
            case If():
                found += stores(s.body, times) + stores(s.orelse, times)
            case _:
                pass
    return found


def machine_code(kernel: Kernel) -> tuple[SassInstruction, ...]:
    image = compile_cubin(to_cuda(kernel, TARGET), kernel.name, TARGET).image
    return parse_sass(disassemble(image))[0].instructions


def torn(kernel: Kernel, code: Iterable[SassInstruction]) -> bool:
    """Whether stores are of widths that the program has not, or its widest are too few."""
    written, widest = stores(kernel.body), max(stores(kernel.body))
    made = Counter(OPCODE_BITS[i.opcode] for i in code if i.opcode.startswith("STG"))
    return not set(made) <= set(written) or made[widest] < written[widest]


@pytest.mark.deep(but=("sums of parts",))
@pytest.mark.parametrize("name", KERNELS)
def test_vectors_are_stored_whole_and_places_are_global(name: str) -> None:
    kernel = KERNELS[name]()
    code = machine_code(kernel)
    assert not torn(kernel, code)
    assert not [i.opcode for i in code if i.opcode.partition(".")[0] in ("LD", "ST")]


def test_what_the_checks_would_find() -> None:
    kernel = first("tiled_copy", 320, 500, "f32")
    assert stores(kernel.body) == {128: 5}  # four of a whole tile, one in the loop over the edges
    for opcode, count, is_torn in (("STG.E", 20, True), ("STG.E.128", 4, True), ("STG.E.128", 5, False)):
        assert torn(kernel, [SassInstruction(0, f"{opcode} desc[UR4][R2.64], R4")] * count) == is_torn
