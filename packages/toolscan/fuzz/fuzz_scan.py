# pyright: basic
"""Coverage-guided fuzzing of toolscan over the sources of modules.

    uv pip install atheris ./packages/toolscan
    python packages/toolscan/fuzz/fuzz_scan.py -max_total_time=600 [CORPUS_DIR] [libFuzzer options]

Every input is written to a file and read as a tool. Whatever it contains, `read_tool` must return a
record or raise `ToolScanError`, and a record must have valid JSON Schemas and a stub that parses.
Half of the mutations change the syntax tree, so that most inputs are modules rather than noise.
"""

# ruff: noqa: S101, S108, S301, S311, BLE001, E501, PT017  (a fuzz harness asserts and catches)

from __future__ import annotations

import ast
import copy
import json
import pickle
import random
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["toolscan"]):  # pyright: ignore[reportAttributeAccessIssue]
    import toolscan
    import toolscan.__main__
    import toolscan._docstrings

SEEDS = [
    '''from __future__ import annotations
from enum import Enum, auto
from typing import Annotated, Any, Dict, List, Literal, Optional, Union
from pydantic import BaseModel, ConfigDict, Field, RootModel, conint, constr

class Mode(str, Enum):
    fast = "fast"
    slow = auto()

class Item(BaseModel):
    """An item."""
    kind: Literal["a", 1, None]
    parent: Optional[Item] = None

class Names(RootModel[List[str]]):
    root: List[str] = Field(..., min_length=1, title="names")

class Params(BaseModel):
    model_config = ConfigDict(extra="forbid", use_enum_values=True)
    mode: Mode = Mode.fast
    """
    How it is done.
    """
    size: Optional[conint(ge=1, le=9)] = Field(3, alias="sizeOf", description="How many")
    items: Dict[constr(pattern="^a"), Union[Item, Names, None]] = {}
    either: Annotated[Union[Item, Item], Field(discriminator="kind")]
    more: "list[Item] | None" = None

class Result(BaseModel):
    result: str

from . import CLIENT

def run(params: Params) -> Result:
    """Do a thing.

    Tags: one, two
    """
    return CLIENT.run_sync(tool_name="x")

async def run_parsed(params: Params) -> Result:
    """Run tool and return parsed structured data."""
''',
    '''import typing as t
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, NewType, TypedDict, TypeVar
T = TypeVar("T")
Id = NewType("Id", int)
__tags__ = ["x", "y" + "z"]
Alias = t.Union[int, t.List[t.Tuple[int, ...]]]
@dataclass
class D(Generic[T]):
    a: int
    b: list[T] = field(default_factory=list)
class TD(TypedDict, total=False):
    a: t.Required[Id]
class NT(NamedTuple):
    a: int = -1
if t.TYPE_CHECKING:
    def run(): ...
try:
    def run(a, b: D[int], /, c: Alias = (1, 2), *args: TD, d: NT = None, **kw: T) -> "D[str]":
        """Do it.

        Args:
            a: the first
            b (int): the second

        Use cases:
            - when needed
        """
except ImportError:
    pass
''',
    '''def run(x: int, y=1.5) -> None:
    """Numpy.

    Parameters
    ----------
    x : int
        The x.
    """
''',
    '# -*- coding: latin-1 -*-\ndef run(x):\n    """Sphinx.\n\n    :param x: the x \xe9\n    :type x: int\n    """\n',
]  # fmt: skip

FOLDER = Path(
    tempfile.mkdtemp(prefix="toolscan-fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
)
FILE = FOLDER / "mcptools" / "demo" / "thing.py"
FILE.parent.mkdir(parents=True)
POOL: dict[type, list[ast.AST]] = {ast.expr: [], ast.stmt: []}
for seed in SEEDS:
    for part in ast.walk(ast.parse(seed)):
        for kind, parts in POOL.items():
            if isinstance(part, kind):
                parts.append(part)


def one_input(data: bytes) -> None:
    """Read a module, and call everything that the package offers for it."""
    FILE.write_bytes(data)
    try:
        record = toolscan.read_tool(FILE, FOLDER)
    except toolscan.ToolScanError as error:
        assert error.issue.detail.encode()
        return
    json.dumps(toolscan.input_schema(record), allow_nan=False).encode()
    json.dumps(toolscan.output_schema(record), allow_nan=False).encode()
    toolscan.stub(record).encode()
    assert pickle.loads(pickle.dumps(record)) == record
    repr(record).encode()


def mutate(data: bytes, max_size: int, seed: int) -> bytes:
    """Change a module's tree if it parses, otherwise its bytes."""
    choice = random.Random(seed)
    if choice.random() < 0.5:
        try:
            changed = in_tree(ast.parse(data), choice).encode()
        except Exception:  # it does not parse or unparse: change its bytes
            return atheris.Mutate(data, max_size)
        if len(changed) <= max_size:
            return changed
    return atheris.Mutate(data, max_size)


def in_tree(tree: ast.Module, choice: random.Random) -> str:
    """Replace parts by parts of the seeds, or of the module itself."""
    for _ in range(choice.randint(1, 4)):
        places = [
            (node, name, index)
            for node in ast.walk(tree)
            for name, value in ast.iter_fields(node)
            for index, part in enumerate(value if isinstance(value, list) else [value])
            if isinstance(part, ast.expr | ast.stmt)
        ]
        node, name, index = choice.choice(places)
        value = getattr(node, name)
        old = value[index] if isinstance(value, list) else value
        kind = ast.expr if isinstance(old, ast.expr) else ast.stmt
        own = [part for part in ast.walk(tree) if isinstance(part, kind)]
        new = copy.deepcopy(choice.choice(choice.choice([own, POOL[kind]])))
        if not isinstance(value, list):
            setattr(node, name, new)
        elif choice.random() < 0.3 and kind is ast.stmt:
            value.insert(index, new)
        elif choice.random() < 0.2 and len(value) > 1 and kind is ast.stmt:
            del value[index]
        else:
            value[index] = new
    return ast.unparse(ast.parse(ast.unparse(tree)))


def main() -> None:
    """Run the fuzzer on a corpus that contains at least the seeds."""
    folders = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    if not folders:
        folders = [tempfile.mkdtemp(prefix="toolscan-corpus-")]
        sys.argv.append(folders[0])
    if Path(folders[0]).is_file():  # a single input, to reproduce a failure
        one_input(Path(folders[0]).read_bytes())
        return
    Path(folders[0]).mkdir(parents=True, exist_ok=True)
    for number, text in enumerate(SEEDS):
        (Path(folders[0]) / f"seed{number}").write_bytes(
            text.encode("latin-1" if number == 3 else "utf-8")
        )
    atheris.Setup(sys.argv, one_input, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
