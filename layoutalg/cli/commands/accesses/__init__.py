"""Commands that count what accesses cost: on a layout, in a CUDA source, or in a profiler's report.

analyze     what accesses cost on a layout, an index expression or explicit offsets
report      layouts and what accesses cost on them, as one page for a browser
options     which accesses are counted, and how
explicit    accesses given lane by lane: counted, and as layouts
kernel      the accesses of a CUDA source, with wavefronts and sectors by line
profile_kernel  profile: a report of Nsight Compute, explained by line
"""
