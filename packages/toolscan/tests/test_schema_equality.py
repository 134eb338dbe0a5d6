"""The static schemas mean the same as pydantic's: for cases, a generated corpus, and a tree."""

import contextlib
import importlib
import inspect
import json
import re
import sys
import types
import warnings

import pytest
import toolscan
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

# Deprecated spellings are still in use, and must be read.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

# Keywords that pydantic writes for bounds without a JSON Schema keyword for the type.
WITHOUT_MEANING = {"ge", "gt", "le", "lt", "multiple_of", "max_digits", "decimal_places"}


def difference(ours, theirs, source=""):
    """Return where two schemas differ in meaning; "" if they do not.

    The source is the module's, from whose class names pydantic generates titles.
    """
    their_root = {**theirs, "classes": set(re.findall(r"class (\w+)", source))}
    return _differ(ours, theirs, ours, their_root, "", set())


def _resolve(node, root):
    seen = []
    while "$ref" in node:
        reference = node["$ref"]
        seen.append(reference)
        siblings = {key: value for key, value in node.items() if key != "$ref"}
        node = {**root["$defs"][reference.removeprefix("#/$defs/")], **siblings}
        if len(seen) > 50:
            break
    return node, tuple(seen)


def _differ(ours, theirs, our_root, their_root, path, assumed):
    if isinstance(ours, bool) or isinstance(theirs, bool):
        return "" if ours == theirs else f"{path}: {ours} / {theirs}"
    # A string below a field describes it; pydantic shows the description of its class there.
    more = "$ref" in ours and "description" in ours and "description" not in theirs
    (ours, our_refs), (theirs, their_refs) = _resolve(ours, our_root), _resolve(theirs, their_root)
    if our_refs or their_refs:
        pair = (our_refs, their_refs, json.dumps(ours, sort_keys=True))
        if pair in assumed:
            return ""
        assumed = assumed | {pair}
    keys = (ours.keys() | theirs.keys()) - WITHOUT_MEANING - {"$defs"}
    for key in sorted(keys):
        where = f"{path}/{key}"
        if key in ("title", "description"):
            # Generated titles are left out, and there may be descriptions that pydantic does not see.
            if key == "title" and (key not in ours or theirs.get(key) in their_root["classes"]):
                continue
            if key == "description" and (more or key not in theirs):
                continue
            if ours.get(key) is None or ours[key].strip() != str(theirs.get(key)).strip():
                return f"{where}: {ours.get(key)!r} / {theirs.get(key)!r}"
            continue
        if key not in ours or key not in theirs:
            return f"{where}: {ours.get(key, 'absent')!r} / {theirs.get(key, 'absent')!r}"
        a, b = ours[key], theirs[key]
        if key in ("properties", "patternProperties"):
            if list(a) != list(b):
                return f"{where}: {list(a)} / {list(b)}"
            pairs = [(f"{where}/{name}", a[name], b[name]) for name in a]
        elif key in ("items", "additionalProperties", "propertyNames", "contentSchema"):
            pairs = [(where, a, b)]
        elif key in ("anyOf", "oneOf", "prefixItems"):
            if len(a) != len(b):
                return f"{where}: {a} / {b}"
            if key != "prefixItems":  # the order of choices is irrelevant
                b = _paired(a, b, our_root, their_root, assumed)
            pairs = [(f"{where}/{i}", x, y) for i, (x, y) in enumerate(zip(a, b, strict=True))]
        elif key == "discriminator":
            if a["propertyName"] != b["propertyName"] or a["mapping"].keys() != b["mapping"].keys():
                return f"{where}: {a} / {b}"
            pairs = []
        elif key in ("required", "enum"):

            def order(it):
                return (type(it).__name__, json.dumps(it))

            a, b = ({order(it) for it in side} for side in (a, b))
            if a != b:
                return f"{where}: {a} / {b}"
            pairs = []
        else:
            if a != b or (isinstance(a, bool) != isinstance(b, bool)):
                return f"{where}: {a!r} / {b!r}"
            pairs = []
        for at, x, y in pairs:
            if found := _differ(x, y, our_root, their_root, at, assumed):
                return found
    return ""


