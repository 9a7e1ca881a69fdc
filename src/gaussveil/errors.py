"""Every error the library raises, with a stable code.

The table of codes is in docs/exit-codes.md. Messages say the rule, the value got (never a value of private data) and
what to do.
"""

from __future__ import annotations


class GaussveilError(Exception):
    """Base of every error raised by gaussveil."""

    code = "GV000"

    def __init_subclass__(cls, code: str | None = None, **more: object) -> None:
        super().__init_subclass__(**more)
        cls.code = code or cls.code


class InputError(GaussveilError, ValueError, code="GV100"):
    """An argument breaks a stated rule."""


class ShapeError(InputError, code="GV101"):
    """Arrays whose shapes do not fit together."""


class NotFiniteError(InputError, code="GV102"):
    """NaN or infinity where a finite number is needed."""


class NotSymmetricError(InputError, code="GV103"):
    """A covariance that is not symmetric."""


class NotPositiveDefiniteError(InputError, code="GV104"):
    """A covariance that is singular or has a negative eigenvalue."""


class ParameterError(InputError, code="GV105"):
    """A number or choice outside its allowed range."""


class SchemaError(InputError, code="GV106"):
    """A table whose columns, types or units are not what was declared."""


class FormatError(InputError, code="GV107"):
    """A file that is malformed or of a format version we cannot read."""


class NumericalError(GaussveilError, ArithmeticError, code="GV200"):
    """A value could not be computed to the promised accuracy."""


class PrivacyError(GaussveilError, code="GV300"):
    """A guarantee cannot be given."""


class AssumptionError(PrivacyError, code="GV301"):
    """A public assumption of the guarantee does not hold."""


class BudgetExceededError(PrivacyError, code="GV302"):
    """The account cannot afford the release; nothing was drawn or spent."""

    mean_shift_left = 0.0
    """What one more release of Gaussian noise may have, where that is what the account adds up."""
    epsilon_left = 0.0
    """The same of an account of delta 0."""


class VerificationError(PrivacyError, code="GV303"):
    """A certificate does not verify."""


class LedgerError(GaussveilError, code="GV400"):
    """The ledger refused or could not do something."""


class LedgerCorruptError(LedgerError, code="GV401"):
    """The ledger file is damaged."""


class LedgerUnavailableError(LedgerError, code="GV402"):
    """The ledger cannot be written: read-only, locked, or the disk is full."""


class AccountNotFoundError(LedgerError, code="GV403"):
    """No account of that name in the ledger."""


class LedgerStateError(LedgerError, code="GV404"):
    """A transition that the entry's state does not allow."""


class SourceError(GaussveilError, code="GV450"):
    """A table could not be read, or it changed between two passes."""


class MissingDependencyError(GaussveilError, ImportError, code="GV500"):
    """An optional dependency is not installed."""


class MissingDataError(GaussveilError, code="GV501"):
    """Real data that a study needs was not found."""


PUBLISHED = False
"""Whether packages of this version can be had by name: until then advice is what works in a checkout."""


def install(extra: str) -> str:
    """The command that brings an extra."""
    if PUBLISHED:
        return f"pip install 'gaussveil[{extra}]'"
    return f"pip install '.[{extra}]' in a checkout of gaussveil"
