"""Applies records of `sds.in` and `sds.commands` to their channel."""

from collections.abc import Callable
from typing import ClassVar

from culm_models.errors import CulmError
from culm_models.sds.errors import KnownMessageError, OwnMessageError, ParticipantError
from culm_models.sds.events import ChannelOutput, Rejected
from culm_models.sds.wire.messages import Profile
from culm_streaming.errors import StreamingError
from culm_streaming.sds.channel_batch import Input, OpenChannel
from culm_streaming.sds.output_records import HostingEvent
from culm_topics.records import MAX_REJECTED_DETAIL, PEER_ID_SIZE
from culm_topics.sds.records import SdsCommandRecord, SdsInRecord


class ProfileError(StreamingError):
    """A record has another wire profile than its channel, which has that of its first message."""

    code: ClassVar[str] = "sds.profile"


class UnknownChannelError(StreamingError):
    """A command for a channel without hosted participants: only `join` begins a channel."""

    code: ClassVar[str] = "sds.channel.unknown"


class CommandError(StreamingError):
    """A command is incomplete or not permitted."""

    code: ClassVar[str] = "sds.command"


def receive(opened: OpenChannel, record: SdsInRecord, incoming: Input, now_ms: int) -> None:
    """Process a message that a peer sent, or that was retrieved."""
    peer_id = record.peer_id
    if peer_id is None:
        output = opened.channel.receive(
            record.wire, now_ms, retrieval_hint=record.retrieval_hint, source="store"
        )
    else:
        binds = opened.binds_senders

        def admit(sender_id: str, is_new: bool) -> CulmError | None:
            if sender_id in opened.channel.participants:
                return OwnMessageError("the job hosts its sender, and did not send it")
            return opened.owners.admit(sender_id, peer_id, now_ms, is_new=is_new, binds=binds)

        output = opened.channel.receive(
            record.wire, now_ms, retrieval_hint=record.retrieval_hint, admit=admit
        )
    opened.take(output, now_ms, incoming)


def is_by_operator(record: SdsInRecord | SdsCommandRecord) -> bool:
    """Whether a record is an operator's command about the channel itself, whatever its profile is."""
    return (
        isinstance(record, SdsCommandRecord)
        and record.kind in ("open", "transfer")
        and record.peer_id is None
    )


def check_profile(opened: OpenChannel, profile: Profile) -> None:
    """Raise `ProfileError` if the channel has another profile."""
    if opened.record.profile != profile:
        raise ProfileError(f"the channel has profile {opened.record.profile}, the record {profile}")


def command(opened: OpenChannel, record: SdsCommandRecord, incoming: Input, now_ms: int) -> None:
    """Execute a command of a present or future hosted participant; once, however often it arrives.

    A refused command is answered by an event in addition to the record on `rejected`: the requester waits for
    it.
    """
    if not opened.is_kept and record.kind not in _BEGINNING:
        raise UnknownChannelError(f"{record.kind} in a channel without participants")
    if record.kind not in _BEGINNING:
        # Only the owner of an id gets an answer where its participant can see it.
        opened.owners.check(record.participant_id, record.peer_id)
    if opened.is_done(record.token):
        return
    try:
        _DONE[record.kind](opened, record, incoming, now_ms)
    except CulmError as error:
        if isinstance(error, KnownMessageError) and record.message_id is None:
            return  # the token has been forgotten, the message has not
        if opened.is_kept or record.kind == "join":
            opened.is_kept = True
            reason = str(error)[:MAX_REJECTED_DETAIL]
            event = Rejected(record.message_id or "", record.participant_id, error.code, reason)
            opened.report(event, now_ms, incoming)
        raise


def _join(opened: OpenChannel, record: SdsCommandRecord, incoming: Input, now_ms: int) -> None:
    participant_id, peer_id = record.participant_id, record.peer_id
    is_hosted = participant_id in opened.channel.participants
    if not opened.record.are_settings_final and opened.owners.owns_channel(peer_id):
        opened.decide_settings(record.settings, now_ms)
        opened.record.are_settings_final = True
    opened.owners.host(
        participant_id,
        peer_id,
        now_ms,
        is_hosted=is_hosted,
        has_spoken=opened.channel.has_spoken(participant_id),
    )
    output = ChannelOutput()
    if not is_hosted:
        output = opened.channel.join(participant_id, now_ms)
        opened.joined(participant_id, now_ms)
    opened.is_kept = True
    opened.report(HostingEvent("joined", participant_id), now_ms, incoming)
    opened.take(output, now_ms, incoming)


def _open(opened: OpenChannel, record: SdsCommandRecord, incoming: Input, now_ms: int) -> None:
    """Keep the channel: it has a participant. An operator may change its owner, or begin it anew."""
    if record.peer_id is None:
        if opened.record.profile != record.profile:
            opened.begin_anew(record.profile, now_ms)
        opened.owners.take_channel(_new_owner(record), now_ms)
    opened.is_kept = True


def _transfer(opened: OpenChannel, record: SdsCommandRecord, incoming: Input, now_ms: int) -> None:
    if record.peer_id is not None:
        raise CommandError("an id changes hands by an operator's command alone")
    opened.owners.give(record.participant_id, _new_owner(record), now_ms)
    opened.is_kept = True


def _new_owner(record: SdsCommandRecord) -> bytes | None:
    if record.content is not None and len(record.content) != PEER_ID_SIZE:
        raise CommandError(f"a peer id of {len(record.content)} bytes")
    return record.content


def _leave(opened: OpenChannel, record: SdsCommandRecord, incoming: Input, now_ms: int) -> None:
    if record.participant_id in opened.channel.participants:
        opened.take(opened.channel.leave(record.participant_id, now_ms), now_ms, incoming)
        opened.left(record.participant_id)
    opened.report(HostingEvent("left", record.participant_id), now_ms, incoming)


def _send(opened: OpenChannel, record: SdsCommandRecord, incoming: Input, now_ms: int) -> None:
    if record.content is None:
        raise CommandError(f"{record.kind} without content")
    output = opened.channel.send(
        record.participant_id,
        record.content,
        now_ms,
        ephemeral=record.kind == "ephemeral",
        message_id=record.message_id,
        nonce=record.token,
    )
    opened.take(output, now_ms, incoming)


def _resend(opened: OpenChannel, record: SdsCommandRecord, incoming: Input, now_ms: int) -> None:
    """Make unacknowledged messages due at once; they are sent with the batch."""
    participant_id, message_id = record.participant_id, record.message_id
    if participant_id not in opened.channel.participants:
        raise ParticipantError(f"{participant_id[:100]!r} is not hosted in this channel")
    if message_id is None:
        ids = [
            outgoing.message_id
            for outgoing in opened.channel.status().outgoing
            if outgoing.participant_id == participant_id
        ]
    else:
        waits = opened.channel.outgoing_message(message_id)
        ids = [message_id] if waits is not None and waits.participant_id == participant_id else []
    for resent_id in ids:
        opened.channel.send_again(resent_id, now_ms)
    if ids:
        opened.take(opened.channel.tick(now_ms, only="outgoing"), now_ms, incoming)


_BEGINNING = frozenset({"join", "open", "transfer"})
"""Commands that may be the first of a channel, and that check the owner of an id themselves."""

_DONE: dict[str, Callable[[OpenChannel, SdsCommandRecord, Input, int], None]] = {
    "join": _join,
    "leave": _leave,
    "send": _send,
    "ephemeral": _send,
    "resend": _resend,
    "open": _open,
    "transfer": _transfer,
}
