"""Programs for TVM 0.8 and later in the installed TVM's spelling: tables of names, and few forms
that need more than another name.

A dotted name is resolved by the imports of its file, so that ``T.block``, ``tir.block`` and
``tvm.script.tir.block`` are one. Names that no table has are looked up in the installed TVM; those
that it does not have are marked, with their lines, and left as they are.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import itertools
import re
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

import libcst as cst
from libcst.metadata import (
    MetadataWrapper,
    ParentNodeProvider,
    PositionProvider,
    QualifiedNameProvider,
    QualifiedNameSource,
)

from tirstep.versions import SERIES

OLD_SCRIPT, SCRIPT = "tvm.script.tir", "tvm.script.tirx"
OLD_PLACES = ("tvm.tir.", "tvm.script.tir.", "tvm.script.parser.tir.")
PRINTED = {"T": OLD_SCRIPT, "I": "tvm.script.ir", "R": "tvm.script.relax"}
"""Names that a printed script uses without an import."""
MOVED = {
    OLD_SCRIPT: SCRIPT,
    f"{OLD_SCRIPT}.block": f"{SCRIPT}.sblock",
    f"{OLD_SCRIPT}.block_attr": f"{SCRIPT}.sblock_attr",
    f"{OLD_SCRIPT}.alloc_buffer": f"{SCRIPT}.sblock_alloc_buffer",
    f"{OLD_SCRIPT}.buffer_decl": f"{SCRIPT}.decl_buffer",
    f"{OLD_SCRIPT}.SizeVar": f"{SCRIPT}.var",
    f"{OLD_SCRIPT}.allocate": f"{SCRIPT}.alloc_buffer",
    "tvm.arith": "tvm.sym",
    "tvm.build": "tvm.compile",
    "tvm.const": "tvm.tirx.const",
    "tvm.context": "tvm.device",
    "tvm.convert": "tvm.runtime.convert",
    "tvm.dlight": "tvm.s_tir.dlight",
    "tvm.driver.build": "tvm.compile",
    "tvm.gpu": "tvm.cuda",
    "tvm.ir.PrimExpr": "tvm.ir.Expr",
    "tvm.ir.structural_equal": "tvm_ffi.structural_equal",
    "tvm.ir.structural_hash": "tvm_ffi.structural_hash",
    "tvm.meta_schedule": "tvm.s_tir.meta_schedule",
    "tvm.nd": "tvm.runtime",
    "tvm.nd.array": "tvm.runtime.tensor",
    "tvm.nd.gpu": "tvm.runtime.cuda",
    "tvm.nd.NDArray": "tvm.runtime.Tensor",
    "tvm.register_func": "tvm.register_global_func",
    "tvm._ffi.get_global_func": "tvm.get_global_func",
    "tvm._ffi.register_func": "tvm.register_global_func",
    "tvm._ffi.register_object": "tvm.register_object",
    "tvm.relax.vm.build": "tvm.relax.build",
    "tvm.relax.vm.VirtualMachine": "tvm.relax.VirtualMachine",
    "tvm.runtime.NDArray": "tvm.runtime.Tensor",
    "tvm.runtime.ndarray": "tvm.runtime",
    "tvm.runtime.ndarray.array": "tvm.runtime.tensor",
    "tvm.runtime.ndarray.NDArray": "tvm.runtime.Tensor",
    "tvm.script.parser.tir": "tvm.script.parser.tirx",
    "tvm.target.create": "tvm.target.Target",
    "tvm.tir.PrimExpr": "tvm.ir.Expr",
    "tvm.tir.StringImm": "tvm.ir.StringImm",
    "tvm.tir.transform.Simplify": "tvm.tirx.transform.StmtSimplify",
}
"""Whole names; what stands below one moves with it."""
FAMILIES = {
    "tvm.tir": ("tvm.tirx", "tvm.s_tir"),
    "tvm.contrib": ("tvm.contrib", "tvm.support"),
}
"""Modules that were split: each name below is looked up in these, in turn."""
METHODS = {"asnumpy": "numpy", "astext": "script", "get_block": "get_sblock"}
METHODS |= {"get_source": "inspect_source", "imported_modules": "imports", "struct_info": "ty"}
"""New names of methods of schedules, tensors, compiled modules, and Relax's expressions."""
KEYWORDS = {"out_sinfo": "out_ty", "sinfo_args": "ty_args"}
"""New names of keywords in Relax's calls."""
SCHEDULES = ("sch", "schedule")
"""Names of schedules in files that do not import TVM."""
OF_MODULES = ("entry_name", "get_source", "imported_modules", "time_evaluator")
"""Attributes that `tvm.build` had on its result, and `tvm.compile` has on its `mod`."""
ADVICE = {
    f"{OLD_SCRIPT}.LetStmt": "write NAME: T.let = VALUE before the statements in it",
    f"{OLD_SCRIPT}.load": "write BUFFER[INDEX]",
    f"{OLD_SCRIPT}.preflattened_buffer": "leave it out",
    f"{OLD_SCRIPT}.store": "write BUFFER[INDEX] = VALUE",
    "tvm.auto_scheduler": "tune with tvm.s_tir.meta_schedule, or schedule by hand",
    "tvm.autotvm": "tune with tvm.s_tir.meta_schedule, or schedule by hand",
    "tvm.contrib.graph_executor": "models run on a tvm.relax.VirtualMachine",
    "tvm.lower": "tvm.compile lowers by itself; tirstep lower shows every pass",
    "tvm.relay": "models are now tvm.relax's",
    "tvm.script.asscript": "write MODULE.script()",
    "tvm.target": 'write tvm.target.Target({"kind": "cuda", "arch": "sm_80"})',
    "tvm.te.create_schedule": "make a PrimFunc of the tensors with tvm.te.create_prim_func, and "
    "schedule it with tvm.s_tir.Schedule",
    "tvm.tir.ir_builder": "write the loops as a @T.prim_func",
    "tvm.tir.stmt_functor": "walk with tvm_ffi.structural_walk, change with tvm_ffi.structural_map",
}
"""Advice for names that have no successor; a module's is for all below it."""
NOALIAS = ("tir.noalias", "tirx.noalias")
"""The attribute that TVM reads only as a Python bool."""
DECLARES = {
    *("Buffer", "Ptr", "SizeVar", "alloc_buffer", "allocate", "allocate_const", "axis", "bind"),
    *("buffer_decl", "buffer_var", "comm_reducer", "decl_buffer", "env_thread", "handle"),
    *("launch_thread", "let", "match_buffer", "meta_var", "sblock_alloc_buffer", "var"),
}
"""Functions of TVMScript whose value is a name's own, and no expression to be bound to it."""


