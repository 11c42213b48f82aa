"""What is wrong with replica nodes and with what they are asked (reference 3.1, 3.2)."""

from typing import ClassVar

from culm_models.dag.errors.base import DagError


class NodeSchema(DagError):
    """A map with other keys or kinds than its kind has."""

    code: ClassVar[str] = "dag.schema"


class ChangeUnknown(DagError):
    """A change that is neither append, join nor publish."""

    code: ClassVar[str] = "dag.unknown_change"


class CidVersionUnfit(DagError):
    """A link that must be a CIDv1 and is none."""

    code: ClassVar[str] = "dag.cid_version"


class PriorCodec(DagError):
    """A prior that is not DAG-CBOR with a whole sha2-256."""

    code: ClassVar[str] = "dag.prior_codec"


class ForkCodec(DagError):
    """A fork that is not DAG-CBOR with a whole sha2-256."""

    code: ClassVar[str] = "dag.fork_codec"


class OriginCodec(DagError):
    """An origin that is not DAG-CBOR with a whole sha2-256."""

    code: ClassVar[str] = "dag.origin_codec"


class TooManyLinks(DagError):
    """More shards or forks than a node may name."""

    code: ClassVar[str] = "dag.too_many"


class JoinPriorMissing(DagError):
    """A join without prior."""

    code: ClassVar[str] = "dag.join_prior_missing"


class JoinEmpty(DagError):
    """A join without forks."""

    code: ClassVar[str] = "dag.join_empty"


class LinkRepeated(DagError):
    """Shards or forks that name one CID twice."""

    code: ClassVar[str] = "dag.duplicate"


class LinksUnsorted(DagError):
    """Shards or forks that do not ascend by their text."""

    code: ClassVar[str] = "dag.unsorted"


class JoinPriorOrder(DagError):
    """A join whose prior is not smaller than every fork."""

    code: ClassVar[str] = "dag.join_prior_order"


class ProofForm(DagError):
    """A proof in a form that a publish may not carry (R23)."""

    code: ClassVar[str] = "dag.proof_form"


class PriorRefused(DagError):
    """A node whose prior or fork was refused for good (R25)."""

    code: ClassVar[str] = "dag.prior_refused"


class ChainMixed(DagError):
    """A publish below an append or a join, or the other way round (R11)."""

    code: ClassVar[str] = "dag.mixed_chain"


class PublishIdChanged(DagError):
    """A publish whose prior publishes to another id."""

    code: ClassVar[str] = "dag.id_changed"


class NodeMissing(DagError):
    """A node that is needed here and is not here."""

    code: ClassVar[str] = "dag.missing"


class NothingToJoin(DagError):
    """Fewer than two heads that diverge."""

    code: ClassVar[str] = "dag.nothing_to_join"
