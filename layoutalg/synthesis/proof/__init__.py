"""The proof of a synthesis, repeated from the problem alone: nothing of the search is imported here.

Of the package synthesis only `result` is imported: the records of problem, result and claim, and the meaning
of a claim.  Candidate layouts, footprints, bank maps and instructions are computed again.

    checker        every part of a synthesis, and why a layout is conflict-free
    refutation     that no layout of some classes is
    evidence       instructions and phases of accesses, kernels of bank maps
    forms          single swizzles and paddings, listed; what a claim is about, in words
    tensor_maps    what tensor-map copies write, element by element
"""

from layoutalg.synthesis.proof.checker import check_certificate
from layoutalg.synthesis.proof.forms import ruled_out

__all__ = ["check_certificate", "ruled_out"]
