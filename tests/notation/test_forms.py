"""Every notation beside CuTe's own: real texts are read, what is written is read again, the rest is named."""

from __future__ import annotations

import random
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import sympy

from layoutalg import (
    AnyLayout,
    ComposedLayout,
    Layout,
    LinearLayout,
    ScaledBasis,
    Swizzle,
    convert,
    parse,
)
from layoutalg.errors import (
    ArgumentTypeError,
    ParseError,
    ResourceError,
    UnknownNameError,
    UnsupportedError,
)
from layoutalg.notation import FORMS, to_object
from tests.draws import notation_cases
from tests.judges.peers import present
from tests.sweeps import each

SW128 = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1)))


@pytest.mark.deep
def test_every_form_gives_back_what_it_can_express() -> None:
    """parse(convert(layout, form)) == layout; tests/bench/bench_notation.py tries 5,000."""
    rng = random.Random(20261123)
    seen: dict[str, set[str]] = {}
    for case in range(120):
        value = notation_cases.linear(rng) if case % 5 == 4 else notation_cases.layout(rng)
        element = rng.choice(notation_cases.ELEMENTS)
        for form in notation_cases.forms(value):
            result = notation_cases.judged(value, form, element)
            seen.setdefault(form, set()).add(result)
            assert not result.startswith("WRONG"), (form, value, element)
    assert set(seen) == {name for name, form in FORMS.items() if form.write is not None}
    assert all("same" in results for form, results in seen.items() if form != "gmma"), seen


