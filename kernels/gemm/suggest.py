"""Refusals of products that say what would work: the rule that is broken, and the nearest configuration.

    tile_n = 80 is no multiple of 64, fragments of its warps; the nearest is 64; with tile_n=64 it works

Rules are checked one after the other, so that what mends the first may break the next; the configuration
that is named fulfils all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeAlias

from layoutalg.arch import Arch, find_arch
from layoutalg.errors import LayoutAlgError
from layoutalg.kernels.config_fields import difference, distance, nearest
from layoutalg.kernels.gemm import (
    simt_configs as gemm_simt_configs,
)
from layoutalg.kernels.gemm import (
    simt_rules as gemm_simt_rules,
)
from layoutalg.kernels.gemm import (
    sm80_configs as gemm_sm80_configs,
)
from layoutalg.kernels.gemm import (
    sm80_rules as gemm_sm80_rules,
)
from layoutalg.kernels.gemm.problem import GemmProblem
from layoutalg.kernels.gemm.simt_plan import SimtConfig
from layoutalg.kernels.gemm.sm80_plan import Sm80Config

Config: TypeAlias = SimtConfig | Sm80Config


@dataclass(frozen=True, slots=True)
class _Family:
    """What refuses, what is offered, and the fields that depend on the problem alone."""

    check: Callable[..., None]
    configs: Callable[..., Sequence[Any]]
    fitted: tuple[str, ...]


_FAMILIES: Mapping[type, _Family] = MappingProxyType(
    {
        Sm80Config: _Family(
            gemm_sm80_rules.check_config, gemm_sm80_configs.configs, ("a_bytes", "b_bytes", "result_vec")
        ),
        SimtConfig: _Family(
            gemm_simt_rules.check_config, gemm_simt_configs.configs, ("a_vector", "b_vector", "result_vec")
        ),
    }
)


def nearest_config(p: GemmProblem, c: Config, arch: str | Arch = "sm_90") -> Config | None:
    """The nearest configuration to a refused one that works; None where the family has none for the problem.

    It is looked for around c, and around c with the vectors that the problem allows.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> p, c = gemm_problem(256, 256, 256), Sm80Config(128, 256, 64, 2, 4, 8)
    >>> difference(c, nearest_config(p, c))
    {'stages': 4}
    """
    family, chip = _FAMILIES[type(c)], find_arch(arch)

    def works(x: Config) -> bool:
        try:
            family.check(p, x, chip)
        except LayoutAlgError:
            return False
        return True

    try:
        offered = family.configs(p, chip)
    except LayoutAlgError:
        return None
    fitted = replace(c, **{x: getattr(offered[0], x) for x in family.fitted}, edges=True)
    near = [nearest(c, offered, works), fitted if works(fitted) else nearest(fitted, offered, works)]
    return min((x for x in near if x is not None), key=lambda x: distance(c, x), default=None)


def checked(p: GemmProblem, c: Config, arch: str | Arch = "sm_90") -> None:
    """Raise what `check_config` of its family raises, the nearest configuration that works named.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> checked(gemm_problem(256, 256, 256), Sm80Config(128, 256, 64, 2, 4, 8))
    Traceback (most recent call last):
    layoutalg.errors.ResourceError: shared memory bytes of 128x256x64, 8 stages: 393216 asked, the limit is
    232448; 4 stages fit; with stages=4 it works
    """
    try:
        _FAMILIES[type(c)].check(p, c, arch)
    except LayoutAlgError as error:
        found = nearest_config(p, c, arch)
        if found is None:
            told = f"no configuration of its family works for {p} on {find_arch(arch).name}"
        else:
            told = f"with {', '.join(f'{k}={v!r}' for k, v in difference(c, found).items())} it works"
        error.message = f"{error}; {told}"
        error.args = (error.message,)
        raise
