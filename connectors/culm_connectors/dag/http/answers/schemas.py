"""Models of the door's JSON: the same classes make the answers and the OpenAPI document."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from culm_connectors.dag.store.outcomes import OrderedPublish
from culm_models.dag.blocks.cid import Cid


def _text(value: object) -> object:
    """Convert CIDs to text and keys to hex."""
    if isinstance(value, Cid):
        return value.text
    return value.hex() if isinstance(value, bytes) else value


Text = Annotated[str, BeforeValidator(_text)]


class JsonAnswer(BaseModel):
    """One answer, made by `model_validate` from an object with the same fields. CIDs are texts."""

    model_config = ConfigDict(frozen=True, extra="forbid", from_attributes=True)


class Problem(JsonAnswer):
    """Problem details (RFC 9457)."""

    model_config = ConfigDict(frozen=True, extra="allow")

    type: str
    title: str
    status: int
    detail: str
    code: str = Field(description="stable: as on `rejected`, in metrics and over QUIC")


class PartAnswer(JsonAnswer):
    """Ranges of a shard that are here after a part."""

    shard: str
    size: int
    ranges: list[tuple[int, int]] = Field(description="offset and length, ascending, while it is not whole")
    is_whole: bool


class BlockAnswer(JsonAnswer):
    """Outcome of one node or UCAN."""

    cid: Text
    status: int = Field(ge=0, le=4, description="0 durable, 1 had it, 2 refused, 4 later")
    code: str | None
    waits_for: list[Text] = Field(validation_alias="missing", description="what it names that is not here")


class BlocksAnswer(JsonAnswer):
    """Outcomes of nodes and UCANs, in the order of the CAR."""

    results: list[BlockAnswer]


class PublishAnswer(JsonAnswer):
    """Outcome of a publish, and of the UCANs that came with it."""

    cid: str
    is_in_order: bool
    waits_for: list[str]
    results: list[BlockAnswer]


class LackAnswer(JsonAnswer):
    """Nodes and shards that are missing for some heads."""

    nodes: list[Text] = Field(description="replica nodes and UCANs")
    shards: list[Text]
    opaque: list[Text] = Field(
        validation_alias="opaque_shards", description="shards that are never opened, whether here or not"
    )


class PublishView(JsonAnswer):
    """One publish in the order of its id."""

    cid: Text
    prior: Text | None
    link: Text
    origin: Text
    shard: Text | None
    state: str


class PublishedView(JsonAnswer):
    """Published state of an id."""

    id: Text = Field(description="the public key in hex")
    count: int
    tip: PublishView | None
    latest_complete: PublishView | None
    heads: list[Text] = Field(description="publishes that lost a race: no other one builds on them")
    waiting: list[Text] = Field(description="publishes that are here and not in the order")


class RevisionView(JsonAnswer):
    """An id as of one operation of its order."""

    id: str
    position: int
    publish: PublishView
    latest_complete: PublishView | None


class LogView(JsonAnswer):
    """The order of an id, oldest first."""

    id: str
    count: int
    start: int = Field(description="the position of the first one that is listed")
    log: list[PublishView]


class EntryView(JsonAnswer):
    """One name in a directory."""

    name: str
    cid: str
    size: int | None


class DirectoryView(JsonAnswer):
    """A page of a directory."""

    cid: str
    entries: list[EntryView]
    is_cut: bool = Field(description="whether there is a further page")
    next: str | None = Field(description="the `start` of the further page")


class SymlinkView(JsonAnswer):
    """A symlink, which is not followed."""

    cid: str
    target: str


def texts(cids: tuple[Cid, ...]) -> list[str]:
    """Convert CIDs to text."""
    return [cid.text for cid in cids]


def publish_view(publish: OrderedPublish | None) -> PublishView | None:
    """Convert a publish to its JSON model; None stays None."""
    return None if publish is None else PublishView.model_validate(publish)
