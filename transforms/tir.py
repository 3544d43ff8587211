"""TIR: nodes of a statement, places of blocks, what blocks access, and nodes with changes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar, cast

from tvm.ir import Call, IRModule, Range, SequentialSpan, TensorLoad
from tvm.s_tir import SBlock, SBlockRealize
from tvm.sym import Analyzer
from tvm.tirx import (
    GE,
    LT,
    And,
    AttrStmt,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    IntImm,
    IterVar,
    Not,
    PrimFunc,
    Select,
    Var,
)
from tvm.tirx.analysis import undefined_vars
from tvm_ffi import Object, structural_equal

from tirstep.tvm_compat import get_op_name, map_nodes, walk_nodes

_KIND_NAMES = {
    ForKind.SERIAL: "serial",
    ForKind.PARALLEL: "parallel",
    ForKind.VECTORIZED: "vectorized",
    ForKind.UNROLLED: "unrolled",
    ForKind.THREAD_BINDING: "thread-bound",
}


THREAD_EXTENT = "thread_extent"
"""TVM's attribute of a thread axis: around what the threads along it run."""
DEVICE_ENTRY = "tirx.device_entry"
"""TVM's attribute of a TIRx kernel: around what its threads run, whose numbers it names itself."""

LARGEST_INDEX = 2**31 - 1
"""The largest index of 32 bits."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


def cached_by_module(size: int) -> Callable[[_Function], _Function]:
    """Keep the last `size` results of a function of a module, which may get other functions later.

    Of a generator all that it yields. A module is the same object after
    ``module["main"] = function``, while functions never change.
    """

    def wrap(function: _Function) -> _Function:
        @functools.lru_cache(maxsize=size)
        def ask(module: IRModule, _functions: tuple[Any, ...], **options: Any) -> Any:
            found = function(module, **options)
            return tuple(found) if isinstance(found, Iterator) else found

        @functools.wraps(function)
        def cached(module: IRModule, **options: Any) -> Any:
            return ask(module, tuple(module.functions.values()), **options)

        return cast(_Function, cached)

    return wrap


def list_functions(module: IRModule) -> list[PrimFunc]:
    """The functions of TIR; a module of Relax has others beside."""
    return [each for _, each in module.functions_items() if isinstance(each, PrimFunc)]


def find_location(node: Any) -> tuple[str, int] | None:
    """The file and line of a node's text; None where TVM dropped it.

    Of what a ``T.macro`` wrote there is a line of each call on the way; the last is the node's own.
    """
    span = getattr(node, "span", None)
    while isinstance(span, SequentialSpan):
        span = span.spans[-1] if len(span.spans) else None
    return None if span is None else (str(span.source_name.name), int(span.line))


def is_at_most(analyzer: Analyzer, one: Any, other: Any) -> bool:
    """Whether one end of an interval is proven at most another; infinite ones are symbols."""
    is_finite = not any(getattr(it, "name", "") in ("pos_inf", "neg_inf") for it in (one, other))
    return is_finite and bool(analyzer.can_prove(one <= other))


def bind_ranges(loops: Iterable[For]) -> Analyzer:
    """An analyzer that knows the ranges of loops."""
    analyzer = Analyzer()
    for loop in loops:
        analyzer.bind(loop.loop_var, Range.from_min_extent(loop.min, loop.extent))
    return analyzer


def list_threads(loops: Iterable[For]) -> list[For]:
    """Those of some loops that are on axes of threads, one for each axis, threadIdx.x first."""
    axes = {get_axis(loop): loop for loop in loops}
    return [axes[f"threadIdx.{axis}"] for axis in "xyz" if f"threadIdx.{axis}" in axes]


def number_threads(axes: Iterable[tuple[Any, Any]]) -> tuple[Any, Analyzer]:
    """The number of a thread in its block, and an analyzer that knows the ranges in it.

    Of the variables of the thread axes and their extents, that of threadIdx.x first.
    """
    analyzer, number = Analyzer(), IntImm("int32", 0)
    for variable, extent in reversed([*axes]):
        analyzer.bind(variable, Range.from_min_extent(0, extent))
        number = number * extent + variable
    return number, analyzer


def find_axes(statement: Any) -> list[AttrStmt]:
    """The thread axes in a statement, which TVM makes of bound loops, in program order."""
    return [node for node in find_all(statement, AttrStmt) if node.attr_key == THREAD_EXTENT]


def find_entries(statement: Any) -> list[AttrStmt]:
    """The body of a TIRx kernel, before TVM has put thread axes around it."""
    return [node for node in find_all(statement, AttrStmt) if node.attr_key == DEVICE_ENTRY]


def constant(expression: Any) -> int | None:
    """The value of an integer constant of TVM; None for anything else."""
    value = getattr(expression, "value", expression)
    return int(value) if isinstance(value, int) else None


def get_kind(loop: For) -> str:
    """The loop's kind in a word: serial, parallel, vectorized, unrolled or thread-bound."""
    return _KIND_NAMES[ForKind(loop.kind)]


