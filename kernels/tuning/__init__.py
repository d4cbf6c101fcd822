"""Autotuning: timings of many configurations, stored once, and the choice of the fastest.

store     Store: an append-only file of records, safe with several and with killed writers; Key and Record
jobs      Job: one timing; the kernel is built without a GPU, and timed in a child process with a limit
engines   local_engine, cluster_engine: processes of a host, Dask, Ray, each as two executors
tuner     jobs_of, tune: the search
lockfile  Lock: the fastest configuration of each problem, in a file to be committed
sweep     cases_of: random problems of a family, verified by the same engines; laws_of: the laws' cases
counting  count, smallest: Nsight Compute's counters of such cases, beside the prediction
board     measured: the numbers of the GPU that is here, fitted to launches
study     shares, boards_of: statistics of a store

A name is imported when it is first used: whoever chooses by a lock imports no search.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutalg.optional import later

if TYPE_CHECKING:
    from layoutalg.kernels.tuning.board import errors_of, measured
    from layoutalg.kernels.tuning.counting import Counted, count, smallest
    from layoutalg.kernels.tuning.engines import Engine, cluster_engine, first_of, local_engine
    from layoutalg.kernels.tuning.jobs import SLOW, Job, Place, gpu_place, model_place
    from layoutalg.kernels.tuning.lockfile import Lock, Locked, choose, current_lock, lock_of, lock_text
    from layoutalg.kernels.tuning.store import TIMINGS, VERIFIED, Record, Store, by_problem, salvaged
    from layoutalg.kernels.tuning.study import Board, boards_of, shares, without
    from layoutalg.kernels.tuning.sweep import ALGEBRA, HOST, SIMULATOR, cases_of, laws_of, seeds
    from layoutalg.kernels.tuning.tuner import Summary, jobs_of, tune

_PLACES = {
    "board": "errors_of measured",
    "counting": "Counted count smallest",
    "engines": "Engine cluster_engine first_of local_engine",
    "jobs": "SLOW Job Place gpu_place model_place",
    "lockfile": "Lock Locked choose current_lock lock_of lock_text",
    "store": "TIMINGS VERIFIED Record Store by_problem salvaged",
    "study": "Board boards_of shares without",
    "sweep": "ALGEBRA HOST SIMULATOR cases_of laws_of seeds",
    "tuner": "Summary jobs_of tune",
}


__getattr__ = later(__name__, _PLACES)
