"""Render the copies of the pointer for a terminal and as JSON, and the changes that a watch sees.

Rules: a copy that differs says how; a hold says whether it ends by itself and when. Times are UTC. Text from outside is one
line.
"""

import json
from collections.abc import Iterator, Mapping

from rich.console import Group, RenderableType
from rich.text import Text

from drlib import formats
from drlib.client.pointer import Pointer, PointerConflict
from drlib.client.pointer_copies import PointerCopies, Written
from drlib.client.pointer_topic import EVERYONE
from drlib.ui.terminal.plain_console import headed

Pairs = Mapping[str, object]


def render_copies(copies: PointerCopies, application: str, now_ms: int) -> RenderableType:
    """What applies, then every copy, then what is to be done."""
    table = headed("application", "place", "version", "active", "written", "by", "state")
    for row in _rows(copies, application):
        style = "" if row["state"] == "current" else "bold red"
        table.add_row(*(Text(formats.one_line(formats.cell(row[name])), style=style) for name in row))
    return Group(*(Text(line) for line in _summary(copies, application, now_ms)), Text(), table)


def copies_json(copies: PointerCopies, application: str, now_ms: int) -> str:
    """One document: `pointer` (null: none, or a conflict), `since_ms`, `agree`, `conflict`, `hold`, `silent` and every copy."""
    pointer, conflict = _effective(copies, application)
    return json.dumps(
        {
            "application": application,
            "pointer": None if pointer is None else pointer_json(pointer),
            "since_ms": None if pointer is None else copies.written_ms(_key(copies, application)),
            "agree": copies.agree,
            "conflict": conflict,
            "hold": None if pointer is None else _hold(pointer, copies.written_ms(_key(copies, application)), now_ms),
            "silent": dict(copies.silent),
            "copies": list(_rows(copies, application)),
        },
        indent=2,
    )


def render_moves(copies: PointerCopies, application: str) -> RenderableType:
    """The newest pointer and those before it, a line each, and what is not known of them."""
    table = headed("version", "application", "active", "written", "by", "ends", "on")
    moves = copies.moves(application)
    for each in moves:
        pointer = each.was.pointer
        ends = f"{len(pointer.cutover)} topics" if pointer.cutover else "not recorded"
        written = formats.second(each.was.written_ms) + " UTC"
        cells = (
            pointer.version,
            each.was.application,
            pointer.active,
            written,
            pointer.by,
            ends,
            ", ".join(each.places),
        )
        table.add_row(*(Text(formats.one_line(formats.cell(value))) for value in cells))
    notes = [
        "Each was in effect until the next one of its application or of * above it. Ends of topics at each move: --json."
        if moves
        else "No pointer.",
        *(formats.one_line(f"{place} did not answer: {why}") for place, why in copies.silent.items()),
        *map(formats.one_line, copies.unreadable),
    ]
    return Group(table, Text(), *map(Text, notes))


def moves_json(copies: PointerCopies, application: str) -> str:
    """One document: `moves`, newest first, each a pointer with its application, time and places; `silent` and `unreadable`."""
    return json.dumps(
        {
            "moves": [
                {
                    "application": each.was.application,
                    "written_ms": each.was.written_ms,
                    "places": each.places,
                    "pointer": pointer_json(each.was.pointer),
                }
                for each in copies.moves(application)
            ],
            "silent": dict(copies.silent),
            "unreadable": copies.unreadable,
        },
        indent=2,
    )


def pointer_json(pointer: Pointer) -> Pairs:
    """The fields of the pointer as the format has them, and those that are left out there."""
    return {
        "version": pointer.version,
        "active": pointer.active,
        "bootstrap": pointer.bootstrap,
        "remote_prefix": pointer.remote_prefix,
        "cutover": {topic: list(ends) for topic, ends in pointer.cutover.items()},
        "hold": pointer.hold,
        "hold_limit_s": pointer.hold_limit_s,
        "by": pointer.by,
    }


def change_line(pointer: Pointer | None, doubt: str, at_ms: int) -> str:
    """One line of a watch: the time and what holds from then on."""
    return f"{formats.second(at_ms)} UTC  {formats.one_line(_describe(pointer))}" + (
        f"; in doubt: {formats.one_line(doubt)}" if doubt else ""
    )


def change_json(pointer: Pointer | None, doubt: str, at_ms: int) -> str:
    """The same on one line of JSON."""
    return json.dumps({"at_ms": at_ms, "pointer": None if pointer is None else pointer_json(pointer), "doubt": doubt})


