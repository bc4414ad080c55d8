"""The table of causes: complete, repairable, ordered by urgency."""

from __future__ import annotations

from drlib.training.incidents.rules.causes import CAUSES, InjectedCause, by_urgency
from drlib.training.incidents.rules.moves import MOVES
from drlib.training.incidents.rules.postmortems import POSTMORTEMS

LEFT_KILLED = InjectedCause("broker-killed", "LEFT")


def test_causes_table_has_causes_repairable_by_known_moves() -> None:
    assert [cause.name for cause in CAUSES.values() if cause.level == 6] == [c.name for c in POSTMORTEMS.values()]
    assert len(CAUSES) == 12 + len(POSTMORTEMS)
    for cause in CAUSES.values():
        assert cause.level in (1, 2, 3, 6)
        for where in cause.wheres:
            for how in cause.hows:
                injected = InjectedCause(cause.name, where, how)
                assert injected.repair
                assert all(move.definition.changes_state and not move.definition.harmful for move in injected.repair)
                assert "{" not in "".join(injected.render(t) for t in (cause.story, *cause.hints))
        assert set(cause.harmful) <= set(MOVES)
        assert not {move.name for move in injected.repair} & set(cause.harmful), "a repair that counts as harmful"
        assert cause.symptoms
        assert len(set(cause.hints)) == 3


def test_by_urgency_puts_retention_first_then_sites_then_others() -> None:
    sync, slow = InjectedCause("stopped-group-sync", "mirror"), InjectedCause("slow-link-retention", "LEFT", "2000")
    right = InjectedCause("broker-killed", "RIGHT")
    assert by_urgency([sync, LEFT_KILLED, right]) == (LEFT_KILLED, right, sync)
    assert by_urgency([right, slow]) == (slow, right)
    assert slow.definition.diagnose_s < right.definition.diagnose_s
