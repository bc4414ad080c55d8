"""Fuzzing of everything that decodes what another process, another user or a file says (`make fuzz`).

`targets` is the table of the decoders with valid samples and the errors that each may raise, `mutate` makes new inputs from the
samples, `limits` judges one case (its own errors only, within time and memory), `__main__` runs them all.
"""
