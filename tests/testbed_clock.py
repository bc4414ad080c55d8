"""A process with a wall clock of its own: `SHIFT` as sitecustomize.py on its PYTHONPATH; SHIFT_FILE holds the seconds."""

SHIFT = """import os, time
_time, _file = time.time, os.environ["SHIFT_FILE"]
time.time = lambda: _time() + float(open(_file).read())
"""
