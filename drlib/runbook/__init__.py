"""Runbooks: a notebook with parameters and objectives, executed by papermill into a run folder.

`file` reads the YAML; `plans` plans, resumes and rolls back drills for the command line; `open_drill` and `open_analysis`
open them inside a notebook; `execution` runs the notebook; `history` reads past runs, `history_rules` judges them.
"""
