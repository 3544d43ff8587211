"""A search on many GPUs, through Ray (the extra ``cluster``).

`scheduling` says who takes which candidate, and `simulating` what more GPUs would do; `connecting`
joins or starts a cluster, `actors` are what runs there, and `ray_workers` gives them their work.
`kept` has what became of candidates. Ray is imported by `connecting` and `ray_workers` alone.
"""
