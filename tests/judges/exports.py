"""The operations of the algebra: those of the root, and those of its rooms that users call, too."""

from __future__ import annotations

import inspect
from importlib import import_module
from types import SimpleNamespace

import layoutalg

IN_ROOMS = {
    "algebra": "dice domain_offset flat_product make_fragment_like max_alignment max_common_layout "
    "nullspace tiled_product",
    "compose": "Tiler",
    "decide": "Aliasing Footprint aliasing cycles extremes find_coordinate find_difference find_offset_bit "
    "find_overlap gaps is_contiguous is_surjective order overlap",
    "layout": "ArithTuple ScaledBasis append ceil_div coalesce_x compatible congruent crd2crd depth filter "
    "filter_zeros make_basis_like modes prepend product replace shape_div sort swizzle_inverse unflatten "
    "weakly_congruent with_assumptions",
    "notation": "parse_int_tuple parse_tiler",
    "atoms": "copy_tensor",
}
"""Names of rooms that are no names of the root."""

PUBLIC = SimpleNamespace(
    **{name: getattr(layoutalg, name) for name in layoutalg.__all__},
    **{
        name: getattr(import_module(f"layoutalg.{room}"), name)
        for room, names in IN_ROOMS.items()
        for name in names.split()
    },
)
"""All of them by their names."""

OTHER_PARTS = tuple(
    f"layoutalg.{part}"
    for part in ("analysis", "arch", "atom", "codegen", "dtype", "kernels", "synthesis", "til")
)
"""Where exports come from that are no part of the algebra: hardware, kernels, tilings of atoms."""

RESULTS = {"Aliasing", "Footprint"}


def algebra() -> list[str]:
    """Names of all exported functions and types of values; errors, aliases and types of results aside."""
    out: list[str] = []
    for name, value in sorted(vars(PUBLIC).items()):
        error = inspect.isclass(value) and issubclass(value, Exception)
        if callable(value) and not error and not value.__module__.startswith(OTHER_PARTS):
            out.append(name)
    return [name for name in out if name not in RESULTS]
