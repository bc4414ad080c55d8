"""What a trial measured on a link, and how a link and a response size are written for people.

Not for: figures (`drlib.ui.sizing.figures`), which need plotly.
"""

from dataclasses import dataclass

from drlib import formats
from drlib.lab.link.sizing import KIB, MIB, LinkSpec
from drlib.lab.link_trial import Measured


@dataclass(frozen=True, slots=True)
class Tried:
    """What a trial found on `link`."""

    link: LinkSpec
    found: tuple[Measured, ...]

    @property
    def waiting(self) -> tuple[Measured, ...]:
        return tuple(measurement for measurement in self.found if measurement.clients)

    @property
    def mirrored(self) -> tuple[Measured, ...]:
        return tuple(measurement for measurement in self.found if measurement.workers)


def said_link(link: LinkSpec) -> str:
    """Bandwidth and round trip, for people."""
    return f"{formats.rate(link.bandwidth)} and {formats.short_duration(link.rtt_s)} round trip"


def said_power(count: int) -> str:
    """A power of two of bytes, as Kafka's settings are given."""
    return f"{count // MIB} MiB" if count >= MIB else f"{count // KIB} KiB"
