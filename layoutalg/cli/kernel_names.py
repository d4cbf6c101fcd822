"""Kernels as the command line asks for them: a family by its name, its problem by options."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial
from hashlib import sha256
from inspect import Parameter, signature
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

from layoutalg.cli.inputs import parts_of, read_extents
from layoutalg.errors import (
    LayoutAlgError,
    ParseError,
    ResourceError,
    ShapeError,
    UnknownNameError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from layoutalg.codegen.printing import LaunchRecord
    from layoutalg.codegen.program import Kernel, LaunchSequence
    from layoutalg.kernels.family import Family

MOST_DIGITS = 18
"""The most digits of an extent."""

EXAMPLES = {"shape": "64,128", "axes": "1,0"}


class Part(NamedTuple):
    """A kernel that is number `part`, counted from 1, of `parts` that compute `problem` in this order.

    `kernels` are all of them; `record` is what their launches must be given.
    """

    problem: str
    kernel: Kernel
    part: int
    parts: int
    kernels: tuple[Kernel, ...]
    record: LaunchRecord


def find_kernel(
    family: str,
    options: Mapping[str, Any],
    arch: str,
    step: str | None = None,
    part: int = 1,
    *,
    linked: str | None = None,
    free: bool = False,
    **shape: Any,
) -> Part:
    """Return a kernel of the launches that a family chooses for a problem, of the `shape` that `find_config`
    takes, or of a step on the way to its kernel.

    Kernels that are to be `linked` with others have the name that is given, or of "" names that no other
    problem's or configuration's have; `free`: rows or leading dimensions are parameters of the launch, where
    the family has such kernels.

    Raises ResourceError for a part that there is not, and as `find_config`, `read_options` and the family do.

    >>> find_kernel("gemm-simt", {"m": 256, "n": 256, "k": 256}, "sm_90", "wide").kernel.name
    'gemm_simt_f32'
    """
    from layoutalg.codegen.printing import launch_record
    from layoutalg.kernels.registry import find_family
    from layoutalg.kernels.sizes import buffer_bytes, buffer_views, read_in_units
    from layoutalg.kernels.tuning import choose

    chosen = find_family(family)
    problem = chosen.problem(**whole_options(chosen, options))
    name, by = None, "cost model"
    if {step, *shape.values()} == {None}:
        config, by = choose(chosen, problem, arch, among=chosen.written)
    else:
        name, config = find_config(chosen, problem, arch, step, **shape)
    launches = chosen.any_sizes if free and name is None and chosen.any_sizes else chosen.launches
    sequence = launches(problem, config, arch)
    if linked:
        sequence = _named(sequence, linked)
    elif linked is not None:
        label = config if name is None else repr(config)  # steps of one ladder may print alike
        sequence = _renamed(sequence, f"{family} {problem} {label} {arch}{'' if free else ' static'}")
    kernels = sequence.kernels
    if not 1 <= part <= len(kernels):
        raise ResourceError(f"part of {problem}", part, len(kernels))
    source = "" if by == "cost model" else f", by the {by}"
    shown = f"{problem}{source}" if name is None else f"{problem}, step {name}"
    own = {name for name, _ in sequence.scalars if name == "rows" or hasattr(problem, name)}
    fixed = {name: value for name, value in sequence.scalars if name not in own}  # what the plan has chosen
    sizes, views = buffer_bytes(problem, sequence), buffer_views(problem, sequence)
    record = launch_record(shown, sequence, sizes, fixed, read_in_units(problem), views)
    return Part(shown, kernels[part - 1], part, len(kernels), kernels, record)


def _renamed(sequence: LaunchSequence, what: str) -> LaunchSequence:
    """A sequence whose kernels' names end with what tells `what` apart."""
    digest = sha256(what.encode()).hexdigest()[:8]
    return replace(sequence, kernels=tuple(replace(k, name=f"{k.name}_{digest}") for k in sequence.kernels))


