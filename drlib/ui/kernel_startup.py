"""What a kernel of `drlib notebook` runs at its start (PYTHONSTARTUP): see `unrun_cells`. It leaves no name behind."""

with __import__("contextlib").suppress(ImportError, SyntaxError):  # another Python, in a terminal of JupyterLab
    __import__("drlib.ui.unrun_cells", fromlist=["install"]).install()
