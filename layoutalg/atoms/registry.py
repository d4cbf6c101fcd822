"""MMA_ATOMS and COPY_ATOMS: every atom of every architecture by CUTLASS's name, and how to find one.

>>> len(MMA_ATOMS) > 2000, find_mma_atom("SM80_16x8x8_F32TF32TF32F32_TN").registers("A")
(True, 4)
>>> find_mma_atom("SM90::GMMA::MMA_64x96x16_F32F16F16_SS<GMMA::Major::K, GMMA::Major::MN>").name
'SM90_64x96x16_F32F16F16_SS'

Notes.  The tables build an atom when it is first used and keep it; iterating goes over all names.
CUTLASS's namespaces are accepted: SM90::MMA_ and SM90::GMMA::MMA_ stand for SM90_, SM90::GMMA::SPARSE::GMMA_
for SM90_SPARSE_.  Whether an operand in shared memory is K- or M-major is an argument of the instruction and
no part of the atom, so template arguments are read and left out; A in registers is K-major.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from layoutalg.arch import TCGEN05_KINDS, Arch
from layoutalg.atoms.atom import CopyAtom, MMAAtom
from layoutalg.atoms.tensor_memory import find_umma_atom
from layoutalg.dtype import dtype
from layoutalg.errors import UnknownNameError, UnsupportedError, check_type

A = TypeVar("A")


class AtomTable(Mapping[str, A], Generic[A]):
    """A read-only mapping from names to atoms; a row of a table is built when its atom is first used.

    >>> "SM61_DP4A" in MMA_ATOMS
    True
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._entries: dict[str, Any] = {}

    def _named(self) -> dict[str, Any]:
        if not self._entries:
            from layoutalg.atoms import tables

            self._entries |= {entry.name: entry for entry in getattr(tables, self._kind)}
        return self._entries

    def __getitem__(self, name: str) -> A:
        entry = self._named()[name]
        if hasattr(entry, "build"):
            entry = self._entries[name] = entry.build()
        atom: A = entry
        return atom

    def __iter__(self) -> Iterator[str]:
        return iter(self._named())

    def __len__(self) -> int:
        return len(self._named())


MMA_ATOMS: Mapping[str, MMAAtom] = AtomTable("MMA_ATOMS")
"""Every matrix instruction by name, read only."""

COPY_ATOMS: Mapping[str, CopyAtom] = AtomTable("COPY_ATOMS")
"""Every copy instruction by name, read only."""

_NAMESPACES = (
    ("SM90::GMMA::SPARSE::GMMA_", "SM90_SPARSE_"),
    ("SM90::GMMA::MMA_", "SM90_"),
    ("SM90::MMA_", "SM90_"),
)
_TEMPLATE = re.compile(r"(SM90_\w+)<(.*)>")
_VALUE_COPY = re.compile(r"(UniversalCopy|SM80_CP_ASYNC_\w+)<(\w+)(?:,(\w+))?>")
_UNIVERSAL = re.compile(r"UniversalFMA<(\w+)>")


_WRAPPER = re.compile(r"(?:MMA|Copy)_(?:Atom|Traits)<(.*)>")
"""An atom or the traits of an instruction: MMA_Atom<Op>, Copy_Atom<Op, T>."""

_VECTORIZING = re.compile(
    r"(AutoVectorizingCopyWithAssumedAlignment|AutoVectorizingCopy|DefaultCopy)(?:<(\w*)>)?"
)
_ASSUMED_BITS: Mapping[str, str] = MappingProxyType(
    {"AutoVectorizingCopyWithAssumedAlignment": "128", "AutoVectorizingCopy": "128", "DefaultCopy": "8"}
)
"""Bits that copies of no instruction's name assume to be aligned: they are UniversalCopy of as many.

Source: CUTLASS, include/cute/arch/copy.hpp."""


def find_mma_atom(name: str | MMAAtom) -> MMAAtom:
    """The matrix instruction of a CUTLASS name; an MMAAtom is returned as it is.

    Raises UnknownNameError with the nearest names, UnsupportedError for a wgmma whose A is M-major and in
    registers.  Names of tcgen05 are found by `find_umma_atom`.

    >>> find_mma_atom("SM89_16x8x32_F32E4M3E5M2F32_TN").ptx
    'mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32'
    """
    if isinstance(name, MMAAtom):
        return name
    spelled, _ = _unwrapped(_clean(name))
    if spelled.startswith("SM100_MMA_"):
        return find_umma_atom(spelled)
    if spelled.startswith("SM120_16x8x") and "_TN_VS<" in spelled:
        spelled = f"SM120::BLOCKSCALED::{spelled}"
    for prefix, ours in _NAMESPACES:
        if spelled.startswith(prefix):
            spelled = ours + spelled.removeprefix(prefix)
    if (same := _UNIVERSAL.fullmatch(spelled)) is not None:
        spelled = f"UniversalFMA<{','.join([same[1]] * 4)}>"
    if (template := _TEMPLATE.fullmatch(spelled)) is not None:
        spelled = template[1]
        if "_RS" in spelled and template[2].split(",")[0].endswith("Major::MN"):
            raise UnsupportedError(f"{name}: A is MN-major; an operand in registers is K-major")
    if spelled not in MMA_ATOMS:
        raise UnknownNameError("MMA atom", name, MMA_ATOMS)
    return MMA_ATOMS[spelled]


