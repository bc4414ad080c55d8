"""What the fuzzer takes for a failure, and how small it makes one."""

from __future__ import annotations

import time

import pytest
from fuzz.limits import judge, smaller
from fuzz.mutate import Case


def spin(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_judge_declared_errors_and_results_are_no_failures() -> None:
    assert judge(lambda data: data, (b"x",), (), 1) is None
    assert judge(int, (b"x",), (ValueError,), 1) is None


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (KeyError("x"), "KeyError"),
        (MemoryError(), "MemoryError"),
        (SystemExit(1), "SystemExit"),
    ],
)
def test_judge_any_other_error_is_a_failure(error: BaseException, kind: str) -> None:
    def fails(data: bytes) -> None:
        raise error

    failure = judge(fails, (b"x",), (ValueError,), 1)
    assert failure is not None
    assert failure.kind.startswith(f"{kind} at test_limits.py:")


@pytest.mark.parametrize("seconds", [0.02, 60.0])
def test_judge_slow_decoder_is_a_failure_and_is_interrupted(seconds: float) -> None:
    began = time.process_time()
    failure = judge(lambda data: spin(seconds), (b"x",), (), 0.01)
    assert failure is not None
    assert failure.kind == "too slow"
    assert time.process_time() - began < 5


def test_judge_time_of_one_case_is_not_that_of_the_next() -> None:
    assert judge(lambda data: spin(0.03), (b"x",), (), 0.04) is None
    assert judge(lambda data: spin(0.03), (b"x",), (), 0.04) is None


def test_smaller_leaves_what_fails() -> None:
    def fails(case: Case) -> bool:
        return b"\xff" in case[0] and case[1] != b""

    assert smaller((b"abc\xffdef" * 50, b"key"), fails) in [(b"\xff", bytes([letter])) for letter in b"key"]
