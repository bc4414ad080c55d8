"""Benchmarks: our engine, MirrorMaker 2 and the raw wire over the same topics, on the same machine, in the same run.

Rules: what is measured is decided in `workloads`, how numbers follow from samples in `steady` and `results`, which are
pure; every engine gets the same source topic and a mirror topic of its own; engines take turns within each repeat; a
run that did not copy what it should is reported as such and never as a rate. Not part of the product's package:
nothing under `drlib` imports it.
"""
