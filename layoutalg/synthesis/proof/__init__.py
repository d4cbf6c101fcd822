"""The proof of a synthesis, repeated from its question alone: nothing of the search is imported here.

Of synthesis only `result` is read: the records of question, answer and claim, and what the words of a claim
mean.  Lists of layouts, footprints, bank maps and instructions are made again.

    checker        every part of a synthesis, and why a layout is conflict-free
    refutation     that none of some classes of layouts is
    evidence       instructions and phases of accesses, kernels of bank maps
    forms          single swizzles and paddings, listed; what a claim is about, in words
    tensor_maps    what tensor-map copies write, element by element
"""

from layoutalg.synthesis.proof.checker import check_certificate
from layoutalg.synthesis.proof.forms import ruled_out

__all__ = ["check_certificate", "ruled_out"]
