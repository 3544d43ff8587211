"""What compute capability 9.0 has: the TMA, wgmma, roles of warps, thread blocks that stay."""
