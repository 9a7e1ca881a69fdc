"""Form fields made from an order's model: the API's help is the form's help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gaussveil.studio.offers.orders import ORDERS


@dataclass(frozen=True)
class FormField:
    """One field: how it is called, what it means, what it may hold."""

    name: str
    label: str
    help: str
    kind: str
    default: Any
    choices: tuple[str, ...] = ()
    required: bool = True


def form_fields(mechanism: str) -> list[FormField]:
    """The fields of a mechanism, in the order of its model, epsilon and delta first."""
    schema = ORDERS[mechanism].model_json_schema()["properties"]
    return [_field(name, known) for name, known in schema.items() if name != "mechanism"]


def _field(name: str, known: dict[str, Any]) -> FormField:
    kinds = [known, *known.get("anyOf", ())]
    optional = any(kind.get("type") == "null" for kind in kinds)
    choices = tuple(known.get("enum", ()))
    types = {kind.get("type") for kind in kinds}
    kind = (
        "choice" if choices else "flag" if "boolean" in types else "number" if types & {"number", "integer"} else "text"
    )
    default = known.get("default")
    required = not optional and kind != "flag" and default != ""
    return FormField(name, known["title"], known["description"], kind, default, choices, required)
