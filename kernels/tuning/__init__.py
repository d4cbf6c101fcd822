"""Timings of many configurations: taken once, kept, and chosen from.

keys      Key and Record: what a timing is of, and what is known of it
store     Store: lines that are appended, under several writers and killed ones
jobs      Job: one timing, built without a GPU, taken in a child process with a limit
engines   local_engine, cluster_engine: processes of a host, Dask, Ray, each as two executors
tuner     jobs_of, tune: the search
lockfile  Lock: the fastest of each problem, in a file that is committed
study     shares, fitted_rates, t4_results: what a store tells
"""

from __future__ import annotations

from layoutalg.kernels.tuning.engines import Engine, cluster_engine, first_of, local_engine
from layoutalg.kernels.tuning.jobs import (
    RATES,
    Built,
    Job,
    Place,
    build,
    gpu_place,
    model_place,
    modelled_ns,
    take_times,
)
from layoutalg.kernels.tuning.keys import (
    TIMINGS,
    Key,
    Record,
    called_sequence,
    kernel_digest,
    library_version,
    record_fields,
    record_of,
    text_digest,
)
from layoutalg.kernels.tuning.lockfile import (
    Lock,
    Locked,
    choose,
    current_lock,
    lock_of,
    lock_text,
    read_lock,
)
from layoutalg.kernels.tuning.store import Store, salvaged
from layoutalg.kernels.tuning.study import Fit, fitted_rates, shares, t4_results
from layoutalg.kernels.tuning.tuner import Summary, jobs_of, tune

__all__ = [
    "RATES",
    "TIMINGS",
    "Built",
    "Engine",
    "Fit",
    "Job",
    "Key",
    "Lock",
    "Locked",
    "Place",
    "Record",
    "Store",
    "Summary",
    "build",
    "called_sequence",
    "choose",
    "cluster_engine",
    "current_lock",
    "first_of",
    "fitted_rates",
    "gpu_place",
    "jobs_of",
    "kernel_digest",
    "library_version",
    "local_engine",
    "lock_of",
    "lock_text",
    "model_place",
    "modelled_ns",
    "read_lock",
    "record_fields",
    "record_of",
    "salvaged",
    "shares",
    "t4_results",
    "take_times",
    "text_digest",
    "tune",
]