@each(
    ("text", "wanted"),
    [
        # CUTLASS: examples/cute/tutorial/blackwell, media/docs/cpp/cute, collectives of sm90 and sm100
        ("smem_ptr[16b](0x7f0000000400) o (_128,_64):(_64,_1)", "(128,64):(64,1)"),
        ("gmem_ptr[32b](GMEM_ADDR_C + offset_for_mma_tile) o (_128,_256):(256,_1)", "(128,256):(256,1)"),
        ("ptr[16b](ADDR_A) o (512,256):(256,_1)", "(512,256):(256,1)"),
        ("tmem_[32b](0x0000.0000) o ((_128,_256),_1,_1):((_65536,_1),_0,_0)",
         "((128,256),1,1):((65536,1),0,0)"),
        ("Sw<3,4,3>_smem_ptr[16b](SMEM_ADDR_A) o ((_128,_16),_1,_4):((_64,_1),_0,_16)",
         "Sw<3,3,3> o 0 o ((128,16),1,4):((64,1),0,16)"),
        ("Sw<3,4,3>_smem_ptr[16b](0x7ef800000400) o ((_512,_16),(_1,_3)):((_1,_512),(_0,_8192))",
         "Sw<3,3,3> o 0 o ((512,16),(1,3)):((1,512),(0,8192))"),
        ("Sw<3,4,3>_smem_ptr[16b](0x7ef800000480) o (_8,_64):(_64,_1)", "Sw<3,3,3> o 64 o (8,64):(64,1)"),
        ("Sw<3,4,3> o smem_ptr[16b](unset) o ((_256,_16),_1,_4):((_64,_1),_0,_16)",
         "Sw<3,3,3> o 0 o ((256,16),1,4):((64,1),0,16)"),
        ("ArithTuple(0,_0,_0,_0) o ((_128,_64),2,3,1):((_1@0,_1@1),_64@1,_1@2,_1@3)",
         "((128,64),2,3,1):((1@0,1@1),64@1,1@2,1@3)"),
        ("ArithTuple(0,_0) o (((_64,_8),(_2,_8)),1):(((_1@0,_1@1),(_64@0,_8@1)),_64@1)",
         "(((64,8),(2,8)),1):(((1@0,1@1),(64@0,8@1)),64@1)"),
        # CuTe DSL: its prints and its IR
        ("S<3,4,3> o 0 o ((64,16),1,(4,2),2):((64,1),0,(16,4096),8192)",
         "Sw<3,4,3> o 0 o ((64,16),1,(4,2),2):((64,1),0,(16,4096),8192)"),
        ('!cute.composed_layout<"S<3,4,3> o 0 o ((8,16),(64,1),(1,6)):((64,512),(1,0),(0,8192))">',
         "Sw<3,4,3> o 0 o ((8,16),(64,1),(1,6)):((64,512),(1,0),(0,8192))"),
        ('!cute.memref<f16, smem, align<16>, "((8,1),(2,2),2):((1,0),(32,512),2048)">',
         "((8,1),(2,2),2):((1,0),(32,512),2048)"),
        ('!cute.memref<f16, smem, align<1024>, S<3,4,3>, "(8,64):(64,1)">', "Sw<3,3,3> o 0 o (8,64):(64,1)"),
        ('!cute.coord_tensor<"(0,0)", "(8192,64):(1@1,1@0)">', "(8192,64):(1@1,1@0)"),
        ("tensor<ptr<f16, gmem, align<16>> o (8,4):(4,1)>", "(8,4):(4,1)"),
        ("tensor(raw_ptr(0x00007f5f81200400: f32, rmem, align<32>) o (8,16):(16,1), data=[0])",
         "(8,16):(16,1)"),
        ("(0,0) o (64,8):(1@1,1@0)", "(64,8):(1@1,1@0)"),
        ("cute.make_layout((8, 64), stride=(64, 1))", "(8,64):(64,1)"),
        ("a = cutlass.cute.make_ordered_layout((4, 8), order=(1, 0))", "(4,8):(8,1)"),
        ("cute.make_composed_layout(cute.make_swizzle(3, 3, 3), 0, cute.make_layout((8, 64), "
         "stride=(64, 1)))",
         "Sw<3,3,3> o 0 o (8,64):(64,1)"),
        ("cute.make_layout((4, (2, 2)))", "(4,(2,2)):(1,(4,8))"),
        # C++: compilers' names of types, aliases, source
        ("cute::Layout<cute::tuple<cute::C<128>, cute::C<64> >, cute::tuple<cute::C<64>, cute::C<1> > >",
         "(128,64):(64,1)"),
        ("cute::Layout<cute::tuple<cute::C<(int)8>, cute::C<(int)4>>, "
         "cute::tuple<cute::C<(int)4>, cute::C<(int)1>>>",
         "(8,4):(4,1)"),
        ("Layout<Shape<_128,_64>,Stride<_64,_1>>", "(128,64):(64,1)"),
        ("using SmemLayout = Layout<Shape<_128, Shape<_8, _8>>>;", "(128,(8,8)):(1,(128,1024))"),
        ("ComposedLayout<Swizzle<3,4,3>, smem_ptr_flag_bits<16>, Layout<Shape<_8,_64>,Stride<_64,_1>>>",
         "Sw<3,3,3> o 0 o (8,64):(64,1)"),
        ("cute::ComposedLayout<cute::Swizzle<2,4,3>, cute::C<0>, cute::Layout<cute::tuple<cute::C<8>>>>",
         "Sw<2,4,3> o 0 o (8):(1)"),
        ("GMMA::Layout_K_SW128_Atom<half_t>", "Sw<3,3,3> o 0 o (8,64):(64,1)"),
        ("cute::SM90::GMMA::Layout_MN_SW64_Atom<cutlass::tfloat32_t>{}", "Sw<2,2,3> o 0 o (16,8):(1,16)"),
        ("UMMA::Layout_SW128_Atom<cutlass::half_t, UMMA::Major::K>", "Sw<3,3,3> o 0 o (8,64):(64,1)"),
        ("tile_to_shape(GMMA::Layout_K_SW128_Atom<half_t>{}, make_shape(Int<128>{}, Int<64>{}, Int<3>{}))",
         "Sw<3,3,3> o 0 o ((8,16),(64,1),(1,3)):((64,512),(1,0),(0,8192))"),
        ("auto layout = make_layout(make_shape(Int<128>{}, 64), make_stride(_64{}, Int<1>{}));",
         "(128,64):(64,1)"),
        ("cute::Tensor<cute::ViewEngine<cute::gmem_ptr<cutlass::half_t const*>>, cute::Layout<cute::C<8>>>",
         "8:1"),
        ("Tensor<ViewEngine<swizzle_ptr<Swizzle<3,4,3>,smem_ptr<half_t*>>>,Layout<Shape<_8,_64>,Stride<_64,_1>>>",
         "Sw<3,3,3> o 0 o (8,64):(64,1)"),
        ("make_layout(make_shape(_8{}, _64{}), GenRowMajor{})", "(8,64):(64,1)"),
        ("composition(Swizzle<3,3,3>{}, Layout<Shape<_8,_64>,Stride<_64,_1>>{})",
         "Sw<3,3,3> o 0 o (8,64):(64,1)"),
        ("composition(Swizzle<3,3,3>{}, 64, Layout<_8,_64>{})", "Sw<3,3,3> o 64 o 8:64"),
        ("make_composed_layout(Swizzle<1,0,1>{}, _4{}, make_layout(Int<2>{}, Int<1>{}))",
         "Sw<1,0,1> o 4 o 2:1"),
        # arrays
        ("shape=(8, 64), strides=(128, 2), itemsize=2", "(8,64):(64,1)"),
        ("{'data': (94, False), 'strides': None, 'shape': (2, 3), 'typestr': '<f4', 'version': 3}",
         "(2,3):(3,1)"),
        ("np.lib.stride_tricks.as_strided(x, shape=(4, 4), strides=(4, 4), itemsize=4)", "(4,4):(1,1)"),
        ("np.ndarray((8, 64), np.float16, order='F')", "(8,64):(1,8)"),
        ("shape=(64,), strides=(-8,), dtype=float64", "64:-1"),
        ("size=(8, 64), stride=(64, 1)", "(8,64):(64,1)"),
        ("size=torch.Size([8, 64]), stride=(1, 8)", "(8,64):(1,8)"),
        ("torch.Size([2, 3])", "(2,3):(3,1)"),
        ("torch.empty_strided((8, 64), (72, 1))", "(8,64):(72,1)"),
        ("torch.as_strided(x, (4, 4), (1, 2))", "(4,4):(1,2)"),
        ("x.as_strided((4, 4), (1, 2), 0)", "(4,4):(1,2)"),
        # pycute, tensor-layouts, this library's own repr
        ("Layout((8, 64),(64, 1))", "(8,64):(64,1)"),
        ("(8, (2, 4)):(8, (4, 1))", "(8,(2,4)):(8,(4,1))"),
        ("SW_3_4_3 o 0 o (8, 64):(64, 1)", "Sw<3,4,3> o 0 o (8,64):(64,1)"),
        ("ComposedLayout(Swizzle(3, 3, 3), Layout((8, 64), (64, 1)), offset=16)",
         "Sw<3,3,3> o 16 o (8,64):(64,1)"),
        ("ComposedLayout(Swizzles(Swizzle(1, 0, 2), Swizzle(1, 1, 3)), 0, Layout(8, 1))",
         "Sw<1,0,2> o Sw<1,1,3> o 0 o 8:1"),
    ],
)  # fmt: skip
def test_texts_of_the_field(text: str, wanted: str) -> None:
    assert str(parse(text)) == wanted
    assert convert(text, "cute") == wanted


