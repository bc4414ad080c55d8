"""Which clients are asked for: a wrong name is refused with the nearest one, before anything is asked of a cluster."""

from __future__ import annotations

import pytest

from drlib.drill.plan.plan import Argument, Call
from drlib.drill.scenarios.failover.clients import JudgeClients, StartClients
from drlib.errors import UsageError


def parse(**arguments: str | tuple[str, ...]) -> StartClients:
    call = Call("lab.clients", tuple(Argument(name, value) for name, value in arguments.items()))
    return StartClients.parse(call, "step clients")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            {"clients": ("librdkafke",)},
            "clients: librdkafke: there is no such family of clients. Did you mean librdkafka?",
        ),
        ({"clients": ("java", "al")}, "clients: al: there is no such family of clients. Did you mean all?"),
        (
            {"clients": ("x",)},
            "clients: x: there is no such family of clients. There are all, java, java-3.9, streams,",
        ),
        ({"left_behind": "jav"}, "left_behind: jav: there is no such family of clients. Did you mean java?"),
        ({"left_behind": "all"}, "left_behind: all: there is no such family of clients."),
    ],
)
def test_unknown_family_is_refused_with_the_nearest_name(
    arguments: dict[str, str | tuple[str, ...]], said: str
) -> None:
    with pytest.raises(UsageError) as error:
        parse(**arguments)
    assert str(error.value).startswith(f"step clients: lab.clients: {said}")


def test_no_clients_are_the_default_and_change_nothing() -> None:
    for step in (parse(), parse(clients=(), left_behind="")):
        assert (step.clients, step.left_behind, step.observe(), step.changes(())) == ((), "", (), ())
    judge = JudgeClients.parse(Call("proof.clients"), "here")
    assert (judge.deadline_s, judge.planned) == (90, False)
