"""Plots of runs."""

import dataclasses
import xml.etree.ElementTree as ET

import pytest
from plots import draw_bars

from .test_results import make_case, make_run

SVG = "{http://www.w3.org/2000/svg}"


def test_plots_are_drawings_with_every_candidate():
    cases = [
        make_case(naive=8000, best=50, torch=60, triton=None, numpy=5),
        dataclasses.replace(make_case(torch=40), shape={"m": 1, "n": 2, "k": 3}),
    ]
    run = make_run(*cases)
    bars = ET.fromstring(draw_bars(run, "matmul", "float32"))
    words = [text.text for text in bars.iter(f"{SVG}text")]
    assert "matmul 1024×512×2048" in words
    assert "wrong" in words  # Triton's, which has no bar
    tips = [title.text for title in bars.iter(f"{SVG}title")]
    assert "best: 50.0 µs, 42.9 TFLOP/s" in tips
    assert "Triton: wrong" in tips
    assert not any("NumPy" in str(tip) for tip in tips)
    widths = {
        rectangle[0].text: float(rectangle.get("width", 0))
        for rectangle in bars.iter(f"{SVG}rect")
        if len(rectangle)
    }
    fast, slow = widths["best: 50.0 µs, 42.9 TFLOP/s"], widths["PyTorch: 60.0 µs, 35.8 TFLOP/s"]
    assert fast / slow == pytest.approx(1.2, rel=0.01)
