"""Java's regular expressions, as MirrorMaker 2's files have them.

- `java_regex`: translates a Java pattern for the library `regex`, or refuses it
- `selection`: comma lists of patterns, includes and excludes, with a time limit
- `missing_topics`: topics named literally that do not exist
"""