def _paired(ours, theirs, our_root, their_root, assumed):
    left, paired = list(theirs), []
    for one in ours:
        same = (it for it in left if not _differ(one, it, our_root, their_root, "", assumed))
        best = next(same, left[0])
        left.remove(best)
        paired.append(best)
    return paired


@contextlib.contextmanager
def executed(source):
    """Run a source as a separate module, which pydantic finds by its name."""
    module = types.ModuleType("toolscan_case")
    sys.modules[module.__name__] = module
    try:
        exec(compile(source, module.__name__, "exec", dont_inherit=True), module.__dict__)
        yield module
    finally:
        del sys.modules[module.__name__]


def of_pydantic(module, function):
    """Return pydantic's input and output schema of an entry point."""
    from pydantic import BaseModel, TypeAdapter

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        hints = inspect.get_annotations(function, eval_str=True)
        params = list(inspect.signature(function).parameters)
        held = hints.get(params[0]) if len(params) == 1 else None
        named = params == ["params"] or getattr(held, "__name__", "") == "Params"
        if named and isinstance(held, type) and issubclass(held, BaseModel):
            given = held.model_json_schema()
        else:
            given = TypeAdapter(function).json_schema()
        if "return" not in hints:
            return given, None
        adapter = TypeAdapter(hints["return"])
        adapter.rebuild(raise_errors=False, _types_namespace=vars(module))
        return given, adapter.json_schema()


def test_every_schema_of_a_given_tree_means_the_same_as_pydantics(request, monkeypatch):
    root = request.config.getoption("--tools-tree")
    if root is None:
        pytest.skip("no --tools-tree given")
    client = types.ModuleType("mcpygen.tool_exec.client")
    client.ToolRunner = lambda **_: None
    for name in ("mcpygen", "mcpygen.tool_exec"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, client.__name__, client)
    monkeypatch.syspath_prepend(str(root))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    compared, differences, broken = 0, [], []
    for record in toolscan.scan(root).records:
        try:
            module = importlib.import_module(record.path.removesuffix(".py").replace("/", "."))
            given, returned = of_pydantic(module, getattr(module, record.entrypoint))
        except Exception as error:  # noqa: BLE001  Python or pydantic refuses the module: nothing to compare
            broken.append(f"{record.path}: {error!r:.100}")
            continue
        compared += 1
        for ours, theirs, side in (
            (toolscan.input_schema(record), given, "input"),
            (toolscan.output_schema(record), returned, "output"),
        ):
            if (ours is None) != (theirs is None):
                differences.append(f"{record.path} {side}: only one has a schema")
            elif ours is not None and (found := difference(ours, theirs, record.definitions)):
                differences.append(f"{record.path} {side} {found}")
    print("\n".join(["", *(f"not importable: {it}" for it in broken), *differences]))
    print(f"{compared} tools, {2 * compared} schemas, {len(differences)} differ")
    assert differences == []


def compare(source, tool):
    """Return how the schemas of a module's source differ from pydantic's."""
    record = tool(source)
    with executed(source) as module:
        given, returned = of_pydantic(module, getattr(module, record.entrypoint))
    ours = toolscan.output_schema(record)
    assert (ours is None) == (returned is None)
    return difference(toolscan.input_schema(record), given, source) or (
        difference(ours, returned, source) if ours is not None else ""
    )


