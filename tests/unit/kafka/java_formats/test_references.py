"""References in values: found as Kafka's pattern finds them, in one pass."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drlib.errors import UsageError
from drlib.kafka.java_formats import references

# Of Kafka's `ConfigTransformer`, with what follows the last colon as the key.
KAFKAS = re.compile(r"\$\{([^}:]*):(?:([^}]*?):)?([^}:]*)\}")
texts = st.lists(st.sampled_from(["${", "$", "{", "}", ":", "env", "A", "\n"]), max_size=14).map("".join)


@given(texts)
def test_references_are_those_of_the_pattern(text: str) -> None:
    wanted = [(m.start(), m.end(), m[1], m[2] or "", m[3]) for m in KAFKAS.finditer(text)]
    found = [(r.start, r.end, r.provider, r.path, r.key) for r in references._references(text)]
    assert found == wanted
    assert references.without_references(text) == KAFKAS.sub("", text)
    assert references.refers(text) == bool(wanted)


@pytest.mark.parametrize("repeated", ["${", "${a:", "${a:b:", "${a}", ":", "${a:b"])
def test_references_of_a_long_text_are_found_in_one_pass(repeated: str) -> None:
    references.without_references(repeated * 1_000_000)


def test_reference_without_a_value_is_an_error_that_shows_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DRLIB_NONE", raising=False)
    monkeypatch.setenv("DRLIB_SOME", "canary")
    assert references.resolve("a ${env:DRLIB_SOME} b", "f:1") == "a canary b"
    with pytest.raises(UsageError, match=r"f:1: \$\{env:DRLIB_NONE\} has no value") as met:
        references.resolve("${env:DRLIB_SOME} ${env:DRLIB_NONE}", "f:1")
    assert "canary" not in str(met.value)
