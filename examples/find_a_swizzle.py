"""Find a layout without bank conflicts for all accesses to a tile, or a proof that there is none.

Run it:  python examples/find_a_swizzle.py
"""

from layoutalg import Access, Layout, check_certificate, synthesize
from layoutalg.dtype import dtype
from layoutalg.testing import check_conflict_free

# A tile of half precision is stored in 16-byte vectors and read by ldmatrix.
found = synthesize((64, 64), ["st.shared.b128", "ldmatrix.x4"], element="f16")
print(f"stores and ldmatrix: {found.layout}")
print(f"  {check_certificate(found)}")
assert found.layout is not None and str(found.layout) == "Sw<3,3,3> o 0 o (64,64):(64,1)"
check_conflict_free(found.layout, "st.shared.b128", "ldmatrix.x4", element="f16")

# A transpose: written by rows, read by columns.
found = synthesize((32, 32), ["st.shared.b32@row", "ld.shared.b32@col"], element="f32")
print(f"rows in, columns out: {found.layout}, or {found.alternatives[0].layout} with padding")
assert found.layout is not None and found.extra_bytes == 0

# 16-byte vectors along rows and 4-byte words along columns: no layout is conflict-free, and the certificate
# says why.
found = synthesize((32, 32), ["st.shared.b128@row", "ld.shared.b32@col"], element="f32")
print(f"vectors in, columns out: {found.layout}; {check_certificate(found)}")
assert found.layout is None and not found.certificate.conflict_free

# Any access can be given as a TV layout: here lane t reads an element of a diagonal.
diagonal = Access("ld.shared.b32", Layout((32, 1), (33, 0)), dtype("f32"))
found = synthesize((32, 32), ["ld.shared.b32@row", "ld.shared.b32@col", diagonal], element="f32")
print(f"rows, columns and the diagonal: {found.layout}")
assert found.layout is not None and all(report.conflict_free for report in found.reports)
