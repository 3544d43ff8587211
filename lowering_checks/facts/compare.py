"""Legal, but not good: what a shape loses against one that a recipe was made for."""

from __future__ import annotations

from .model import Facts

ACCESSES = {
    "load": "loads from global memory",
    "store": "stores to global memory",
    "shared_load": "loads from shared memory",
    "shared_store": "stores to shared memory",
}
CALLS = {"cp_async": "cp.async", "ldmatrix": "ldmatrix", "mma": "mma", "wgmma": "wgmma"}


def find_losses(facts: Facts, reference: Facts, *, place: str) -> list[str]:
    """What a step loses against the same step at another shape, in sentences; mostly nothing.

    Vector accesses, copies and tensor cores that are gone, accesses that are narrower, and
    conditions around accesses that came. `place` says where the reference is from, for people.
    """
    if facts.refusal is not None or reference.refusal is not None:
        return []
    mine, theirs = ({k: v or 0 for k, v in one.values().items()} for one in (facts, reference))
    notes = []
    for key, name in ACCESSES.items():
        vectors, widest = f"vector_{key}s", f"{key}_bytes"
        if theirs[vectors] and not mine[vectors]:
            notes.append(f"no vector {name}, and {theirs[vectors]} {place}")
        elif 0 < mine[widest] < theirs[widest]:
            notes.append(f"{name} take {mine[widest]} bytes at once, and {theirs[widest]} {place}")
    for key, name in CALLS.items():
        if theirs[key] and not mine[key]:
            notes.append(f"no {name}, and {theirs[key]} {place}")
    if mine["guards"] > theirs["guards"]:
        here, there = mine["guards"], theirs["guards"]
        notes.append(f"{here} conditions around accesses, and {there} {place}")
    return notes