def get_axis(loop: For) -> str | None:
    """The thread axis that the loop is bound to, e.g. ``"threadIdx.x"``; None if it is not."""
    binding = loop.thread_binding
    return None if binding is None else str(binding.thread_tag)


def find_largest_index(variable: Var) -> int:
    """The largest value of an integer variable's type."""
    return int(2 ** (variable.ty.dtype.bits - 1)) - 1


def cached_by_node(size: int) -> Callable[[_Function], _Function]:
    """Keep the last `size` results of a function of a node, and of others that have a hash.

    A node never changes, and most stay from one module to the next. It is known by its address,
    which is no other's while the result is kept with it: to compare expressions of TVM makes
    another expression each time.
    """

    def wrap(function: _Function) -> _Function:
        @functools.lru_cache(maxsize=size)
        def get_cell(_address: int, *_others: Any) -> list[tuple[Any, Any]]:
            return []

        @functools.wraps(function)
        def cached(node: Any, *others: Any) -> Any:
            if not isinstance(node, Object):
                return function(node, *others)
            cell = get_cell(node.__chandle__(), *others)
            if not cell:
                cell.append((node, function(node, *others)))
            return cell[0][1]

        return cast(_Function, cached)

    return wrap


def find_all(statement: Any, kind: type) -> list[Any]:
    """Every node of one kind in a statement, in program order."""
    return list(_find_all(statement, kind))


@cached_by_node(8192)
def _find_all(statement: Any, kind: type) -> tuple[Any, ...]:
    found: list[Any] = []
    walk_nodes(statement, kind, found.append)
    return tuple(found)


def get_elements(statement: Any) -> list[tuple[Any, Any]]:
    """The buffer and the indices of each element that is stored, then of each that is loaded."""
    stored = [(store.buffer, store.indices) for store in find_all(statement, BufferStore)]
    return stored + [(load.source, load.indices) for load in find_all(statement, TensorLoad)]


def is_used(variable: Any, expression: Any) -> bool:
    """Whether a variable stands in an expression."""
    return variable.__chandle__() in _find_used(expression)


@cached_by_node(8192)
def _find_used(expression: Any) -> frozenset[int]:
    """The addresses of an expression's variables, which it keeps alive."""
    return frozenset(variable.__chandle__() for variable in undefined_vars(expression))


def is_choice(node: Any) -> bool:
    """Whether a node is a call of ``T.if_then_else``."""
    return isinstance(node, Call) and get_op_name(node) == "prim.if_then_else"


def get_operands(condition: Any, kind: Any) -> Iterator[Any]:
    """The operands of a chain of ``And`` or ``Or``; or the condition itself."""
    if isinstance(condition, kind):
        yield from get_operands(condition.a, kind)
        yield from get_operands(condition.b, kind)
    else:
        yield condition


