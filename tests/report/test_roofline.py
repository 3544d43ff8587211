"""The roofs of a roofline, as the driver tells them."""

import pytest

from tirstep.cli.report.build import find_peaks
from tirstep.lowering_checks.devices import is_cuda_available


@pytest.mark.gpu
def test_a_gpu_tells_its_peaks():
    peaks = find_peaks()
    # From the smallest GPU that TVM compiles for to several times today's largest.
    assert 1e3 < peaks.gflops < 500e3
    assert 50 < peaks.gigabytes < 50e3


@pytest.mark.skipif(is_cuda_available(), reason="this machine has a GPU")
def test_without_a_gpu_there_are_none():
    assert find_peaks() is None
