"""What random calls answer on this tree and on an older one: equal, spelled otherwise, or different.

    python tests/bench/bench_against.py                                    what is not committed changes
    python tests/bench/bench_against.py --base 123e0d5 --seed 14 --cases 100000
    python tests/bench/bench_against.py --base 123e0d5 --seed 14 --cases 300 --kind cuda

The idea.  A call is a text, drawn from a seed by tests/draws/random_calls.py, which knows no layoutalg.  Two
processes, each with one tree first on its path, draw the same texts and evaluate them, and what they answer
is compared as text, errors by their class.  The older tree is taken from the history into build/base-REV.

    equal        the same text: a value's repr, a record's fields, an error's class and sentence
    spelled      the same function of the same modes, its swizzles written otherwise
    sentence     an error of the same class with another sentence
    more         an answer where the older tree was undecided, took no such operand or had no such name
    slow         one of the two took longer than SECONDS
    different    anything else: the exit code is 1

Records are compared by the fields that both trees give them.  Differences are printed grouped by function.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import random
import re
import signal
import subprocess
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 20.0
"""What one call may take."""

ROOMS = (
    *(
        "",
        ".decide",
        ".algebra",
        ".compose",
        ".ops",
        ".analysis",
        ".legality",
        ".model",
        ".symbolic",
        ".registers",
        ".synthesis",
        ".draw",
        ".arch",
    ),
    *(
        ".f2",
        ".layout",
        ".notation",
        ".notation.index_text",
        ".reading",
        ".index_text",
        ".f2.matrix",
        ".codegen.gpu.cuda",
    ),
)
"""Where names are looked for, in turn."""


# --- one of the two processes ----------------------------------------------------------------------------


class TooLong(BaseException):
    """A call was interrupted."""


class Refused(Exception):
    """A command said no, in JSON: exit code, class and sentence."""


class Names(dict[str, Any]):
    """The names of a call on either tree."""

    def __init__(self) -> None:
        super().__init__(call=call, linear=linear, command=command)
        self |= {"relayout_cuda": relayout_cuda, "numbers": numbers}
        self["analyze"] = import_module("layoutalg.analysis").analyze
        self["array"] = import_module("numpy").array
        sympy = import_module("sympy")
        f2 = import_module("layoutalg.f2")
        bits = "rank kernel basis solve contains intersection complement multiply apply"
        self |= {f"f2_{name}": getattr(f2, name) for name in bits.split()}
        self |= {name: sympy.Symbol(name, integer=True, positive=True) for name in ("n", "m", "ld")}

    def __missing__(self, name: str) -> Any:
        for room in ROOMS:
            try:
                found = getattr(import_module(f"layoutalg{room}"), name)
            except (AttributeError, ModuleNotFoundError):
                continue
            self[name] = found
            return found
        raise KeyError(name)


def call(function: Any, *operands: Any) -> Any:
    """The value of a layout or a swizzle."""
    return function(*operands)


def linear(name: str, first: Any, *rest: Any) -> Any:
    """A method of LinearLayout."""
    return getattr(type(first), "__mul__" if name == "product" else name)(first, *rest)


def command(*words: str) -> tuple[Any, ...]:
    """Exit code and both outputs of a command; Refused where its JSON names an error."""
    from layoutalg.cli import main

    out, err = io.StringIO(), io.StringIO()
    argv, sys.argv = sys.argv, ["layoutalg", *words]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
    except SystemExit as end:
        code = end.code
    finally:
        sys.argv = argv
    if words[-1] == "--json" and "error" in (said := json.loads(out.getvalue())):
        raise Refused(code, said["error"], said["message"])
    return code, out.getvalue(), err.getvalue()


def numbers(*shape: int) -> Any:
    """An array of that shape."""
    import numpy

    return (numpy.arange(numpy.prod(shape)) % 17).reshape(shape).astype("f4")


def relayout_cuda(src: Any, dst: Any, dtype: str, plan: int, arch: str) -> str:
    """The kernel of a plan that moves one layout to another."""
    from layoutalg import cosize
    from layoutalg.codegen.gpu import to_cuda
    from layoutalg.kernels.move.permute import build
    from layoutalg.kernels.move.plan import configs
    from layoutalg.kernels.move.problem import normalise, relayout_problem

    moves = normalise(relayout_problem(src, dst, dtype, (cosize(src), cosize(dst))))
    plans = configs(moves, arch)
    return to_cuda(build(moves, plans[plan % len(plans)]), arch)


def shown(value: Any) -> Any:
    """A value as JSON: records by their fields, linear layouts by their columns, else the repr."""
    name = type(value).__name__
    if name == "LinearLayout":
        return [name, value.in_bits, value.out_bits, repr(value.columns)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: shown(getattr(value, f.name)) for f in dataclasses.fields(value) if f.repr}
        return {"": name, **fields}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return [name, *map(shown, value)]
    if type(value) in {tuple, list}:
        return list(map(shown, value))
    if isinstance(value, Mapping):
        return {str(k): shown(v) for k, v in value.items()}
    return str(value) if isinstance(value, str) else repr(value)


def interrupted(*_: object) -> None:
    raise TooLong


def serve(tree: str, seed: str, cases: str, kinds: str) -> None:
    """One line of JSON per call: the call, how it ended, and what came out."""
    sys.path.insert(0, tree)
    # An editable install would find in its own tree the modules that this one lacks.
    sys.meta_path[:] = [f for f in sys.meta_path if "editable" not in str(getattr(f, "__module__", ""))]
    import layoutalg

    if not Path(layoutalg.__file__).is_relative_to(tree):
        raise SystemExit(f"layoutalg is imported from {layoutalg.__file__}, not from {tree}")
    sys.path.append(str(ROOT))
    calls = import_module("tests.draws.random_calls")
    warnings.simplefilter("ignore")
    names = Names()
    signal.signal(signal.SIGALRM, interrupted)
    for n in range(int(cases)):
        text = calls.draw(random.Random(f"{seed} {n}"), kinds.split())
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        try:
            out = ["answer", shown(eval(text, {}, names))]  # noqa: S307  # what random_calls wrote
        except TooLong:
            out = ["slow", ""]
        except Refused as error:
            out = [f"exit {error.args[0]} {error.args[1]}", error.args[2]]
        except KeyError as error:
            out = ["no name" if error.args and error.args[0] not in names else "KeyError", str(error)]
        except Exception as error:  # noqa: BLE001  # whatever it is, it is compared
            out = [type(error).__name__, str(error)]
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        print(json.dumps([text, *out]), flush=True)


# --- the comparison --------------------------------------------------------------------------------------


class Pair(NamedTuple):
    """A call and how it ended on the older tree and on this one: (how, what)."""

    text: str
    then: tuple[str, Any]
    now: tuple[str, Any]


def answers(tree: Path, words: list[str]) -> Iterator[tuple[str, str, Any]]:
    """What a process of a tree prints."""
    run = [sys.executable, str(Path(__file__)), "serve", str(tree), *words]
    with subprocess.Popen(run, stdout=subprocess.PIPE, text=True, cwd=tree) as process:
        try:
            for line in process.stdout or ():
                text, how, what = json.loads(line)
                yield text, how, what
        finally:
            process.kill()


def same_layouts(then: Any, now: Any) -> bool:
    """Whether two answers are swizzled layouts of one shape that are the same function."""
    if not all(isinstance(text, str) and text.startswith("ComposedLayout(") for text in (then, now)):
        return False
    layoutalg = import_module("layoutalg")
    a, b = (eval(text, vars(layoutalg)) for text in (then, now))  # noqa: S307  # reprs of layouts
    return a.shape == b.shape and bool(layoutalg.same_function(a, b))


def common(then: Any, now: Any) -> tuple[Any, Any]:
    """Two answers without the fields that only one tree's record has."""
    if isinstance(then, dict) and isinstance(now, dict) and then.get("") == now.get("") is not None:
        pairs = {k: common(then[k], now[k]) for k in then if k in now}
        return {k: p[0] for k, p in pairs.items()}, {k: p[1] for k, p in pairs.items()}
    if isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        pairs_of = [common(a, b) for a, b in zip(then, now, strict=True)]
        return [a for a, _ in pairs_of], [b for _, b in pairs_of]
    return then, now


