"""`sds.fetch`: messages that a channel lacks and whose retrieval is due."""

from typing import Annotated

from culm_models.sds.wire.messages import HistoryEntry
from culm_topics.records.declare import Record, record
from culm_topics.records.kinds import counted, row, rule
from culm_topics.sds.records.shape import Hint, SenderId, SomeId, SomeProfile

MAX_FETCH_ENTRIES = 1_000
"""Messages in one record; who wants more writes several."""

_Entry = Annotated[
    HistoryEntry,
    row(HistoryEntry, message_id=SomeId, retrieval_hint=Hint | None, sender_id=SenderId | None),
    rule("fetch-entry"),
]


@record("sds.fetch", "messages that a channel lacks. Key: channel id in UTF-8.")
class SdsFetchRecord(Record):
    """Value of `sds.fetch`; its key is the channel's.

    `entries` name the messages, each with the hint and the sender that were told with it. `attempt` counts
    from 1: the first ones ask the store, later ones peers too.
    """

    profile: SomeProfile
    entries: Annotated[tuple[_Entry, ...], counted(MAX_FETCH_ENTRIES, 1)]
    attempt: Annotated[int, "from 1"]
