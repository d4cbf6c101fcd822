"""The assembler accepts every atom: mnemonic, operands and number of registers, on its architecture."""

from __future__ import annotations

import re

import pytest

from layoutalg.arch import Arch, find_arch
from layoutalg.atoms import (
    COPY_ATOMS,
    MMA_ATOMS,
    CopyAtom,
    MMAAtom,
    Operand,
    find_mma_atom,
    require_atom,
)
from layoutalg.codegen.gpu import compile_cubin
from layoutalg.errors import CompileError, UnsupportedError
from layoutalg.layout import product
from tests.atoms.cute_blackwell import umma_rows
from tests.sweeps import each

TARGETS = {
    "sm_61": "sm_75",
    "sm_70": "sm_75",
    "sm_75": "sm_75",
    "sm_80": "sm_80",
    "sm_89": "sm_89",
    "sm_90": "sm_90a",
    "sm_100": "sm_100a",
    "sm_120": "sm_120a",
}
"""Where to compile what an architecture has first."""

WARP_ATOMS = [atom for name, atom in MMA_ATOMS.items() if not re.match(r"SM90_(SPARSE_)?64x", name)]
WGMMA_SAMPLE = [atom for name, atom in MMA_ATOMS.items() if re.match(r"SM90_(SPARSE_)?64x(8|24)x", name)]
WGMMA_SAMPLE += [MMA_ATOMS["SM90_64x256x16_F32BF16BF16_RS"], MMA_ATOMS["SM90_64x224x32_S32U8S8_SS_TN"]]


def registers(atom: MMAAtom, operand: Operand, more: int = 0) -> tuple[str, str]:
    """Declaration and use of an operand's registers, `more` than the atom says."""
    element = atom.dtype(operand)
    kind = {"f32": ".f32", "f64": ".f64", "c128": ".f64"}.get(element.name, ".b32")
    count = atom.values(operand) if kind == ".f64" else atom.registers(operand)
    x = operand.lower()
    names = [f"{x}{i}" for i in range(count + more)]
    vector = names[0] if atom.threads == 1 else "{" + ", ".join(names) + "}"
    return f".reg {kind} {', '.join(names)};", vector


def statement(atom: MMAAtom, more: int = 0) -> str:
    """The atom as PTX."""
    if atom.b_in == "shared":
        return wgmma(atom, more)
    (a_decl, a), (b_decl, b), (c_decl, c) = (
        registers(atom, "A", more),
        registers(atom, "B"),
        registers(atom, "C"),
    )
    scales = "" if atom.scales is None else ", f, {h, h}, f, {h, h}"
    return f"{a_decl} {b_decl} {c_decl} .reg .b32 f; .reg .b16 h; {atom.ptx} {c}, {a}, {b}, {c}{scales};"


def wgmma(atom: MMAAtom, more: int = 0) -> str:
    """wgmma.mma_async: descriptors, the metadata of a sparse A, the predicate, scales and major-nesses."""
    c_decl, c = registers(atom, "C", more)
    a_decl, a = registers(atom, "A") if atom.a_in == "registers" else (".reg .b64 a;", "a")
    sparse = ", e, 0" if atom.sparsity == 2 else ""
    scales = "" if atom.dtypes.c.name == "s32" else ", 1, 1"
    majors = (", 0, 0" if atom.a_in == "shared" else ", 0") if atom.dtypes.a.name in ("f16", "bf16") else ""
    return (
        f"{c_decl} {a_decl} .reg .b64 b; .reg .b32 e; .reg .pred p; setp.ne.b32 p, 0, 1; "
        f"{atom.ptx} {c}, {a}, b{sparse}, p{scales}{majors};"
    )


