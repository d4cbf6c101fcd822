"""Small problems of attention in the simulator: arrays, launches, and whether results are those of the
definition, within the bound of `kernels.checks.attention`."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Literal

from layoutalg.codegen.program import Kernel, LaunchSequence, printed
from layoutalg.codegen.sim import simulate_sequence
from layoutalg.errors import LayoutAlgError
from layoutalg.kernels.attention import AttentionProblem, attention_problem
from layoutalg.kernels.attention.family import launches
from layoutalg.kernels.attention.program import AttentionConfig
from layoutalg.kernels.checks.attention import _buffers, _expected
from layoutalg.kernels.checks.record import Expected
from layoutalg.kernels.elements import agrees, values_of


@dataclass(frozen=True)
class Case:
    """A problem, a configuration, and the blocks that compute it in turn."""

    p: AttentionProblem
    c: AttentionConfig
    blocks: int = 1
    trial: str = "normal"
    seed: int = 0

    @cached_property
    def sequence(self) -> LaunchSequence:
        """The launch, as it is written."""
        made = launches(self.p, self.c)
        return replace(made, scalars=tuple({**dict(made.scalars), "blocks": self.blocks}.items()))

    def wrong(
        self,
        kernel: Kernel | None = None,
        group: Literal["block", "warp"] = "block",
        words: Mapping[str, int] = MappingProxyType({}),
    ) -> str:
        """The mistake of the results, or the refusal, of the kernel as it is printed, or of another one as
        it is; empty if nothing."""
        given, words = _buffers(self.p, self.trial, self.seed), {**dict(self.sequence.scalars), **words}
        try:
            own = kernel or printed(self.sequence.kernels[0])
            ran = replace(self.sequence, kernels=(own,), scalars=tuple(words.items()))
            simulate_sequence(ran, given, group=group, seed=self.seed, trace=False)
        except LayoutAlgError as error:
            return str(error)
        part: Expected | None = _expected(self.p, self.c, given)
        while part is not None:
            found = values_of(given[part.buffer], part.element)[part.places]
            if not agrees(found, part.values, part.allowed, part.element).all():
                return f"{part.buffer} is not that of the definition"
            part = part.beside
        return ""


def drawn(seed: int) -> Case:
    """A random problem: lengths, groups of heads, windows, alignment, data."""
    rng = random.Random(f"attention {seed}")
    group = rng.choice((1, 1, 2, 3))
    left, right = (rng.choice((None, None, rng.randrange(120))) for _ in "lr")
    p = attention_problem(
        rng.choice((1, 1, 2)), group * rng.choice((1, 2)), rng.randrange(1, 200), rng.randrange(1, 260),
        rng.choice((64, 64, 128)), rng.choice(("bf16", "f16")), group=group, causal=rng.random() < 0.4,
        window=(left, right), align=rng.choice(("bottom-right", "top-left")),
    )  # fmt: skip
    keys = rng.choice((16, 48, 64, 80))
    c = AttentionConfig(rng.choice((2, 3)), keys, rng.choice((2, 3)), over=rng.random() < 0.5)
    return Case(p, c, rng.choice((1, 2, 5)), rng.choice(("normal", "normal", "peaks", "NaN")), seed)
