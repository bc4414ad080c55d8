"""Where labels go so that none covers another: pure arithmetic, no plotting.

Rules: order is kept; a label is moved only as far as it must be.
"""

from collections.abc import Sequence


def rows(spans: Sequence[tuple[float, float]]) -> list[int]:
    """For each (left, right) the lowest row, from 0, where it overlaps none placed before it."""
    ends: list[list[tuple[float, float]]] = []
    placed = []
    for left, right in spans:
        row = next(
            (n for n, taken in enumerate(ends) if all(right <= a or left >= b for a, b in taken)),
            len(ends),
        )
        if row == len(ends):
            ends.append([])
        ends[row].append((left, right))
        placed.append(row)
    return placed


def spread(values: Sequence[float], gap: float, top: float) -> list[float]:
    """`values` moved apart until neighbours are at least `gap` apart, none above `top`, in their own order."""
    order = sorted(range(len(values)), key=lambda n: values[n])
    moved = [values[n] for n in order]
    for n in range(1, len(moved)):
        moved[n] = max(moved[n], moved[n - 1] + gap)
    limit = top
    for n in reversed(range(len(moved))):
        moved[n] = min(moved[n], limit)
        limit = moved[n] - gap
    result = [0.0] * len(values)
    for place, n in enumerate(order):
        result[n] = moved[place]
    return result
