"""The steps of each norm: constants as words, and that every step a norm needs is there."""

from __future__ import annotations

import numpy as np

from layoutalg.kernels.rowwise import OPS
from layoutalg.kernels.rowwise.programs.block import ONE_WORD, float_word
from layoutalg.kernels.rowwise.programs.recipes import NORMS


def test_words_are_the_nearest_floats() -> None:
    for x in (0.0, 1.0, 1 / 3, 1e-5, 1e-45, -2.5, 1 / 16777216):
        assert np.array(float_word(x), np.uint32).view(np.float32) == np.float32(x)


def test_every_norm_has_its_steps() -> None:
    assert set(NORMS) == set(OPS)
    for norm in NORMS.values():
        saved, read = norm.partials.keys(), norm.partials.values()
        assert len(set(read)) == len(saved) and not saved & set(read)
        assert [name in ONE_WORD for name in saved] == [name in ONE_WORD for name in read]