HEADER = """
import annotated_types as at
from typing import *
from pydantic import *
import collections, datetime, decimal, enum, ipaddress, os, pathlib, re, typing, uuid, fractions
import collections.abc as cabc
import dataclasses
import datetime as dt
from dataclasses import dataclass
from enum import Enum, IntEnum, StrEnum
from typing import Annotated as Ann, Optional as Opt
import pydantic
import pydantic.dataclasses
from typing_extensions import TypedDict  # pydantic refuses that of typing before Python 3.12
from pydantic import Field as F
from pydantic import alias_generators
from pydantic.alias_generators import to_camel, to_pascal

class E(enum.Enum):
    a = 1
    b = "x"
class E1(enum.Enum):
    "Only one."
    a = "only"
class IE(enum.IntEnum):
    a = 1
    b = enum.auto()
class SE(enum.StrEnum):
    A_B = enum.auto()
    c = "C"
class FL(enum.Flag):
    a = enum.auto()
    b = enum.auto()
class SM(str, enum.Enum):
    a = 1
    b = "2"
class Flt(float, enum.Enum):
    a = 1
class TU(enum.Enum):
    a = (1, 2)
    b = (2, 3)
class AU(enum.Enum):
    a = enum.auto()
    b = 5
    c = enum.auto()
    d = 5
    def method(self): ...
class M(BaseModel):
    x: int
class D(BaseModel):
    kind: Literal["d"]
class DD(BaseModel):
    kind: Literal["dd", "ddd"] = "dd"
class DE(BaseModel):
    kind: Literal[E1.a]
@dataclass
class DC:
    "A dataclass."
    a: int
    b: list[str] = dataclasses.field(default_factory=list)
    c: int = dataclasses.field(default=3)
    d: Annotated[int, Field(ge=1, alias="DD")] = 4
    e: int = Field(5, description="x")
    cv: ClassVar[int] = 3
@pydantic.dataclasses.dataclass
class PDC:
    a: int
class TD(TypedDict):
    "A typed dict."
    a: NotRequired[Annotated[int, Field(description="x")]]
    b: "str"
class TD2(TD, total=False):
    c: int
    d: Required[str]
class NT(NamedTuple):
    a: int
    b: str = "x"
class RM(RootModel[list[int]]):
    "A root."
class RM2(RootModel[M]):
    root: M = Field(..., title="tt", description="zz", examples=[1])
class RM3(RootModel[int]):
    root: Annotated[int, Field(ge=1)] = 4
T = TypeVar("T")
class Page(BaseModel, Generic[T]):
    "A page."
    items: list[T]
    first: Optional[T] = None
Ids = list[int]
Alias = Union[int, str]
Nested = Optional[Alias]
Pair = tuple[T, T]
Colours = Literal["red", "green"]
UserId = NewType("UserId", int)
LIMIT = 7
Name = Annotated[str, Field(min_length=1, description="a name")]
"""


def _words(text):
    return text.split()


