"""The process from which Spark forks its Python workers, with everything that a job needs imported already.

Spark's own daemon leaves the imports to each worker, some two seconds of processor time each: much of a cold
start, and on a busy machine the reason why a first micro-batch is late. It does so because threads do not
survive a fork; before it only jemalloc has one here, which it starts anew behind it (a test holds that).
"""

import gc
import os

# Before numpy comes in: its threads would be lost in the workers, which have one core each.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import pandas as pd  # noqa: E402, F401
import pyarrow.compute  # noqa: E402, F401
import pyspark.worker  # noqa: E402, F401
from pyspark.daemon import manager  # noqa: E402

from culm_streaming.jobs import load_job  # noqa: E402
from culm_topics.catalogue.registry import JOBS  # noqa: E402

_jobs = [load_job(job.name) for job in JOBS]

if __name__ == "__main__":
    for _job in _jobs:
        if _job.prepare is not None:
            _job.prepare()
    # What is here stays: looking through it again in each worker would copy every page of it.
    gc.collect()
    gc.freeze()
    manager()
