"""Facts of Blackwell's atoms from CUTLASS's traits: `python -m tests.atoms.cute_blackwell CUTLASS COMMIT`.

The asserts of the operations and of their traits are taken from the headers as text and become constexpr
functions, so that a row is printed of what the headers admit and of nothing else; a compiled program prints
the layouts.  CUTLASS is a checkout of NVIDIA/cutlass, COMMIT its commit.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from layoutalg.arch import TCGEN05_KINDS
from layoutalg.atoms.tensor_memory import KINDS, UmmaRow

DATA = Path(__file__).parents[1] / "data" / "cute_blackwell.jsonl"
"""A line of where it is from, then a row per atom."""

_PARAMETERS = {
    "a_type": "class", "b_type": "class", "c_type": "class", "sf_type": "class", "M": "int", "N": "int",
    "VS": "int", "a_major": "UMMA::Major", "b_major": "UMMA::Major", "ScaleC": "uint32_t",
}  # fmt: skip
_NARROW = ("float_e4m3_t", "float_e5m2_t", "float_e2m3_t", "float_e3m2_t", "float_e2m1_t")
_UNPACKED = {t: f"cutlass::detail::{t[:-2]}_unpacksmem_t" for t in _NARROW[2:]}
"""Types of less than a byte lie in bytes of shared memory, under names of their own."""

_TYPES: dict[str, list[tuple[str, str, str, str, int]]] = {
    "TF32": [("tfloat32_t", "tfloat32_t", "float", "", 0)],
    "F16BF16": [("half_t", "half_t", "half_t", "", 0), ("half_t", "half_t", "float", "", 0),
                ("bfloat16_t", "bfloat16_t", "float", "", 0)],
    "S8": [(a, b, "int32_t", "", 0) for a in ("int8_t", "uint8_t") for b in ("int8_t", "uint8_t")],
    "F8F6F4": [(a, b, c, "", 0) for c in ("float", "half_t") for a in _NARROW for b in _NARROW],
    "MXF8F6F4": [(a, b, "float", "float_ue8m0_t", 32) for a in _NARROW for b in _NARROW],
    "MXF4": [("float_e2m1_t", "float_e2m1_t", "float", sf, vs)
             for sf, vs in (("float_ue8m0_t", 32), ("float_ue8m0_t", 16), ("float_ue4m3_t", 16))],
}  # fmt: skip
_OPERATION = re.compile(
    r"SM100_MMA_(TF32|F16BF16|S8|F8F6F4|MXF8F6F4|MXF4)(?:NVF4)?(?:_2x1SM)?_(?:SS|TS)(?:_SCALED|(_SPARSE))?"
)

_HEAD = r"""
#include <cstdio>
#include <cute/tensor.hpp>
#include <cute/atom/mma_traits_sm100.hpp>
#include <cute/atom/mma_traits_sm120.hpp>
using namespace cute; using namespace cutlass;
template <class T, class = void> struct Scaled : std::false_type {};
template <class T> struct Scaled<T, std::void_t<typename T::FrgTypeSFA>> : std::true_type {};
template <class T, class = void> struct Registers : std::false_type {};
template <class T> struct Registers<T, std::void_t<typename T::SFALayout>> : std::true_type {};
template <class Layout> void field(char const* name, Layout const& layout) {
  printf(", \"%s\": \"", name); print(layout); printf("\"");
}
template <class Traits> void row(char const* name) {
  printf("{\"atom\": \"%s\"", name);
  field("Shape_MNK", typename Traits::Shape_MNK{}); field("ThrID", typename Traits::ThrID{});
  field("ALayout", typename Traits::ALayout{}); field("BLayout", typename Traits::BLayout{});
  field("CLayout", typename Traits::CLayout{});
  if constexpr (Registers<Traits>::value) {
    field("SFALayout", typename Traits::SFALayout{}); field("SFBLayout", typename Traits::SFBLayout{});
  }
}
template <class Traits, bool TS, int CTAS> void umma(char const* name) {
  row<Traits>(name);
  constexpr int M = size<0>(typename Traits::Shape_MNK{}) / CTAS, N = size<1>(typename Traits::Shape_MNK{});
  constexpr int K = size<2>(typename Traits::Shape_MNK{});
  auto rest = [](auto m, auto n, auto more) { return make_shape(make_shape(m, n), more, more); };
  field("C", Traits::FrgTypeC::make(rest(Int<M>{}, Int<N>{}, _1{})).layout());
  if constexpr (M * N * 4 <= 32768)
    field("C22", Traits::FrgTypeC::make(rest(Int<M>{}, Int<N>{}, _2{})).layout());
  if constexpr (TS) field("A", Traits::FrgTypeA::make(rest(Int<M>{}, Int<K>{}, _1{})).layout());
  if constexpr (Scaled<Traits>::value) {
    constexpr int VS = Traits::SFVecSize;
    constexpr int NS = (N + 127) / 128 * 128, MS = M < 128 ? 128 : M;
    auto k = make_shape(Int<VS>{}, Int<K / VS>{});
    field("SFA", Traits::FrgTypeSFA::make(rest(Int<MS>{}, k, _1{})).layout());
    field("SFB", Traits::FrgTypeSFB::make(rest(Int<NS>{}, k, _1{})).layout());
  }
  printf(", \"idesc\": %u}\n", unsigned(Traits{}.idesc_.desc_));
}
"""


def _struct(text: str, name: str) -> tuple[list[str], str]:
    """The names of the template's parameters and the body of a struct, or of its traits."""
    found = re.search(
        r"template\s*<([^{};]*?)>\s*struct " + re.escape(name) + r"\b[^{]*\{(.*?)\n\};", text, re.S
    )
    if found is None:
        raise ValueError(f"{name} is not in the header")
    return re.findall(r"(?:class|int|uint32_t|UMMA::\w+)\s+(\w+)", found[1]), found[2]


