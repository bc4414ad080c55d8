"""Commands for drills: `drills` has plan, run and abort, `run` carries out a run, `failover` and `failback` a whole night."""