class Mark(NamedTuple):
    """A change that is left to do by hand."""

    line: int
    message: str


@dataclass(frozen=True)
class Modernized:
    """A file's text as it is spelt now.

    Attributes
    ----------
    text : the same as before where nothing moved
    renames : old and new spellings, as ``T.block`` and ``T.sblock``, in the order of the file
    marks : what is left to do by hand, by line
    """

    text: str
    renames: dict[str, str]
    marks: list[Mark]


def modernize_text(text: str) -> Modernized:
    """Spell a file of Python, or a printed script, as the installed TVM does.

    Raises `SyntaxError` where Python does not read the text, or what came out of it.
    """
    nodes = [*ast.walk(ast.parse(text))]
    is_old = "\n# from tvm.script import tir as T" in f"\n{text}"  # of a printed script
    is_old |= any(map(_is_old, nodes))
    own = {it.name for it in nodes if isinstance(it, ast.FunctionDef)}
    respell = _Respell(own, has_tvm=is_old or "tvm" in text, is_old=is_old)
    wrapper = MetadataWrapper(cst.parse_module(text))
    imports = _Imports(respell.uses)
    code = wrapper.visit(respell).visit(imports).code
    ast.parse(code)
    return Modernized(code, imports.moved | respell.renames, sorted(set(respell.marks)))


def _is_old(node: ast.AST) -> bool:
    """Whether a file is for an older TVM that has this; `T.prim_func` is `s_tir=True` there."""
    match node:
        case ast.Attribute(value=ast.Name(id="T"), attr="block" | "block_attr"):
            return True
        case ast.Attribute(value=ast.Name(id="tvm"), attr="tir"):
            return True
        case ast.ImportFrom(module=str(module), names=names):
            return any(f"{module}.{it.name}.".startswith(OLD_PLACES) for it in names)
        case ast.Import(names=names):
            return any(f"{it.name}.".startswith(OLD_PLACES) for it in names)
        case ast.Subscript(value=ast.Attribute(attr="Buffer")):
            return True
        case ast.Constant(value=str(text)):
            return re.fullmatch(r"tir\.\w+", text) is not None
    return False


