"""Whether a value is where the program chose to compute: on an accelerator by name, or on a device in a variable."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from devlint.checks.context import Context
from devlint.placement import values as v
from devlint.placement.infer import FUNCTIONS
from devlint.placement.values import Place, Value

_DEVICE_NAME = re.compile(r"dev|gpu|cuda|rank|accel", re.IGNORECASE)
_HOST = ("", "cpu", "meta")


def is_chosen(context: Context, value: Value) -> bool:
    """Whether a value is, in each of its possibilities, on an accelerator or on a device that a variable holds.

    Where the module that runs happens to be, or an argument of the function, is no choice: that may be the CPU.
    """
    possible = [one for one in value.possibilities() if one.kind != v.NOTHING]
    return bool(possible) and all(_chosen_place(context, one) for one in possible)


def _chosen_place(context: Context, value: Value) -> bool:
    place = value.place
    if place.device:
        return place.device not in _HOST
    if not isinstance(place.key, tuple) or not place.key:
        return False
    tag = place.key[0]
    if tag in ("choice", "device", "result", "text", "named"):
        return _is_device_name(context, value) is not False
    if tag == "named by":
        return _is_device_name(context, value) is True and not _always_host(context, place)
    if tag in ("property", "attribute"):
        name = place.key[-1] if tag == "attribute" else getattr(place.key[1], "name", "")
        return bool(_DEVICE_NAME.search(str(name)))
    return False


def _is_device_name(context: Context, value: Value) -> bool | None:
    """Whether the variable that says where the value is is called as devices are; None where no name is known."""
    text = value.place.text
    if text:
        return bool(_DEVICE_NAME.search(text.rsplit(".", 1)[-1]))
    call = value.origin.node if value.origin is not None else None
    if not isinstance(call, ast.Call):
        return None
    named = [keyword.value for keyword in call.keywords if keyword.arg == "device"]
    told = named or call.args[:1]
    if not told:
        return None
    return bool(_DEVICE_NAME.search(ast.unparse(told[0])))


def _always_host(context: Context, place: Place) -> bool:
    """Whether each call in this file passes the CPU for the argument that names the place."""
    assert isinstance(place.key, tuple)
    ids = place.key[1]
    for identity in ids if isinstance(ids, Iterable) else ():
        if isinstance(identity, ast.arg):
            function = next((a for a in context.inference.ancestors(identity) if isinstance(a, FUNCTIONS)), None)
            if function is not None:
                passed = context.inference.passed(identity, function)
                if passed and all(one.const == "cpu" or one.place.is_cpu for one in passed):
                    return True
    return False