def _named(sequence: LaunchSequence, name: str) -> LaunchSequence:
    """A sequence whose kernels have a name, those behind the first one with their number.

    Raises UnsupportedError for a name that the text of a kernel has already.
    """
    from layoutalg.codegen.expr import check_name
    from layoutalg.codegen.printing import print_kernels

    check_name(name, "kernel")
    if name == "launch" or re.search(rf"\b{name}(_\d+)?\b", print_kernels(sequence.kernels)):
        raise UnsupportedError(f"the name {name}: something else of the text has it")
    names = [name, *(f"{name}_{n}" for n in range(2, len(sequence.kernels) + 1))]
    named = [replace(k, name=x) for k, x in zip(sequence.kernels, names, strict=True)]
    return replace(sequence, kernels=tuple(named))


SIDE = 4096
"""The extent of each mode that is not given, where any extent will do."""


def whole_size_options(family: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are given, and for extents that are not SIDE, or less where the family has less.

    >>> whole_size_options("transpose", {"m": 64, "dtype": None})
    {'m': 64, 'n': 4096}
    """
    from layoutalg.kernels.registry import find_family

    extents = find_family(family).asks
    usual = {name: min(SIDE, extents[name]) for name in ("m", "n", "k") if name in extents}
    return usual | {name: value for name, value in options.items() if value is not None}


def find_config(
    family: Family,
    problem: Any,
    arch: str,
    step: str | None = None,
    tile: str | None = None,
    stages: int | None = None,
    warps: str | None = None,
) -> tuple[str | None, Any]:
    """The name of a step, if one is asked for, and the configuration: its own, or the best, of a shape.

    The shape is a tile, stages and warps; building refuses one that does not fit, with what does.
    Raises UnknownNameError for a step that there is not, UnsupportedError for a family without steps or
    tiles, or a shape that it never has, and for a step and one of the others.

    >>> from layoutalg.kernels.registry import FAMILIES
    >>> f = FAMILIES["gemm-simt"]
    >>> find_config(f, f.problem(256), "sm_90", tile="64x64x16")[1].tile_m
    64
    """
    from layoutalg.kernels.registry import LADDERS, find_steps

    for what, choice in (("steps", step), ("tiles", tile), ("stages", stages), ("warps", warps)):
        if choice is not None and family.name not in LADDERS:
            raise UnsupportedError(f"{family.name} has no {what}: {', '.join(LADDERS)} do")
    shape: dict[str, int] = {} if stages is None else {"stages": stages}
    for what, ends, text, example in (("tile", "mnk", tile, "128x128x64"), ("warps", "mn", warps, "2x4")):
        if text is not None:
            extents = read_extents(what, text, example)
            shape |= {f"{what}_{end}": n for end, n in zip(ends, extents, strict=True)}
    for what, choice in (("a tile", tile), ("stages", stages), ("warps", warps)):
        if step is not None and choice is not None:
            raise UnsupportedError(f"a step has {what} of its own: --step or --{what.split()[-1]}, not both")
    if step is not None:
        name = _step(family, step)
        return name, find_steps(family.name)[name]
    if shape:
        return None, _shaped(family, problem, arch, shape)
    return None, family.choose(problem, arch, family.written)


def _has(config: Any, shape: Mapping[str, int]) -> bool:
    """Whether a configuration is of a shape."""
    return all(getattr(config, name, None) == n for name, n in shape.items())


def _shaped(family: Family, problem: Any, arch: str, shape: Mapping[str, int]) -> Any:
    """The best candidate of a shape; without one, the best of the others that works in it, or else one that
    building refuses.
    """
    from layoutalg.kernels.gemm import check_config

    offered = [c for c in family.candidates(problem, arch) if c.dropped or family.written(c.config)]
    for candidate in offered:
        if _has(candidate.config, shape):
            if candidate.dropped is not None:
                raise candidate.dropped
            return candidate.config
    usual = offered[0].config
    free = {name: n for name, n in shape.items() if name in {f.name for f in fields(usual)}}
    for name, n in shape.items():
        if name not in free and not _has(usual, {name: n}):
            raise UnsupportedError(f"{name} = {n}: {family.name} has {getattr(usual, name, 'none')}")
    own = {"warps_m", "warps_n"} & {f.name for f in fields(usual)} - shape.keys()
    fewer = [
        dict.fromkeys(names, 1) for count in range(len(own) + 1) for names in combinations(sorted(own), count)
    ]
    tried = [replace(c.config, **free, **warps) for warps in fewer for c in offered]
    for config in tried:
        with suppress(LayoutAlgError):
            check_config(problem, config, arch)
            return config
    return tried[0]


def step_sizes(family: Family, step: str) -> dict[str, int]:
    """Extents at which all tiles of a step are full, two along k; nothing for a family without steps.

    >>> from layoutalg.kernels.registry import FAMILIES
    >>> step_sizes(FAMILIES["gemm-simt"], "v7")
    {'m': 64, 'n': 64, 'k': 32}
    """
    from layoutalg.kernels.registry import LADDERS, find_steps

    if family.name not in LADDERS:
        return {}
    config = find_steps(family.name)[_step(family, step)]
    return {"m": config.tile_m, "n": config.tile_n, "k": 2 * config.tile_k}


def _step(family: Family, step: str) -> str:
    from layoutalg.kernels.registry import find_steps

    steps = find_steps(family.name)
    for name in steps:
        if step in (name, name.split()[0]):
            return name
    raise UnknownNameError(f"step of {family.name}", step, steps)


def _made(problems: Sequence[Callable[[], Any]]) -> list[Any]:
    """The problems that there are with given options, such as k whose rows are whole bytes of their type.

    Raises the last refusal where there is none.
    """
    made: list[Any] = []
    for problem in problems:
        try:
            made.append(problem())
        except ShapeError:
            if problem is problems[-1] and not made:
                raise
    return made


def verified_problems(family: Family, options: Mapping[str, Any]) -> list[Any]:
    """The problems that are verified: the family's own ones, or that of the options.

    An extent that is not given is another one that is.  Raises as `read_options` and the family do.

    >>> from layoutalg.kernels.registry import FAMILIES
    >>> [str(p) for p in verified_problems(FAMILIES["transpose"], {"m": 8, "dtype": "f16"})]
    ['8 x 8 f16, ld 8 -> 8']
    """
    from layoutalg.kernels.checks import checks_of

    arguments = read_options(family, options)
    usual = checks_of(family).verified[0]
    sizes = [name for name in family.asks if name in usual and not isinstance(usual[name], bool)]
    if not any(name in arguments for name in sizes):
        return _made(
            [partial(family.problem, **{**args, **arguments}) for args in checks_of(family).verified]
        )
    rest = {name: value for name, value in usual.items() if name not in sizes}
    extents = {name: arguments[name] for name in sizes if isinstance(arguments.get(name), int)}
    if extents:
        arguments = {name: next(iter(extents.values())) for name in sizes} | arguments
    return [family.problem(**{**rest, **_complete(family, arguments)})]


def whole_options(family: Family, options: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a family's problem: the options that are given, and the defaults of the others.

    Raises UnsupportedError for one that is needed, and as `read_options` does.

    >>> from layoutalg.kernels.registry import FAMILIES
    >>> whole_options(FAMILIES["softmax"], {"shape": "64,1000"})
    {'shape': (64, 1000), 'axes': (-1,)}
    """
    return _complete(family, read_options(family, options))


def _complete(family: Family, options: Mapping[str, Any]) -> dict[str, Any]:
    from layoutalg.kernels.family import NEEDED

    arguments = {name: usual for name, usual in family.asks.items() if usual is not None} | dict(options)
    for name, value in arguments.items():
        if value is NEEDED:
            raise UnsupportedError(f"{family.name} needs --{name}, such as --{name} {EXAMPLES[name]}")
    return arguments


def read_options(family: Family, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are given, not None, as arguments of a family's problem: texts of shape and axes read.

    Raises UnsupportedError for those that the family does not have, ParseError for texts that are not ints.

    >>> from layoutalg.kernels.registry import FAMILIES
    >>> read_options(FAMILIES["softmax"], {"m": None, "shape": "64,1000"})
    {'shape': (64, 1000)}
    """
    chosen = {name: value for name, value in options.items() if value is not None}
    if foreign := [name for name in chosen if name not in (*family.asks, "dtype")]:
        takes, none = (
            ", ".join(f"{before}{name.replace('_', '-')}" for name in names)
            for before, names in (("--", family.asks), ("", foreign))
        )
        raise UnsupportedError(f"{family.name} has no {none.replace(', ', ' and ')}: it takes {takes}")
    return {name: read_ints(name, x) if name in EXAMPLES else x for name, x in chosen.items()}


def read_problems(family: Family, text: str, file: str) -> list[Any]:
    """The problems of the JSON text of a file, a list of arguments of a family's problem.

    Raises ParseError for a text that holds no such list and for arguments that the family does not have, and
    as the family's problem does.

    >>> from layoutalg.kernels.registry import FAMILIES
    >>> [str(p) for p in read_problems(FAMILIES["transpose"], '[{"m": 8, "n": 4}]', "problems.json")]
    ['8 x 4 f32, ld 4 -> 8']
    """
    return [family.problem(**_arguments(family, arguments)) for arguments in _listed(text, file)]


def _listed(text: str, file: str) -> list[Any]:
    try:
        problems = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ParseError(f"the problems of {file} are not JSON: {error}", text="", position=0) from error
    if not isinstance(problems, list) or not problems:
        raise ParseError(
            f'{file} is not a list of problems, such as [{{"m": 64, "n": 4096}}]', text="", position=0
        )
    return problems


def _arguments(family: Family, named: object) -> Mapping[str, Any]:
    taken = (*family.asks, "dtype")

    def refused(why: str) -> ParseError:
        return ParseError(f"{str(named)[:80]} is not a problem of {family.name}{why}", text="", position=0)

    if not isinstance(named, dict) or not all(isinstance(x, str) for x in named) or set(named) - set(taken):
        raise refused(f", which has {', '.join(taken)}")
    takes = signature(family.problem).parameters
    if missing := [x for x in taken if x in takes and takes[x].default is Parameter.empty and x not in named]:
        raise refused(f": {' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")
    for name, value in named.items():
        if name in EXAMPLES:
            if not isinstance(value, list) or not all(type(x) is int for x in value):
                raise refused(f": {name} = {value!r}, and a list such as [{EXAMPLES[name]}] is needed")
        elif isinstance(value, list | dict):
            raise refused(f": {name} = {value!r}, and one value is needed")
    return {name: tuple(x) if isinstance(x, list) else x for name, x in named.items()}


def read_ints(name: str, text: str) -> tuple[int, ...]:
    """Ints between commas or x, in parentheses or not.  Raises ParseError.

    >>> read_ints("axes", "(0, -1)"), read_ints("shape", "64"), read_ints("shape", "64x8")
    ((0, -1), (64,), (64, 8))
    """
    words = parts_of(text)
    numbers = []
    for word in words[: -1 if words[-1].strip() == "" else None]:
        digits = word.strip(" \t\r\n").removeprefix("-")
        if not digits.isdecimal() or not digits.isascii() or len(digits) > MOST_DIGITS:
            position = text.index(word)
            raise ParseError(
                f"cannot read the {name} {text[:80]!r}: expected an int at position {position}",
                text=text,
                position=position,
            )
        numbers.append(int(word))
    return tuple(numbers)
