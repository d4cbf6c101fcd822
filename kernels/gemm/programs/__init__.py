"""The kernels of a product as programs: one per way of multiplying, and what they have in common.

mainloop    operands by partitions, and the loop over tiles of k
simt        products without tensor cores
sm80        with mma.sync
sm90        with wgmma, fed by TMA
"""
