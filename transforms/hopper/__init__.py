"""Features of compute capability 9.0: the TMA, wgmma, warp specialization, persistent CTAs."""
