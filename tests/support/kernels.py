"""Small kernels for before/after pairs of transforms, with extents that tell their loops apart."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import tvm
from tvm.s_tir import Schedule
from tvm.script import from_source
from tvm.script import ir as I
from tvm.script import tirx as T
from tvm.tirx import PrimFunc


def parse_kernel(text: str) -> tvm.IRModule:
    """A module of the function that `write_function` reads: its tensors, and its body behind."""
    return from_source(f"@I.ir_module\nclass Module:\n{write_function('main', text)}")


def parse_functions(text: str) -> dict[str, PrimFunc]:
    """Functions by name: each as `write_function` reads it after ``name:``, and an empty line."""
    functions = (part.partition(": ") for part in re.split(r"\n\n(?=\w)", text.strip("\n")))
    extra = {"T": T}
    return {
        name: from_source(textwrap.dedent(write_function(name, body)), extra_vars=extra)
        for name, _, body in functions
    }


def write_function(name: str, text: str) -> str:
    """A function of the tensors in the first lines, as ``A (8, n), total (8,) int32``, of float32
    where no type is said, and with the body behind; a line that ends with a comma goes on.

    A line of the body may be a block with its loops, ``i:8 k:n  total[i] += A[i, k]``: loops that
    are no index of its target reduce, from zero or from what stands before an arrow, ``=  1 ->``.
    Tensors alone in a line are allocated.
    """
    tensors, _, body = text.lstrip("\n").partition("\n")
    body = textwrap.dedent(body)
    while tensors.endswith(","):
        more, _, body = body.partition("\n")
        tensors += f" {more.strip()}"
    given = _find_tensors(tensors)
    is_open = {name: bool(re.search(r"\b[a-z]\b", shape)) for name, (shape, _) in given.items()}
    head = ", ".join(
        f"{name}_: T.handle" if is_open[name] else f'{name}: T.Buffer({shape}, "{of}")'
        for name, (shape, of) in given.items()
    )
    shapes = [shape for shape, _ in given.values()]
    sizes = sorted({size for shape in shapes for size in re.findall(r"\b[a-z]\b", shape)})
    opened = [f"{size} = T.int32()" for size in sizes] + [
        f'{name} = T.match_buffer({name}_, {shape}, "{of}")'
        for name, (shape, of) in given.items()
        if is_open[name]
    ]
    body = re.sub(
        rf"^(?:{TENSOR}(?:,\s+|$))+", _allocate, textwrap.dedent(body), flags=re.MULTILINE
    )
    body = re.sub(BLOCK, _write_block, body, flags=re.MULTILINE)
    body = expand_sums(body, {name: of for name, (_, of) in given.items()})
    body = textwrap.indent("\n".join([*opened, body]), "  ")
    return f" @T.prim_func(s_tir=True)\n def {name}({head}):\n{body}"


TENSOR = r"\w+ \((?:[^()]|\([^()]*\))*\)(?: \w+)?"
BLOCK = r"^( *)((?:\w+:\S+ +)+)((\w+)\[([^\n]*?)\]) (\+?=) (.*(?:\n(?=\1 )(?! *\w+:).*)*)"


def _find_tensors(text: str) -> dict[str, tuple[str, str]]:
    """Shape and type of each tensor in a line."""
    found = (re.fullmatch(r"(\w+) (\(.*\))(?: (\w+))?", it) for it in re.findall(TENSOR, text))
    return {it[1]: (it[2], it[3] or "float32") for it in found if it}


def _allocate(line: re.Match[str]) -> str:
    return "\n".join(
        f'{name} = T.sblock_alloc_buffer({shape}, "{of}")'
        for name, (shape, of) in _find_tensors(line[0]).items()
    )


def _write_block(line: re.Match[str]) -> str:
    indent, loops, target, buffer, place, sign, value = line.groups()
    extents = dict(loop.split(":", 1) for loop in loops.split())
    kinds = "".join("S" if re.search(rf"\b{loop}\b", place) else "R" for loop in extents)
    start, _, value = value.rpartition(" -> ")
    named = re.compile(rf"(?<![\w.\"])({'|'.join(extents)})\b")
    target, start, value = (named.sub(r"v\1", each) for each in (target, start, value))
    axes = ", ".join(f"v{loop}" for loop in extents)
    return textwrap.indent(
        f"for {', '.join(extents)} in T.grid({', '.join(extents.values())}):\n"
        f'  with T.sblock("{buffer}"):\n'
        f'    {axes} = T.axis.remap("{kinds}", [{", ".join(extents)}])\n'
        + (f"    with T.init():\n      {target} = {start}\n" if start else "")
        + f"    {target} {sign} ({value})",
        indent,
    )


def parse_blocks(blocks: str) -> tvm.IRModule:
    """A kernel of one thread block whose blocks compute B of A and C of both, 8 rows of 8 integers;
    S is an element of shared memory, and L one in registers.
    """
    memory = [
        f'{name} = T.sblock_alloc_buffer((1,), "int32", scope="{scope}")\n'
        for name, scope in (("S", "shared"), ("L", "local"))
        if f"{name}[" in blocks
    ]
    return parse_kernel(
        "A (8, 8) int32, B (8, 8) int32, C (8, 8) int32\n"
        + "".join(['T.func_attr({"tirx.noalias": True})\n', *memory])
        + 'for b in T.thread_binding(1, thread="blockIdx.x"):\n'
        + textwrap.indent(blocks, "    ")
    )


def expand_sums(body: str, dtypes: dict[str, str]) -> str:
    """``C[i] += x`` as a sum with its initialization, in its buffer's type, and
    ``T.sblock("C", "SR", i, k)`` as a block whose iterators vi and vk are its loops' variables.
    """

    def remap(match: re.Match[str]) -> str:
        indent, name, kinds, loops = match.groups()
        iterators = ", ".join(f"v{loop}" for loop in loops.split(", "))
        begin = f"{indent}with T.sblock({name}):\n{indent}    {iterators}"
        return f'{begin} = T.axis.remap("{kinds}", [{loops}])'

    blocks = r'^( *)with T\.sblock\(("[^"]*"), "([SR]+)", (.*)\):$'
    body = re.sub(blocks, remap, body, flags=re.MULTILINE)
    scratch = re.findall(r'(\w+) = T.sblock_alloc_buffer\((?:.*\), "(\w+)")?', body)
    types = {name: dtype or "float32" for name, dtype in scratch} | dtypes

    def expand(match: re.Match[str]) -> str:
        indent, target, buffer = match.groups()
        zero = f"T.{types[buffer]}(0)"
        return (
            f"{indent}with T.init():\n{indent}    {target} = {zero}\n{indent}{target} = {target} + "
        )

    return re.sub(r"^( *)((\w+)\[.*\]) \+= ", expand, body, flags=re.MULTILINE)


def make_matmul(rows: int, columns: int, depth: int) -> tvm.IRModule:
    """C = A B, as people write it: errors name its lines."""

    @I.ir_module
    class Product:
        @T.prim_func(s_tir=True)
        def main(
            A: T.Buffer((rows, depth), "float32"),
            B: T.Buffer((depth, columns), "float32"),
            C: T.Buffer((rows, columns), "float32"),
        ):
            for i, j, k in T.grid(rows, columns, depth):
                with T.sblock("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    with T.init():
                        C[vi, vj] = T.float32(0)
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]

    return Product


Matmul = make_matmul(16, 12, 6)


# D = max(A B, 0), with A B in a buffer of its own.
MatmulRelu = parse_kernel("""
    A (16, 6), B (6, 12), D (16, 12)
    C (16, 12)
    i:16 j:12 k:6  C[i, j] += A[i, k] * B[k, j]
    i:16 j:12  D[i, j] = T.max(C[i, j], T.float32(0))
