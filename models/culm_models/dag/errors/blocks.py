"""What is wrong with bytes, CIDs, blocks, CARs and shards (reference 1.1 to 1.3, 3.5, 3.6)."""

from typing import ClassVar

from culm_models.dag.errors.base import DagError


class VarintMalformed(DagError):
    """An unsigned varint that is cut, longer than 9 bytes, or not the shortest form."""

    code: ClassVar[str] = "dag.varint"


class CidMalformed(DagError):
    """A CID, in bytes or as text, that is not exactly one whole CID in its one form (R1)."""

    code: ClassVar[str] = "dag.bad_cid"


class NonCanonical(DagError):
    """Bytes that are not the one DAG-CBOR encoding of a value (R2), or a value that has none."""

    code: ClassVar[str] = "dag.non_canonical"


class DagJsonMalformed(DagError):
    """A value that cannot be written as DAG-JSON, or JSON that is no DAG-JSON."""

    code: ClassVar[str] = "dag.dag_json"


class DagPbMalformed(DagError):
    """Bytes that are no dag-pb node, or no UnixFS message."""

    code: ClassVar[str] = "dag.dag_pb"


class BlockTooLarge(DagError):
    """More bytes, roots or sections than the bounds of 3.4 allow."""

    code: ClassVar[str] = "dag.too_large"


class HashMismatch(DagError):
    """A block that does not match its CID, or whose CID has a digest cut short."""

    code: ClassVar[str] = "dag.hash"


class HashUnsupported(DagError):
    """A hash function that this deployment does not check."""

    code: ClassVar[str] = "dag.hash_unsupported"


class CarHeaderMalformed(DagError):
    """A CAR without header, or with one that is not exactly roots and version."""

    code: ClassVar[str] = "dag.car_header"


class CarVersionUnknown(DagError):
    """A CAR of another version than 1."""

    code: ClassVar[str] = "dag.car_version"


class CarV2(DagError):
    """The pragma of CARv2."""

    code: ClassVar[str] = "dag.car_v2"


class CarSectionMalformed(DagError):
    """A section of length 0, zero padding, or a cut last section."""

    code: ClassVar[str] = "dag.car_section"


class ShardMalformed(DagError):
    """A shard in DAG-CBOR that is not a map of blocks and perhaps roots."""

    code: ClassVar[str] = "dag.shard"


class BlockUnknown(DagError):
    """A block of a codec that is neither node, UCAN nor shard."""

    code: ClassVar[str] = "dag.unknown_block"


class BlockMissing(DagError):
    """A block that is needed here and was not given."""

    code: ClassVar[str] = "dag.missing_block"


class PathUnknown(DagError):
    """A path that leads nowhere."""

    code: ClassVar[str] = "dag.no_path"


class EntityBytesMalformed(DagError):
    """A range of a file's bytes that is not from:to."""

    code: ClassVar[str] = "dag.entity_bytes"


class DirectoryTooLarge(DagError):
    """A directory that cannot be sharded (HAMT), since two of its names have the same hash."""

    code: ClassVar[str] = "dag.directory_too_large"


class Blocked(DagError):
    """A shard or a space that this deployment has blocked (R33)."""

    code: ClassVar[str] = "dag.blocked"
