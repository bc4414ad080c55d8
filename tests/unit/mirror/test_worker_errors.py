"""Which errors of a flow end the whole worker, and which are waited for."""

from __future__ import annotations

import pytest

from drlib.errors import DrlibError, Unreachable, UsageError
from drlib.kafka.admin.errors import ClusterRefused
from drlib.kafka.protocol.error_codes import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    GROUP_AUTHORIZATION_FAILED,
    UNSUPPORTED_VERSION,
    BrokerError,
)
from drlib.kafka.security.errors import Fault, SecurityFault
from drlib.mirror.errors import SourceLost, no_answer
from drlib.mirror.worker import STARTING_UP_S, ends_worker, is_unavailable

DOWN = Unreachable("A", "refused", "start it")
LOADING = BrokerError(COORDINATOR_LOAD_IN_PROGRESS, "joining")
PASSWORD = SecurityFault(Fault.WRONG_CREDENTIALS, "A", "wrong password", "correct it")
FILE = UsageError("flow", "same cluster", "correct it")
RIGHT = BrokerError(GROUP_AUTHORIZATION_FAILED, "joining")


def refused(code: str) -> ClusterRefused:
    return ClusterRefused("creating", code, "see the log", code=code)


@pytest.mark.parametrize(
    ("error", "at_start", "later"),
    [
        (DOWN, False, False),
        (TimeoutError("no answer"), False, False),
        (OSError("too many open files"), False, False),
        (LOADING, False, False),
        (BrokerError(COORDINATOR_NOT_AVAILABLE, "joining"), False, False),
        (refused("NOT_CONTROLLER"), False, False),
        (refused("POLICY_VIOLATION"), True, False),
        (PASSWORD, True, False),
        (FILE, True, False),
        (RIGHT, True, False),
        (BrokerError(UNSUPPORTED_VERSION, "joining"), True, False),
        (SourceLost("offsets 0 to 9 expired"), True, True),
    ],
)
def test_ends_worker_only_what_a_wrong_file_or_the_loss_policy_causes(
    error: Exception, at_start: bool, later: bool
) -> None:
    hours = 10_000.0
    assert ends_worker(error, fresh=True, alone=True, waits=True, waited_s=hours) is at_start
    assert ends_worker(error, fresh=False, alone=True, waits=True, waited_s=hours) is later


def test_ends_worker_login_refused_by_one_cluster_leaves_other_flows_running() -> None:
    assert not ends_worker(PASSWORD, fresh=True, alone=False, waits=True, waited_s=0)
    assert ends_worker(FILE, fresh=True, alone=False, waits=True, waited_s=0)


def test_ends_worker_copy_does_not_wait_for_clusters() -> None:
    assert ends_worker(DOWN, fresh=True, alone=True, waits=False, waited_s=0)
    assert ends_worker(DOWN, fresh=False, alone=True, waits=False, waited_s=0)
    assert not ends_worker(LOADING, fresh=True, alone=True, waits=False, waited_s=STARTING_UP_S - 1)
    assert ends_worker(LOADING, fresh=True, alone=True, waits=False, waited_s=STARTING_UP_S)


def test_is_unavailable_says_which_event_is_opened() -> None:
    errors: list[Exception] = [DOWN, TimeoutError(), LOADING, PASSWORD, FILE, RIGHT, DrlibError("a", "b", "c")]
    assert [is_unavailable(error) for error in errors] == [True] * 4 + [False] * 3


@pytest.mark.parametrize(
    ("error", "detail", "remedy"),
    [
        (DOWN, "A: refused", ""),
        (ExceptionGroup("readers", [ExceptionGroup("asking", [DOWN])]), "A: refused", ""),
        (PASSWORD, "this host cannot use it: A: wrong password", "correct it"),
        (TimeoutError("no answer"), "TimeoutError: no answer", ""),
    ],
)
def test_event_of_a_cluster_without_answer_leaves_the_remedy_to_the_events_own(
    error: Exception, detail: str, remedy: str
) -> None:
    assert no_answer(error) == (detail, remedy)
