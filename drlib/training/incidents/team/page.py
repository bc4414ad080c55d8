"""The debriefing of an incident as a page and as Markdown: what each action was estimated to take and took, what an earlier
right decision would have avoided, the animated replay, the score, and what a good operator would have done.

Rules: as the report's pages: one file that needs no network, everything escaped, a dark form; lists are bounded and the rest is
counted. Both have the same content but for the figures. They name the causes, so they are written after the end only.
Not for: counting (`debriefing`, `drlib.training.incidents.rules`), the table in a notebook (`pictures`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from drlib import formats
from drlib.files import write_whole
from drlib.outgoing.markdown import code, table
from drlib.runs import folder as folders
from drlib.training.incidents.reveal_figure import replay_figure
from drlib.training.incidents.rules.avoided_loss import AvoidedLoss, in_words
from drlib.training.incidents.rules.reveal import Reveal
from drlib.training.incidents.rules.score import MoveRating
from drlib.training.incidents.team.debriefing import Action, estimates_of, with_ratings
from drlib.training.incidents.team.pictures import debriefing_figure, estimate_words
from drlib.training.incidents.team.seats import Access
from drlib.ui.report.page import Drawings, render_page

PAGE: Final = "debriefing.html"
MARKDOWN: Final = "debriefing.md"
ALONE: Final = "No action was made from a seat, so that no estimate can be compared: estimates are stated in a team."
_HEADS: Final = ("UTC", "after", "seat", "action", "estimated", "took", "difference", "outcome", "rating", "gone next")
_MOST: Final = 500  # events
_SPEED: Final = 10.0


@dataclass(frozen=True, slots=True)
class Debriefing:
    """What both forms say, as text. `actions`: rows of `action_heads`. `events`: second, part, what, state."""

    run_id: str
    title: str
    points: str
    full: bool
    when: str
    estimates: tuple[str, ...]
    actions: tuple[tuple[str, ...], ...]
    seats: tuple[str, ...]
    avoided: tuple[str, ...]
    parts: tuple[tuple[str, str, str, str], ...]
    advice: tuple[str, ...]
    events: tuple[tuple[str, str, str, str], ...]
    shown: str
    action_heads: tuple[str, ...] = _HEADS
    no_actions: str = ALONE


@dataclass(frozen=True, slots=True)
class Played:
    """A finished incident: `ratings` are of the actions with an outcome, in order; `started_ms` since the epoch."""

    run_id: str
    reveal: Reveal
    avoided: AvoidedLoss
    started_ms: int
    actions: tuple[Action, ...] = ()
    ratings: tuple[MoveRating, ...] = ()
    seats: Mapping[str, Access] | None = None


def debriefing_of(played: Played) -> Debriefing:
    """What both forms say."""
    reveal, actions = played.reveal, played.actions
    entries = reveal.entries
    last_ms = played.started_ms + round(entries[-1].at_s * 1000) if entries else played.started_ms
    more = len(entries) - _MOST
    return Debriefing(
        run_id=played.run_id,
        title=reveal.title,
        points=f"{reveal.score.points:g}",
        full=reveal.score.full,
        when=f"{formats.moment(played.started_ms)} to {formats.moment(last_ms)}",
        estimates=tuple(estimate_words(one) for one in estimates_of(actions)),
        actions=tuple(_action(action, rating, played) for action, rating in with_ratings(actions, played.ratings)),
        seats=tuple(f"{name}, {access.value}" for name, access in (played.seats or {}).items()),
        avoided=in_words(played.avoided),
        parts=tuple(
            (part.name, f"{part.points:g}", f"{part.of:g}" if part.of else "", part.why) for part in reveal.score.parts
        ),
        advice=reveal.reference,
        events=tuple((f"{e.at_s:.1f}", e.track.value, e.text, e.state) for e in entries[:_MOST]),
        shown=f"The first {_MOST} of {len(entries):,}; the journal has all" if more > 0 else f"{len(entries):,} in all",
    )


def _action(action: Action, rating: str, played: Played) -> tuple[str, ...]:
    over_s = action.over_s
    difference = formats.UNKNOWN if over_s is None else f"{'+' if over_s > 0 else ''}{over_s:.1f} s"
    return (
        formats.clock(played.started_ms + round(action.at_s * 1000))[:8],
        formats.seconds(action.at_s),
        action.seat,
        action.move,
        formats.seconds(action.estimate_s),
        formats.seconds(action.took_s),
        difference,
        action.outcome,
        rating,
        f"{action.gone}, after {formats.seconds(action.gone_s)}" if action.gone else "none",
    )


def html_of(played: Played) -> str:
    drawings = Drawings()
    figures = {"bars": drawings.add(debriefing_figure(played.actions)) if played.actions else ""}
    figures["replay"] = drawings.add(replay_figure(played.reveal, played.started_ms, _SPEED))
    return render_page("debriefing.html.j2", drawings, d=debriefing_of(played), **figures)


def markdown_of(played: Played) -> str:
    """The same without figures."""
    d = debriefing_of(played)
    actions = table(_HEADS, (_cells(row) for row in d.actions)) if d.actions else [ALONE]
    lines = [
        f"# Debriefing: {d.points} of 100 points, {code(d.run_id)}",
        "",
        f"{code(d.title)}. {d.when}.",
        "",
        "## Actions: estimated and taken",
        "",
        *(f"- {code(line)}" for line in d.estimates),
        *([""] if d.estimates else []),
        *actions,
        "",
        *([f"Seats: {code('; '.join(d.seats))}.", ""] if d.seats else []),
        "## What an earlier right decision would have avoided",
        "",
        *(f"- {code(line)}" for line in d.avoided),
        "",
        "## Score",
        "",
        *table(("part", "points", "of", "why"), (_cells(part) for part in d.parts)),
        "",
        "## What a good operator would have done",
        "",
        *(f"- {code(line)}" for line in d.advice),
        "",
        "## Events",
        "",
        f"{d.shown}.",
        "",
        *table(("second", "part", "what", "state"), (_cells(event) for event in d.events)),
    ]
    return "\n".join(lines) + "\n"


def write_debriefing(played: Played, folder: Path) -> tuple[Path, Path]:
    """Write both into the run folder, and seal it again if it was sealed. Raises OSError where it cannot be written."""
    sealed = (folder / folders.MANIFEST).exists()
    folders.unseal(folder)
    paths = (folder / PAGE, folder / MARKDOWN)
    for path, text in zip(paths, (html_of(played), markdown_of(played)), strict=True):
        write_whole(path, text)
    if sealed:
        folders.seal(folder)
    return paths


def _cells(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(code(text, cell=True) for text in texts)
