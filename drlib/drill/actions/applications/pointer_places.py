"""The pointers of applications that move together: held, released and moved one after another.

Rules: versions are one sequence, so each is written with the next one. An application whose pointer names the target is
there already: it is neither held nor released, as both would send it back. Only a hold that these steps wrote is released: that
of an emergency which took over meanwhile, or of a person, stays.
Not for: one pointer, and what is kept of it (`pointer`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from drlib.client.pointer import Pointer
from drlib.drill.actions.applications.pointer import PointerPlace
from drlib.drill.plan.plan import Change, Fact
from drlib.errors import UsageError
from drlib.model import Flow


def newest_at(cluster: str, pointers: Iterable[Pointer | None]) -> Pointer | None:
    """Of the pointers that name `cluster` the one written last; None where none does."""
    there = [pointer for pointer in pointers if pointer is not None and pointer.active == cluster]
    return max(there, key=lambda pointer: pointer.version, default=None)


@dataclass(frozen=True)
class PointerPlaces:
    """At least one place; `moving` is from the cluster that the applications leave to the one that they move to."""

    places: tuple[PointerPlace, ...]
    moving: Flow

    def observe(self) -> tuple[Fact, ...]:
        found = [(place.entity, place.read().pointer) for place in self.places]
        return tuple(Fact(entity, None if pointer is None else pointer.active) for entity, pointer in found)

    def changes(self, observed: Sequence[Fact]) -> tuple[Change, ...]:
        """None for those that are there already. Raises `UsageError` for one that is on neither of the two clusters."""
        values = {fact.entity: fact.value for fact in observed}
        moving, changes = self.moving, []
        for entity in (place.entity for place in self.places):
            now = values[entity]
            if now not in (None, moving.source, moving.target):
                raise UsageError(
                    f"applications cannot move from {moving.source} to {moving.target}",
                    f"the pointer names {now} ({entity})",
                    "Set source to the cluster that they use.",
                )
            if now != moving.target:
                changes.append(Change(entity, now, moving.target))
        return tuple(changes)

    def read(self, what: str) -> tuple[Pointer, ...]:
        """Of each place. Raises `UsageError` where there is none, so that `what` would hold no application."""
        found = []
        for place in self.places:
            pointer = place.read().pointer
            if pointer is None:
                raise self.none(what)
            found.append(pointer)
        return tuple(found)

    def none(self, what: str) -> UsageError:
        return UsageError(
            what,
            "there is no pointer that applications follow",
            f"Publish one that names the cluster they use: drlib pointer move FILE {self.moving.source}",
        )

    def hold(self, limit_s: float) -> None:
        """All that are at the source; the target has to get it."""
        self._write(hold=True, limit_s=limit_s, on=self.moving.target)

    def release(self) -> None:
        """The applications continue at the source, but for those that others hold."""
        self._write(hold=False, limit_s=0.0, on=None)

    def _write(self, *, hold: bool, limit_s: float, on: str | None) -> None:
        for place in self.places:
            found = place.read()
            now = found.pointer
            if now is not None and now.active != self.moving.target and (hold or place.wrote(now)):
                held = replace(now, version=found.next_version, hold=hold, hold_limit_s=limit_s)
                place.write(now, held, on)

    def move(self, to: Pointer) -> None:
        """Let each pointer be `to`, but for its version; where it is already, copies that are missing are written."""
        for place in self.places:
            found = place.read()
            now = found.pointer
            same = now is not None and replace(to, version=now.version) == now
            place.write(now, now if same and now is not None else replace(to, version=found.next_version), to.active)
