"""The processor of a stateful job: what it imports where it only declares the job's state."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

from pyspark import cloudpickle

from culm_streaming.blocks import job as blocks
from culm_streaming.blocks.settings import HeightsSettings
from culm_streaming.blocks.state import VARIABLES
from culm_streaming.stateful.shard_step import ShardStep, StepOnFrames
from culm_streaming.stateful.step_processor import StepProcessor

_PROGRAM = """
import pickle, sys
from pathlib import Path
import pyspark.sql.streaming.transform_with_state_driver_worker

class Handle:
    def getMapState(self, name, *columns):
        print(name)
    getValueState = getMapState

processor = pickle.loads(Path(sys.argv[1]).read_bytes())
processor.init(Handle())
processor.close()
heavy = {"pandas", "pyarrow", "pydantic", "confluent_kafka", "culm_streaming.blocks.job"}
print(*sorted(heavy & sys.modules.keys()), file=sys.stderr, end="")
"""


def test_a_worker_that_declares_the_state_imports_neither_the_job_nor_its_libraries(tmp_path: Path) -> None:
    take = partial(blocks._take, settings=HeightsSettings(), vector_partitions=2)
    step = StepOnFrames(ShardStep(VARIABLES, take), ["rows"], ["topic", "key", "value", "partition"], [])
    pickled = tmp_path / "processor"
    data = cloudpickle.dumps(StepProcessor(VARIABLES, step))  # type: ignore[no-untyped-call]
    pickled.write_bytes(data)
    answer = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(pickled)], capture_output=True, text=True, check=True
    )
    assert answer.stdout.split() == list(dict.fromkeys(variable.name for variable in VARIABLES))
    assert answer.stderr == ""
