"""What several places see of a source, judged: examples, and a thousand networks that break at random."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import pytest

from drlib.drill.witness.evidence import (
    GONE,
    Answer,
    Condition,
    Finding,
    Look,
    Place,
    View,
    judge,
    judge_looks,
    may_decide_alone,
)

HOLD_S = 3.0
SERVES, SILENT, REFUSED, UNKNOWN = Answer.SERVES, Answer.SILENT, Answer.REFUSED, Answer.UNKNOWN


def here(source: Answer, target: Answer = SERVES, since_s: float | None = None) -> View:
    return View(Place.HERE, "ops", source, target, since_s)


def mirror(source: Answer, target: Answer = SERVES, since_s: float | None = None) -> View:
    return View(Place.MIRROR, "m:1", source, target, since_s)


def witness(source: Answer, target: Answer = SERVES) -> View:
    return View(Place.WITNESS, "w:1", source, target)


@pytest.mark.parametrize(
    ("views", "condition"),
    [
        ([here(SERVES), mirror(SERVES)], Condition.SERVES),
        ([here(Answer.PARTLY)], Condition.PARTLY),
        ([here(SILENT), mirror(SERVES)], Condition.CUT_OFF),
        ([here(SILENT), mirror(SILENT), witness(SERVES)], Condition.CUT_OFF),
        ([here(REFUSED), witness(SERVES)], Condition.CUT_OFF),  # a firewall refuses, too
        ([here(SERVES), mirror(SILENT)], Condition.SERVES),
        ([here(SILENT)], Condition.GONE_FROM_HERE),
        ([here(REFUSED)], Condition.GONE_FROM_HERE),
        ([here(SILENT), mirror(UNKNOWN)], Condition.GONE_FROM_HERE),
        ([here(SILENT), mirror(SILENT)], Condition.GONE),
        ([here(SILENT), mirror(REFUSED)], Condition.DEAD),
        ([here(SILENT, SILENT)], Condition.UNKNOWN),  # the network of this host is cut
        ([here(SILENT, SILENT), mirror(SILENT)], Condition.GONE_FROM_HERE),
        ([], Condition.UNKNOWN),
    ],
)
def test_judge_one_look(views: list[View], condition: Condition) -> None:
    assert judge(views) is condition


def looks(*found: list[View]) -> list[Look]:
    return [Look(float(number), tuple(views)) for number, views in enumerate(found)]


def test_judge_looks_gone_counts_once_it_held_and_any_answer_begins_again() -> None:
    gone, back = [here(SILENT), mirror(SILENT)], [here(SILENT), mirror(SERVES)]
    assert not judge_looks(looks(gone, gone, gone), HOLD_S).settled
    assert judge_looks(looks(gone, gone, gone, gone), HOLD_S).settled
    flapping = judge_looks(looks(gone, gone, gone, back, gone), HOLD_S)
    assert (flapping.held_s, flapping.settled) == (0.0, False)
    assert judge_looks(looks(gone, gone, gone, gone, back), HOLD_S).condition is Condition.CUT_OFF


def test_judge_looks_counts_how_long_the_mirror_has_not_reached_it_unless_another_place_did() -> None:
    long_gone = [here(SILENT), mirror(SILENT, since_s=60.0)]
    assert judge_looks(looks(long_gone), HOLD_S) == Finding(Condition.GONE, tuple(long_gone), 60.0, True)
    assert not judge_looks(looks([here(SERVES), mirror(SILENT, since_s=59.0)], long_gone), HOLD_S).settled
    blind = [here(SILENT), mirror(SILENT, SILENT, since_s=60.0)]  # its own network is cut
    assert judge_looks(looks(blind), HOLD_S).held_s == 0.0


def test_judge_looks_nothing_asked_is_unknown_and_not_settled() -> None:
    assert judge_looks([], HOLD_S) == Finding(Condition.UNKNOWN, (), settled=False)


def test_may_decide_alone_only_with_a_witness_and_another_place() -> None:
    def alone(*views: View) -> str:
        return may_decide_alone(judge_looks(looks(*[list(views)] * 4), HOLD_S))

    assert alone(here(SILENT), witness(SILENT)) == ""
    assert alone(here(SILENT, SILENT), mirror(SILENT), witness(REFUSED)) == ""
    assert "no witness" in alone(here(SILENT), mirror(SILENT))
    assert "no witness" in alone(here(SILENT), witness(SILENT, SILENT))
    assert "only witnesses" in alone(here(SILENT, SILENT), witness(SILENT))
    assert "not found gone" in alone(here(SILENT), witness(SILENT), mirror(SERVES))
    assert "not found gone" in may_decide_alone(judge_looks([], HOLD_S))


# -- a model of networks --------------------------------------------------------------------------------------------------

STEP_S = 0.5
STEPS = 60
PROBE_STEPS = 4  # the longest time between two probes of a place


@dataclass
class Network:
    """By step: does the source live, does its host refuse, and which paths are cut."""

    alive: list[bool]
    refuses: bool
    cut: dict[tuple[Place, str], list[bool]]

    def answer(self, place: Place, cluster: str, step: int) -> Answer:
        if self.cut[place, cluster][step]:
            return SILENT
        if cluster == "target" or self.alive[step]:
            return SERVES
        return REFUSED if self.refuses else SILENT

    def reached(self, place: Place, steps: range) -> bool:
        """Could this place reach the living source at every one of these steps?"""
        return all(self.alive[step] and not self.cut[place, "source"][step] for step in steps)


def outages(random: Random, chance: float, most: int) -> list[bool]:
    """By step, whether it is cut: stretches of random lengths."""
    made: list[bool] = []
    while len(made) < STEPS:
        made += [random.random() < chance] * random.randint(1, most)
    return made[:STEPS]


def network(random: Random) -> Network:
    chance = random.choice((0.0, 0.1, 0.5))
    dies = random.randrange(STEPS) if random.random() < 0.5 else STEPS
    flaps = outages(random, 0.3, 10) if random.random() < 0.2 else [False] * STEPS
    paths = [(place, cluster) for place in Place for cluster in ("source", "target")]
    cut = {path: outages(random, chance if path[1] == "source" else chance / 5, 40) for path in paths}
    return Network([step < dies and not flaps[step] for step in range(STEPS)], random.random() < 0.5, cut)


@pytest.mark.parametrize("first", range(0, 1000, 100))
def test_model_of_random_networks_gives_no_wrong_advice(first: int) -> None:
    found = dict.fromkeys(Condition, 0)
    for seed in range(first, first + 100):
        random = Random(seed)
        net = network(random)
        probed: dict[Place, View] = {}
        probed_at: dict[Place, int] = {}
        history: list[Look] = []
        for step in range(STEPS):
            for place in Place:
                due = place not in probed or step - probed_at[place] >= random.randint(1, PROBE_STEPS)
                if due or place is Place.HERE:
                    answers = (net.answer(place, "source", step), net.answer(place, "target", step))
                    probed[place], probed_at[place] = View(place, place.name, *answers), step
            history.append(Look(step * STEP_S, tuple(probed.values())))
            finding = judge_looks(history[-10:], HOLD_S)
            found[finding.condition] += 1
            window = range(max(0, step - PROBE_STEPS - int(HOLD_S / STEP_S)), step + 1)
            reachable = [place for place in Place if net.reached(place, window)]
            gone = finding.condition in GONE and finding.settled
            assert not (gone and reachable), f"seed {seed}, step {step}: gone, and {reachable} reached it all the time"
            if reachable and not net.reached(Place.HERE, range(step, step + 1)):
                assert finding.condition is Condition.CUT_OFF, f"seed {seed}, step {step}: {finding}"
            long = range(max(0, step - PROBE_STEPS - int(HOLD_S / STEP_S) - 1), step + 1)
            dead = len(long) > PROBE_STEPS + HOLD_S / STEP_S and not any(net.alive[at] for at in long)
            if dead and not any(net.cut[Place.HERE, "target"][at] for at in long):
                assert gone, f"seed {seed}, step {step}: dead for long, and {finding}"
            if may_decide_alone(finding) == "" and net.alive[step]:
                blind = [place for place, at in probed_at.items() if net.cut[place, "source"][at] or not net.alive[at]]
                assert Place.WITNESS in blind, f"seed {seed}, step {step}"
                assert len(blind) > 1, f"seed {seed}, step {step}"
    assert all(found[each] for each in (Condition.SERVES, Condition.CUT_OFF, Condition.GONE, Condition.DEAD)), found
