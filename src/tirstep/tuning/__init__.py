"""The tuner of ``tirstep tune``: a recipe's fastest config, into a database of MetaSchedule's.

`candidates` has the processes that try configs, `tuner` says which come next, and `database` has
the results; `tirstep.bench.search` keeps what came of each.
"""
