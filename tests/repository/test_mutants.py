"""The list of mutants that change nothing: each is still one of its module's."""

from __future__ import annotations

from collections import defaultdict

from mutants.__main__ import EQUIVALENT
from mutants.mutate import mutants
from mutants.select import source


def test_listed_equivalent_mutants_exist() -> None:
    """The key of one that does not would hide another mutant that is later made under it."""
    listed = defaultdict[str, set[str]](set)
    for line in EQUIVALENT.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            key = line.split("  # ")[0]
            listed[key.split(":")[0]].add(key)
    stale = {
        key
        for module, keys in listed.items()
        for key in keys - {mutant.key for mutant in mutants(module, source(module).read_text(encoding="utf-8"))}
    }
    assert listed
    assert stale == set()
