"""What a record of `sds.in` or `sds.commands` asks of its channel, and what becomes of it."""

from collections.abc import Callable

from culm_models.errors import CulmError
from culm_models.sds.channel_errors import KnownMessageError, ParticipantError
from culm_models.sds.events import Rejected
from culm_models.sds.messages import Profile
from culm_models.sds.output import Output
from culm_streaming.sds_channels.opened import Input, OpenChannel
from culm_streaming.sds_channels.refusals import CommandError, ProfileError, UnknownChannelError
from culm_streaming.sds_channels.told import HostingEvent
from culm_topics.records import SdsCommandRecord, SdsInRecord


def receive(opened: OpenChannel, record: SdsInRecord, given: Input, now_ms: int) -> None:
    """A message that a peer sent, or that was retrieved."""
    source = "store" if record.peer_id is None else None
    output = opened.channel.receive(record.wire, now_ms, retrieval_hint=record.retrieval_hint, source=source)
    opened.take(output, now_ms, given)


def check_profile(opened: OpenChannel | None, profile: Profile) -> None:
    """Raises `ProfileError` when the channel has another one."""
    if opened is not None and opened.record.profile != profile:
        raise ProfileError(f"the channel has profile {opened.record.profile}, the record {profile}")


def command(opened: OpenChannel, record: SdsCommandRecord, given: Input, now_ms: int) -> None:
    """A command of a hosted participant, or of one to be; done once however often it comes.

    One that is refused is answered by an event beside the record on `rejected`: whoever asked waits for it.
    """
    if not opened.is_kept and record.kind != "join":
        raise UnknownChannelError(f"{record.kind} in a channel that nobody has joined")
    if opened.is_done(record.token):
        return
    try:
        _DONE[record.kind](opened, record, given, now_ms)
    except CulmError as error:
        if isinstance(error, KnownMessageError) and record.message_id is None:
            return  # The token has been forgotten, the message has not.
        if opened.is_kept or record.kind == "join":
            opened.is_kept = True
            event = Rejected(record.message_id or "", record.participant_id, error.code, str(error)[:1_000])
            opened.tell(event, now_ms, given)
        raise


def _join(opened: OpenChannel, record: SdsCommandRecord, given: Input, now_ms: int) -> None:
    if not opened.record.are_settings_final:
        opened.decide_settings(record.settings, now_ms)
    output = Output()
    if record.participant_id not in opened.channel.participants:
        output = opened.channel.join(record.participant_id, now_ms)
        opened.joined(record.participant_id, now_ms)
    opened.is_kept = opened.record.are_settings_final = True
    opened.tell(HostingEvent("joined", record.participant_id), now_ms, given)
    opened.take(output, now_ms, given)


def _leave(opened: OpenChannel, record: SdsCommandRecord, given: Input, now_ms: int) -> None:
    if record.participant_id in opened.channel.participants:
        opened.take(opened.channel.leave(record.participant_id, now_ms), now_ms, given)
        opened.left(record.participant_id)
    opened.tell(HostingEvent("left", record.participant_id), now_ms, given)


def _send(opened: OpenChannel, record: SdsCommandRecord, given: Input, now_ms: int) -> None:
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
    opened.take(output, now_ms, given)


def _resend(opened: OpenChannel, record: SdsCommandRecord, given: Input, now_ms: int) -> None:
    """What is unheard is due at once; it goes out with the batch."""
    participant_id, message_id = record.participant_id, record.message_id
    if participant_id not in opened.channel.participants:
        raise ParticipantError(f"{participant_id[:100]!r} is not hosted in this channel")
    if message_id is None:
        ids = [
            one.message_id for one in opened.channel.status().outgoing if one.participant_id == participant_id
        ]
    else:
        waits = opened.channel.outgoing_message(message_id)
        ids = [message_id] if waits is not None and waits.participant_id == participant_id else []
    for one in ids:
        opened.channel.send_again(one, now_ms)
    if ids:
        opened.take(opened.channel.tick(now_ms, only="outgoing"), now_ms, given)


_DONE: dict[str, Callable[[OpenChannel, SdsCommandRecord, Input, int], None]] = {
    "join": _join,
    "leave": _leave,
    "send": _send,
    "ephemeral": _send,
    "resend": _resend,
}