def _conditions(body: str) -> str:
    """The asserts of a struct as one expression."""
    asserts = re.findall(r"static_assert\(([^;]*?),\s*\"", re.sub(r"//.*", "", body))
    other = ("is_tmem", "is_rmem", "sparse_args")
    shaped = [text for text in asserts if not any(word in text for word in other)]
    return " && ".join(f"({' '.join(text.split())})" for text in shaped) or "true"


def program(include: Path) -> str:
    """The program that prints a row per atom."""
    operations = (include / "cute/arch/mma_sm100_umma.hpp").read_text(encoding="utf-8")
    traits = (include / "cute/atom/mma_traits_sm100.hpp").read_text(encoding="utf-8")
    parts, calls = [_HEAD], []
    all_parameters = ", ".join(f"{kind} {name}" for name, kind in _PARAMETERS.items())
    for name in dict.fromkeys(re.findall(r"\bstruct (SM100_MMA_\w+)", operations)):
        matched = _OPERATION.fullmatch(name)
        if matched is None or f"MMA_Traits<{name}<" not in traits:
            continue
        parameters, body = _struct(operations, name)
        more = _conditions(_struct(traits, f"MMA_Traits<{name}")[1])
        parts.append(
            f"template <{all_parameters}> constexpr bool ok_{name}() "
            f"{{ return {_conditions(body)} && ({more}); }}"
        )
        order = [p for p in parameters if p in _PARAMETERS]
        arguments = ", ".join(order)
        ts, ctas = "_TS" in name, 2 if "2x1SM" in name else 1
        parts.append(
            f"template <{all_parameters}> void call_{name}(char const* text) {{\n"
            f"  if constexpr (ok_{name}<{', '.join(_PARAMETERS)}>())\n"
            f"    umma<MMA_Traits<{name}<{arguments}>>, {str(ts).lower()}, {ctas}>(text);\n}}"
        )
        kinds = [(a, b, c, sf, 2 * vs if matched[2] else vs) for a, b, c, sf, vs in _TYPES[matched[1]]]
        cases = [(kinds[0], m, n, "K", "K") for m, n in product((32, 64, 128, 256), range(8, 265, 8))]
        cases += [(types, m, 64, "K", "K") for types in kinds[1:] for m in (128, 256)]
        cases += [(kinds[0], m, n, a, b) for m, n in ((128, 64), (256, 64), (128, 24), (256, 48))
                  for a, b in (("MN", "K"), ("K", "MN"))]  # fmt: skip
        cases = [case for case in cases if case[1] >= 64 * ctas]  # not all operations assert it
        for (a, b, c, sf, vs), m, n, a_major, b_major in cases:
            given = {
                "a_type": _UNPACKED.get(a, a) if "F8F6F4" in name else a,
                "b_type": _UNPACKED.get(b, b) if "F8F6F4" in name else b,
                "c_type": c, "sf_type": sf or "float", "M": m, "N": n, "VS": vs,
                "a_major": f"UMMA::Major::{a_major}", "b_major": f"UMMA::Major::{b_major}", "ScaleC": 4,
            }  # fmt: skip
            text = f"{name}<{', '.join(str(given[p]) for p in order)}>"
            calls.append(f'call_{name}<{", ".join(str(v) for v in given.values())}>("{text}");')
    space = "SM120::BLOCKSCALED::"
    for a, b in product(_NARROW, _NARROW):
        for c in ("float", "half_t"):
            calls.append(_sm120(f"SM120_16x8x32_TN<{a}, {b}, {c}>"))
        calls.append(_sm120(f"{space}SM120_16x8x32_TN_VS<{a}, {b}, float, float_ue8m0_t, 32>"))
    for a, b, c, sf, vs in _TYPES["MXF4"]:
        calls.append(_sm120(f"{space}SM120_16x8x64_TN_VS<{a}, {b}, {c}, {sf}, {vs}>"))
    chunks = [calls[i : i + 200] for i in range(0, len(calls), 200)]
    parts += [f"void part_{i}() {{\n{chr(10).join(chunk)}\n}}" for i, chunk in enumerate(chunks)]
    parts.append(f"int main() {{ {' '.join(f'part_{i}();' for i in range(len(chunks)))} }}")
    return "\n".join(parts)


