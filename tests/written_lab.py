"""A lab as a folder has it that was left behind: its state file, and no process."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from drlib.lab.brokers.cluster import link_names, new_specs
from drlib.lab.lab import STATE_NAME, Lab


def written_lab(root: Path, aliases: tuple[str, ...] = ("LEFT", "RIGHT"), brokers: int = 1, **state: object) -> Lab:
    """Attached; nothing listens on its ports."""
    links = dict.fromkeys((name for alias in aliases for name in link_names(alias, brokers)), 1)
    clusters = {alias: [asdict(spec) for spec in new_specs(alias, str(root), links, brokers)] for alias in aliases}
    (root / ".drlib-lab").write_text("drlib lab\n")
    (root / STATE_NAME).write_text(json.dumps({"clusters": clusters, "extra": {}, **state}))
    return Lab.attach(root)
