"""A drawing that is more than a grid: its shapes for SVG, PNG and PDF, and a grid that says the same as text.

>>> from layoutalg.draw.scene import Scene
>>> Diagram(Scene("wires", 10, 10, ()), Picture("wires", ())).title
'wires'
"""

from __future__ import annotations

from dataclasses import dataclass

from layoutalg.draw.picture import Picture
from layoutalg.draw.scene import Scene


@dataclass(frozen=True, slots=True)
class Diagram:
    """`scene` is drawn, `picture` printed; both say the same."""

    scene: Scene
    picture: Picture

    @property
    def title(self) -> str:
        """The title of both."""
        return self.scene.title