def find_copy_atom(name: str | CopyAtom) -> CopyAtom:
    """The copy instruction of a CUTLASS name, or of an access such as ld.shared.b128.

    Copy_Atom<Op, T> is the instruction with its `element`; AutoVectorizingCopyWithAssumedAlignment<bits> and
    its aliases are UniversalCopy of that width.  A CopyAtom is returned as it is.  Raises UnknownNameError
    with the nearest names.

    >>> find_copy_atom("SM80_CP_ASYNC_CACHEGLOBAL<cute::uint128_t>").dst_op
    'cp.async.16'
    >>> found = find_copy_atom("Copy_Atom<AutoVectorizingCopyWithAssumedAlignment<128>, half_t>")
    >>> print(found, found.element)
    UniversalCopy<uint128_t> f16
    """
    if isinstance(name, CopyAtom):
        return name
    spelled, element = _unwrapped(_clean(name))
    if (vectorizing := _VECTORIZING.fullmatch(spelled)) is not None:
        spelled = f"UniversalCopy<uint{vectorizing[2] or _ASSUMED_BITS[vectorizing[1]]}_t>"
    spelled = _VALUE_COPY.sub(_by_width, spelled)
    if spelled not in COPY_ATOMS:
        raise UnknownNameError("copy atom", name, COPY_ATOMS)
    atom = COPY_ATOMS[spelled]
    return atom if element is None else replace(atom, element=dtype(element.rpartition("::")[2]))


def _unwrapped(spelled: str) -> tuple[str, str | None]:
    """The instruction of an atom's or traits' name, and the element type where the name has one."""
    element = None
    while (wrapper := _WRAPPER.fullmatch(spelled)) is not None:
        spelled, _, last = wrapper[1].rpartition(",")
        if not spelled or last.count("<") != last.count(">") or spelled.count("<") != spelled.count(">"):
            spelled, last = wrapper[1], ""
        element = element or last or None
    return spelled, element


def require_atom(atom: MMAAtom | CopyAtom, machine: Arch) -> None:
    """Raise UnsupportedError when `machine` lacks the instruction, naming one of the same types that it has.

    wgmma exists on sm_90 alone, tcgen05 on sm_100 and sm_103, with integers on sm_100 alone.

    >>> from layoutalg.arch import ARCHS
    >>> require_atom(find_mma_atom("SM80_16x8x16_F32F16F16F32_TN"), ARCHS["sm_90"])
    >>> require_atom(find_mma_atom("SM80_16x8x16_F32F16F16F32_TN"), ARCHS["sm_75"])
    Traceback (most recent call last):
    layoutalg.errors.UnsupportedError: sm_75 has no SM80_16x8x16_F32F16F16F32_TN, which needs sm_80; \
it has SM75_16x8x8_F32F16F16F32_TN
    """
    check_type("require_atom", atom, (MMAAtom, CopyAtom), "an atom")
    check_type("require_atom", machine, Arch, "an architecture")
    if _has(machine, atom):
        return
    needs = f"{machine.name} has no {atom.name}, which needs {atom.arch}"
    if isinstance(atom, CopyAtom):
        raise UnsupportedError(needs)
    names = (name for name in MMA_ATOMS if not name.startswith(("SM90_64x", "SM90_SPARSE")))
    same = (a for a in map(MMA_ATOMS.__getitem__, names) if a.dtypes == atom.dtypes and _has(machine, a))
    best = max(same, key=lambda a: a.shape_mnk, default=None)
    kind = f"D of {atom.dtypes.d}, A of {atom.dtypes.a} and B of {atom.dtypes.b}"
    raise UnsupportedError(f"{needs}; it has {best or f'no instruction for {kind}'}")


def _has(machine: Arch, atom: MMAAtom | CopyAtom) -> bool:
    if atom.ptx.startswith("wgmma"):
        return machine.compute_capability == (9, 0)
    if (kind := _KIND.search(atom.ptx)) is not None:
        return machine.name in TCGEN05_KINDS[kind[1]].machines
    if atom.ptx.startswith("tcgen05"):
        return machine.compute_capability[0] == 10
    return machine.compute_capability >= divmod(int(atom.arch.removeprefix("sm_")), 10)


_KIND = re.compile(r"tcgen05.*kind::(\w+)")


def _by_width(match: re.Match[str]) -> str:
    """UniversalCopy<half_t,half_t> as UniversalCopy<uint16_t>: the width counts, equal on both sides."""
    name, source, target = match.groups()
    widths = {re.sub(r"^u?int(\d+)_t$", r"\1", text) for text in (source, target or source)}
    known = {text if text.isdigit() else str(dtype(text).bits) for text in widths}
    return f"{name}<uint{known.pop()}_t>" if len(known) == 1 else match[0]


def _clean(name: str) -> str:
    """A name without spaces and without the namespace cute."""
    check_type("find_atom", name, str, "a name or an atom")
    return name.replace(" ", "").replace("cute::", "")
