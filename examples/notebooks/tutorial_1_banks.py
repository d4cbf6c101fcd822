# %% [markdown]
# # 1. Banks
#
# Shared memory has 32 banks of 4 bytes. A pass over them, a *wavefront*, serves one word of each.
# Lanes that access different words of one bank are served one after another. This notebook counts
# wavefronts, by hand and with the library.

# %%
import layoutalg as la


def wavefronts(byte_addresses):
    """The definition, for loads of 4 bytes."""
    words = {address // 4 for address in byte_addresses}
    banks = [word % 32 for word in words]
    return max(banks.count(bank) for bank in banks)


[wavefronts([step * lane for lane in range(32)]) for step in (0, 4, 8, 64, 128, 132)]

# %% [markdown]
# The library's function also handles wider accesses, which are served in phases:

# %%
column = [128 * lane for lane in range(32)]
assert la.analysis.wavefronts("ld.shared.b32", column) == wavefronts(column) == 32
assert la.analysis.wavefronts("ld.shared.b128", [16 * lane for lane in range(32)]) == 4

# %% [markdown]
# The lanes of each wavefront, as a picture. A row is a wavefront, a column a bank, and a number a lane:

# %%
from layoutalg.draw import access_picture

access_picture("ld.shared.b32", [128 * lane for lane in range(4)] + [None] * 28)

# %% [markdown]
# The cost of an access to a whole tile, given by its layout, is a report:

# %%
tile = la.Layout((32, 32), (32, 1))
la.analyze(tile, "ld.shared.b32@col", "f32")

# %% [markdown]
# **Exercise.** Which rows are free of conflicts under a column read: 33, 34, 36, 40 floats? Guess,
# then run:

# %%
{
    length: la.analyze(la.Layout((32, 32), (length, 1)), "ld.shared.b32@col", "f32").ways
    for length in (32, 33, 34, 36, 40)
}
