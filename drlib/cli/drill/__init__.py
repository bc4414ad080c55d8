"""Commands for drills: `drills` has plan, run and abort, `run` carries out a run, `runs` lists past runs and schedules."""
