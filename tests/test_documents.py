"""Documents tell the truth: transcripts are run, links lead somewhere, faces lead to what is asked for."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.documents import BLOCK, DOCUMENTS, ROOT, as_run, blocks
from tests.stand_ins.engines import lasting_engines

TEXTS = [*DOCUMENTS, *(ROOT / f"{name}.md" for name in ("DESIGN", "CONTRIBUTING", "CHANGELOG"))]
ROOMS = [
    face.parent
    for face in sorted((ROOT / "layoutalg").rglob("__init__.py"))
    if not {"codegen", "kernels"} & set(face.parts)
]


LONG = (
    "analysis coming_from faq first_session hopper index_code jobs kernel_language kernel_reading kernels "
    "learn published synthesis timing tuning"
)
"""Pages that take long."""


@pytest.mark.deep(only=tuple(LONG.split()))
@pytest.mark.parametrize("path", [p for p in DOCUMENTS if blocks(p)], ids=lambda p: p.stem)
def test_what_a_document_shows_is_what_happens(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with lasting_engines():
        now = as_run(path)
    assert now.splitlines() == path.read_text(encoding="utf-8").splitlines()


def modules_of(extras: Iterable[str]) -> set[str]:
    """The modules that the requirements of some extras bring, and those of the extras that these name."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    known: Mapping[str, list[str]] = listed["optional-dependencies"]
    wheels, waiting = set[str](), list(extras)
    while waiting:
        for asked in known[waiting.pop()]:
            name = re.match(r"[\w-]+", asked)
            assert name is not None
            inner = re.search(r"\[(.*)\]", asked)
            if name[0] == "layoutalg" and inner is not None:
                waiting += inner[1].split(",")
            else:
                wheels.add(name[0])
    return {module for module, owners in packages_distributions().items() if wheels & set(owners)}


