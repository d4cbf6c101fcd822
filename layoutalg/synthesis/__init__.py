"""Layouts found for accesses: a swizzle without bank conflicts, or a proof of which have none.

>>> found = synthesize((64, 64), ["ldmatrix.x4"], element="f16")
>>> print(found.layout)
Sw<3,3,3> o 0 o (64,64):(64,1)
>>> check_certificate(found)
'Sw<3,3,3> o 0 o (64,64):(64,1) is conflict-free for 1 access: K & F = 0 in F2^11, dim K = 6, dim F = 5'
"""

from layoutalg.synthesis.conversion import Conversion, Plan, convert_layout
from layoutalg.synthesis.conversion_steps import Cost, converted
from layoutalg.synthesis.proof.checker import check_certificate
from layoutalg.synthesis.result import Alternative, Certificate, Synthesis
from layoutalg.synthesis.synthesizer import synthesize

__all__ = [
    "Alternative",
    "Certificate",
    "Conversion",
    "Cost",
    "Plan",
    "Synthesis",
    "check_certificate",
    "convert_layout",
    "converted",
    "synthesize",
]
