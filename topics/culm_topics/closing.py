"""Base class of objects that a `with` block closes."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Closing(ABC):
    """Object that is closed at the end of a `with` block, also after an error."""

    @abstractmethod
    def close(self) -> None:
        """Close connections and files. Further calls have no effect."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
