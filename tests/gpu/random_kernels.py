"""Random kernels compiled by all cores, run on one GPU and compared with NumPy or another definition.

python -m tests.gpu.random_kernels permutes 2000          as many cases; every second one converts elements
python -m tests.gpu.random_kernels permutes 500 1500      the last quarter of them
python -m tests.gpu.random_kernels norms 600              within the stated bound
python -m tests.gpu.random_kernels reductions 600
python -m tests.gpu.random_kernels relayouts 200          pairs of layouts of registers, all their plans
python -m tests.gpu.random_kernels values 300             of the kernel language: as the simulator has it
python -m tests.gpu.random_kernels laws 16                floats: all numbers of 16 and of 8 bits
python -m tests.gpu.random_kernels matrices 100           transposes and copies, in turn
python -m tests.gpu.random_kernels permutes plain         sixty small ones, alone in memory, for a sanitizer

What is wrong is printed, by its seed.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from layoutalg.codegen import gpu
from layoutalg.codegen.language import words
from layoutalg.codegen.program import Kernel
from layoutalg.kernels import find_family, move, verify
from layoutalg.kernels.elements import CARRIER, whole_units
from layoutalg.kernels.rowwise import NormConfig, NormProblem, ReducePlan, norm_problem, plans
from layoutalg.kernels.rowwise.programs import norm, reduce
from layoutalg.kernels.rowwise.ways.norm_plan import norm_configs
from layoutalg.kernels.tuning.sweep import random_case
from layoutalg.registers import Conversion, convert_layout
from tests.draws import float_laws, norms, permutations, reductions, relayouts, value_kernels
from tests.gpu.counters import verdict
from tests.gpu.timing import plainly

MOST_ELEMS = 300_000


class Kind(NamedTuple):
    """What compiles the kernels of a seed for an architecture, and what runs and judges them.

    `run` takes the seed, the architecture and what was compiled, and raises AssertionError for a result that
    is wrong; `small` are the seeds of a sanitizer.
    """

    compiled: Callable[[tuple[int, str]], Any]
    run: Callable[[int, str, Any], None]
    small: Sequence[int] = range(0, 120, 2)


def wrong(kind: Kind, seeds: Sequence[int]) -> Iterator[str]:
    """Run what is compiled for each seed; describe what is wrong."""
    arch = gpu.require_gpu().arch
    for seed, made in zip(seeds, gpu.in_processes(kind.compiled, [(s, arch) for s in seeds]), strict=True):
        try:
            kind.run(seed, arch, made)
        except AssertionError as error:
            yield f"seed {seed}: {error}"[:400]


def judged(kind: Kind, seeds: Sequence[int], what: str) -> int:
    """Print what is wrong; the exit status."""
    found = list(wrong(kind, seeds))
    print(*found, "" if found else f"{len(seeds)} launches correct", sep="\n")
    return verdict(len(found), len(seeds), f"random {what}")


# --- permutes --------------------------------------------------------------------------------------------


def permute_of(seed: int, small: bool) -> move.PermuteProblem:
    """The problem of a seed."""
    draw = permutations.random_conversion if seed % 2 and not small else permutations.random_problem
    return draw(random.Random(seed), 4000 if small else MOST_ELEMS)


def compiled_permutes(small: bool, asked: tuple[int, str]) -> list[gpu.Prepared]:
    """The kernel of one of the configurations of a seed's problem; of a small one of all."""
    seed, arch = asked
    x = move.normalise(permute_of(seed, small))
    every = list(move.permute_configs(x, arch))
    chosen = every if small else [random.Random(~seed).choice(every)]
    return [gpu.prepare(move.build_permute(x, c), arch) for c in chosen]


