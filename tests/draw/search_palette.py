"""Searches eight colours that all readers tell apart: python -m tests.draw.search_palette [SEED ...]

Simulated annealing over 8 colours of sRGB.  What is made large is the smallest CIEDE2000 of two colours of
different runs, over their lightest and darkest shades, normal sight and three deficiencies in both readings;
what takes off is a grey step below 4, little contrast to black text, a glaring colour, one near white.
Printed are the smallest difference, the grey step and the colours, from dark to light.  The cells have
the set of seed 30, the lines of charts that of seed 3 with --lines, chosen by eye from a few.
With --lines, for the lines of charts: dark enough for a contrast of 3 to white, and no shades.
"""

from __future__ import annotations

import sys

import numpy as np

from tests.judges.color_vision import DEFICIENCIES, Floats, ciede2000, contrast, lab, linear, seen

STEPS, LIGHTEST_SHADE = 12_000, 0.20
WHITE, TEXT = np.full(3, 255.0), np.full(3, 17.0)


def views(colors: Floats) -> Floats:
    """The colours in CIELAB, once per way of seeing them."""
    return np.array([seen(colors, name, stored=stored) for name in DEFICIENCIES for stored in (False, True)])


def worth(colors: Floats, *, lines: bool) -> tuple[float, float, float]:
    """What is made large, then the smallest difference and the smallest step of grey."""
    shades = colors if lines else np.vstack([colors, np.floor(colors + (255 - colors) * LIGHTEST_SHADE)])
    one, other = np.triu_indices(len(shades), 1)
    apart = one % 8 != other % 8
    drawn = views(shades)
    least = float(ciede2000(drawn[:, one[apart]], drawn[:, other[apart]]).min())
    light, a, b = lab(linear(colors)).T
    step = float(np.diff(np.sort(light)).min())
    if lines:
        lacking = 20 * max(0.0, 3.05 - contrast(colors, WHITE).min()) + 0.4 * max(0.0, 12 - light.min())
        return least - lacking, least, step
    one, other = np.triu_indices(8, 1)
    worth_of_eight = least + 0.3 * float(ciede2000(drawn[:, one], drawn[:, other]).min())
    lacking = 3 * max(0.0, 4.2 - step) + 3 * max(0.0, 6 - contrast(shades, TEXT).min())
    glaring = 0.3 * max(0.0, np.hypot(a, b).max() - 52) + 2 * max(0.0, light.max() - 95)
    return worth_of_eight - lacking - glaring, least, step


def search(seed: int, *, lines: bool) -> tuple[float, float, Floats]:
    """The best set of one run."""
    random = np.random.default_rng(seed)
    colors = random.integers(0 if lines else 110, 200 if lines else 256, (8, 3)).astype(float)
    value = best = worth(colors, lines=lines)
    found = colors
    for n in range(STEPS):
        heat = (1 - n / STEPS) ** 2 + 1e-3
        moved = colors.copy()
        which = random.integers(8)
        moved[which] = np.clip(np.round(moved[which] + random.normal(0, 4 + 40 * (1 - n / STEPS), 3)), 0, 255)
        new = worth(moved, lines=lines)
        if new[0] > value[0] or random.random() < np.exp((new[0] - value[0]) / heat):
            colors, value = moved, new
            if value[0] > best[0]:
                best, found = value, moved
    return best[1], best[2], found[np.argsort(lab(linear(found))[:, 0])]


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--lines"]
    for chosen in map(int, words or ["0"]):
        least, step, colors = search(chosen, lines="--lines" in sys.argv)
        print(
            f"{chosen}: {least:.2f} {step:.2f}", *("{:02x}{:02x}{:02x}".format(*map(int, c)) for c in colors)
        )