ANNOTATIONS = _words("""
str int float bool bytes None Any object complex decimal.Decimal fractions.Fraction
datetime.datetime dt.date datetime.time datetime.timedelta uuid.UUID pathlib.Path os.PathLike[str]
ipaddress.IPv4Address ipaddress.IPv6Network ipaddress.IPv4Interface re.Pattern Pattern[str]
Hashable typing.Text AnyUrl HttpUrl AnyHttpUrl FileUrl FtpUrl WebsocketUrl AnyWebsocketUrl
PostgresDsn RedisDsn MongoDsn KafkaDsn NatsDsn AmqpDsn MySQLDsn MariaDBDsn ClickHouseDsn
SnowflakeDsn CockroachDsn IPvAnyAddress IPvAnyNetwork IPvAnyInterface SecretStr SecretBytes Json
Json[int] PositiveInt NegativeInt NonNegativeInt NonPositiveInt PositiveFloat NegativeFloat
NonNegativeFloat NonPositiveFloat FiniteFloat StrictStr StrictInt StrictBool StrictFloat
StrictBytes ByteSize FilePath DirectoryPath NewPath PastDate FutureDate PastDatetime
FutureDatetime AwareDatetime NaiveDatetime UUID1 UUID3 UUID4 UUID5 UUID6 UUID7 UUID8 Base64Bytes
Base64Str Base64UrlBytes Base64UrlStr ImportString list List list[int] List[int] set Set[int]
frozenset FrozenSet[int] tuple Tuple tuple[int,...] tuple[int,str] tuple[()] Sequence
Sequence[int] cabc.Sequence[int] MutableSequence[int] Iterable[int] Iterable
Generator[int,None,None] cabc.Set[int] AbstractSet[int] MutableSet[int] Deque[int]
collections.deque[int] dict Dict Dict[str,int] Dict[int,int] dict[str,Any] Mapping[str,int]
Mapping MutableMapping[str,int] DefaultDict[str,int] OrderedDict[str,int] typing.Counter[str]
collections.Counter collections.OrderedDict[str,int] Dict[E,int] Dict[Literal['a','b'],int]
Dict[constr(pattern='^a'),int] Dict[constr(min_length=1),int] Dict[uuid.UUID,int]
dict[datetime.date,int] Literal[1] Literal['a'] Literal['a',1,None] Literal[None] Literal[True,1]
Literal[E.a] Literal['a','b'] Literal[Literal['a'],'b'] Literal[-1] Colours Opt[Colours]
Literal[Colours,'blue'] E E1 IE SE FL SM Flt TU AU M DC PDC TD TD2 NT RM RM2 RM3 Opt[M] list[RM2]
Opt[E1] Optional[int] Union[int,str,None] Union[int,Optional[str]] Optional[Any] Union[int,int]
Union[Any,int] Union[List[int],List[int],None] Optional[None] int|str int|None None|int
int|str|None Optional[int|str] list[int]|None Ids Alias Nested Optional[Nested] UserId Name
Opt[Name] list[Name] Page[int] Page Page[Page[int]] Pair[int] list[Page[M]] 'M' "Optional['M']"
'list[M]|None' typing.List['M'] conint(ge=1,le=5,multiple_of=2) confloat(gt=1,lt=5)
constr(min_length=1,max_length=4,pattern='^a') conlist(int,min_length=1,max_length=3)
conlist(item_type=int,max_length=3) conset(int,min_length=1) confrozenset(int,max_length=2)
condecimal(gt=1,max_digits=3) conbytes(min_length=1) conint(le=LIMIT)
condate(gt=dt.date(2020,1,1)) Optional[conint(ge=-1)] List[constr(max_length=2)]
Annotated[Union[int,str],Field(min_length=2)] Annotated[Union[int,str],Field(ge=2)]
Annotated[Optional[Union[int,str]],Field(min_length=2)]
Annotated[Optional[List[int]],Field(min_length=2)] Annotated[Sequence[int],Field(min_length=2)]
Annotated[Iterable[int],Field(min_length=2)] Annotated[Any,Field(min_length=2)]
Annotated[Literal['a'],Field(min_length=1)] Annotated[M,Field(description='d')]
Annotated[Optional[int],Field(gt=2,description='d')]
Annotated[dt.date,Field(gt=dt.date(2020,1,1))] Annotated[HttpUrl,Field(max_length=5)]
Annotated[uuid.UUID,Field(min_length=1)] Annotated[decimal.Decimal,Field(ge=1,max_digits=4)]
Annotated[float,Field(multiple_of=0.5,allow_inf_nan=False)] Annotated[dict,Field(min_length=1)]
Annotated[tuple[int,str],Field(min_length=1)] Annotated[constr(min_length=1),Field(max_length=3)]
Annotated[conint(ge=1),Field(ge=3)] Annotated[int,at.Ge(2),at.Interval(le=4)]
Annotated[str,at.Len(1,3)] Annotated[int,at.Gt(2),at.Lt(9),at.Le(5),at.MultipleOf(2)]
Annotated[str,at.MaxLen(9)] Annotated[str,at.MinLen(1)]
Annotated[str,StringConstraints(min_length=1,to_lower=True,pattern='a')]
Annotated[Optional[str],StringConstraints(min_length=1)] Annotated[int,Field(strict=True)]
Annotated[List[Annotated[int,Field(ge=1,description='in')]],Field(max_length=3,title='T',examples=[[1]])]
Annotated[int,Field(deprecated=True,json_schema_extra={'k':1})]
Annotated[int,Field(deprecated='no')] Annotated[PositiveInt,Field(gt=5)]
List[Annotated[M,Field(description='x')]] Annotated[int,'said']
Annotated[Deque[int],Field(max_length=3)] Annotated[Mapping[str,int],Field(min_length=1)]
Annotated[float,Field(ge=float('inf'))] Annotated[str,WithJsonSchema({'type':'x'})]
Annotated[int,BeforeValidator(int)] Annotated[int,PlainValidator(int)] SkipValidation[int]
Annotated[Annotated[int,Field(ge=1)],Field(le=3)] Annotated[bytes,Field(max_length=3)]
Optional[Annotated[int,Field(ge=1)]] Ann[int,F(ge=1)] pydantic.conint(ge=3)
pydantic.types.PositiveInt Annotated[Union[D,DD],Field(discriminator='kind')]
Optional[Annotated[Union[D,DD],Discriminator('kind')]]
list[Annotated[D|DD,Field(discriminator='kind')]]
Annotated[Optional[Union[D,DD,DE]],Field(discriminator='kind')] SerializeAsAny[M]
list[OnErrorOmit[int]] RootModel[int] RootModel[list[M]] Final[int]
Annotated[str,Field(pattern='a',max_length=3)]
""")


