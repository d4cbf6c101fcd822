"""Headline figures: one file, docs/figures.json, from which README and pages of docs/ are printed in part.

    python -m tests.docs.pages                  writes the regions anew; then read the diff
    python -m tests.docs.figures OUT.json ...   the same behind what tests.gpu.everyday_products wrote

A region of a document stands between `<!-- figures: NAME -->` and `<!-- end of figures -->`.  A figure whose
single measurements stand in a table of docs/measured.md names its lines by a pattern; a test computes the
figure from them.  `products_drawn` is replaced as a whole when its classes are timed again, the cases
of all seeds together.
"""

from __future__ import annotations

import json
import math
import re
import statistics
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from layoutalg.kernels.ladder import PUBLISHED
from tests.docs import tables
from tests.docs.tables import section, table
from tests.documents import ROOT

DATA = ROOT / "docs" / "figures.json"
ALONE = "F.linear without what is added"
"""A bound, not a contender: in docs/measured.md only."""

REGION = re.compile(r"(<!-- figures: ([\w-]+) -->\n)(.*?)(<!-- end of figures -->)", re.S)
WIDTH = 120


@cache
def data() -> dict[str, Any]:
    """The file of figures."""
    loaded: dict[str, Any] = json.loads(DATA.read_text(encoding="utf-8"))
    return loaded


def figure(name: str) -> Mapping[str, Any]:
    """A headline figure with the device, date, seed and command of its run."""
    found = data()["figures"][name]
    return {**data()["runs"][found["run"]], **found}


def ratio(value: float) -> str:
    """A number with two decimals, or three where the third is not 0."""
    return re.sub(r"0$", "", f"{value:.3f}")


# --- figures that stand in a table --------------------------------------------------------------------------


@dataclass(frozen=True)
class Computed:
    """Statistics of the lines of a table that a figure names."""

    mean: float
    least: float
    least_case: str
    greatest: float
    cases: int


def computed(name: str) -> Computed:
    """A figure from its table: `value`, or `over` divided by `under`, of each line that is matched."""
    of = figure(name)
    lines = re.finditer(of["lines"], section(of["section"]), re.M)
    rows = [(_value(line.groupdict()), line["case"].replace(" | ", " ")) for line in lines]
    values = [value for value, _ in rows]
    least, case = min(rows)
    mean = math.exp(statistics.fmean(map(math.log, values)))
    return Computed(round(mean, 3), round(least, 3), case, round(max(values), 3), len(rows))


def _value(groups: Mapping[str, str | None]) -> float:
    def number(key: str) -> float:
        return float((groups[key] or "").replace(",", ""))

    return number("value") if groups.get("value") else number("over") / number("under")


# --- words and tables ---------------------------------------------------------------------------------------


def filled(text: str) -> str:
    """A paragraph, broken into lines."""
    return textwrap.fill(" ".join(text.split()), WIDTH, break_long_words=False, break_on_hyphens=False) + "\n"


def link(run: Mapping[str, Any], text: str, page: str = "measured.md") -> str:
    """The text, linked to the section of docs/measured.md that has the measurements."""
    anchor = re.sub(r"[^\w\- ]", "", run["section"].lower()).replace(" ", "-")
    return f"[{text}]({page}#{anchor})"


def _run(run: Mapping[str, Any]) -> str:
    """Device, date and command."""
    command = f"`{run['command']}`" if run["command"] else "command not recorded"
    seed = f", seed {run['seed']}" if run.get("seed") is not None else ""
    return f"{run['device']}, {run['date']}{seed}, {command}"


# --- README -------------------------------------------------------------------------------------------------

FRONT = ("counts", "closed-forms", "algebra-wrong")


def numbers() -> str:
    """The figures of the front page with their commands."""
    rows = []
    for name in FRONT:
        of = figure(name)
        value, more = _headline(name, of)
        what = link(of, of["what"], "docs/measured.md")
        rows.append([value, f"{what}{more}", f"{of['device']}, {of['date']}", f"`{of['command']}`"])
    return table(("number", "what it is", "measured", "how to reproduce it"), rows)