def verdict(pair: Pair) -> str:
    """One of the words of the module's text."""
    (how_then, then), (how_now, now) = pair.then, pair.now
    if "slow" in {how_then, how_now}:
        return "slow"
    if how_then == how_now:
        then, now = common(then, now)
        if then == now:
            return "equal"
        if how_now == "answer" and same_layouts(then, now):
            return "spelled"
        return "different" if how_now == "answer" else "sentence"
    new = how_then in {"UndecidedError", "ArgumentTypeError", "no name"} and how_now == "answer"
    return "more" if new else "different"


def group(pair: Pair) -> str:
    """The function that is called, and how it ended."""
    name = re.match(r"(?:linear|command)\('[\w-]+'|\w+", pair.text)
    return f"{name.group() if name else pair.text} {pair.then[0]} -> {pair.now[0]}"


def main(base: str, seed: int, cases: int, kinds: list[str], shown_of_each: int) -> int:
    """Print counts, and examples of what is not equal; 1 if anything is different."""
    from tests.bench.against import base_tree

    words = [str(seed), str(cases), " ".join(kinds)]
    counts, examples = Counter[str](), defaultdict[tuple[str, str], list[Pair]](list)
    ended: Counter[str] = Counter()
    with_both = zip(answers(base_tree(base), words), answers(ROOT, words), strict=True)
    for (text, *then), (again, *now) in with_both:
        assert text == again
        pair = Pair(text, (then[0], then[1]), (now[0], now[1]))
        found = verdict(pair)
        counts[found] += 1
        ended["answers" if now[0] == "answer" else "refusals"] += 1
        if found != "equal":
            examples[found, group(pair)].append(pair)
    for (found, what), pairs in sorted(examples.items()):
        print(f"{found}: {what}: {len(pairs)}")
        for pair in sorted(pairs, key=lambda p: len(p.text))[:shown_of_each]:
            before, after = (json.dumps(w)[:2000] for w in common(pair.then[1], pair.now[1]))
            print(f"    {pair.text}\n        then {before}\n        now  {after}")
    said = ", ".join(f"{n} {found}" for found, n in counts.most_common())
    print(f"{sum(counts.values())} calls ({dict(ended)}): {said}")
    return int(counts["different"] > 0 or sum(counts.values()) != cases)


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(*sys.argv[2:6])
        raise SystemExit
    sys.path.insert(0, str(ROOT))
    from tests.bench.options import options

    parser = options(__doc__, cases=2000)
    parser.add_argument("--base", default="HEAD", metavar="REV", help="the older tree")
    parser.add_argument("--kind", action="append", default=[], help="calls of this kind alone; repeats")
    parser.add_argument("--shown", type=int, default=2, help="examples of each group")
    asked = parser.parse_args()
    raise SystemExit(main(asked.base, asked.seed, asked.cases, asked.kind, asked.shown))
