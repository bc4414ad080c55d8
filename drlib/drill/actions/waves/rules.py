"""Decide what belongs to which wave, and which topics end with it. Pure.

Rules: a group belongs to the first application, in the order of the waves, one of whose patterns matches its name. A topic
ends on the source with the last wave that writes to it; one that no wave is said to write to, with the last wave.
Not for: what a wave that was moved is missing (`missed`), and moving (`move`, `switchover`).
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from drlib.config.patterns.selection import matches

NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"  # of an application: a key of the pointer, and a part of a file's name
_NAME: Final = re.compile(NAME)


@dataclass(frozen=True, slots=True)
class WaveApplication:
    """`groups`: patterns of those it reads with; `written`: topics that it writes to, by their names on the source. `idle`:
    it may have nothing to read."""

    name: str
    groups: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    idle: bool = False


@dataclass(frozen=True, slots=True)
class Wave:
    name: str
    applications: tuple[WaveApplication, ...]

    @property
    def written(self) -> tuple[str, ...]:
        return tuple(topic for application in self.applications for topic in application.written)

    def __str__(self) -> str:
        return f"{self.name} ({', '.join(each.name for each in self.applications)})"


@dataclass(frozen=True, slots=True)
class Waves:
    """All waves of a drill in their order, and which of them a step is about."""

    all: tuple[Wave, ...]
    at: int

    @property
    def wave(self) -> Wave:
        return self.all[self.at]

    @property
    def last(self) -> bool:
        return self.at == len(self.all) - 1

    @property
    def earlier(self) -> tuple[Wave, ...]:
        return self.all[: self.at]

    @property
    def later(self) -> tuple[Wave, ...]:
        return self.all[self.at + 1 :]

    @property
    def written(self) -> frozenset[str]:
        """The topics that any wave writes to."""
        return _written(self.all)

    @property
    def label(self) -> str:
        return label(self.at, len(self.all), self.wave.name)

    def owner(self, group: str) -> tuple[Wave, WaveApplication] | None:
        """The wave and the application that `group` belongs to; None where no pattern matches it."""
        for wave in self.all:
            for application in wave.applications:
                if application.groups and matches(application.groups, group):
                    return wave, application
        return None

    def groups_here(self, groups: Iterable[str]) -> dict[str, str]:
        """Of `groups` those of this wave, and each one's application."""
        owners = {group: self.owner(group) for group in groups}
        return {group: owner[1].name for group, owner in owners.items() if owner is not None and owner[0] == self.wave}

    def unassigned(self, groups: Iterable[str]) -> tuple[str, ...]:
        """Those of `groups` that are in no wave."""
        return tuple(sorted(group for group in groups if self.owner(group) is None))

    def ended(self, topics: Collection[str], there: Collection[str] = ()) -> frozenset[str]:
        """Which of `topics` no application writes to on the source once this wave has moved.

        `there`: applications of later waves that are at the target already, as where a stopped run is moved back.
        """
        stay = [a for wave in self.later for a in wave.applications if a.name not in there]
        if not stay:
            return frozenset(topics)
        return frozenset(topics) & _written((*self.earlier, self.wave)) - {t for a in stay for t in a.written}

    def still_at(self, source: str) -> str:
        """Which waves have not moved, in words."""
        left = ", ".join(map(str, self.later))
        return f"not moved yet, at {source}: {left}" if left else "it is the last wave"


def label(at: int, of: int, name: str) -> str:
    """What titles, checks and errors call a wave."""
    return f"wave {at + 1} of {of}, {name}"


def written_down(waves: Sequence[Wave]) -> dict[str, list[str]]:
    """The arguments that `read` reads."""
    each = [application for wave in waves for application in wave.applications]
    return {
        "waves": [f"{wave.name}: {', '.join(a.name for a in wave.applications)}" for wave in waves],
        "readers": [f"{a.name}={pattern}" for a in each for pattern in a.groups],
        "writers": [f"{a.name}={topic}" for a in each for topic in a.written],
        "idle": [a.name for a in each if a.idle],
    }


def read(wave: str, waves: Sequence[str], readers: Sequence[str], writers: Sequence[str], idle: Sequence[str]) -> Waves:
    """The waves that arguments say. Raises ValueError with what is wrong, in words."""
    names: dict[str, list[str]] = {}
    for text in waves:
        name, colon, applications = text.partition(":")
        if not colon or not name.strip() or name.strip() in names:
            raise ValueError(f"{text!r} is no wave 'NAME: APPLICATION, APPLICATION', or its name is there twice")
        names[name.strip()] = [application.strip() for application in applications.split(",")]
    known = [application for each in names.values() for application in each]
    for application in known:
        if not _NAME.match(application) or known.count(application) > 1:
            raise ValueError(
                f"application {application!r} is in two waves, or is no name of letters, digits, . _ and -"
            )
    groups, topics = _by_application(readers, known), _by_application(writers, known)
    if unknown := sorted(set(idle) - set(known)):
        raise ValueError(f"idle application {unknown[0]!r} is in no wave")
    for application in known:
        if application not in groups and application not in topics:
            raise ValueError(
                f"application {application!r} has neither groups nor written topics, so nothing shows it served"
            )
    if wave not in names:
        raise ValueError(f"there is no wave {wave!r}; the waves are: {', '.join(names) or 'none'}")
    every = tuple(
        Wave(name, tuple(WaveApplication(a, groups.get(a, ()), topics.get(a, ()), a in idle) for a in each))
        for name, each in names.items()
    )
    return Waves(every, list(names).index(wave))


def _by_application(texts: Sequence[str], known: Collection[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for text in texts:
        application, sign, value = text.partition("=")
        if not sign or not value or application not in known:
            raise ValueError(f"{text!r} is not APPLICATION=VALUE of an application in a wave")
        found[application] = (*found.get(application, ()), value)
    return found


def _written(waves: Iterable[Wave]) -> frozenset[str]:
    return frozenset(topic for wave in waves for topic in wave.written)
