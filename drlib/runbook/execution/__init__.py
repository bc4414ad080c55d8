"""Executing a runbook's notebook: `execute` from parameters to report, exit code and alert.

`notebook_client` and `papermill_engine` run the cells and report them, `interrupt` stops them; `outcome` turns what
ended a run into an exit code, `alert` posts a missed run to the runbook's address.
"""
