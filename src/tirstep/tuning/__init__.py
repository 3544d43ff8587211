"""The tuner of ``tirstep tune``: a recipe's fastest config, into a database of MetaSchedule's.

`space` has a recipe's configs, `candidates` the processes that try them, `tuner` says which come
next, and `database` has the results; `tirstep.bench.trials` keeps what came of each.
"""
