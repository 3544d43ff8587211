"""Rows of a drawn program: few small arrays that many statements touch, and numbers at the ends of
their types.

Each row of an output is one loop's iteration, or one thread's. What passes forget about memory
shows where stores and loads meet: so a row has a handful of elements, statements name those that
others have named before, branches ask what they store, and loops run over one array at several
indices, some of them no times at all. What passes forget about numbers shows at the ends: so the
expressions of `EXPRESSIONS` have inputs there, and do with them what has one answer alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from string import Template
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .drawn_programs import Writer

CAP = 60
"""The largest number in a buffer of a program's own: what is stored there is cut off at it."""

ROW_TYPES = ("float32", "int32", "float32", "int64", "float64", "float16", "int16")
ORDERED_TYPES = ("float32", "int32", "uint8", "int8")
"""Of rows whose numbers are at the ends: they are compared and copied alone."""
SUM_TYPES = ("float32", "float64", "int32", "int64")
"""Types that hold a sum over all iterations of a row."""
MOST_ITERATIONS = 100
"""Of the loops around a statement."""
INPUTS = {
    **dict.fromkeys("FG", "float32"),
    **dict.fromkeys("IJ", "int32"),
    **dict.fromkeys("UV", "uint8"),
    "S": "int8",
    "M": "int32",
}
"""Types of the inputs of `EXPRESSIONS`: M has small numbers, the others those at the ends."""
WORDS: dict[str, Sequence[Any]] = {
    "k": (1, 2, 3),
    "d": (3, 5, 7, 10, 24),
    "end": (-1, 0, 1, 2, 5),
    "sign": ("<", "<=", ">", ">="),
    "same": ("<", ">=", "==", "!="),
    "op": "+-",
    "narrow": ("int8", "uint8", "int16", "uint16"),
    "div": ("floordiv", "floormod", "truncdiv", "truncmod"),
    "round": ("nearbyint", "floor", "ceil", "trunc"),
    "choose": ("Select", "if_then_else"),
    "both": ("And", "Or"),
    "real": ("float32", "float64"),
    "byte": ("$U", "$V", "$U", "$V", "$S"),
    "low": (0, 1, 2, 3),
    "step": (1, 1, 2),
}
"""What a ``$word`` of a template may be. A capital letter is an element of an input, another word
what a `RowWriter` has or draws under that name; with a number behind it, a word is the same in each
place.
"""
EXPRESSIONS = {
    "float32": """
T.$choose($F1 $sign T.float32($end1), T.float32($end1), $F1)
T.$choose($F1 $sign T.float32($end1), $F1, T.float32($end1))
T.$choose($F1 $sign $G1, $F1, $G1)
T.$choose($F1 $sign $G1, $G1, $F1)
T.if_then_else($F1 == $F1, $F1 * T.float32($k), T.float32($end))
T.Cast("float32", T.Cast("float16", $F))
$F1 - T.Cast("float32", T.Cast("float16", $F1))
T.$round(T.Cast("float32", $M) * T.float32(0.5))
T.floor(T.Cast("float32", $M) / T.float32($d1) * T.float32($d1))
T.sqrt(T.Cast("float32", $M1) * T.Cast("float32", $M1)) - T.fabs($F)
T.Cast("float32", T.Cast("int32", T.Cast("float32", $M) * T.float32(0.5)))
""",
    "int32": """
T.reinterpret("int32", T.$choose($F1 $sign T.float32(0), $F1, $G))
T.reinterpret("int32", T.Cast("float32", $M) * T.float32(-0.5))
T.Cast("int32", T.Cast("$narrow", T.max(T.min($M * 63, 127), 0)))
T.Cast("int32", T.Cast("$narrow", $I))
T.Cast("int32", T.Cast("int8", $U))
T.Cast("int32", $byte)
T.Cast("int32", $byte) * T.Cast("int32", $byte) - T.Cast("int32", $byte)
T.bitwise_or(T.shift_left(T.Cast("int32", $byte), 8), T.Cast("int32", $U))
T.shift_right(T.Cast("int32", $U) + T.Cast("int32", $V) + 1, 1)
T.Cast("int32", T.max($byte, T.Cast("$narrow", 1) $op T.Cast("$narrow", 0)))
T.Cast("int32", $U $op $V)
T.$div($I, $d)
T.$div($M, $k)
T.$div($M, $d) $op T.$div($M - 3, $k)
T.$div(T.$div($I, $d), $k)
T.$div($M * $k, $d1) * $d1
T.if_then_else($M1 > 0, T.$div($M, $M1), $end)
T.shift_right($I, $k)
T.shift_right($I, T.bitwise_and($M, 7))
T.bitwise_or(T.bitwise_and($I, $J), $M)
T.Cast("int32", T.shift_right(T.Cast("uint32", $I), T.uint32($d)))
T.Cast("int32", T.shift_right(
  T.Cast("uint32", $I) * T.uint32(1664525) + T.uint32(1013904223), T.uint32(9)))
T.$choose($I1 $sign $J1, $I1, $J1)
($i1 + 98300) // $d1 * 3 + ($i1 + 98300) % $d1
($i * 30011 + $d) // $d
T.$div($i1 - $i2, $d)
T.Cast("int32", T.Cast("$real", T.shift_right($I, $k)))
""",
    "int64": """
T.Cast("int64", T.$div($J, 2))
T.Cast("int64", T.bitwise_and($J, 255))
T.Cast("int64", T.popcount(T.Cast("uint64", T.bitwise_xor($I, T.bitwise_not($J)))))
T.Cast("int64", $I) $op T.Cast("int64", $J) $op T.int64(5000000000)
T.shift_right(T.Cast("int64", $I) * T.Cast("int64", $J), T.int64($d))
T.Cast("int64", $i) * T.int64(3000000000)
T.Cast("int64", ($i * 30011) % $d)
""",
}
"""What is stored to outputs of each type."""
CONDITIONS = """
$F $sign $G
$F $sign T.float32($end)
T.$both($F $sign $G, $F $sign T.float32($end))
$I $sign $J
$I $same $end
$U $sign $V
$U $op $V $sign T.uint8($k)
T.Cast("int32", $byte) $op T.Cast("int32", $byte) $sign $end
T.$div($M, $k) $same $end
T.$div($I, $d) $sign $end
T.shift_right($I, $k) $same $end
$M * $k $sign $end
$M $op $M $sign $k
"""
"""What branches ask."""
STATEMENTS = {
    "store": "$place = $value",
    "swap": "$x1: T.let[T.$dtype] = $place1; $place1 = $place2; $place2 = $x1",
    "copy": "$place1 = $place2; $place3 = $place1",
    "append": "$last = $value; $count = $count + $step",
    "sum": "$total = $total $op $place",
}
"""What is done with arrays, without other statements within."""
STORED = ["$place", "$constant", "$read", *["T.$choose($condition, $place, $place)"] * 2]
"""What is stored; where numbers are not at the ends, what an element becomes, too."""


