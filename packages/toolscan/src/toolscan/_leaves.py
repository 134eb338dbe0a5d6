"""Types without parts, and pydantic's JSON Schema for them."""

from __future__ import annotations

Schema = dict[str, object]


def _string(format: str) -> Schema:  # noqa: A002
    return {"type": "string", "format": format}


def _uri(**more: object) -> Schema:
    return {"type": "string", "format": "uri", "minLength": 1, **more}


_DECIMAL: Schema = {"anyOf": [{"type": "number"}, {"type": "string"}]}

_BUILTINS: dict[str, Schema] = {
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
_URIS: dict[str, Schema] = {
    name: _uri()
    for name in [
        "AnyUrl",
        "AnyHttpUrl",
        "FileUrl",
        "FtpUrl",
        "AnyWebsocketUrl",
        "RedisDsn",
        "KafkaDsn",
        "AmqpDsn",
        "MySQLDsn",
        "MariaDBDsn",
        "ClickHouseDsn",
        "SnowflakeDsn",
        "CockroachDsn",
    ]
}
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
    **{f"builtins.{name}": schema for name, schema in _BUILTINS.items()},
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
