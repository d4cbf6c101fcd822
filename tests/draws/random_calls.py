"""Calls of public functions as text, drawn from a seed by kinds: no part of layoutalg is asked.

A call is a Python expression whose names tests/bench/bench_against.py resolves on either tree it compares.
CALLS says how it is written: a word per paragraph with what stands for it, between bars, "3*" before what is
drawn three times as often.  <word> is drawn so, <2-9> is an integer; words without a paragraph are drawn by
functions here and in tests/draws/random_layouts.py.  Many calls are refused: refusals are compared, too.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from tests.draws import random_layouts as layouts

CALLS = r"""
algebra: 34*<of_one>(<any>) | 7*<of_two>(<any>, <any>) | 11*<tiled>(<any>, <tile>)
    | 2*<tiled>(<any>, <small>) | blocked_product(<any>, <small>) | raked_product(<any>, <small>)
    | upcast(<any>, <0-16>) | downcast(<any>, <0-16>) | <of_shapes>(<shape>, <shape>)
    | <at>(<coordinate>, <any>) | <of_shape>(<shape>) | complement(<any>, <-1-600>)
    | complement(<any>, <shape>)
    | coalesce(<any>, <profile>) | coalesce(<any>, <shape>) | composition(<moved>, <moved>)
    | composition(<layout>, <moved>)
    | composition(<moved>, <layout>) | swizzle_inverse(<moved>) | find_coordinate(<any>, <-3-300>)
    | find_offset_bit(<any>, <0-12>) | is_surjective(<any>, <0-300>) | recast_layout(<any>, <bits>, <bits>)
    | call(<any>, <-2-600>) | call(<any>, <coordinate>) | call(<swizzled>, array([3, 0, 9]))
    | call(<layout>, array([[5], [1]])) | call(<swizzle>, array([3, 0, 9]))
    | crd2crd(<coordinate>, <shape>, <shape>)
    | crd2idx(<coordinate>, <shape>) | idx2crd(<-1-300>, <shape>) | group(<any>, <-1-2>, <0-4>)
    | select(<any>, <0-2>, <0-2>) | replace(<any>, <-1-3>, <small>) | unflatten(<any>, <shape>)
    | concat(<layout>, <swizzled>) | make_layout(<layout>, <layout>) | make_layout(<shape>, <shape>)
    | make_ordered_layout(<shape>, <shape>) | tile_to_shape(<layout>, <shape>)
    | tile_to_shape(<swizzled>, <shape>)
    | local_tile(<any>, <tiler>, <coordinate>) | local_partition(<any>, <small>, <-1-40>)
any: 4*<layout> | 2*<swizzled> | <stacked>
of_one: aliasing | coalesce | coalesce_x | complement | cosize | cycles | depth | extremes | filter
    | filter_zeros
    | find_collision | flatten | footprint | gaps | image_size | is_bijective | is_contiguous | is_injective
    | is_surjective | left_inverse | modes | make_fragment_like | make_layout_like | max_alignment
    | normal_form
    | nullspace | order | rank | right_inverse | size | sort | to_f2 | str | affine_f2
of_two: same_function | find_difference | overlap | find_overlap | max_common_layout | max_common_vector
    | composition
tiled: logical_divide | zipped_divide | tiled_divide | flat_divide | logical_product | zipped_product
    | tiled_product | flat_product | composition | append | prepend
of_shapes: congruent | compatible | weakly_congruent | ceil_div | shape_div
of_shape: product | make_identity_layout | make_basis_like | make_layout
at: slice_ | dice | domain_offset | slice_and_offset
tile: <tiler> | 2*<small>
moved: <swizzle> | <chain> | <swizzled> | <stacked>
profile: 1 | (1, 1) | (1, (1, 1)) | None
bits: 4 | 8 | 16 | 32 | 64
junk: -1 | 0 | 1 | 7 | 10**30 | 3.5 | None | True | 'x' | '4:1' | () | (1,) | (2, (3, 4)) | (0, -3) | [2, 3]
    | {}
    | Layout(()) | Layout(4, 2) | Swizzle(1, 2, 3) | len | n | array(3) | array([1, 2]) | ScaledBasis(1, 0)
    | int
    | LinearLayout({'a': [1]}, {'b': 2})
