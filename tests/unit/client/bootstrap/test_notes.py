"""The page of the bootstrap address has every note with its severity, and names tests that exist."""

from __future__ import annotations

import re

from repository_root import ROOT, TESTS

from drlib.client.bootstrap.notes import KINDS, STATE

PAGE = (ROOT / "docs" / "clients.md").read_text()
ROW = re.compile(r"^\| `(\w+)` \| (info|warning|error) \| .* \| `(test_\w+)` \|$", re.MULTILINE)


def test_clients_page_has_every_note_with_its_severity() -> None:
    documented = {name: severity for name, severity, _ in ROW.findall(PAGE)}
    assert documented == {name: kind.severity.value for name, kind in KINDS.items()}


def test_clients_page_names_existing_tests() -> None:
    sources = "\n".join(path.read_text() for path in TESTS.rglob("test_bootstrap*.py"))
    sources += "\n".join(path.read_text() for path in (TESTS / "unit" / "client" / "bootstrap").glob("*.py"))
    named = {test for *_, test in ROW.findall(PAGE)}
    assert {test for test in named if f"def {test}(" not in sources} == set()


def test_notes_but_changes_of_state_have_a_remedy() -> None:
    assert {name for name, kind in KINDS.items() if not kind.remedy} == {STATE}