def _sm120(name: str) -> str:
    return f'row<MMA_Traits<{name}>>("{name}"); printf("}}\\n");'


def umma_rows() -> Iterator[UmmaRow]:
    """Every tcgen05.mma of the library: by operation, types, M, N, CTAs, place of A, scales and sparsity."""
    for operation, kinds in KINDS.items():
        for kind in map(TCGEN05_KINDS.__getitem__, kinds):
            scaled = [(t, n << sparse) for t, n in kind.blocks for sparse in (False, True)]
            blocks: list[tuple[str, int] | None] = [*dict.fromkeys(scaled)] or [None]
            for ctas, source, form, block, d, a, b in product(
                (1, 2), ("SS", "TS"), ((False, False), (True, False), (False, True)), blocks,
                kind.accumulators, kind.operands, kind.operands,
            ):  # fmt: skip
                for m, n in product(kind.rows(ctas), kind.columns(ctas)):
                    row = UmmaRow(operation, f"{d} {a} {b}", m, n, ctas, source, block, *form)
                    if row.exists and row.kind is kind:
                        yield row


def main(cutlass: str, commit: str) -> None:
    """Compile and run the program, and write the rows."""
    include = Path(cutlass) / "include"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "facts.cpp"
        source.write_text(program(include), encoding="utf-8")
        binary = source.with_suffix("")
        flags = [
            "-std=c++17",
            "-O0",
            "-w",
            f"-I{include}",
            "-I/usr/local/cuda/include",
            "-I/usr/local/cuda/include/cccl",
        ]
        subprocess.run(["g++", *flags, str(source), "-o", str(binary)], check=True)
        lines = subprocess.run([str(binary)], check=True, capture_output=True, text=True).stdout.splitlines()
    write(lines, commit)


def write(lines: list[str], commit: str) -> None:
    """The rows as a file: names without blanks, static numbers without the mark of theirs."""
    where = "NVIDIA/cutlass, include/cute/atom/mma_traits_sm100.hpp and mma_traits_sm120.hpp"
    texts = [json.dumps({"source": where, "commit": commit})]
    for row in map(json.loads, lines):
        texts.append(
            json.dumps(
                {k: v.replace("_", "") if isinstance(v, str) and k != "atom" else v for k, v in row.items()},
                separators=(",", ":"),
            ).replace(", ", ",")
        )
    DATA.write_text("\n".join(texts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
