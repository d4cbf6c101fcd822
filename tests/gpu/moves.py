"""Permutes on one GPU: a source, PyTorch's result, and configurations whose results are compared with it."""

from __future__ import annotations

import random
from math import prod
from typing import Any, NamedTuple

from layoutalg.codegen import gpu
from layoutalg.dtype import dtype as find_dtype
from layoutalg.errors import LayoutAlgError
from layoutalg.kernels.checks.move import Case
from layoutalg.kernels.elements import CARRIER
from layoutalg.kernels.move import PermuteConfig, build_permute, normalise, permute_problem
from tests.gpu.timing import Run, as_torch

WORDS = {1: "u8", 2: "s16", 4: "s32", 8: "s64"}
"""Elements by their bytes, as PyTorch moves them."""


TIMED_DTYPES = ("f64", "f32", "f16", "u8")
TIMED_BYTES = (26, 29)
"""Base-two logarithms of the least and the most bytes of a timed tensor."""


def timed_cases(seed: int, count: int = 80) -> tuple[tuple[str, Case], ...]:
    """(type, case) of dense tensors of ranks 1 to 6 and 64 to 512 MB, the same for the same seed.

    Types take turns; of half of the tensors the last extent is a multiple of 8.
    """
    rng, found = random.Random(f"permutes {seed}"), list[tuple[str, Case]]()
    while len(found) < count:
        dtype, even = TIMED_DTYPES[len(found) % 4], len(found) // 4 % 2 == 0
        low, high = TIMED_BYTES
        elems = 2 ** rng.uniform(low, high) / find_dtype(dtype).nbytes
        rank = rng.randint(1, 6)
        cuts = sorted(rng.uniform(0, 1) for _ in range(rank - 1))
        shape = [max(2, round(elems ** (b - a))) for a, b in zip([0.0, *cuts], [*cuts, 1.0], strict=True)]
        if even:
            shape[-1] = -(-shape[-1] // 8) * 8
        axes = tuple(rng.sample(range(rank), rank))
        nbytes = prod(shape) * find_dtype(dtype).nbytes
        if 1 << low <= nbytes <= 1 << high and (rank == 1 or axes != tuple(range(rank))):
            found.append((dtype, (tuple(shape), axes)))
    return tuple(found)


class Variant(NamedTuple):
    """A configuration of a case, ready to load."""

    config: PermuteConfig
    element_bytes: int
    ready: gpu.Prepared


def variants(dtype: str, case: Case, configs: list[PermuteConfig], arch: str) -> list[Variant]:
    """Configurations of a case, compiled; those that cannot be are printed."""
    x, found = normalise(permute_problem(*case, dtype)), list[Variant]()
    for c in configs:
        try:
            found.append(Variant(c, x.element_bytes, gpu.prepare(build_permute(x, c), arch)))
        except LayoutAlgError as error:
            print(f"{dtype} {case} {c}: {error}", flush=True)
    return found


class Moved:
    """Buffers of a permute in whole units; the source is random bytes, or what `source` holds."""

    def __init__(self, dtype: str, case: Case, source: Any = None, target: Any = None) -> None:
        self.p, (shape, axes) = permute_problem(*case, dtype), case
        self.used, kind = prod(shape) * self.p.element_bytes, WORDS[self.p.element_bytes]
        nbytes = -(-self.used // 16) * 16
        self.source = gpu.random_bytes(nbytes, 1) if source is None else source[:nbytes]
        self.target = gpu.device_empty((nbytes,), "u1") if target is None else target[:nbytes]
        self.tensor = as_torch(self.source[: self.used], kind, shape)
        self.result = as_torch(self.target[: self.used], kind, (-1,))
        self.expected = self.tensor.permute(axes).contiguous()
        self.copy = gpu.device_copy(self.target, self.source)

    def is_right(self, run: Run) -> bool:
        """Whether a launch gives PyTorch's result."""
        import torch

        self.target.fill(0)
        run()
        torch.cuda.synchronize()
        return bool(torch.equal(self.result, self.expected.reshape(-1)))

    def run(self, v: Variant) -> Run:
        """The launch of a configuration."""
        wide = CARRIER[v.element_bytes]
        launcher = gpu.load_prepared(v.ready).launcher
        return launcher(src=self.source.view(wide), dst=self.target.view(wide))
