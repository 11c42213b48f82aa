"""``culm sds reset-clock``: undo what a full participant sent with a wrong clock."""

from __future__ import annotations

import secrets
import shlex
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from culm_infra.cli.kit.output import Results, emit_json, out, safe
from culm_infra.cli.sds.channel import Channel, check_channel
from culm_infra.cli.sds.participation import ParticipantFlags, ParticipantIdentity
from culm_infra.errors import InfraError
from culm_models.sds.events import Withdrawn

if TYPE_CHECKING:
    from culm_connectors.sds.participants.participant import Participant as FullParticipant

_NONCE_BYTES = 16


def reset_clock(
    channel: Channel,
    *,
    send_again: Annotated[
        bool, typer.Option("--send-again", help="Send what the participant loses by it once more, as new.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Even if messages of others go: the clock of now is right.")
    ] = False,
    flags: ParticipantFlags,
    results: Results,
) -> None:
    """Undo what a full participant sent while its clock was ahead.

    Other participants do not deliver messages from the future, nor messages that follow them. Set the clock
    right first. Messages that are further ahead of it than the channel allows are removed from the
    participant's log, and it sends with the present time again. Other participants may hold such messages
    that are less than a day ahead; they deliver them when their time has come. No other process may use this
    participant meanwhile.

    Example: `culm sds reset-clock general --participant ann --send-again`
    """
    check_channel(channel)
    identity = flags.identity(channel, hosted=False)
    withdrawn = _reset(identity, send_again=send_again, force=force)
    for message in withdrawn:
        again = "" if message["sent_again_as"] is None else f"  sent again as {message['sent_again_as']}"
        if results.json:
            emit_json({"channel": channel, "participant_id": identity.participant_id, **message})
        else:
            out.print(f"{safe(message['message_id'])}{again}")
    if not withdrawn:
        results.say("no message is further ahead of the clock than allowed; nothing is changed")
    elif send_again:
        named = "" if flags.participant is None else f" --participant {shlex.quote(flags.participant)}"
        results.next(f"culm sds join {shlex.quote(channel)} ADDRESS{named}")


def _reset(identity: ParticipantIdentity, *, send_again: bool, force: bool) -> list[dict[str, Any]]:
    from culm_connectors.sds.participants.participant import Participant
    from culm_connectors.sds.participants.state import StateFolder

    if not identity.folder.exists():
        raise InfraError(
            f"{identity.participant_id!r} is no full participant of {identity.channel_id!r} here",
            hint="--participant, --profile and --dir select one; a hosted one goes by the clocks of Kafka",
        )
    with StateFolder(identity.folder) as folder:
        clock_ms = time.time_ns() // 1_000_000
        participant = Participant(
            folder,
            identity.channel_id,
            identity.profile,
            identity.participant_id,
            settings=None,
            now_ms=clock_ms,
            seed=secrets.token_bytes(32),
        )
        participant.set_clock(participant.now_ms, clock_ms)
        output = participant.withdraw_ahead(participant.now_ms).output
        withdrawn = [event for event in output.events if isinstance(event, Withdrawn)]
        foreign = sum(event.participant_id is None for event in withdrawn)
        if foreign and not force:
            # Nothing was committed, so the folder is unchanged.
            raise InfraError(
                f"{foreign} messages of others are ahead of the clock too: it may be behind",
                hint="set the clock right; if it is, --force withdraws them all",
            )
        rows = _send_again(participant, withdrawn) if send_again else dict.fromkeys(withdrawn)
        participant.commit()
    return [
        {
            "message_id": event.message_id,
            "sender_id": event.sender_id,
            "lamport_timestamp": event.lamport_timestamp,
            "sent_again_as": rows[event],
        }
        for event in reversed(withdrawn)
    ]


def _send_again(participant: FullParticipant, withdrawn: list[Withdrawn]) -> dict[Withdrawn, str | None]:
    """Send the contents of the participant's own messages again, in order, at the next connection.

    Returns the new message id of each withdrawn message; None for messages of others.
    """
    contents = {message.message_id: message.content for message in participant.history() if message.own}
    rows: dict[Withdrawn, str | None] = {}
    for event in reversed(withdrawn):
        content = contents.get(event.message_id) if event.participant_id is not None else None
        rows[event] = None
        if content is not None:
            nonce = secrets.token_bytes(_NONCE_BYTES)
            rows[event] = participant.send(content, participant.now_ms, nonce).output.send[0].message_id
    return rows
