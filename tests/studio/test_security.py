"""The door: names, tokens, origins, forged requests, sizes, paths; and nothing private in errors or logs."""

from __future__ import annotations

import datetime
import ipaddress
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import requests
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from gaussveil.accounting import Ledger
from gaussveil.errors import ParameterError
from gaussveil_studio.access import MOST_GUESSERS, Access, guesser
from gaussveil_studio.settings import Settings, is_loopback, require_protection

if TYPE_CHECKING:
    from .conftest import Running

pytestmark = pytest.mark.xdist_group("studio")

CURVE = {"variance_ratio": [1.2], "mean_shift": [0.5], "points": 3}


def cookies(studio: Running) -> tuple[dict[str, str], str]:
    """A session as a browser gets it, and the token against forged requests that its pages hold."""
    session, home = requests.Session(), {"Host": studio.pages.removeprefix("http://")}
    entered = f"{studio.address}/?token={studio.token}"
    first = session.get(entered, headers=home, allow_redirects=False, timeout=60)
    assert (first.status_code, first.headers["location"]) == (303, "/")
    assert "HttpOnly; SameSite=Lax" in first.headers["set-cookie"]
    page = session.get(studio.address + "/explore", headers=home, timeout=60).text
    return session.cookies.get_dict(), page.split('name="csrf-token" content="')[1].split('"')[0]


def post(studio: Running, **headers: str) -> int:
    jar, csrf = cookies(studio)
    home = studio.pages.removeprefix("http://")
    sent = {"Host": home, "Origin": studio.pages, "X-CSRF-Token": csrf, **headers}
    sent = {name: value for name, value in sent.items() if value}
    return requests.post(studio.address + "/api/curve", json=CURVE, headers=sent, cookies=jar, timeout=60).status_code


@pytest.mark.parametrize(
    "path", ["/explore", "/api/accounts", "/api/openapi.json", "/accounts", "/?token=wrong", "/no"]
)
def test_without_the_token_nothing_is_told(studio: Running, path: str) -> None:
    for headers in ({}, {"Authorization": "Bearer x"}, {"Cookie": "gaussveil_1=x; gaussveil"}):
        answer = requests.get(studio.address + path, headers=headers, timeout=60, allow_redirects=False)
        assert answer.status_code == 401
        assert "set-cookie" not in answer.headers
        assert "script-src 'self'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.2", "localhost:1:1", "localhost.evil.example", "", "[::1]"])
def test_other_names_are_not_ours(studio: Running, host: str) -> None:
    assert studio.client.get("/api/tables", headers={"Host": host}).status_code == 400


def test_only_our_own_pages_change_anything(studio: Running) -> None:
    port = studio.address.rsplit(":", 1)[1]
    assert post(studio) == 200
    for origin in ("http://evil.example", "null", f"https://127.0.0.1:{port}", "http://127.0.0.1:1", studio.address):
        assert post(studio, Origin=origin) == 403
    # The session is taken at the host of pages alone, whatever the page.
    for name in (f"127.0.0.1:{port}", f"localhost:{port}"):
        assert post(studio, Host=name, Origin=f"http://{name}") == 401
    assert post(studio, Origin="") == 403
    assert post(studio, **{"Origin": "", "Sec-Fetch-Site": "same-origin"}) == 200
    assert post(studio, **{"X-CSRF-Token": ""}) == 403
    assert post(studio, **{"X-CSRF-Token": "0" * 64}) == 403
    assert studio.client.post("/api/curve", json=CURVE).status_code == 200
    assert studio.client.post("/api/curve", json=CURVE, headers={"Origin": "http://evil.example"}).status_code == 403


def test_the_token_leaves_the_address_and_never_leads_elsewhere(studio: Running) -> None:
    for path in ("//evil.example/", "/\\evil.example", "/%0d%0aX-Evil: 1"):
        entered, home = (
            f"{studio.address}{path}?token={studio.token}&a=1",
            {"Host": studio.pages.removeprefix("http://")},
        )
        lost = requests.get(entered, timeout=60, allow_redirects=False)  # at the address of programs
        assert lost.headers["location"].startswith(f"{studio.pages}/")
        assert "set-cookie" not in lost.headers
        answer = requests.get(entered, headers=home, timeout=60, allow_redirects=False)
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/")
        assert not answer.headers["location"].startswith(("//", "/\\"))
        assert studio.token not in answer.headers["location"]
        assert "x-evil" not in answer.headers