def is_end(condition: Any, indices: Any, shape: Any, iterators: Iterable[IterVar]) -> bool:
    """Whether a condition says no more than that an index of a tensor, in a block with these
    iterators, does not lie beyond one of its ends: in whatever form TVM's analyzer brings that.
    """
    analyzer = Analyzer()
    for iterator in iterators:
        analyzer.bind(iterator.var, iterator.dom)
    said = analyzer.simplify(condition)
    if constant(said) == 1:
        return True
    for index, size in zip(indices, shape, strict=True):
        for end in (LT(index, size), GE(index, IntImm(index.ty.dtype, 0))):
            if structural_equal(said, analyzer.simplify(end)):
                return True
            # What TVM has simplified in one way and not in the other.
            if type(condition) is type(end) and analyzer.can_prove_equal(
                condition.a - condition.b, end.a - end.b
            ):
                return True
    return False


def get_loops_around(loop: For, loops: Iterable[For]) -> list[For]:
    """The loops among some that are around one, which may have another body by now."""
    return [
        each
        for each in loops
        if any(inner.loop_var.same_as(loop.loop_var) for inner in find_all(each.body, For))
    ]


def get_fed_iterators(realize: SBlockRealize, loop: For) -> Iterator[IterVar]:
    """The block iterators whose value uses the loop."""
    for iterator, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
        if any(variable.same_as(loop.loop_var) for variable in undefined_vars(value)):
            yield iterator


def replace_fields(node: Any, **fields: Any) -> Any:
    """A block or a loop with other values of the fields that are named, as `dataclasses.replace`
    makes it.
    """
    kind: Any = type(node)
    return kind(**{name: getattr(node, name) for name in _list_fields(kind)} | fields)


@functools.cache
def _list_fields(kind: Any) -> list[str]:
    """What a node is made of, which takes longer to find than to make one."""
    return [*inspect.signature(kind).parameters]


def list_allocated(statement: Any) -> list[Any]:
    """The buffers that the blocks in a statement allocate."""
    return [buffer for block in find_all(statement, SBlock) for buffer in block.alloc_buffers]


def get_regions(block: SBlock) -> list[Any]:
    """The regions that a block reads, then those that it writes."""
    return [*block.reads, *block.writes]


def find_row_stride(root: SBlock, buffer: Any) -> int | None:
    """The elements from row to row that `pad_shared_rows` gave a buffer; None without padding."""
    for block in find_all(root, SBlock):
        if any(region.source.same_as(buffer) for region in block.writes):
            for _, _, row, padding in block.annotations.get("buffer_dim_align", []):
                return int(row) + int(padding)
    return None


def get_iterator_values(root: SBlock) -> dict[Any, Any]:
    """The value of every block iterator under a root block, in loop variables alone."""
    values: dict[Any, Any] = {}
    for realize in find_all(root, SBlockRealize):
        for iterator, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
            values[iterator.var] = substitute(value, values)
    return values


def substitute(expression: Any, values: dict[Any, Any]) -> Any:
    """The expression with variables replaced; those without a value stay."""
    if not values:
        return expression
    new = [(var, values[var]) for var in _find_variables(expression) if var in values]
    if not new:
        return expression
    addresses = {variable.__chandle__(): value for variable, value in new}
    return map_nodes(expression, Var, lambda var: addresses.get(var.__chandle__(), var))


@cached_by_node(8192)
def _find_variables(expression: Any) -> tuple[Any, ...]:
    """The variables that stand in an expression, each once."""
    return tuple({var.__chandle__(): var for var in _find_all(expression, Var)}.values())


