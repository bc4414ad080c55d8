"""The labs of lessons: one for all, and beside it those of lessons that have their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from drlib.lab.lab import Lab
from drlib.training.academy.open import lesson_class


@contextmanager
def lab_of(key: str, shared: Lab) -> Iterator[Lab]:
    """The lab that lesson `key` uses where a learner's is `shared`: that, or one of its own, up in the block."""
    lesson = lesson_class(key)
    root = lesson.lab.folder(shared.root)
    if root == shared.root:
        yield shared
        return
    with Lab(root, lesson.lab.aliases, security=lesson.lab.security) as own:
        yield own
