"""What a message says of our own: acknowledgements as events (specification "Review ACK Status")."""

from __future__ import annotations

from collections.abc import Iterable

from culm_models.sds.acknowledgement import Acknowledged as AcknowledgedFact
from culm_models.sds.bloom import ReceivedFilter
from culm_models.sds.events import Acknowledged, PossiblyAcknowledged
from culm_models.sds.output import Collected
from culm_models.sds.parts import Parts


def parsed(parts: Parts, value: bytes | None) -> ReceivedFilter | None:
    """The filter of a message; None when there is none, or none of this channel's measures."""
    if not value:
        return None
    settings = parts.settings
    return ReceivedFilter.parse(
        parts.facts.bloom_layout, value, settings.bloom_capacity, settings.bloom_error_rate
    )


def review(
    parts: Parts,
    sender_id: str,
    history_ids: Iterable[str],
    found: ReceivedFilter | None,
    now_ms: int,
    collected: Collected,
) -> bool:
    """Let a message of `sender_id` acknowledge those of hosted participants; whether it did."""
    facts = parts.outgoing.review(sender_id, history_ids, found, now_ms)
    for fact in facts:
        if not isinstance(fact, AcknowledgedFact):
            collected.events.append(PossiblyAcknowledged(fact.message_id, fact.participant_id, fact.evidence))
        elif fact.how == "history":
            collected.events.append(
                Acknowledged(
                    fact.message_id, fact.participant_id, "causal_history", (fact.by,), fact.attempts
                )
            )
        else:
            collected.events.append(
                Acknowledged(
                    fact.message_id, fact.participant_id, "bloom_filter", fact.evidence, fact.attempts
                )
            )
    return bool(facts)
