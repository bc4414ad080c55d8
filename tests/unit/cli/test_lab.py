"""What `drlib lab up` refuses before it starts anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from drlib.cli.lab import lab_up, parse_names
from drlib.errors import UsageError


@pytest.mark.parametrize("text", ["paris", "paris,paris", "paris,", "pa ris,lyon", "a-b,c", ""])
def test_names_that_cannot_be_clusters_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--clusters"):
        parse_names(text)


def test_names_are_split_at_commas() -> None:
    assert parse_names("paris, lyon") == ("paris", "lyon")


def test_mode_without_secured_and_unknown_mode_are_refused() -> None:
    with pytest.raises(UsageError, match="unexpected argument"):
        lab_up("tls", secured=False)
    with pytest.raises(UsageError, match="--secured kerberos"):
        lab_up("kerberos", secured=True)


def test_folder_below_a_file_is_refused_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "x"):
        with pytest.raises(UsageError, match="file is not a folder, and nothing was begun"):
            lab_up(directory=place)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