def test_triton_logs_are_read_with_and_without_sizes() -> None:
    text = " - register=1 -> (0, 1)\n   register=2 -> (8, 0)\n - lane=1 -> (1, 0)\n"
    text += " - warp is a size 1 dimension\n"
    found = parse(f"{text}where out dims are: [dim0 (size 16), dim1 (size 2)]")
    assert found == LinearLayout(
        {"register": [(0, 1), (8, 0)], "lane": [(1, 0)], "warp": []}, {"dim0": 16, "dim1": 2}
    )
    assert parse(text) == found == parse(f"{text}where out dims are: [dim0, dim1]\n")
    assert parse(str(found)) == found
    commented = "".join(f"// {line}\n" for line in text.splitlines())
    assert parse(commented) == found
    # getCoreMatrixLinearLayout of swizzlingByteWidth = 128 for f16
    bases = [(0, 1 << j) for j in range(6)] + [(1, 8), (2, 16), (4, 32)]
    lines = "\n".join(f"{' -' if j == 0 else '  '} offset={1 << j} -> {b}" for j, b in enumerate(bases))
    assert parse(lines) == SW128


@each(
    ("text", "wanted"),
    [
        ("(192,?):(1,192)", "(192,d0):(1,192)"),
        ("(?,?{div=64}):(?{i64 div=64},1)", "(d0,64*d1):(64*d2,1)"),
        ('!cute.layout<"(?,?,?):(?{i64},1,?{i64})">', "(d0,d1,d2):(d3,1,d4)"),
        ("((64,128),?):((1@0,1@1),128@1)", "((64,128),d0):((1@0,1@1),128@1)"),
    ],
)
def test_what_is_known_at_run_time_alone_is_a_symbol(text: str, wanted: str) -> None:
    found = parse(text)
    assert str(found) == wanted
    back = convert(found, "dsl-print")
    assert parse(back) == found


