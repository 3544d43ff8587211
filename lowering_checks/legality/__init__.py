"""What TVM accepts and gets wrong: what transforms refuse before and after a change."""
