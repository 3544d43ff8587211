"""docs/passports: complete, as generated, true for a draw, and what the rules do on other GPUs."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
import tvm
from foreign_corpus.calls import list_transforms
from passport.page import make_page
from passport.recipes import APPLIES, compare, make_passport
from passport.targets import COMPILES, TARGETS, compile_source, make_target, try_target
from relax_functions import make_functions
from tvm.relax import op
from tvm.s_tir import Schedule

from tirstep import rules
from tirstep.modules import matmul, relu
from tirstep.transforms import spread_over_threads, stage_operand_at, tile_block
from tirstep.transforms.plans.targets import find_unsupported
from tirstep.transforms.recipes import RECIPES, find_recipe

DOCS = Path(__file__).resolve().parents[2] / "docs"
DATA: dict[str, Any] = json.loads((DOCS / "passports.json").read_text(encoding="utf-8"))
DRAWN = random.Random(3).sample([it for it in DATA["recipes"] if "mma" not in it], 4)
FIXED = ["matmul_async", "matmul_mma", "batched_matmul_prefetched"]


def unpack(value: Any) -> Any:
    """A passport with its sentences in place of their numbers."""
    if isinstance(value, dict):
        return {key: unpack(it) for key, it in value.items()}
    return DATA["sentences"][value] if type(value) is int else value


def test_every_recipe_and_transform_has_a_passport() -> None:
    assert [*DATA["recipes"]] == [*RECIPES], "run: make passports"
    assert [*DATA["transforms"]] == list_transforms(), "run: make passports"
    for passport in DATA["recipes"].values():
        assert passport["shapes"]
        assert [*passport["targets"]] == [*TARGETS]


def test_the_page_is_as_generated_and_small() -> None:
    assert (DOCS / "passports.md").read_text(encoding="utf-8") == make_page(DATA)
    for name in ("passports.md", "passports.json"):
        assert (DOCS / name).stat().st_size < 110_000


@pytest.mark.parametrize("name", [*DRAWN, *FIXED])
def test_a_passport_is_true(name: str) -> None:
    assert make_passport(find_recipe(name)) == unpack(DATA["recipes"][name])


def test_most_recipes_have_source_for_every_kind_and_others_a_reason() -> None:
    for kind in TARGETS:
        texts = {name: unpack(it["targets"][kind]) for name, it in DATA["recipes"].items()}
        compiling = [name for name, text in texts.items() if text == COMPILES]
        assert len(compiling) >= (len(texts) if kind == "cuda" else len(texts) / 2), kind
        unforeseen = {name for name, text in texts.items() if text.startswith("TVM: ")}
        memory = {it for it in unforeseen if "workgroup allocations" in texts[it]}
        assert unforeseen == memory, {name: texts[name] for name in unforeseen - memory}


def test_no_type_of_a_golden_is_refused() -> None:
    for name, recipe in RECIPES.items():
        types = unpack(DATA["recipes"][name]["types"])
        own = recipe.golden.options.get("dtype")
        assert own is None or not types or types[own] == APPLIES, name


def test_narrower_vectors_and_guards_are_seen() -> None:
    wide = find_recipe("relu_vectors")(Schedule(relu(64)), threads=8, vector=4).mod
    narrow = find_recipe("relu_vectors")(Schedule(relu(64)), threads=8, vector=2).mod
    guarded = Schedule(relu(65))
    tile_block(guarded, guarded.get_sblock("B"), threads=(8,), tail="guard")
    assert compare(narrow, wide) == "vectors of 2 in place of 4"
    assert compare(guarded.mod, narrow) == "vectors of 1 in place of 2, 1 more guarded blocks"
    assert compare(wide, wide) == ""


@pytest.mark.parametrize("kind", ["opencl", "metal", "webgpu"])
def test_source_is_of_the_kind(kind: str) -> None:
    module = find_recipe("relu_bound")(Schedule(relu(64)), threads=8).mod
    mark = {"opencl": "__kernel", "metal": "kernel void", "webgpu": "@compute"}[kind]
    assert mark in compile_source(module, kind)


def test_dynamic_shared_memory_and_threads_are_foreseen() -> None:
    sch = Schedule(matmul(32, 32, 32))
    block = sch.get_sblock("C")
    tile_block(sch, block, threads=(8, 8))
    k = sch.get_loops(block)[-1]
    stage_operand_at(sch, block, k, operand=0, threads=(8, 8), scope="shared.dyn")
    assert "in scope 'shared.dyn'" in try_target(sch.mod, "metal")
    assert try_target(sch.mod, "webgpu") == COMPILES
    few = tvm.target.Target({"kind": "opencl", "max_num_threads": 32, "max_threads_per_block": 32})
    assert find_unsupported(sch.mod, few) == (
        "it runs 64 threads in a block, and the target 'opencl' takes 32"
    )


def test_kernels_of_a_function_have_threads_of_their_own() -> None:
    """A wide copy and a product on warps were 2048 threads of one block."""
    sch = Schedule(matmul(64, 64, 64))
    copy = sch.cache_read(sch.get_sblock("C"), 0, "global")
    sch.fuse(*sch.get_loops(copy))
    spread_over_threads(sch, copy, threads=256)
    tile_block(sch, sch.get_sblock("C"), threads=(8, 32))
    fits = tvm.target.Target({"kind": "opencl", "max_num_threads": 256})
    assert find_unsupported(sch.mod, fits) == ""
    few = tvm.target.Target(
        {"kind": "opencl", "max_num_threads": 255, "max_threads_per_block": 255}
    )
    assert find_unsupported(sch.mod, few).startswith("it runs 256 threads in a block, and")


def test_rules_leave_alone_what_a_target_has_not() -> None:
    (batch,) = make_functions(op.matmul, (3, 33, 20), (3, 20, 17)).values()
    first, *_ = rules.cuda()
    assert first.apply(batch, make_target("webgpu"), False) is None
    assert re.search("blockIdx.z, which TVM's WebGPU keeps", *first.reasons.values())
    assert first.apply(batch, make_target("opencl"), False) is not None


def test_rules_try_the_next_config_for_a_target() -> None:
    """Metal has vectors of four halves: the config of one element a thread comes next."""
    (function,) = make_functions(op.nn.relu, (64, 64, "float16")).values()
    *_, flat = rules.cuda()
    for kind, is_wide in (("cuda", True), ("metal", False)):
        made = flat.apply(function, make_target(kind), False)
        assert made is not None
        assert ("T.vectorized(" in made.mod.script()) == is_wide
        public = made.mod["main"].with_attr("global_symbol", "main")  # TVM compiles no private ones
        source = compile_source(tvm.IRModule({"main": public}), kind)
        assert source
