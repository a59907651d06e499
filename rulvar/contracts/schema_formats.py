"""The formats of JSON Schema that a text is held to, as a table of format to check.

Which formats are asserted, and how strictly, is what the original asserts: other formats say what a text means
and refuse nothing. Every check is linear in the text. ``regex`` is not in the table: the validator knows the
regular expressions of ECMA-262 itself.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Mapping
from types import MappingProxyType

__all__ = ["FORMATS", "UNASSERTED"]

Check = Callable[[str], bool]

_PCHAR = r"a-z0-9\-._~!$&'()*+,;=:@"
_PERCENT = r"%[0-9a-f]{2}"
_NAME = rf"(?:[a-z0-9_]|{_PERCENT})+(?::[1-9][0-9]{{0,3}}|\*)?"
_SPACE = r"\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_OCTET = r"(?:25[0-5]|2[0-4][0-9]|[01]?[0-9]?[0-9])"
_PLAIN_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_POINTER = r"(?:/(?:[^~/]|~[01])*)*"
_NUMBER = r"([0-9]+(?:[.,][0-9]+)?)"


def _pattern(text: str) -> re.Pattern[str]:
    # nothing possessive: early 3.11 matches it wrongly, and nothing that repeats here can begin what follows it
    return re.compile(text, re.ASCII | re.IGNORECASE)


_DATE = _pattern(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIME = _pattern(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.[0-9]+)?(z|[+-][0-9]{2}(?::?[0-9]{2})?)?")
_WHITE_SPACE = re.compile(f"[{_SPACE}]")
_WEEKS = re.compile(rf"P{_NUMBER}W")
_DURATION = re.compile(
    rf"P(?:{_NUMBER}Y)?(?:{_NUMBER}M)?(?:{_NUMBER}D)?(?:T(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}S)?)?"
)
_DURATION_BOUND = 80
_IPV4 = _pattern(rf"{_OCTET}(?:\.{_OCTET}){{3}}")
_PLAIN_IPV4 = _pattern(rf"{_PLAIN_OCTET}(?:\.{_PLAIN_OCTET}){{3}}")
_IPV6_GROUP = _pattern("[0-9a-f]{1,4}")
_IPV6_BOUND = 45
_HOSTNAME = _pattern(rf"(?=.{{1,253}}\.?\Z){_LABEL}(?:\.{_LABEL})*\.?")
_HOST_LABEL = _pattern(_LABEL)
_MAILBOX = _pattern(r"[a-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[a-z0-9!#$%&'*+/=?^_`{|}~-]+)*")
_SCHEME = _pattern(r"[a-z][a-z0-9+\-.]*:")
_URI_TEMPLATE = _pattern(
    rf"""(?:[^\x00-\x20"'<>%\\^`{{|}}]|{_PERCENT}|\{{[+#./;?&=,!@|]?{_NAME}(?:,{_NAME})*\}})*"""
)
_URL = _pattern(r"(?:https?|ftp)://")
_URL_LABEL = _pattern(r"[a-z\u00a1-\uffff0-9]+(?:-[a-z\u00a1-\uffff0-9]+)*")
_URL_TOP = _pattern(r"[a-z\u00a1-\uffff]{2,}")
_URL_IPV4 = _pattern(
    r"(?:[1-9][0-9]?|1[0-9]{2}|2[01][0-9]|22[0-3])(?:\.(?:1?[0-9]{1,2}|2[0-4][0-9]|25[0-5])){2}"
    r"\.(?:[1-9][0-9]?|1[0-9]{2}|2[0-4][0-9]|25[0-4])"
)
_PRIVATE = re.compile(r"10\.|127\.|169\.254\.|192\.168\.|172\.(?:1[6-9]|2[0-9]|3[01])\.")
_PORT_AND_PATH = re.compile(r"(?::[0-9]{2,5})?(?:/.*)?", re.DOTALL)


def _whole(text: str) -> Check:
    """Return the check that a pattern fits the whole of a text."""
    fits = _pattern(text).fullmatch
    return lambda value: fits(value) is not None


def _is_date(text: str) -> bool:
    found = _DATE.fullmatch(text)
    if found is None:
        return False
    year, month, day = map(int, found.groups())
    # the calendar repeats after 400 years, and begins with year 1
    return 1 <= month <= 12 and 1 <= day <= monthrange(year % 400 + 400, month)[1]


def _is_time(text: str, *, needs_zone: bool = False) -> bool:
    found = _TIME.fullmatch(text)
    if found is None or (needs_zone and found[4] is None):
        return False
    hour, minute, second = int(found[1]), int(found[2]), int(found[3])
    return (hour <= 23 and minute <= 59 and second <= 59) or (hour, minute, second) == (23, 59, 60)


def _is_date_time(text: str) -> bool:
    date, separator, time = text[:10], text[10:11], text[11:]
    return (
        (separator in ("t", "T") or _WHITE_SPACE.fullmatch(separator) is not None)
        and _is_date(date)
        and _is_time(time, needs_zone=True)
    )


def _is_duration(text: str) -> bool:
    if len(text) >= _DURATION_BOUND:
        return False
    if _WEEKS.fullmatch(text):
        return True
    found = _DURATION.fullmatch(text)
    if found is None or text[-1] in "PT":
        return False
    numbers = [number for number in found.groups() if number is not None]
    return all(number.isdigit() for number in numbers[:-1])  # only the smallest unit has a fraction


def _is_email(text: str) -> bool:
    name, at, host = text.partition("@")
    return (
        at == "@"
        and len(name) <= 64
        and len(host) <= 253
        and _MAILBOX.fullmatch(name) is not None
        and all(map(_HOST_LABEL.fullmatch, host.split(".")))
    )


def _is_ipv6(text: str, ipv4: re.Pattern[str] = _PLAIN_IPV4) -> bool:
    if len(text) > _IPV6_BOUND:
        return False
    head, gap, tail = text.partition("::")
    groups = [group for side in (head, tail) if side for group in side.split(":")]
    count = len(groups)
    if groups and "." in groups[-1] and (tail or not gap):
        if ipv4.fullmatch(groups.pop()) is None:
            return False
        count += 1
    return all(map(_IPV6_GROUP.fullmatch, groups)) and (count <= 7 if gap else count == 8)


class _Uri:
    """The characters that parts of a URI take; a reference takes a quote as well."""

    def __init__(self, more: str = "") -> None:
        self._query = _pattern(rf"(?:[{_PCHAR}{more}/?]|{_PERCENT})*")
        self._path = _pattern(rf"(?:[{_PCHAR}{more}/]|{_PERCENT})*")
        # every other authority is made of what a path takes; a bracketed address is not
        self._address = _pattern(
            rf"//?(?:(?:[a-z0-9\-._~!$&'()*+,;=:]|{_PERCENT})*@)?"
            rf"\[([^\]]*)\](?::[0-9]*)?((?:/(?:[{_PCHAR}{more}]|{_PERCENT})*)*)"
        )

    def holds(self, text: str) -> bool:
        """Whether a text is what may follow the scheme."""
        text, _, fragment = text.partition("#")
        text, _, query = text.partition("?")
        if not (self._query.fullmatch(fragment) and self._query.fullmatch(query)):
            return False
        if self._path.fullmatch(text):
            return True
        found = self._address.fullmatch(text)
        return found is not None and (
            _is_ipv6(found[1], _IPV4) or _FUTURE_ADDRESS.fullmatch(found[1]) is not None
        )


_FUTURE_ADDRESS = _pattern(r"v[0-9a-f]+\.[a-z0-9\-._~!$&'()*+,;=:]+")
_URI = _Uri()
_URI_REFERENCE = _Uri('"')


def _is_uri(text: str) -> bool:
    scheme = _SCHEME.match(text)
    if scheme is None:
        return False
    rest = text[scheme.end() :]
    return rest[:1] not in ("", "?", "#") and _URI.holds(rest)


def _is_uri_reference(text: str) -> bool:
    # a scheme and its colon are made of what a path takes, but for a bracketed address behind them
    scheme = _SCHEME.match(text)
    return _URI_REFERENCE.holds(text) or (scheme is not None and _URI_REFERENCE.holds(text[scheme.end() :]))


def _is_url(text: str) -> bool:
    scheme = _URL.match(text)
    if scheme is None or _WHITE_SPACE.search(text):
        return False
    rest = text[scheme.end() :]
    starts = [0, *(found.end() for found in re.finditer("@", rest) if found.start() > 0)]
    ends = [*starts[1:], len(rest) + 1]
    return any(
        _starts_with_host(rest[start:end], ends_here=end > len(rest))
        for start, end in zip(starts, ends, strict=True)
    )


def _starts_with_host(text: str, *, ends_here: bool) -> bool:
    """Whether a text starts with the host of a URL, and goes on with a port and a path only."""
    host = re.split("[:/]", text, maxsplit=1)[0]
    rest = _PORT_AND_PATH.fullmatch(text, len(host))
    if rest is None or not (ends_here or "/" in rest[0]):
        return False
    if _URL_IPV4.fullmatch(host):
        return _PRIVATE.match(host) is None
    *labels, top = host.split(".")
    return bool(labels) and all(map(_URL_LABEL.fullmatch, labels)) and _URL_TOP.fullmatch(top) is not None


FORMATS: Mapping[str, Check] = MappingProxyType(
    {
        "date": _is_date,
        "time": _is_time,
        "date-time": _is_date_time,
        "duration": _is_duration,
        "email": _is_email,
        "hostname": lambda text: _HOSTNAME.fullmatch(text) is not None,
        "ipv4": lambda text: _IPV4.fullmatch(text) is not None,
        "ipv6": _is_ipv6,
        "uri": _is_uri,
        "uri-reference": _is_uri_reference,
        "uri-template": lambda text: _URI_TEMPLATE.fullmatch(text) is not None,
        "url": _is_url,
        "uuid": _whole(r"(?:urn:uuid:)?[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"),
        "json-pointer": _whole(_POINTER),
        "json-pointer-uri-fragment": _whole(rf"#(?:/(?:[a-z0-9_\-.!$&'()*+,;:=@]|{_PERCENT}|~[01])*)*"),
        "relative-json-pointer": _whole(rf"(?:0|[1-9][0-9]*)(?:#|{_POINTER})"),
    }
)
UNASSERTED = ("idn-email", "idn-hostname", "iri", "iri-reference")
