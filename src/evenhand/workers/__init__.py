"""Work in units: on the processes of this machine, on a Dask or Ray cluster, or on any executor."""

from evenhand.workers.executors import Workers, open_pool
from evenhand.workers.pools import MOST_LOSSES, UnitsDone, UnitTask, Worker, WorkerLostError, WorkerPool, run_units
from evenhand.workers.store import UnitStore, fingerprint_of
from evenhand.workers.workforce import StoredTask, Workforce

__all__ = [
    "MOST_LOSSES",
    "StoredTask",
    "UnitStore",
    "UnitTask",
    "UnitsDone",
    "Worker",
    "WorkerLostError",
    "WorkerPool",
    "Workers",
    "Workforce",
    "fingerprint_of",
    "open_pool",
    "run_units",
]
