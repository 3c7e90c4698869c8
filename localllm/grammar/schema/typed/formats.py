"""Regular expressions for values of `format`, which a whole text must match.

They generate the subset of the RFCs on which all common validators agree: valid dates (29 February in leap years only),
no leap seconds, ASCII host names. Formats that regular expressions cannot express are missing.
"""

from __future__ import annotations

_LEAP = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_YEAR = "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
_DATE = (
    f"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    f"|02-(?:0[1-9]|1[0-9]|2[0-8]))|{_LEAP}-02-29)"
)
_CLOCK = "(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_TIME = f"{_CLOCK}:[0-5][0-9](?:\\.[0-9]{{1,9}})?(?:Z|[+-]{_CLOCK})"

_BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = f"{_BYTE}(?:\\.{_BYTE}){{3}}"
_H16 = "[0-9a-fA-F]{1,4}"


def _ipv6() -> str:
    """All eight groups, or `::` in place of at least one."""
    ways = [f"{_H16}(?::{_H16}){{7}}"]
    for before in range(8):
        head = "" if before == 0 else _H16 if before == 1 else f"{_H16}(?::{_H16}){{{before - 1}}}"
        after = 7 - before
        tail = f"(?:{_H16}(?::{_H16}){{0,{after - 1}}})?" if after else ""
        ways.append(f"{head}::{tail}")
    return f"(?:{'|'.join(ways)})"


_LABEL = "[a-zA-Z](?:-?[a-zA-Z0-9]){0,30}"  # never `--`, which marks an encoded name
_HOSTNAME = f"(?:[a-zA-Z0-9](?:-?[a-zA-Z0-9]){{0,30}}\\.){{0,9}}{_LABEL}"

_DIGITS = "[0-9]{1,9}"
_DURATION_TIME = f"T(?:{_DIGITS}H(?:{_DIGITS}M(?:{_DIGITS}S)?)?|{_DIGITS}M(?:{_DIGITS}S)?|{_DIGITS}S)"  # no gaps
_DURATION = (
    f"P(?:(?:{_DIGITS}Y(?:{_DIGITS}M(?:{_DIGITS}D)?)?|{_DIGITS}M(?:{_DIGITS}D)?|{_DIGITS}D)(?:{_DURATION_TIME})?"
    f"|{_DURATION_TIME}|{_DIGITS}W)"
)

_ATOM = "[a-zA-Z0-9_+%~-]+"
_EMAIL = f"{_ATOM}(?:\\.{_ATOM})*@{_HOSTNAME}"

_PCHAR = "(?:[a-zA-Z0-9._~!$&'()*+,;=:@-]|%[0-9A-F]{2})"
_PATH = f"(?:/{_PCHAR}*)*"
_TAIL = f"(?:\\?(?:{_PCHAR}|[/?])*)?(?:#(?:{_PCHAR}|[/?])*)?"
_AUTHORITY = f"(?:{_HOSTNAME}|{_IPV4})(?::[0-9]{{1,5}})?"
_URI = f"[a-zA-Z][a-zA-Z0-9+.-]*:(?://{_AUTHORITY}{_PATH}|{_PCHAR}+{_PATH}){_TAIL}"
_URI_REFERENCE = f"(?:{_URI}|//{_AUTHORITY}{_PATH}{_TAIL}|(?:/{_PCHAR}+)+/?{_TAIL}|[a-zA-Z0-9._~-]+{_PATH}{_TAIL})"

_POINTER = "(?:/(?:[^~/\\x00-\\x1f\\x7f]|~[01])*)*"

_VARIABLE = "[a-zA-Z0-9_]+(?:\\.[a-zA-Z0-9_]+)*(?::[1-9][0-9]{0,3}|\\*)?"
_URI_TEMPLATE = f"(?:{_PCHAR}|[/?#]|\\{{[+#./;?&]?{_VARIABLE}(?:,{_VARIABLE})*\\}})*"

_REGEX_ATOM = "(?:[a-zA-Z0-9 _:,;=@%&'~/-]|\\\\[dDwWsS./]|\\.|\\[(?:[a-zA-Z0-9_ .]|a-z|A-Z|0-9)+\\])"
_REGEX = f"\\^?(?:{_REGEX_ATOM}[*+?]?|\\((?:{_REGEX_ATOM}[*+?]?)+\\)[*+?]?)*\\$?"

FORMATS: dict[str, str] = {
    "date-time": f"{_DATE}T{_TIME}",
    "date": _DATE,
    "time": _TIME,
    "duration": _DURATION,
    "email": _EMAIL,
    "idn-email": _EMAIL,
    "hostname": _HOSTNAME,
    "idn-hostname": _HOSTNAME,
    "ipv4": _IPV4,
    "ipv6": _ipv6(),
    "uri": _URI,
    "uri-reference": _URI_REFERENCE,
    "iri": _URI,
    "iri-reference": _URI_REFERENCE,
    "uuid": "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}",
    "json-pointer": _POINTER,
    "relative-json-pointer": f"(?:0|[1-9][0-9]{{0,3}})(?:#|{_POINTER[:-1]}+)",
    "uri-template": _URI_TEMPLATE,
    "regex": _REGEX,
}

MAX_CHARS = {"hostname": 253, "idn-hostname": 253, "email": 254, "idn-email": 254}
"""Maximum length of the whole text."""

SILENT = frozenset({"password", "path", "binary", "textarea", "markdown", "float", "double", "decimal", "number"})
"""Formats that say how a text is shown or stored, and OpenAPI's of numbers: any value is valid, so nothing is noted."""

INTEGERS: dict[str, tuple[int, int]] = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint8": (0, 2**8 - 1),
    "uint16": (0, 2**16 - 1),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
}
"""OpenAPI's integer formats, with their bounds."""