@pytest.mark.deep
def test_the_first_page_needs_the_extra_all_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The extra `all` is enough: what others bring is absent, but for what runs tests."""
    path = ROOT / "docs" / "first_session.md"
    assert 'pip install ".[all]"' in path.read_text(encoding="utf-8")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    others = modules_of(set(extras["optional-dependencies"]) - {"test", "dev"}) - modules_of(["all"])
    for module in others:
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.chdir(tmp_path)
    assert as_run(path).splitlines() == path.read_text(encoding="utf-8").splitlines()


def _anchors(path: Path) -> set[str]:
    """The names by which headings of a document can be linked to."""
    heads = re.findall(r"^#+ (.*)$", BLOCK.sub("", path.read_text(encoding="utf-8")), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_no_block_shows_what_only_a_mistake_of_its_own_prints() -> None:
    """A name that a session did not define, and a comment of a program that is not printed."""
    mistakes = re.compile(r"NameError: name '|^# not printed: ", re.M)
    assert not [path for path in DOCUMENTS if mistakes.search(path.read_text(encoding="utf-8"))]


def test_links_lead_to_files_and_headings() -> None:
    wrong = []
    for path in TEXTS:
        for link in re.findall(r"\]\(([^)\s]+)\)", BLOCK.sub("", path.read_text(encoding="utf-8"))):
            if link.startswith("http"):
                continue
            name, _, anchor = link.partition("#")
            to = path.parent / name if name else path
            if not to.exists() or (anchor and anchor not in _anchors(to)):
                wrong.append(f"{path.name}: {link}")
    assert not wrong, wrong


def test_files_that_documents_name_exist() -> None:
    """`XX` stands for a number; CHANGELOG speaks of the past too."""
    wrong = []
    for path in TEXTS:
        text = path.read_text(encoding="utf-8")
        named = re.findall(
            r"((?:layoutalg|codegen|kernels|tests|docs|examples)/[\w./*]+\.(?:py|md|jsonl?|svg))\b", text
        )
        for name in re.findall(r"python -m (tests\.[\w.]+)", text):
            named.append(name.replace(".", "/") + ".py")
        wrong += [
            f"{path.name}: {name}"
            for name in named
            if "XX" not in name and path.stem != "CHANGELOG" and not list(ROOT.glob(name))
        ]
    assert not wrong, wrong


def test_each_room_has_one_note() -> None:
    """Headings name the rooms, the drawing is the contract `rooms`, and the page stays one that is read."""
    text = (ROOT / "DESIGN.md").read_text(encoding="utf-8")
    heads = re.findall(r"^## (.*)$", text, re.M)
    named = [name for head in heads for name in re.split(r", | and ", head)]
    top = [face.parent.name for face in (ROOT / "layoutalg").glob("*/__init__.py")]
    inner = [
        f"{part}/{f.parent.name}"
        for part in ("codegen", "kernels")
        for f in ROOT.glob(f"{part}/*/__init__.py")
    ]
    assert sorted(named) == sorted({"The house", "tests", *top, *inner} - {"codegen"})
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (layers,) = [c["layers"] for c in contracts["contracts"] if c["id"] == "rooms"]
    drawing = "\n".join(re.findall(r"^    (.*)$", text.partition("\n## ")[0], re.M))
    assert re.split(r", |\n", drawing) == layers
    assert len(text.splitlines()) <= 400 and max(map(len, text.splitlines())) <= 120


# --- jobs, and what is asked for ----------------------------------------------------------------------------


def test_each_job_is_done_below_its_heading() -> None:
    """The headings are numbered, and under each a command or a session is run."""
    text = (ROOT / "docs" / "jobs.md").read_text(encoding="utf-8")
    parts = re.split(r"^### ", text, flags=re.M)[1:]
    assert len(parts) >= 60
    assert [int(part.partition(".")[0]) for part in parts] == list(range(1, len(parts) + 1))
    silent = [
        part.partition("\n")[0] for part in parts if not re.search(r"^```(console|pycon)\n", part, re.M)
    ]
    assert not silent, silent


def test_each_thread_is_answered_or_the_table_says_why_not() -> None:
    """A row links to one thread; what it names as its answer is run below its table."""
    text = (ROOT / "docs" / "faq.md").read_text(encoding="utf-8")
    threads: list[str] = []
    wrong = []
    for part in re.split(r"^## ", text, flags=re.M)[1:]:
        run = "".join(body for _, body in BLOCK.findall(part))
        for thread, place, answer in re.findall(r"^\| \[(\S+)\]\((\S+)\) \| .+ \| (.+) \|$", part, re.M):
            threads.append(thread)
            if not re.fullmatch(
                rf"https://github.com/[\w-]+/[\w-]+/issues/{thread.partition('#')[2]}", place
            ):
                wrong.append(f"{thread}: {place}")
            named = re.findall(r"`(?:layoutalg )?(\w+)", answer)
            if not named and not re.match(r"not answered: \w|as for \S+#\d+$|the choice depends", answer):
                wrong.append(f"{thread}: {answer}")
            wrong += [f"{thread}: {name} is not run" for name in named if name not in run]
    assert not wrong, wrong
    assert len(threads) == len(set(threads)) >= 40


# --- where things are --------------------------------------------------------------------------------------


def _face(path: Path) -> str:
    """The text of a package's `__init__.py`, each run of blanks as one."""
    text = ast.get_docstring(ast.parse((path / "__init__.py").read_text(encoding="utf-8")))
    return " ".join((text or "").split())


def _defined(path: Path) -> set[str]:
    """The names that a file defines at its top level."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def test_each_question_is_answered_by_the_texts_of_the_faces() -> None:
    """`layoutalg` names the room, the room the next one or the file, and the file defines the name."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    questions = re.findall(r"^### (.*\?)\n\n((?:- .*\n)+)", text, re.M)
    assert len(questions) >= 10
    wrong = []
    for question, steps in questions:
        texts = re.findall(r'^- `([\w.]+)`: "(.*)"$', steps, re.M)
        ((file, name),) = re.findall(r"^- `([\w/]+\.py)`: `(\w+)`$", steps, re.M)
        parts = Path(file).with_suffix("").parts
        assert len(texts) == len(parts) - 1 == steps.count("\n") - 1, question
        for depth, (module, said) in enumerate(texts):
            if module != ".".join(parts[: depth + 1]):
                wrong.append(f"{question} {module} is not on the way to {file}")
            text = _face(ROOT / Path(*parts[: depth + 1]))
            if " ".join(said.split()) not in text or not re.search(rf"\b{parts[depth + 1]}\b", text):
                wrong.append(f"{question} {module} does not say {said!r}")
        if name not in _defined(ROOT / file):
            wrong.append(f"{question} {file} does not define {name}")
    assert not wrong, wrong


def test_the_text_of_a_face_names_every_file_of_its_room() -> None:
    wrong = []
    for room in ROOMS:
        text = _face(room)
        held = [path.stem for path in room.glob("*.py") if not path.stem.startswith("__")]
        held += [path.name for path in room.iterdir() if (path / "__init__.py").exists()]
        wrong += [f"{room.name}: {name}" for name in held if not re.search(rf"(?<![\w.]){name}\b", text)]
    assert not wrong, wrong