@functools.cache
def _exists(name: str) -> bool:
    """Whether the installed TVM has a dotted name; no submodule is imported for that."""
    first, *rest = name.split(".")
    value: Any = importlib.import_module(first)
    for part in rest:
        if not hasattr(value, part):
            value = sys.modules.get(first, value)  # tvm.tirx.build is a function, too
        first = f"{first}.{part}"
        if not hasattr(value, part):
            try:
                return isinstance(value, ModuleType) and bool(importlib.util.find_spec(first))
            except ImportError:  # of TVM's own finder
                return False
        value = getattr(value, part)
    return True


@functools.cache
def _translate(name: str) -> str | None:
    """Where a qualified name of TVM's is now; None where there is nothing of it."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        if new := MOVED.get(".".join(parts[:end])):
            name = ".".join([new, *parts[end:]])
            break
    for family, places in FAMILIES.items():
        if name == family:
            return places[0]
        if name.startswith(f"{family}."):
            rest = name.removeprefix(f"{family}.")
            spellings = (rest, re.sub(r"\bBlock(?!Builder)", "SBlock", rest))
            found = (f"{place}.{each}" for each in spellings for place in places)
            return next(filter(_exists, found), None)
    others = name.replace(".ptx_", ".ptx_legacy.", 1), name.replace("StructInfo", "Type")
    return next(filter(_exists, (name, *others)), None)


def _translate_key(key: str) -> str | None:
    """An attribute, an option or an operator, as ``tir.noalias``; None where it is gone."""
    from tvm.ir import Op
    from tvm.ir.transform import PassContext

    rest = key.removeprefix("tir.")
    known = {"tirx.is_scheduled", *PassContext.list_configs(), *Op.list_op_names()}
    return next((it for it in (f"tirx.{rest}", f"s_tir.{rest}") if it in known), None)


class _Respell(cst.CSTTransformer):
    """Everything but the imports; those that are needed then are in `uses`.

    Attributes
    ----------
    own : names of the file's own functions, which may be those of methods
    has_tvm : whether the file has to do with TVM
    is_old : whether the file was written for an older TVM, whatever else is in it
    uses : by what is imported, as ``tvm.tir``, the modules that its uses have moved to
    """

    METADATA_DEPENDENCIES = (QualifiedNameProvider, ParentNodeProvider, PositionProvider)

    def __init__(self, own: Collection[str], *, has_tvm: bool, is_old: bool) -> None:
        super().__init__()
        self.own, self.has_tvm, self.is_old = own, has_tvm, is_old
        self.renames: dict[str, str] = {}
        self.marks: list[Mark] = []
        self.uses: dict[str, set[str]] = {}
        self._functions: list[bool] = []  # around a node: whether each is of TVMScript
        self._has_blocks, self._alias = False, "T"  # of the function that is read
        self._built: set[str] = set()  # names of what tvm.build made
        self._allocated: set[str] = set()  # names of what T.allocate made

    def mark(self, node: cst.CSTNode, message: str) -> None:
        self.marks.append(Mark(self.get_metadata(PositionProvider, node).start.line, message))

    def mark_gone(self, node: cst.CSTNode, name: str, spelt: str) -> None:
        parts = name.split(".")
        above = (".".join(parts[:end]) for end in range(len(parts), 1, -1))
        advice = next((ADVICE[it] for it in above if it in ADVICE), "find its replacement")
        self.mark(node, f"TVM {SERIES} has no {spelt}; {advice}")

    def qualify(self, node: cst.CSTNode) -> str | None:
        """The qualified name of TVM's that an expression is, or None; TVMScript's as it was."""
        dotted = _spell(node)
        if not dotted:
            return None
        for found in self.get_metadata(QualifiedNameProvider, node, ()):
            if found.source is QualifiedNameSource.IMPORT and _is_tvm(found.name):
                return re.sub(r"^tvm\.script\.(parser\.)?tirx?\b", OLD_SCRIPT, found.name)
        root, _, rest = dotted.partition(".")
        if root in PRINTED and not self.get_metadata(QualifiedNameProvider, node, ()):
            return f"{PRINTED[root]}.{rest}".rstrip(".")
        return None

    def is_script(self, node: cst.CSTNode, *names: str) -> bool:
        """Whether an expression is one of these names of TVMScript's, or a call of one."""
        found = self.qualify(node.func if isinstance(node, cst.Call) else node) or ""
        return found.removeprefix(f"{OLD_SCRIPT}.") in names

    # Names

    def leave_Attribute(self, node: cst.Attribute, updated: cst.Attribute) -> Any:
        name = self.qualify(node)
        parent = self.get_metadata(ParentNodeProvider, node)
        if name is None:
            return self._respell_method(node, updated)
        if isinstance(parent, cst.Attribute) and self.qualify(parent) is not None:
            return updated  # it is the longer name's turn
        return self._respell_name(node, updated, name)

    def leave_Name(self, node: cst.Name, updated: cst.Name) -> Any:
        match self.get_metadata(ParentNodeProvider, node):
            case cst.Attribute() | cst.ImportAlias() | cst.AsName() | cst.NameItem():
                return updated
            case cst.Arg(keyword=own) | cst.Param(name=own) if own is node:
                return updated
        name = self.qualify(node)
        return updated if name is None else self._respell_name(node, updated, name)

    def _respell_name(self, node: Any, updated: Any, name: str) -> Any:
        """A dotted name in its new spelling, by the same import or by another one."""
        dotted = _spell(node)
        local, *below = dotted.split(".")
        root = name.removesuffix("".join(f".{it}" for it in below))
        new_root, new = _translate(root), _translate(name)
        if name == f"{OLD_SCRIPT}.alloc_buffer" and not self.is_old:
            new = f"{SCRIPT}.alloc_buffer"  # TIRx's own
        if new_root is None:
            return updated  # the import is marked
        if new is None:
            self.mark_gone(node, name, dotted)
            return updated
        if new == new_root or new.startswith(f"{new_root}."):
            is_alias = local != root.rpartition(".")[2]
            base = local if is_alias else new_root.rpartition(".")[2]
            spelt, module = base + new.removeprefix(new_root), new_root
        else:  # of tir.Schedule it is s_tir
            module = ".".join(new.split(".")[: 2 if new.startswith("tvm.") else 1])
            spelt = new.removeprefix("tvm.")
        self.uses.setdefault(root, set()).add(module)
        if dotted == spelt:
            return updated
        self.renames.setdefault(dotted, spelt)
        return cst.parse_expression(spelt)

    def _respell_method(self, node: cst.Attribute, updated: cst.Attribute) -> cst.Attribute:
        """``sch.get_block``: of an object whose type is not known, by its name."""
        owner, old = node.value, node.attr.value
        new = METHODS.get(old, old)
        if old == "name_hint" and self.is_old:
            self.mark(node, "for a variable this is .name now; for a GlobalVar it stays")
        if not (self.has_tvm or _spell(owner) in SCHEDULES):
            return updated
        is_built = _spell(owner) in self._built
        is_built |= isinstance(owner, cst.Call) and self.qualify(owner.func) == "tvm.build"
        is_part = isinstance(owner, cst.Subscript)  # of imported_modules
        if new != old and (old in self.own or (old == "get_source" and not (is_built or is_part))):
            self.mark(node, f"this is .{new} now where it is TVM's")
            return updated
        spelt = f".mod.{new}" if is_built and old in OF_MODULES else f".{new}"
        if spelt == f".{old}":
            return updated
        self.renames.setdefault(f".{old}", spelt)
        if spelt.startswith(".mod"):
            updated = updated.with_changes(value=cst.Attribute(updated.value, cst.Name("mod")))
        return updated.with_changes(attr=cst.Name(new))

    def visit_ImportAlias(self, node: cst.ImportAlias) -> None:
        """Imported names that are gone; their uses are not marked again."""
        match self.get_metadata(ParentNodeProvider, node):
            case cst.ImportFrom(relative=(), module=module) if module is not None:
                name = f"{_spell(module)}.{node.evaluated_name}"
            case _:
                name = node.evaluated_name
        if _is_tvm(name) and _translate(name) is None:
            self.mark_gone(node, name, name)

    # Functions of TVMScript

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        decorators = [it.decorator for it in node.decorators]
        found = [
            _spell(it.func if isinstance(it, cst.Call) else it)
            for it in decorators
            if self.is_script(it, "prim_func", "macro")
        ]
        self._functions.append(bool(found))
        self._has_blocks = False
        for name in found:  # T, or what else it is called
            self._alias = {"tir": "tirx"}.get(name.partition(".")[0], name.partition(".")[0])

    def leave_FunctionDef(self, node: cst.FunctionDef, updated: cst.FunctionDef) -> cst.FunctionDef:
        """``@T.prim_func(s_tir=True)``, for a function of blocks, or of an older TVM."""
        self._functions.pop()
        if not (self.is_old or self._has_blocks):
            return updated
        decorators = list(updated.decorators)
        for index, it in enumerate(node.decorators):
            call = decorators[index].decorator
            if not self.is_script(it.decorator, "prim_func"):
                continue
            if not isinstance(call, cst.Call):
                call = cst.Call(call)
            elif any(arg.keyword and arg.keyword.value in ("s_tir", "tirx") for arg in call.args):
                continue
            given = cst.parse_expression("f(s_tir=True)").args[0]  # type: ignore[attr-defined]
            call = call.with_changes(args=[*call.args, given])
            decorators[index] = decorators[index].with_changes(decorator=call)
            self.renames.setdefault("T.prim_func", "T.prim_func(s_tir=True)")
        return updated.with_changes(decorators=decorators)

    def leave_Assign(self, node: cst.Assign, updated: Any) -> Any:
        target, value = node.targets[0].target, node.value
        name = target.value if isinstance(target, cst.Name) else ""
        if name and isinstance(value, cst.Call) and self.qualify(value.func) == "tvm.build":
            self._built.add(name)
        if not (self.is_old and self._functions and self._functions[-1]):
            return updated
        if self.is_script(value, "allocate"):
            self._allocated.add(name)
        if isinstance(value, cst.Call) and self.is_script(value, "Buffer"):
            self.renames.setdefault("T.Buffer", "T.decl_buffer")
            function = cst.parse_expression(f"{self._alias}.decl_buffer")
            return updated.with_changes(value=updated.value.with_changes(func=function))
        if isinstance(target, cst.Subscript) and _has_slice(target):
            self.mark(target, "write the elements one by one, in a loop of T.vectorized")
        if not name or not self._is_bound(value):
            return updated
        self.renames.setdefault("NAME = VALUE", "NAME: T.let = VALUE")
        let = cst.Annotation(cst.parse_expression(f"{self._alias}.let"))
        return cst.AnnAssign(updated.targets[0].target, let, updated.value)

    def leave_AnnAssign(self, node: cst.AnnAssign, updated: cst.AnnAssign) -> Any:
        """``x: T.int32 = A[i]`` named a value; now it would be a variable."""
        kind = node.annotation.annotation
        is_typed = (self.qualify(kind) or "").startswith(f"{OLD_SCRIPT}.")
        inside = self.is_old and self._functions and self._functions[-1]
        if not (inside and is_typed and node.value) or self.is_script(kind, "let"):
            return updated
        self.renames.setdefault("NAME: T.int32 = VALUE", "NAME: T.let[T.int32] = VALUE")
        index = cst.SubscriptElement(cst.Index(updated.annotation.annotation))
        let = cst.Annotation(cst.Subscript(cst.parse_expression(f"{self._alias}.let"), [index]))
        return updated.with_changes(annotation=let)

    def _is_bound(self, value: cst.BaseExpression) -> bool:
        """Whether a name for an expression is meant, and no buffer, axis or number of Python's."""
        match value:
            case cst.Call(func=function):
                found = (self.qualify(function) or "").removeprefix(f"{OLD_SCRIPT}.")
                has_value = any(it.keyword is None for it in value.args)  # not so T.int64()
                return bool(found) and has_value and found.partition(".")[0] not in DECLARES
            case cst.Subscript(value=cst.Name()):
                return not _has_slice(value)
            case cst.BinaryOperation() | cst.UnaryOperation() | cst.Comparison():
                return True
        return False

    def leave_WithItem(self, node: cst.WithItem, updated: cst.WithItem) -> Any:
        is_block = self.is_script(node.item, "block", "sblock")
        self._has_blocks |= is_block
        if is_block and node.asname is not None:
            self.mark(node.item, "write the axes in the block, as vi = T.axis.spatial(n, i)")
        return updated

    # Calls, subscripts and strings

    def leave_Call(self, node: cst.Call, updated: cst.Call) -> Any:
        name = self.qualify(node.func) or ""
        keywords = {it.keyword.value for it in node.args if it.keyword is not None}
        if name in ("tvm.build", "tvm.driver.build", "tvm.compile"):
            if keywords & {"args", "inputs"} or isinstance(
                node.args[1:2] and node.args[1].value, cst.List
            ):
                advice = ADVICE["tvm.te.create_schedule"]
                self.mark(node, f"tvm.compile takes only a module; {advice}")
            if "target_host" in keywords:
                advice = 'give target=tvm.target.Target(TARGET, host="llvm")'
                self.mark(node, f"tvm.compile takes no target_host; {advice}")
            if "name" in keywords:
                self.mark(node, "tvm.compile takes no name; give an IRModule, with it")
        kept = list(updated.args)
        if re.fullmatch(rf"{OLD_SCRIPT}\.u?int\d+", name) and "is_size_var" in keywords:
            self.renames.setdefault("is_size_var=True", "no argument")
            kept = [it for it in kept if not it.keyword or it.keyword.value != "is_size_var"]
        for index, arg in enumerate(kept):
            if arg.keyword is not None and "relax." in name and arg.keyword.value in KEYWORDS:
                spelt = KEYWORDS[arg.keyword.value]
                self.renames.setdefault(f"{arg.keyword.value}=", f"{spelt}=")
                kept[index] = arg.with_changes(keyword=cst.Name(spelt))
            if arg.keyword is None and self.is_script(node, "allocate") and index == 2:
                kept[index] = arg.with_changes(keyword=cst.Name("scope"), equal=_TIGHT)
            match arg:
                case cst.Arg(keyword=cst.Name("data"), value=cst.Name(value=given)) if (
                    given in self._allocated
                ):
                    kept[index] = arg.with_changes(value=cst.Attribute(arg.value, cst.Name("data")))
        return updated.with_changes(args=kept)

    def leave_Subscript(self, node: cst.Subscript, updated: Any) -> Any:
        if not self.is_script(node.value, "Buffer"):
            return updated
        self.renames.setdefault("T.Buffer[...]", "T.Buffer(...)")
        args = [cst.Arg(it.slice.value, comma=it.comma) for it in updated.slice]
        return cst.Call(updated.value, args)

    def leave_DictElement(self, node: cst.DictElement, updated: cst.DictElement) -> cst.DictElement:
        """``"tir.noalias": T.bool(True)``, which TVM does not read as a Boolean now."""
        key, value = node.key, node.value
        is_it = isinstance(key, cst.SimpleString) and key.raw_value in NOALIAS
        if not (is_it and isinstance(value, cst.Call) and self.is_script(value, "bool")):
            return updated
        self.renames.setdefault("T.bool(True)", "True")
        return updated.with_changes(value=value.args[0].value)

    def leave_SimpleString(self, node: cst.SimpleString, updated: cst.SimpleString) -> Any:
        text = node.raw_value
        if re.fullmatch(r"tir\.\w+(\.\w+)*", text):
            new = _translate_key(text)
            if new is None:
                self.mark(node, f"TVM {SERIES} has no option or attribute {text}")
                return updated
            self.renames.setdefault(text, new)
            return updated.with_changes(value=node.value.replace(text, new))
        if re.fullmatch(r"(cuda|llvm|c|metal|opencl|rocm|vulkan)(\s+--?[\w-]+=[\w.+,-]+)+", text):
            kind, *options = text.split()
            pairs = [tuple(it.lstrip("-").split("=")) for it in options]
            values = {key: int(it) if it.isdecimal() else it for key, it in pairs}
            spelt = repr({"kind": kind, **values}).replace("'", '"')
            self.renames.setdefault(repr(text), spelt)
            return cst.parse_expression(spelt)
        if "T.prim_func" in text and node.quote in _LONG and "\\" not in text:
            try:
                inner = modernize_text(text)
            except SyntaxError:  # a part of a program, or an indented one
                return updated
            first = self.get_metadata(PositionProvider, node).start.line - 1
            self.marks += [Mark(first + it.line, it.message) for it in inner.marks]
            self.renames = {**inner.renames, **self.renames}
            return updated.with_changes(value=node.value.replace(text, inner.text))
        return updated

    def leave_Comment(self, node: cst.Comment, updated: cst.Comment) -> cst.Comment:
        """The imports and the root block that a printed script has as comments."""
        text = node.value.replace("script import tir as T", "script import tirx as T")
        if self.is_old:
            text = re.sub(r"# with T\.block\(", "# with T.sblock(", text)
        return updated.with_changes(value=text)