@pytest.mark.parametrize("lazy", [False, True], ids=["eager", "future"])
@pytest.mark.parametrize("annotation", ANNOTATIONS)
def test_an_annotation_has_pydantics_schema(annotation, lazy, tool):
    source = (
        "from __future__ import annotations\n" * lazy
        + HEADER
        + (
            f"class Params(BaseModel):\n    value: {annotation}\n"
            f"def run(params: Params) -> {annotation}:\n    'Does it.'\n"
        )
    )
    assert compare(source, tool) == ""


# ruff: noqa: E501  (modules in one string each)
FIELDS = [
    "m: M = Field(M(x=1), description='d')",
    "e: E = E.a",
    "e: Opt[E1] = E1.a.value",
    "n: int = -3",
    "n: int = LIMIT",
    "f: float = 1.5",
    "t: tuple = (1, 'a')",
    "b: bytes = b'xx'",
    "s: set[int] = {3, 1}",
    "d: dict = {'a': [1, None], 2: True, None: 1, False: 2}",
    "l: list = Field(default_factory=list)",
    "l: list = Field(default=[1])",
    "x: int = Field(...)",
    "x: int = Field(default=...)",
    "x: int = ...",
    "x: Opt[int] = None",
    "x: Opt[int]",
    "x: Annotated[int, Field(3)]",
    "x: Annotated[int, Field(ge=1)] = Field(3, le=5, description='z')",
    "x: Annotated[int, Field(description='one'), Field(description='two', title='T')] = Field(5)",
    "x: Annotated[Opt[int], Field(ge=1)] = None",
    "x: Opt[Annotated[int, Field(ge=1, description='in')]] = Field(None, description='out')",
    "x: int = Field(alias='X')",
    "x: int = Field(validation_alias='X')",
    "x: int = Field(alias='A', validation_alias='X')",
    "x: int = Field(validation_alias=AliasChoices(AliasPath('a', 'b'), 'bb'))",
    "x: int = Field(validation_alias=AliasPath('a', 'b'))",
    "x: int = Field(serialization_alias='A')",
    "x: Annotated[int, Field(alias='X')] = 3",
    "u: Union[D, DD] = Field(discriminator='kind')",
    "u: Opt[Union[D, DD]] = Field(None, discriminator='kind', description='which')",
    "c: Opt[List[int]] = Field(None, min_length=1, max_length=2)",
    "c: Opt[Union[str, int]] = Field('a', max_length=2)",
    "model_config = ConfigDict(extra='forbid')\n    x: int",
    "model_config = {'extra': 'allow', 'title': 'Named'}\n    x: int",
    "model_config: ClassVar[ConfigDict] = ConfigDict(json_schema_extra={'z': 1})\n    x: int",
    "model_config = ConfigDict(str_max_length=5, str_min_length=1)\n    x: str\n    y: constr(max_length=2)",
    "model_config = ConfigDict(use_attribute_docstrings=True)\n    a: int\n    '''The a.'''",
    "model_config = ConfigDict(use_attribute_docstrings=True)\n    a: int = Field(description='b')\n    'c'",
    "'''A described class.\n\n    At length.\n    '''\n    x: int",
    "_hidden: int = PrivateAttr(3)\n    klass: ClassVar[int] = 1\n    fixed: Final[int] = 4\n    x: int",
    "pass",
    "x: 'Opt[Params]' = None",
    "children: 'list[Params]' = []",
    "class Inner(BaseModel):\n        y: int\n    x: Inner",
    "x: dict[str, 'Later']",
    "@field_validator('x')\n    @classmethod\n    def check(cls, value): return value\n    x: int = 3",
    "@computed_field\n    @property\n    def area(self) -> int: return 3\n    x: int",
]