@pytest.mark.parametrize(
    "table",
    [
        "folder-0/../outside.csv",
        "folder-0/link.csv",
        "folder-0//etc/passwd",
        "/etc/passwd",
        "folder-1/small.csv",
        "folder-0/",
        "folder-0/.",
        "folder-0/%2e%2e/outside.csv",
        "folder-0/..\\outside.csv",
        "folder--1/small.csv",
        "folder-0/small.csv/../../outside.csv",
        "upload-0",
        "address-0",
        "folder-0/home.ledger",
        "folder-\u0660/small.csv",
    ],
)
def test_no_table_outside_the_given_folders(studio: Running, table: str) -> None:
    assert studio.client.get("/api/columns", params={"table": table}).status_code == 422
    listed = [one["name"] for one in studio.client.get("/api/tables").json()["tables"]]
    assert "small.csv" in listed
    assert "link.csv" not in listed


def test_no_file_but_those_of_a_release(studio: Running) -> None:
    account = studio.account()
    order = studio.order(account, "stream", None)
    studio.client.post("/api/releases", json=order)
    assert studio.finished(order["key"])["state"] == "released"
    base = f"/api/releases/{order['key']}/files/"
    assert studio.client.get(base + "certificate.json").status_code == 200
    for name in ("request.json", "done.json", "..%2f..%2fhome.ledger", "%2e%2e", ".lock", "certificate.json%00"):
        assert studio.client.get(base + name).status_code in (404, 422)
    for path in ("/static/../application.py", "/static/%2e%2e/application.py", "/static/..%2fserver.py", "/static/"):
        assert studio.client.get(path).status_code in (404, 405)


def test_sizes_are_limited_whatever_the_request_says(studio: Running) -> None:
    big = b"1\n" * (1100 * 1024)
    assert studio.client.post("/api/tables", files={"file": ("big.csv", big)}).status_code == 413

    def pieces() -> Any:
        yield b'--x\r\nContent-Disposition: form-data; name="file"; filename="big.csv"\r\n\r\n'
        yield from (big[:65536] for _ in range(40))

    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    assert studio.client.post("/api/tables", data=pieces(), headers=headers).status_code == 413
    assert studio.client.post("/api/curve", data=b" " * (1 << 21)).status_code == 413
    small = studio.client.post("/api/tables", files={"file": ("../../up.csv", b"a\n1\n")})
    assert (small.status_code, small.json()["name"]) == (201, "up.csv")
    stored = list((studio.folder / "home.ledger.studio" / "uploads").iterdir())
    assert all(path.name.startswith(("upload-", "sample.")) for path in stored)  # whatever somebody called them
    assert all(path.stat().st_mode & 0o077 == 0 for path in stored)


def test_errors_and_logs_hold_no_values(studio: Running) -> None:
    secret = "8642097531"
    for body in (
        {"variance_ratio": [secret], "mean_shift": [float(secret)]},
        {"variance_ratio": secret, secret: secret},
        {"order": {"mechanism": secret}},
    ):
        for path in ("/api/curve", "/api/preview", "/api/releases", "/api/accounts"):
            answer = studio.client.post(path, json=body)
            assert answer.status_code == 422
            assert secret not in answer.text
    assert studio.client.get(f"/explore?r={secret}").status_code == 200
    words = studio.client.post("/api/preview", json={"table": "folder-0/words.csv", "order": {"mechanism": "vector"}})
    assert words.status_code == 422
    assert "hidden77" not in words.text
    assert str(studio.folder) not in words.text
    assert secret not in studio.log
    assert "hidden77" not in studio.log
    assert "token=" not in studio.log


def test_every_answer_forbids_what_we_do_not_need(studio: Running) -> None:
    for path in ("/explore", "/static/studio.css", "/api/tables", "/nothing", "/release/x"):
        headers = studio.client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "server" not in headers
        assert headers["cache-control"] == ("private, max-age=3600" if "static" in path else "no-store")


