"""Count bank conflicts: of a layout in closed form, and of 32 byte offsets by the definition.

Run it:  python examples/bank_conflicts.py
"""

from layoutalg import Layout, Swizzle, analysis, analyze, composition

# A 64 x 64 tile of half precision, row-major: every row starts in bank 0.
tile = Layout((64, 64), (64, 1))
report = analyze(tile, "ldmatrix.x4", "f16")
assert isinstance(report, analysis.SharedReport)
print(f"{tile}: {report.instructions} instructions of {report.op}, {report.worst} wavefronts each")
print(f"  ideal {report.worst_ideal}, {report.ways}-way conflicts, found by {report.method}")
assert (report.instructions, report.worst, report.worst_ideal, report.ways) == (16, 32, 4, 8)

# The same tile under a swizzle, as CuTe writes it.
swizzled = composition(Swizzle(3, 3, 3), tile)
report = analyze(swizzled, "ldmatrix.x4", "f16")
assert isinstance(report, analysis.SharedReport)
print(f"{swizzled}: {report.worst} wavefronts each, conflict-free: {report.conflict_free}")
assert report.conflict_free and report.worst == 4

# Closed forms take the same time for any size of the tile.
huge = Layout((1 << 30, 1 << 12), (1 << 12, 1))
report = analyze(huge, "ldmatrix.x4", "f16")
assert isinstance(report, analysis.SharedReport)
print(f"{huge}: {report.total:,} wavefronts in {report.instructions:,} instructions")
assert report.total == 32 * report.instructions == 32 << 34

# Without a layout: the offsets of one warp, lane by lane.
rows = [144 * (lane % 16) + 16 * (lane // 16) for lane in range(32)]
padded = analysis.wavefronts("ldmatrix.x4", rows)
print(f"rows 144 bytes apart: {padded} wavefronts")
assert padded == 4

# Global memory: 128 consecutive bytes are four sectors, five if they start 4 bytes later.
aligned, late = (
    analysis.sectors("ld.global.b32", [start + 4 * lane for lane in range(32)]) for start in (0, 4)
)
print(f"128 contiguous bytes: {aligned} sectors aligned, {late} sectors 4 bytes late")
assert (aligned, late) == (4, 5)
