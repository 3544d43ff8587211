"""A page for each ladder that was measured: what each rung changes, its diff, its gain, and what
the profiler counted. `find` chooses what was measured, `page` writes the page of it, from the
goldens (`changes`) and the counters (`words`); `files` says which files that makes.
"""

from .files import find_strays, make_pages

__all__ = ["find_strays", "make_pages"]
