"""``culm topics``: create the Kafka topics, and compare them with the catalogue."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer
from rich.markup import escape

from culm_infra import protocols
from culm_infra.cli.kit import options
from culm_infra.cli.kit.noun import noun
from culm_infra.cli.kit.options import KafkaFlags, SettingsFlags, named_once, refuse, words
from culm_infra.cli.kit.output import EXIT_DEGRADED, Results, out, say
from culm_infra.columns import Columns, Row

if TYPE_CHECKING:
    from culm_topics.kafka.acls import Grantee
    from culm_topics.kafka.admin import Durability
    from culm_topics.kafka.clients import KafkaSettings

TOPICS: Final[Mapping[str, str | Callable[[Row], object]]] = {
    "topic": "name",
    "partitions": lambda row: row["partitions"] if row["exists"] else "",
    "replicas": lambda row: row["replicas"] if row["exists"] else "",
    "state": lambda row: "exists" if row["exists"] else "missing",
}
WIDE: Final[Columns] = {
    **TOPICS,
    "in sync": lambda row: row["min_insync_replicas"] or "",
    "owner": "owner",
    "clean-up": "cleanup",
    "what it holds": "doc",
}


def _check_protocols(names: list[str] | None) -> list[str] | None:
    for name in names or ():
        if name not in protocols.NOUNS:
            raise typer.BadParameter(f"{name!r} is not a protocol: give {', '.join(protocols.NOUNS)}")
    return names


StrimziCluster = Annotated[str, typer.Option(metavar="NAME", help="The name of Strimzi's Kafka resource.")]
Protocols = Annotated[
    list[str] | None,
    typer.Option(
        "--protocol",
        metavar="|".join(protocols.NOUNS),
        help="Only the topics that this protocol uses; repeatable.",
        callback=_check_protocols,
        autocompletion=words(*protocols.NOUNS),
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLayout:
    """Layout of new topics."""

    partitions: Annotated[
        int | None, typer.Option(min=1, help="Partitions of the log topics (8 by default).")
    ] = None
    replication_factor: Annotated[
        int | None, typer.Option(min=1, help="Copies of each partition (the brokers' default).")
    ] = None


def list_(
    *,
    protocol: Protocols = None,
    wide: Annotated[
        bool, typer.Option("--wide", help="Also replicas in sync, owner, clean-up, and what it holds.")
    ] = False,
    kafka: KafkaFlags,
    results: Results,
) -> None:
    """List the topics of the catalogue without their prefix, and whether each exists.

    Example: `culm topics list --protocol sds`
    """
    from culm_topics.catalogue.topics import owner, readers, spec, topics_of, writers
    from culm_topics.kafka import admin

    settings = kafka.settings()
    in_sync = _min_insync_replicas(settings)
    rows = []
    for state in admin.list_topics(settings, topics_of(protocol or [])):
        topic = spec(state.name)
        rows.append(
            {
                "topic": state.full_name,
                "name": state.name,
                "owner": owner(topic),
                "exists": state.exists,
                "topic_id": state.topic_id,
                "partitions": state.partitions,
                "replicas": state.replicas,
                "min_insync_replicas": in_sync.get(state.full_name),
                "cleanup": topic.cleanup,
                "writers": writers(topic),
                "readers": readers(topic),
                "doc": topic.doc,
            }
        )
    results.rows(rows, WIDE if wide else TOPICS)
    results.say(f"every name is preceded by the prefix {settings.prefix!r}")
    if not all(row["exists"] for row in rows):
        results.next(_create_command(protocol, kafka))


def create(
    context: typer.Context,
    *,
    protocol: Protocols = None,
    kafka: KafkaFlags,
    layout: TopicLayout,
    form: Annotated[
        Literal["topics", "strimzi"],
        typer.Option("--as", help="Create topics in Kafka, or print Strimzi's KafkaTopics as YAML."),
    ] = "topics",
    strimzi_cluster: StrimziCluster = "kafka",
    results: Results,
) -> None:
    """Create missing topics; never alter an existing topic. Warns of topics with a single copy.

    With `--as strimzi` no broker is contacted: Strimzi creates the topics from what is printed.

    Example: `culm topics create --protocol p2panda --partitions 16 --replication-factor 3`
    """
    from culm_infra.settings import kafka_without_broker
    from culm_topics.catalogue.topics import owner, topics_of
    from culm_topics.kafka import admin
    from culm_topics.kafka.strimzi import strimzi_topics

    wanted = topics_of(protocol or [])
    if form == "strimzi":
        if results.json:
            raise typer.BadParameter("KafkaTopics are YAML", param_hint="--json")
        refuse(context, ["bootstrap", "kafka_option", "stack", "timeout_s"], "--as strimzi uses no broker")
        layout_only = kafka_without_broker(kafka.load(**asdict(layout)))
        out.print(strimzi_topics(layout_only, wanted, cluster=strimzi_cluster), markup=False, end="")
        return
    refuse(context, ["strimzi_cluster"], "goes with --as strimzi")
    settings = kafka.settings(**asdict(layout))
    created = admin.create(settings, wanted)
    new = [topic for topic in wanted if settings.topic(topic.name) in created]
    _warn(admin.durability(settings, new, with_config=False) if new else ())
    for topic in new:
        row = {"topic": settings.topic(topic.name), "owner": owner(topic)}
        results.one(row, f"{row['topic']} ({row['owner']})")
    results.say(f"{len(created)} created" if created else "nothing to create: every topic is there")
    results.next(*_job_runs(protocol, kafka))


def _create_command(names: Sequence[str] | None, kafka: KafkaFlags) -> str:
    """Return the command that creates the topics of these protocols."""
    return kafka.command("culm topics create" + "".join(f" --protocol {name}" for name in names or ()))


def _job_runs(names: Sequence[str] | None, kafka: KafkaFlags) -> list[str]:
    """Return the commands that run the jobs of these protocols, by default of the first one."""
    groups = [group for name in names or list(protocols.JOBS)[:1] for group in protocols.JOBS[name]]
    return [kafka.command(f"culm job run {group}") for group in dict.fromkeys(groups)]


def check(*, protocol: Protocols = None, kafka: KafkaFlags, layout: TopicLayout, results: Results) -> None:
    """Print every difference from the catalogue. Exit status 3: there are differences.

    The command also warns of data that the loss of one broker would cost; this does not change the exit
    status.

    Example: `culm topics check --json`
    """
    from culm_topics.catalogue.topics import topics_of
    from culm_topics.kafka import admin

    settings = kafka.settings(**asdict(layout))
    wanted = topics_of(protocol or [])
    differences = admin.check(settings, wanted)
    for difference in differences:
        results.one(asdict(difference), str(difference))
    _warn(admin.durability(settings, wanted))
    if any(difference.kind == "missing" for difference in differences):
        results.next(_create_command(protocol, kafka))
    if differences:
        raise typer.Exit(EXIT_DEGRADED)
    say("every topic is as in the catalogue")


def _warn(durabilities: Iterable[Durability]) -> None:
    for durability in durabilities:
        if (risk := durability.risk) is not None:
            say(f"[bold yellow]warning[/]: {escape(risk)}")


def _min_insync_replicas(settings: KafkaSettings) -> dict[str, int | None]:
    """Return `min.insync.replicas` by full name; empty if configurations may not be described."""
    from culm_topics.errors import KafkaFailure
    from culm_topics.kafka import admin

    try:
        return {durability.topic: durability.min_insync_replicas for durability in admin.durability(settings)}
    except KafkaFailure:
        return {}


def acls(
    context: typer.Context,
    *,
    settings_flags: SettingsFlags,
    prefix: options.Prefix = None,
    program: Annotated[
        Literal["admin", "connector", "job", "consumer", "operator"] | None,
        typer.Option(help="Only the rights of this program."),
    ] = None,
    principal: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PROGRAM=User:NAME", help="Who runs a program (User:culm-PROGRAM by default); repeatable."
        ),
    ] = None,
    form: Annotated[
        Literal["table", "script", "strimzi"],
        typer.Option("--as", help="A table, a script for kafka-acls.sh, or Strimzi's KafkaUsers as YAML."),
    ] = "table",
    strimzi_cluster: StrimziCluster = "kafka",
    results: Results,
) -> None:
    """Print the rights that each program needs on a broker with access control.

    Example: `culm topics acls --as script --principal connector=User:edge-7 > grant.sh`
    """
    from culm_infra.settings import kafka_without_broker
    from culm_topics.kafka.acls import GRANTEES, script
    from culm_topics.kafka.acls import acls as every_right
    from culm_topics.kafka.strimzi import strimzi_users

    if results.json:
        refuse(context, ["form"], "--json has one form")
    if form != "strimzi":
        refuse(context, ["strimzi_cluster"], "goes with --as strimzi")
    # Rights follow from the names alone, so no broker is contacted.
    kafka = kafka_without_broker(settings_flags.load(prefix=prefix))
    principals = principals_of(principal or [], GRANTEES if program is None else (program,))
    rights = every_right(kafka, GRANTEES if program is None else (program,))
    if form == "script":
        out.print(script(rights, principals), markup=False, end="")
    elif form == "strimzi":
        yaml = strimzi_users(rights, principals, cluster=strimzi_cluster)
        out.print(yaml, markup=False, end="")
    else:
        rows = [{"principal": principals[right.program], **asdict(right)} for right in rights]
        results.rows(rows, ("program", "resource", "name", "pattern", "operation"))


def principals_of(texts: list[str], shown: Sequence[Grantee]) -> dict[Grantee, str]:
    """Return the principal of every program; `texts` sets those of shown programs. Raises
    typer.BadParameter.
    """
    from culm_topics.kafka.acls import GRANTEES, default_principal

    pairs: list[tuple[Grantee, str]] = []
    for text in texts:
        name, _, principal = text.partition("=")
        program = next((program for program in shown if program == name), None)
        if program is None or ":" not in principal:
            raise typer.BadParameter(
                f"{text!r} is not PROGRAM=User:NAME; programs are {', '.join(shown)}",
                param_hint="--principal",
            )
        pairs.append((program, principal))
    defaults = {program: default_principal(program) for program in GRANTEES}
    return defaults | named_once(pairs, "--principal")


app = noun(
    "Create, list and check the Kafka topics; print access rights.",
    {"list": list_, "create": create, "check": check, "acls": acls},
)