def written_lines(written: Written, file: str) -> Iterator[str]:
    """Where a pointer is now, and what is to be done for places that missed it. `file`: as the command line had it."""
    yield f"Version {written.pointer.version} ({written.pointer.active}) is on {', '.join(written.where)}."
    for place, why in written.missing.items():
        yield f"{place} missed it: {why}. When it answers: drlib pointer publish {file}"


def unread(copies: PointerCopies) -> str:
    """What is not known of places that gave no answer; empty where all answered."""
    if not copies.silent:
        return ""
    only = f" Only {copies.file} can be written." if copies.file and set(copies.topics) == set(copies.silent) else ""
    return formats.one_line(
        f"{', '.join(copies.silent)} did not answer. If a pointer of version {copies.next_version} or above is there, "
        f"applications do not follow this one.{only}"
    )


def _summary(copies: PointerCopies, application: str, now_ms: int) -> Iterator[str]:
    who = "all applications" if application == EVERYONE else application
    pointer, conflict = _effective(copies, application)
    if conflict:
        yield f"CONFLICT for {who}: {conflict}"
    elif pointer is None:
        yield f"No pointer for {who}{' could be read' if copies.silent else ''}. The first one: drlib pointer move FILE CLUSTER"
    else:
        since = copies.written_ms(_key(copies, application))
        at = f", since {formats.second(since)} UTC ({formats.span((now_ms - since) / 1000)} ago)" if since else ""
        by = f", by {pointer.by}" if pointer.by else ""
        yield formats.one_line(f"{who}: {pointer.active} ({pointer.bootstrap}), version {pointer.version}{at}{by}")
        if pointer.remote_prefix is not None:
            yield formats.one_line(
                f"remote topics: {pointer.remote_prefix}*, the end of {len(pointer.cutover)} of them is recorded"
            )
        if hold := _hold(pointer, since, now_ms):
            yield hold
    if not copies.applications and not copies.silent:
        return  # there are no copies
    yield "All copies agree." if copies.agree else "The copies do NOT agree, or not all of them could be read."
    if not copies.agree and not conflict and pointer is not None:
        yield "To write the newest one to all of them: drlib pointer publish FILE"


def _hold(pointer: Pointer, since_ms: int | None, now_ms: int) -> str:
    """What a hold says; empty without one."""
    if not pointer.hold:
        return ""
    if not pointer.hold_limit_s:
        return f"HOLD: applications wait at {pointer.active} until the pointer is moved; it does not end by itself"
    limit = f"HOLD: each application waits for at most {pointer.hold_limit_s:g} s after it saw this"
    if since_ms is not None and now_ms - since_ms > 1000 * pointer.hold_limit_s:
        return f"{limit}, which has passed: they continue at {pointer.active}"
    return limit


def _rows(copies: PointerCopies, application: str) -> Iterator[Pairs]:
    names = copies.applications or (EVERYONE,) if application == EVERYONE else (application, EVERYONE)
    for name in names:
        if name not in copies.applications and name != EVERYONE:
            continue
        differing = copies.differing(name)
        for place, held in copies.held.items():
            copy = held.get(name)
            pointer = copy.pointer if copy is not None else None
            replaced = f"replaced by the newer one of {EVERYONE}" if copies.replaced(name) else "current"
            yield {
                "application": name,
                "place": place,
                "version": None if pointer is None else pointer.version,
                "active": None if pointer is None else pointer.active,
                "written": None if copy is None or copy.at_ms is None else formats.iso(copy.at_ms),
                "by": None if pointer is None else pointer.by,
                "state": differing.get(place, replaced),
            }
        for place, why in copies.silent.items():
            unknown = dict.fromkeys(("version", "active", "written", "by"), None)
            yield {"application": name, "place": place, **unknown, "state": f"no answer: {why}"}


def _effective(copies: PointerCopies, application: str) -> tuple[Pointer | None, str]:
    """The pointer that applies, or why there is none to choose."""
    try:
        return copies.effective(application), ""
    except PointerConflict as error:
        return None, str(error)


def _key(copies: PointerCopies, application: str) -> str:
    """Under which application the pointer that applies was written."""
    own = application in copies.applications and not copies.replaced(application)
    return application if own else EVERYONE


def _describe(pointer: Pointer | None) -> str:
    if pointer is None:
        return "no pointer"
    by = f", by {pointer.by}" if pointer.by else ""
    hold = ""
    if pointer.hold:
        hold = f", HOLD for at most {pointer.hold_limit_s:g} s" if pointer.hold_limit_s else ", HOLD without a limit"
    return f"{pointer.active} ({pointer.bootstrap}), version {pointer.version}{hold}{by}"