def _headline(name: str, of: Mapping[str, Any]) -> tuple[str, str]:
    """The number, and what is said of it behind its name."""
    if name == "algebra-wrong":
        judged = data()["algebra_judged"]
        sides = zip(*judged["rows"].values(), strict=True)
        wrong = [[counts[0] for counts in side if counts is not None] for side in sides]
        others = zip(judged["columns"][1:], wrong[1:], strict=True)
        most = ", ".join(f"{who} has {min(counts):,} to {max(counts):,}" for who, counts in others)
        return of["text"], f" per operation of the algebra; {most}"
    return of["text"], of["more"]


GROUPS = (
    "bf16-squares", "bf16-4096-rows", "bf16-128-rows", "bf16-1-row", "bf16-odd-aligned", "bf16-odd-unaligned",
)  # fmt: skip


def _mean_least(of: Mapping[str, Any]) -> list[str]:
    return [str(of["cases"]), ratio(of["mean"]), f"{ratio(of['least'])} ({of['least_case']})"]


def drawn_short() -> str:
    """Drawn products, some classes per line, how many of them are slower, and their run."""
    of = data()["products_drawn"]
    rows = [row for row in of["rows"] if row["compared_with"] != ALONE]
    timed = [row["mean"] for row in rows if row["mean"] is not None]
    slower = f"{sum(mean < 1 for mean in timed)} of {len(timed)} classes are slower in the geometric mean."
    cells = _beside([[row["class"], _drawn_cell(row)] for row in rows], "class")
    return f"{cells}\n{filled(f'{slower} {_run(of)}.')}"


