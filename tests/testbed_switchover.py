"""Two clusters with mirrors both ways and applications that follow a pointer, moved by the actions of a planned switchover."""

from __future__ import annotations

from dataclasses import dataclass

from fix_engine import Engine
from testbed_applications import Stage

from drlib.client import pointer_file
from drlib.drill.plan.plan import Argument, Call
from drlib.drill.run.registry import make_action
from drlib.drill.step.action import Action
from drlib.drill.step.context import DrillContext
from drlib.runs.abort import Abort


@dataclass
class Moving:
    """All applications are at the engine's source at first."""

    engine: Engine
    on: Stage
    place: DrillContext

    def step(self, name: str, **arguments: str | float | bool | tuple[str, ...]) -> Action:
        given = tuple(Argument(key, value) for key, value in arguments.items())
        return make_action(Call(name, given), self.place, name.replace(".", "-"))

    def act(self, name: str, **arguments: str | float | bool) -> dict[str, object]:
        step = self.step(name, **arguments)
        return dict(step.act(step.changes(step.observe()), Abort(self.place.run_dir)))

    def there(self) -> dict[str, object]:
        return self.act("switchover.move", source=self.engine.source, target=self.engine.target)

    def back(self) -> dict[str, object]:
        return self.act("switchover.move")

    @property
    def active(self) -> str:
        return pointer_file.read(self.on.pointer).active
