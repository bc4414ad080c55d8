"""Transactions of the source: which of them the target has in part, by what a worker recorded there while the source answered.

- `transaction_state`: the format of `__transaction_state`; `recorder`: keeps its newest transactions in the journal
- `rules`: decides which transactions are complete on the target; `tail`: the same once the source came back; `find`: reads what
  is needed
"""
