"""Generate a CUDA kernel, simulate it on the CPU, compare its accesses with the prediction, compile it.

Run it:  python examples/generate_a_kernel.py        needs layoutalg[nvrtc] for the last step, no GPU
"""

import numpy

from layoutalg.codegen.gpu import prepare, to_cuda
from layoutalg.codegen.sim import simulate
from layoutalg.kernels import find_family, verify

# The best configuration of a transpose for one problem, as a tile program and as CUDA text.
family = find_family("transpose")
problem = family.problem(m=100, n=72, dtype="f32")
config = family.configs(problem, "sm_90")[0]
kernel = family.build(problem, config)
source = to_cuda(kernel, "sm_90")
print(f"{kernel.name}: {len(source.splitlines())} lines, {kernel.threads} threads per block")
assert f"{kernel.name}(" in source

# Run it on the CPU, thread by thread.
src = numpy.arange(100 * 72, dtype=numpy.uint32)
dst = numpy.zeros(72 * 100, dtype=numpy.uint32)
run = simulate(kernel, {"m": 100, "n": 72, "lds": 72, "ldd": 100, "src": src, "dst": dst})
print(f"simulated {run.blocks} blocks")
assert (dst.reshape(72, 100) == src.reshape(100, 72).T).all()

# The same on random data, two ways to schedule the warps, every access counted.
report = verify(family, problem)
for check in report.checks:
    print(f"  {'ok   ' if check.passed else 'FAILS'} {check.name}: {check.detail}")
assert report.passed

# Machine code, without a GPU.
for target in ("sm_80", "sm_90a"):
    cubin = prepare(kernel, target).cubin
    print(f"{target}: {cubin.registers} registers per thread, {cubin.spill_bytes} bytes of spills")
    assert cubin.spill_bytes == 0
