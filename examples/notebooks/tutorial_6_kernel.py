# %% [markdown]
# # 6. A kernel of your own
#
# A kernel is a program over layouts. The same program is printed as CUDA, simulated on the CPU, and
# analysed for its memory traffic.

# %%
import layoutalg as la
from layoutalg import codegen as cg

T = 32
by_row = la.make_tiled_copy("UniversalCopy<uint32_t>", "f32", la.Layout((4, 32), (32, 1)), la.Layout((1, 1)))
by_column = la.make_tiled_copy(
    "UniversalCopy<uint32_t>", "f32", la.Layout((32, 4), (1, 32)), la.Layout((1, 1))
)
put = la.Access("st.shared.b32", by_row.tidfrg("dst", la.Layout((T, T))), "f32")
get = la.Access("ld.shared.b32", by_column.tidfrg("src", la.Layout((T, T))), "f32")
found = la.synthesize((T, T), [put, get], element="f32")
found

# %% [markdown]
# A transpose through shared memory: store rows, barrier, load columns. The tile has the layout that
# `synthesize` found.

# %%


def transpose(layout):
    k = cg.Kernel("transpose", threads=128)
    m, n = k.extent("m"), k.extent("n")
    src, dst = k.tensor("src", "f32", (m, n), (n, 1)), k.tensor("dst", "f32", (n, m), (m, 1), writable=True)
    tile, (i, j) = k.shared("tile", "f32", layout), k.grid((m, n), (T, T))
    load, store = k.get_slice(by_row), k.get_slice(by_column)
    s = load.partition_S(cg.local_tile(src, (T, T), (i, j)))
    d = store.partition_D(cg.local_tile(dst, (T, T), (j, i)).transposed)
    k.store(k.load(s, where=s.inside), load.partition_D(tile))
    k.do(cg.BAR)
    k.store(k.load(store.partition_S(tile)), d, where=d.inside)
    return k.build()


kernel = transpose(found.layout)
print(cg.to_cuda(kernel)[:400])

# %% [markdown]
# `verify` simulates it on the CPU with random sizes, block by block and warp by warp in a random order,
# and compares the result with NumPy:

# %%
results = cg.verify(kernel, lambda src: src.T)
print(len(results))
assert results

# %% [markdown]
# Its memory traffic in wavefronts and sectors, compared with the same kernel on an unswizzled tile:

# %%
for layout in (la.Layout((T, T), (T, 1)), found.layout):
    costs = cg.traffic(transpose(layout), {"m": 1024, "n": 1024})
    print(layout, {op: (cost.total, cost.ideal) for op, cost in costs.items()})
assert costs["ld.shared.b32"].total == costs["ld.shared.b32"].ideal