def copy(atom: CopyAtom) -> str:
    """A copy as PTX: addresses are registers that hold anything."""
    words = max(1, product(atom.dst_tv[1].shape) // 32)
    if atom.dst_op.startswith("stmatrix") or atom.ptx.startswith("tcgen05.st"):
        words = product(atom.src_tv[1].shape) // 32
    vector = "{" + ", ".join(f"r{i}" for i in range(words)) + "}"
    declared = f".reg .b32 {', '.join(f'r{i}' for i in range(words))}, s; .reg .b64 g;"
    if atom.ptx.startswith(("ldmatrix", "tcgen05.ld")):
        return f"{declared} {atom.ptx} {vector}, [s];"
    if atom.ptx.startswith(("stmatrix", "tcgen05.st")):
        return f"{declared} {atom.ptx} [s], {vector};"
    if atom.ptx.startswith("movmatrix"):
        return f"{declared} {atom.ptx} r0, s;"
    if atom.ptx.startswith("cp.async"):
        fill = ", s" if "ZFILL" in atom.name else ""
        return f"{declared} {atom.ptx} [s], [g], {product(atom.src_tv[1].shape) // 8}{fill};"
    if atom.ptx.startswith("shfl"):
        return f"{declared} {atom.ptx} r0, r1, 1, 31, -1;"
    address = "[s]" if ".shared" in atom.ptx else "[g]"
    if ".b64" in atom.ptx:
        declared, vector = f"{declared} .reg .b64 v;", "v"
    elif ".v4" not in atom.ptx:
        vector = "r0"
    pair = f"{address}, {vector}" if atom.ptx.startswith("st.") else f"{vector}, {address}"
    return f"{declared} {atom.ptx} {pair};"


def assemble(statements: list[str], target: str) -> None:
    body = "\n".join(f'    asm volatile("{{ {s} }}" ::: "memory");' for s in statements)
    compile_cubin(f'extern "C" __global__ void atoms() {{\n{body}\n}}\n', "atoms", target)


@each("arch", sorted({atom.arch for atom in WARP_ATOMS}))
def test_every_mma_assembles(arch: str) -> None:
    found = [atom for atom in WARP_ATOMS if atom.arch == arch]
    assemble([statement(atom) for atom in found], TARGETS[arch])


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_wgmma_of_every_type_assembles(sparse: bool) -> None:
    found = [atom for atom in WGMMA_SAMPLE if (atom.sparsity == 2) == sparse]
    assert len(found) >= 80
    assemble([statement(atom) for atom in found], "sm_90a")


@pytest.mark.parametrize("arch", sorted({atom.arch for atom in COPY_ATOMS.values()}))
def test_every_copy_assembles(arch: str) -> None:
    assemble([copy(atom) for atom in COPY_ATOMS.values() if atom.arch == arch], TARGETS[arch])


@pytest.mark.parametrize(
    "name", ["SM80_16x8x16_F32F16F16F32_TN", "SM80_16x8x32_S32S4S4S32_TN", "SM90_64x8x16_F32F16F16_SS"]
)
def test_another_number_of_registers_does_not(name: str) -> None:
    with pytest.raises(CompileError):
        assemble([statement(MMA_ATOMS[name], more=1)], "sm_90a")


@pytest.mark.parametrize(
    ("name", "before"),
    [("SM80_16x8x16_F32F16F16F32_TN", "sm_75"), ("SM89_16x8x32_F32E4M3E4M3F32_TN", "sm_80")],
)
def test_the_architecture_before_does_not_have_it(name: str, before: str) -> None:
    with pytest.raises(CompileError):
        assemble([statement(MMA_ATOMS[name])], before)


def umma(atom: MMAAtom) -> str:
    """tcgen05.mma: D and scale factors in tensor memory, descriptors, the predicate that accumulates."""
    a = "[t]" if atom.a_in == "tensor" else "a"
    scales = "" if atom.scales is None else ", [t], [t]"
    declared = ".reg .b32 t, i; .reg .b64 a; .reg .pred p; setp.ne.b32 p, 0, 1;"
    metadata = ", [t]" if atom.sparsity == 2 else ""
    return f"{declared} {atom.ptx} [t], {a}, a{metadata}, i{scales}, p;"


UMMA = {
    (row.kind.name, row.source, row.ctas, row.block, row.sparse): row
    for row in umma_rows()
    if not row.scaled and row.types.split()[1] == row.types.split()[2]
}


@pytest.mark.deep
@pytest.mark.parametrize("target", ["sm_100a", "sm_103a"])
def test_tcgen05_of_every_kind_assembles(target: str) -> None:
    """A row of each kind, place of A, CTAs and block on the machines that have it."""
    machine = find_arch(target)
    atoms = [row.build() for row in UMMA.values()]
    had = [atom for atom in atoms if _has(machine, atom)]
    assert {atom.ptx.partition("kind::")[2].partition(".")[0] for atom in atoms if atom not in had} == (
        {"i8"} if target == "sm_103a" else set()
    )
    for ctas in (1, 2):  # no function may have both
        assemble([umma(atom) for atom in had if atom.threads == ctas], target)


@pytest.mark.deep
def test_integers_are_not_multiplied_on_sm_103() -> None:
    atom = find_mma_atom("SM100_MMA_S8_SS<int8_t,int8_t,int32_t,128,64>")
    with pytest.raises(CompileError):
        assemble([umma(atom)], "sm_103a")
    with pytest.raises(UnsupportedError, match="sm_103 has no"):
        require_atom(atom, find_arch("sm_103"))


def _has(machine: Arch, atom: MMAAtom) -> bool:
    try:
        require_atom(atom, machine)
    except UnsupportedError:
        return False
    return True
