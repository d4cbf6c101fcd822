# %% [markdown]
# # 5. Atoms, tiled copies, tiled MMAs
#
# An atom is one instruction, as the layouts of its threads and values. Tiling repeats it over a
# block.

# %%
import layoutalg as la

atom = la.find_mma_atom("SM80_16x8x16_F32F16F16F32_TN")
atom

# %% [markdown]
# The TV layout of C says which thread holds which element: thread 5, value 1 is the element with flat
# index

# %%
accumulator = atom.c_tv
print(accumulator, accumulator(5, 1))

# %% [markdown]
# Four of them side by side, as two by two warps, over a tile of 32 x 32 x 16:

# %%
mma = la.make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1), (32, 32, 16))
assert mma.threads == 128
mma

# %% [markdown]
# `ldmatrix` loads operand A. A TiledCopy says which lane reads what, and the analysis takes it
# directly:

# %%
copy = la.make_tiled_copy_A("SM75_U32x4_LDSM_N", mma)
reads = la.Access(copy.atom.src_op, copy.tidfrg("src", la.Layout((64, 64))), copy.element)
print(
    {
        text: la.analyze(la.parse(text), reads).ways
        for text in ("(64,64):(64,1)", "Sw<3,3,3> o 0 o (64,64):(64,1)")
    }
)
assert la.analyze(la.parse("Sw<3,3,3> o 0 o (64,64):(64,1)"), reads).ways == 1

# %% [markdown]
# Does the hardware accept the layout? `wgmma` reads its operand from shared memory, and TMA writes it
# there:

# %%
la.legality.check_wgmma(la.Layout((64, 64), (64, 1)), "bf16", "A")

# %%
swizzled = la.parse("Sw<3,3,3> o 0 o (64,64):(64,1)")
print(la.legality.check_wgmma(swizzled, "bf16", "A").require().canonical)
tensor = la.Layout((4096, 1024), (1024, 1))
written = la.legality.check_tma(tensor, (64, 64), "bf16", mode="128B").require().layout
assert la.same_function(written, swizzled)