def test_dynamic_extents_are_positive_and_strides_any_integer() -> None:
    found = parse("(8,?{div=4}):(?,1)")
    assert isinstance(found, Layout) and isinstance(found.shape, tuple) and isinstance(found.stride, tuple)
    assert found.shape[1].is_positive and found.stride[0].is_positive is None  # type: ignore[union-attr]
    typed = parse("Layout<tuple<int, C<64>>, tuple<int, C<1>>>")
    assert isinstance(typed, Layout) and isinstance(typed.stride, tuple)
    assert str(typed) == "(d0,64):(d1,1)" and typed.stride[0].is_positive is None  # type: ignore[union-attr]
    n = sympy.Symbol("n", integer=True, positive=True)
    named = Layout((n, 8), (1, n))
    for form in ("cpp", "dsl", "cute"):
        assert parse(convert(named, form), symbols={"n": n}) == named
    for form in ("numpy", "torch", "pycute", "tensor-layouts", "ttg.shared_linear"):
        with pytest.raises(UnsupportedError):
            convert(named, form, element="f16" if form == "numpy" else None)
    with pytest.raises(UnsupportedError, match="a multiple of one name is needed"):
        convert(Layout((n + 1, 8), (1, 4)), "dsl-print")


def test_a_swizzle_of_bytes_is_read_and_written_in_elements() -> None:
    for element, base in (("u8", 4), ("f16", 3), ("f32", 2), ("f64", 1)):
        text = "S<3,4,3> o 0 o (8,64):(64,1)"
        found = ComposedLayout(Swizzle(3, base, 3), 0, Layout((8, 64), (64, 1)))
        assert parse(text, unit="bytes", element=element) == found
        written = convert(found, "tensor", element=element)
        assert written.startswith("Sw<3,4,3> o smem_ptr[") and parse(written) == found
        shifted = ComposedLayout(Swizzle(3, base, 3), 16, Layout((8, 64), (64, 1)))
        assert parse(convert(shifted, "tensor", element=element)) == shifted
    source = "make_composed_layout(Swizzle<3,4,3>{}, Int<0>{}, Layout<Shape<_8,_64>,Stride<_64,_1>>{})"
    assert parse(source, unit="bytes", element="f16") == SW128
    with pytest.raises(ParseError, match=r"Sw<3,0,3> moves bits below one element of 16 bits"):
        parse("Sw<3,0,3> o 0 o (8,64):(64,1)", unit="bytes", element="f16")
    with pytest.raises(ArgumentTypeError, match="give element"):
        parse("Sw<3,4,3> o 0 o (8,64):(64,1)", unit="bytes")


@each(
    ("value", "form", "why"),
    [
        (SW128, "numpy", r"strides alone, which cannot say Sw<3,3,3>"),
        (Layout((8, (2, 4))), "numpy", "no nested modes"),
        (Layout((8,)), "torch", r"cannot tell \(8\):\(1\) from 8:1"),
        (Layout(8, -1), "torch", "no negative strides"),
        (Layout(8, ScaledBasis(1, 0)), "torch", "strides along modes of a coordinate"),
        (Layout(8, ScaledBasis(1, 0)), "pycute", "no strides along modes"),
        (ComposedLayout(Swizzle(2, 0, 1), 0, Layout(8)), "cpp", "its shift has to be at least its bits"),
        (ComposedLayout(Swizzle(2, 0, 1), 0, Layout(8)), "pycute", "its shift has to be at least its bits"),
        (Layout(8, 1 << 70), "cpp-type", "no integer of 64 bits"),
        (Layout((8, 8), (9, 1)), "gmma", "none of the atoms of shared memory"),
        (ComposedLayout((Swizzle(1, 0, 1), Swizzle(1, 2, 1)), 0, Layout(8)), "tensor", "has one swizzle"),
        (ComposedLayout(Layout(8, 2), 0, Layout(4)), "tensor", "has one swizzle over a layout of strides"),
        (Swizzle(3, 4, 3), "torch", "alone is a swizzle"),
        (Swizzle(3, 4, 3), "linear-layout", "alone has no shape"),
        (LinearLayout({"lane": [(0, 1)]}, {"row": 1, "col": 2}), "ttg.linear", "dimensions are dim0, dim1"),
        (LinearLayout({"lane": [1]}, {"dim0": 4}), "ttg.linear", "held nowhere"),
    ],
)  # fmt: skip
def test_what_a_form_cannot_express_is_refused_with_the_reason(value: Any, form: str, why: str) -> None:
    element = "f16" if "element" in FORMS[form].writes else None
    with pytest.raises(UnsupportedError, match=why):
        convert(value, form, element=element)


