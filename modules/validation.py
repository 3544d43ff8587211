"""Refuses, before any module is made, the sizes and options that a kernel cannot have.

Each refusal is one sentence: the kernel, what is wrong with names and numbers, what to do.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any


class KernelError(ValueError):
    """A kernel cannot be as requested: one sentence of what is wrong, and what to do."""


def nearest(name: str, known: Iterable[str]) -> str:
    """The known names that look like `name`, or all of them: the tail of an error's sentence."""
    names = list(known)
    alike = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if alike:
        return f"the nearest: {', '.join(alike)}"
    return f"there are: {', '.join(names)}" if names else "there are none"


# TVM computes indices in int32.
_TOO_MANY_ELEMENTS = 2**31


def take_sizes(
    kernel: str, names: Sequence[str], positional: Sequence[Any], keywords: dict[str, Any]
) -> dict[str, int]:
    """The sizes in the order of `names`; those given by name are taken out of `keywords`."""
    if len(positional) > len(names):
        raise KernelError(
            f"{kernel}: got {len(positional)} sizes for {_listed(names)}; "
            f"leave out the last {len(positional) - len(names)}"
        )
    given = dict(zip(names, positional, strict=False))
    for name in names:
        if name in given and name in keywords:
            raise KernelError(f"{kernel}: size {name} is given twice; give it by place or by name")
        if name not in given and name not in keywords:
            raise KernelError(f"{kernel}: size {name} is missing; give {_listed(names)}")
        given.setdefault(name, keywords.pop(name, None))
        _check_size(kernel, name, given[name])
    return {name: given[name] for name in names}


def check_symbolic(kernel: str, names: Sequence[str], symbolic: Sequence[str]) -> None:
    """Refuse names that are no sizes of a kernel, and names given twice."""
    for name in symbolic:
        if name not in names:
            raise KernelError(
                f"{kernel}: there is no size {name!r} that could be symbolic; "
                f"{nearest(name, names)}"
            )
    if len(set(symbolic)) < len(symbolic):
        raise KernelError(
            f"{kernel}: symbolic={tuple(symbolic)!r} names a size twice; name it once"
        )


def _check_size(kernel: str, name: str, value: Any) -> None:
    # bool is an int to Python; a size it is not.
    if not isinstance(value, int) or isinstance(value, bool):
        raise KernelError(
            f"{kernel}: size {name}={value!r} is of type {type(value).__name__}; give an int"
        )
    if value < 1:
        raise KernelError(f"{kernel}: size {name}={value} is below 1; give 1 or more")


def take_options(
    kernel: str,
    defaults: Mapping[str, object],
    accumulators: Mapping[str, Sequence[str]],
    choices: Mapping[str, Sequence[object]],
    given: Mapping[str, object],
    storage_of: Callable[[str], str] = str,
) -> dict[str, Any]:
    """Every option: the given ones, the defaults, and for acc and out what their None stands for.

    acc is by default the first accumulator of dtype, and out is acc, as `storage_of` says that it
    lies in memory.
    """
    for name in given:
        if name not in defaults:
            raise KernelError(f"{kernel}: there is no option {name!r}; {nearest(name, defaults)}")
    options: dict[str, Any] = {**defaults, **given}
    for name, allowed in choices.items():
        _check_choice(kernel, name, options[name], allowed)
    if "dtype" not in options:
        return options
    dtype = options["dtype"]
    _check_choice(kernel, "dtype", dtype, list(accumulators))
    if "acc" in options:
        if options["acc"] is None:
            options["acc"] = accumulators[dtype][0]
        _check_choice(kernel, "acc", options["acc"], accumulators[dtype], f" with dtype={dtype!r}")
    if "out" in options:
        acc = options["acc"]
        outs = _list_outputs(storage_of(dtype), storage_of(acc))
        if options["out"] is None:
            options["out"] = outs[0]
        _check_choice(kernel, "out", options["out"], outs, f" with dtype={dtype!r} and acc={acc!r}")
    return options


def _list_outputs(dtype: str, acc: str) -> list[str]:
    """The types that sums may be stored in, of operands of a type, the default first."""
    # Back into int8 a sum would wrap round: that takes a scale, and is another kernel.
    if acc == dtype or dtype.startswith("int"):
        return [acc]
    # float8 has few results of a sum; networks go on in a half type.
    return [acc, dtype, *(("bfloat16", "float16") if dtype.startswith("float8") else ())]


def _check_choice(
    kernel: str, name: str, value: object, allowed: Sequence[object], about: str = ""
) -> None:
    # By type too: True equals 1, yet is no width.
    if any(type(value) is type(choice) and value == choice for choice in allowed):
        return
    if isinstance(allowed, range):
        advice = f"give an int from {allowed[0]} to {allowed[-1]}"
    else:
        advice = f"choose {_listed([repr(choice) for choice in allowed], 'or')}"
    raise KernelError(f"{kernel}: {name}={value!r} is not possible{about}; {advice}")


def check_elements(kernel: str, sizes: Mapping[str, int], elements: int) -> None:
    """Refuse sizes that give a tensor of so many elements that int32 indices overflow."""
    if needs_long_indices(elements):
        listed = ", ".join(f"{name}={value}" for name, value in sizes.items())
        raise KernelError(
            f"{kernel}: {listed} make a tensor of {elements} elements, and indices of 32 bits end "
            f"at {_TOO_MANY_ELEMENTS - 1}; choose smaller sizes"
        )


def needs_long_indices(elements: int) -> bool:
    """Whether a tensor has so many elements that int32 indices overflow."""
    return elements >= _TOO_MANY_ELEMENTS


def _listed(names: Sequence[str], last: str = "and") -> str:
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} {last} {names[-1]}"
