"""Drills: rehearsed and real failovers, failbacks and switchovers, from plan to scorecard.

Packages: `plan` (pure data and rules), `run` (the runner), `step` (what an action is), `actions` (on real clusters),
`scenarios` and `testbed` (on a lab), `readiness` (the gate before a drill), `session` (a drill in a notebook).
Vocabulary as in Chaos Toolkit: steady-state hypothesis, method, action, probe, rollback, journal.
"""