@each(
    ("text", "why"),
    [
        ("TiledMMA<MMA_Atom<SM80_16x8x16_F32F16F16F32_TN>>", "a tiled MMA is threads over atoms"),
        ("make_tiled_copy(Copy_Atom<X>{}, Layout<_8,_1>{})", "a tiled copy is threads over atoms"),
        ("TiledMMA\n  ThrLayoutVMNK:  (_32,_2,_2,_1):(_1,_32,_64,_0)", "as a print of CuTe: known"),
        ("memref<8x64xf16, strided<[64, 1]>>", "as a type of MLIR: known and not read"),
        ("f32[8,128]{1,0:T(8,128)}", "as a layout of XLA: known and not read"),
        ("T.Fragment((8, 8), forward_fn=f)", "as a layout of TileLang: known and not read"),
        ("lambda i, j: i * 64 + j", "as an index map: known and not read"),
        ("cutlass::layout::RowMajor", "as a layout of CUTLASS 2 or wmma: known and not read"),
        ("!ttg.memdesc<64x64xf16, #shared>", "known"),
        ("Tensor<ViewEngine<swizzle_ptr<X>>, Layout<_8,_1>>", "expected swizzle_ptr<Swizzle"),
        ("make_layout(make_shape(M, N))",
         "expected an integer or a layout, found the name M at line 1, column 24"),
        ("make_layout(foo(8))", "unknown function 'foo' at line 1, column 13"),
        ("make_layout(make_shape(8, 64), make_stride(64))", "stride"),
        ("make_layout(make_shape(8 * 8, 64))", r"expected .*, found '\* 8, 64\)\)'"),
        ("Layout<Shape<_8,_64>,Stride<_64,_1>", r"expected ',' or '>', found the end at line 1, column 36"),
        ("GMMA::Layout_K_SW256_Atom<half_t>", "SW256"),
        ("GMMA::Layout_K_SW128_Atom<quarter_t>", "quarter_t"),
        ("cute.make_layout((8, 64), strides=(64, 1))", "make_layout does not take"),
        ("cute.make_layout('8')", "found a quoted text"),
        ("Layout((8, 64), (64, 1)", "expected ',' or '\\)'"),
        ("shape=(8, 64), strides=(3, 2), itemsize=2", "a stride of 3 bytes is no multiple"),
        ("shape=(8, 64), strides=(2,), itemsize=2", "2 extents and 1 strides"),
        ("strides=(2,), itemsize=2", "expected a shape"),
        ("size=(8, 0), stride=(1, 1)", "extents must be positive"),
        ("torch.empty_strided((8, x), (1, 8))", "expected a tuple of integers"),
        ("torch.zeros((8, 8))", "torch.zeros is no function of shape and strides"),
        (" - register=1 -> (0, 1)\n - register=4 -> (0, 2)",
         "expected register=2, found register=4 at line 2"),
        (" - register=1 -> (0, 1)\n   register=2 -> (1)", "bases of different ranks"),
        (" - register=1 -> (0, 1)\nnonsense", "expected a basis such as .* at line 2, column 1"),
        ("!cute.tiled_mma<whatever>", "!cute.... is known and not read"),
        ('!cute.layout<"(8,64):(64">', "line 1, column"),
        ("Sw<3,4,3>_sparse_ptr(0x0) o 8:1", "position 9"),
        ("(8,?{div=x}):(1,8)", r"expected \?, \?\{i64\} or \?\{div=N\}"),
    ],
)  # fmt: skip
def test_a_text_of_a_known_family_is_refused_by_its_name_and_place(text: str, why: str) -> None:
    with pytest.raises(ParseError, match=why) as caught:
        parse(text)
    assert len(caught.value.message) < 500


