"""Where Kafka is when a program does not say: the environment's words, else the local stack that runs.

`culm stack up` leaves its address in a file of the user's data directory, so that a program on the same
machine finds it without knowing how the stack is run. The variables are those of the command line.
"""

import json
import os
from pathlib import Path
from typing import Final

from platformdirs import PlatformDirs
from pydantic import ValidationError

from culm_topics.errors import KafkaSettingsError
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.topic_spec import DEFAULT_PREFIX

ADDRESS_FILE: Final = "bootstrap"
"""In a stack's directory while it runs: its HOST:PORT."""


def stack_directory(name: str = "default") -> Path:
    """Where the local stack of a name keeps its data."""
    return Path(PlatformDirs("culm", appauthor=False).user_data_dir) / "stacks" / name


def named_kafka(kafka: KafkaSettings | str | None) -> KafkaSettings:
    """Settings as they are; else those of an address, or of no address, with what the environment says.

    Raises `KafkaSettingsError`.
    """
    return kafka if isinstance(kafka, KafkaSettings) else local_kafka(kafka)


def local_kafka(bootstrap: str | None = None) -> KafkaSettings:
    """The Kafka of an address, or of CULM_BOOTSTRAP, with CULM_PREFIX and CULM_KAFKA.

    CULM_KAFKA holds librdkafka properties as JSON. Without an address and without CULM_BOOTSTRAP it is the
    local stack that CULM_STACK__DIRECTORY or CULM_STACK__NAME means, by default the one that `culm stack up`
    starts. Raises `KafkaSettingsError` when there is neither.
    """
    bootstrap = bootstrap or os.environ.get("CULM_BOOTSTRAP") or _local_stack()
    try:
        return KafkaSettings(
            bootstrap=bootstrap,
            prefix=os.environ.get("CULM_PREFIX", DEFAULT_PREFIX),
            options=json.loads(os.environ.get("CULM_KAFKA", "{}")),
        )
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors(include_input=False)
        )
        raise KafkaSettingsError(f"the environment's settings of Kafka are wrong: {wrong}") from error
    except ValueError as error:
        raise KafkaSettingsError("CULM_KAFKA is no JSON object of librdkafka properties") from error


def _local_stack() -> str:
    named = os.environ.get("CULM_STACK__DIRECTORY")
    directory = Path(named) if named else stack_directory(os.environ.get("CULM_STACK__NAME", "default"))
    try:
        return (directory / ADDRESS_FILE).read_text().strip()
    except OSError as error:
        raise KafkaSettingsError(
            "no Kafka to talk to: no address is given, CULM_BOOTSTRAP is not set and no local stack runs",
            hint="give HOST:PORT, set CULM_BOOTSTRAP, or start a local stack with `culm stack up`",
        ) from error
