"""Calls of public functions as text, drawn from a seed by kinds: no part of layoutalg is asked.

A call is a Python expression whose names tests/bench/bench_against.py resolves on either tree it compares.
Its operands are those of tests/draws/random_layouts.py.  Many calls are refused: refusals are compared, too.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from tests.draws.random_layouts import (
    Draw,
    Text,
    alike,
    anything,
    chain,
    coordinate,
    coordinates,
    either,
    extents,
    in_order,
    layout,
    nested,
    one_of,
    shape,
    small,
    stacked,
    swizzle,
    swizzled,
    symbolic,
    tiler,
    whole,
)  # fmt: skip

DTYPES = ("u8", "f16", "f16", "bf16", "f32", "f32", "f64", "s4", "tf32", "c128", "e4m3")
ARCHS = ("sm_70", "sm_75", "sm_80", "sm_89", "sm_90", "sm_90", "sm_100")
MOVES = tuple(
    f"{side}.{space}.b{bits}"
    for side in ("ld", "st")
    for space in ("shared", "global")
    for bits in (8, 16, 32, 64, 128)
)
MATRICES = tuple(
    f"{op}.x{n}{t}" for op in ("ldmatrix", "stmatrix") for n in (1, 2, 4) for t in ("", ".trans")
)
COPIES = tuple(f"cp.async.{n}{space}" for n in (4, 8, 16) for space in ("", ":global"))
OPS = (*MOVES, *MATRICES, *COPIES, "red.shared.u32")
MMAS = (
    *("SM80_16x8x16_F32F16F16F32_TN", "SM80_16x8x8_F16F16F16F16_TN", "SM80_16x8x8_F32TF32TF32F32_TN"),
    *("SM70_8x8x4_F16F16F16F16_TN", "UniversalFMA<float,float,float,float>"),
)
COPY_NAMES = ("UniversalCopy<uint32_t>", "UniversalCopy<uint16_t>", "SM75_U32x4_LDSM_N", "SM75_U32x1_LDSM_N")
MODES = ("none", "32B", "64B", "128B", "128B_ATOM_32B")


ANY: Draw = anything
ALGEBRA: Mapping[str, tuple[Draw, ...]] = {
    **dict.fromkeys(
        (
            *("aliasing", "coalesce", "coalesce_x", "complement", "cosize", "cycles", "depth", "extremes"),
            *("filter", "filter_zeros", "find_collision", "flatten", "footprint", "gaps", "image_size"),
            *("is_bijective", "is_contiguous", "is_injective", "is_surjective", "left_inverse", "modes"),
            *("make_fragment_like", "make_layout_like", "max_alignment", "normal_form", "nullspace", "order"),
            *("rank", "right_inverse", "size", "sort", "to_f2", "str", "affine_f2"),
        ),
        (ANY,),
    ),
    **dict.fromkeys(
        (
            *("same_function", "find_difference", "overlap", "find_overlap", "max_common_layout"),
            *("max_common_vector", "composition"),
        ),
        (ANY, ANY),
    ),
    **dict.fromkeys(
        (
            *("logical_divide", "zipped_divide", "tiled_divide", "flat_divide", "logical_product"),
            *("zipped_product", "tiled_product", "flat_product", "composition", "append", "prepend"),
        ),
        (ANY, either(tiler, small, small)),
    ),
    **dict.fromkeys(("blocked_product", "raked_product"), (ANY, small)),
    **dict.fromkeys(("upcast", "downcast"), (ANY, one_of(1, 2, 3, 4, 8, 16, 0))),
    **dict.fromkeys(("congruent", "compatible", "weakly_congruent", "ceil_div", "shape_div"), (shape, shape)),
    **dict.fromkeys(("slice_", "dice", "domain_offset", "slice_and_offset"), (coordinate, ANY)),
    **dict.fromkeys(("product", "make_identity_layout", "make_basis_like", "make_layout"), (shape,)),
    "complement ": (ANY, either(shape, whole(-1, 600))),
    "coalesce ": (ANY, either(shape, one_of(1, (1, 1), (1, (1, 1)), None))),
    "composition  ": (either(swizzle, chain), either(swizzle, chain, layout, swizzled, stacked)),
    "composition   ": (layout, either(swizzle, chain, swizzled, stacked)),
    "swizzle_inverse": (either(swizzle, chain),),
    "find_coordinate": (ANY, whole(-3, 300)),
    "find_offset_bit": (ANY, whole(0, 12)),
    "is_surjective ": (ANY, whole(0, 300)),
    "recast_layout": (ANY, one_of(4, 8, 16, 32), one_of(4, 8, 16, 32, 64)),
    "call": (ANY, either(whole(-2, 600), coordinate)),
    "call ": (either(swizzle, layout, swizzled), one_of(Text("array([3, 0, 9])"), Text("array([[5], [1]])"))),
    "crd2crd": (coordinate, shape, shape),
    "crd2idx": (coordinate, shape),
    "idx2crd": (whole(-1, 300), shape),
    "group": (ANY, whole(-1, 2), whole(0, 4)),
    "select": (ANY, whole(0, 2), whole(0, 2)),
    "replace": (ANY, whole(-1, 3), small),
    "unflatten": (ANY, shape),
    "concat": (layout, either(layout, swizzled)),
    "make_layout ": (either(layout, shape), either(layout, shape)),
    "make_ordered_layout": (shape, shape),
    "tile_to_shape": (either(layout, swizzled), shape),
    "local_tile": (ANY, tiler, coordinate),
    "local_partition": (ANY, small, whole(-1, 40)),
}  # fmt: skip
"""Function (blanks tell rows of one function apart) -> what its operands are drawn by."""

PLAIN = [name for name, draws in ALGEBRA.items() if ANY in draws and name.strip() not in {"call", "str"}]


def algebra(rng: random.Random) -> str:
    name = rng.choice(tuple(ALGEBRA))
    return f"{name.strip()}({', '.join(repr(draw(rng)) for draw in ALGEBRA[name])})"


JUNK: tuple[Any, ...] = (
    *(-1, 0, 1, 7, 10**30, 3.5, None, True, "x", "4:1", (), (1,), (2, (3, 4)), (0, -3), [2, 3], {}),
    *(
        Text("Layout(())"),
        Text("Layout(4, 2)"),
        Text("Swizzle(1, 2, 3)"),
        Text("len"),
        Text("n"),
        Text("array(3)"),
    ),
    *(
        Text("array([1, 2])"),
        Text("ScaledBasis(1, 0)"),
        Text("int"),
        Text("LinearLayout({'a': [1]}, {'b': 2})"),
    ),
)


def bad(rng: random.Random) -> str:
    """A function of the algebra with an operand of any sort, or one too many or too few."""
    name = rng.choice(tuple(ALGEBRA))
    drawn = [draw(rng) for draw in ALGEBRA[name]]
    kind = rng.random()
    if kind < 0.1:
        drawn.append(rng.choice(JUNK))
    elif kind < 0.2:
        drawn.pop()
    else:
        drawn[rng.randrange(len(drawn))] = rng.choice(JUNK)
    return f"{name.strip()}({', '.join(map(repr, drawn))})"


def constructed(rng: random.Random) -> str:
    """What constructors take and refuse."""
    some = [rng.choice((*JUNK, shape(rng), rng.randint(0, 9), layout(rng))) for _ in range(rng.randint(1, 3))]
    made = ("Layout", "Swizzle", "ComposedLayout", "ScaledBasis", "ArithTuple", "LinearLayout", "Tensor")
    name = rng.choice((*made, "parse", "find_mma_atom", "find_copy_atom", "make_tiled_mma", "str", "hash"))
    if name == "hash":
        return f"{anything(rng)} == {anything(rng)}"
    return f"{name}({', '.join(map(repr, some))})"


def arrays(rng: random.Random) -> str:
    """What is computed of arrays on the CPU."""
    sizes = [rng.randint(1, 5) for _ in range(rng.randint(1, 4))]
    of, axes = f"numbers{(*sizes,)!r}", rng.sample(range(len(sizes)), len(sizes))
    some = tuple(rng.sample(range(-1, len(sizes)), rng.randint(1, len(sizes))))
    name = rng.choice(("permute", "transpose", "reduce", "softmax", "layer_norm", "relayout"))
    if name in {"permute", "transpose"}:
        return f"{name}({of}, {(*axes,)!r})"
    if name == "reduce":
        op = rng.choice(("sum", "max", "mean", "min"))
        return f"reduce({of}, {op!r}, {some!r}, keepdims={rng.random() < 0.5})"
    if name == "relayout":
        src, dst = layout_of_memory(rng, sizes), layout_of_memory(rng, sizes)
        return f"relayout(numbers(400), {src}, {dst})"
    return f"{name}({of}, {some!r})"


def leaves_of_other_kinds(rng: random.Random, kind: Draw) -> str:
    """A function of the algebra with operands of one kind and at most one other."""
    name = rng.choice(PLAIN)
    drawn = [
        (kind(rng) if n == 0 or rng.random() < 0.5 else draw(rng)) if draw is ANY else draw(rng)
        for n, draw in enumerate(ALGEBRA[name])
    ]
    return f"{name.strip()}({', '.join(map(repr, drawn))})"


def linear_layout(rng: random.Random, outs: Sequence[str] = ("m", "n")) -> Text:
    bits = {name: rng.randint(0, 4) for name in outs}
    ins: dict[str, list[Any]] = {}
    places = [
        tuple(rng.choice((1, 1, 1, 0)) << b if name == out else 0 for name in outs)
        for out in outs
        for b in range(bits[out])
    ]
    rng.shuffle(places)
    for name in ("register", "lane", "warp")[: rng.randint(1, 3)]:
        ins[name] = [places.pop() for _ in range(min(len(places), rng.randint(0, 4)))]
        if rng.random() < 0.25:
            ins[name].append(tuple(rng.randrange(1 << bits[out]) for out in outs))
    if len(outs) == 1:
        ins = {name: [place[0] for place in places] for name, places in ins.items()}
    return Text(f"LinearLayout({ins!r}, { {name: 1 << b for name, b in bits.items()}!r})")


def linear(rng: random.Random) -> str:
    name = rng.choice(
        (
            *("product", "compose", "invert", "invert_and_compose", "divide_left", "divide_right", "str"),
            *("sublayout", "concat_ins", "concat_outs", "transpose_ins", "transpose_outs", "to_layout"),
            *("free_variable_masks", "pseudoinvert", "call"),
        )
    )
    outs = rng.choice((("m", "n"), ("m", "n"), ("offset",)))
    first = linear_layout(rng, outs)
    names = ("register", "lane", "warp")[: rng.randint(1, 3)]
    some = rng.sample(names, rng.choice((len(names), rng.randint(1, len(names)))))
    if name == "str":
        return f"repr({first}.columns)"
    if name == "call":
        return f"{first}({', '.join(f'{n}={rng.randrange(16)}' for n in some)})"
    if name == "sublayout":
        return f"linear({name!r}, {first}, {some!r}, {rng.sample(outs, rng.randint(0, len(outs)))!r})"
    if name.startswith("transpose"):
        order = some if name.endswith("ins") else rng.sample(outs, len(outs))
        return f"linear({name!r}, {first}, {order!r})"
    if name in {"invert", "free_variable_masks", "pseudoinvert", "to_layout"}:
        return f"linear({name!r}, {first})"
    if name == "compose":
        ins, sizes = {"m": [1, 2, 4, 8][: rng.randint(0, 4)], "n": [16, 32, 64][: rng.randint(0, 3)]}, 128
        outer = f"LinearLayout({ins!r}, {{'offset': {sizes}}})"
        return f"linear('compose', {outer}, {first})"
    if name.startswith("divide"):
        second = linear_layout(rng, outs)
        return f"linear({name!r}, linear('product', {first}, {second}), {rng.choice((first, second))})"
    return f"linear({name!r}, {first}, {linear_layout(rng, outs)})"


def columns(rng: random.Random) -> tuple[int, ...]:
    return tuple(rng.randrange(1 << rng.randint(0, 8)) for _ in range(rng.randint(0, 8)))


def matrices(rng: random.Random) -> str:
    name = rng.choice(
        ("rank", "kernel", "basis", "solve", "contains", "intersection", "complement", "multiply", "apply")
    )
    second: Any = columns(rng) if name in {"intersection", "multiply"} else rng.randrange(256)
    if name == "complement":
        second = rng.randint(0, 9)
    from_f2 = f"f2_{name}"
    if name in {"rank", "kernel", "basis"}:
        return f"{from_f2}({columns(rng)!r})"
    return f"{from_f2}({columns(rng)!r}, {second!r})"


def tile(rng: random.Random, big: int = 64) -> tuple[list[int], Text]:
    """A tile of two modes, most of them dense or padded, with or without a swizzle."""
    sizes = [rng.choice((1, 4, 8, 12, 16, 24, 32, 33, 64, 96, 128)) for _ in range(2)]
    sizes = [min(n, big) for n in sizes]
    strides = rng.choice(
        ([sizes[1] + rng.choice((0, 0, 0, 4, 8, 1)), 1], [1, sizes[0] + rng.choice((0, 0, 8))])
    )
    plain = f"Layout({tuple(sizes)!r}, {tuple(strides)!r})"
    if rng.random() < 0.1:
        return sizes, anything(rng, sizes)
    if rng.random() < 0.5:
        return sizes, Text(plain)
    return sizes, Text(f"ComposedLayout({swizzle(rng)}, {rng.choice((0, 0, 0, 8))}, {plain})")


def access(rng: random.Random, of: Text, sizes: list[int], element: str) -> str:
    op = rng.choice(OPS)
    if rng.random() < 0.6:
        return f"Access.along({op!r}, {of}, {element!r}, {rng.choice(('row', 'col', 'default'))!r})"
    most = prod(sizes)
    steps = [rng.choice((0, 1, 1, 2, 4, 8, sizes[0], 2 * sizes[0])) for _ in range(3)]
    while (31 * steps[0] + 3 * steps[1]) >= most and any(steps):
        steps = [s // 2 for s in steps]
    values = rng.choice((1, 2, 4, 8))
    guard = rng.choice(
        ("", "", "", f", active=Guard(below=({rng.randint(1, 40)},))", ", active=Guard(threads=17)")
    )
    base = rng.choice((0, 0, 0, 16, 64, 4))
    tv = f"Layout((32, {values}), ({steps[0]}, {steps[1]}))"
    return f"Access({op!r}, {tv}, {element!r}, base_bytes={base}{guard})"


def analysis(rng: random.Random) -> str:
    sizes, of = tile(rng, rng.choice((16, 64, 128)))
    arch, element = rng.choice(ARCHS), rng.choice(DTYPES)
    method = rng.choice(("auto", "auto", "auto", "auto", "enumerated", "f2", "gcd", "digit-classes"))
    return f"analyze({of}, {access(rng, of, sizes, element)}, arch={arch!r}, method={method!r})"


def lanes(rng: random.Random) -> list[int | None]:
    step, width = rng.choice((1, 2, 4, 8, 16, 20, 36, 64, 128, 132)), rng.choice((1, 2, 4, 8, 16))
    offsets: list[int | None] = [
        *rng.choice(
            (
                [step * lane for lane in range(32)],
                [width * rng.randrange(256) for _ in range(32)],
                [width * (lane ^ rng.randrange(2)) for lane in range(32)],
                [step * (lane % 8) + width * (lane // 8) for lane in range(32)],
            )
        )
    ]
    return [None if rng.random() < 0.05 else offset for offset in offsets] if rng.random() < 0.4 else offsets


def warps(rng: random.Random) -> str:
    name = rng.choice(("wavefronts", "sectors", "ideal_wavefronts", "schedule"))
    ops = [op for op in OPS if ("global" in op) == (name == "sectors")] if rng.random() < 0.9 else OPS
    return f"{name}({rng.choice(ops)!r}, {lanes(rng)!r}, {rng.choice(ARCHS)!r})"


def legality(rng: random.Random) -> str:
    name = rng.choice(
        ("check_tma", "check_tma", "check_wgmma", "check_wgmma_instruction", "canonical_layout", "recognize")
    )
    element, mode, major = rng.choice(DTYPES), rng.choice(MODES), rng.choice(("K", "MN"))
    shape = (rng.choice((8, 16, 64, 128)), rng.choice((8, 16, 32, 64, 128)))
    canonical = f"canonical_layout({mode!r}, {major!r}, {element!r}, {shape!r})"
    sizes, of = tile(rng)
    if name == "canonical_layout":
        return canonical
    if name == "recognize":
        return f"recognize({rng.choice((canonical, of))}, {major!r}, {element!r})"
    if name == "check_wgmma":
        chosen, operand = rng.choice((canonical, canonical, of)), rng.choice(("A", "B", "B", "C"))
        return f"check_wgmma({chosen}, {element!r}, {operand!r}, n={rng.choice((8, 64, 128, 256, 12, None))})"
    if name == "check_wgmma_instruction":
        n, c = rng.choice((8, 16, 64, 100, 256, 264)), rng.choice(("f32", "f16", "s32"))
        return f"check_wgmma_instruction({element!r}, {rng.choice(DTYPES)!r}, {c!r}, {n})"
    tensor = (
        layout(rng)
        if rng.random() < 0.3
        else Text(f"Layout({tuple(n * 16 for n in sizes)}, ({sizes[1] * 16}, 1))")
    )
    box = rng.choice((shape, tuple(sizes), (64, 64), (8,), (1, 1, 8)))
    return f"check_tma({tensor}, {box!r}, {element!r}, mode={mode!r})"


def models(rng: random.Random) -> str:
    name = rng.choice(("occupancy_of", "l2_locality", "best_band", "block_place", "tile_intensity"))
    grid, band = (rng.randint(1, 40), rng.randint(1, 40)), rng.randint(1, 12)
    if name == "occupancy_of":
        threads, registers = rng.choice((32, 64, 100, 256, 1024, 2000)), rng.randint(0, 300)
        shared = rng.choice((0, 1024, 49152, 102400, rng.randrange(240000)))
        asked = f"threads={threads}, registers_per_thread={registers}, shared_bytes={shared}"
        return f"occupancy_of({rng.choice(ARCHS)!r}, {asked})"
    if name == "l2_locality":
        order, blocks = rng.choice(("row", "col", band)), rng.randint(1, 200)
        return f"l2_locality({grid}, in_flight={blocks}, order={order!r}, tile=({rng.randint(1, 4)}, 1))"
    if name == "best_band":
        return f"best_band({grid}, in_flight={rng.randint(1, 200)})"
    if name == "block_place":
        return f"block_place({grid}, {band}, {rng.randrange(grid[0] * grid[1])})"
    return f"tile_intensity({(*grid, rng.randint(1, 64))}, {rng.choice(DTYPES)!r})"


def registers(rng: random.Random) -> str:
    """Fragments, reductions and conversions of register layouts of 32 lanes."""
    places = [(1 << b, 0) for b in range(4)] + [(0, 1 << b) for b in range(4)]
    found = []
    for _ in range(2):
        rng.shuffle(places)
        cut = rng.choice((2, 3, 3, 3))
        ins = {"register": places[:cut], "lane": places[cut : cut + 5], "warp": places[cut + 5 :]}
        if rng.random() < 0.15:
            ins["lane"] = [(0, 0), *ins["lane"][1:]]
        found.append(f"LinearLayout({ins!r}, {{'m': 16, 'n': 16}})")
    kind = rng.choice(("convert", "convert", "reduce", "holders"))
    if kind == "convert":
        return f"convert_layout({found[0]}, {found[1]}, {rng.choice(('f32', 'f16', 'u8', 'f64'))!r})"
    if kind == "reduce":
        return f"reduction_of(linear_fragment({found[0]}), along={rng.choice(('m', 'n', 'k'))!r})"
    return f"holders(linear_fragment({found[0]}), m={rng.randrange(17)})"


def accesses(rng: random.Random) -> list[str]:
    ops = [op for op in OPS if "global" not in op]
    return [rng.choice(ops) + rng.choice(("", "@row", "@col")) for _ in range(rng.choice((1, 1, 2, 3)))]


def synthesis(rng: random.Random) -> str:
    sizes = rng.choice(
        ((8, 8), (16, 16), (32, 32), (64, 64), (8, 64), (32, 16), (24, 32), (16, 40), (64, 12))
    )
    element, form = (
        rng.choice(("f16", "f16", "f32", "u8", "f64")),
        rng.choice(("any", "any", "single", "tma")),
    )
    extra, order = rng.choice((0, 0, 64, 1024)), rng.choice(("row", "row", "col"))
    question = (
        f"synthesize({sizes!r}, {accesses(rng)!r}, element={element!r}, form={form!r}, order={order!r}, "
        f"max_extra_bytes={extra})"
    )
    return f"check_certificate({question})" if rng.random() < 0.4 else question


def solving(rng: random.Random) -> str:
    sizes = [rng.choice((8, 16, 32, 64)) for _ in range(2)]
    strides = rng.choice(("(ld, 1)", "(1, ld)", "(2*ld, 1)", "(ld, 2)", "(ld + 4, 1)"))
    of, name = (
        f"({tuple(sizes)!r}, {strides})",
        rng.choice(("solve_conflict_free", "symbolic_cost", "solve_sectors")),
    )
    op = rng.choice(OPS) + rng.choice(("", "@row", "@col"))
    made = f"symbolic_access({op!r}, {of}, {rng.choice(('f16', 'f32', 'u8', 'f64'))!r})"
    return f"{name}({of}, {made}, ld{rng.choice(('', ', base=16', ', least=7'))})"


def notation(rng: random.Random) -> str:
    """Texts, most of them as layouts are printed, a third with a character changed."""
    kind = rng.choice(("parse", "parse", "parse", "parse_int_tuple", "parse_tiler", "parse_index"))
    if kind == "parse_index":
        names = ("lane", "tid", "warp", "reg", "lane%8", "(lane/4)", "3", "0x10", "64", "17u")
        text = (
            "".join(
                rng.choice(names) + rng.choice(("+", "*", "^", "%", "/", "<<", "-", "&")) for _ in range(3)
            )
            + "1"
        )
        return f"parse_index({spoiled(rng, text)!r})(lane=array({[*range(0, 32, 5)]}), warp=0, tid=3, reg=1)"
    sizes = extents(rng)
    tree = nested(rng, sizes)
    text = repr(tree).replace(" ", "").replace(",)", ")")
    if kind == "parse":
        text += ":" + repr(
            alike(tree, [rng.choice((s, s, -s, Text("1@0"), Text("2@1"))) for s in in_order(rng, sizes)])
        )
        if rng.random() < 0.5:
            numbers = ",".join(str(rng.randint(*ends)) for ends in ((0, 4), (0, 5), (-5, 5)))
            text = f"Sw<{numbers}> o {rng.randint(0, 9)} o {text}"
    return f"{kind}({spoiled(rng, text)!r})"


def spoiled(rng: random.Random, text: str) -> str:
    if rng.random() < 0.65 or not text:
        return text
    at = rng.randrange(len(text))
    return (
        text[:at]
        + rng.choice(("", "(", ")", ",", ":", "-", "_", "x", " ", "0", "@", "\u00d7", "99999999999999999999"))
        + text[at + 1 :]
    )


def pictures(rng: random.Random) -> str:
    kind = rng.choice(("layout_picture", "swizzle_picture", "layout_access_picture", "as_dot"))
    if kind == "as_dot":
        return f"as_dot({anything(rng)})"
    sizes, of = tile(rng, 16)
    if kind == "layout_access_picture":
        picture = f"layout_access_picture({of}, {access(rng, of, sizes, rng.choice(('f16', 'f32')))})"
    else:
        picture = f"{kind}({rng.choice((of, layout(rng, extents(rng, 64))))})"
    return rng.choice((f"as_text({picture}, unicode={rng.random() < 0.5})", f"as_svg({picture})"))


def atoms(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.3:
        kinds = ("Layout((1, 2, 1))", "Layout((2, 2, 1))", "(2, 1, 1)", str(small(rng)))
        mma = f"make_tiled_mma({rng.choice(MMAS)!r}, {rng.choice(kinds)})"
        name = rng.choice(("A", "B", "C"))
        return (
            f"make_tiled_copy_{name}({rng.choice(COPY_NAMES)!r}, {mma}, {rng.choice(('f16', 'f32', None))!r})"
        )
    threads = rng.choice(("Layout((4, 8), (8, 1))", "Layout((8, 4))", "Layout(32)", str(small(rng))))
    values = rng.choice(("Layout((1, 4))", "Layout((4, 1))", "Layout((2, 2))", "Layout(8)", str(small(rng))))
    copy = (
        f"make_tiled_copy('UniversalCopy<uint{rng.choice((16, 32, 64, 128))}_t>', "
        f"{rng.choice(('f16', 'f32', 'u8'))!r}, {threads}, {values})"
    )
    return rng.choice((copy, f"str({copy})"))


def words_of_commands(rng: random.Random) -> str:
    kind = rng.choice(("analyze", "solve", "synthesize", "draw", "draw"))
    sizes = [rng.choice((8, 16, 32, 64)) for _ in range(2)]
    text = f"({sizes[0]},{sizes[1]}):({sizes[1]},1)"
    if rng.random() < 0.5:
        text = f"Sw<{rng.randint(1, 3)},{rng.randint(2, 4)},3> o 0 o {text}"
    if kind == "solve":
        text = f"({sizes[0]},{sizes[1]}):(ld,1)"
    words = [kind, spoiled(rng, text) if rng.random() < 0.3 else text]
    if kind != "draw":
        words += ["--access", rng.choice(accesses(rng)), "--dtype", rng.choice(("f16", "f32", "u8", "zz"))]
    return f"command({', '.join(map(repr, [*words, '--json']))})"


def cuda(rng: random.Random) -> str:
    """The printed text of a kernel, of every family."""
    kind = rng.choice(
        ("permute", "permute", "norm", "reduce", "gemm-simt", "gemm-sm80", "move", "relayout", "relayout")
    )
    arch, dtype = (
        rng.choice(("sm_75", "sm_80", "sm_89", "sm_90")),
        rng.choice(("f32", "f16", "u8", "f64", "bf16")),
    )
    words = ["--arch", arch]
    sizes = [rng.choice((1, 2, 3, 7, 16, 33, 64, 100, 128, 224, 1000)) for _ in range(rng.randint(1, 4))]
    if kind == "relayout":
        shape = [rng.choice((4, 8, 16, 32, 33, 64)) for _ in range(rng.randint(1, 3))]
        src, dst = (layout_of_memory(rng, shape) for _ in range(2))
        return f"relayout_cuda({src}, {dst}, {dtype!r}, {rng.randrange(6)}, {arch!r})"
    if kind == "permute":
        axes = rng.sample(range(len(sizes)), len(sizes))
        words = ["permute", "--shape", joined(sizes), "--axes", joined(axes), "--dtype", dtype, *words]
    elif kind in {"norm", "reduce"}:
        family = rng.choice(("softmax", "layer_norm") if kind == "norm" else ("sum", "max", "mean"))
        axes = sorted(rng.sample(range(len(sizes)), rng.randint(1, len(sizes))))
        words = [
            family,
            "--shape",
            joined(sizes),
            "--axes",
            joined(axes),
            "--dtype",
            rng.choice(("f32", "f16", "bf16")),
            *words,
        ]
    elif kind == "move":
        words = [
            rng.choice(("transpose", "tiled_copy")),
            "--m",
            str(rng.randint(1, 5000)),
            "--n",
            str(rng.randint(1, 5000)),
            "--dtype",
            dtype,
            *words,
        ]
    else:
        dtype = rng.choice(("f32", "f64", "f16")) if kind == "gemm-simt" else rng.choice(("f16", "bf16"))
        sizes = [rng.choice((64, 128, 1000, 1024, 4096, rng.randint(1, 3000))) for _ in range(3)]
        words = [
            kind,
            *(w for name, n in zip(("--m", "--n", "--k"), sizes, strict=True) for w in (name, str(n))),
            "--dtype",
            dtype,
            "--arch",
            rng.choice(("sm_80", "sm_90")),
        ]
    return f"command('generate', {', '.join(map(repr, words))})"


def joined(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def layout_of_memory(rng: random.Random, shape: list[int]) -> str:
    """A layout of distinct offsets, most of them under a swizzle."""
    plain = f"Layout({tuple(shape)!r}, {tuple(in_order(rng, shape, (0, 0, 0, 1, 8)))!r})"
    if rng.random() < 0.4:
        return plain
    moved = f"Swizzle({rng.randint(1, 3)}, {rng.randint(0, 4)}, {rng.choice((3, 4, -3))})"
    return f"ComposedLayout({moved}, {rng.choice((0, 0, 8))}, {plain})"


KINDS: Mapping[str, tuple[int, Callable[[random.Random], str]]] = {
    "algebra": (600, algebra),
    "coordinates": (40, lambda rng: leaves_of_other_kinds(rng, coordinates)),
    "symbols": (6, lambda rng: leaves_of_other_kinds(rng, symbolic)),
    "bad": (60, bad),
    "constructed": (20, constructed),
    "linear": (80, linear),
    "matrices": (20, matrices),
    "analysis": (60, analysis),
    "warps": (50, warps),
    "legality": (40, legality),
    "models": (10, models),
    "registers": (8, registers),
    "synthesis": (6, synthesis),
    "solving": (2, solving),
    "notation": (60, notation),
    "pictures": (8, pictures),
    "atoms": (8, atoms),
    "commands": (1, words_of_commands),
    "arrays": (4, arrays),
    "cuda": (0, cuda),
}
"""Kind -> (how often where no kinds are asked for, how it is drawn)."""


def draw(rng: random.Random, kinds: Sequence[str] = ()) -> str:
    """A call of one of the kinds, or of any."""
    chosen = {k: KINDS[k] for k in kinds} if kinds else KINDS
    weights = [1 if kinds else weight for weight, _ in chosen.values()]
    return rng.choices([*chosen.values()], weights)[0][1](rng)