def test_options_that_are_missing_or_of_no_use_are_refused() -> None:
    with pytest.raises(ArgumentTypeError, match="numpy strides count bytes: give element"):
        convert("8:1", "numpy")
    with pytest.raises(
        ArgumentTypeError, match="shape is given, and a text of the form cute does not take it"
    ):
        parse("8:1", shape=8)
    with pytest.raises(ArgumentTypeError, match="element is given, and the form torch does not take it"):
        convert(Layout(8), "torch", element="f16")
    with pytest.raises(UnknownNameError, match="unknown form 'cuda'"):
        convert("8:1", "cuda")
    with pytest.raises(UnknownNameError, match="unknown unit"):
        parse("8:1", unit="bits")
    with pytest.raises(UnsupportedError, match="read, and not written"):
        convert("8:1", "ttg.slice")
    with pytest.raises(ArgumentTypeError, match="is not a text"):
        parse(8)  # type: ignore[arg-type]
    assert str(parse("Layout((8, 64))", form="cpp")) == "(8,64):(1,8)"


HOSTILE = (
    "Layout<" * 200_000,
    "(" * 1_000_000,
    "make_layout(" + "(" * 100_000,
    "[" * 500_000,
    "#ttg.blocked<{" + "a = [" * 100_000,
    "Layout<Shape<" + ",".join(["_8"] * 200_000) + ">>",
    "Int<" + "9" * 1_000_000 + ">",
    "make_layout(Int<" + "9" * 90 + ">{})",
    "cute::" * 170_000,
    "?" * 1_000_000,
    " - offset=1 -> (" + "1, " * 300_000 + ")",
    " - register=1 -> (0, 1)\n" * 40_000,
    "shape=(" + "1," * 400_000 + ")",
    "Sw<3,4,3> o " * 80_000,
    "!cute.layout<" * 70_000,
    "tensor<ptr<" * 90_000,
    "#a = #ttg.blocked<{}>\n" * 40_000,
    "\x00" * 1_000_000,
    "é" * 500_000,
    "const " * 150_000,
    "Layout(" + "-" * 900_000,
    "smem_ptr[16b](" + "x" * 900_000,
)


@pytest.mark.deep(only=("9", "13"))
@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_texts_end_in_a_named_error_in_bounded_time(text: str) -> None:
    """In a process of its own, which is ended where it works for a minute: no measure of speed."""
    program = (
        "import sys\nfrom layoutalg import Layout, parse\nfrom layoutalg.errors import LayoutAlgError\n"
        "try:\n    found = parse(sys.stdin.buffer.read().decode())\n"
        "except LayoutAlgError as error:\n    assert len(error.message) < 1000\n"
        "else:\n    assert isinstance(found, Layout)\n"
    )
    subprocess.run([sys.executable, "-c", program], input=text.encode(), check=True, timeout=60)


def test_a_text_past_the_limit_is_refused() -> None:
    with pytest.raises(ResourceError, match="length of a text in characters"):
        parse("Layout<" + " " * (1 << 20))


def test_arrays_are_objects_that_are_read() -> None:
    array = np.zeros((8, 64), "float16")
    assert parse(array[:, ::2]) == Layout((8, 32), (64, 2))  # type: ignore[arg-type]
    assert convert(array.T, "numpy", element="f16") == "shape=(64, 8), strides=(2, 128), itemsize=2"
    assert convert(array[0], "cute") == "64:1"


@pytest.mark.parametrize("peer", ["pycute", "tensor-layouts"])
def test_objects_of_other_libraries_there_and_back(peer: str) -> None:
    if not present(peer):
        pytest.skip(f"{peer} is not installed: make peers")
    rng, made = random.Random(11), 0
    for _ in range(150):
        layout: AnyLayout = notation_cases.joined(notation_cases.layout(rng))
        try:
            theirs = to_object(layout, peer)
        except (UnsupportedError, AssertionError, ValueError):
            continue  # a swizzle that their constructor refuses
        made += 1
        assert parse(theirs) == layout and parse(repr(theirs)) == layout
        assert convert(theirs, peer) == convert(layout, peer)
        if isinstance(layout, Layout) and peer == "pycute":
            assert parse(str(theirs)) == layout
        if not isinstance(layout, ComposedLayout) or layout.swizzles:
            from layoutalg import size

            for k in {rng.randrange(size(layout)) for _ in range(4)}:
                assert theirs(k) == layout(k), (layout, k)
    assert made > 100
    with pytest.raises(UnsupportedError, match="no objects of cutlass are made"):
        to_object(SW128, "cutlass")
