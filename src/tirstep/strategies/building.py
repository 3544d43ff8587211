"""Builds a program from TVMScript without TVM's parser, which takes five times as long.

The statements become Python's own, which call TVM's IR builder: a loop or branch is a ``with`` of
its frame, a store a call. It takes what `drawn_programs` writes, and makes the module that the
parser makes, which a test compares.
"""

from __future__ import annotations

import ast
import functools
from functools import partial
from typing import Any

import tvm
from tvm.script import tirx as T
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder


def build_program(text: str) -> tvm.IRModule:
    """The module of one function ``main``."""
    tree = _Builder().visit(ast.parse(text))
    code = compile(ast.fix_missing_locations(tree), "<program>", "exec")
    names = {"T": T, "builder": builder, "named": _name, "let": _let}
    with IRBuilder() as made:
        exec(code, names)
    return tvm.IRModule({"main": made.get()})


def _name(name: str, value: Any) -> Any:
    IRBuilder.name(name, value)
    return value


def _let(name: str, annotation: Any, value: Any) -> Any:
    variable = _name(name, annotation.as_var())
    builder.Bind(value, var=variable)
    return variable


def _read(text: str) -> Any:
    return ast.parse(text, mode="eval").body


def _call(function: str, *arguments: Any) -> Any:
    return ast.Call(_read(function), [*arguments], [])


def _frame(call: Any, body: list[Any], name: str | None = None) -> ast.With:
    """The statements within a frame of TVM's IR builder, whose variable has a name, if one."""
    if name is None:
        return ast.With([ast.withitem(call)], body)
    naming = ast.Expr(_call("named", ast.Constant(name), _read(name)))
    return ast.With([ast.withitem(call, ast.Name(name, ast.Store()))], [naming, *body])


class _Builder(ast.NodeTransformer):
    def visit(self, node: Any) -> Any:
        """TVMScript's statements as calls of the IR builder, inner ones first."""
        self.generic_visit(node)
        match node:
            case ast.BoolOp(op=op, values=values):
                return functools.reduce(partial(_call, f"T.{type(op).__name__}"), values)
            case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq() as op], comparators=[right]):
                return _call("T.EQ" if isinstance(op, ast.Eq) else "T.NE", left, right)
            case ast.FunctionDef(name=name, args=ast.arguments(args=given), body=body):
                function = _read("builder.prim_func()")
                function.keywords = getattr(node.decorator_list[0], "keywords", [])
                head: list[Any] = [ast.Expr(_call("builder.func_name", ast.Constant(name)))]
                for each in given:
                    kind: Any = each.annotation
                    kind = kind if isinstance(kind, ast.Call) else ast.Call(kind, [], [])
                    value = _call("builder.arg", ast.Constant(each.arg), kind)
                    head.append(ast.Assign([ast.Name(each.arg, ast.Store())], value))
                return _frame(function, [*head, *body])
            case ast.For(target=ast.Name(id=name), iter=ast.Call(func=func, args=args), body=body):
                runs: Any = node.iter
                if isinstance(func, ast.Name):  # range
                    runs = _call("T.serial", *[ast.Constant(0)] * (len(args) == 1), *args[:2])
                    runs.keywords = [ast.keyword("step", each) for each in args[2:]]
                return _frame(runs, body, name)
            case ast.While(test=test, body=body):
                return _frame(_call("T.While", test), body)
            case ast.If(test=test, body=body, orelse=other):
                parts = [_frame(_call("T.Then"), body)]
                parts += [_frame(_call("T.Else"), other)] if other else []
                return _frame(_call("T.If", test), parts)
            case ast.AnnAssign(target=ast.Name(id=name) as target, annotation=kind, value=value):
                return ast.Assign([target], _call("let", ast.Constant(name), kind, value))
            case ast.Assign(targets=[ast.Name(id=name) as target], value=value):
                return ast.Assign([target], _call("named", ast.Constant(name), value))
            case ast.Assign(targets=[ast.Subscript(value=buffer, slice=place)], value=value):
                places = place.elts if isinstance(place, ast.Tuple) else [place]
                indices = ast.List(places, ast.Load())
                return ast.Expr(_call("T.buffer_store", buffer, value, indices))
        return node
