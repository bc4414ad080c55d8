"""What a row of the tables of causes says: `Cause`.

Rules: each cause is a real fault on the lab's clusters. `{where}` and `{how}` in a text stand for what the seed chose from
`wheres` and `hows`. `places` are the parts of the testbed that a cause affects: two causes are combined only if they share
none. Times are seconds from the injection; an operator within them gets all points.
Not for: the rows (`causes`, `postmortems`).
"""

from dataclasses import dataclass

from drlib.training.incidents.rules.symptoms import Symptom


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One row of the table. `repair`: the reference solution, in order. `harmful`: names of moves that make it worse.

    `spares_positions`: True if the fault itself makes no group read a record again, so that every one is the operator's doing.
    """

    name: str
    level: int
    title: str
    story: str
    wheres: tuple[str, ...]
    hows: tuple[str, ...] = ("",)
    places: tuple[str, ...]
    symptoms: tuple[Symptom, ...]
    repair: tuple[str, ...]
    harmful: tuple[str, ...] = ()
    good: str
    hints: tuple[str, str, str]
    detect_s: float = 60.0
    diagnose_s: float = 150.0
    recover_s: float = 300.0
    spares_positions: bool = True
