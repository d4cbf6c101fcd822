"""Compilation, caching, loading and launching of CUDA text.

    nvrtc           compile_cubin: machine code from text; compile_ptx, for a driver to compile
    trusted_folder  folders that only their owner can write
    cubin_cache     machine code on disk, keyed by its CUDA text
    sass            disassembly, main loops, instruction classes
    driver          the calls of the CUDA driver that CuPy does not offer; tensor maps, which it encodes
    preparation     compiling many kernels, on all cores
    runtime         machine code, arrays and times through CuPy
    launch          kernels and sequences of them: compiled, loaded, launched, again at little cost
    counters        hardware counters of launches, by Nsight Compute
    monitor         clocks, power, temperature and throttle reasons, while something runs

Only `runtime` and `launch` need a GPU; CUDA text and machine code can be made without one.
"""

from __future__ import annotations

from layoutalg.codegen.gpu.counters import Compared, Run, compare, predicted_run, profiler
from layoutalg.codegen.gpu.cubin_cache import (
    LIMIT_BYTES,
    Entry,
    cache_folder,
    clear,
    fetch_entry,
    offer_entry,
    usage,
)
from layoutalg.codegen.gpu.launch import (
    CompiledSequence,
    Launch,
    Loaded,
    LoadedSequence,
    ReadySequence,
    compile_sequence,
    load,
    load_launch,
    load_prepared,
    load_sequence,
)
from layoutalg.codegen.gpu.monitor import (
    Conditions,
    Monitor,
    Reading,
    Span,
    board_name,
    conditions,
    display_driver,
    reason_names,
    watching,
)
from layoutalg.codegen.gpu.nvrtc import (
    Cubin,
    compile_cubin,
    compile_image,
    compile_options,
    compile_ptx,
    compile_target,
    version,
)
from layoutalg.codegen.gpu.preparation import (
    Launchable,
    Prepared,
    each_in_processes,
    in_processes,
    kernel_target,
    launchable,
    prepare,
)
from layoutalg.codegen.gpu.runtime import (
    array_assign,
    array_reduction,
    board_facts,
    cold_times_us,
    cuda_versions,
    device_array,
    device_copy,
    device_empty,
    device_getter,
    device_view,
    gpu_status,
    largest_difference,
    later_half_times_ms,
    median_times_ms,
    on_device,
    random_bytes,
    random_normal,
    repeat_for,
    require_gpu,
    stream_getter,
    to_device,
    to_host,
)
from layoutalg.codegen.gpu.sass import (
    CLASSES,
    OTHER,
    Control,
    SassFunction,
    SassInstruction,
    count_classes,
    disassemble,
    find_disassembler,
    main_loop,
    parse_sass,
    read_code,
    shared_accesses,
)
from layoutalg.codegen.printing import to_cuda
