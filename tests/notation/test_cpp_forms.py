"""C++ and CuTe's own headers: what is written compiles to the same map, what CuTe prints is read."""

from __future__ import annotations

import ctypes
import importlib.util
import random
from pathlib import Path

import pytest

from layoutalg import AnyLayout, ComposedLayout, Layout, Swizzle, convert, parse, size
from layoutalg.errors import UnsupportedError
from layoutalg.layout import ScaledBasis
from layoutalg.testing import compile_shared
from tests.draws import notation_cases


def headers() -> list[str]:
    """The folders of CuTe's headers and of what they include; the test is skipped where there are none."""
    found = importlib.util.find_spec("cutlass_library")
    if found is None or not found.origin:
        pytest.skip("the headers of CuTe come with nvidia-cutlass, which is not installed: make peers")
    cute = Path(found.origin).parent / "source" / "include"
    if not (cute / "cute" / "layout.hpp").is_file():
        pytest.skip(f"nvidia-cutlass is installed without CuTe's headers in {cute}")
    cuda = [
        p for p in sorted(Path("/usr/local").glob("cuda*/include")) if (p / "cccl" / "cuda" / "std").is_dir()
    ]
    if not cuda:
        pytest.skip("CuTe includes <cuda/std/...>, and there is no CUDA toolkit with it under /usr/local")
    return ["-I", str(cute), "-I", str(cuda[-1]), "-I", str(cuda[-1] / "cccl")]


INCLUDES = """#include <sstream>
#include <cute/layout_composed.hpp>
#include <cute/swizzle_layout.hpp>
#include <cute/numeric/arithmetic_tuple.hpp>
template <class T> const char* type_name() { return __PRETTY_FUNCTION__; }
template <class T> const char* printed(T const& value) {
    static std::string text; std::ostringstream out; out << value; text = out.str(); return text.c_str();
}
"""


def said(library: ctypes.CDLL, name: str) -> str:
    """What a function of a library that was compiled says."""
    function = library[name]
    function.restype = ctypes.c_char_p
    return str(function().decode())


def drawn(seed: int, count: int) -> list[AnyLayout]:
    """So many layouts that C++ can express, of at most 4,096 coordinates."""
    rng = random.Random(seed)
    out: list[AnyLayout] = []
    while len(out) < count:
        layout = notation_cases.layout(rng)
        try:
            convert(layout, "cpp")
        except UnsupportedError:
            continue
        if size(layout) <= 4096:
            out.append(notation_cases.joined(layout))
    return out


SOURCES = (
    "make_layout(make_shape(Int<8>{}, 64))",
    "make_layout(Shape<_8,_64>{}, LayoutRight{})",
    "make_layout(make_shape(Int<8>{}, make_shape(Int<2>{}, _1{}, Int<4>{})), GenRowMajor{})",
    "make_layout(Shape<_4,Shape<_2,_3>>{}, Stride<_6,Stride<_3,_1>>{})",
    "composition(Swizzle<3,3,3>{}, Layout<Shape<_8,_64>,Stride<_64,_1>>{})",
    "composition(Layout<Shape<Int<20>>,Stride<_2>>{}, Layout<Shape<_4,_5>,Stride<_1,_4>>{})",
    "tile_to_shape(Layout<Shape<_8,_16>,Stride<_16,_1>>{}, Shape<_32,_64>{})",
    "tile_to_shape(composition(Swizzle<2,3,3>{}, Layout<Shape<_8,_32>,Stride<_32,_1>>{}), Shape<_16,_64>{})",
    "make_ordered_layout(Shape<_4,_8,_2>{}, Step<_2,_0,_1>{})",
    "make_layout(Layout<_4,_2>{}, Layout<_8,_16>{})",
    "coalesce(Layout<Shape<_2,Shape<_1,_6>>,Stride<_1,Stride<_6,_2>>>{})",
    "logical_divide(Layout<_16,_3>{}, Layout<_4,_1>{})",
    "Layout<Shape<_8,_4>>{}",
    "Layout<_8,_2>{}",
)
"""How C++ makes layouts, as CUTLASS's sources and documentation do."""