def _beside(cells: list[list[str]], what: str, across: int = 3) -> str:
    """A table of names with their means and leasts, `across` of them per line."""
    height = -(-len(cells) // across)
    cells = [*cells, *[["", ""]] * (height * across - len(cells))]
    lines = [[text for cell in cells[i::height] for text in cell] for i in range(height)]
    return table((what, "mean (least)") * across, lines)


def _drawn_cell(row: Mapping[str, Any]) -> str:
    return "refused" if row["mean"] is None else f"{ratio(row['mean'])} ({ratio(row['least'])})"


# --- docs/measured.md ---------------------------------------------------------------------------------------


def drawn() -> str:
    """Drawn products with what they are compared with."""
    of = data()["products_drawn"]
    rows = [
        [
            row["class"], _or(row["drawn"], "-"), _or(row["compared_with"], "not recorded"),
            "refused" if row["mean"] is None else ratio(row["mean"]),
            "-" if row["least"] is None else ratio(row["least"]),
            "-" if row["mean"] is None else _or(row["least_case"], "not recorded"),
        ]
        for row in of["rows"]
    ]  # fmt: skip
    head = ("class", "drawn", "compared with", "geometric mean", "least", "least case")
    return f"{filled(_run(of) + ':')}\n{table(head, rows)}"


def _or(value: object, otherwise: str) -> str:
    return otherwise if value is None else str(value)


def f32_summary() -> str:
    """The statement beside the table of f32 products."""
    of = figure("f32")
    return filled(
        f"TFLOP/s. Over the {of['cases']} sizes from 2048 to 8192 the geometric mean is {ratio(of['mean'])} "
        f"of cuBLAS, the least {ratio(of['least'])} ({of['least_case']}), the best {ratio(of['greatest'])}."
    )


def bf16_summary() -> str:
    """The statement beside the table of bf16 products."""
    each = [
        f"{figure(name)['what']} {ratio(figure(name)['mean'])} (least {ratio(figure(name)['least'])})"
        for name in GROUPS
    ]
    return filled(f"In the geometric mean of the faster of both: {'; '.join(each)}.")


def permute_summary() -> str:
    """The statement beside the table of permutes."""
    copy, torch = figure("permutes-copy"), figure("permutes-pytorch")
    return filled(
        f"GB/s read and written; cases drawn with seed {copy['seed']}. {copy['cases']} cases: "
        f"{ratio(copy['mean'])} of the copy (least {ratio(copy['least'])}, {copy['least_case']}) and "
        f"{ratio(torch['mean'])} times PyTorch (least {ratio(torch['least'])}, {torch['least_case']}) in the "
        "geometric mean."
    )


def judged() -> str:
    """Answers of the algebra: wrong, refused without need, right."""
    of = data()["algebra_judged"]
    rows = [[f"`{name}`", *map(_counts, sides)] for name, sides in of["rows"].items()]
    return table(("operation", *of["columns"]), rows)


def _counts(side: Sequence[int] | None) -> str:
    return "-" if side is None else " / ".join(f"{n:,}" for n in side)


def speed() -> str:
    """Microseconds of an operation, and the others' times as multiples of them."""
    of = data()["algebra_speed"]
    rows = [
        [f"`{name}`", f"{ours:.1f}", *map(_multiple, others)] for name, (ours, *others) in of["rows"].items()
    ]
    return table(("operation", *of["columns"]), rows)


def _multiple(pair: Sequence[float] | None) -> str:
    return "-" if pair is None else f"{pair[0]:.2f} ({pair[1]:.2f})"


def speed_summary() -> str:
    """The statement below the table of speeds."""
    of = data()["algebra_speed"]
    (pycute, least), (other, low) = of["all"]
    return filled(
        f"Over all operations except construction, which checks its operands here: {pycute} times pycute's "
        f"speed (least {least}: {of['all_least'][0]}) and {other} times tensor-layouts' (least {low}: "
        f"{of['all_least'][1]}). {of['device']}, {of['date']}."
    )


def analyses() -> str:
    """Milliseconds of an analysis by the size of the tile."""
    of = data()["analysis_speed"]
    rows = [[name, *(f"{ms:.2f}" for ms in times), method] for name, (*times, method) in of["rows"].items()]
    head = ("access", "2^13 elements", "2^20", "2^30", "2^40", "method")
    tile, moved = figure("tile-conflicts"), figure("tile-coalescing")
    return f"{table(head, rows)}\n" + filled(
        f"The 128 x 64 f16 tile with 256 threads of 32 values: {tile['ours']:.2f} ms against "
        f"{tile['theirs']} ms of {tile['compared_with']} for bank conflicts, {moved['ours']:.2f} ms against "
        f"{moved['theirs']} ms for coalescing. {tile['device']}, least of 30 runs, {tile['date']}; "
        f"`{tile['command']}` repeats it."
    )


def quack() -> str:
    """Norms beside QuACK."""
    return _libraries("quack", "256 to 524,288 columns")


def cutensor() -> str:
    """Permutes beside cuTENSOR."""
    return _libraries("cutensor", "type")


def _libraries(name: str, first: str) -> str:
    head = (first, "cases", "theirs / ours", "least", "share of a copy, ours and theirs")
    return table(head, [(row["what"], *_beside_library(row)) for row in data()[name]["rows"]])


def _beside_library(row: Mapping[str, Any]) -> tuple[object, ...]:
    return row["cases"], ratio(row["mean"]), ratio(row["least"]), ", ".join(map(ratio, row["shares"]))


# --- docs/comparison.md -------------------------------------------------------------------------------------

KERNELS = (
    "transpose", "permutes-copy", "permutes-pytorch", "f32", *GROUPS, "long-rows", "long-rows-bf16",
    "columns-f32", "columns-bf16", "losses-compile", "losses-eager", "host-product", "host-softmax",
)  # fmt: skip


def kernels() -> str:
    """Kernels beside what they are compared with."""
    rows = []
    for name in KERNELS:
        of = figure(name)
        cases, mean, least = _mean_least(of)
        what = link(of, of.get("kernel", of["what"]))
        rows.append((what, of["compared_with"], cases, mean, least if of["cases"] > 1 else "-"))
    return table(("", "relative to", "cases", "geometric mean", "least"), rows)


def counts() -> str:
    """Counts compared with those of Nsight Compute."""
    single, drawn = figure("counts"), figure("layouts")
    return filled(
        f"Of single instructions {link(single, single['text'] + ' ' + single['what'])} and of random layouts "
        f"{link(drawn, drawn['text'] + ' accesses')} agree with Nsight Compute on an {drawn['device']}."
    )


def executed(row: Mapping[str, Any]) -> float:
    """Millions of instructions that a launch at 4096 x 4096 x 4096 executes: those of each loop in a turn of
    the main loop, as often as it turns there, and those outside."""
    turn = sum(turns * instructions for turns, instructions in row["tile"])
    return float((turn * row["turns"] + row["outside"]) * row["warps"] / 1e6)


def published_hgemm() -> str:
    """Registers and executed instructions of the published tensor-core kernels: docs/published.md."""
    of = data()["published_hgemm"]
    rows = []
    for row in of["rows"]:
        tile = " + ".join(f"{turns} x {n}" if turns > 1 else f"{n}" for turns, n in row["tile"])
        registers = row["registers"], _or(row["published_registers"], "-")
        rows.append((row["kernel"], *registers, tile, f"{executed(row):.1f}", _or(row["published"], "-")))
    per_tile = "instructions per tile of k"
    head = ("kernel", "registers", "published", per_tile, "executed, millions", "published")
    where = f"at commit {of['commit']}, {of['compiler']}, {of['date']}"
    run = f"[The sources]({of['source']}) {where}: `{of['command']}`."
    return f"{table(head, rows)}\n{filled(run)}"


def hgemm_gains() -> str:
    """The gains of two steps on an H200 beside those that are published for a T4."""
    rates = section("The steps of gemm-sm75, predicted and counted").split("| step | PTX of sm_75 |")[1]
    tflops = [float(rate) for rate in re.findall(r"^\| \d [^|]+\| ([\d.]+) \|", rates, re.M)]
    ours, theirs = ([x[1] / x[0], x[5] / x[4]] for x in (tflops, [*PUBLISHED.values()]))
    return filled(
        f"On an H200 the second step gains {ours[0]:.2f} and the sixth {ours[1]:.2f}, where {theirs[0]:.2f} "
        f"and {theirs[1]:.2f} are published for a T4 "
        "([measured](measured.md#the-steps-of-gemm-sm75-predicted-and-counted))."
    )


REGIONS: dict[str, Callable[[], str]] = {
    print_region.__name__.replace("_", "-"): print_region
    for print_region in (
        numbers, drawn_short, drawn, f32_summary, bf16_summary, permute_summary, judged, speed,
        speed_summary, analyses, quack, cutensor, kernels, counts, published_hgemm, hgemm_gains,
    )
}  # fmt: skip
"""Name of a region -> its text."""

DOCUMENTS = (
    ROOT / "README.md", ROOT / "docs" / "comparison.md", ROOT / "docs" / "published.md",
    ROOT / "docs" / "faq.md", ROOT / "docs" / "measured.md",
)  # fmt: skip


def printed(path: Path) -> str:
    """A document with its regions as the file of figures has them."""

    def again(found: re.Match[str]) -> str:
        return f"{found[1]}{REGIONS[found[2]]()}{found[4]}"

    return tables.printed(REGION.sub(again, path.read_text(encoding="utf-8")))


def write() -> None:
    """Write the regions of all documents."""
    for path in DOCUMENTS:
        path.write_text(printed(path), encoding="utf-8")


def with_products(text: str, runs: Sequence[Mapping[str, Any]]) -> str:
    """The file of figures with the products of these runs in place of those it has, a line per comparison."""
    from tests.gpu.everyday_products import CLASSES, summary

    of = json.loads(text)["products_drawn"]
    seeds = [str(run["seed"]) for run in runs]
    head = {
        "device": runs[0]["device"], "date": max(run["date"] for run in runs),
        "seed": " and ".join(filter(None, (", ".join(seeds[:-1]), seeds[-1]))),
        "command": of["command"], "section": of["section"],
    }  # fmt: skip
    cases = [row for run in runs for row in run["rows"]]
    lines = [
        json.dumps({**line, "mean": round(line["mean"], 3), "least": round(line["least"], 3)})
        for name, group in CLASSES.items()
        if (own := [row for row in cases if row["name"] == name])
        for line in summary(group, own)
    ]
    begin = text.index('  "products_drawn": ')
    end = text.index("\n  ]}", begin) + len("\n  ]}")
    rows = ",\n    ".join(lines)
    made = f'  "products_drawn": {json.dumps(head)[:-1]}, "rows": [\n    {rows}\n  ]}}'
    return text[:begin] + made + text[end:]


if __name__ == "__main__":
    runs = [json.loads(Path(path).read_text(encoding="utf-8")) for path in sys.argv[1:]]
    DATA.write_text(with_products(DATA.read_text(encoding="utf-8"), runs), encoding="utf-8")
    write()
