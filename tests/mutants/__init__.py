"""Mutation testing of the pure decision code: each small change to a module has to make one of its unit tests fail.

`mutate` makes the changes, `select` finds the modules and the tests that can notice, `session` runs the
mutants of one module, `__main__` those of all (`make mutants`).
`equivalent.txt` lists the changes that cannot be noticed, each with its reason.
"""
