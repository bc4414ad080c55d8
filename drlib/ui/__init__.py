"""What people look at: terminal, notebook, console and report.

`words` writes numbers, times and verdicts as text, `display` shows a table with a figure anywhere, `layout` places labels;
`jupyterlab` starts the notebooks. `console` is live, `figures` and `sizing` draw, `terminal` and `report` present runs.
"""