class Place(NamedTuple):
    """A block, and what stands around it.

    Attributes
    ----------
    block : the block; its outer blocks have places of their own
    loops : around it, outermost first, those around its outer blocks too
    values : of its iterators and its outer blocks', in loop variables
    guards : the conditions that all hold where it runs, its outer blocks' too, in loop variables
    is_innermost : whether it holds no other blocks
    """

    block: SBlock
    loops: tuple[For, ...]
    values: dict[Any, Any]
    guards: tuple[Any, ...]
    is_innermost: bool

    @property
    def name(self) -> str:
        """The block's name."""
        return str(self.block.name_hint)

    @property
    def kernel(self) -> For | None:
        """The outermost bound loop, which becomes a GPU kernel; None where no loop is bound."""
        return next((loop for loop in self.loops if get_axis(loop) is not None), None)

    def find_bound(self, level: str) -> list[For]:
        """The loops on axes of a level, such as ``"threadIdx"``, outermost first."""
        return [loop for loop in self.loops if (get_axis(loop) or "").startswith(level)]

    @property
    def key(self) -> tuple[Any, ...]:
        """A key that equal places of the same block in two modules share."""
        return self.block, tuple(self.values.items()), self.guards

    def find_real_guards(self) -> list[Any]:
        """The guards that the extents of the loops do not imply."""
        analyzer = bind_ranges(self.loops)
        return [guard for guard in self.guards if not analyzer.can_prove(guard)]

    def is_fed(self, loop: For) -> bool:
        """Whether a loop decides what the block works on: its iterators or, nested, its data."""
        own = (self.values[iterator.var] for iterator in self.block.iter_vars)
        if any(is_used(loop.loop_var, value) for value in own):
            return True
        parts = (part.min for region in get_regions(self.block) for part in region.region)
        return any(is_used(loop.loop_var, substitute(part, self.values)) for part in parts)


def get_places(statement: Any) -> list[Place]:
    """The places of all blocks in a statement, in program order."""
    return list(_find_places(statement))


@functools.lru_cache(maxsize=4)  # a transform has several questions about what it made
def _find_places(statement: Any) -> list[Place]:
    found: list[Place] = []
    _visit(statement, (), {}, (), found)
    return found


def _visit(
    node: Any,
    loops: tuple[For, ...],
    values: dict[Any, Any],
    guards: tuple[Any, ...],
    found: list[Place],
) -> None:
    if isinstance(node, For):
        loops = (*loops, node)
    elif isinstance(node, SBlockRealize):
        own = zip(node.block.iter_vars, node.iter_values, strict=True)
        guards = (*guards, *_split(substitute(node.predicate, values)))
        values = {**values, **{item.var: substitute(value, values) for item, value in own}}
    elif isinstance(node, SBlock):
        inner: list[Place] = []
        for child in get_children(node):
            _visit(child, loops, values, guards, inner)
        found += [Place(node, loops, values, guards, not inner), *inner]
        return
    if isinstance(node, IfThenElse):
        condition = substitute(node.condition, values)
        _visit(node.then_case, loops, values, (*guards, *_split(condition)), found)
        if node.else_case is not None:
            _visit(node.else_case, loops, values, (*guards, Not(condition)), found)
        return
    for child in get_children(node):
        _visit(child, loops, values, guards, found)


def _split(condition: Any) -> list[Any]:
    return [operand for operand in get_operands(condition, And) if constant(operand) != 1]


def get_children(node: Any) -> list[Any]:
    """The statements inside of a statement, in program order."""
    found = list(getattr(node, "seq", None) or ())
    for name in ("block", "init", "then_case", "else_case", "body"):
        child = getattr(node, name, None)
        if child is not None:
            found.append(child)
    return found


def is_among(node: Any, nodes: Any) -> bool:
    """Whether a node is one of several, itself."""
    return any(map(node.same_as, nodes))


def find_choices(body: Any) -> list[tuple[Any, ...]]:
    """The condition and both arms of each ``T.if_then_else`` and Select."""
    calls = [(call.args[0], *call.args[1:3]) for call in find_all(body, Call) if is_choice(call)]
    return calls + [
        (node.condition, node.true_value, node.false_value) for node in find_all(body, Select)
    ]
