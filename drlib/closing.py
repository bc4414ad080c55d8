"""A context manager that ends with `close`."""

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """Closed at the end of a `with` block, however that ends."""

    @abstractmethod
    def close(self) -> object:
        """Release what is held. Safe to repeat."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
