"""The runbooks that `drlib init` writes for the clusters of a properties file.

What was observed is a value (`observation`), and the files are made of it without asking any cluster (`runbooks`, `readme`).
"""
