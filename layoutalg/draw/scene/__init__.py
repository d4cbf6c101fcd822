"""Drawings as shapes on a page, and the three files they become.

shapes    Scene, Box, Words, Line, Dot: what is drawn, in units of a pixel; clean
markup    scene_svg: one standalone SVG, all text escaped
raster    scene_image: PNG and PDF, by matplotlib
"""

from __future__ import annotations

from layoutalg.draw.scene.markup import scene_svg
from layoutalg.draw.scene.raster import IMAGE_FORMATS, MAX_SIDE, scene_image
from layoutalg.draw.scene.shapes import LETTER, Box, Dot, Line, Scene, Shape, Words, clean, text_width

__all__ = [
    "IMAGE_FORMATS",
    "LETTER",
    "MAX_SIDE",
    "Box",
    "Dot",
    "Line",
    "Scene",
    "Shape",
    "Words",
    "clean",
    "scene_image",
    "scene_svg",
    "text_width",
]
