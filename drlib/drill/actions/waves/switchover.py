"""Action `wave.switchover`: a planned move of one wave's applications, while those of later waves work on at the source.

Rules: only this wave is held, by its own pointers. Topics that end with it have to stand still; others grow on, are mirrored
on, and have no end yet (`OPEN`), so that readers which have moved stay with the mirror of them. Pointers of earlier waves get
the ends that were not known when they moved. The last wave needs every topic to stand still, and moves the pointer of all. A
group that is in no wave would be left behind by the last one, so it is refused when the plan is made.
Not for: whether the wave is served then (`verify`).
"""

from collections.abc import Collection, Sequence

from drlib.client.pointer_topic import EVERYONE
from drlib.drill.actions.applications.pointer import PointerPlace
from drlib.drill.actions.applications.pointer_places import PointerPlaces
from drlib.drill.actions.failback.switchover import PlannedMove
from drlib.drill.actions.groups import decided
from drlib.drill.actions.groups.rules import PositionMove
from drlib.drill.actions.moving import still_ends
from drlib.drill.actions.waves.arguments import WaveArguments
from drlib.drill.actions.waves.rules import WaveApplication
from drlib.drill.plan.plan import Fact
from drlib.drill.step.action import Changes, Evidence
from drlib.errors import UsageError
from drlib.mirror.offsets.translation.two_way import groups_of
from drlib.model import TopicPartition
from drlib.runs.abort import Abort


class MoveWaveApplications(WaveArguments, PlannedMove):
    """Move one wave's applications to the other cluster: hold them, wait until nothing of theirs is in flight, move them."""

    name = "wave.switchover"

    @property
    def pointers(self) -> PointerPlaces:
        return PointerPlaces(tuple(map(self._place, self.plan.wave.applications)), self.flow)

    @property
    def along(self) -> tuple[PointerPlace, ...]:
        plan = self.plan
        earlier = tuple(self._place(each) for wave in plan.earlier for each in wave.applications)
        return (*earlier, PointerPlace(self.context, f"{self.step}.+all", EVERYONE)) if plan.last else earlier

    def _place(self, application: WaveApplication) -> PointerPlace:
        return PointerPlace(self.context, f"{self.step}.{application.name}", application.name)

    @property
    def who(self) -> str:
        return f"{self.plan.label}: applications"

    def stays(self) -> str:
        plan, moving = self.plan, self.flow
        there = ", ".join(map(str, (*plan.earlier, plan.wave)))
        return f"no application is held, and at {moving.target} are: {there}; {plan.still_at(moving.source)}"

    def after_moving(self) -> str:
        return f"Run the runbook again with --supersede {self.context.run_dir.name}: it moves the waves that are left."

    def observe(self) -> Sequence[Fact]:
        """Raises `UsageError` for groups that are in no wave."""
        if without := self.plan.unassigned(groups_of(self.settings, self.flow)):
            more = f" and {len(without) - 5} more" if len(without) > 5 else ""
            raise UsageError(
                f"{', '.join(without[:5])}{more} of {self.flow.source} would be left behind",
                f"no wave has {'these groups' if len(without) > 1 else 'this group'}, and {self.flow} mirrors all of them",
                "Add them to the groups of an application in `waves`; a pattern `.*` in the last wave takes all that is left.",
            )
        return super().observe()

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        done = super().act(changes, abort)
        return {**done, "wave": self.plan.label, "others": self.plan.still_at(self.flow.source)}

    def moved_groups(self) -> tuple[str, ...]:
        """Without those of applications that have moved already, in a step that was killed."""
        pointers = zip(self.pointers.places, self._pointers(), strict=True)
        here = {place.application for place, pointer in pointers if pointer.active != self.flow.target}
        owners = self.plan.groups_here(groups_of(self.settings, self.flow))
        return tuple(group for group, application in owners.items() if application in here)

    def moves_share_group(self, group: str) -> bool:
        """Those that are in no wave are moved with the last one."""
        return bool(self.plan.groups_here([group])) or (self.plan.last and bool(self.plan.unassigned([group])))

    def all_groups(self, moved: tuple[str, ...]) -> tuple[str, ...]:
        return groups_of(self.settings, self.flow)

    def to_stand_still(self, topics: Collection[str]) -> Collection[str]:
        places = (self._place(each) for wave in self.plan.later for each in wave.applications)
        found = ((place.application, place.read().pointer) for place in places)
        there = {name for name, pointer in found if pointer is not None and pointer.active == self.flow.target}
        return self.plan.ended(topics, there)

    def decided_before(self, moved: Collection[str]) -> Sequence[PositionMove]:
        return [m for m in decided.read(self.context.run_dir, self.flow.target) or () if m.group not in moved]

    def _ends_left(self) -> dict[TopicPartition, int]:
        ends = still_ends.read(self.context.run_dir, self.step)
        for wave in self.plan.earlier:
            ends = {**ends, **still_ends.read(self.context.run_dir, self.step_of(wave.name))}
        return ends

    def step_of(self, wave: str) -> str:
        """The name of another wave's step: they differ by the wave's name at their end."""
        return self.step.removesuffix(self.wave) + wave
