"""What is wrong with replica nodes and with what they are asked (reference 3.1, 3.2)."""

from culm_models.dag.errors.base import DagError


class NodeSchema(DagError, code="dag.schema"):
    """A map with other keys or kinds than its kind has."""


class ChangeUnknown(DagError, code="dag.unknown_change"):
    """A change that is neither append, join nor publish."""


class CidVersionUnfit(DagError, code="dag.cid_version"):
    """A link that must be a CIDv1 and is none."""


class PriorCodec(DagError, code="dag.prior_codec"):
    """A prior that is not DAG-CBOR with a whole sha2-256."""


class ForkCodec(DagError, code="dag.fork_codec"):
    """A fork that is not DAG-CBOR with a whole sha2-256."""


class OriginCodec(DagError, code="dag.origin_codec"):
    """An origin that is not DAG-CBOR with a whole sha2-256."""


class TooManyLinks(DagError, code="dag.too_many"):
    """More shards or forks than a node may name."""


class JoinPriorMissing(DagError, code="dag.join_prior_missing"):
    """A join without prior."""


class JoinEmpty(DagError, code="dag.join_empty"):
    """A join without forks."""


class LinkRepeated(DagError, code="dag.duplicate"):
    """Shards or forks that name one CID twice."""


class LinksUnsorted(DagError, code="dag.unsorted"):
    """Shards or forks that do not ascend by their text."""


class JoinPriorOrder(DagError, code="dag.join_prior_order"):
    """A join whose prior is not smaller than every fork."""


class ProofForm(DagError, code="dag.proof_form"):
    """A proof in a form that a publish may not carry (R23)."""


class PriorRefused(DagError, code="dag.prior_refused"):
    """A node whose prior or fork was refused for good (R25)."""


class ChainMixed(DagError, code="dag.mixed_chain"):
    """A publish below an append or a join, or the other way round (R11)."""


class PublishIdChanged(DagError, code="dag.id_changed"):
    """A publish whose prior publishes to another id."""


class NodeMissing(DagError, code="dag.missing"):
    """A node that is needed here and is not here."""


class NothingToJoin(DagError, code="dag.nothing_to_join"):
    """Fewer than two heads that diverge."""