COORDINATES = Layout((4, (2, 8)), (ScaledBasis(1, 1), (ScaledBasis(3, 0, 1), ScaledBasis(6, 0, 1))))


@pytest.mark.deep
def test_what_is_written_compiles_to_the_same_map_and_what_cute_prints_is_read() -> None:
    """One compilation: static_asserts of maps and types; the compiler's names of types; CuTe's own prints."""
    flags, rng = headers(), random.Random(7)
    layouts = [*drawn(20261123, 16), Layout(2, 3 << 31)]
    text = [INCLUDES]
    for n, layout in enumerate(layouts):
        made, kind = convert(layout, "cpp"), convert(layout, "cpp-type")
        text.append(f"constexpr auto l{n} = {made}; using T{n} = {kind};")
        text.append(f"static_assert(cute::is_same_v<decltype(l{n}), T{n} const>);")
        last = size(layout) - 1
        for k in sorted({0, last, *(rng.randint(0, last) for _ in range(6))}):
            text.append(f"static_assert(l{n}({k}) == {layout(k)}ll);")
        text.append(f'extern "C" const char* t{n}() {{ return type_name<T{n}>(); }}')
        text.append(f'extern "C" const char* p{n}() {{ return printed(l{n}); }}')
    made, kind = convert(COORDINATES, "cpp"), convert(COORDINATES, "cpp-type")
    text.append(f"static_assert(cute::is_same_v<decltype({made}), {kind}>);")
    text.append(f'extern "C" const char* basis() {{ return printed({made}); }}')
    text.append("using namespace cute;")
    for n, source in enumerate(SOURCES):
        text.append(f'extern "C" const char* s{n}() {{ return printed({source}); }}')
    library = compile_shared("\n".join(text), flags=flags)
    for n, layout in enumerate(layouts):
        name = said(library, f"t{n}").partition("with T = ")[2].removesuffix("]")
        assert parse(name) == layout, "the compiler's name of the type"
        chained = isinstance(layout, ComposedLayout) and len(layout.swizzles) > 1
        if not chained:  # CuTe prints a chain as composed layouts inside each other
            assert parse(said(library, f"p{n}")) == layout, "what CuTe prints"
    assert parse(said(library, "basis")) == COORDINATES
    assert parse(made) == parse(kind) == COORDINATES
    for n, source in enumerate(SOURCES):
        assert parse(source) == parse(said(library, f"s{n}")), source


@pytest.mark.deep
def test_atoms_of_shared_memory_are_cutes() -> None:
    flags = headers()
    names = ("K_INTER", "K_SW32", "K_SW64", "K_SW128", "MN_INTER", "MN_SW32", "MN_SW64", "MN_SW128")
    kinds = {"f16": "half_t", "tf32": "tfloat32_t", "u8": "uint8_t"}
    text = ["#include <cute/atom/mma_traits_sm90_gmma.hpp>", INCLUDES]
    for major in names:
        for element, spelled in kinds.items():
            text.append(
                f'extern "C" const char* {major}_{element}() {{ '
                f"return printed(cute::SM90::GMMA::Layout_{major}_Atom<cute::{spelled}>{{}}); }}"
            )
    library = compile_shared("\n".join(text), flags=flags)
    for major in names:
        for element, spelled in kinds.items():
            printed = said(library, f"{major}_{element}")  # << prints the pointer as _0, print() as itself
            name = f"GMMA::Layout_{major}_Atom<{spelled}>"
            atom = parse(name)
            if "INTER" in major:
                assert str(atom) == printed.rpartition(" o ")[2].replace("_", "")
            else:
                assert parse(printed, unit="bytes", element=element) == atom
            assert convert(name, "gmma", element=element) == name
            assert not isinstance(atom, Swizzle)
