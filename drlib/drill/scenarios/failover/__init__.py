"""The failover and failback drills on a lab, with the applications of the flights.

`applications`, `mirror` and `clusters` start and break things, `proof` and `proof_actions` judge a failover with the checker
and Spark, `round_trip` judges the way there and back.
"""