@pytest.mark.parametrize("lazy", [False, True], ids=["eager", "future"])
@pytest.mark.parametrize("body", FIELDS)
def test_a_field_has_pydantics_schema(body, lazy, tool):
    source = (
        "from __future__ import annotations\n" * lazy
        + HEADER
        + (
            f"class Params(BaseModel):\n    {body}\n"
            "class Later(BaseModel):\n    z: int\n"
            "def run(params: Params):\n    'Does it.'\n"
        )
    )
    if "M(x=1)" in body:  # the result of a call is unknown without running it
        with pytest.raises(AssertionError, match="/default"):
            assert compare(source, tool) == ""
    else:
        assert compare(source, tool) == ""


MODULES = {
    "a base class adds its fields first, and its configuration": """
class Base(BaseModel, extra="allow"):
    "Base."
    z: int
    a: int
class Params(Base):
    a: str = "k"
    y: int
""",
    "mixed-in bases follow the method resolution order": """
class A(BaseModel):
    a: int
    shared: int = 1
class B(A):
    b: int
    shared: str = "b"
class C(BaseModel):
    c: int
    shared: float = 1.5
class Params(B, C):
    d: int
""",
    "a class defined twice means the last one before its use": """
class Entity(BaseModel):
    first: int
class Holder(BaseModel):
    held: Entity
class Entity(BaseModel):
    second: int
class Params(BaseModel):
    one: Holder
    two: Entity
""",
    "a default hides the type of the same name": """
from datetime import date
class Params(BaseModel):
    date: Optional[date] = None
""",
    "models refer to each other": """
class A(BaseModel):
    b: "Optional[B]" = None
class B(BaseModel):
    a: Optional[A] = None
class Params(BaseModel):
    a: A
""",
    "a nested configuration class is used": """
class Params(BaseModel):
    class Config:
        extra = "forbid"
    x: int
""",
    "classes with one name in different classes are kept apart": """
class A(BaseModel):
    class Item(BaseModel):
        x: int
    item: Item
class B(BaseModel):
    class Item(BaseModel):
        y: str
    item: Item
class Params(BaseModel):
    a: A
    b: B
    c: A.Item
""",
    "a root model can stand for the parameters": """
class Params(RootModel[dict[str, int]]):
    "Counts."
""",
    "an enum can inherit its methods": """
class Base(str, Enum):
    def shout(self): ...
class Mode(Base):
    fast = "fast"
    slow = "slow"
class Params(BaseModel):
    mode: Mode = Mode.fast
    modes: list[Mode] = [Mode.slow]
""",
    "a generic base is filled in": """
U = TypeVar("U")
class Box(BaseModel, Generic[U]):
    content: U
class Params(BaseModel):
    box: Box[list[int]]
    other: Box[str]
""",
    "a bound type variable stands for its bound": """
U = TypeVar("U", bound=int)
V = TypeVar("V", int, str)
class Params(BaseModel, Generic[U, V]):
    x: U
    y: V
""",
    "types are aliased by assignment": """
Bounded = Annotated[int, Field(ge=1, le=LIMIT)]
Table: TypeAlias = "dict[str, list[Bounded]]"
class Params(BaseModel):
    a: Bounded
    b: Table
    c: Optional[Bounded] = Field(None, le=3)
""",
}


