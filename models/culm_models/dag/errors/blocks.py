"""What is wrong with bytes, CIDs, blocks, CARs and shards (reference 1.1 to 1.3, 3.5, 3.6)."""

from culm_models.dag.errors.base import DagError


class VarintMalformed(DagError, code="dag.varint"):
    """An unsigned varint that is cut, longer than 9 bytes, or not the shortest form."""


class CidMalformed(DagError, code="dag.bad_cid"):
    """A CID, in bytes or as text, that is not exactly one whole CID in its one form (R1)."""


class NonCanonical(DagError, code="dag.non_canonical"):
    """Bytes that are not the one DAG-CBOR encoding of a value (R2), or a value that has none."""


class DagJsonMalformed(DagError, code="dag.dag_json"):
    """A value that cannot be written as DAG-JSON, or JSON that is no DAG-JSON."""


class DagPbMalformed(DagError, code="dag.dag_pb"):
    """Bytes that are no dag-pb node, or no UnixFS message."""


class BlockTooLarge(DagError, code="dag.too_large"):
    """More bytes, roots or sections than the bounds of 3.4 allow."""


class HashMismatch(DagError, code="dag.hash"):
    """A block that does not match its CID, or whose CID has a digest cut short."""


class HashUnsupported(DagError, code="dag.hash_unsupported"):
    """A hash function that this deployment does not check."""


class CarHeaderMalformed(DagError, code="dag.car_header"):
    """A CAR without header, or with one that is not exactly roots and version."""


class CarVersionUnknown(DagError, code="dag.car_version"):
    """A CAR of another version than 1."""


class CarV2(DagError, code="dag.car_v2"):
    """The pragma of CARv2."""


class CarSectionMalformed(DagError, code="dag.car_section"):
    """A section of length 0, zero padding, or a cut last section."""


class ShardMalformed(DagError, code="dag.shard"):
    """A shard in DAG-CBOR that is not a map of blocks and perhaps roots."""


class BlockUnknown(DagError, code="dag.unknown_block"):
    """A block of a codec that is neither node, UCAN nor shard."""


class BlockMissing(DagError, code="dag.missing_block"):
    """A block that is needed here and was not given."""


class PathUnknown(DagError, code="dag.no_path"):
    """A path that leads nowhere."""


class EntityBytesMalformed(DagError, code="dag.entity_bytes"):
    """A range of a file's bytes that is not from:to."""


class DirectoryTooLarge(DagError, code="dag.directory_too_large"):
    """A directory that cannot be sharded (HAMT), since two of its names have the same hash."""


class Blocked(DagError, code="dag.blocked"):
    """A shard or a space that this deployment has blocked (R33)."""