constructed: <made>(<given>) | <made>(<given>, <given>) | <made>(<given>, <given>, <given>) | <any> == <any>
made: Layout | Swizzle | ComposedLayout | ScaledBasis | ArithTuple | LinearLayout | Tensor | parse
    | find_mma_atom
    | find_copy_atom | make_tiled_mma | str | hash
given: 4*<junk> | <shape> | <0-9> | <layout>

linear: 3*linear('product', <map>, <map>) | linear('compose', <outer>, <map>) | 2*linear('<of_map>', <map>)
    | linear('invert_and_compose', <map>, <map>) | linear('concat_ins', <map>, <map>)
    | linear('concat_outs', <map>, <map>)
    | linear('divide_left', linear('product', <map>, <flat>), <flat>) | repr(<map>.columns)
    | linear('sublayout', <map>, ['register'], ['m']) | linear('transpose_ins', <map>, ['lane', 'register'])
    | linear('transpose_outs', <map>, ['n', 'm']) | <map>(register=<0-15>)
    | <map>(register=<0-15>, lane=<0-15>)
of_map: invert | free_variable_masks | pseudoinvert | to_layout
outer: LinearLayout({'m': [1, 2, 4, 8], 'n': [16, 32, 64]}, {'offset': 128})
    | LinearLayout({'m': [1], 'n': []}, {'offset': 128})
flat: LinearLayout({'register': [(1, 0)], 'lane': [(0, 1)]}, {'m': 2, 'n': 2})
matrices: f2_rank(<columns>) | f2_kernel(<columns>) | f2_basis(<columns>) | f2_solve(<columns>, <0-255>)
    | f2_contains(<columns>, <0-255>) | f2_intersection(<columns>, <columns>)
    | f2_complement(<columns>, <0-9>)
    | f2_multiply(<columns>, <columns>) | f2_apply(<columns>, <0-255>)

dtype: u8 | 2*f16 | bf16 | 2*f32 | f64 | s4 | tf32 | c128 | e4m3
float: f16 | bf16 | f32
arch: sm_70 | sm_75 | sm_80 | sm_89 | 2*sm_90 | sm_100
wide: 8 | 16 | 32 | 64 | 128
side: ld | st
op: 3*<side>.shared.b<wide> | 2*<side>.global.b<wide> | 2*ldmatrix.x<lanes><turned>
    | stmatrix.x<lanes><turned>
    | cp.async.<few> | cp.async.<few>:global | red.shared.u32
lanes: 1 | 2 | 4
few: 4 | 8 | 16
turned: | .trans
analysis: analyze(<access>, arch='<arch>', method='<method>')
method: 4*auto | enumerated | f2 | gcd | digit-classes
warps: <count>('<op>', <offsets>, '<arch>')
count: wavefronts | sectors | ideal_wavefronts | schedule
legality: canonical_layout('<mode>', '<major>', '<dtype>', <box>) | recognize(<operand>, '<major>', '<dtype>')
    | check_wgmma(<operand>, '<dtype>', '<role>', n=<columns_n>)
    | check_wgmma_instruction('<dtype>', '<dtype>', '<sum>', <columns_n>)
    | 2*check_tma(<tensor>, <box>, '<dtype>', mode='<mode>')
mode: none | 32B | 64B | 128B | 128B_ATOM_32B
major: K | MN
role: A | 2*B | C
sum: f32 | f16 | s32
columns_n: 8 | 64 | 128 | 256 | 12 | None
box: (<side_n>, <side_n>) | (64, 64) | (8,) | (1, 1, 8)
side_n: 8 | 16 | 32 | 64 | 128
operand: 2*canonical_layout('<mode>', '<major>', '<dtype>', <box>) | <plain>
plain: Layout((<side_n>, <side_n>), (<side_n>, 1))
tensor: 2*Layout((1024, 512), (512, 1)) | <layout>
models: occupancy_of('<arch>', threads=<threads>, registers_per_thread=<0-300>, shared_bytes=<0-240000>)
    | l2_locality((<1-40>, <1-40>), in_flight=<1-200>, order=<order>, tile=(<1-4>, 1))
    | best_band((<1-40>, <1-40>), in_flight=<1-200>) | block_place((<1-40>, <1-40>), <1-12>, <0-9>)
    | tile_intensity((<1-40>, <1-40>, <1-64>), '<dtype>')