@pytest.mark.parametrize("lazy", [False, True], ids=["eager", "future"])
@pytest.mark.parametrize("rule", MODULES)
def test_a_module_has_pydantics_schemas(rule, lazy, tool):
    source = "from __future__ import annotations\n" * lazy + HEADER + MODULES[rule]
    assert compare(source + "def run(params: Params):\n    'Does it.'\n", tool) == ""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the type statement needs Python 3.12")
@pytest.mark.parametrize(
    "source",
    [
        "type X = list[int] | int\nclass Params(BaseModel):\n    x: X = Field(3, description='xx')",
        "type R = list[R] | int\nclass Params(BaseModel):\n    x: Optional[R] = 1",
        "type P[Q] = list[Q]\nclass Params(BaseModel):\n    x: P[int]\n    y: Annotated[P[str], Field(min_length=1)]",
        "class Box[Q](BaseModel):\n    x: Q\nclass Params(BaseModel):\n    b: Box[int]\n    c: Box[Box[str]]",
        "class Params[Q](BaseModel):\n    x: Q",
    ],
)
def test_the_type_statement_means_the_same_as_in_pydantic(source, tool):
    source = f"{HEADER}{source}\ndef run(params: Params):\n    'Does it.'\n"
    assert compare(source, tool) == ""


SIGNATURES = [
    "",
    "a",
    "a: int",
    "a: int = None",
    "a, b: int, c: Annotated[str, Field(description='x')] = 'q', *, d: int = Field(3, ge=1), **kw: int",
    "a: int, /, b: str = 'x', *args: int",
    "a: int, /",
    "a: int = 3, /",
    "*args",
    "*args: int",
    "**kw",
    "*, x: 'int', **kw",
    "p: M",
    "p: M, q: Optional[DC] = None",
    "a: Annotated[int, Field(alias='A')]",
    "a: Literal['x', 'y'] = 'x', b: list[M] = [], c: tuple[int, ...] = (1, 2)",
    "a: Colours, b: E = E.a, c: float | None = None",
    "a: int = Field(default_factory=int)",
    "a: int = Field(..., gt=0)",
    "ctx: Any, params: M",
]


@pytest.mark.parametrize("keyword", ["def", "async def"])
@pytest.mark.parametrize("signature", SIGNATURES)
def test_a_signature_has_pydantics_schema(signature, keyword, tool):
    source = f"{HEADER}{keyword} run({signature}) -> list[M]:\n    'Does it.'\n"
    assert compare(source, tool) == ""


# A corpus of random modules: enums, aliases and models that refer to each other.

LEAF_TYPES = st.sampled_from(
    _words("""
str int float bool bytes Any None date UUID Decimal HttpUrl SecretStr Path list dict
conint(ge=1) constr(max_length=3,pattern='^a') confloat(gt=0.5,le=9) PositiveInt
conlist(int,min_length=1) Literal['a','b'] Literal[1] Dict[str,Any] UserId
""")
)


@st.composite
def types_(draw, names, depth=2):
    """Draw an annotation that may use the given names."""
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from(names)) if names and draw(st.booleans()) else draw(LEAF_TYPES)
    inner = types_(names, depth - 1)
    form = draw(
        st.sampled_from(
            [
                "Optional[{0}]",
                "List[{0}]",
                "list[{0}]",
                "Dict[str, {0}]",
                "Union[{0}, {1}]",
                "Union[{0}, {1}, None]",
                "Tuple[{0}, {1}]",
                "tuple[{0}, ...]",
                "Set[{0}]",
                "Annotated[{0}, Field(description='said')]",
                "Annotated[Optional[{0}], Field(title='T')]",
                "Sequence[{0}]",
                "Mapping[str, {0}]",
                "Optional[List[{0}]]",
                "'Optional[{0}]'",
            ]
        )
    )
    text = form.format(draw(inner), draw(inner))
    return text if text.count("'") < 3 or form[0] != "'" else text.strip("'")


