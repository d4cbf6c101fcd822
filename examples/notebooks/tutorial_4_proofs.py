# %% [markdown]
# # 4. Search and proof
#
# `synthesize` searches a layout on which all accesses to a tile are free of conflicts, and returns it
# with a certificate, which can be checked without the search.

# %%
import layoutalg as la

found = la.synthesize((64, 64), ["st.shared.b128", "ldmatrix.x4"], element="f16")
found

# %%
la.check_certificate(found)

# %% [markdown]
# What the certificate means: the words of a tile are vectors of bits. K holds the words that share a
# bank with word 0, F the differences of words that a phase accesses. If they have only 0 in common, no
# two words of a phase share a bank.

# %%
from layoutalg.f2 import rank

K = found.certificate.kernel
F = (1, 2, 32, 64, 128)
print(K, rank(K), rank(F), rank((*K, *F)))
assert rank((*K, *F)) == rank(K) + rank(F)

# %% [markdown]
# If no layout is free of conflicts, that is proved. Here contiguous vectors of 4 words are read along
# rows, and single words along a column:

# %%
none = la.synthesize((32, 32), ["ld.shared.b128@row", "ld.shared.b32@col"], element="f32")
assert none.layout is None
la.check_certificate(none)

# %% [markdown]
# A modified certificate is refused:

# %%
from dataclasses import replace

try:
    la.check_certificate(replace(found, layout=la.Layout((64, 64), (64, 1)), kind="plain"))
except la.errors.MismatchError as error:
    print(error)

# %% [markdown]
# `solve_conflict_free` finds all paddings without conflicts:

# %%
from sympy import Symbol

from layoutalg.symbolic import solve_conflict_free

ld = Symbol("ld", integer=True, positive=True)
tile = la.Layout((32, 32), (ld, 1))
column = la.Access("ld.shared.b32", la.Layout((32, 32), (1, 32)), "f32")
answer = solve_conflict_free(tile, column, ld)
print(answer)
assert answer.holds(33) and not answer.holds(34)
