# %% [markdown]
# # 2. Layouts
#
# A layout is a function from coordinates to offsets, written `shape:stride`. Operations of the algebra
# are exact; if no layout is the result, the error has a coordinate that shows it.

# %%
import layoutalg as la

tile = la.Layout((4, 8), (8, 1))
tile

# %%
assert tile(1, 2) == 10 and tile(9) == 10
print(tile(2, None), la.size(tile), la.cosize(tile))

# %% [markdown]
# A mode may be nested. Here each row is divided into two halves that are far apart in memory:

# %%
la.Layout((4, (4, 2)), (4, (1, 16)))

# %% [markdown]
# `zipped_divide` divides a layout into tiles: the first mode is the tile, the second the grid of
# tiles.

# %%
blocks = la.zipped_divide(la.Layout((32, 32), (32, 1)), (8, 8))
print(blocks)
inside = blocks(None, 5)
inside

# %% [markdown]
# `composition(a, b)` is the function `a(b(c))`. If that is not a layout, the error names a coordinate
# that shows it:

# %%
print(la.composition(la.Layout((6, 2), (8, 2)), la.Layout((4, 3), (3, 1))))
try:
    la.composition(la.Layout((6, 2), (1, 7)), la.Layout((3, 2), (2, 3)))
except la.errors.DivisibilityError as error:
    print(error)

# %% [markdown]
# The derivation of a result:

# %%
la.explain("composition", la.Layout((6, 2), (8, 2)), la.Layout((4, 3), (3, 1)))

# %% [markdown]
# Questions about a layout as a function are decided at any size, without enumerating its elements:

# %%
large = la.Layout((1 << 20, 1 << 20), (3, 5))
print(la.is_injective(large), la.find_collision(large))
assert large(la.find_collision(large)[0]) == large(la.find_collision(large)[1])
