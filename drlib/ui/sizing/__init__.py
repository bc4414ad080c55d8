"""Sizing a link in a notebook and for `drlib size`.

`sizing` has the tables, `figures` the plots, `measurements` what a trial on the lab's link measured, `verdict` the checks.
"""
