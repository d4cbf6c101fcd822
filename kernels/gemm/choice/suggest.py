"""Refusals of products that say what would work: the rule that is broken, and the nearest configuration.

    tile_n = 80 is not a multiple of 64, fragments of its warps; the nearest is 64; with tile_n=64 it works

Rules are checked one after the other, so that what mends the first may break the next; the configuration
that is named fulfils all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from layoutalg.arch import Arch, find_arch
from layoutalg.errors import LayoutAlgError
from layoutalg.kernels.gemm.choice.heuristic import choice_of
from layoutalg.kernels.gemm.problem import GemmProblem
from layoutalg.kernels.gemm.tiles import Config
from layoutalg.kernels.gemm.validate import check_config
from layoutalg.kernels.identity import difference, distance, nearest


def suggest_config(p: GemmProblem, c: Config, arch: str | Arch = "sm_90") -> Config | None:
    """The nearest configuration to a refused one that works; None where the family has none for the problem.

    The search is around c, and around c with the vectors that the problem allows.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> from layoutalg.kernels.gemm.tiles import Sm80Config
    >>> p, c = gemm_problem(256, 256, 256), Sm80Config(128, 256, 64, 2, 4, 8)
    >>> difference(c, suggest_config(p, c))
    {'stages': 4}
    """
    choice = choice_of(c)
    chip = find_arch(arch)

    def works(x: Any) -> bool:
        try:
            check_config(p, x, chip)
        except LayoutAlgError:
            return False
        return True

    try:
        offered = choice.configs(p, chip)
    except LayoutAlgError:
        return None
    given: dict[str, Any] = {x: getattr(offered[0], x) for x in choice.fields}
    fitted: Any = replace(c, **given, **choice.whole)
    near = [nearest(c, offered, works), fitted if works(fitted) else nearest(fitted, offered, works)]
    return min((x for x in near if x is not None), key=lambda x: distance(c, x), default=None)


def check_or_suggest(p: GemmProblem, c: Config, arch: str | Arch = "sm_90") -> None:
    """Raise what `check_config` raises, the nearest configuration that works named.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> from layoutalg.kernels.gemm.tiles import Sm80Config
    >>> check_or_suggest(gemm_problem(256, 256, 256), Sm80Config(128, 256, 64, 2, 4, 8))
    Traceback (most recent call last):
    layoutalg.errors.ResourceError: shared memory bytes of 128x256x64, 8 stages: 393216 asked, the limit is
    232448; 4 stages fit; with stages=4 it works
    """
    try:
        check_config(p, c, arch)
    except LayoutAlgError as error:
        found = suggest_config(p, c, arch)
        if found is None:
            hint = f"no configuration of its family works for {p} on {find_arch(arch).name}"
        else:
            hint = f"with {', '.join(f'{k}={v!r}' for k, v in difference(c, found).items())} it works"
        error.message = f"{error}; {hint}"
        error.args = (error.message,)
        raise
