"""Two logs with the same records in different orders: where a reader of one continues on the other, and what it reads again.

Rules: records are numbers, a log is a list of them. A reader continues at the first record that it has not read, so nothing is
skipped; what it has read and lies behind that, it reads again. Pure.
Not for: positions of groups, which drlib translates from its maps (`drlib.mirror.offsets.translation.shared_position`).
"""

from collections.abc import Callable, Collection, Sequence


def position(log: Sequence[int], read: Collection[int]) -> int:
    """The place in `log` of the first record that was not read; its length where all were."""
    return next((place for place, number in enumerate(log) if number not in read), len(log))


def first_unread(log: Sequence[int], read: Collection[int]) -> int:
    """That record; -1 where all were read."""
    place = position(log, read)
    return log[place] if place < len(log) else -1


def read_and_behind(log: Sequence[int], read: Collection[int]) -> list[int]:
    """The records that were read and lie behind the first one that was not."""
    return [number for number in log[position(log, read) :] if number in read]


def read_again_apart(log: Sequence[int], read: Collection[int], origin: Callable[[int], str]) -> int:
    """How many are read again where the records of each origin are in a log of their own, in the order of `log`."""
    logs = {each: [number for number in log if origin(number) == each] for each in {origin(number) for number in log}}
    return sum(len(read_and_behind(apart, read)) for apart in logs.values())


def repeated(later: Sequence[int], read: Collection[int]) -> list[int]:
    """What of `later` was in `read`, or came in `later` before, each time that it came."""
    seen, again = {*read}, []
    for number in later:
        if number in seen:
            again.append(number)
        seen.add(number)
    return again


def stretches(log: Sequence[int], again: Collection[int]) -> list[list[int]]:
    """`log` in parts of consecutive numbers that are read again, or are not."""
    parts: list[list[int]] = []
    for number in log:
        if parts and parts[-1][-1] + 1 == number and (parts[-1][-1] in again) is (number in again):
            parts[-1].append(number)
        else:
            parts.append([number])
    return parts