@st.composite
def fields(draw, names):
    """Draw the rest of a field's line: its annotation and default."""
    annotation = draw(types_(names))
    given = draw(
        st.sampled_from(
            [
                "",
                "",
                " = None",
                " = Field(...)",
                " = Field(None, description='What it is.')",
                " = Field(None, title='A title', alias='givenAs')",
                " = Field(default_factory=list)",
                " = 3",
                " = 'text'",
                " = Field('x', examples=['y'], deprecated=True)",
                " = [1, 'a']",
                " = Field(None, json_schema_extra={'k': [1]})",
                "\n    'Said below.'",
            ]
        )
    )
    return annotation + given


@st.composite
def modules(draw):
    """Draw the source of a module with a tool."""
    lines = ["from __future__ import annotations"] if draw(st.booleans()) else []
    lines += [
        "from typing import *", "from enum import Enum, IntEnum, auto", "from datetime import date",
        "from uuid import UUID", "from decimal import Decimal", "from pathlib import Path",
        "from pydantic import *", "UserId = NewType('UserId', int)",
    ]  # fmt: skip
    names = []
    for number in range(draw(st.integers(0, 5))):
        # One name in three is reused, because a module may redefine a class.
        name = draw(st.sampled_from([f"Kind{number}", f"Kind{number}", "Entity"]))
        match draw(st.sampled_from(["enum", "alias", "model", "model", "root", "derived"])):
            case "enum":
                values = draw(
                    st.lists(st.sampled_from(["'x'", "1", "2.5", "auto()"]), min_size=1, max_size=3)
                )
                lines += [
                    f"class {name}(Enum):",
                    *(f"    m{i} = {v}" for i, v in enumerate(values)),
                ]
            case "alias":
                name = f"Alias{number}"
                lines.append(f"{name} = {draw(types_(names)).strip(chr(39))}")
            case "root":
                lines += [
                    f"class {name}(RootModel[{draw(types_(names)).strip(chr(39))}]):",
                    "    'A root.'",
                ]
            case kind:
                bases = [it for it in names if it.startswith("Model")]
                base = draw(st.sampled_from(bases)) if kind == "derived" and bases else "BaseModel"
                name = name if name == "Entity" else f"Model{number}"
                lines += model(draw, name, base, names)
        names = [*(it for it in names if it != name), name]
    lines += model(draw, "Params", "BaseModel", names)
    lines += [f"def run(params: Params) -> {draw(types_(names))}:", "    'Does it.'"]
    return "\n".join(lines) + "\n"


def model(draw, name, base, names):
    """Draw the lines of a class."""
    lines = [f"class {name}({base}):"]
    if draw(st.booleans()):
        lines.append("    'A class.'")
    config = draw(st.sampled_from(["", "extra='forbid'", "extra='allow', title='Named'"]))
    lines.append(f"    model_config = ConfigDict({config})" if config else "    pass")
    count = draw(st.integers(0, 4))
    return lines + [f"    field_{number}: {draw(fields(names))}" for number in range(count)]


@settings(suppress_health_check=list(HealthCheck))
@given(source=modules())
def test_schemas_of_a_generated_corpus_mean_the_same_as_pydantics(source, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp() / "corpus" / "mcptools" / "demo"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "thing.py").write_text(source, encoding="utf-8")

    def tool(_):
        return toolscan.read_tool(folder / "thing.py", folder.parent.parent)

    try:
        with executed(source) as module:
            of_pydantic(module, module.run)
    except Exception:  # noqa: BLE001  Python or pydantic refuses the module
        event("refused by pydantic")
        tool(source)
        return
    event("compared")
    assert compare(source, tool) == "", source
