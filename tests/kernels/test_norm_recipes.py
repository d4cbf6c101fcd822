"""The steps of each norm: constants as words, and that every step a norm needs is there."""

from __future__ import annotations

import numpy as np

from layoutalg.kernels.rowwise.norm_modes import OPS
from layoutalg.kernels.rowwise.norm_recipes import RECIPES, float_word


def test_words_are_the_nearest_floats() -> None:
    for x in (0.0, 1.0, 1 / 3, 1e-5, 1e-45, -2.5, 1 / 16777216):
        assert np.array(float_word(x), np.uint32).view(np.float32) == np.float32(x)


def test_every_norm_has_its_steps() -> None:
    assert set(RECIPES) == set(OPS)
    for recipe in RECIPES.values():
        assert len(set(recipe.told)) == len(recipe.told) >= 2
