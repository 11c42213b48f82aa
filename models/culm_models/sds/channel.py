"""One channel: the participants hosted here and what they know together (specification "Protocol Steps").

Log, known ids, filter, Lamport timestamp and waiting messages are shared; each hosted participant has its
own unacknowledged messages, and hears its siblings as it hears everyone else. A full participant is a
channel with one hosted participant. Time, seed and nonces are arguments: the same inputs give the same
bytes and events. Nothing received raises: what is refused becomes a `rejected` event.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

from culm_models.sds.messages import Profile
from culm_models.sds.output import Output
from culm_models.sds.settings import SdsSettings
from culm_models.sds.status import Status

Part: TypeAlias = Literal["incoming", "outgoing", "sync", "repair"]
"""A part of the periodic work: fetches and losses, re-sends, syncs, repair requests and answers."""


class Channel:
    """The machine of one channel."""

    def __init__(
        self, channel_id: str, profile: Profile, settings: SdsSettings, *, now_ms: int, seed: bytes
    ) -> None:
        raise NotImplementedError

    def join(self, participant_id: str, now_ms: int) -> Output:
        """Host a participant from now on; `ParticipantError` when it is hosted already."""
        raise NotImplementedError

    def leave(self, participant_id: str, now_ms: int) -> Output:
        """Host it no longer: its unacknowledged messages are given up (`gave_up`)."""
        raise NotImplementedError

    def send(
        self,
        participant_id: str,
        content: bytes,
        now_ms: int,
        *,
        ephemeral: bool = False,
        message_id: str | None = None,
        retrieval_hint: bytes | None = None,
        nonce: bytes | None = None,
    ) -> Output:
        """Send a message of a hosted participant; `SdsError` where that is refused, and nothing changed then.

        `message_id`: chosen by the caller, else a hash over channel, participant, `nonce` and content;
        without a nonce one is drawn, so equal contents get different ids. A repeated nonce with equal content
        gives `KnownMessageError`. `retrieval_hint`: what causal histories of ours say how to fetch it.
        """
        raise NotImplementedError

    def receive(
        self, wire: bytes, now_ms: int, *, retrieval_hint: bytes | None = None, source: str | None = None
    ) -> Output:
        """Take a message as it came; never an error, whatever the bytes are.

        `source="store"`: it was retrieved; then a message of a hosted participant that is not known, as
        after a loss of state, is taken into the log too.
        """
        raise NotImplementedError

    def tick(self, now_ms: int, only: Part | None = None) -> Output:
        """Do what is due at this time; with `only`, what is due of one part."""
        raise NotImplementedError

    def next_due_ms(self) -> int | None:
        """When `tick` has something to do next; None: not before something else happens."""
        raise NotImplementedError

    def compare_head(self, head: Iterable[tuple[int, str]], now_ms: int) -> Output:
        """Compare with a store's newest messages, as (Lamport, id): unknown ones are missing from now on."""
        raise NotImplementedError

    def learn_hint(self, message_id: str, retrieval_hint: bytes) -> bool:
        """Remember how to fetch a message of the log, where that is not known; whether anything changed."""
        raise NotImplementedError

    @property
    def participants(self) -> tuple[str, ...]:
        """The hosted participants, in the order in which they joined."""
        raise NotImplementedError

    @property
    def journal_mark(self) -> int:
        """How many records the journal has had; the same number: the same log and filter."""
        raise NotImplementedError

    def journal_since(self, mark: int) -> bytes:
        """The records after a mark, to be appended to what is kept; `JournalForgottenError` if too old."""
        raise NotImplementedError

    def journal_whole(self) -> bytes:
        """The journal in its shortest form, to replace all that is kept."""
        raise NotImplementedError

    def apply_journal(self, data: bytes) -> None:
        """Take what `journal_whole` or `journal_since` gave, in that order, into a fresh channel."""
        raise NotImplementedError

    def head(self) -> bytes:
        """All else that must outlive a restart, in one small piece; it belongs to the journal's mark."""
        raise NotImplementedError

    def restore_head(self, data: bytes) -> None:
        """Take what `head` gave, after the journal."""
        raise NotImplementedError

    def status(self) -> Status:
        """What the channel knows and waits for, for people and tests."""
        raise NotImplementedError
