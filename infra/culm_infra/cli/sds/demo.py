"""``culm demo sds``: channels on a bad network converge."""

from __future__ import annotations

from culm_infra.cli.demo.present import DemoFlags, present
from culm_infra.cli.kit.options import ClusterFlags
from culm_infra.cli.kit.output import Results
from culm_infra.demo.sds.size import SdsDemoSize


def demo(*, size: SdsDemoSize, flags: DemoFlags, kafka: ClusterFlags, results: Results) -> None:
    """Channels of SDS on a bad network: hosted and full participants end with the same log, and know it.

    There is one channel for each wire profile (spec, js, nim). Some participants keep their own state, others
    are hosted by the pipeline, at two edges. The network loses a fifth of the messages and duplicates and
    delays others. The participants of one edge are cut off for a while; the job is killed with SIGKILL and
    started again. In the end all logs are compared message by message. Exit status 0: all are equal and
    nothing is lost; 3: not.

    Example: culm demo sds --participants 8 --messages 300
    """
    from culm_infra.demo.sds.run import play

    present(
        flags,
        kafka,
        results,
        size,
        play,
        ("culm sds tail demo-spec --from beginning --no-follow", "culm sds status"),
    )