threads: 32 | 64 | 100 | 256 | 1024 | 2000
order: 'row' | 'col' | <1-12>
registers: 2*convert_layout(<places>, <places>, '<dtype>')
    | reduction_of(linear_fragment(<places>), along='<along>')
    | holders(linear_fragment(<places>), m=<0-16>)
along: m | n | k
synthesis: <question> | check_certificate(<question>)
question: synthesize(<sides>, [<named>], element='<dtype>', form='<form>', order='<by>', <extra>)
sides: (8, 8) | (16, 16) | (32, 32) | (64, 64) | (8, 64) | (32, 16) | (24, 32) | (16, 40) | (64, 12)
named: '<op><way>' | '<op><way>', '<op><way>'
way: | @row | @col
form: 2*any | single | tma
by: 2*row | col
extra: 2*max_extra_bytes=0 | max_extra_bytes=64 | max_extra_bytes=1024
solving: <solver>(<of_ld>, symbolic_access('<op><way>', <of_ld>, '<dtype>'), ld<more>)
of_ld: (<sides>, <strides>)
solver: solve_conflict_free | symbolic_cost | solve_sectors
strides: (ld, 1) | (1, ld) | (2*ld, 1) | (ld, 2) | (ld + 4, 1)
more: | , base=16 | , least=7
notation: 3*parse('<spoiled>') | parse_int_tuple('<spoiled>') | parse_tiler('<spoiled>')
    | parse_index('<term><sign><term><sign><term>')(lane=array([0, 5, 10]), warp=0, tid=3, reg=1)
