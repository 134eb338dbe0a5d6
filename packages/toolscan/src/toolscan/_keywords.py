"""JSON Schema as pydantic writes it: the schemas of types without parts, and combined keywords."""

from __future__ import annotations

import math
from typing import Any, cast

from toolscan._constants import UNKNOWN

Schema = dict[str, Any]

_NUMBER = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
}
_ARRAY = {"min_length": "minItems", "max_length": "maxItems"}
_OBJECT = {"min_length": "minProperties", "max_length": "maxProperties"}
_STRING = {"min_length": "minLength", "max_length": "maxLength"}
# For types that have no length, pydantic writes a length as for a string.
_BY_TYPE = {
    "integer": _NUMBER | _STRING,
    "number": _NUMBER | _STRING,
    "array": _ARRAY,
    "object": _OBJECT,
    "string": _STRING,
}


def constrain(schema: Schema, constraints: dict[str, object]) -> Schema:
    """Add bounds to a schema, under the keywords that its type has for them.

    A bound that the type has no keyword for is left out, as pydantic only validates it.
    """
    if not constraints:
        return schema
    kind = schema.get("type")
    names = _BY_TYPE.get(kind, _STRING) if isinstance(kind, str) else _STRING
    if schema.keys() <= {"type", "minLength", "maxLength", "pattern"} and kind == "string":
        names = names | {"pattern": "pattern"}
    added = {
        names[name]: value
        for name, value in constraints.items()
        if name in names and not (isinstance(value, float) and math.isinf(value))
    }
    choices = cast("list[Schema]", schema.get("anyOf", [{}]))
    if choices[0] == {"type": "number"}:
        # A decimal or a fraction, as a number or as text: the bounds apply to the number.
        numeric = constrain(
            {"type": "number"}, {k: v for k, v in constraints.items() if k in _NUMBER}
        )
        return schema | {"anyOf": [numeric, *choices[1:]]} | added
    return schema | added


def any_of(schemas: list[Schema]) -> Schema:
    members: dict[object, Schema] = {}
    for schema in schemas:
        inner = schema["anyOf"] if schema.keys() == {"anyOf"} else [schema]
        for member in cast("list[Schema]", inner):
            members.setdefault(_identity(member), member)
    choices = list(members.values())
    return choices[0] if len(choices) == 1 else {"anyOf": choices}


def _identity(value: object) -> object:
    """Return a hashable value that is equal for equal JSON; in Python, True also equals 1."""
    match value:
        case dict():
            pairs = cast("Schema", value).items()
            return frozenset((key, _identity(item)) for key, item in pairs)
        case list():
            return tuple(map(_identity, cast("list[object]", value)))
        case _:
            return type(value), value


def mapping(keys: Schema, values: Schema) -> Schema:
    schema: Schema = {"type": "object"}
    # In pydantic's schemas, keys and values of a dictionary have no title.
    names, values = ({k: v for k, v in it.items() if k != "title"} for it in (keys, values))
    pattern = names.pop("pattern", None) if "$ref" not in names else None
    if pattern is not None:
        schema["patternProperties"] = {pattern: values}
    else:
        schema["additionalProperties"] = values or True
    if (names.get("type") == "string" and len(names) > 1) or "$ref" in names:
        names.pop("type", None)
        schema["propertyNames"] = names
    return schema


def literal(values: list[object]) -> Schema:
    """Return the schema of a set of constants, or an open schema if one of them is unknown."""
    encoded = [jsonable(value) for value in values]
    if not encoded or any(value is UNKNOWN for value in encoded):
        return {}
    distinct = list({_identity(value): value for value in encoded}.values())
    schema: Schema = {"const": distinct[0]} if len(distinct) == 1 else {"enum": distinct}
    return schema | type_of(distinct)


_TYPES: dict[type, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    type(None): "null",
}


def type_of(values: list[object]) -> Schema:
    kinds = {type(value) for value in values}
    kind = _TYPES.get(kinds.pop()) if len(kinds) == 1 else None
    return {"type": kind} if kind else {}


