# %% [markdown]
# # 2. Layouts
#
# A layout is a function from coordinates to offsets, written `shape:stride`. The algebra computes
# with such functions: exactly, or it refuses and says where.

# %%
import layoutalg as la

tile = la.Layout((4, 8), (8, 1))
tile

# %%
assert tile(1, 2) == 10 and tile(9) == 10
print(tile(2, None), la.size(tile), la.cosize(tile))

# %% [markdown]
# A mode may be a tree of modes. Here each row is cut into two halves that lie far apart:

# %%
la.Layout((4, (4, 2)), (4, (1, 16)))

# %% [markdown]
# `zipped_divide` cuts a layout into tiles: the first mode walks inside of a tile, the second from
# tile to tile.

# %%
blocks = la.zipped_divide(la.Layout((32, 32), (32, 1)), (8, 8))
print(blocks)
inside = blocks(None, 5)
inside

# %% [markdown]
# `composition(a, b)` is `a(b(c))`. It is a layout again where no digit of `a` carries; where one
# does, the error names the coordinate:

# %%
print(la.composition(la.Layout((6, 2), (8, 2)), la.Layout((4, 3), (3, 1))))
try:
    la.composition(la.Layout((6, 2), (1, 7)), la.Layout((3, 2), (2, 3)))
except la.DivisibilityError as error:
    print(error)

# %% [markdown]
# Why a result is what it is:

# %%
la.explain("composition", la.Layout((6, 2), (8, 2)), la.Layout((4, 3), (3, 1)))

# %% [markdown]
# Questions about a layout as a function are decided at any size, without going through its elements:

# %%
large = la.Layout((1 << 20, 1 << 20), (3, 5))
print(la.is_injective(large), la.find_collision(large))
assert large(la.find_collision(large)[0]) == large(la.find_collision(large)[1])
