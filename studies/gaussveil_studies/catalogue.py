"""All studies by name. A study's module is imported only when it is asked for."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from gaussveil.errors import ParameterError

if TYPE_CHECKING:
    from gaussveil_studies.study import Study

MODULES = {
    "ndis": "gaussveil_studies.ndis.study",
    "class": "gaussveil_studies.class_based.study",
    "gmm": "gaussveil_studies.gmm.study",
    "spectral": "gaussveil_studies.spectral.study",
    "peers": "gaussveil_studies.peers.study",
    "simulator": "gaussveil_studies.simulator.study",
}


def names() -> list[str]:
    """The studies there are."""
    return [name for name, module in MODULES.items() if find_spec(module) is not None]


def check_name(name: str) -> None:
    """Refuse a name that no study has, before anything slow is imported."""
    if name not in names():
        raise ParameterError(
            f"there is no study {name!r}; there are {', '.join(names())}."
        )


def study_named(name: str) -> Study:
    """A study by its name."""
    check_name(name)
    found: Study = import_module(MODULES[name]).STUDY
    return found
