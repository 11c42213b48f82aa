"""`chotki.packets`: a live packet (C, O, E or Y) as it came (reference 9.1)."""

from typing import Annotated, Final

from culm_models.chotki.compat import Compat
from culm_topics.chotki.records.shape import Bringer, SomeCompat
from culm_topics.records.declare import Record, record, spread
from culm_topics.records.kinds import sized_between

MAX_PACKET_BYTES: Final = 3 * 1024 * 1024
"""The largest live packet: its record fits into a batch of Kafka's."""


@record("chotki.packets", "a live packet as it came. Key: the source of its id, u64.")
class PacketRecord(Record):
    """Value of `chotki.packets`; its key is the source of the packet's id.

    `after` is the progress of that source that the connection had brought before: the packet counts once the
    deployment has reached it. `compat` says how the packet is read: a value in it may not parse by default.
    """

    bringer: Annotated[Bringer, spread]
    after: Annotated[int, "progress of the source that it builds on"]
    packet: Annotated[bytes, sized_between(0, MAX_PACKET_BYTES)]
    compat: SomeCompat = Compat.DEFAULT
