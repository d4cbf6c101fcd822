"""`layoutalg inspect pipeline`: what the stages and registers of a product's main loop hold, step by step."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from layoutalg.answers import Answer, Count, Positive, taken
from layoutalg.arch import DEFAULT_ARCH
from layoutalg.cli.commands.kernels.options import KernelDtypeOption, StepOption, TileOption
from layoutalg.cli.files import write_whole
from layoutalg.cli.kernel_names import find_config
from layoutalg.cli.options import ArchOption, OutputOption, argument, families, one_of, option
from layoutalg.cli.output import PAGE, progress, say_answer, wants_json
from layoutalg.draw import as_file, as_text
from layoutalg.errors import UnsupportedError, check_choice, printable
from layoutalg.limits import Most

if TYPE_CHECKING:
    from layoutalg.codegen.sim import RoleTimeline, Timeline

SIDE = 4096
"""The side of the product whose kernel is shown, and tiles along k at most."""

FORMATS = ("text", "svg", "png", "pdf")


@dataclass(frozen=True)
class RoleTurns:
    """The work of the warps of a role in every turn, and the turns that they have waited for each barrier."""

    warps: str
    turns: tuple[str, ...]
    waited: Mapping[str, Positive]


@dataclass(frozen=True)
class PlaceUse:
    """The tile that a place holds in a step."""

    place: str
    step: Count
    tile: Count
    part: Count | None
    begins: bool
    coming: bool
    read: bool


@dataclass(frozen=True)
class PipelineAnswer(Answer, command="inspect pipeline"):
    """The tiles in the places of a main loop in each step; steps are named by the tile and the part of it
    that is multiplied, and by nothing before the loop."""

    family: str
    kernel: str
    step: str | None
    way: str
    steps: tuple[str, ...]
    places: tuple[str, ...]
    uses: tuple[PlaceUse, ...]
    roles: tuple[RoleTurns, ...] | None
    """The roles of a kernel whose warps have some; null of another."""
    output: str | None


def pipeline_command(
    family: Annotated[
        str, argument("gemm-simt, gemm-sm75, gemm-sm80, gemm-sm90 or attention.", complete=families)
    ],
    dtype: KernelDtypeOption = None,
    step: StepOption = None,
    tile: TileOption = None,
    tiles: Annotated[int, "Number of k tiles, or tiles of keys, shown."] = 4,
    format_: Annotated[
        str | None, option("text, svg, png or pdf.", "--format", complete=one_of(*FORMATS))
    ] = None,
    ascii_only: Annotated[bool, option("No box characters in text.", "--ascii")] = False,
    output: OutputOption = None,
    arch: ArchOption = DEFAULT_ARCH,
) -> None:
    """Draw the pipeline of the main loop of a GEMM, or of attention: copies, stages, fragments and
    multiplications by step.

    In a step, + is a copy that starts, > a copy in flight, * a tile that is read. With warp specialization
    (gemm-sm90, attention) there is a row per warp, and ? is what it waits for.

    layoutalg inspect pipeline gemm-sm80 --step 8 --tiles 6 -o pipeline.svg
    """
    from layoutalg.codegen.program import Roles
    from layoutalg.codegen.sim import Timeline, role_timeline, timeline
    from layoutalg.kernels.registry import FAMILIES, find_family

    suffix = "" if output is None else output.suffix.lower().removeprefix(".")
    form = format_ or (suffix if suffix in FORMATS else "text")
    check_choice("picture format", form, FORMATS)
    if form in ("png", "pdf") and output is None:
        raise UnsupportedError(f"a {form} does not go to the terminal: name a file with -o FILE.{form}")
    chosen = find_family(family)
    attends = family == "attention"
    if "k" not in chosen.asks and not attends:
        products = ", ".join(name for name, other in FAMILIES.items() if "k" in other.asks)
        raise UnsupportedError(
            f"{family} is not a matrix product: {products} have a main loop over k, attention over keys"
        )
    Most.PARTS.integer(tiles, "tiles along k")
    with progress(f"following {family}"):
        side: Any = (1, 1, 1, 128) if attends else SIDE
        problem = chosen.problem(side) if dtype is None else chosen.problem(side, dtype=dtype)
        name, config = find_config(chosen, problem, arch, step, tile)
        sequence = chosen.launches(problem, config, arch)
        scalars = {**dict(sequence.scalars), **chosen.scalars(problem)}
        scalars |= {"n": tiles * config.keys} if attends else {"k": tiles * config.tile_k}
        kernel = sequence.kernels[0]
        line: Timeline | RoleTimeline
        if attends:
            line = role_timeline(kernel, scalars | {"m": config.rows})
        elif any(isinstance(s, Roles) for s in kernel.body):
            high, wide = config.tile_m * config.cluster_m, config.tile_n * config.cluster_n
            line = role_timeline(kernel, scalars | {"m": high, "n": wide})
        else:
            line = timeline(kernel, scalars)
    picture = line.picture()
    if form != "text":
        content = as_file(picture, form)
    else:
        printed = output is None and not wants_json()
        boxes = not ascii_only and (not printed or "utf" in (sys.stdout.encoding or "").lower())
        content = (as_text(picture, width=PAGE, unicode=boxes) + "\n").encode()
    if output is not None:
        write_whole(output, content)
    if wants_json():
        of = family, line.kernel, name, chosen.way(config)
        written = None if output is None else str(output)
        if isinstance(line, Timeline):
            say_answer(PipelineAnswer(*of, tuple(line.steps), tuple(line.rows), _uses(line), None, written))
        else:
            say_answer(PipelineAnswer(*of, (), (), (), _roles(line), written))
    elif output is not None:
        length = (
            f"{len(line.steps)} steps" if isinstance(line, Timeline) else f"{len(line.rows)} rows of warps"
        )
        print(printable(f"wrote {output} ({form}, {length})"))
    else:
        sys.stdout.write(content.decode())


def _uses(line: Timeline) -> tuple[PlaceUse, ...]:
    """The tiles that places hold."""
    return tuple(taken(PlaceUse, use, place=row, step=n) for (row, n), use in line.uses.items())


def _roles(line: RoleTimeline) -> tuple[RoleTurns, ...]:
    """The work of warps by roles."""
    return tuple(
        RoleTurns(
            name,
            tuple(turn.text for turn in turns),
            {barrier: n for (warps, barrier), n in line.waited.items() if warps == name},
        )
        for name, turns in line.rows
    )