def jsonable(value: object) -> object:
    """Return a constant as a JSON value; `UNKNOWN` if JSON cannot express it."""
    match value:
        case None | bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else UNKNOWN
        case str():
            return value if is_text(value) else UNKNOWN
        case bytes():
            text = value.decode("utf-8", "surrogateescape")
            return text if is_text(text) else UNKNOWN
        case list():
            items = [jsonable(item) for item in cast("list[object]", value)]
            return UNKNOWN if any(item is UNKNOWN for item in items) else items
        case dict():
            pairs = cast("dict[object, object]", value).items()
            names = {True: "true", False: "false"}
            encoded = {
                names[key] if isinstance(key, bool) else str(key): jsonable(item)
                for key, item in pairs
            }
            known = all(map(is_text, encoded)) and UNKNOWN not in encoded.values()
            return encoded if known else UNKNOWN
        case _:
            return UNKNOWN


def is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _string(format: str) -> Schema:  # noqa: A002
    return {"type": "string", "format": format}


def _uri(**more: object) -> Schema:
    return {"type": "string", "format": "uri", "minLength": 1, **more}


_DECIMAL: Schema = {"anyOf": [{"type": "number"}, {"type": "string"}]}

_BUILTIN_TYPES: dict[str, Schema] = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "bytes": _string("binary"),
    "complex": {"type": "string"},
    "object": {},
}

_STANDARD: dict[str, Schema] = {
    "typing.Any": {},
    "typing.Hashable": {},
    "typing.Text": {"type": "string"},
    "typing.LiteralString": {"type": "string"},
    "datetime.datetime": _string("date-time"),
    "datetime.date": _string("date"),
    "datetime.time": _string("time"),
    "datetime.timedelta": _string("duration"),
    "decimal.Decimal": _DECIMAL,
    "fractions.Fraction": {"anyOf": [{"type": "number"}, _string("fraction")]},
    "uuid.UUID": _string("uuid"),
    "re.Pattern": _string("regex"),
    "typing.Pattern": _string("regex"),
    "os.PathLike": _string("path"),
}
_PATHS: dict[str, Schema] = {
    f"pathlib.{name}": _string("path")
    for name in ("Path", "PurePath", "PosixPath", "PurePosixPath", "PureWindowsPath", "WindowsPath")
}
_ADDRESSES: dict[str, Schema] = {
    f"ipaddress.IPv{version}{kind}": _string(f"ipv{version}{suffix}")
    for version in (4, 6)
    for kind, suffix in (("Address", ""), ("Network", "network"), ("Interface", "interface"))
}

