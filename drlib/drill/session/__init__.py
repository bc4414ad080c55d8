"""A drill in a notebook: its session, its live board, its scorecard, and runs that are in progress.

Modules: `session` runs a drill step by step, `board` is its live picture's state, `scorecard` puts the parts of a run's
scorecard together, `find_running` finds drills that run now.
"""
