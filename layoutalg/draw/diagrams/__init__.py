"""Drawings of how a layout works: its bits and wires, a pointer's walk, its composition.

diagram   Diagram: shapes for files, and a grid that says the same as text
bits      bits_diagram: the bits of an index by field, with the XOR wires of a swizzle
walk      walk_picture, pointer_walk: S(a + b) = S(a) ^ S(b), step by step
indices   index_picture: all indices of a tile in 2-D, linear and binary form
plan      plan_picture, chunk_picture: which thread copies which vector, and a tile by 16 bytes
graph     graph_diagram, as_dot, render: the composition as a graph
"""

from __future__ import annotations

from layoutalg.draw.diagrams.bits import bits_diagram
from layoutalg.draw.diagrams.diagram import Diagram
from layoutalg.draw.diagrams.graph import as_dot, graph_diagram, render
from layoutalg.draw.diagrams.indices import index_picture
from layoutalg.draw.diagrams.plan import chunk_picture, plan_picture
from layoutalg.draw.diagrams.walk import WalkStep, pointer_walk, walk_picture

__all__ = [
    "Diagram",
    "WalkStep",
    "as_dot",
    "bits_diagram",
    "chunk_picture",
    "graph_diagram",
    "index_picture",
    "plan_picture",
    "pointer_walk",
    "render",
    "walk_picture",
]
