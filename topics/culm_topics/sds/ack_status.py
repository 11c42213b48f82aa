"""The present contents of `sds.acks`: channels, hosted participants, and each message's acknowledgements."""

from collections import Counter
from dataclasses import dataclass, field

from culm_topics.errors import RecordError
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.readers.batch import PassedOver
from culm_topics.readers.partitions import TopicPartitions, read_until
from culm_topics.sds.keys import shard_of, split_ack_key
from culm_topics.sds.records import AckState, SdsAckRecord, SdsChannelRecord, SdsParticipantRecord


@dataclass(slots=True)
class ParticipantStatus:
    """One hosted participant; `row` is None if only its messages are known yet."""

    row: SdsParticipantRecord | None = None
    messages: dict[str, SdsAckRecord] = field(default_factory=dict)

    def counts(self) -> Counter[AckState]:
        """Count its messages by state; of finished messages the newest 1,000 are known."""
        return Counter(message.state for message in self.messages.values())


@dataclass(slots=True)
class ChannelStatus:
    """One channel; `summary` is None if only rows of its participants are known yet."""

    summary: SdsChannelRecord | None = None
    participants: dict[str, ParticipantStatus] = field(default_factory=dict)

    @property
    def ahead_ms(self) -> int | None:
        """Milliseconds by which the Lamport clock is ahead of the channel's time; negative: behind it."""
        if self.summary is None:
            return None
        unit_ms = 1000 if self.summary.profile == "nim" else 1
        return self.summary.lamport_timestamp * unit_ms - self.summary.time_ms // unit_ms * unit_ms

    def participant(self, participant_id: str) -> ParticipantStatus:
        """Return the status of a participant, created if necessary."""
        return self.participants.setdefault(participant_id, ParticipantStatus())


def read_channels(
    settings: KafkaSettings, channel_id: str | None = None, *, passed_over: PassedOver | None = None
) -> dict[str, ChannelStatus]:
    """Return every channel, or only `channel_id`, by channel id; the last record of a key counts.

    For a single channel only its partition is read. `Malformed` records are skipped, and counted in
    `passed_over` if it is given. Raises `TopicMissing`, `KafkaFailure`.
    """
    unread = passed_over or PassedOver("sds.acks")
    channels: dict[str, ChannelStatus] = {}
    with TopicPartitions(settings, "sds.acks") as reader:
        count = reader.count()
        partitions = range(count) if channel_id is None else (shard_of(channel_id, count),)
        ends = reader.read_from({partition: reader.range_of(partition)[0] for partition in partitions})
        for record in read_until(reader, ends):
            try:
                if channel_id is None or split_ack_key(record.key).channel_id == channel_id:
                    apply_ack(channels, record.key, record.value)
            except RecordError as error:
                unread.add(record, error)
    return channels


def apply_ack(channels: dict[str, ChannelStatus], raw: bytes, value: bytes) -> None:
    """Apply the next record of `sds.acks`; an empty value removes. Raises `RecordError` if it is malformed.

    A malformed record changes nothing.
    """
    key = split_ack_key(raw)
    if key.participant_id is None:
        summary = SdsChannelRecord.decode(value) if value else None
        channel = channels.setdefault(key.channel_id, ChannelStatus())
        channel.summary = summary
    elif key.message_id is None:
        row = SdsParticipantRecord.decode(value) if value else None
        channel = channels.setdefault(key.channel_id, ChannelStatus())
        channel.participant(key.participant_id).row = row
    else:
        message = SdsAckRecord.decode(value) if value else None
        channel = channels.setdefault(key.channel_id, ChannelStatus())
        messages = channel.participant(key.participant_id).messages
        if message is None:
            messages.pop(key.message_id, None)
        else:
            messages[key.message_id] = message
    if key.participant_id is not None:
        participant = channel.participants.get(key.participant_id)
        if participant is not None and participant.row is None and not participant.messages:
            del channel.participants[key.participant_id]
    if channel.summary is None and not channel.participants:
        del channels[key.channel_id]
