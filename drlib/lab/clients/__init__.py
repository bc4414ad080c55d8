"""Unmodified clients of every family that this machine can run, at one bootstrap address of a lab.

`families` are the families and which are chosen, `runtimes` what this machine has for each and how it is started, `on_lab`
their processes on a lab, `rules` what their histories say. `python_client`, `console_client` and the folder `programs` are the
clients themselves: none of them follows the pointer.
"""
