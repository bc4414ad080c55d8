"""References in values: found as Kafka's pattern finds them, in one pass."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drlib.errors import UsageError
from drlib.kafka.java_formats import references
from drlib.kafka.java_formats.properties import parse

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


def test_reference_of_a_directory_is_the_content_of_one_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "password").write_text('p=#" é${env:X}')
    assert references.resolve(f"a ${{directory:{tmp_path}:password}} b", "f:1") == 'a p=#" é${env:X} b'
    with pytest.raises(UsageError, match="has no value"):
        references.resolve(f"${{directory:{tmp_path}:none}}", "f:1")
    with pytest.raises(UsageError, match="no provider directory of this form"):
        references.resolve(f"${{directory:{tmp_path / 'deeper'}:../password}}", "f:1")
    (tmp_path / "password").write_bytes(b"\xff")
    with pytest.raises(UsageError, match="its content is not UTF-8"):
        references.resolve(f"${{directory:{tmp_path}:password}}", "f:1")


def test_providers_that_the_file_declares_under_other_names_are_kafkas_own(tmp_path: Path) -> None:
    package = "org.apache.kafka.common.config.provider."
    text = f"""
config.providers = vault, secrets, own
config.providers.vault.class = {package}FileConfigProvider
config.providers.secrets.class = {package}DirectoryConfigProvider
config.providers.own.class = com.example.OwnProvider
LEFT.ssl.truststore.password = ${{vault:/a:b}}${{own:c:d}} ${{env:E}}
LEFT.ssl.key.password = ${{secrets:/f:g}}
"""
    found = references.as_declared(parse(text, tmp_path / "mm2.properties")).effective()
    assert found["LEFT.ssl.truststore.password"].value == "${file:/a:b}${own:c:d} ${env:E}"
    assert found["LEFT.ssl.key.password"].value == "${directory:/f:g}"
