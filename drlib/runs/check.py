"""One check with its verdict and its evidence: what checkers, analyses, steps and scorecards have in common.

Not for: the verdict of a whole run and its exit code (`drlib.runs.verdict`).
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final

from pydantic import ConfigDict

CANARY: Final = "a canary reads the right records"  # the check of a rehearsal, by which it is known as one


class Verdict(StrEnum):
    PASS = "pass"
    CONDITIONS = "conditions"  # everything holds, at a stated price: records the objective allows to lose
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Check:
    """What was checked, in a sentence that is true when it passes; its verdict; and what that rests on, in words."""

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    name: str
    verdict: Verdict
    evidence: str
