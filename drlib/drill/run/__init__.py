"""Running a plan: compared with the clusters, written to a journal, resumed after a kill, rolled back.

Modules: `runner` runs it, `planning` makes, keeps and compares plans, `registry` has all actions and probes by name and
`reference` documents them, `lease` keeps a flow to one run, `permissions` and `approvals` are what was granted, `request` is
what was asked, `step_thread` lets a step be left behind, `outcome` is how a run ended, `stored_run` is what its folder proves
later.
"""
