"""Fixtures of every test: one real Kafka for the session, and a prefix of topic names for each test."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator

import pytest
from hypothesis import settings

from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from tests.support.kafka.broker import Broker, NoBrokerError, delete_topics, running_broker
from tests.support.process.groups import give_children_default_signals

# A machine under load is slow, and no property is about time.
settings.register_profile("culm", deadline=None, max_examples=60)
settings.load_profile("culm")
# For `make test-slow`.
settings.register_profile("long", deadline=None, max_examples=500)
# For runs that look for another kind of fault than new examples would show.
settings.register_profile("few", deadline=None, max_examples=3, stateful_step_count=10)

_MARK = re.compile(r"mark\.(kafka|spark)")
_BROKER = pytest.StashKey[Broker]()


@pytest.fixture(scope="session")
def kafka_broker(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Broker]:
    """A real broker, started when the first test asks for it and stopped at the end."""
    try:
        with running_broker(tmp_path_factory.mktemp("kafka")) as broker:
            pytestconfig.stash[_BROKER] = broker
            yield broker
    except NoBrokerError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None


@pytest.fixture(scope="session")
def kafka_bootstrap(kafka_broker: Broker) -> str:
    """The address of the real broker."""
    return kafka_broker.bootstrap


@pytest.fixture
def topic_prefix(request: pytest.FixtureRequest) -> Iterator[str]:
    """A prefix of topic names that no other test has, so that tests share a broker and nothing else.

    On the shared broker its topics go with the test: one that has thousands is slow in all that it does.
    """
    prefix = f"t{uuid.uuid4().hex[:12]}."
    bootstrap = (
        request.getfixturevalue("kafka_bootstrap") if "kafka_bootstrap" in request.fixturenames else None
    )
    yield prefix
    if bootstrap is not None:
        delete_topics(bootstrap, prefix)


@pytest.fixture
def kafka(request: pytest.FixtureRequest, kafka_bootstrap: str, topic_prefix: str) -> KafkaSettings:
    """Fresh topics on the real broker, of two partitions or of as many as the file's PARTITIONS says."""
    partitions = getattr(request.module, "PARTITIONS", 2)
    settings = KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix, partitions=partitions)
    admin.create(settings)
    return settings


def pytest_configure() -> None:
    """Let what tests start be stopped, however the tests were started."""
    give_children_default_signals()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first: where several processes share the files, the last ones to begin should be short."""
    items.sort(key=_how_late)
    marked = {
        item.path for item in items if any(item.get_closest_marker(name) for name in ("kafka", "spark"))
    }
    for path in marked:
        if not _MARK.search(path.read_text()):
            raise pytest.UsageError(
                f"{path}: `make test-components` looks for the text mark.kafka or mark.spark"
            )


def _how_late(item: pytest.Item) -> int:
    parts = item.path.parts
    long_first = ("e2e", "streaming", "hostile")
    return next((rank for rank, name in enumerate(long_first) if name in parts), len(long_first))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say which broker the results speak of."""
    broker = config.stash.get(_BROKER, None)
    if broker is not None:
        terminalreporter.write_line(f"kafka: {broker.bootstrap} ({broker.origin})")
