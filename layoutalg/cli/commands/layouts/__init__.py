"""Commands about a layout itself: one that is found, explained, converted, drawn or judged.

solve       the strides, offsets or bases at which accesses have no conflicts or few sectors
synthesize  a layout without conflicts, or which have none, proved
evaluate    eval: the value of an expression of CuTe
shared_tiles  synthesize --for: the tiles that TMA writes and wgmma reads
explain     how a result comes about, step by step
index_code  code: the index function of a layout, in C, CUDA, CuTe C++, CuTe DSL, Triton or Python
identify    the layout that a function, an expression or an array of offsets is
convert     a layout in one notation, printed in another
draw        a layout, an access, an atom or a composition as a picture
check       whether a function of a user's own is a layout
legal       whether the hardware accepts a request
ci          a file of checks, with the outcomes in the form that a CI reads
"""
