"""Python's garbage collector in Spark's workers."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """For work with many objects and no cycles: the collector would walk through them for nothing."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
