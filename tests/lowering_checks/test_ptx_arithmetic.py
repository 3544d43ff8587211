"""PTX's instructions on registers, held against what a GPU computed.

``python tests/lowering_checks/test_ptx_arithmetic.py FILE``, on a machine with an H100 or H200,
writes what it computes; in ``ptx_results.json`` stands what one did.
"""

import functools
import json
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tvm
from tvm.backend.cuda.ptx.table import (
    TABLE,
    InstructionEntry,
    mods,
    operand_dtypes,
    operand_layout,
    operand_type,
    variants,
)
from tvm.script import from_source

from tirstep.lowering_checks.devices import get_device
from tirstep.lowering_checks.devices.simulator.ptx_arithmetic import NO_MODIFIERS, PTX_ARITHMETIC

RESULTS = Path(__file__).with_name("ptx_results.json")
THREADS = 64
MOST_FORMS = 8
"""Of the modifiers of an instruction."""
APPROXIMATE = {"ex2": 4, "tanh": 2**14, "rcp": 4, "sqrt": 4, "rsqrt": 8, "div": 4}
"""Units in the last place that the ISA leaves to hardware, where a form is called approx or full;
of float64 it leaves those that float32 does not have.
"""
ERRORS = {"lg2": 2**-21, "sin": 2**-19, "cos": 2**-19}
"""The same as differences; of sine and cosine within two turns."""
HALF_UNITS = 2
"""The same of numbers of 16 bits."""
FLOATS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
FLOATS |= {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "tf32": np.float32}
LIKELY = (0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.0, 65504.0, 1e-40, -1e-40, 3e38, -3e38)


