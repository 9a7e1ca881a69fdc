"""`gaussveil verify` and `gaussveil key`: recompute certificates, make keys, sign."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gaussveil.cli.files import certificate_beside, check_targets, read_json, reserved
from gaussveil.cli.options import Json
from gaussveil.cli.output import DONE, EXIT_CODE_HELP, NO, UNDECIDED, digits, print_json, print_line, tell
from gaussveil.errors import FormatError
from gaussveil.files import printable

if TYPE_CHECKING:
    from gaussveil.accounting import Certificate, Verification

key_app = typer.Typer(name="key", help="Ed25519 keys for certificates.", epilog=EXIT_CODE_HELP, no_args_is_help=True)

TABLES = (".csv", ".gz", ".parquet", ".xlsx", ".arrow", ".npy")
CertificateFile = Annotated[Path, typer.Argument(metavar="CERTIFICATE", help="Certificate file.", show_default=False)]


def verify(
    certificate: CertificateFile,
    public_key: Annotated[Path | None, typer.Option(help="Public key that must have signed it.")] = None,
    json: Json = False,
) -> None:
    """Recompute a certificate: delta in both directions, the arithmetic and the signature.

    Takes a certificate, a mixture model, which holds its own, or a file of meters, which holds one per meter. Ends with
    1 if anything does not hold, or if a certificate claims no guarantee at all; with 3 if a proof is wanting.

    Example: gaussveil verify out.csv.certificate.json --public-key owner.key.pub
    """
    from gaussveil.accounting import verify as recompute
    from gaussveil.accounting.certificates.keys import load_public_key

    key = load_public_key(public_key) if public_key is not None else None
    held = _held(certificate)
    found = [recompute(read, key) for read in held.values()]
    if json:
        answers = [
            {"certificate": str(certificate), **_answer(read, one)} | ({"meter": name} if name else {})
            for (name, read), one in zip(held.items(), found)
        ]
        print_json(answers[0] if "" in held else {"certificates": answers})
    else:
        for (name, read), one in zip(held.items(), found):
            if name:
                print_line(printable(f"Meter {name}"))
            _print(read, one)
    open_only = all(one.private or one.outcome == "not decided" for one in found)
    raise typer.Exit(DONE if all(one.private for one in found) else UNDECIDED if open_only else NO)


def held_in(place: Path, *, deep: bool = True) -> dict[str, Certificate]:
    """The certificates in a file, or in all files of a folder, by the file's name; other files are passed over.

    Folders inside the folder are looked into as well where `deep` says so.
    """
    found: dict[str, Certificate] = {}
    files = sorted(place.rglob("*.json") if deep else place.glob("*.json")) if place.is_dir() else [place]
    for path in files:
        try:
            found |= {f"{path.name} {name}".strip(): one for name, one in _held(path).items()}
        except FormatError:
            if path == place:
                raise
    return found


def _held(path: Path) -> dict[str, Certificate]:
    """The certificates in a file: one without a name, or one for every meter."""
    _refuse_table(path)
    try:
        return _read(path, read_json(path))
    except FormatError as error:
        words = str(error).removeprefix(f"{path}: ")
        raise FormatError(f"{path}: is not a certificate: {words.removeprefix('not a certificate: ')}") from error


def _read(path: Path, content: Any) -> dict[str, Certificate]:
    from gaussveil.accounting import Certificate

    kind = content.get("format") if isinstance(content, dict) else None
    if kind == "gaussveil meters":
        from gaussveil.streaming.meters import read_meters

        return {meter.name: meter.certificate for meter in read_meters(path)}
    if kind == "gaussveil mixture":
        from gaussveil.mechanisms import MixtureModel

        held = MixtureModel.read(path).certificate
        if held is None:
            raise FormatError(f"{path}: this mixture was released without a certificate, so nothing can be verified")
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
        "outcome": found.outcome,
        "private": found.private,
        "guarantee": str(read.guarantee),
        "epsilon": read.epsilon,
        "delta": read.delta,
        "delta_lower": found.delta_lower,
        "delta_upper": found.delta_upper,
        "signature": found.signature,
        "rests_on": found.rests_on,
        "account": read.account,
        "problems": list(found.problems),
    }


def _print(read: Certificate, found: Verification) -> None:
    print(read.describe())
    print_line(f"recomputed delta: at most {digits(found.delta_upper)}; signature: {found.signature}")
    print_line(f"it rests on {found.rests_on}")
    for problem in found.problems:
        print(printable(f"does not hold: {problem}"))
    words = {"verified": "verified" if found.private else "verified, but no guarantee", "refuted": "does not verify"}
    print_line(words.get(found.outcome, found.outcome))


@key_app.command("new", epilog=EXIT_CODE_HELP)
def new(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="Private key file; FILE.pub is the public one.")] = Path(
        "gaussveil.key"
    ),
    json: Json = False,
) -> None:
    """Make a key pair; the private file is readable by its owner only.

    Example: gaussveil key new owner.key
    """
    from gaussveil.accounting.certificates.keys import new_key

    check_targets(path, Path(f"{path}.pub"), force=True)  # for the folder; new_key itself never overwrites
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
    answer = {"certificate": str(certificate), "signature": dict(signed.signature or {})}
    tell(answer, [f"signed {certificate}"], json=json)
