"""Forecast lag, the time to catch up, and the expiry of unmirrored records: arithmetic on samples, no clock, no I/O.

Rules:
- Lag in records counts source offsets that are not on the target; control records and gaps make it an upper bound.
- Bytes are an estimate (mean size of mirrored records times lag), and so is everything computed from it.
- A record expires, at the earliest, `retention.ms` after its own timestamp, or when `retention.bytes` were written after
  it; a broker deletes whole segments, so it is never earlier.
- Unknown is None; a time left of None means that nothing expires.
Source: Kafka's `UnifiedLog.deleteRetentionMsBreachedSegments` and `deleteRetentionSizeBreachedSegments`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from drlib.kafka.admin.descriptions import ConfigValue

UNLIMITED: Final = -1
SHARE: Final = 0.1  # of a retention: less time left than this is a warning, whatever the rates
STUCK_S: Final = 5.0  # a lag without any progress for this long is stuck


@dataclass(frozen=True, slots=True)
class Retention:
    """A topic's retention as Kafka has it: -1 for unlimited. Compaction alone deletes by neither."""

    ms: int = UNLIMITED
    bytes: int = UNLIMITED


@dataclass(frozen=True, slots=True)
class Sample:
    """A partition at `at_s`: the mirrored source offset (exclusive), the source's log end, and the forecast time left.
    `copied`: records that were copied by then, where offsets are passed that are not: copies of the flow back; else None."""

    at_s: float
    mirrored: int
    end: int
    left_s: float | None = None
    copied: int | None = None


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """Seconds until the oldest unmirrored record expires by `rule`; `span_s` is the whole retention."""

    seconds: float
    span_s: float
    rule: str


@dataclass(frozen=True, slots=True)
class Outlook:
    """One partition's forecast. Rates are per second, offsets written to the source and records copied from it; None is
    unknown; `eta_s` is None also while the lag does not shrink."""

    lag_s: float | None = None
    lag_bytes: int | None = None
    in_per_s: float | None = None
    out_per_s: float | None = None
    eta_s: float | None = None
    left_s: float | None = None
    rule: str = ""
    stuck: bool = False
    warning: str = ""

    @property
    def idle(self) -> bool:
        """No lag, and no traffic lately."""
        return self.lag_s == 0 and self.in_per_s == 0 and self.out_per_s == 0


def retention_of(config: dict[str, str]) -> Retention:
    """The retention in a topic's effective configuration. A topic that is only compacted has none."""
    if "delete" not in [p.strip() for p in config.get("cleanup.policy", "delete").split(",")]:
        return Retention()
    return Retention(int(config.get("retention.ms", UNLIMITED)), int(config.get("retention.bytes", UNLIMITED)))


def retention_in(settings: Iterable[ConfigValue]) -> Retention:
    """The same from a topic's configuration as its broker describes it."""
    return retention_of({entry.name: entry.value for entry in settings if entry.value is not None})


def rates(samples: Sequence[Sample]) -> tuple[float, float] | None:
    """Records per second written to the source and mirrored, from the first to the last sample; None with fewer than two."""
    if len(samples) < 2 or samples[-1].at_s <= samples[0].at_s:
        return None
    first, last = samples[0], samples[-1]
    seconds = last.at_s - first.at_s
    return max(0, last.end - first.end) / seconds, max(0, last.mirrored - first.mirrored) / seconds


def copied_per_s(samples: Sequence[Sample]) -> float | None:
    """Records copied per second, from the first to the last sample; where these do not count them, offsets passed."""
    measured = rates(samples)
    if measured is None:
        return None
    first, last = samples[0], samples[-1]
    if first.copied is None or last.copied is None:
        return measured[1]
    return max(0, last.copied - first.copied) / (last.at_s - first.at_s)


def eta_s(lag: int, in_per_s: float, out_per_s: float) -> float | None:
    """Seconds until the lag is gone at these rates; None when it does not shrink."""
    if lag <= 0:
        return 0.0
    net = out_per_s - in_per_s
    return lag / net if net > 0 else None


def time_left(
    retention: Retention, *, now_ms: int, oldest_ms: int | None, lag_bytes: int | None, in_bytes_per_s: float | None
) -> TimeLeft | None:
    """How long the oldest unmirrored record is kept, by whichever rule comes first; None when none applies.

    A rule whose input (timestamp, bytes) is unknown does not apply.
    """
    candidates = []
    if retention.ms >= 0 and oldest_ms is not None and oldest_ms >= 0:
        candidates.append(TimeLeft((oldest_ms + retention.ms - now_ms) / 1000, retention.ms / 1000, "retention.ms"))
    if retention.bytes >= 0 and lag_bytes is not None and in_bytes_per_s:
        room = retention.bytes - lag_bytes
        candidates.append(TimeLeft(room / in_bytes_per_s, retention.bytes / in_bytes_per_s, "retention.bytes"))
    return min(candidates, key=lambda left: left.seconds, default=None)


