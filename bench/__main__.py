"""`python -m bench`: run workloads, show the table, write `bench/results/latest.json` and `latest.html`.

The tables in docs/performance.md follow, unless the results go to another folder.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from bench import page, results, table
from bench.engines import ENGINES, drlib
from bench.results import Results, Run
from bench.running import chosen, run_workload, scaled
from bench.workloads import FLOOR, WORKLOADS

RESULTS = Path(__file__).with_name("results")
DOCUMENT = Path(__file__).parents[1] / "docs" / "performance.md"  # shows the results of RESULTS, and says why


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.splitlines()[0])
    parser.add_argument("--workloads", default="all", help=f"all, or some of {','.join(WORKLOADS)}")
    parser.add_argument(
        "--engines", default="", help=f"some of {','.join(ENGINES)},{FLOOR}; those of the workload else"
    )
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--add", action="store_true", help="keep earlier runs of these workloads too")
    parser.add_argument("--scale", type=float, default=1.0, help="a share of the records or topics, for trying out")
    parser.add_argument("--profile", type=Path, help="a folder for cProfile's files of drlib; such runs are slower")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder of latest.json and latest.html")
    parser.add_argument("--show", action="store_true", help="run nothing, show the last results")
    parser.add_argument("--markdown", action="store_true", help="run nothing, print the last results as Markdown")
    options = parser.parse_args(argv)
    latest = options.results / "latest.json"
    console = Console()
    if options.show or options.markdown:
        last = results.read(latest)
        if last is None:
            parser.error(f"there is no {latest}; run some workloads first")
        if options.markdown:
            print(table.markdown(last), end="")
        else:
            page.write(options.results / "latest.html", last)
            console.print(table.terminal(last))
        return 0
    names = list(WORKLOADS) if options.workloads == "all" else options.workloads.split(",")
    wanted = [name for name in options.engines.split(",") if name]
    if unknown := [n for n in names if n not in WORKLOADS] + [n for n in wanted if n not in {*ENGINES, FLOOR}]:
        parser.error(f"there is no {', '.join(unknown)}")
    if not 0 < options.scale <= 1 or options.repeats < 1:
        parser.error("the scale is above 0 and at most 1, and there is at least one repeat")
    engines = chosen(wanted)
    if options.profile and "drlib" in engines:
        options.profile.mkdir(parents=True, exist_ok=True)
        engines["drlib"] = drlib(profile=options.profile / "drlib")
    failed = False
    for name in names:
        workload = scaled(WORKLOADS[name], options.scale)

        def reported(run: Run) -> None:
            found = ", ".join(f"{k} {table.number(v)} {results.METRICS[k][0]}" for k, v in run.metrics.items())
            console.print(f"  {run.engine}: {found or 'nothing'} {run.problem}", highlight=False, markup=False)

        before = results.read(latest) if options.add else None
        new = run_workload(
            workload,
            engines,
            options.repeats,
            floor=not wanted or FLOOR in wanted,
            earlier=results.repeats(before, name),
            on_event=console.print,
            on_run=reported,
        )
        failed = failed or any(run.problem for run in new.runs)
        _keep(options.results, new, add=options.add)
    last = results.read(latest)
    if last is not None:
        console.print(table.terminal(last))
        console.print(f"{latest}\n{options.results / 'latest.html'}", highlight=False, soft_wrap=True)
    return 1 if failed else 0


def _keep(folder: Path, new: Results, *, add: bool) -> None:
    merged = results.merged(results.read(folder / "latest.json"), new, add=add)
    results.write(folder / "latest.json", merged)
    page.write(folder / "latest.html", merged)
    if folder == RESULTS:
        DOCUMENT.write_text(table.placed(DOCUMENT.read_text(encoding="utf-8"), merged), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
