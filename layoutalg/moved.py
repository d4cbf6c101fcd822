"""Names that have moved: each still works where it was, and says where it is now.

Names of a module are found by its `__getattr__`, modules that are imported by their old path by a finder that
Python asks last.

>>> find = moved("layoutalg.analysis", {"occupancy_of": "layoutalg.model"})
>>> find("occupancy_of").__module__
'layoutalg.model.occupancy'
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType, ModuleType
from typing import Any

_ROOMS: Mapping[str, str] = {
    "algebra": "common divide inverse left_search ordered=order partition products=product recast",
    "analysis": "analysis.bank_forms=banks analysis.guard=access analysis.sector_forms=coalescing",
    "analysis.classes": (
        "analysis.footprint analysis.guarded analysis.intervals analysis.residues analysis.straddling"
    ),
    "arch": (
        "arch.sm100=architectures arch.sm70=architectures arch.sm75=architectures "
        "arch.sm80=architectures arch.sm89=architectures arch.sm90=architectures"
    ),
    "atoms": (
        "arch.atom_rows=rows arch.atoms=registry arch.core_matrix atom atom_effect=effect "
        "tensor tiled_copy tiled_mma tiling"
    ),
    "atoms.tables": (
        "arch.atoms_sm61=sm61 arch.atoms_sm70=sm70 arch.atoms_sm75=sm75 arch.atoms_sm80=sm80 "
        "arch.atoms_sm89=sm89 arch.atoms_sm90=sm90 arch.atoms_wgmma=wgmma"
    ),
    "codegen.expr": (
        "codegen.names codegen.facts codegen.nodes codegen.sums=trees codegen.rewrite codegen.rules_bits "
        "codegen.rules_sums codegen.rules_truth=rules_order codegen.simplify=simplifier codegen.ctext "
        "codegen.cost=ctext"
    ),
    "codegen.instr": (
        "codegen.packing=words codegen.instr_sm75=memory codegen.instr_sm80=memory codegen.instr_sm90=memory "
        "codegen.instr_mma=mma codegen.instr_shuffle=shuffle codegen.instr_reduce=reduce "
        "codegen.instr_norm=norm"
    ),
    "codegen.instr.arithmetic": "codegen.instr_float=arith codegen.instr_double=double",
    "codegen.program": (
        "codegen.tile codegen.bounds codegen.check=checks "
        "codegen.contract=launch_contract codegen.converged codegen.waits=dependent_launch "
        "codegen.dependent=dependent_launch codegen.lower=lowering codegen.printed=lowering"
    ),
    "codegen.language": "codegen.builder",
    "codegen.sim": (
        "codegen.hazards codegen.copies codegen.machine codegen.memtrace codegen.closures "
        "codegen.operands codegen.simulate=simulator"
    ),
    "codegen.gpu": (
        "codegen.trusted_folder codegen.nvrtc codegen.cubin_cache codegen.sass "
        "codegen.arguments codegen.driver codegen.prepare=preparation codegen.runtime"
    ),
    "codegen.costs": "kernels.predict=cost",
    "codegen.printing": "codegen.cuda",
    "kernels.move": (
        "kernels.transpose_plan=matrix_plan kernels.permute_modes=problem kernels.permute_plan=plan "
        "kernels.permute_stage=stage kernels.permute_tile=plan kernels.permute_index=partition "
        "kernels.permute_reads=gather kernels.permute_certificate=certificate "
        "kernels.permute_bench=cases kernels.refinement=problem"
    ),
    "kernels.move.programs": (
        "kernels.copy_family=matrix kernels.transpose_family=matrix kernels.permute_family=permute"
    ),
    "kernels.rowwise": (
        "kernels.reduce_modes=problems kernels.reduce_plan "
        "kernels.reduce_walk=walk kernels.reduce_model=reduce_plan kernels.norm_modes=problems "
        "kernels.norm_plan kernels.norm_pieces=walk kernels.norm_vectors=unaligned "
        "kernels.norm_walk=norm_plan kernels.norm_traffic=families kernels.trials "
        "kernels.reduce_bench=families"
    ),
    "kernels.rowwise.programs": (
        "kernels.reduce_family=reduce kernels.norm_family=norm kernels.norm_program=block "
        "kernels.norm_exchange=block_reduce kernels.norm_recipes=recipes"
    ),
    "kernels.gemm": (
        "kernels.gemm_bench=family kernels.gemm_epilogue=epilogue kernels.gemm_launches=launches "
        "kernels.gemm_order=rasterize kernels.gemm_result=epilogue "
        "kernels.gemm_simt_configs=tiles kernels.gemm_simt_plan=tiles "
        "kernels.gemm_simt_rules=validate kernels.gemm_sm80_configs=tiles "
        "kernels.gemm_sm80_plan=tiles kernels.gemm_sm80_rules=validate kernels.gemm_verify=family"
    ),
    "kernels.gemm.choice": "kernels.gemm_choice=heuristic kernels.gemm_nearest=suggest",
    "kernels.gemm.programs": (
        "kernels.gemm_simt=simt kernels.gemm_simt_side=mainloop kernels.gemm_sm80=sm80 "
        "kernels.gemm_sm80_side=mainloop"
    ),
    "kernels.gemm.work": "kernels.gemm_parts=splitk kernels.gemm_split=splitk",
    "kernels.ladder": ("kernels.gemm_ladder=gemm"),
    "kernels.calls": "kernels.api kernels.arrays kernels.reduce_api",
    "kernels": (
        "kernels.kept_chains=plan_cache kernels.families=registry kernels.chains=registry "
        "kernels.chain_verify=verification kernels.limits=baselines kernels.rounding=elements"
    ),
    "compose": "composed coordinates digits symbolic_algebra=symbolic",
    "decide": "describe distinct extent image injective=solving lattice=equation solving",
    "explanation": "derivation=steps explanations",
    "f2": "linear linear_parts=linear realize",
    "layout": (
        "int_tuple measure regroup=tree scaled_basis=basis shapes slicing swizzle "
        "symbolic_measure=measure symbols"
    ),
    "legality": (
        "analysis.canonical analysis.legality=rules analysis.legality_tma=tma "
        "analysis.legality_wgmma=wgmma analysis.tma_rules analysis.wgmma_instruction "
        "analysis.wgmma_rules"
    ),
    "model": "analysis.async_copies analysis.l2_order analysis.occupancy analysis.roofline",
    "notation": "index_text",
    "registers": (
        "analysis.fragments analysis.reductions synthesis.conversion "
        "synthesis.conversion_map=place_map synthesis.conversion_packing=packing "
        "synthesis.conversion_shared=exchange synthesis.conversion_shuffles=shuffles "
        "synthesis.conversion_steps=steps"
    ),
    "symbolic": (
        "analysis.generic_values analysis.solutions analysis.symbolic=solve "
        "analysis.symbolic_layout=layout analysis.symbolic_question=question"
    ),
    "synthesis.proof": "synthesis.checker synthesis.evidence synthesis.refutation",
    "testing": "access_checks hostcc indexcode minimal strategies",
}
"""Rooms with the modules of 0.1.0 that they have taken in, as OLD or OLD=NEW."""

MODULES: Mapping[str, str] = MappingProxyType(
    {
        f"layoutalg.{old}": f"layoutalg.{room}.{new or old.rpartition('.')[2]}"
        for room, moves in _ROOMS.items()
        for old, _, new in (move.partition("=") for move in moves.split())
    }
)
"""Modules of 0.1.0 by their paths, and where each is now."""


def moved(module: str, places: Mapping[str, str], frames: int = 1) -> Callable[[str], Any]:
    """The `__getattr__` of a module whose names are in other modules now: found there, with a warning.

    Its modules that have moved are found as well.  The warning is about the line that asks, so many `frames`
    above: Python shows it where that line is the user's own.  Raises AttributeError for other names.

    >>> moved("layoutalg", {})("nowhere")
    Traceback (most recent call last):
    ...
    AttributeError: module 'layoutalg' has no attribute 'nowhere'
    """

    def find(name: str) -> Any:
        whole = MODULES.get(f"{module}.{name}")
        place = whole or places.get(name)
        if place is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        _warn(f"{module}.{name}", whole or f"{place}.{name}", 2 + frames)
        found = importlib.import_module(place)
        return found if whole else getattr(found, name)

    return find


def _warn(name: str, now: str, stacklevel: int) -> None:
    import warnings

    warnings.warn(f"{name} is now {now}", DeprecationWarning, stacklevel=stacklevel)


class MovedModules:
    """Finds the modules of MODULES, for `from layoutalg.index_text import parse_index`."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        """What Python asks of a finder: None for every other name."""
        if name not in MODULES:
            return None
        from importlib.machinery import ModuleSpec

        return ModuleSpec(name, self)  # type: ignore[arg-type]  # a Loader by its two methods

    def create_module(self, spec: object) -> None:
        """Python makes the module."""

    def exec_module(self, module: ModuleType) -> None:
        """Let every name of the module be that of the module that stands for it."""
        place = MODULES[module.__name__]
        _warn(module.__name__, place, 3)
        vars(module)["__getattr__"] = partial(getattr, importlib.import_module(place))


if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
    sys.meta_path.append(MovedModules())
