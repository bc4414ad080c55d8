"""Labs that an incident cannot use."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from drlib.errors import UsageError
from drlib.lab.brokers.cluster import link_names, new_specs
from drlib.lab.lab import Lab
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
    links = dict.fromkeys((name for alias in aliases for name in link_names(alias, brokers)), 1)
    clusters = {alias: [asdict(spec) for spec in new_specs(alias, str(tmp_path), links, brokers)] for alias in aliases}
    (tmp_path / "state.json").write_text(json.dumps({"clusters": clusters, "extra": {}}))
    with pytest.raises(UsageError, match=why):
        require_suitable_lab(Lab.attach(tmp_path), [], 1)
