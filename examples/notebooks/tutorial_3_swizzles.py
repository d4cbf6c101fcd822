# %% [markdown]
# # 3. Swizzles
#
# A swizzle `Sw<B,M,S>` takes B bits of an offset, those from M + S on, and XORs them onto the B bits
# from M on. The vectors of each row of a tile are permuted, and no memory is lost.

# %%
import layoutalg as la

swizzle = la.Swizzle(3, 3, 3)
assert swizzle(200) == 200 ^ (200 >> 6 & 7) << 3
assert all(swizzle(swizzle(x)) == x for x in range(4096))
la.Swizzle(2, 0, 2)

# %% [markdown]
# `ldmatrix` reads 8 rows of 16 bytes. With a row pitch of 128 bytes all eight start in the same bank:

# %%
plain = la.Layout((64, 64), (64, 1))
la.analyze(plain, "ldmatrix.x4", "f16")

# %%
swizzled = la.composition(swizzle, plain)
report = la.analyze(swizzled, "ldmatrix.x4", "f16")
assert report.ways == 1
report

# %% [markdown]
# Before and after, with the lanes and their banks:

# %%
from layoutalg.draw import layout_access_picture

rows = la.parse("Sw<3,3,3> o 0 o (8,64):(64,1)")
layout_access_picture(rows, la.Access.of("ldmatrix.x1", rows, "f16"))

# %% [markdown]
# Move the sliders: which B, M and S remove the conflict? In a notebook with ipywidgets (`pip install
# 'layoutalg[notebook]'`) the next cell is interactive; without, it shows one setting.

# %%
from layoutalg.errors import UnsupportedError
from layoutalg.widgets import swizzle_panel, swizzle_sliders

try:
    sliders = swizzle_sliders((64, 64), "f16", "ldmatrix.x4")
except UnsupportedError as error:
    print(error)
    sliders = None
assert "conflict-free" in swizzle_panel((64, 64), "f16", "ldmatrix.x4", bits=3, base=3, shift=3)
sliders

# %% [markdown]
# A table of all small swizzles:

# %%
free = [
    (bits, base, shift)
    for bits in range(1, 4)
    for base in range(5)
    for shift in range(1, 5)
    if "conflict-free" in swizzle_panel((64, 64), "f16", "ldmatrix.x4", bits=bits, base=base, shift=shift)
]
print(free)
assert free == [(3, 3, 3)]