def test_other_addresses_need_a_password_and_tls(tmp_path: Path) -> None:
    assert all(is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "127.3.2.1"))
    assert not any(is_loopback(host) for host in ("0.0.0.0", "::", "192.168.0.1", "evil.localhost", "localhost.evil"))
    with pytest.raises(ParameterError, match="password"):
        require_protection("0.0.0.0", "long enough password", None, None)
    program = str(Path(sys.executable).parent / "gaussveil")
    weak = tmp_path / "password"
    weak.write_text("correct horse battery\n", encoding="utf-8")
    weak.chmod(0o644)
    for options, words in (
        (["--host", "0.0.0.0"], "can be reached by others"),
        (["--password-file", str(weak)], "chmod 600"),
    ):
        done = subprocess.run(
            [program, "studio", "--no-browser", *options], capture_output=True, text=True, cwd=tmp_path
        )
        assert done.returncode == 2
        assert words in done.stderr
    assert list(tmp_path.iterdir()) == [weak]


def test_a_password_over_tls_lets_in(tmp_path: Path, started_studio: Any) -> None:
    certificate, key = self_signed(tmp_path)
    secret = tmp_path / "password"
    secret.write_text("correct horse battery\n", encoding="utf-8")
    secret.chmod(0o600)
    (tmp_path / "tables").mkdir()
    Ledger.create(tmp_path / "home.ledger")
    options = ["--host", "0.0.0.0", "--name", "localhost", "--password-file", str(secret)]
    with started_studio(tmp_path, *options, "--tls-cert", str(certificate), "--tls-key", str(key)) as running:
        assert running.token is None
        session = requests.Session()
        session.verify, session.trust_env = str(certificate), False
        page = session.get(running.address + "/", headers={"Accept": "text/html"}, timeout=60)
        assert page.url.endswith("/login")
        assert session.get(running.address + "/api/tables", timeout=60).status_code == 401
        origin = {"Origin": running.address}

        def enter(word: str, headers: dict[str, str]) -> requests.Response:
            return session.post(
                running.address + "/login", data={"password": word}, headers=headers, timeout=60, allow_redirects=False
            )

        assert enter("correct horse battery", {"Origin": "https://evil.example"}).status_code == 403
        assert enter("wrong", origin).status_code == 401
        entered = enter("correct horse battery", origin)
        assert entered.status_code == 303
        assert entered.headers["set-cookie"].endswith("; Secure")
        assert session.get(running.address + "/api/tables", timeout=60).status_code == 200
        assert session.get(running.address + "/diagnostics", timeout=60).status_code == 404  # not switched on
        session.cookies.clear()
        bearer = {"Authorization": "Bearer correct horse battery"}
        assert session.get(running.address + "/api/tables", headers=bearer, timeout=60).status_code == 200
        guesses = []
        for number in range(12):  # whoever names other senders in a header is still one guesser
            wrong = {"Authorization": "Bearer guess", "X-Forwarded-For": f"198.51.100.{number}"}
            guesses.append(session.get(running.address + "/api/tables", headers=wrong, timeout=60))
        assert {guess.status_code for guess in guesses} == {401, 429}


def test_guessing_makes_the_guesser_wait_and_nobody_else(tmp_path: Path) -> None:
    access = Access(Settings(port=1, ledger=tmp_path, state=tmp_path, password="correct horse battery"))
    there, here = (guesser({"client": (host, 1)}) for host in ("2001:db8::1", "192.0.2.7"))
    for _ in range(4):
        assert not access.bears("Bearer guess", there)
    assert access.wait(there) == 0
    for k in range(8):
        assert not access.bears("Bearer guess", guesser({"client": (f"2001:db8::{k}:5%eth0", k)}))  # one network
    assert access.wait(there) > 30
    assert access.wait(here) == 0
    assert access.bears("bearer correct horse battery", here)
    assert access.wait(there) > 30
    access.note(True, there)
    assert access.wait(there) == 0
    for k in range(MOST_GUESSERS + 50):
        access.note(False, str(k))
    assert len(access._guesses) == MOST_GUESSERS


def self_signed(folder: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate, private = folder / "certificate.pem", folder / "key.pem"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return certificate, private
