"""Times of recipes against peers, on one GPU and in one process.

`suites` says what is measured, `arena` how one case is, `session` runs all of them, `search` looks
for a recipe's fastest sizes. `results` are what comes out, and go into JSON; tables and plots are
made of them. PyTorch and Triton (the extra ``bench``) are imported only by `torch_machine` and the
peers' own modules.
"""
