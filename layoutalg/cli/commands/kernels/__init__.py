"""Commands about a kernel: its text, its proof, its machine code, and what it holds of the machine.

options     which kernel is meant
generate    the CUDA text of a kernel
verify      run a kernel and compare it with its definition
sweeps      random problems and configurations, each verified once
sass        what the machine code of a kernel is made of
occupancy   how many blocks a multiprocessor holds at once
pipeline    what stages and registers of a main loop hold, step by step
registers   reductions over tiles in registers, and their conversions
l2_order    l2: panels from DRAM by the order of blocks
"""
