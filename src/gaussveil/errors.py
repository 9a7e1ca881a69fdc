"""Every error the library raises, with a stable code.

The whole tree::

    GaussveilError                         GV000
    ├── InputError (ValueError)            GV100  what was passed breaks a rule
    │   ├── ShapeError                     GV101
    │   ├── NotFiniteError                 GV102
    │   ├── NotSymmetricError              GV103
    │   ├── NotPositiveDefiniteError       GV104
    │   ├── ParameterError                 GV105  a number or choice outside its range
    │   ├── SchemaError                    GV106  columns, types, units of a table
    │   └── FormatError                    GV107  a file of ours that is malformed or of another version
    ├── NumericalError (ArithmeticError)   GV200  a value could not be computed to the promised accuracy
    ├── PrivacyError                       GV300
    │   ├── AssumptionError                GV301  a guarantee's public assumption does not hold
    │   ├── BudgetExceededError            GV302  the account cannot afford the release; nothing was drawn
    │   └── VerificationError              GV303  a certificate does not verify
    ├── LedgerError                        GV400
    │   ├── LedgerCorruptError             GV401
    │   ├── LedgerUnavailableError         GV402  read-only, locked, disk full
    │   ├── AccountNotFoundError           GV403
    │   └── LedgerStateError               GV404  a transition that the entry's state does not allow
    ├── SourceError                        GV450  a table could not be read, or changed between two passes
    ├── MissingDependencyError (ImportError)  GV500  an extra is not installed
    └── MissingDataError                   GV501  real data that a study needs was not found

Messages say the rule, the value got (never a value of private data) and what to do.
"""

from __future__ import annotations


class GaussveilError(Exception):
    """Base of every error raised by gaussveil."""

    code = "GV000"


class InputError(GaussveilError, ValueError):
    """An argument breaks a stated rule."""

    code = "GV100"


class ShapeError(InputError):
    """Arrays whose shapes do not fit together."""

    code = "GV101"


class NotFiniteError(InputError):
    """NaN or infinity where a finite number is needed."""

    code = "GV102"


class NotSymmetricError(InputError):
    """A covariance that is not symmetric."""

    code = "GV103"


class NotPositiveDefiniteError(InputError):
    """A covariance that is singular or has a negative eigenvalue."""

    code = "GV104"


class ParameterError(InputError):
    """A number or choice outside its allowed range."""

    code = "GV105"


class SchemaError(InputError):
    """A table whose columns, types or units are not what was declared."""

    code = "GV106"


class FormatError(InputError):
    """A file that is malformed or of a format version we cannot read."""

    code = "GV107"


class NumericalError(GaussveilError, ArithmeticError):
    """A value could not be computed to the promised accuracy."""

    code = "GV200"


class PrivacyError(GaussveilError):
    """A guarantee cannot be given."""

    code = "GV300"


class AssumptionError(PrivacyError):
    """A public assumption of the guarantee does not hold."""

    code = "GV301"


class BudgetExceededError(PrivacyError):
    """The account cannot afford the release; nothing was drawn or spent."""

    code = "GV302"


class VerificationError(PrivacyError):
    """A certificate does not verify."""

    code = "GV303"


class LedgerError(GaussveilError):
    """The ledger refused or could not do something."""

    code = "GV400"


class LedgerCorruptError(LedgerError):
    """The ledger file is damaged."""

    code = "GV401"


class LedgerUnavailableError(LedgerError):
    """The ledger cannot be written: read-only, locked, or the disk is full."""

    code = "GV402"


class AccountNotFoundError(LedgerError):
    """No account of that name in the ledger."""

    code = "GV403"


class LedgerStateError(LedgerError):
    """A transition that the entry's state does not allow."""

    code = "GV404"


class SourceError(GaussveilError):
    """A table could not be read, or it changed between two passes."""

    code = "GV450"


class MissingDependencyError(GaussveilError, ImportError):
    """An optional dependency is not installed."""

    code = "GV500"


class MissingDataError(GaussveilError):
    """Real data that a study needs was not found."""

    code = "GV501"
