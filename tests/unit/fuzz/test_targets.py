"""Each decoder of foreign data with its samples and some inputs made of them; `make fuzz` tries as many as time allows."""

from __future__ import annotations

import pytest
from fuzz.limits import judge
from fuzz.mutate import Case, mutated
from fuzz.targets import TARGETS, Target
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

EXAMPLES = 25


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_target_takes_its_samples(target: Target) -> None:
    """At least one of them without an error: otherwise what is made of it would be refused at once."""
    taken = 0
    for sample in target.samples:
        assert judge(target.decode, sample, target.errors, target.seconds) is None
        taken += judge(target.decode, sample, (), target.seconds) is None
    assert taken or target.name in REFUSED


REFUSED = {
    "drlib.kafka.net.sasl:scram": "a signature is for one nonce only, and the exchange ends with StopIteration",
}


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_target_takes_what_is_made_of_its_samples_as_declared(target: Target) -> None:
    @settings(
        max_examples=EXAMPLES, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(st.randoms(use_true_random=False))
    def tried(random: object) -> None:
        case: Case = mutated(target.samples, random)  # type: ignore[arg-type]
        failure = judge(target.decode, case, target.errors, target.seconds)
        assert failure is None, f"{failure.detail} {case!r}"

    tried()
