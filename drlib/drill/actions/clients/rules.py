"""Which connections brokers refuse by the address that they come from, and what has to be written for that. Pure.

Rules (Kafka's `ConnectionQuotas`): a broker counts the connections of each address, and closes a new one at once where there
are more than the address's limit: that of `max.connections.per.ip.overrides`, or `max.connections.per.ip` without one. A limit
of 0 refuses all new connections; those that are open stay. The limits of addresses that are not meant stay as they are.
Overrides have single addresses or host names: a network is written as its addresses. `max.connections.per.ip` may be 0 only
where there are overrides, so that both are written at once.
Not for: reading and writing them (`limits`).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from drlib import decoding
from drlib.errors import UsageError

PER_IP: Final = "max.connections.per.ip"
OVERRIDES: Final = "max.connections.per.ip.overrides"
NAMES: Final = (PER_IP, OVERRIDES)
NO_LIMIT: Final = 2**31 - 1  # `SocketServerConfigs.MAX_CONNECTIONS_PER_IP_DEFAULT`
MOST_ADDRESSES: Final = 1024  # in all: the setting is one line of the metadata log, which every broker reads
REFUSED: Final = 0

Resolve = Callable[[str], Collection[str]]
"""The addresses of a host name; none where it has none."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one broker allows: connections per address, and `overrides` by address or host name, in their order."""

    per_ip: int
    overrides: Mapping[str, int]

    def __str__(self) -> str:
        return f"{self.per_ip}; {self.overrides_text}"

    @property
    def overrides_text(self) -> str:
        return ",".join(f"{host}:{most}" for host, most in self.overrides.items())

    @property
    def values(self) -> dict[str, str]:
        """By the setting's name."""
        return {PER_IP: str(self.per_ip), OVERRIDES: self.overrides_text}


def limits_of(values: Mapping[str, str | None]) -> Limits:
    """From a broker's settings. Raises `Undecodable` for what no broker accepts."""
    overrides = {}
    for each in (values.get(OVERRIDES) or "").split(","):
        if each.strip():
            host, _, most = each.strip().rpartition(":")  # as Kafka's Csv.parseCsvMap: an IPv6 address has colons, too
            overrides[host.strip()] = decoding.integer(most.strip())
    return Limits(decoding.integer(values.get(PER_IP) or str(NO_LIMIT)), overrides)


def addresses(texts: Sequence[str], argument: str) -> tuple[str, ...]:
    """Each address once, in order; a network as its addresses. Raises `UsageError` naming `argument`."""
    found: dict[str, None] = {}
    for text in texts:
        try:
            network = ipaddress.ip_network(text.strip(), strict=False)
        except ValueError:
            raise UsageError(
                f"{argument}: {text}",
                "it is neither an address nor a network such as 10.0.0.16/28",
                "Name addresses as brokers see them; drlib inventory lists the hosts of group members.",
            ) from None
        if network.num_addresses > MOST_ADDRESSES or len(found) + network.num_addresses > MOST_ADDRESSES:
            raise UsageError(
                f"{argument}: {text}",
                f"brokers know single addresses, and these would be more than {MOST_ADDRESSES:,}",
                "Name fewer, or what is to be kept instead.",
            )
        found.update(dict.fromkeys(map(str, network)))
    return tuple(found)


def refusing(limits: Limits, refused: Sequence[str], resolve: Resolve) -> Limits:
    """The same with no new connection from `refused`."""
    kept: dict[str, int] = {}
    for host, most in limits.overrides.items():
        if _meant(host, refused, resolve):  # the name's other addresses keep its limit
            kept.update({each: most for each in sorted(resolve(host)) if each not in limits.overrides})
        else:
            kept[host] = most
    return Limits(limits.per_ip, {**kept, **dict.fromkeys(refused, REFUSED)})


def keeping(limits: Limits, kept: Sequence[str], resolve: Resolve) -> Limits:
    """The same with no new connection but from `kept`, whose limits stay as they are."""
    most: dict[str, int] = dict.fromkeys(kept, limits.per_ip)
    for host, number in limits.overrides.items():
        most.update(dict.fromkeys((each for each in kept if _meant(host, (each,), resolve)), number))
    return Limits(REFUSED, most)


def admits(limits: Limits, address: str) -> bool:
    """Whether a new connection from `address` is accepted at all. Host names among the overrides are not looked up."""
    most = limits.overrides.get(address)
    if most is None and ":" in address:  # of IPv6, which has more than one form
        most = next((n for host, n in limits.overrides.items() if ":" in host and _short(host) == address), None)
    return (limits.per_ip if most is None else most) > REFUSED


def member_address(host: str) -> str:
    """The address of a group's member, whose host a broker reports as `/10.0.0.7` or `name/10.0.0.7`; of IPv6 in full."""
    return _short(host.rpartition("/")[2])


def _short(host: str) -> str:
    """An address in one form, as brokers write `fd00:0:0:0:0:0:0:7%eth0` and people `fd00::7`; another host as it is."""
    try:
        return str(ipaddress.ip_address(host.partition("%")[0]))
    except ValueError:
        return host


def _meant(host: str, wanted: Collection[str], resolve: Resolve) -> bool:
    try:
        return str(ipaddress.ip_address(host)) in wanted
    except ValueError:
        return not {*resolve(host)}.isdisjoint(wanted)
