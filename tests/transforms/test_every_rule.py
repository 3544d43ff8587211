"""No rule of the guard without a test that needs it: where the rule finds nothing, its test fails.

Each test makes a program that the rule finds wrong of one in which it finds nothing.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tirstep.lowering_checks.legality.rules import OF_LOWERING, OF_PLACES, OF_SIZES

FOLDER = Path(__file__).parent
TESTS = """
buffer that no block writes: legality what_is_broken_is_named_where_it_was_whole
empty loop: legality what_is_broken_is_named_where_it_was_whole
iterations lost: legality loops_that_wrap_around_to_something_positive
index beyond 32 bits: wrong_programs guards_of_guards_are_asked_with_numbers
memory that an instruction does not take: tensorize an_instruction_keeps_the_memory_that_it
fragments read as one thread's: quad_products tensorize_in_quads_refuses_what_does_not_fit
misaligned rows: tensorize rows_of_sums_begin_where_mma_may_store
swizzled by one block only: tensorize what_a_swizzled_block_reads_is_swizzled
kernel in an unrolled loop: found_by_fuzzing a_kernel_in_a_loop_that_is_unrolled
kernel partly outside of its virtual threads: found_by_fuzzing virtual_threads_and_a_sum
vectors that CUDA does not have: vectorize vectorize_loop_refuses_vectors_that_cuda_has
descending quotients: quads lay_in_quads_refuses_tensors_and_readers
lost guard: thread_sums the_sums_of_rows_that_do_not_exist
terms of other threads lost: thread_sums terms_of_threads_whose_initialization
late initialization: beginnings an_order_in_which_a_later_term_comes_before
broken pipeline: found_by_fuzzing a_copy_through_registers_keeps_its_loops
sum over threads out of order: reducers a_sum_over_threads_with_its_result_behind
loop truncated at a mask: masks what_is_written_where_all_is_hidden
wrong rescaling of an online reduction: fused_places accumulate_in_registers_refuses_to_lose_what
one element stored by several threads: owners a_copy_in_a_block_of_each_thread_is_shared
read before write: factor_out_of_sum sums_of_which_some_are_left_out_are_refused
out of bounds: shared_places analysis_beyond_32_bits_is_a_refusal
cross-thread read of global memory: foreign_reads a_sum_over_threads_is_stored_by_the_first
merged buffers that overlap: merged_memory a_place_that_a_larger_buffer_takes_over
merged buffers in use at once: merged_memory results_of_another_type_in_the_place
misplaced swizzle: descriptors a_small_buffer_before_swizzled_tiles
overwritten in place: shared_places a_padding_in_whose_place_its_powers
changed indices: descending_indices a_tile_that_is_read_backwards_is_not_cached
allocation of a symbolic size: open_sizes a_room_of_open_size_is_refused
shared memory compacted by thread: found_by_random_schedules a_folded_tile_that_one_thread_fetches
shared memory compacted too far: shared_places a_tile_that_begins_anywhere_in_its_rows
loop variable used after its loop: shared_places a_guard_that_lets_one_iteration
missing barrier: missing_barriers stores_of_an_unrolled_loop_whose_loads_tvm
cross-thread read of global memory by a bound reader: found_by_fuzzing a_padding_that_reads_what
"""
"""By rule a file of this folder, and how the name of its test begins."""
BLINDED = """
import sys
import pytest
from tirstep.lowering_checks.legality.rules import Rule

find_new = Rule.find_new
Rule.find_new = lambda it, *two: (True, None) if it.name == {rule!r} else find_new(it, *two)
sys.exit(pytest.main(["-q", "-x", "-n", "0", "-p", "no:cacheprovider", {file!r}, "-k", {name!r}]))
"""


def read_tests() -> dict[str, str]:
    return dict(line.split(": ") for line in TESTS.strip().splitlines())


def test_every_rule_has_a_test() -> None:
    assert [*read_tests()] == [rule.name for rule in (*OF_SIZES, *OF_PLACES, *OF_LOWERING)]


@pytest.mark.share(30)
@pytest.mark.parametrize("rule", read_tests())
def test_a_rule_that_finds_nothing_fails_its_test(rule: str) -> None:
    file, name = read_tests()[rule].split()
    path = str(FOLDER / f"test_{file}.py")
    script = BLINDED.format(rule=rule, file=path, name=f"test_{name}")
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ran.returncode == pytest.ExitCode.TESTS_FAILED, ran.stdout
