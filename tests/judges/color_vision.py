"""How far two colours are apart, and how they look to readers who see colours differently.

    ciede2000(lab, lab)        Sharma, Wu and Dalal, "The CIEDE2000 Color-Difference Formula", 2005
    seen(colors, "deutan")     Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation
                               of Color Vision Deficiency", 2009, table of severity 1.0

Colours are arrays of sRGB, 0 to 255, in their last axis.  The paper's matrices are meant for linear light;
many programs apply them to the stored values, so that both readings are offered.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]

DEFICIENCIES: dict[str, Floats] = {
    "normal": np.eye(3),
    "protan": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deutan": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritan": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
"""What linear light becomes: rows are red, green and blue as they are seen."""

_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
"""From linear sRGB, white D65 (IEC 61966-2-1)."""


def linear(colors: Floats) -> Floats:
    """The light of stored values, 0 to 1."""
    share = np.asarray(colors, float) / 255
    return np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)


def luminance(colors: Floats) -> Floats:
    """WCAG's relative luminance."""
    return np.asarray(linear(colors) @ _XYZ[1])


def contrast(one: Floats, other: Floats) -> Floats:
    """WCAG's contrast ratio, 1 to 21."""
    a, b = luminance(one) + 0.05, luminance(other) + 0.05
    return np.maximum(a, b) / np.minimum(a, b)


def lab(light: Floats) -> Floats:
    """CIELAB of linear light."""
    xyz = np.clip(light, 0, 1) @ _XYZ.T / _XYZ.sum(axis=1)
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    x, y, z = np.moveaxis(f, -1, 0)
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=-1)


def seen(colors: Floats, deficiency: str, *, stored: bool = False) -> Floats:
    """CIELAB of colours as they are seen; `stored` applies the matrix to the stored values."""
    matrix = DEFICIENCIES[deficiency]
    if stored:
        return lab(linear(np.clip(np.asarray(colors, float) @ matrix.T, 0, 255)))
    return lab(linear(colors) @ matrix.T)


def ciede2000(one: Floats, other: Floats) -> Floats:
    """The difference of two colours in CIELAB; about 1 is just to be seen."""
    (l1, a1, b1), (l2, a2, b2) = np.moveaxis(one, -1, 0), np.moveaxis(other, -1, 0)
    chroma = (np.hypot(a1, b1) + np.hypot(a2, b2)) / 2
    stretch = 1.5 - 0.5 * np.sqrt(chroma**7 / (chroma**7 + 25.0**7))
    a1, a2 = a1 * stretch, a2 * stretch
    c1, c2 = np.hypot(a1, b1), np.hypot(a2, b2)
    h1, h2 = np.degrees(np.arctan2(b1, a1)) % 360, np.degrees(np.arctan2(b2, a2)) % 360
    turn = np.where(c1 * c2 == 0, 0, (h2 - h1 + 180) % 360 - 180)
    dl, dc, dh = l2 - l1, c2 - c1, 2 * np.sqrt(c1 * c2) * np.sin(np.radians(turn) / 2)
    ml, mc = (l1 + l2) / 2, (c1 + c2) / 2
    apart = np.where(np.abs(h1 - h2) <= 180, 0, np.where(h1 + h2 < 360, 180, -180))
    mh = np.where(c1 * c2 == 0, h1 + h2, (h1 + h2) / 2 + apart)
    waves = ((-0.17, 1, -30), (0.24, 2, 0), (0.32, 3, 6), (-0.20, 4, -63))
    t = 1 + sum(weight * np.cos(np.radians(n * mh + phase)) for weight, n, phase in waves)
    sl = 1 + 0.015 * (ml - 50) ** 2 / np.sqrt(20 + (ml - 50) ** 2)
    sc, sh = 1 + 0.045 * mc, 1 + 0.015 * mc * t
    turned = np.sin(np.radians(60 * np.exp(-(((mh - 275) / 25) ** 2))))
    rt = -2 * np.sqrt(mc**7 / (mc**7 + 25.0**7)) * turned
    return np.asarray(np.sqrt((dl / sl) ** 2 + (dc / sc) ** 2 + (dh / sh) ** 2 + rt * (dc / sc) * (dh / sh)))
