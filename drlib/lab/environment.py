"""Whether a run is on a lab or on production clusters, and the banner that says so wherever the run is looked at.

Rules: `decide` is pure, and nothing is asked of a cluster. Clusters of a file are a lab's only where the file is in that lab's
folder and each address is one of its brokers': everything else, and whatever is not known, is production. A banner is text,
which its colour only repeats; white on both colours has a contrast of more than 7:1, and a banner brings its own background, so
that it is the same in light and dark themes.
Not for: which steps change what (`drlib.drill.plan.shown`).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from drlib.config.settings import MirrorSettings, load_mirror_settings
from drlib.errors import UsageError
from drlib.formats import html_text
from drlib.lab.lab import Lab

MOVES: Final = "real applications move"
REHEARSES: Final = "rehearsal: no application's group is changed"
AS_PLANNED: Final = "the plan lists what is changed"
READS: Final = "the clusters are only read"
NO_RUN: Final = "no run changes anything now"
LAB_ONLY: Final = "only the lab is changed"
_KEY: Final = "environment"
_CHANGES: Final = "changes"


class Environment(StrEnum):
    """What kind of clusters a run is on."""

    LAB = "lab"
    PRODUCTION = "production"


COLOURS: Final[Mapping[Environment, str]] = {Environment.LAB: "#00573f", Environment.PRODUCTION: "#a80000"}


def decide(addresses: Collection[str], lab_addresses: Collection[str]) -> Environment:
    """What clusters at `addresses` (host:port) are, where a lab's brokers have `lab_addresses`."""
    known = {address.lower() for address in lab_addresses}
    return Environment.LAB if addresses and {a.lower() for a in addresses} <= known else Environment.PRODUCTION


@dataclass(frozen=True, slots=True)
class Banner:
    """`flow`: "A->B", or "" where there is none or more than one; `changes`: what the run changes, in words."""

    environment: Environment
    flow: str
    changes: str

    @property
    def word(self) -> str:
        return self.environment.upper()

    @property
    def text(self) -> str:
        """All behind the word: the flow, its clusters, and what changes."""
        source, arrow, target = self.flow.partition("->")
        where = f"flow {self.flow}, clusters {source} and {target}: " if arrow else ""
        return f"{where}{self.changes}."

    def __str__(self) -> str:
        return f"{self.word}  {self.text}"

    def html(self) -> str:
        """A block for a page or a notebook, without scripts and without a style sheet."""
        style = (
            f"background:{COLOURS[self.environment]};color:#fff;padding:6px 12px;margin:4px 0;border-radius:4px;"
            "font-size:14px;line-height:1.4"
        )
        return (
            f'<div role="note" aria-label="{self.word.capitalize()} banner" style="{style}">'
            f"<strong>{self.word}</strong>&ensp;{html_text(self.text)}</div>"
        )

    def facts(self) -> dict[str, str]:
        """What a scorecard keeps of it."""
        return {_KEY: self.environment.value, _CHANGES: self.changes}


def banner_of(facts: Mapping[str, str]) -> Banner | None:
    """The banner of a scorecard's environment; None for a run of before there was one."""
    known = [each for each in Environment if each.value == facts.get(_KEY)]
    return Banner(known[0], facts.get("flow", ""), facts.get(_CHANGES, AS_PLANNED)) if known else None


def environment_of(settings: MirrorSettings) -> Environment:
    """What the clusters of a file are."""
    addresses = {server for cluster in settings.clusters.values() for server in cluster.bootstrap_servers}
    return decide(addresses, _lab_addresses(settings.path.absolute().parent))


def environment_at(properties: Path | None, *, lab: bool) -> Environment | None:
    """The same of a run: on a lab that was named, or on the clusters of a file; None where neither is known."""
    if lab:
        return Environment.LAB
    if properties is None:
        return None
    try:
        return environment_of(load_mirror_settings(properties))
    except (UsageError, OSError):
        return Environment.PRODUCTION


def _lab_addresses(folder: Path) -> set[str]:
    """The addresses of all brokers of the lab in `folder`, also those through its link; none where there is no lab."""
    try:
        clusters = Lab.attach(folder).clusters.values()
    except (UsageError, OSError):
        return set()
    return {
        address
        for cluster in clusters
        for at in (cluster.bootstrap, cluster.link_bootstrap)
        for address in at.split(",")
    }
