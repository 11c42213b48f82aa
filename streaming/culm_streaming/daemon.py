"""The process from which Spark forks its Python workers, with everything that a job needs imported already.

Spark's own daemon leaves the imports to each worker, which cost some two seconds of processor time each: much
of a cold start, and on a busy machine the reason for a late first micro-batch. It does so because threads do
not survive a fork. Here, only jemalloc has a thread before the fork, and it starts that anew after it (a test
checks this).
"""

import gc
import os

# Set before numpy is imported: its threads would be lost in the workers, which have one core each.
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
    # Objects that exist here are permanent: collecting them in each worker would copy all their pages.
    gc.collect()
    gc.freeze()
    manager()