_LONG = ('"""', "'''")
_TIGHT = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))


def _has_slice(node: cst.Subscript) -> bool:
    return any(isinstance(it.slice, cst.Slice) for it in node.slice)


class _Imports(cst.CSTTransformer):
    """The imports, of what is used of them.

    Attributes
    ----------
    moved : old and new names of what is imported
    """

    def __init__(self, uses: Mapping[str, set[str]]) -> None:
        super().__init__()
        self.uses = uses
        self.moved: dict[str, str] = {}

    def leave_SimpleStatementLine(
        self, node: cst.SimpleStatementLine, updated: cst.SimpleStatementLine
    ) -> Any:
        made = [it for statement in updated.body for it in self._respell(statement)]
        if made == [*updated.body]:
            return updated
        lines = [cst.SimpleStatementLine([it]) for it in made]
        lines[0] = lines[0].with_changes(leading_lines=updated.leading_lines)
        trailing = updated.trailing_whitespace
        lines[-1] = lines[-1].with_changes(trailing_whitespace=trailing)
        return cst.FlattenSentinel(lines)

    def leave_SimpleStatementSuite(
        self, node: cst.SimpleStatementSuite, updated: cst.SimpleStatementSuite
    ) -> cst.SimpleStatementSuite:
        made = [it for statement in updated.body for it in self._respell(statement)]
        return updated.with_changes(body=made)

    def _respell(self, statement: cst.BaseSmallStatement) -> list[Any]:
        """An import as one or several ones; anything else as it is.

        Of ``from tvm import te, tir`` there may be more than one home now.
        """
        match statement:
            case cst.Import(names=names):
                prefix = ""
            case cst.ImportFrom(module=module, relative=(), names=[*names]) if module is not None:
                prefix = f"{_spell(module)}."
            case _:
                return [statement]
        found: list[tuple[cst.ImportAlias, str, str | None]] = []
        has_moved = False
        for alias in names:
            old, name = f"{prefix}{alias.evaluated_name}", alias.evaluated_alias
            home = (_translate(old) if _is_tvm(old) else None) or old
            name = _get_last(home) if name == _get_last(old) else name
            is_bound = bool(prefix or name or old == "tvm")  # else it binds tvm
            used = self.uses.get(old) if is_bound else None
            for new in sorted((used or {home}) | ({home} if old == "tvm" else set())):
                found.append((alias, new, name if new == home else None))
                has_moved |= new != old
                if new not in (old, "tvm_ffi"):
                    self.moved[old] = new
        places = {new.rpartition(".")[0] for _, new, _ in found}
        if not has_moved:
            return [statement]
        if prefix and len(places) == 1 and (place := places.pop()):
            aliases = [
                alias.with_changes(
                    name=cst.Name(_get_last(new)),
                    asname=cst.AsName(cst.Name(name)) if name else None,
                )
                for alias, new, name in found
            ]
            for index, (one, _) in enumerate(itertools.pairwise(aliases)):
                if not isinstance(one.comma, cst.Comma) or found[index][0] is found[index + 1][0]:
                    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
                    aliases[index] = one.with_changes(comma=comma)
            return [statement.with_changes(module=cst.parse_expression(place), names=aliases)]
        texts = []
        for _, new, name in found:
            place, _, last = new.rpartition(".")
            own = f" as {name}" if name else ""
            is_beside = not prefix and new == "tvm.s_tir"  # of import tvm.tir as tir
            is_from = place and (prefix or is_beside)
            texts.append(f"from {place} import {last}{own}" if is_from else f"import {new}{own}")
        return [
            cst.ensure_type(cst.parse_statement(it), cst.SimpleStatementLine).body[0]
            for it in texts
        ]


def _is_tvm(name: str) -> bool:
    return name.partition(".")[0] == "tvm"


def _spell(node: cst.CSTNode) -> str:
    """A name, or names joined by dots; "" of other expressions, a call's attribute, say."""
    match node:
        case cst.Name(value=name):
            return name
        case cst.Attribute(value=owner, attr=cst.Name(value=name)):
            return f"{before}.{name}" if (before := _spell(owner)) else ""
    return ""


def _get_last(name: str) -> str:
    return name.rpartition(".")[2]
