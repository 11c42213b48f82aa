"""The parts of a connector that speak p2panda, put together over an open index and a Kafka producer."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass

from culm_connectors.aquadoggo.links import NodeLinks
from culm_connectors.boot.boot import Boot
from culm_connectors.boot.claiming_store import ClaimingStore
from culm_connectors.boot.gaps import LogGaps
from culm_connectors.checking import CheckPool
from culm_connectors.index import IndexWriter
from culm_connectors.intake import Intake
from culm_connectors.kafka import BatchProducer, TopicReaders
from culm_connectors.p2panda.driver import Driver
from culm_connectors.p2panda.interest import Interest
from culm_connectors.p2panda.news import PeerNews
from culm_connectors.p2panda.publication import Publication
from culm_connectors.p2panda.quotas import Quotas
from culm_connectors.p2panda.settings import peer_settings
from culm_connectors.p2panda.subscription import Progress, Subscription
from culm_connectors.sds.driver import SdsDriver
from culm_connectors.sds.kafka_backbone import KafkaBackbone
from culm_connectors.service import PeerService
from culm_connectors.settings import ConnectorSettings
from culm_models.keys import KeyPair
from culm_models.p2panda.peer import Peer
from culm_topics.acls import connector_group_prefix
from culm_topics.kafka import KafkaSettings


@dataclass(frozen=True, slots=True)
class Parts:
    """Everything between peers, index and topics; none of it runs yet."""

    publication: Publication
    interest: Interest
    boot: Boot
    driver: Driver
    subscription: Subscription
    intake: Intake
    nodes: NodeLinks | None
    """Links to p2panda nodes, where there are to be any."""
    sds: SdsDriver | None
    """Links to participants of SDS channels, where they are served."""


def assemble(
    settings: ConnectorSettings,
    kafka: KafkaSettings,
    key_pair: KeyPair,
    *,
    connector_id: bytes,
    index: IndexWriter,
    pool: CheckPool,
    producer: BatchProducer,
    service: PeerService,
    channels: KafkaBackbone | None,
    progress: Progress,
    tell: Callable[[str | None], None],
) -> Parts:
    """The parts, `service` attached to them. `channels`: where SDS channels live, if they are served.

    `tell` hears what is missing before peers are served.
    """
    quotas = Quotas(
        index.store, author_bytes=settings.author_quota_bytes, peer_bytes=settings.peer_quota_bytes
    )
    publication = Publication(producer, index, kafka, connector_id, quotas)
    interest = Interest(settings.schemas, index.store)
    news = PeerNews(publication, interest)
    topics = TopicReaders(kafka, f"{connector_group_prefix(kafka)}{key_pair.public_key.hex()[:16]}")
    boot = Boot(kafka, index, pool, topics.whole_logs, progress)
    peer = Peer(
        key_pair.public_key,
        ClaimingStore(index.store, boot.claims),
        peer_settings(
            settings.sessions, settings.driver, live_mode=settings.live_mode, compat=settings.compat
        ),
        random_seed=secrets.randbits(64),
        admit=quotas.admit,
    )
    driver = Driver(
        peer,
        reader=index,
        sink=publication,
        observer=news,
        pool=pool,
        settings=settings.driver,
        permit=service.permit,
        schemas_of=service.schemas_of,
        expectations=boot.claims,
    )
    news.subscription = subscription = Subscription(
        driver=driver,
        index=index,
        interest=interest,
        publication=publication,
        pool=pool,
        boot=boot,
        gaps=LogGaps(index, pool, topics.whole_logs, publication.gap),
        connector_id=connector_id,
        verify_entries=settings.verify_entries_topic,
    )
    nodes = None
    if settings.listen_libp2p is not None or settings.dial_libp2p:
        nodes = NodeLinks(
            key_pair,
            beside=driver,
            schemas=lambda: tuple(filter(interest.keeps, interest.served)),
            index=index,
            sink=publication,
            observer=news,
            pool=pool,
            settings=settings.driver,
            transport=settings.transport,
            permit=service.permit,
            schemas_of=service.schemas_of,
            admit=quotas.admit,
        )
    sds = None
    if channels is not None:
        sds = SdsDriver(channels, settings.sds, connector_id=connector_id, permit=service.permit_channel)
        channels.hearing = sds
    service.attach(driver, nodes, sds)
    intake = Intake(
        topics=topics,
        index=index,
        interest=interest,
        boot=boot,
        driver=driver,
        subscription=subscription,
        progress=progress,
        tell=tell,
        serve_before_caught_up=settings.serve_before_caught_up,
    )
    return Parts(publication, interest, boot, driver, subscription, intake, nodes, sds)