def on_gpu(array: Any, dtype: Any, unit: int) -> Any:
    """The bytes of an array on the GPU, as elements of a type, in whole units of so many bytes."""
    raw = np.zeros(-(-array.nbytes // unit) * unit, "u1")
    raw[: array.nbytes] = array.view("u1")
    return gpu.to_device(raw).view(dtype)


def run_permutes(small: bool, seed: int, arch: str, kernels: Sequence[gpu.Prepared]) -> None:
    """The result is NumPy's."""
    p = permute_of(seed, small)
    x, (src, old) = move.normalise(p), permutations.random_buffers(p, seed)
    expected, sides = move.reference(p, src, old), ((src, x.element_bytes), (old, x.result_bytes))
    for kernel in kernels:  # of small ones a sanitizer sees each element's end
        from_, to = (on_gpu(array, CARRIER[n], n if small else 16) for array, n in sides)
        gpu.load_prepared(kernel)(src=from_, dst=to)
        result: Any = gpu.to_host(to.view("uint8"))[: old.nbytes]
        if p.result:
            assert permutations.same_numbers(result.view(expected.dtype), expected, p.result.name), p
        else:
            assert (result == expected.view("uint8")).all(), p


# --- norms -----------------------------------------------------------------------------------------------

Draw: TypeAlias = Callable[[int, str], tuple[NormProblem, NormConfig]]


def norm_of(seed: int, arch: str) -> tuple[NormProblem, NormConfig]:
    """The problem of a seed, and a configuration: of the plan, or read twice, and split, or as a stream."""
    rng = random.Random(seed)
    some = norms.odd_pitch_problem if seed % 8 == 4 else norms.random_problem
    p = some(rng, MOST_ELEMS if seed % 2 else 5000)
    c = rng.choice(norm_configs(p, arch)[: 1 if seed % 3 == 0 else None])
    if seed % 5 == 0:
        staged = rng.choice([0, 2 * c.depth]) if c.vec * p.dtype.nbytes >= 4 else 0
        splits = rng.choice([1, 2, 5])
        c = replace(c, hold="global", staged=staged, splits=splits, cluster=1, turns=0, resident=0, width=0)
    elif seed % 4 == 0 and (found := norms.streams(p)):
        vec, width = rng.choice(found)
        side, depth, splits = rng.choice([4, 8, 16]), rng.choice([2, 4, 8]), rng.choice([1, 2, 5])
        staged = rng.choice([0, 2 * depth]) if vec * p.dtype.nbytes >= 4 else 0
        c = NormConfig(vec, side, 128 // side, "global", depth, splits, staged, width=width)
    return p, c


def row_problem(rng: random.Random, n: int, rows: int, dtypes: Sequence[str]) -> NormProblem:
    """Rows of about n elements, up to so many of them, with and without weights and offsets."""
    op, dtype = rng.choice(("softmax", "layer_norm", "rms_norm")), rng.choice(dtypes)
    offset, n = rng.choice((0, 0, 3, 8)), n if rng.random() < 0.5 else n // 8 * 8
    weight = op != "softmax" and rng.random() < 0.5
    in_place = n % 8 == 0 and offset % 8 == 0 and rng.random() < 0.3
    return norm_problem(
        op, (max(1, min(rows, (1 << 21) // n)), n), 1, dtype, src_offset=offset, dst_offset=offset,
        in_place=in_place, weight=weight, bias=op == "layer_norm",
    )  # fmt: skip


def compiled_norms(draw: Draw, asked: tuple[int, str]) -> list[gpu.Prepared]:
    """The kernels of a seed's problem."""
    p, c = draw(*asked)
    return [gpu.prepare(kernel, asked[1]) for kernel in norm.plan(p, asked[1], c).kernels]


def run_norms(draw: Draw, launches: int, seed: int, arch: str, kernels: Sequence[gpu.Prepared]) -> None:
    """The result is within the bound of NumPy's, and of equal bits another time."""
    p, c = draw(seed, arch)
    made, d, first = norm.plan(p, arch, c), norms.data(p, seed), None
    loaded = {k.name: gpu.load_prepared(one) for k, one in zip(made.kernels, kernels, strict=True)}

    def launch(kernel: Kernel, args: dict[str, Any]) -> None:
        loaded[kernel.name](**args)

    for _ in range(launches):
        got = gpu.to_host(norms.launch_all(made, replace(d), launch, gpu.to_device))
        norms.check(p, d, got)
        assert first is None or (got == first).all(), f"other bits the second time, {p}, {c}"
        first = got


def norms_by(draw: Draw, launches: int = 1) -> Kind:
    """Norms that a function draws, launched so often each."""
    return Kind(partial(compiled_norms, draw), partial(run_norms, draw, launches))


# --- reductions ------------------------------------------------------------------------------------------


def compiled_reductions(asked: tuple[int, str]) -> tuple[ReducePlan, list[gpu.Prepared]]:
    """The problem of a seed with one of its plans, and its kernels."""
    seed, arch = asked
    rng = random.Random(seed)
    p = reductions.random_reduction(rng, MOST_ELEMS if seed % 2 else 5000)
    plan = reductions.random_plan(rng, p) if seed % 3 else rng.choice(plans(p, arch))
    return plan, [gpu.prepare(kernel, arch) for kernel in reduce.build(plan)]


def run_reductions(seed: int, arch: str, made: tuple[ReducePlan, Sequence[gpu.Prepared]]) -> None:
    """The result is within the stated bound, and nothing else is written."""
    plan, kernels = made
    src, old, values = reductions.data(plan.problem, seed)
    between = [gpu.to_device(np.zeros(plan.workspace_elems, "u4"))] if plan.workspace_elems else []
    chain = [gpu.to_device(src), *between, gpu.to_device(whole_units(old))]
    for n, kernel in enumerate(kernels):
        gpu.load_prepared(kernel)(src=chain[n], dst=chain[n + 1])
    try:
        reductions.check(plan.problem, plan.additions, values, gpu.to_host(chain[-1])[: len(old)])
    except AssertionError as error:
        what = f"{plan.problem} as {[one.config for one in plan.passes]}"
        raise AssertionError(f"{what}: {error}") from error


# --- relayouts -------------------------------------------------------------------------------------------

ELEMENTS = ("u8", "f16", "f32", "f64", "c128")
Made = tuple[Conversion, list[tuple[str, Kernel, gpu.Cubin]]]


def compiled_relayouts(asked: tuple[int, str]) -> Made:
    """A random conversion, and the kernels of all its plans."""
    seed, arch = asked
    found = convert_layout(*relayouts.random_pair(seed), ELEMENTS[seed % len(ELEMENTS)], arch)
    kinds = [plan.kind for plan in (found.plan, *found.alternatives)]
    made = ((kind, relayouts.relayout_kernel(found, kind)) for kind in kinds)
    return found, [(kind, k, gpu.compile_cubin(gpu.to_cuda(k, arch), k.name, arch)) for kind, k in made]


def run_relayouts(seed: int, arch: str, made: Made) -> None:
    """Every plan gives the definition's words."""
    found, kernels = made
    bits = found.element.bits
    tile = relayouts.random_tile(found.src, bits, seed)
    expected = relayouts.expected_words(found.src, found.dst, tile, bits)
    src: Any = gpu.to_device(np.ascontiguousarray(relayouts.as_words(tile, bits)).ravel())
    mask = relayouts.known_bits(1 << found.places.in_bits["register"], bits)
    for kind, kernel, cubin in kernels:
        dst = gpu.to_device(np.zeros(expected.size, np.uint32))
        gpu.load_prepared(gpu.Prepared(kernel, "", cubin))(src=src, dst=dst)
        right = ((gpu.to_host(dst).reshape(expected.shape) ^ expected) & mask == 0).all()
        assert right, f"{found.src} to {found.dst} by {kind}"


# --- the kernel language ---------------------------------------------------------------------------------

Computed = tuple[dict[str, Any], gpu.Prepared]


def compiled_values(asked: tuple[int, str]) -> Computed:
    """The kernel of a seed, and what the simulator leaves."""
    seed, arch = asked
    made = value_kernels.random_kernel(random.Random(seed))
    return made.simulated(), gpu.prepare(made.kernel, arch)


def run_values(seed: int, arch: str, made: Computed) -> None:
    """The tensors are those of the simulator: to the bit where nothing is approximated."""
    kernel, (wanted, prepared) = value_kernels.random_kernel(random.Random(seed)), made
    check_launch(kernel, prepared, wanted)


def check_launch(
    kernel: value_kernels.ValueKernel, prepared: gpu.Prepared, wanted: Mapping[str, Any]
) -> None:
    """The arrays that a launch leaves are the wanted ones."""
    device = {
        name: gpu.to_device(x) if isinstance(x, np.ndarray) else x
        for name, x in {**kernel.arguments, **kernel.copies()}.items()
    }
    gpu.load_prepared(prepared)(**words(kernel.kernel, device))
    found = kernel.differences({name: gpu.to_host(device[name]) for name in wanted}, wanted)
    assert not found, ", ".join(f"{name} of {kernel.elements[name]}" for name in found)


def compiled_law(asked: tuple[int, str]) -> gpu.Prepared:
    """The kernel of a law of floats, by its number."""
    number, arch = asked
    return gpu.prepare(list(float_laws.LAWS.values())[number]().made.kernel, arch)


def run_law(number: int, arch: str, prepared: gpu.Prepared) -> None:
    """The tensors are those of the definition, on all numbers of a narrow type."""
    name, law = list(float_laws.LAWS.items())[number]
    made, wanted = law()
    try:
        check_launch(made, prepared, wanted)
    except AssertionError as error:
        raise AssertionError(f"{name}: {error}") from error


MATRICES = ("transpose", "tiled_copy")


def drawn_matrix(asked: tuple[int, str]) -> tuple[Any, Any]:
    """The problem and the configuration of a seed."""
    return random_case(find_family(MATRICES[asked[0] % 2]), asked[0])


def run_matrix(seed: int, arch: str, drawn: tuple[Any, Any]) -> None:
    """The result is the definition, and nothing beside it changes."""
    report = verify(find_family(MATRICES[seed % 2]), *drawn, target="gpu", seed=seed)
    assert report.passed, report


KINDS: Mapping[str, Kind] = {
    "matrices": Kind(drawn_matrix, run_matrix, range(60)),
    "values": Kind(compiled_values, run_values, range(60)),
    "laws": Kind(compiled_law, run_law, range(len(float_laws.LAWS))),
    "permutes": Kind(partial(compiled_permutes, False), partial(run_permutes, False)),
    "norms": norms_by(norm_of),
    "reductions": Kind(compiled_reductions, run_reductions),
    "relayouts": Kind(compiled_relayouts, run_relayouts),
}
SMALL_PERMUTES = Kind(partial(compiled_permutes, True), partial(run_permutes, True), range(60))


def main(args: list[str]) -> int:
    """Run `KIND COUNT [FIRST]` or `KIND plain`."""
    what, count, first = (*args, "0")[:3]
    kind = KINDS[what]
    if count == "plain":
        plainly()
        kind = SMALL_PERMUTES if what == "permutes" else kind
        return judged(kind, kind.small, what)
    return judged(kind, range(int(first), int(first) + int(count)), what)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