term: lane | tid | warp | reg | lane%8 | (lane/4) | 3 | 0x10 | 64 | 17u
sign: + | * | ^ | % | / | << | - | & | (
pictures: as_dot(<any>) | as_text(<picture>, unicode=<flag>) | as_svg(<picture>)
picture: layout_picture(<any>) | swizzle_picture(<any>) | layout_access_picture(<access>)
flag: True | False
atoms: make_tiled_copy_<abc>('<copy>', make_tiled_mma('<mma>', <kinds>), '<dtype>') | <tiled_copy>
    | str(<tiled_copy>)
tiled_copy: make_tiled_copy('UniversalCopy<uint<wide>_t>', '<dtype>', <of_threads>, <of_values>)
abc: A | B | C
copy: UniversalCopy<uint32_t> | UniversalCopy<uint16_t> | SM75_U32x4_LDSM_N | SM75_U32x1_LDSM_N
mma: SM80_16x8x16_F32F16F16F32_TN | SM80_16x8x8_F16F16F16F16_TN | SM80_16x8x8_F32TF32TF32F32_TN
    | SM70_8x8x4_F16F16F16F16_TN | UniversalFMA<float,float,float,float>
kinds: Layout((1, 2, 1)) | Layout((2, 2, 1)) | (2, 1, 1) | <small>
of_threads: Layout((4, 8), (8, 1)) | Layout((8, 4)) | Layout(32) | <small>
of_values: Layout((1, 4)) | Layout((4, 1)) | Layout((2, 2)) | Layout(8) | <small>
commands: command('<verb>', '<written>', '--access', '<op><way>', '--dtype', '<dtype>', '--json')
    | command('solve', '(<side_n>,<side_n>):(ld,1)', '--access', '<op><way>', '--dtype', '<dtype>', '--json')
    | command('draw', '<written>', '--json')
verb: analyze | synthesize
written: (64,32):(32,1) | (8,64):(64,1) | Sw<<1-3>,<2-4>,3> o 0 o (<side_n>,64):(64,1) | <spoiled>
arrays: permute(numbers<array>) | reduce(numbers(3, 4, 5), '<fold>', <axes>, keepdims=<flag>)
    | softmax(numbers(3, 4, 5), <axes>) | layer_norm(numbers(3, 4, 5), <axes>)
    | relayout(numbers(400), <memory>, <memory>)
array: (4, 5), (1, 0) | (2, 3, 4), (2, 0, 1) | (2, 3, 4), (0, 2, 1) | (5,), (0,)
fold: sum | max | mean | min
axes: 0 | 1 | -1 | (0, 2) | (1, 2) | (0, 1, 2)
memory: Layout((20, 20), (20, 1)) | Layout((20, 20), (1, 20))
    | ComposedLayout(<swizzle>, 0, Layout((20, 16), (16, 1)))
cuda: command('generate', 'permute', '--shape', '<extents>', '--axes', '2,0,1', <typed>)
    | command('generate', '<row_op>', '--shape', '<extents>', '--axes', '<one_axis>', <typed>)
    | command('generate', '<mover>', '--m', '<1-5000>', '--n', '<1-5000>', <typed>)
    | command('generate', '<gemm>', '--m', '<1-3000>', '--n', '<1-3000>', '--k', '<1-3000>', <typed>)
    | 2*relayout_cuda(<memory>, <memory>, '<dtype>', <0-5>, '<arch>')
typed: '--dtype', '<dtype>', '--arch', '<arch>'
extents: <1-100>,<1-100>,<1-100> | 64,224,1000 | 33,7,128
one_axis: 0 | 1 | 2 | 1,2 | 0,1,2
row_op: softmax | layer_norm | sum | max | mean
mover: transpose | tiled_copy
gemm: gemm-simt | gemm-sm80
"""

Draw = Callable[[random.Random], Any]


@cache
def _words() -> Mapping[str, tuple[str, ...]]:
    """What stands for each word of CALLS, as often as it is drawn."""
    found = {}
    for part in re.split(r"\n+(?=\w+:)", re.sub(r"\n +", " ", CALLS.strip())):
        name, _, rest = part.partition(":")
        counted = [re.fullmatch(r"(?:(\d+)\*(?!\*))?(.*)", x.strip()) for x in rest.split(" | ")]
        found[name] = tuple(x[2] for x in counted if x for _ in range(int(x[1] or 1)))
    return found


def written(rng: random.Random, text: str, instead: Mapping[str, str] = {}, share: float = 0.5) -> str:
    """A text with each <word> drawn; `instead`: of some words, others in a share of the places."""

    def drawn(place: re.Match[str]) -> str:
        word = place[1]
        if word in instead and rng.random() < 0.6:
            word = instead[word]
        if ends := re.fullmatch(r"(-?\d+)-(\d+)", word):
            return str(rng.randint(int(ends[1]), int(ends[2])))
        if word in _words():
            return written(rng, rng.choice(_words()[word]), instead)
        return str(DRAWN[word](rng)) if word in DRAWN else place[0]

    return re.sub(r"<(-?\w+(?:-\d+)?)>", drawn, text)


def _spoiled(rng: random.Random) -> str:
    """A layout as it is printed, in a third of the cases with a character changed."""
    sizes = layouts.extents(rng)
    tree = layouts.nested(rng, sizes)
    steps = [rng.choice((s, s, -s, layouts.Text("1@0"))) for s in layouts.in_order(rng, sizes)]
    text = re.sub(r"[ ]|,(?=\))", "", f"{tree!r}:{layouts.alike(tree, steps)!r}")
    text = rng.choice(
        (text, f"Sw<{rng.randint(0, 4)},{rng.randint(0, 5)},{rng.randint(-5, 5)}> o 8 o {text}")
    )
    if rng.random() < 0.35:
        at = rng.randrange(len(text))
        text = (
            text[:at]
            + rng.choice(("", "(", ")", ",", ":", "-", "_", "x", " ", "@", "\u00d7", "9" * 20))
            + text[at + 1 :]
        )
    return text


def _access(rng: random.Random) -> str:
    """A tile of two modes, most of them dense or padded, with or without a swizzle, and an access of it."""
    m, n = (rng.choice((1, 4, 8, 12, 16, 24, 32, 33, 64, 96, 128)) for _ in range(2))
    strides = rng.choice(((n + rng.choice((0, 0, 0, 4, 8, 1)), 1), (1, m + rng.choice((0, 0, 8)))))
    tile = f"Layout({(m, n)!r}, {strides!r})"
    if rng.random() < 0.5:
        tile = f"ComposedLayout({layouts.swizzle(rng)}, {rng.choice((0, 0, 0, 8))}, {tile})"
    op, element = written(rng, "<op>", {}), written(rng, "<dtype>", {})
    if rng.random() < 0.6:
        way = rng.choice(("row", "col", "default"))
        return f"{tile}, Access.along({op!r}, {tile}, {element!r}, {way!r})"
    step = rng.choice((0, 1, 1, 2, 4, 8)) if m * n >= 256 else 0
    active = rng.choice(
        ("", "", f", active=Guard(below=({rng.randint(1, 40)},))", ", active=Guard(threads=17)")
    )
    tv = f"Layout((32, {rng.choice((1, 2, 4, 8))}), ({step}, 1))"
    return f"{tile}, Access({op!r}, {tv}, {element!r}, base_bytes={rng.choice((0, 0, 16, 4))}{active})"


def _offsets(rng: random.Random) -> list[int | None]:
    """The byte offsets of a warp's lanes: strided, anywhere, exchanged or of rows, some lanes inactive."""
    step, width = rng.choice((1, 2, 4, 8, 16, 20, 36, 64, 128, 132)), rng.choice((1, 2, 4, 8, 16))
    ways: tuple[Callable[[int], int], ...] = (
        lambda n: step * n, lambda n: width * rng.randrange(256), lambda n: width * (n ^ rng.randrange(2)),
        lambda n: step * (n % 8) + width * (n // 8),
    )  # fmt: skip
    at = rng.choice(ways)
    off = rng.choice((0.0, 0.0, 0.05))
    return [None if rng.random() < off else at(lane) for lane in range(32)]


def _map(rng: random.Random) -> str:
    """A linear layout of registers, lanes and warps: bits of m and n in any order, now and then twice."""
    bits = {name: rng.randint(0, 4) for name in ("m", "n")}
    places = [tuple(rng.choice((1, 1, 1, 0)) << b if name == out else 0 for name in bits)
              for out in bits for b in range(bits[out])]  # fmt: skip
    rng.shuffle(places)
    ins: dict[str, list[Any]] = {}
    for name in ("register", "lane", "warp")[: rng.randint(1, 3)]:
        ins[name] = [places.pop() for _ in range(min(len(places), rng.randint(0, 4)))]
        if rng.random() < 0.25:
            ins[name].append(tuple(rng.randrange(1 << n) for n in bits.values()))
    return f"LinearLayout({ins!r}, { {name: 1 << n for name, n in bits.items()}!r})"


def _places(rng: random.Random) -> str:
    """A register layout of 32 lanes, in a few cases with a lane that holds what another does."""
    places = [(1 << b, 0) for b in range(4)] + [(0, 1 << b) for b in range(4)]
    rng.shuffle(places)
    cut = rng.choice((2, 3, 3, 3))
    lanes = places[cut : cut + 5] if rng.random() < 0.85 else [(0, 0), *places[cut + 1 : cut + 5]]
    ins = {"register": places[:cut], "lane": lanes, "warp": places[cut + 5 :]}
    return f"LinearLayout({ins!r}, {{'m': 16, 'n': 16}})"


DRAWN: Mapping[str, Draw] = {
    **{word: getattr(layouts, word) for word in (
        *("layout", "swizzled", "stacked", "small", "shape", "coordinate", "tiler", "swizzle", "chain"),
        *("coordinates", "symbolic"),
    )},
    "spoiled": _spoiled, "access": _access, "offsets": _offsets, "map": _map, "places": _places,
    "columns": lambda rng: tuple(rng.randrange(1 << rng.randint(0, 8)) for _ in range(rng.randint(0, 8))),
}  # fmt: skip
"""What draws the words that CALLS does not spell."""

OPERANDS = ("any", "layout", "shape", "small", "tile", "coordinate", "tiler", "moved", "profile")
WEIGHTS = {
    "algebra": 600, "constructed": 20, "linear": 80, "matrices": 20, "analysis": 60, "warps": 50,
    "legality": 40, "models": 10, "registers": 8, "synthesis": 6, "solving": 2, "notation": 60, "pictures": 8,
    "atoms": 8,
    "commands": 1, "arrays": 4, "cuda": 0,
}  # fmt: skip
KINDS: Mapping[str, tuple[int, str, Mapping[str, str]]] = {
    **{kind: (weight, f"<{kind}>", {}) for kind, weight in WEIGHTS.items()},
    "coordinates": (40, "<algebra>", {"any": "coordinates"}),
    "symbols": (6, "<algebra>", {"any": "symbolic"}),
    "bad": (60, "<algebra>", dict.fromkeys(OPERANDS, "junk")),
}
"""Kind -> (how often where no kinds are asked for, a text, and words that stand for others)."""


def draw(rng: random.Random, kinds: Sequence[str] = ()) -> str:
    """A call of one of the kinds, or of any."""
    chosen = [KINDS[k] for k in kinds] if kinds else [*KINDS.values()]
    _, text, instead = rng.choices(chosen, [1 if kinds else weight for weight, *_ in chosen])[0]
    return written(rng, text, instead)
