"""The search for a shared memory layout: `synthesize` finds one without conflicts, with a certificate.

    synthesizer   synthesize: the order in which forms are tried, and the result
    patterns      the accesses as subspaces over F2 of the tile's words; constraints as accesses
    search        XOR swizzles, as subspaces over F2
    singles       one CuTe swizzle, or several, by exact exclusion
    padding       padded rows
    alternatives  other layouts, ranked by cost
    tma           layouts that TMA can write
    result        Synthesis, Certificate, Alternative: the claim
    words         a synthesis and its certificate in words
    tiles/        synthesize_tile: multi-stage buffers, parts of wider buffers, any head dim; the ranking
    proof/        check_certificate: proves the claim again; it shares no data with the search

>>> found = synthesize((64, 64), ["ldmatrix.x4"], element="f16")
>>> print(found.layout)
Sw<3,3,3> o 0 o (64,64):(64,1)
>>> check_certificate(found)
'Sw<3,3,3> o 0 o (64,64):(64,1) is conflict-free for 1 access: K & F = 0 in F2^11, dim K = 6, dim F = 5'
"""

from __future__ import annotations

from layoutalg.synthesis.proof.checker import check_certificate
from layoutalg.synthesis.proof.forms import refusal
from layoutalg.synthesis.result import Certificate, Form, Synthesis
from layoutalg.synthesis.synthesizer import synthesize
from layoutalg.synthesis.tiles import (
    Choice,
    Offer,
    Piece,
    TileSynthesis,
    choices_of,
    covers_of,
    ranked_choices,
    read_tile,
    synthesize_tile,
)
from layoutalg.synthesis.words import certificate_words

__all__ = [
    "Certificate", "Choice", "Form", "Offer", "Piece", "Synthesis", "TileSynthesis", "certificate_words",
    "check_certificate", "choices_of", "covers_of", "ranked_choices", "read_tile", "refusal", "synthesize",
    "synthesize_tile",
]  # fmt: skip
