"""Instructions that move or multiply, and their tilings over threads: CuTe's atoms, TiledCopy, TiledMMA.

atom         CopyAtom, MMAAtom: the thread-value layouts of one instruction
effect       what an atom does to values, computed on the CPU: the definition that tests compare with
registry     COPY_ATOMS, MMA_ATOMS, find_copy_atom, find_mma_atom
tables       the atoms and rows of the registry by architecture; ADD AN MMA OR COPY ATOM THERE
wgmma        the rows of wgmma.mma_async
rows         how a row of a table becomes an atom
core_matrix  the 8 x 16 byte matrix from which every fragment is built
tensor       Tensor: values with a layout; copy_tensor
tensor_memory  tcgen05 of sm_100: UmmaRow, its products; tmem_layout: where their operands lie;
             loads and stores, and tmem_load_tv: what threads hold after them
tiling       what TiledCopy and TiledMMA share
tiled_copy   TiledCopy, make_tiled_copy and its relatives
tiled_mma    TiledMMA, make_tiled_mma
"""

from __future__ import annotations

from layoutalg.atoms.atom import CopyAtom, MMAAtom, Operand
from layoutalg.atoms.core_matrix import mode_of
from layoutalg.atoms.effect import collect, hold, places, run_copy, run_mma
from layoutalg.atoms.registry import COPY_ATOMS, MMA_ATOMS, find_copy_atom, find_mma_atom, require_atom
from layoutalg.atoms.tensor import Tensor, copy_tensor
from layoutalg.atoms.tensor_memory import (
    MOST_REGISTERS,
    TMEM_SHAPES,
    tmem_layout,
    tmem_load_tv,
)
from layoutalg.atoms.tiled_copy import (
    TiledCopy,
    make_tiled_copy,
    make_tiled_copy_A,
    make_tiled_copy_B,
    make_tiled_copy_C,
    make_tiled_copy_C_atom,
    make_tiled_copy_D,
    make_tiled_copy_S,
    tile_copy,
)
from layoutalg.atoms.tiled_mma import TiledMMA, make_tiled_mma

__all__ = [
    "COPY_ATOMS", "MMA_ATOMS", "MOST_REGISTERS", "TMEM_SHAPES", "CopyAtom", "MMAAtom", "Operand", "Tensor",
    "TiledCopy", "TiledMMA", "collect", "copy_tensor", "find_copy_atom", "find_mma_atom", "hold",
    "make_tiled_copy", "make_tiled_copy_A", "make_tiled_copy_B", "make_tiled_copy_C",
    "make_tiled_copy_C_atom", "make_tiled_copy_D", "make_tiled_copy_S", "make_tiled_mma", "mode_of", "places",
    "require_atom", "run_copy", "run_mma", "tile_copy", "tmem_layout", "tmem_load_tv",
]  # fmt: skip