class RowWriter:
    """Writes what one row of a program does.

    Attributes
    ----------
    row : the number of the row, as text
    parameters : names and types of what has `width` elements a row
    at_ends : those whose numbers are at the ends of their types
    shifted : the indices of loops that do not begin at 0; all are from 0 to less than `width`
    """

    def __init__(self, writer: Writer, row: str, tag: str) -> None:
        self.writer, self.row, self.tag = writer, row, tag
        self.one, self.is_so, self.say = writer.one, writer.is_so, writer.say
        self.width: int = self.one((3, 4, 5, 8), "width")
        self.parameters: dict[str, str] = {}
        self.at_ends: set[str] = set()
        self.shifted: set[str] = set()

    def write_numbers(self) -> None:
        """Outputs of some expressions, and of branches."""

        with self.writer.loop(self.width):
            for _ in range(self.one((3, 4, 5), "expressions")):
                dtype = str(self.one(("float32", "int32", "int32", "int64"), "type"))
                made = self.draw(EXPRESSIONS[dtype].replace("\n  ", "").strip().splitlines())
                output = self.element(self.writer.fresh("O"), self.index(self.width), dtype)
                self.say(f"{output} = {made}")
            for _ in range(self.one((1, 2, 3), "branches")):
                asked = self.draw(CONDITIONS.strip().splitlines())
                output = self.element(self.writer.fresh("O"), self.index(self.width), "int32")
                for line, number in ((f"if {asked}:", "$k"), ("else:", "$end")):
                    with self.writer.within(line):
                        self.say(f"{output} = {self.fill(number)}")

    def write_arrays(self) -> None:
        """Statements about a few arrays: rows of outputs, and registers."""
        self.is_ordered = self.is_so(4, "ordered")
        self.dtype = str(self.one(ORDERED_TYPES if self.is_ordered else ROW_TYPES, "type"))
        self.arrays = ["Y", "s", *self.one(((), ("Z",), ("t",), ("Z", "t")), "arrays")]
        registers = [name for name in self.arrays if name.islower()]
        self.sizes = {name: self.one((1, 2, self.width), "registers") for name in registers}
        self.has_sum = not self.is_ordered and self.dtype in SUM_TYPES
        self.has_square = self.is_so(3, "square")
        # All of them begin outside of branches: TVM allocates twice what does not.
        self.say(f'n{self.tag} = T.alloc_buffer((1,), "int32", scope="local")')
        self.count, self.total = f"n{self.tag}[0]", f"a{self.tag}[0]"
        self.say(f"{self.count} = 0")
        if self.has_sum:
            self.say(f'a{self.tag} = T.alloc_buffer((1,), "{self.dtype}", scope="local")')
            self.say(f"{self.total} = T.{self.dtype}(0)")
        if self.has_square:
            shape = f"(4, {self.width})"
            self.say(f'u{self.tag} = T.alloc_buffer({shape}, "{self.dtype}", scope="local")')
        for name, size in self.sizes.items():
            self.say(f'{name}{self.tag} = T.alloc_buffer(({size},), "{self.dtype}", scope="local")')
        with self.writer.loop(self.width) as index:
            for name in self.arrays:
                place = f"{index.text} % {self.sizes[name]}" if name in self.sizes else index.text
                self.say(f"{self.named(name, place)} = {self.read()}")
            for row in range(4 * self.has_square):
                self.say(f"u{self.tag}[{row}, {index.text}] = {self.read()}")
        self.block(3)
        with self.writer.loop(self.width) as index:  # what is left in registers counts, too
            for name, size in self.sizes.items():
                output = self.element(f"O{name}", index.text, self.dtype)
                self.say(f"{output} = {self.named(name, f'{index.text} % {size}')}")
            if self.has_sum:
                self.say(f"{self.element('Oa', index.text, self.dtype)} = {self.total}")

    # Statements.

    def block(self, depth: int) -> None:
        """Some statements, which may have others within them."""
        for _ in range(self.one((1, 2, 3, 4) if depth < 3 else (2, 3, 4), "statements")):
            self.statement(depth)

    def statement(self, depth: int) -> None:
        """One statement."""
        kinds, count = (
            ["store"] * 4 + ["swap", "copy", "append", *["sum"] * self.has_sum],
            self.count,
        )
        if depth:
            kinds += ["branch"] * 4
        if depth and self.width ** (len(self.writer.indices) + 1) <= MOST_ITERATIONS:
            kinds += ["loop"] * 4 + ["search"]
        if self.has_square and not self.writer.indices:
            kinds += ["square"] * 2
        match self.one(kinds, "statement"):
            case "loop":
                bounds = self.bounds()
                with self.writer.loop(self.width, text=bounds) as index:
                    self.shifted |= {index.text} if "," in bounds else set()
                    self.block(depth - 1)
            case "branch":
                with self.writer.within(f"if {self.condition()}:"):
                    self.block(depth - 1)
                if self.is_so(3, "else"):
                    with self.writer.within("else:"):
                        self.block(depth - 1)
            case "square":  # a nest in which each element is made of a neighbour
                rows, columns = self.one(((1, 0), (0, 1), (1, 1)), "shifts")
                with self.writer.loop(3) as one, self.writer.loop(self.width - 1) as other:
                    ends = [(it.text, f"{it.text} + 1") for it in (one, other)]
                    to = f"u{self.tag}[{ends[0][rows]}, {ends[1][columns]}]"
                    of = f"u{self.tag}[{ends[0][1 - rows]}, {ends[1][self.one((0, 1), 'from')]}]"
                    self.say(f"{to} = {self.change(of)}")
                with self.writer.loop(self.width) as index:
                    of = f"u{self.tag}[{self.one(range(4), 'row')}, {index.text}]"
                    self.say(f"{self.named('Y', index.text)} = {of}")
            case "search":
                asked = f"{self.named('Y', count)} {self.one(WORDS['sign'], 'sign')}"
                asked = f"T.And({count} < {self.width}, {asked} {self.constant()})"
                self.say(f"{count} = 0")
                with self.writer.within(f"while {asked}:"):
                    self.say(f"{count} = {count} + 1")
            case kind:
                for line in self.fill(STATEMENTS[kind]).split("; "):
                    self.say(line)
                if kind == "sum" and self.is_so(3, "so far"):
                    output = self.element("O", self.index(self.width), self.dtype)
                    self.say(f"{output} = {self.total}")

    def bounds(self) -> str:
        """Those of a loop whose index is within a row; it may have no iteration."""
        width, by = self.width, self.one((1, 2), "by")
        forms = [f"{width}"] * 3 + [f"{width - 1}", f"{by}, {width}", f"{width // 2}"]
        forms += [f"{by - 1}, {width}, 2"]
        forms.append(f"T.min({self.element('M', self.index(width), 'int32')}, {width})")
        for outer in (it.text for it in self.writer.indices[-2:]):
            forms += [f"{outer} - {by}", f"{by} - {outer}"]
            if outer not in self.shifted:  # CanonicalizeLoop begins the inner one elsewhere
                forms.append(f"{outer} + {by}, {width}")
        return str(self.one(forms, "bounds"))

    def condition(self) -> str:
        """What a branch asks: now and then what another one asked."""
        if self.writer.conditions and self.is_so(3, "asked before"):
            return str(self.one(self.writer.conditions, "condition"))
        sign = self.one(WORDS["sign"], "sign")
        forms = [f"$place {sign} $constant"] * 2 + [f"$place {sign} $place", f"$count {sign} $low"]
        forms += [f"$at {sign} $low"] * 2 * bool(self.writer.indices)
        made = self.draw(forms)
        if self.is_so(5, "both"):
            made = f"T.{self.one(WORDS['both'], 'both')}({made}, {self.condition()})"
        self.writer.conditions.append(made)
        return made

    # Expressions.

    def draw(self, templates: Sequence[str]) -> str:
        """One of some templates, filled."""
        return self.fill(self.one(templates, "template"))

    def fill(self, template: str) -> str:
        """A template with all its words drawn."""
        return Template(template).substitute(_Words(self))

    def element(self, stem: str, index: str, dtype: str, *, is_at_ends: bool = False) -> str:
        """An element of a parameter's row."""
        name = stem + self.tag
        self.parameters[name] = dtype
        if is_at_ends:
            self.at_ends.add(name)
        return f"{name}[{self.row}, {index}]"

    def named(self, name: str, index: str) -> str:
        """An element of an array."""
        if name in self.sizes:
            return f"{name}{self.tag}[{index}]"
        return self.element(name, index, self.dtype, is_at_ends=self.is_ordered)

    def place(self) -> str:
        """An element of an array: half of the time one that was named before."""
        if self.writer.places and self.is_so(2, "named before"):
            return str(self.one(self.writer.places, "place"))
        name = self.one(self.arrays, "array")
        size = self.sizes.get(name, self.width)
        index = self.index(size)
        if self.is_so(6, "counted"):
            index = f"{self.count} % {size}"
        self.writer.places.append(self.named(name, index))
        return self.writer.places[-1]

    def last(self) -> str:
        """Where the output goes on."""
        return self.named("Y", f"{self.count} % {self.width}")

    def at(self) -> str:
        """The index of a loop around."""
        return str(self.one(self.writer.indices, "index").text)

    def index(self, size: int) -> str:
        """An index of what has so many elements."""
        if not self.writer.indices or size == 1 or self.is_so(5, "constant"):
            return str(self.one(range(size), "index"))
        at, by = self.at(), self.one((1, 2), "shift")
        if size < self.width:
            return f"{at} % {size}"
        forms = [at] * 4 + [f"{size - 1} - {at}", f"({at} + {by}) % {size}", f"{at} // 2"]
        forms += [f"T.max({at} - {by}, 0)", f"T.min({at} + {by}, {size - 1})"]
        return str(self.one(forms, "index"))

    def read(self) -> str:
        """An element of the input."""
        index = self.index(self.width)
        return self.element("X", index, self.dtype, is_at_ends=self.is_ordered)

    def value(self) -> str:
        """What is stored."""
        return self.draw([*STORED, *["$changed"] * 4 * (not self.is_ordered)])

    def changed(self) -> str:
        """What an element becomes."""
        return self.change(self.place())

    def change(self, value: str) -> str:
        """What an element becomes, cut off where it may grow."""
        if self.is_ordered:
            return self.fill(f"T.if_then_else({value} == $constant, $read, {value})")
        other = self.draw(STORED[:3])
        one, two = self.one(((value, other), (other, value)), "order")
        low, high = f"T.{self.dtype}({-CAP})", f"T.{self.dtype}({CAP})"
        return f"T.max(T.min({one} {self.one('+-', 'sign')} {two}, {high}), {low})"

    def constant(self) -> str:
        """A small number."""
        low = 0 if self.dtype.startswith("u") else -2
        return f"T.{self.dtype}({self.one(range(low, 4), 'number')})"


class _Words(dict[str, str]):
    """What the words of an expression are, each drawn when it is met."""

    def __init__(self, row: RowWriter) -> None:
        super().__init__()
        self._row = row

    def __missing__(self, name: str) -> str:
        word, row = name.rstrip("0123456789"), self._row
        if word in INPUTS:
            index = row.index(row.width)
            made = row.element(word, index, INPUTS[word], is_at_ends=word != "M")
        elif word in WORDS:
            made = Template(str(row.one(WORDS[word], word))).substitute(self)
        elif word in ("i", "x"):
            made = row.index(row.width) if word == "i" else row.writer.fresh(word)
        else:
            made = getattr(row, word)
            made = str(made() if callable(made) else made)
        if word != name:
            self[name] = made
        return made
