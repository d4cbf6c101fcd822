"""The commands of `layoutalg`, one per file: code in index_code, l2 in l2_order, profile in
profile_kernel, others by name.

    analyze     what accesses cost on a layout, an index expression or explicit offsets
    solve       the strides, offsets or bases at which accesses have no conflicts or few sectors
    synthesize  a layout without conflicts, or which have none, proved
    explain     how a result comes about, step by step
    legal       whether the hardware accepts a request
    index_code  code: the index function of a layout, in C, CUDA, CuTe C++, CuTe DSL, Triton or Python
    identify    the layout that a function, an expression or an array of offsets is
    convert     a layout in one notation, printed in another
    check       whether a function of a user's own is a layout
    ci          a file of checks, with the outcomes in the form that a CI reads
    kernel      the accesses of a CUDA source, with wavefronts and sectors by line
    generate    the CUDA text of a kernel
    verify      run a kernel and compare it with its definition
    bench       kernels timed beside the libraries, and what was predicted
    tune        candidates timed, kept in a store, and locked in a file
    chart       rates of a bench over size, as a picture
    sass        what the machine code of a kernel is made of
    occupancy   how many blocks a multiprocessor holds at once
    roofline    the bounds of a tiled product at each level of memory
    l2_order    panels from DRAM by the order of blocks
    registers   reductions over tiles in registers, and their conversions
    pipeline    what stages and registers of a main loop hold, step by step
    profile_kernel  a report of Nsight Compute, explained by line
    draw        a layout, an access, an atom or a composition as a picture
    glossary    what the words of reports and certificates mean
    cache       the compiled kernels on disk
    doctor      what is installed, what works without it, and how to get the rest
    demo        the whole way from a layout to a proved kernel, in one guided run

`layoutalg.cli.app` imports each of them; nothing else does.
"""

from __future__ import annotations
