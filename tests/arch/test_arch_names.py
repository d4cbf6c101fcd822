"""Every other name of an instruction is read a second time, by its own grammar, and means the same."""

from __future__ import annotations

import re

import pytest

from layoutalg.analysis import Access
from layoutalg.arch import ARCHS, INSTRUCTIONS, find_instruction, instruction_name
from layoutalg.arch.instruction_names import INSTRUCTION_ALIASES
from layoutalg.atoms import COPY_ATOMS, find_copy_atom, find_mma_atom, make_tiled_copy
from layoutalg.dtype import dtype
from layoutalg.errors import ArgumentTypeError, UnknownNameError
from layoutalg.layout import Layout
from layoutalg.legality import check_memory
from layoutalg.profiling import instruction_op
from tests.sweeps import each

Meaning = tuple[str, str, int, int, bool]
"""Kind, memory, bytes per lane, matrices, transposed."""

SASS = {"LDS": ("ld", "shared"), "STS": ("st", "shared"), "LDG": ("ld", "global"), "STG": ("st", "global")}
SASS_BITS = {"U8": 8, "S8": 8, "U16": 16, "S16": 16, "32": 32, "64": 64, "128": 128, "256": 256}


def _meaning(text: str) -> Meaning:
    """What a name says of itself, read piece by piece."""
    text, colon, side = text.partition(":global")
    assert not side
    memory = "global" if colon else "shared"
    pieces = re.split(r"[._<>]", text)
    head = pieces[0]
    if head in SASS:
        sizes = [SASS_BITS[p] for p in pieces[1:] if p in SASS_BITS]
        return (*SASS[head], (sizes or [32])[0] // 8, 0, False)
    if head == "LDGSTS":
        return ("cp.async", memory, int(pieces[-1] if pieces[-1].isdigit() else 32) // 8, 0, False)
    if head in ("LDSM", "STSM"):
        kind = {"LDSM": "ldmatrix", "STSM": "stmatrix"}[head]
        return (kind, "shared", 16, int(pieces[3]) if len(pieces) > 3 else 1, pieces[2] == "MT88")
    if (atom := re.fullmatch(r"SM\d\d_U(32|16)x(\d)_(LDSM|STSM)_([NT])", text)) is not None:
        bits, count = int(atom[1]), int(atom[2])  # registers of 32 bits hold a matrix row's share of one lane
        kind = {"LDSM": "ldmatrix", "STSM": "stmatrix"}[atom[3]]
        return (kind, "shared", 16, bits * count // 32, atom[4] == "T")
    if head == "SM80":
        widths = {"uint32": 4, "float": 4, "uint64": 8, "double": 8, "uint128": 16}
        return ("cp.async", memory, next(w for t, w in widths.items() if t in pieces), 0, False)
    if text.startswith("cp.async"):
        last = pieces[-1]
        return ("cp.async", memory, int(last[1:]) // 8 if last[0] == "b" else int(last), 0, False)
    if head in ("ldmatrix", "stmatrix"):
        counts = [int(p[1]) for p in pieces if re.fullmatch(r"x\d", p)]
        return (head, "shared", 16, (counts or [4])[0], "trans" in pieces)
    count = next((int(p[1]) for p in pieces if re.fullmatch(r"v\d", p)), 1)
    return (head, pieces[1], count * int(re.findall(r"\d+", pieces[-1])[0]) // 8, 0, False)


def _of_rule(name: str) -> Meaning:
    rule = INSTRUCTIONS[name]
    kind = "cp.async" if name.startswith("cp.async") else name.partition(".")[0]
    return (kind, rule.space, rule.width_bytes, rule.matrices, name.endswith(".trans"))


def test_every_alias_means_what_it_says() -> None:
    wrong = [
        (alias, name) for alias, name in INSTRUCTION_ALIASES.items() if _meaning(alias) != _of_rule(name)
    ]
    assert not wrong
    assert not {n for n in INSTRUCTIONS if _meaning(n) != _of_rule(n)}
    assert not {*INSTRUCTION_ALIASES} & {*INSTRUCTIONS}
    assert {*INSTRUCTION_ALIASES.values()} == {*INSTRUCTIONS}  # each has another name


def test_profiles_and_legality_read_every_name_alike() -> None:
    for alias, name in INSTRUCTION_ALIASES.items():
        if alias.split(".")[0] in (*SASS, "LDGSTS", "LDSM", "STSM") and ":" not in alias:
            assert instruction_op(f"@!P0 {alias} R0, [R1]") == name, alias
    for name, rule in INSTRUCTIONS.items():
        if not name.startswith("red") and ":" not in name:
            element = "f16" if rule.width_bytes > 1 else "u8"
            report = check_memory(name, Layout((64, 64), (64, 1)), element, arch="sm_100")
            assert report.require().lane_bytes == rule.width_bytes, name


def test_an_alias_is_found_wherever_its_instruction_is() -> None:
    for alias, name in INSTRUCTION_ALIASES.items():
        assert find_instruction(alias) is INSTRUCTIONS[name]
        assert instruction_name(alias.lower()) == instruction_name(f" {alias} ") == name
        for machine in ARCHS.values():
            if name in machine.instructions:
                assert find_instruction(alias, machine) is machine.instructions[name]


def test_copy_atoms_agree_with_their_table() -> None:
    """Atoms that read or write one memory are aliases of that access; the others name no instruction."""
    for name, atom in COPY_ATOMS.items():
        one = atom.dst_op if atom.dst_op.startswith("cp.async") else atom.src_op or atom.dst_op
        if one:
            assert instruction_name(name) == one, name
        else:
            with pytest.raises(UnknownNameError):
                find_instruction(name)
    for alias in INSTRUCTION_ALIASES:
        if alias.startswith("SM") and ":" not in alias:
            atom = find_copy_atom(alias)
            assert INSTRUCTION_ALIASES[alias] in (atom.src_op, atom.dst_op)


@each(
    ("text", "name"),
    [
        ("cp.async.b128", "cp.async.16"), ("cp.async.ca.shared.global.16", "cp.async.16"),
        ("cp.async.cg.shared::cta.global.16", "cp.async.16"), ("LDS.128", "ld.shared.b128"),
        ("sts.64", "st.shared.b64"), ("LDG.E.128", "ld.global.b128"), ("ld.shared.v4.f32", "ld.shared.b128"),
        ("st.shared.v2.b64", "st.shared.b128"), ("ld.global.v4.u32", "ld.global.b128"),
        ("ldmatrix", "ldmatrix.x4"), ("ldmatrix.sync.aligned.m8n8.x4.shared.b16", "ldmatrix.x4"),
        ("ldmatrix.x4.trans", "ldmatrix.x4.trans"), ("SM75_U32x4_LDSM_N", "ldmatrix.x4"),
        ("cute::SM75_U16x8_LDSM_T", "ldmatrix.x4.trans"), ("SM90_U32x2_STSM_N", "stmatrix.x2"),
        ("SM80_CP_ASYNC_CACHEGLOBAL<cute::uint128_t>", "cp.async.16"),
        ("SM80_CP_ASYNC_CACHEALWAYS<uint64_t, uint64_t>", "cp.async.8"),
    ],
)  # fmt: skip
def test_names_from_programs(text: str, name: str) -> None:
    assert find_instruction(text, ARCHS["sm_90"]).name == name
    assert Access(text, Layout((32, 1)), dtype("f16")).op == name


@each(
    "text",
    [
        "ld.shared.v4.f64", "ld.shared.v2.b128", "ld.v4.f32", "LDS.256", "LD.E.128",
        "cp.async", "cp.async.ca", "ldmatrix.x3", "ldmatrix.x8", "ldmatrix.sync.aligned.m8n16.x4.shared.b8",
        "SM75_U32x8_LDSM_N", "SM80_CP_ASYNC_CACHEGLOBAL<uint64_t>", "SM80_CP_ASYNC_CACHEGLOBAL<uint128_t",
        "SM80_CP_ASYNC_CACHEALWAYS<uint64_t,uint32_t>", "UniversalCopy<uint128_t>", "AutoVectorizingCopy", "",
        "ld.shared::cluster.b32", "SM75_U32x1_MOVM_T", "cp.async.cg.shared.global.8",
    ],
)  # fmt: skip
def test_what_is_ambiguous_or_wrong_is_refused(text: str) -> None:
    with pytest.raises(UnknownNameError, match="unknown instruction"):
        find_instruction(text, ARCHS["sm_90"])


def test_a_refusal_says_what_might_be_meant() -> None:
    with pytest.raises(UnknownNameError, match=r"say ld.shared.b128, st.shared.b128, ld.global.b128, "):
        find_instruction("UniversalCopy<uint128_t>", ARCHS["sm_90"])
    with pytest.raises(UnknownNameError, match=r"did you mean 'ld.shared.v4.f32'"):
        find_instruction("ld.shared.v4.f3", ARCHS["sm_90"])
    for nothing in (None, 4, ["LDS"]):
        with pytest.raises(ArgumentTypeError, match="a name is needed"):
            find_instruction(nothing, ARCHS["sm_90"])  # type: ignore[arg-type]


@each(
    ("text", "name", "element"),
    [
        ("AutoVectorizingCopyWithAssumedAlignment<128>", "UniversalCopy<uint128_t>", None),
        ("cute::AutoVectorizingCopyWithAssumedAlignment<32>", "UniversalCopy<uint32_t>", None),
        ("AutoVectorizingCopyWithAssumedAlignment<>", "UniversalCopy<uint128_t>", None),
        ("AutoVectorizingCopy", "UniversalCopy<uint128_t>", None),
        ("DefaultCopy", "UniversalCopy<uint8_t>", None),
        ("cute::Copy_Atom<cute::UniversalCopy<cute::uint128_t>, half_t>", "UniversalCopy<uint128_t>", "f16"),
        ("Copy_Atom<UniversalCopy<half_t, half_t>, half_t>", "UniversalCopy<uint16_t>", "f16"),
        ("Copy_Atom<Copy_Traits<SM75_U32x4_LDSM_N>, cutlass::bfloat16_t>", "SM75_U32x4_LDSM_N", "bf16"),
        ("Copy_Atom<DefaultCopy, float>", "UniversalCopy<uint8_t>", "f32"),
        ("Copy_Traits<UniversalCopy<float>>", "UniversalCopy<uint32_t>", None),
    ],
)
def test_copy_atoms_of_programs(text: str, name: str, element: str | None) -> None:
    found = find_copy_atom(text)
    assert found.name == name and (found.element and found.element.name) == element
    if element is None:
        assert found == COPY_ATOMS[name]
        with pytest.raises(ArgumentTypeError, match="has no element type"):
            found.value_type()
    else:
        assert found.value_type() == found.value_type(element) == found.element
        with pytest.raises(ArgumentTypeError, match="is not of elements of c128"):
            found.value_type("c128")


@each(
    "text",
    ["AutoVectorizingCopyWithAssumedAlignment<24>", "Copy_Atom<Foo, half_t>", "Copy_Atom<>", "AutoCopyAsync"],
)
def test_other_copies_are_unknown(text: str) -> None:
    with pytest.raises(UnknownNameError, match="copy atom"):
        find_copy_atom(text)


def test_the_element_of_a_copy_atom_is_that_of_its_tiled_copy() -> None:
    threads, values = Layout((32, 8), (8, 1)), Layout((1, 8))
    plain = make_tiled_copy("UniversalCopy<uint128_t>", "f16", threads, values)
    named = make_tiled_copy("Copy_Atom<UniversalCopy<uint128_t>, half_t>", None, threads, values)
    assert named.layout_tv == plain.layout_tv and named.element == plain.element
    with pytest.raises(ArgumentTypeError, match="not of elements of f32"):
        make_tiled_copy("Copy_Atom<UniversalCopy<uint128_t>, half_t>", "f32", threads, values)
    mma = find_mma_atom("MMA_Atom<MMA_Traits<SM80_16x8x16_F32F16F16F32_TN>>")
    assert mma.name == "SM80_16x8x16_F32F16F16F32_TN"
    wgmma = "MMA_Atom<SM90::GMMA::MMA_64x96x16_F32F16F16_SS<GMMA::Major::K, GMMA::Major::MN>>"
    assert find_mma_atom(wgmma).name == "SM90_64x96x16_F32F16F16_SS"
