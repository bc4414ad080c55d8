"""Labs that an incident cannot use."""

from __future__ import annotations

from pathlib import Path

import pytest
from written_lab import written_lab

from drlib.errors import UsageError
from drlib.training.incidents.lab.inject import require_suitable_lab


@pytest.mark.parametrize(
    ("aliases", "brokers", "why"),
    [
        (("paris", "lyon"), 1, "has no cluster LEFT, RIGHT"),
        (("LEFT", "RIGHT"), 3, "it needs clusters of one broker each"),
    ],
)
def test_lab_with_other_clusters_than_incidents_know_is_refused(
    aliases: tuple[str, ...], brokers: int, why: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=why):
        require_suitable_lab(written_lab(tmp_path, aliases, brokers), [], 1)
