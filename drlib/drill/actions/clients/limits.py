"""The limits of connections that a drill wrote to brokers, recorded so that exactly the former values come back.

Rules: what a broker had itself is in the run's folder before anything is written to it, and is forgotten once it is back;
kept with the ID of the cluster. A value that the broker had not itself (a default, its server.properties, the cluster's
default) is deleted, and not written. Where another client changed a setting meanwhile, it is left, and named. A broker that
does not answer holds up no other. A later run that admits clients again looks in its own folder and in those beside it: where
several runs changed a setting one after the other, the value before the first of them comes back.
Not for: which limits (`rules`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from drlib.drill.actions.clients.rules import NAMES, Limits, limits_of
from drlib.drill.actions.parts import Parts
from drlib.drill.step import step_output as details
from drlib.drill.step.cluster_identity import cluster_id, rows_beside, write_beside
from drlib.errors import Deviated, DrlibError, Unreachable
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import ConfigChange, ConfigSource
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.runs.abort import Abort
from drlib.runs.journal import Scalar
from drlib.runs.waiting import look_at, wait_for

_APPLIED_S = 20.0  # until a broker has read its own new setting in the metadata log


def read(cluster: Cluster) -> dict[int, Limits]:
    """Of every broker, as it is in effect. Raises `ClusterRefused` without DescribeConfigs on the cluster."""
    found = cluster.broker_settings()
    return {node: limits_of({each.name: each.value for each in values}) for node, values in sorted(found.items())}


class ClientLimits:
    """What runs beside `run_dir`, and itself, wrote on `cluster`."""

    def __init__(self, run_dir: Path, cluster: ClusterSettings) -> None:
        self._run_dir, self._cluster = run_dir, cluster
        self._file = f"client-limits.{cluster.alias}"

    def rows(self) -> tuple[details.Row, ...]:
        """What this run wrote, or was about to when it was killed: a row for each setting of each broker."""
        return tuple(details.read_rows(self._run_dir, self._file))

    def written(self) -> int:
        """To how many brokers this run and those beside it wrote limits that are not taken back yet."""
        return len({row["broker"] for rows in self._of_all().values() for row in rows})

    def write(self, cluster: Cluster, node: int, now: Limits, wanted: Limits) -> None:
        """Record what the broker has itself, and write what of `wanted` is not so now. Raises `ClusterRefused`."""
        kept = self.rows()
        if not any(row["broker"] == node for row in kept):
            own = _own(cluster, node)
            this = cluster_id(self._cluster)
            rows: list[dict[str, Scalar]] = [
                {"cluster_id": this, "broker": node, "setting": name, "before": own[name], "after": wanted.values[name]}
                for name in NAMES
                if now.values[name] != wanted.values[name]
            ]
            details.write_rows(self._run_dir, self._file, [*kept, *rows])
        self._write(cluster, node, self.rows())

    def write_again(self, rows: Sequence[details.Row]) -> None:
        """Record and write `rows` that were taken back."""
        details.write_rows(self._run_dir, self._file, rows)
        parts = Parts()
        with Cluster(self._cluster) as cluster:
            for node in dict.fromkeys(int(row["broker"] or 0) for row in rows):
                with parts.each(f"broker {node}"):
                    self._write(cluster, node, rows)
        parts.raise_failed()

    def _write(self, cluster: Cluster, node: int, rows: Iterable[details.Row]) -> None:
        changes = [ConfigChange(str(row["setting"]), None, str(row["after"])) for row in rows if row["broker"] == node]
        cluster.alter_broker_settings(node, changes)

    def applied(self, cluster: Cluster, node: int, wanted: Limits, abort: Abort) -> None:
        """Wait until the broker uses `wanted`. Raises `Unreachable`."""
        wait_for(
            abort,
            f"broker {node} of {self._cluster.alias} uses its new limits",
            lambda: read(cluster).get(node) == wanted,
            _APPLIED_S,
            look_at(self._run_dir),
        )

    def restore_own(self) -> int:
        """Give the brokers back what they had before this run; on how many. Safe to repeat.

        Raises `Deviated` for settings that another client changed, `Unreachable` for brokers that do not answer, once all
        others have theirs back.
        """
        return self._restore({self._run_dir: self.rows()})

    def restore(self) -> int:
        """The same for what runs beside this one wrote, too."""
        return self._restore(self._of_all())

    def _of_all(self) -> Mapping[Path, tuple[details.Row, ...]]:
        return rows_beside(self._run_dir, self._file, self._cluster)

    def _restore(self, rows_of: Mapping[Path, tuple[details.Row, ...]]) -> int:
        left = {folder: list(rows) for folder, rows in rows_of.items() if rows}
        changed: list[str] = []
        failed: dict[int, DrlibError] = {}
        nodes = dict.fromkeys(int(row["broker"] or 0) for rows in left.values() for row in rows)
        if nodes:
            with Cluster(self._cluster) as cluster:
                for node in nodes:
                    newest_first = [
                        row for rows in reversed(list(left.values())) for row in rows if row["broker"] == node
                    ]
                    try:
                        changed += _put_back(cluster, node, newest_first)
                    except DrlibError as error:
                        failed[node] = error
                        continue
                    for folder, rows in left.items():
                        if any(row["broker"] == node for row in rows):
                            left[folder] = [row for row in rows if row["broker"] != node]
                            write_beside(folder, self._file, left[folder])
        if failed or changed:
            files = [details.rows_path(folder, self._file) for folder, rows in left.items() if rows]
            raise not_put_back(self._cluster.alias, failed, changed, files)
        return len(nodes)


def former(now: Scalar, newest_first: Iterable[details.Row]) -> Scalar:
    """What a setting that is `now` was before runs changed it one after the other, as far as it was they. Pure."""
    for row in newest_first:
        if row["after"] == now:
            now = row["before"]
    return now


def not_put_back(
    alias: str, failed: Mapping[int, DrlibError], changed: Sequence[str], files: Sequence[Path]
) -> DrlibError:
    """`failed`: brokers that could not be asked or written, whose limits are still recorded in `files`. `changed`: settings
    that another client changed. Pure."""
    why = [f"broker {node}: {error.why.removesuffix('.')}" for node, error in failed.items()]
    why += [f"another client changed them since: {', '.join(changed)}"] if changed else []
    remedy = []
    if failed:
        remedy.append(
            "Start these brokers and run it again; of one that is gone for good, remove the "
            f"entries from {' and '.join(map(str, files))}, and its settings with kafka-configs.sh --bootstrap-controller."
        )
    if changed:
        remedy.append(
            "Set what was changed to what was there before with kafka-configs.sh --entity-type brokers --alter, if it is "
            "not meant to be so."
        )
    kind = Deviated if changed or not all(isinstance(e, Unreachable) for e in failed.values()) else Unreachable
    nodes = f" of brokers {', '.join(map(str, failed))}" if failed else ""
    return kind(f"limits of connections{nodes} on {alias} were not put back", "; ".join(why), " ".join(remedy))


def _put_back(cluster: Cluster, node: int, newest_first: Sequence[details.Row]) -> list[str]:
    """Give one broker back what it had; the settings that another client changed are left, and returned."""
    own = _own(cluster, node)
    back, changed = [], []
    for name in dict.fromkeys(str(row["setting"]) for row in newest_first):
        rows = [row for row in newest_first if row["setting"] == name]
        if (before := former(own[name], rows)) != own[name]:
            back.append(ConfigChange(name, own[name], None if before is None else str(before)))
        elif all(own[name] != row["before"] for row in rows):
            before = rows[-1]["before"]
            changed.append(f"{name} of broker {node} ({'not set' if before is None else before or 'empty'} before)")
    if back:
        cluster.alter_broker_settings(node, back)
    return changed


def _own(cluster: Cluster, node: int) -> Mapping[str, str | None]:
    """What is set on the broker itself, None where nothing is."""
    values = {each.name: each for each in cluster.broker_settings([node])[node]}
    return {
        name: values[name].value if name in values and values[name].source is ConfigSource.DYNAMIC_BROKER else None
        for name in NAMES
    }
