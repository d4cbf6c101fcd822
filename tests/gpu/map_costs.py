"""What tensor maps cost a launch, in microseconds of the host.

python3 -m tests.gpu.map_costs
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from layoutalg.codegen.gpu import (
    compile_sequence,
    device_empty,
    encode_tensor_map,
    gpu_status,
    load_sequence,
)
from layoutalg.codegen.program import Kernel, launch_sequence
from tests.tiles.boxes import Boxes, copy_program

STATUS = gpu_status()


def microseconds(call: Any, count: int = 20000) -> float:
    """Of one call, on the host: the launches of a batch are waited for before the next one."""
    import cupy

    best = float("inf")
    for _ in range(5):
        cupy.cuda.Device().synchronize()
        start = time.perf_counter()
        for _ in range(count // 20):
            call()
        best = min(best, (time.perf_counter() - start) / (count // 20))
        cupy.cuda.Device().synchronize()
    return 1e6 * best


def launch_costs() -> dict[str, float]:
    """Microseconds of the host per launch, with and without two maps, and of encoding one."""
    boxes = Boxes((512, 300), (64, 32), "f16", "128B")
    kernel = copy_program(boxes)
    plain = replace(kernel, maps=(), body=(), barriers=())
    arrays = [
        {"src": device_empty(boxes.shape, "uint16"), "dst": device_empty(boxes.shape, "uint16")} for _ in "ab"
    ]

    def loaded(one: Kernel) -> Any:
        return load_sequence(
            compile_sequence(launch_sequence([one]), STATUS.arch).ready(),
        )

    addresses = [{name: x.data.ptr for name, x in a.items()} for a in arrays]
    turns = [0]

    def alternating(run: Any) -> None:
        turns[0] ^= 1
        run(addresses[turns[0]])

    with_maps, without, form = loaded(kernel), loaded(plain), kernel.maps[0].evaluate({})
    import cupy

    stream = int(cupy.cuda.get_current_stream().ptr)
    return {
        "launch without maps": microseconds(lambda: without(addresses[0], stream)),
        "launch with two maps, the same addresses": microseconds(lambda: with_maps(addresses[0], stream)),
        "launch with two maps, addresses in turn": microseconds(lambda: alternating(with_maps)),
        "encode a map": microseconds(lambda: encode_tensor_map(form, addresses[0]["src"]), 2000),
    }


if __name__ == "__main__":
    for what, cost in launch_costs().items():
        print(f"{cost:8.2f} us  {what}")
