r"""Which resources of ACLs stand for the names that a list of patterns matches.

Rules: a name that is written out (`orders`, `a\.b`) is a literal resource, a name followed by `.*` a prefixed one, `.*` alone
the literal `*`, which stands for every name; alternatives at the top (`a|b`) are taken one by one. A dot in a name stands for
itself, as lists of topics mean it (`eu.orders`), though the pattern would match `eu-orders` as well. Any other pattern has no
resource that stands for it, and is returned as it is: a wider one would grant more than is needed.
Not for: what a list leaves out (`topics.exclude`): a resource cannot leave out a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

EVERY: Final = "*"
_NAME: Final = r"(?:[A-Za-z0-9_\-]|\\[.\-_]|\.(?![*+?{]))*"
_LITERAL: Final = re.compile(rf"({_NAME})")
_PREFIX: Final = re.compile(rf"({_NAME})\.\*")


@dataclass(frozen=True, slots=True)
class Names:
    """One resource name of an ACL; `prefixed`: every name that starts with it."""

    name: str
    prefixed: bool = False

    def renamed(self, prefix: str) -> Names:
        """The names with `prefix` before them."""
        if not prefix:
            return self
        return Names(prefix, True) if self.name == EVERY else Names(prefix + self.name, self.prefixed)


def resources(patterns: Iterable[str]) -> tuple[tuple[Names, ...], tuple[str, ...]]:
    """The resources that stand for `patterns`, and the patterns for which there is none, both without repetition."""
    found: dict[Names, None] = {}
    rest: dict[str, None] = {}
    for pattern in patterns:
        alternatives = [_names(each) for each in pattern.split("|")]
        named = [each for each in alternatives if each is not None]
        if len(named) == len(alternatives):
            found.update(dict.fromkeys(named))
        else:
            rest[pattern] = None
    if Names(EVERY) in found:
        return (Names(EVERY),), tuple(rest)
    return tuple(found), tuple(rest)


def _names(pattern: str) -> Names | None:
    if pattern == ".*":
        return Names(EVERY)
    for form, prefixed in ((_LITERAL, False), (_PREFIX, True)):
        if (match := form.fullmatch(pattern)) is not None and match.group(1).strip("."):
            return Names(match.group(1).replace("\\", ""), prefixed)
    return None
