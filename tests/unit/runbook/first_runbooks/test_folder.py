"""What is replaced in the folder, and what is kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from first_runbooks import facts_of, group, paris_and_lyon

from drlib.errors import UsageError
from drlib.runbook.first_runbooks import folder
from drlib.runbook.first_runbooks.folder import FirstRunbooks, Outcome
from drlib.runbook.first_runbooks.observation import SeenCluster
from drlib.runbook.first_runbooks.runbooks import Place
from drlib.runs.scorecard import Objectives

PLACE = Place("mm2.properties", "runbooks")


def made(clusters: dict[str, SeenCluster], objectives: Objectives | None = None) -> FirstRunbooks:
    return folder.make(facts_of(clusters), PLACE, objectives or Objectives(), folder.shipped_notebooks())


def test_second_writing_of_the_same_changes_nothing(tmp_path: Path) -> None:
    first = folder.write(made(paris_and_lyon()), tmp_path)
    assert set(first.values()) == {Outcome.WRITTEN}
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert set(folder.write(made(paris_and_lyon()), tmp_path).values()) == {Outcome.UNCHANGED}
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_file_that_nothing_edited_is_replaced_when_more_is_known(tmp_path: Path) -> None:
    folder.write(made(paris_and_lyon()), tmp_path)
    outcomes = folder.write(made(paris_and_lyon(group("billing"))), tmp_path)
    assert outcomes["failover.yaml"] is Outcome.WRITTEN
    assert outcomes["nightly-audit.yaml"] is Outcome.UNCHANGED
    assert '- "billing"' in (tmp_path / "failover.yaml").read_text()


def test_edited_file_is_kept_until_it_is_forced_by_name(tmp_path: Path) -> None:
    folder.write(made(paris_and_lyon()), tmp_path)
    edited = tmp_path / "failover.yaml"
    edited.write_text(edited.read_text() + "# mine\n")
    new = made(paris_and_lyon(group("billing")))
    outcomes = folder.write(new, tmp_path)
    assert outcomes["failover.yaml"] is Outcome.EDITED
    assert outcomes["rehearse.yaml"] is Outcome.WRITTEN
    assert edited.read_text().endswith("# mine\n")
    assert folder.write(new, tmp_path, ["failover.yaml"])["failover.yaml"] is Outcome.WRITTEN
    assert edited.read_text() == new.files["failover.yaml"]


def test_file_of_another_author_is_kept(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    outcomes = folder.write(made(paris_and_lyon()), tmp_path)
    assert outcomes["README.md"] is Outcome.FOREIGN
    assert (tmp_path / "README.md").read_text() == "mine"


def test_folder_that_cannot_be_written_whole_has_no_runbook(tmp_path: Path) -> None:
    """One without its notebook would be what `drlib failover` takes, and is refused then."""
    (tmp_path / "README.md" / "mine").mkdir(parents=True)
    with pytest.raises(UsageError, match="cannot be written"):
        folder.write(made(paris_and_lyon()), tmp_path, ["README.md"])
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == []


def test_file_is_kept_where_a_cluster_does_not_answer_now(tmp_path: Path) -> None:
    clusters = paris_and_lyon(group("billing"))
    folder.write(made(clusters), tmp_path)
    silent = replace(paris_and_lyon(seen=False)["paris"], silence="no answer")
    outcomes = folder.write(made({**clusters, "paris": silent}), tmp_path)
    assert outcomes["failover.yaml"] is Outcome.UNANSWERED
    assert outcomes["README.md"] is Outcome.UNANSWERED
    assert '- "billing"' in (tmp_path / "failover.yaml").read_text()


def test_force_of_a_file_that_is_not_written_is_refused_before_anything_is(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--force other\.yaml"):
        folder.write(made(paris_and_lyon()), tmp_path / "runbooks", ["other.yaml"])
    assert not (tmp_path / "runbooks").exists()


def test_manifest_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / folder.MANIFEST).write_text("[]")
    with pytest.raises(UsageError, match="cannot be used"):
        folder.write(made(paris_and_lyon()), tmp_path)


def test_link_of_a_runbooks_name_is_not_followed_when_it_is_forced(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.yaml"
    elsewhere.write_text("theirs")
    (tmp_path / "failover.yaml").symlink_to(elsewhere)
    outcomes = folder.write(made(paris_and_lyon()), tmp_path)
    assert outcomes["failover.yaml"] is Outcome.FOREIGN
    folder.write(made(paris_and_lyon()), tmp_path, ["failover.yaml"])
    assert elsewhere.read_text() == "theirs"


def test_runbook_that_the_loader_refuses_is_refused_before_it_is_written() -> None:
    wrong = made(paris_and_lyon())
    files = {**wrong.files, "failover.yaml": wrong.files["failover.yaml"].replace("source.fence", "source.fense")}
    with pytest.raises(UsageError, match=r"source\.fence"):
        folder.check(replace(wrong, files=files))


def test_objectives_of_the_runbook_that_is_there_are_known_again(tmp_path: Path) -> None:
    given = Objectives(rto_seconds=300, rpo_records=0)
    folder.write(made(paris_and_lyon(), given), tmp_path)
    assert folder.known_objectives(tmp_path, facts_of(paris_and_lyon())) == given
    assert folder.known_objectives(tmp_path / "none", facts_of(paris_and_lyon())) == Objectives()
