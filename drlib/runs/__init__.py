"""The folder of one run: what is kept of it, and how it is judged.

`folder` creates and seals it; `journal` is its hash-chained log; `check` and `scorecard` are what it concluded, `verdict`
turns checks into a verdict and an exit code; `lock` and `abort` coordinate processes; `waiting` and `signals` interrupt a
wait; `table` is a result that a step displays.
"""