def list_forms() -> Iterator[tuple[str, list[str]]]:
    """Instructions with some of the forms that their modifiers have."""
    for name in PTX_ARITHMETIC:
        entry = TABLE.get(name.removeprefix("ptx."))
        if entry is not None and not name.startswith("ptx.createpolicy"):
            forms = [
                [*tokens]
                for tokens in variants(entry)
                if not any(mods(entry, tokens).get(name) for name in NO_MODIFIERS)
            ]
            for tokens in forms[:: -(-len(forms) // MOST_FORMS)]:
                yield entry.name, tokens


def spell(entry: InstructionEntry, tokens: list[str]) -> str:
    """``add.rn.f32``"""
    return ".".join([entry.ptx_name, *filter(None, tokens)])


def make_module(entry: InstructionEntry, tokens: list[str]) -> tvm.IRModule:
    """A kernel in which each thread runs an instruction once."""
    words = mods(entry, tokens)
    parameters, registers, given, stores = [], [], [], []
    for slot, _, count in operand_layout(entry, words):
        if slot.kind == "imm":
            given.append("202")
            continue
        dtype = operand_dtypes(slot, words)[0]
        is_predicate = slot.kind == "reg" and operand_type(slot, words) == "pred"
        for number in range(count):
            name = f"{slot.name}_{number}"
            parameters.append(f'{name}: T.Buffer(({THREADS},), "{dtype}")')
            if slot.rw == "w":
                registers.append(f'r_{name} = T.alloc_local((1,), "{dtype}")')
                given.append(f"r_{name}[0]")
                stores.append(f"{name}[t] = r_{name}[0]")
            else:
                given.append(f"T.ptx.pred({name}[t])" if is_predicate else f"{name}[t]")
    call = f'T.ptx["{spell(entry, tokens)}"]({", ".join(given)})'
    lines = ["T.device_entry()", "T.cta_id([1])", f"t = T.thread_id([{THREADS}])"]
    body = "\n".join(f"    {line}" for line in [*lines, *registers, call, *stores])
    head = f"# from tvm.script import tirx as T\n@T.prim_func\ndef main({', '.join(parameters)}):"
    return tvm.IRModule({"main": from_source(f"{head}\n{body}\n")})


def make_arguments(module: tvm.IRModule, entry: InstructionEntry, tokens: list[str]) -> list[Any]:
    """Bits at random, and half of the floats numbers that occur; predicates are 0 or 1."""
    words, made = mods(entry, tokens), []
    kinds = {
        f"{slot.name}_{number}": (operand_type(slot, words), slot.rw)
        for slot, _, count in operand_layout(entry, words)
        if slot.kind == "reg"
        for number in range(count)
    }
    for parameter in module["main"].params:
        name, dtype = str(parameter.name), np.dtype(str(parameter.dtype))
        token, rw = kinds[name]
        random = np.random.default_rng(zlib.crc32(f"{entry.name} {name}".encode()))
        bits = random.integers(0, 256, THREADS * dtype.itemsize, np.uint8).view(dtype).copy()
        kind = token.partition("x")[0]
        if rw == "w":
            bits[:] = 0
        elif token == "pred":
            bits[:] = random.integers(0, 2, THREADS)
        elif kind in FLOATS:
            own = np.dtype(FLOATS[kind])
            elements = bits.view(own)
            with np.errstate(all="ignore"):
                usual = random.normal(size=elements.size).astype(own)
                usual[: len(LIKELY)] = np.array(LIKELY).astype(own)
            half = random.integers(0, 2, elements.size) == 0
            elements[:] = np.where(half, usual, elements)
            if entry.family in ("sin", "cos"):
                elements[:] = usual
        elif name == "b_0" and entry.family in ("shl", "shr"):
            bits[:] = random.integers(0, 70, THREADS)
        elif name in ("b_0", "c_0", "d_0") and entry.family in ("bfe", "bfi", "shf"):
            bits[:] = random.integers(0, 40, THREADS)
        elif name == "b_0" and entry.family in ("div", "rem"):
            bits[:] = np.where(bits == 0, 1, bits)
        made.append(bits)
    return made


def count_units(one: Any, other: Any) -> Any:
    """How many numbers of a type lie between two, which may be NaN both."""
    bits = f"int{8 * one.dtype.itemsize}"
    places = [
        np.where(it < 0, np.iinfo(bits).min - it, it).astype(object)
        for it in (one.view(bits), other.view(bits))
    ]
    apart = np.abs(places[0] - places[1])
    with np.errstate(invalid="ignore"):
        are_nan = np.isnan(one.astype(np.float64)) & np.isnan(other.astype(np.float64))
    return np.where(are_nan, 0, apart)


@functools.cache
def read_results() -> dict[str, list[list[str]]]:
    """By instruction and form, the bytes of each result."""
    return json.loads(RESULTS.read_text("utf-8"))


def name_form(entry: str, tokens: list[str]) -> str:
    """What names a form in the file."""
    return f"{entry} {spell(TABLE[entry], tokens)}"


@pytest.mark.share(6)
@pytest.mark.parametrize("form", read_results() if RESULTS.exists() else ())
def test_an_instruction_computes_what_a_gpu_did(form: str) -> None:
    name = form.split()[0]
    entry = TABLE[name]
    tokens = next(it for it in map(list, variants(entry)) if name_form(name, it) == form)
    module = make_module(entry, tokens)
    arguments = make_arguments(module, entry, tokens)
    words = mods(entry, tokens)
    after = get_device("simulator").compile(module)(arguments)
    written = [
        (slot, operand_type(slot, words))
        for slot, _, count in operand_layout(entry, words)
        for _ in range(count)
        if slot.rw == "w"
    ]
    of_card = read_results()[form]
    for (_, token), made, known in zip(written, after, of_card, strict=False):
        expected = np.frombuffer(bytes.fromhex(known), made.dtype)
        kind = token.partition("x")[0]
        if kind not in FLOATS:
            np.testing.assert_array_equal(made, expected, err_msg=form)
            continue
        own = np.dtype(FLOATS[kind])
        allowed = 0
        if {"approx", "full"} & {*tokens}:
            allowed = APPROXIMATE.get(entry.family, 0) if own.itemsize > 2 else HALF_UNITS
        if entry.family in ERRORS:
            near = np.abs(arguments[-1]) < 4 * np.pi if entry.family != "lg2" else arguments[-1] > 0
            np.testing.assert_allclose(made[near], expected[near], 2**-20, ERRORS[entry.family])
            continue
        allowed <<= 32 if own.itemsize == 8 else 0
        apart = count_units(made.view(own), expected.view(own))
        assert apart.max() <= allowed, (form, apart.max(), np.argmax(apart))


def write_results(path: Path) -> None:
    """Run each form on the GPU; what its compiler refuses, or has no semantics, is left out."""
    made, left_out = {}, {}
    for name, tokens in list_forms():
        form = name_form(name, tokens)
        try:
            module = make_module(TABLE[name], tokens)
            arguments = make_arguments(module, TABLE[name], tokens)
            after = get_device("cuda").compile(module)(arguments)
        except Exception as error:
            left_out[form] = str(error).strip().splitlines()[-1][:120]
            continue
        count = sum(
            n
            for slot, _, n in operand_layout(TABLE[name], mods(TABLE[name], tokens))
            if slot.rw == "w"
        )
        made[form] = [it.tobytes().hex() for it in after[:count]]
    lines = [f"{json.dumps(form)}: {json.dumps(it)}" for form, it in made.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    for form, why in left_out.items():
        print(f"left out: {form}: {why}")
    print(f"{len(made)} forms, {len(left_out)} left out")


if __name__ == "__main__":
    write_results(Path(sys.argv[1]))
