"""The default address of Kafka: from environment variables, else the local stack that is running.

`culm stack up` leaves its address in a file in the user's data directory, so that a program on the same
machine finds it without knowing how the stack is run. Of the command line's variables, those about Kafka are
read here, with the same meaning. Settings files are for commands.
"""

from pathlib import Path
from typing import Final

from platformdirs import PlatformDirs
from pydantic import ValidationError

from culm_topics.errors import KafkaSettingsError
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.variables import kafka_properties, variable
from culm_topics.topic_spec import DEFAULT_PREFIX

ADDRESS_FILE: Final = "bootstrap"
"""File in the directory of a running stack that holds its HOST:PORT."""


def stack_directory(name: str = "default") -> Path:
    """Return the data directory of the local stack `name`."""
    return Path(PlatformDirs("culm", appauthor=False).user_data_dir) / "stacks" / name


def named_kafka(kafka: KafkaSettings | str | None) -> KafkaSettings:
    """Return settings unchanged; for an address, or None, combine it with the environment's settings.

    Raises `KafkaSettingsError`.
    """
    return kafka if isinstance(kafka, KafkaSettings) else local_kafka(kafka)


def local_kafka(bootstrap: str | None = None) -> KafkaSettings:
    """Return the settings for an address, or CULM_BOOTSTRAP, with CULM_PREFIX and properties of librdkafka.

    CULM_KAFKA holds properties as JSON; CULM_KAFKA__SECURITY_PROTOCOL, for example, is `security.protocol`.
    Each variable may have `_FILE` behind its name, and then names a file that has the value. Without an
    address and without CULM_BOOTSTRAP the address is that of the local stack named by CULM_STACK__DIRECTORY
    or CULM_STACK__NAME, by default the stack that `culm stack up` starts. Raises `KafkaSettingsError` if
    there is neither, or if a variable is wrong.
    """
    bootstrap = bootstrap or variable("CULM_BOOTSTRAP") or _local_stack()
    prefix = variable("CULM_PREFIX")
    try:
        return KafkaSettings(
            bootstrap=bootstrap,
            prefix=DEFAULT_PREFIX if prefix is None else prefix,
            options=kafka_properties(),
        )
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors(include_input=False)
        )
        raise KafkaSettingsError(f"the environment's settings of Kafka are wrong: {wrong}") from error


def _local_stack() -> str:
    named = variable("CULM_STACK__DIRECTORY")
    directory = Path(named) if named else stack_directory(variable("CULM_STACK__NAME") or "default")
    try:
        return (directory / ADDRESS_FILE).read_text().strip()
    except OSError as error:
        raise KafkaSettingsError(
            "no Kafka to talk to: no address is given, CULM_BOOTSTRAP is not set and no local stack runs",
            hint="give HOST:PORT, set CULM_BOOTSTRAP, or start a local stack with `culm stack up`",
        ) from error
