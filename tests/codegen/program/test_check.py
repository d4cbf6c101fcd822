"""The grammar of tile programs: each rule refuses its own kind of mistake, by name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from layoutalg.arch import find_arch
from layoutalg.codegen.expr import Const, Var
from layoutalg.codegen.instr import BAR, CP_ASYNC, CP_COMMIT, CP_WAIT, LDG, LDS, STG, STS, WGMMA_FENCE
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Do, Kernel, MemRef, RegRef
from layoutalg.codegen.program.checks import check, check_available
from layoutalg.errors import AlignmentError, IRError, LayoutAlgError, ResourceError, UnsupportedError
from layoutalg.layout import Layout


def builder(threads: int = 128) -> KernelBuilder:
    return KernelBuilder("k", threads=threads)


def refused(k: KernelBuilder, error: type[LayoutAlgError], match: str, arch: str = "sm_90") -> None:
    with pytest.raises(error, match=match):
        check(k.build(), arch)


def test_a_correct_program_passes_on_every_architecture() -> None:
    k = builder()
    n = k.param("n", 1 << 20)
    x = k.pointer("x", 4, writable=True)
    i = k.let("i", k.block(0, (n + 127) // 128) * 128 + k.tid)
    r = k.reg("r", 1)
    with k.If(i < n):
        k.do(LDG[4], r, k.at(x, i))
        k.do(STG[4], k.at(x, i), r)
    for arch in ("sm_75", "sm_80", "sm_90"):
        check(k.build(), arch)


def test_threads_are_whole_warps_and_within_the_limit() -> None:
    refused(builder(48), ResourceError, "multiple of 32")
    refused(builder(2048), ResourceError, "1024")


def test_shared_memory_within_the_limit() -> None:
    k = builder()
    k.shared_buffer("tile", 4, Layout(60 * 1024), 60 * 1024, 128)
    refused(k, ResourceError, "shared memory bytes of k on sm_90: 245760 asked, the limit is 232448")
    k = builder()
    k.shared_buffer("tile", 4, Layout(20 * 1024), 20 * 1024, 128)
    refused(k, ResourceError, "sm_75", "sm_75")
    check(k.build(), "sm_80")


def test_the_grid_is_made_of_parameters() -> None:
    k = builder()
    k.block(0, k.tid + 1)
    refused(k, IRError, "grid")


def test_variables_must_be_in_scope() -> None:
    k = builder()
    x, r = k.pointer("x", 4), k.reg("r", 1)
    with k.For("j", 4) as j:
        pass
    k.do(LDG[4], r, k.at(x, j))
    refused(k, IRError, "j is not in scope at 'ldg32")


def test_variables_are_not_shadowed() -> None:
    k = builder()
    with k.For("j", 4), k.For("j", 2):
        pass
    refused(k, IRError, "j is already in scope")


def test_register_indices_are_unrolled_and_inside() -> None:
    for index, match in ((Var("tid", 128), "only unroll"), (Const(4), "index 4 of a mode of 4")):
        k = builder()
        x, r = k.pointer("x", 4), k.reg("r", 4)
        k.do(LDG[4], r[index], k.at(x, k.tid))
        refused(k, IRError, match)


def test_a_slice_stays_inside_its_mode() -> None:
    k = builder()
    x, r = k.pointer("x", 8), k.reg("r", 4)
    with k.Unroll("i", 4) as i:
        k.do(LDG[8], r.slice(i, count=2), k.at(x, k.tid))
    refused(k, IRError, "index 4 of a mode of 4")


def test_register_operands_have_the_right_width() -> None:
    k = builder()
    x, r = k.pointer("x", 16), k.reg("r", 2)
    k.do(LDG[16], r, k.at(x, k.tid))
    refused(k, IRError, "operand d of ldg128 takes 4 words, r has 2")


def test_operands_have_the_right_kind() -> None:
    k = builder()
    x, r = k.pointer("x", 4), k.reg("r", 1)
    k.do(LDG[4], k.at(x, k.tid), r)
    refused(k, IRError, "operand d of ldg32 is out")
    k = builder()
    k.do(CP_WAIT, k.reg("r", 1))
    refused(k, IRError, "operand newest")


def test_memory_operands_are_in_the_right_space() -> None:
    k = builder()
    x, r = k.pointer("x", 4), k.reg("r", 1)
    k.do(LDS[4], r, k.at(x, k.tid))
    refused(k, IRError, "is in shared memory")


def test_read_only_pointers_are_not_written() -> None:
    k = builder()
    x, r = k.pointer("x", 4), k.reg("r", 1)
    k.do(STG[4], k.at(x, k.tid), r)
    refused(k, IRError, "x is read only")


def test_vector_accesses_are_proved_aligned() -> None:
    k = builder()
    x, r = k.pointer("x", 4), k.reg("r", 4)
    k.do(LDG[16], r, k.at(x, k.tid * 2))
    refused(k, AlignmentError, "moves 16 bytes a lane, but its address is only known to be 0 mod 8")
    k = builder()
    x, r = k.pointer("x", 4, align_bytes=4), k.reg("r", 4)
    k.do(LDG[16], r, k.at(x, k.tid * 4))
    refused(k, AlignmentError, "x is only aligned to 4")


def test_a_leading_dimension_that_is_a_multiple_proves_the_alignment() -> None:
    for multiple, ok in ((4, True), (2, False)):
        k = builder()
        ld = k.param("ld", 1 << 16, 4, multiple)
        x, r = k.pointer("x", 4, (ld, 1)), k.reg("r", 4)
        k.do(LDG[16], r, k.at(x, k.tid // 8, k.tid % 8 * 4))
        if ok:
            check(k.build())
        else:
            refused(k, AlignmentError, "0 mod 8")


def test_shared_accesses_stay_inside_their_buffer() -> None:
    k = builder()
    tile, r = k.shared_buffer("tile", 4, Layout(128), 128, 128), k.reg("r", 1)
    k.do(STS[4], k.at(tile, k.tid + 128), r)
    refused(k, IRError, "leaves its buffer in thread 0 .*: bytes 512 to 515 of tile, which has 512")


def test_barriers_stand_where_all_threads_arrive() -> None:
    k = builder()
    with k.If(k.tid < 32):
        k.do(BAR)
    refused(k, IRError, "block_sync stands where not every thread")
    k = builder()
    part = k.let("part", k.tid // 64)
    with k.If(part < 1):
        k.do(BAR)
    refused(k, IRError, "converged")
    k = builder()
    with k.For("j", k.tid + 1):
        k.do(BAR)
    refused(k, IRError, "converged")


def test_barriers_under_block_uniform_branches_are_fine() -> None:
    k = builder()
    n = k.param("n", 1 << 20)
    first = k.let("first", k.block(0, n) * 2)
    with k.If(first < n):
        k.do(BAR)
    check(k.build())


def test_instructions_need_their_architecture() -> None:
    k = builder()
    x, tile = k.pointer("x", 16), k.shared_buffer("tile", 16, Layout(128), 128, 128)
    k.do(CP_ASYNC[16], k.at(tile, k.tid), k.at(x, k.tid))
    k.do(CP_COMMIT)
    k.do(CP_WAIT, 0)
    check(k.build(), "sm_80")
    refused(k, UnsupportedError, "cp_async_16 needs sm_80; sm_75 does not have it", "sm_75")


def test_names_of_instructions_are_not_taken() -> None:
    k = builder()
    x, r = k.pointer("x", 4), k.reg("ldg32", 1)
    k.do(LDG[4], r, k.at(x, k.tid))
    refused(k, IRError, "ldg32 is also the name of an instruction")


def test_conditions_are_comparisons() -> None:
    k = builder()
    with k.If(k.tid + 1):
        pass
    refused(k, IRError, "not a comparison")


def test_foreign_buffers_and_registers_are_refused() -> None:
    mine, other = builder(), builder()
    x, r = mine.pointer("x", 4), mine.reg("r", 1)
    y, s = other.pointer("y", 4), other.reg("s", 1)
    good = mine.build()

    def with_call(arg: RegRef, memory: MemRef) -> Kernel:
        return replace(good, body=(Do(LDG[4], (arg, memory)),))

    check(with_call(r[0], mine.at(x, 0)))
    with pytest.raises(IRError, match="s is not a register of k"):
        check(with_call(s[0], mine.at(x, 0)))
    with pytest.raises(IRError, match="y is not a buffer of k"):
        check(with_call(r[0], other.at(y, 0)))


@pytest.mark.parametrize(
    ("arch", "instead"),
    [
        ("sm_75", "ldmatrix and mma.sync"),
        ("sm_80", "cp.async, ldmatrix and mma.sync"),
        ("sm_100", "cp.async, .*"),
    ],
)
def test_what_only_hopper_has_is_refused_with_what_there_is(arch: str, instead: str) -> None:
    text = f"wgmma_fence exists on sm_90a alone; {arch} does not have it; {instead} are there"
    with pytest.raises(UnsupportedError, match=text):
        check_available(WGMMA_FENCE, find_arch(arch))
