"""Steps that call a program or an address outside of drlib.

Modules: `actions` has the actions, `hook` what a hook is and the evidence of a call, `run` calls it.
"""
