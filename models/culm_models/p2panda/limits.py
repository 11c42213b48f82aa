"""Sizes that every part of p2panda agrees on: whoever signs, takes, stores, forwards and reads.

A message that a reader refuses ends its stream, and with it everything behind that message. Therefore nothing
larger than `MAX_OPERATION_BYTES` is signed or taken, nothing larger than `MAX_MESSAGE_BYTES` is sent to a
peer, and no reader takes less than that.
"""

from typing import Final

MAX_MESSAGE_BYTES: Final = 2 * 1024 * 1024
"""The largest message that is sent; every reader takes at least this much."""

LARGEST_READ_BYTES: Final = 3 * 1024 * 1024
"""The most that a reader can be configured to take: p2panda nodes name all their logs in one message."""

MAX_OPERATION_BYTES: Final = MAX_MESSAGE_BYTES - 256
"""The largest operation: with the largest entry and the largest session id it still fits one message."""
