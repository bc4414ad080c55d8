"""What people look at: terminal, notebook, console and report.

`words` writes verdicts and what a drill measured as text, `layout` places labels; `jupyterlab` starts the notebooks, and
their kernels run `kernel_startup`: `unrun_cells` names a cell that was left out.
`console` is live, `figures` and `sizing` draw, `terminal` and `report` present runs.
"""
