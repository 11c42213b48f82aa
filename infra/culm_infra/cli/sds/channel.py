"""Shared parts of the ``culm sds`` commands: the argument CHANNEL, and the local index of the store."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from culm_infra.cli.kit.output import counting
from culm_infra.errors import InfraError

if TYPE_CHECKING:
    from culm_topics.kafka.clients import KafkaSettings
    from culm_topics.sds.index import SdsIndex

_INDEX_NAME = "index.sqlite"


def complete_channel(incomplete: str) -> list[str]:
    """Complete channels from the indexes of this machine; asks no broker, so it is quick."""
    from culm_topics.sds.index_file import channels_in

    channels: set[str] = set()
    for path in _folder().glob(f"*/{_INDEX_NAME}"):
        channels.update(channels_in(path, incomplete))
    return sorted(channels)


Channel = Annotated[
    str, typer.Argument(metavar="CHANNEL", help="The channel's id.", autocompletion=complete_channel)
]


def check_channel(channel: str) -> str:
    """Return the channel's id. Raises `InfraError` if it is malformed."""
    from culm_topics.sds.keys import MAX_ID_BYTES, is_id

    if not is_id(channel):
        raise InfraError(
            f"the channel's id has {len(channel.encode())} bytes", hint=f"1 to {MAX_ID_BYTES} are possible"
        )
    return channel


def open_index(kafka: KafkaSettings, channel: str) -> SdsIndex:
    """Return the index of the channel's partition, up to date; it is kept, so a later call reads only new
    records.
    """
    from culm_topics.sds.index import SdsIndex

    # Offsets are valid in one cluster's topics only; the file itself records which topics those are.
    name = sha256(f"{kafka.bootstrap}\n{kafka.prefix}".encode()).hexdigest()[:16]
    index = SdsIndex(kafka, _folder() / name / _INDEX_NAME, channels=[channel])
    try:
        with counting("records of the index read") as count:
            for left in index.catching_up():
                count(total=index.goal, completed=index.goal - left)
    except BaseException:
        index.close()
        raise
    return index


def _folder() -> Path:
    from culm_infra.settings import DIRECTORIES

    return Path(DIRECTORIES.user_cache_dir) / "sds"