""")


# B = 2 A.
Scale = parse_kernel("""
    A (6, 20), B (6, 20)
    i:6 j:20  B[i, j] = A[i, j] * T.float32(2)
""")


# B = 2 A, of n elements.
ScaleAnyLength = parse_kernel("""
    A (n,), B (n,)
    i:n  B[i] = A[i] * T.float32(2)
""")


# B = A.
Copy = parse_kernel("""
    A (8,), B (8,)
    i:8  B[i] = A[i]
""")


def make_row_sums(rows: int, columns: int, dtype: str = "float32") -> tvm.IRModule:
    """The sum of each row of A."""
    return parse_kernel(f"""
        A ({rows}, {columns}) {dtype}, B ({rows},) {dtype}
        i:{rows} k:{columns}  B[i] += A[i, k]
    """)


@I.ir_module
class OpenMatmul:
    """C = A B, of any sizes."""

    @T.prim_func(s_tir=True)
    def main(a: T.handle, b: T.handle, c: T.handle):
        m, n, k = T.int64(), T.int64(), T.int64()
        A = T.match_buffer(a, (m, k), "float32")
        B = T.match_buffer(b, (k, n), "float32")
        C = T.match_buffer(c, (m, n), "float32")
        for i, j, x in T.grid(m, n, k):
            with T.sblock("C"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, x])
                with T.init():
                    C[vi, vj] = T.float32(0)
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


# Two blocks under one loop.
TwoInOneLoop = parse_kernel("""
    A (6, 64), B (6, 64), C (6, 64)
    for i in range(6):
        for j in range(64):
            with T.sblock("B", "SS", i, j):
                B[vi, vj] = A[vi, vj] * T.float32(2)
        for j in range(64):
            with T.sblock("C", "SS", i, j):
                C[vi, vj] = A[vi, vj] + T.float32(1)
""")


def at_block(module: tvm.IRModule, block: str) -> tuple[Any, ...]:
    """A schedule of a module, one of its blocks, and its loops."""
    sch = Schedule(module)
    handle = sch.get_sblock(block)
    return sch, handle, *sch.get_loops(handle)


def start(module: tvm.IRModule = Matmul, block: str = "C") -> tuple[Any, ...]:
    """A schedule that TVM verifies after every primitive, one of its blocks, and its loops."""
    sch = Schedule(module, debug_mask="all")
    handle = sch.get_sblock(block)
    return sch, handle, *sch.get_loops(handle)
