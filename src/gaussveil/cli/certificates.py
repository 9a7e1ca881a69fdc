"""`gaussveil verify` and `gaussveil key`: recompute certificates, make keys, sign."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gaussveil.cli.files import certificate_beside, check_targets, read_json, reserved
from gaussveil.cli.options import Json
from gaussveil.cli.output import (
    DONE,
    EXIT_CODE_HELP,
    NO,
    UNDECIDED,
    digits,
    print_json,
    print_line,
    tell,
)
from gaussveil.errors import FormatError, SourceError
from gaussveil.files import printable

if TYPE_CHECKING:
    from gaussveil.accounting import Certificate, Verification
    from gaussveil.accounting.certificates.cells import Sheet

key_app = typer.Typer(
    name="key",
    help="Ed25519 keys for certificates.",
    epilog=EXIT_CODE_HELP,
    no_args_is_help=True,
)

TABLES = (".csv", ".gz", ".parquet", ".xlsx", ".arrow", ".npy")
CertificateFile = Annotated[
    Path,
    typer.Argument(metavar="CERTIFICATE", help="Certificate file.", show_default=False),
]


def verify(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Released table, certificate, or package (.zip).",
            show_default=False,
        ),
    ],
    certificate: Annotated[
        Path | None,
        typer.Option(help="Certificate of the table, where it does not lie beside it."),
    ] = None,
    public_key: Annotated[
        Path | None, typer.Option(help="Public key that must have signed it.")
    ] = None,
    json: Json = False,
) -> None:
    """Hold released numbers against their certificate and recompute it: delta in both directions and the signature.

    Takes a released table, whose certificate it finds beside it, a certificate, whose table it finds, or a package,
    checked whole; also a mixture model, which holds its certificate, or a file of meters, which holds one per meter.
    The first line says what was checked: numbers and certificate, or the certificate alone. Ends with 1 if anything
    does not hold, or if a certificate claims no guarantee at all; with 3 if a proof is wanting.

    Example: gaussveil verify out.csv --public-key owner.key.pub
    """
    from gaussveil.accounting.certificates.keys import load_public_key
    from gaussveil.accounting.certificates.verification import verify_files

    key = None if public_key is None else load_public_key(public_key)
    subject = _subject(file, certificate)
    verdicts = {
        name: verify_files(stated, key, subject.tables)
        for name, stated in subject.held.items()
    }
    if json:
        _print_answers(subject, verdicts)
    else:
        for name, verdict in verdicts.items():
            if name:
                print_line(printable(f"Meter {name}"))
            _print(subject.held[name], verdict, subject.others)
    raise typer.Exit(_exit_code(verdicts.values()))


def _print_answers(subject: _Subject, verdicts: Mapping[str, Verification]) -> None:
    answers = []
    for name, verdict in verdicts.items():
        answer = {
            "certificate": subject.certificate,
            "not_checked": subject.others,
            **_answer(subject.held[name], verdict),
        }
        if name:
            answer["meter"] = name
        answers.append(answer)
    print_json(answers[0] if "" in verdicts else {"certificates": answers})


def _exit_code(verdicts: Iterable[Verification]) -> int:
    outcomes = {
        "private" if verdict.private else verdict.outcome for verdict in verdicts
    }
    if outcomes <= {"private"}:
        return DONE
    if outcomes <= {"private", "not decided"}:
        return UNDECIDED
    return NO


@dataclass(frozen=True)
class _Subject:
    """What a command was asked to verify: certificates, the tables they are about, and what lies beside them."""

    certificate: str
    held: dict[str, Certificate]
    tables: dict[str, list[Sheet]]
    others: list[str]


def _subject(file: Path, note: Path | None) -> _Subject:
    """A table with its certificate, a certificate with its table, a package, or certificates alone."""
    from gaussveil.report.released import (
        carries_certificate,
        certificate_near,
        readings,
        table_near,
    )

    if not file.is_file():
        raise SourceError(f"{file}: is no file")
    if file.suffix.lower() == ".zip" and note is None:
        return _package(file)
    if note is None and _is_table(file):
        note = certificate_near(file)
    if note is not None:
        return _Subject(
            str(note),
            _held(note),
            {file.name: readings(file.name, file.read_bytes())},
            [],
        )
    held = _held(file)
    table = file if carries_certificate(file) else table_near(file)
    tables_near = {}
    if table is not None and "" in held:
        tables_near[table.name] = readings(table.name, table.read_bytes())
    return _Subject(str(file), held, tables_near, [])


def _is_table(file: Path) -> bool:
    """Whether a file holds released numbers; of JSON, which certificates are too, where a certificate is beside it."""
    from gaussveil.report.released import ENDINGS

    ending = file.suffix.lower()
    if ending == ".json":
        return certificate_beside(file).is_file()
    return ending in ENDINGS


def _package(file: Path) -> _Subject:
    """A certificate with the tables that were packed with it."""
    from gaussveil.accounting import Certificate
    from gaussveil.report.released import readings, unpacked

    body, tables, others = unpacked(file)
    return _Subject(
        str(file),
        {"": Certificate.from_json(body)},
        {name: readings(name, content) for name, content in tables.items()},
        others,
    )


def held_in(place: Path, *, deep: bool = True) -> dict[str, Certificate]:
    """The certificates in a file, or in all files of a folder, by the file's name; other files are passed over.

    Folders inside the folder are looked into as well where `deep` says so.
    """
    certificates: dict[str, Certificate] = {}
    if place.is_dir():
        files = sorted(place.rglob("*.json") if deep else place.glob("*.json"))
    else:
        files = [place]
    for path in files:
        try:
            certificates |= {
                f"{path.name} {name}".strip(): certificate
                for name, certificate in _held(path).items()
            }
        except FormatError:
            if path == place:
                raise
    return certificates


def _held(path: Path) -> dict[str, Certificate]:
    """The certificates in a file: one without a name, or one for every meter."""
    _refuse_table(path)
    try:
        return _read(path, read_json(path))
    except FormatError as error:
        words = str(error).removeprefix(f"{path}: ")
        raise FormatError(
            f"{path}: is not a certificate: {words.removeprefix('not a certificate: ')}"
        ) from error


def _read(path: Path, content: Any) -> dict[str, Certificate]:
    from gaussveil.accounting import Certificate

    if isinstance(content, dict):
        kind = content.get("format")
    else:
        kind = None
    if kind == "gaussveil meters":
        from gaussveil.streaming.meters import read_meters

        return {meter.name: meter.certificate for meter in read_meters(path)}
    if kind == "gaussveil mixture":
        from gaussveil.mechanisms import MixtureModel

        held = MixtureModel.read(path).certificate
        if held is None:
            raise FormatError(
                f"{path}: this mixture was released without a certificate, so nothing can be verified"
            )
        return {"": held}
    return {"": Certificate.read(path)}


def _refuse_table(path: Path) -> None:
    if path.suffix.lower() in TABLES and path.exists():
        raise FormatError(
            f"{path}: is a table; a certificate is a .json file: that of a release is {certificate_beside(path).name}"
        )


def _answer(read: Certificate, found: Verification) -> dict[str, object]:
    return {
        "verified": found.ok,
        "checked": found.checked,
        "outcome": found.outcome,
        "private": found.private,
        "guarantee": str(read.guarantee),
        "epsilon": read.epsilon,
        "delta": read.delta,
        "delta_lower": found.delta_lower,
        "delta_upper": found.delta_upper,
        "proven": found.proven,
        "signature": found.signature,
        "rests_on": found.rests_on,
        "unchecked": list(found.unchecked),
        "account": read.account,
        "problems": list(found.problems),
    }


def _print(read: Certificate, found: Verification, others: list[str]) -> None:
    if others:
        beside = f"; not checked: {', '.join(others)}"
    else:
        beside = ""
    print_line(printable(f"checked: {found.checked}{beside}"))
    print(read.describe())
    if found.proven:
        how = "proven"
    else:
        how = "computed in doubles, not proven"
    print_line(
        f"recomputed delta: at most {digits(found.delta_upper)}, {how}; signature: {found.signature}"
    )
    print_line(f"it rests on {found.rests_on}")
    if found.unchecked:
        print_line(printable(f"not checked, the issuer's word: {found.on_trust}"))
    for problem in found.problems:
        print(printable(f"does not hold: {problem}"))
    words = {
        "verified": "verified" if found.private else "verified, but no guarantee",
        "refuted": "does not verify",
    }
    print_line(words.get(found.outcome, found.outcome))


@key_app.command("new", epilog=EXIT_CODE_HELP)
def new(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Private key file; FILE.pub is the public one."
        ),
    ] = Path("gaussveil.key"),
    json: Json = False,
) -> None:
    """Make a key pair; the private file is readable by its owner only.

    Example: gaussveil key new owner.key
    """
    from gaussveil.accounting.certificates.keys import new_key

    check_targets(
        path, Path(f"{path}.pub"), force=True
    )  # for the folder; new_key itself never overwrites
    private, public = new_key(path)
    line = f"wrote {private} (keep it secret) and {public} (give it to receivers)"
    tell({"private_key": str(private), "public_key": str(public)}, [line], json=json)


@key_app.command("sign", epilog=EXIT_CODE_HELP)
def sign(
    certificate: CertificateFile,
    key: Annotated[Path, typer.Option(help="Private key file.", show_default=False)],
    json: Json = False,
) -> None:
    """Sign a certificate in place.

    Example: gaussveil key sign out.csv.certificate.json --key owner.key
    """
    from gaussveil.accounting import Certificate
    from gaussveil.accounting.certificates.keys import load_private_key

    _refuse_table(certificate)
    signed = Certificate.read(certificate).signed(load_private_key(key))
    with reserved(certificate) as stream:
        stream.write(signed.to_json().encode())
    answer = {
        "certificate": str(certificate),
        "signature": dict(signed.signature or {}),
    }
    tell(answer, [f"signed {certificate}"], json=json)
