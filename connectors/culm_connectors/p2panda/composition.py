"""Composition of p2panda at the edge, over the shared service of replicated logs."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from culm_connectors.kafka import Progress
from culm_connectors.logs.follow_entries import EntriesFollower
from culm_connectors.logs.follow_logs import LogsFollower
from culm_connectors.logs.replicated_logs import ReplicatedLogs
from culm_connectors.logs.warm_start.claims import ClaimingStore
from culm_connectors.p2panda.access import SchemaAccess
from culm_connectors.p2panda.announcements import AnnouncementTopic
from culm_connectors.p2panda.aquadoggo.links import NodeLinks
from culm_connectors.p2panda.driver import Driver, nothing_to_settle
from culm_connectors.p2panda.interest import Interest
from culm_connectors.p2panda.peer_events import PeerEvents
from culm_connectors.p2panda.quotas import Quotas
from culm_connectors.p2panda.settings import peer_settings
from culm_connectors.p2panda.topic_followers import TopicFollowers
from culm_connectors.settings import ConnectorSettings
from culm_models.keys import KeyPair
from culm_models.p2panda.ingest import Admit, admit_everything
from culm_models.p2panda.peer import Peer
from culm_models.p2panda.wire.messages import MAX_OPERATION_BYTES
from culm_topics.kafka.clients import KafkaSettings


@dataclass(frozen=True, slots=True)
class Composition:
    """All parts between peers and the shared service of logs; they do not run yet."""

    logs: ReplicatedLogs
    interest: Interest
    driver: Driver
    followers: TopicFollowers
    nodes: NodeLinks | None
    """Links to p2panda nodes, where there are to be any."""


def assemble(
    settings: ConnectorSettings,
    kafka: KafkaSettings,
    key_pair: KeyPair,
    logs: ReplicatedLogs,
    *,
    access: SchemaAccess,
    progress: Progress,
    set_state: Callable[[str | None], None],
) -> Composition:
    """The parts, put together.

    `set_state` is given what is missing before peers are served.
    """
    index = logs.index
    admit: Admit = admit_everything
    settled = nothing_to_settle
    # They are asked for every entry: a connector without quotas has nobody to ask.
    if settings.max_bytes_per_author or settings.max_bytes_per_peer:
        quotas = Quotas(
            index.store, author_bytes=settings.max_bytes_per_author, peer_bytes=settings.max_bytes_per_peer
        )
        admit, settled = quotas.admit, quotas.arrived
    announcements = AnnouncementTopic(
        logs.sender, kafka.topic("announcements"), logs.publisher.refused_record
    )
    interest = Interest(settings.p2panda.schemas, index.store)
    events = PeerEvents(logs.publisher, interest, announcements)
    peer = Peer(
        key_pair.public_key,
        ClaimingStore(index.store, logs.warm_start.claims),
        peer_settings(
            settings.p2panda.sessions,
            settings.p2panda.driver,
            live_mode=settings.p2panda.live_mode,
            compat=settings.p2panda.compat,
        ),
        random_seed=secrets.randbits(64),
        admit=admit,
    )
    driver = Driver(
        peer,
        reader=index,
        sink=logs.hub.store,
        observer=events,
        pool=logs.pool,
        settings=settings.p2panda.driver,
        permit=access.permit,
        schemas_of=access.schemas_of,
        claims=logs.warm_start.claims,
        settled=settled,
    )
    logs.hub.subscribe(driver)
    announce_served = partial(interest.announce_served, driver.announce)
    nodes = None
    if settings.listen_libp2p is not None or settings.dial_libp2p:
        nodes = NodeLinks(
            key_pair,
            schemas=lambda: tuple(filter(interest.keeps, interest.served)),
            index=index,
            sink=logs.hub.store,
            observer=events,
            pool=logs.pool,
            settings=settings.p2panda.driver,
            transport=settings.transport,
            permit=access.permit,
            schemas_of=access.schemas_of,
            admit=admit,
            settled=settled,
        )
    followers = TopicFollowers(
        logs,
        interest,
        driver,
        announcements,
        LogsFollower(logs, interest, announce_served),
        EntriesFollower(
            logs,
            interest.keeps,
            max_payload_bytes=MAX_OPERATION_BYTES,
            verify_signatures=settings.verify_entries_topic,
        ),
        announce_served,
        progress,
        set_state,
        serve_before_caught_up=settings.serve_before_caught_up,
    )
    return Composition(logs, interest, driver, followers, nodes)
