"""A channel's record in state: all of it that is small, read and written whenever the channel is touched.

`token` stands for everything that was ever written of the channel: it is a hash over the former token and
what is written now, so a worker's copy of the channel with the same token is the channel as it is in state.
"""

from dataclasses import dataclass, field
from hashlib import blake2b

import cbor2

from culm_models.sds.wire.messages import Profile
from culm_streaming.errors import StateLayoutError
from culm_streaming.sds.journal import Journal
from culm_streaming.sds.state import Kind, State, name_of
from culm_topics.sds.records import Details

_FORMAT = 2
_FORMAT_WITHOUT_OWNERS = 1
_TOKEN_BYTES = 16
NO_TOKEN = bytes(_TOKEN_BYTES)


@dataclass(slots=True)
class ChannelRecord:
    """`lineage`: former tokens, each with the journal's mark of that time, the newest last.

    `settings` are those that differ from the profile's, `are_settings_final` whether a join has decided them.
    `last_ms` is the channel's clock, `due_ms` when it has something to do, `wake_ms` when it is looked at.
    `lost` counts the ids given up so far. `held` are messages in quarantine whose bytes are kept. `head` is
    the machine's own (`Channel.head`). `owned` counts the participant ids that belong to somebody (`owners`).
    """

    profile: Profile
    settings: Details = field(default_factory=dict)
    are_settings_final: bool = False
    last_ms: int = 0
    event_number: int = 0
    lost: int = 0
    due_ms: int | None = None
    wake_ms: int | None = None
    held: list[str] = field(default_factory=list)
    token: bytes = NO_TOKEN
    lineage: list[tuple[bytes, int]] = field(default_factory=list)
    journal: Journal = field(default_factory=Journal)
    head: bytes = b""
    owned: int = 0

    def pack(self) -> bytes:
        """The record's bytes: equal for equal records."""
        return cbor2.dumps(
            (
                _FORMAT,
                self.profile,
                dict(sorted(self.settings.items())),
                self.are_settings_final,
                self.last_ms,
                self.event_number,
                self.lost,
                self.due_ms,
                self.wake_ms,
                self.held,
                self.token,
                self.lineage,
                self.journal.pack(),
                self.head,
                self.owned,
            )
        )

    @staticmethod
    def unpack(blob: bytes) -> "ChannelRecord":
        """What `pack` gave. Raises `StateLayoutError` for another format."""
        form, *items = cbor2.loads(blob)
        if form == _FORMAT_WITHOUT_OWNERS:
            items.append(0)
        elif form != _FORMAT:
            raise StateLayoutError(f"a channel's state has format {form}, this program knows {_FORMAT}")
        profile, settings, are_final, last_ms, number, lost, due_ms, wake_ms, *rest = items
        held, token, lineage, journal, head, owned = rest
        named = {name: tuple(value) if type(value) is list else value for name, value in settings.items()}
        pairs = [(former, mark) for former, mark in lineage]
        return ChannelRecord(
            profile,
            named,
            are_final,
            last_ms,
            number,
            lost,
            due_ms,
            wake_ms,
            held,
            token,
            pairs,
            Journal.unpack(journal),
            head,
            owned,
        )

    def advance(self, former_mark: int, written: bytes, most: int, *, is_anew: bool) -> None:
        """The token after `written` and the head; behind a journal written anew no former copy goes on."""
        if is_anew:
            self.lineage = []
        elif self.token != NO_TOKEN:
            self.lineage = [*self.lineage, (self.token, former_mark)][-most:]
        settings = cbor2.dumps((self.profile, dict(sorted(self.settings.items()))))
        digest = blake2b(self.token, digest_size=_TOKEN_BYTES)
        for part in (settings, written, self.head):
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
        self.token = digest.digest()


def load_record(state: State, channel_id: str) -> ChannelRecord | None:
    """A channel's record; None where the channel is not in state."""
    blob = state.load(Kind.CHANNEL, name_of(channel_id))
    return None if blob is None else ChannelRecord.unpack(blob)


def save_record(state: State, channel_id: str, record: ChannelRecord) -> None:
    """Write a channel's record."""
    state.save(Kind.CHANNEL, name_of(channel_id), record.pack())