_PYDANTIC: dict[str, Schema] = {
    "BaseModel": {"type": "object"},
    "HttpUrl": _uri(maxLength=2083),
    "WebsocketUrl": _uri(maxLength=2083),
    "EmailStr": _string("email"),
    "NameEmail": _string("name-email"),
    "IPvAnyAddress": _string("ipvanyaddress"),
    "IPvAnyNetwork": _string("ipvanynetwork"),
    "IPvAnyInterface": _string("ipvanyinterface"),
    "SecretStr": {"type": "string", "format": "password", "writeOnly": True},
    "SecretBytes": {"type": "string", "format": "password", "writeOnly": True},
    "Json": {"type": "string", "contentMediaType": "application/json", "contentSchema": {}},
    "PositiveInt": {"type": "integer", "exclusiveMinimum": 0},
    "NegativeInt": {"type": "integer", "exclusiveMaximum": 0},
    "NonNegativeInt": {"type": "integer", "minimum": 0},
    "NonPositiveInt": {"type": "integer", "maximum": 0},
    "PositiveFloat": {"type": "number", "exclusiveMinimum": 0},
    "NegativeFloat": {"type": "number", "exclusiveMaximum": 0},
    "NonNegativeFloat": {"type": "number", "minimum": 0},
    "NonPositiveFloat": {"type": "number", "maximum": 0},
    "FiniteFloat": {"type": "number"},
    "StrictStr": {"type": "string"},
    "StrictInt": {"type": "integer"},
    "StrictBool": {"type": "boolean"},
    "StrictFloat": {"type": "number"},
    "StrictBytes": _string("binary"),
    "ByteSize": {
        "anyOf": [
            {"type": "string", "pattern": r"^\s*(\d*\.?\d+)\s*(\w+)?"},
            {"type": "integer", "minimum": 0},
        ]
    },
    "FilePath": _string("file-path"),
    "DirectoryPath": _string("directory-path"),
    "NewPath": _string("path"),
    "Base64Bytes": _string("base64"),
    "Base64Str": _string("base64"),
    "Base64UrlBytes": _string("base64url"),
    "Base64UrlStr": _string("base64url"),
    "ImportString": {"type": "string"},
    "PaymentCardNumber": {"type": "string", "minLength": 12, "maxLength": 19},
}
_URI_NAMES = (
    "AnyUrl AnyHttpUrl FileUrl FtpUrl AnyWebsocketUrl RedisDsn KafkaDsn AmqpDsn MySQLDsn "
    "MariaDBDsn ClickHouseDsn SnowflakeDsn CockroachDsn"
)
_URIS: dict[str, Schema] = {name: _uri() for name in _URI_NAMES.split()}
_MULTI_HOST_URIS: dict[str, Schema] = {
    name: {"type": "string", "format": "multi-host-uri", "minLength": 1}
    for name in ("PostgresDsn", "MongoDsn", "NatsDsn")
}
_DATES: dict[str, Schema] = {name: _string("date") for name in ("PastDate", "FutureDate")}
_DATETIMES: dict[str, Schema] = {
    f"{kind}etime": _string("date-time")
    for kind in ("PastDat", "FutureDat", "AwareDat", "NaiveDat")
}
_UUIDS: dict[str, Schema] = {
    f"UUID{version}": _string(f"uuid{version}") for version in (1, 3, 4, 5, 6, 7, 8)
}

LEAVES: dict[str, Schema] = {
    **{f"builtins.{name}": schema for name, schema in _BUILTIN_TYPES.items()},
    **_STANDARD,
    **_PATHS,
    **_ADDRESSES,
    **{
        f"pydantic.{name}": schema
        for table in (_PYDANTIC, _URIS, _MULTI_HOST_URIS, _DATES, _DATETIMES, _UUIDS)
        for name, schema in table.items()
    },
}
"""Schemas by qualified name. They are shared: copy before changing one."""


def _names(modules: str, names: str) -> frozenset[str]:
    return frozenset(f"{module}.{name}" for module in modules.split() for name in names.split())


ARRAYS = _names(
    "builtins typing collections collections.abc",
    "list List Sequence MutableSequence Iterable Generator Deque deque",
)
SETS = _names(
    "builtins typing collections.abc", "set Set frozenset FrozenSet AbstractSet MutableSet"
)
OBJECTS = _names(
    "builtins typing collections collections.abc",
    "dict Dict Mapping MutableMapping DefaultDict defaultdict OrderedDict Counter",
)
PASS_THROUGH = _names(
    "typing pydantic dataclasses",
    "InitVar Final Required NotRequired ReadOnly "
    "SkipValidation SerializeAsAny OnErrorOmit InstanceOf Secret",
)
"""Generic names that stand for their argument."""

CONSTRAINED = {
    "pydantic.conint": "builtins.int",
    "pydantic.confloat": "builtins.float",
    "pydantic.constr": "builtins.str",
    "pydantic.conbytes": "builtins.bytes",
    "pydantic.condecimal": "decimal.Decimal",
    "pydantic.condate": "datetime.date",
    "pydantic.conlist": "builtins.list",
    "pydantic.conset": "builtins.set",
    "pydantic.confrozenset": "builtins.frozenset",
}
"""Functions that return a constrained type, and the type that they constrain."""