def burn(samples: Sequence[Sample], left_s: float) -> float:
    """How fast the time left shrinks, in seconds per second: 1 while nothing is mirrored, below 0 while it grows.

    `left_s` is the time left at the last of `samples`.
    """
    first = next((s for s in samples if s.left_s is not None), None)
    if first is None or first.left_s is None or samples[-1].at_s <= first.at_s:
        return 1.0
    return (first.left_s - left_s) / (samples[-1].at_s - first.at_s)


def threshold_s(span_s: float, warning_s: float) -> float:
    """Less time left than this is a warning: `SHARE` of the retention, or `warning_s` but at most half the retention."""
    return max(SHARE * span_s, min(warning_s, span_s / 2))


def warn(lag: int, left: TimeLeft | None, eta: float | None, samples: Sequence[Sample], warning_s: float) -> str:
    """Why records will expire before they are mirrored, in words; empty where they will not."""
    if lag <= 0 or left is None:
        return ""
    if left.seconds <= 0:
        return f"the oldest unmirrored record may expire at any moment by {left.rule}"
    if left.seconds < threshold_s(left.span_s, warning_s):
        return f"the oldest unmirrored record expires in {_s(left.seconds)} by {left.rule}"
    speed = burn(samples, left.seconds)
    if eta is not None and eta > 0 and speed > 0 and len(samples) > 1 and left.seconds / speed < eta:
        return f"catching up takes {_s(eta)}, but {left.rule} reaches unmirrored records in {_s(left.seconds / speed)}"
    return ""


def outlook(
    samples: Sequence[Sample],
    *,
    now_ms: int,
    oldest_ms: int | None,
    record_bytes: float | None,
    retention: Retention | None,
    warning_s: float,
) -> Outlook:
    """The forecast at the last of `samples` (oldest first, at least one). `retention` None is unknown."""
    last = samples[-1]
    lag = max(0, last.end - last.mirrored)
    measured = rates(samples)
    incoming, outgoing = measured if measured is not None else (None, None)
    lag_bytes = 0 if lag == 0 else None if record_bytes is None else int(lag * record_bytes)
    eta = 0.0 if lag == 0 else None if measured is None else eta_s(lag, *measured)
    stuck = lag > 0 and outgoing == 0 and last.at_s - samples[0].at_s >= STUCK_S
    left = None
    if lag and retention is not None:
        growth_bytes_per_s = None if incoming is None or record_bytes is None else incoming * record_bytes
        left = time_left(
            retention, now_ms=now_ms, oldest_ms=oldest_ms, lag_bytes=lag_bytes, in_bytes_per_s=growth_bytes_per_s
        )
    lag_s = 0.0 if lag == 0 else None if oldest_ms is None or oldest_ms < 0 else max(0.0, (now_ms - oldest_ms) / 1000)
    return Outlook(
        lag_s=lag_s,
        lag_bytes=lag_bytes,
        in_per_s=incoming,
        out_per_s=copied_per_s(samples),
        eta_s=eta,
        left_s=None if left is None else left.seconds,
        rule="" if left is None else left.rule,
        stuck=stuck,
        warning=warn(lag, left, eta, samples, warning_s),
    )


def forecast(
    samples: deque[Sample],
    sample: Sample,
    *,
    window_s: float,
    now_ms: int,
    oldest_ms: int | None,
    record_bytes: float | None,
    retention: Retention | None,
    warning_s: float,
) -> Outlook:
    """Append `sample` to a sliding window of `window_s` (it keeps two samples at least), and forecast from the window.

    The time left is kept in the sample, for the next forecast's `burn`.
    """
    samples.append(sample)
    while len(samples) > 2 and samples[1].at_s < sample.at_s - window_s:
        samples.popleft()
    result = outlook(
        samples,
        now_ms=now_ms,
        oldest_ms=oldest_ms,
        record_bytes=record_bytes,
        retention=retention,
        warning_s=warning_s,
    )
    samples[-1] = replace(sample, left_s=result.left_s)
    return result


def oldest_unmirrored_ms(
    *,
    lag: int,
    queued_ms: int | None,
    probed_ms: int | None,
    mirrored: int,
    end_before: int | None,
    measured_before_ms: int | None,
    last_mirrored_ms: int | None,
) -> int | None:
    """The timestamp of the oldest unmirrored record, from the cheapest exact source first.

    A record that was fetched or probed has it. Else, in a backlog that existed at the previous measurement, it is about as old
    as the last mirrored one; a record written after that measurement cannot have waited longer than since then.
    """
    if lag <= 0:
        return None
    if queued_ms is not None:
        return queued_ms
    if probed_ms is not None:
        return probed_ms
    if end_before is not None and measured_before_ms is not None and mirrored >= end_before:
        return measured_before_ms if last_mirrored_ms is None else max(last_mirrored_ms, measured_before_ms)
    return last_mirrored_ms


def _s(seconds: float) -> str:
    for size, unit in ((86_400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
